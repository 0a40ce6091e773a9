"""The configuration file: reading it, what it decides, and archivefs config."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from archivefs.cli import configreading, plainyaml
from archivefs.cli.configuration import Word, configuration_for, default_path, layered, load
from archivefs.cli.mount_helper import translated
from archivefs.cli.shared import OpenRequest
from archivefs.cli.sources import plan
from archivefs.errors import UsageError
from archivefs.format import PluginBroken
from archivefs.fuse.options import MOUNT_OPTIONS, OPEN_OPTIONS
from tests.cli.conftest import Run
from tests.fakes import OPENED, fake, register, write_fake

EVERYTHING = """\
options:
  umask: 077
  cache_size: 8M
formats:
  fake:
    colour: green
    timeout: 5
mounts:
  island:
    sources: [site.fake, ~/other.fake]
    mountpoint: mnt
    options: {umask: 022, loud: yes}
  one: {sources: site.fake, mountpoint: /mnt/one, format: fake, subdir: docs, externals: [more.fake]}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home folder, without a configuration yet."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    return tmp_path


@pytest.fixture
def config(home: Path) -> Path:
    """Where the user's configuration is looked for; there is none yet."""
    path = home / ".config" / "archivefs" / "config.yaml"
    path.parent.mkdir(parents=True)
    return path


def general(path: Path, *texts: str) -> dict[str, object]:
    """The general options a mount of *path* would have."""
    return plan([str(path)], OpenRequest(option_texts=texts), general=(*MOUNT_OPTIONS, *OPEN_OPTIONS)).settings.general


# -- where it is --


def test_where_it_is(home: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    assert default_path() == f"{home}/.config/archivefs/config.yaml"
    monkeypatch.setenv("XDG_CONFIG_HOME", "/somewhere")
    assert default_path() == "/somewhere/archivefs/config.yaml"
    assert run("config", "path").lines == ["/somewhere/archivefs/config.yaml"]
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert default_path() == f"{home}/.config/archivefs/config.yaml"


def test_without_one_nothing_is_set_and_nothing_loaded(archive: Path, home: Path) -> None:
    assert configuration_for(()) == configuration_for(["config=off"])
    code = (
        "import sys; from archivefs.cli.configuration import configuration_for; configuration_for(());"
        "import archivefs.cli.mount, archivefs.cli.ls;"
        "print([name for name in sys.modules if 'yaml' in name or 'configreading' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_another_one_or_none(archive: Path, config: Path) -> None:
    config.write_text("options: {umask: 077}")
    other = config.with_name("other.yaml")
    other.write_text("options: {umask: 027}")
    assert general(archive)["umask"] == 0o077
    assert general(archive, f"config={other}")["umask"] == 0o027
    assert general(archive, "config=~/.config/archivefs/other.yaml")["umask"] == 0o027
    assert general(archive, "config=off")["umask"] is None
    assert general(archive, "config=off", f"config={other}")["umask"] == 0o027
    with pytest.raises(UsageError, match=r"no\.yaml: the configuration cannot be read: no such file"):
        general(archive, "config=/no.yaml")


def test_mount8_reads_none_unless_told(tmp_path: Path) -> None:
    assert translated(["umask=022"]) == ["-o", "umask=022", "-o", "config=off"]
    assert translated(["config=/etc/a.yaml"]) == ["-o", "config=/etc/a.yaml"]


# -- what it decides --


def test_the_nearer_one_counts(archive: Path, config: Path) -> None:
    config.write_text(EVERYTHING)
    found = general(archive)
    assert (found["umask"], found["cache_size"], found["timeout"]) == (0o077, 8 << 20, 5.0)
    assert general(archive, "umask=002")["umask"] == 0o002
    zipped = plan([str(archive)], OpenRequest(option_texts=("colour=red",)))
    assert zipped.settings.of(zipped.sources[0].format) == {"colour": "red", "depth": None, "loud": None}  # type: ignore[arg-type]


def test_it_counts_for_commands_that_do_not_mount_too(run: Run, archive: Path, config: Path) -> None:
    config.write_text(EVERYTHING)
    assert run("info", "--json", archive).json["facts"]["colour"] == "green"
    assert OPENED[-1].opening.cache.limit == 8 << 20
    assert run("info", "--json", "-o", "colour=red", archive).json["facts"]["colour"] == "red"
    assert run("info", "--json", "-o", "config=off", archive).json["facts"]["colour"] == "grey"


def test_options_of_a_format_count_only_where_no_other_is(
    archive: Path, tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text("formats: {fake: {timeout: 5, colour: green}}")
    folder = tmp_path / "folder"
    folder.mkdir()
    write_fake(folder / "a.fake", {"a": b"a"})
    assert general(folder)["timeout"] == 30
    tree = plan([str(folder)], OpenRequest()).open()
    list(tree.root().child("a.fake").entries())  # type: ignore[attr-defined]
    assert OPENED[-1].opening.options["colour"] == "green"
    tree.close()


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        (["rw"], ["ro"], ["ro"]),
        (["ro"], ["rw"], ["rw"]),
        (["rw"], ["ro=no"], ["rw", "ro=no"]),
        (["fmask=1", "dmask=2"], ["umask=0"], ["umask=0"]),
        (["umask=0"], ["fmask=1"], ["umask=0", "fmask=1"]),
        (["a=1", "a=2"], ["b"], ["a=1", "a=2", "b"]),
        (["a=1", "a=2"], ["a=3"], ["a=3"]),
    ],
)
def test_how_layers_meet(before: list[str], after: list[str], left: list[str]) -> None:
    assert [word.text for word in layered([Word(text) for text in before], [Word(text) for text in after])] == left


def test_named_mounts(config: Path, home: Path) -> None:
    config.write_text(EVERYTHING)
    found = load(str(config))
    island = found.named("island")
    folder = config.parent
    assert island.sources == (f"{folder}/site.fake", f"{home}/other.fake")
    assert island.mountpoint == f"{folder}/mnt"
    assert [word.text for word in island.words] == ["umask=022", "loud=yes"]
    one = found.named("one")
    assert (one.format, one.subdir, one.externals) == ("fake", "docs", (f"{folder}/more.fake",))
    with pytest.raises(UsageError, match=r"no mount is called 'iland' \(.*config.yaml has: island, one\)"):
        found.named("iland")


def test_one_word_that_is_no_name(run: Run, archive: Path, home: Path) -> None:
    outcome = run("mount", archive)
    assert (outcome.code, outcome.out) == (2, b"")
    assert "no mount is called" in outcome.err
    assert "usage: archivefs mount ARCHIVE... MOUNTPOINT, or archivefs mount NAME\n" in outcome.err


# -- mistakes --


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("option: {}", "1: unknown key 'option'; did you mean options?"),
        ("\n\nxyzzy: 1", "3: unknown key 'xyzzy'; there are: formats, mounts, options"),
        ("options:\n  umsk: 022", "2: unknown option 'umsk'; did you mean umask?"),
        ("options: {colour: red}", "1: unknown option 'colour'"),
        ("options: {config: a}", "1: unknown option 'config'"),
        ("options:\n  - umask", "1: options: names with values are expected here"),
        ("options:\n  umask: 9", "2: option umask='9' makes no sense: an octal number such as 022 is expected"),
        ("options: {index: on}", "1: option index='on' makes no sense: auto, off or a folder is expected; write ./on"),
        ("options: {umask: [1]}", "1: umask: one value is expected here"),
        ("options: {rw: maybe}", "1: option rw='maybe' makes no sense: yes or no is expected"),
        ("options: {umask: }", "1: option umask='' makes no sense"),
        ("formats:\n  fke: {}", "2: no format is called 'fke'; did you mean fake?"),
        ("formats:\n  fake:\n    colur: red", "3: unknown option 'colur'; did you mean colour?"),
        ("mounts: {a: {}}", "1: the mount 'a' has no sources"),
        ("mounts: {a: {sources: b}}", "1: the mount 'a' has no mountpoint"),
        ("mounts:\n  a:\n    source: b", "3: unknown key 'source'; did you mean sources?"),
        ("mounts: {a: {sources: b, mountpoint: c, format: [d]}}", "1: format: one value is expected here"),
        ("mounts: {a: {sources: b, mountpoint: c, format: fak}}", "1: no format is called 'fak'; did you mean fake?"),
        ("mounts: {a: {sources: b, mountpoint: c, options: {loudd: yes}}}", "1: unknown option 'loudd'; did you mean"),
        ("mounts: {a: {sources: {b: c}, mountpoint: c}}", "1: a path: one value is expected here"),
        ("options: {a: b\n", "2: this is not YAML"),
        ("options: {}\noptions: {}", "2: 'options' is there twice"),
        ("options: &a {}\nformats: *a", "1: anchors and aliases are not allowed"),
        ("options: !!set {}", "1: the tag tag:yaml.org,2002:set is not allowed"),
        ("options: {}\n---\na: b", "2: there is a second document"),
        ("[" * 5000, "1: this is nested deeper than 8 levels"),
        ("? [a]\n: b", "1: a name is expected before the colon"),
        ("options:\n\tumask: 1", "2: this is not YAML"),
        ("a: \x00", "1: this is not YAML: it holds characters that no text has"),
        ("just words", "1: the configuration: names with values are expected here"),
    ],
)
def test_a_mistake_is_told_with_its_line(run: Run, archive: Path, config: Path, text: str, says: str) -> None:
    config.write_text(text)
    for command in (["config", "check"], ["config", "show"], ["ls", archive], ["mount", archive, config.parent / "m"]):
        outcome = run(*command)
        assert (outcome.code, outcome.out) == (2, b"")
        assert outcome.err.startswith(f"archivefs: {config}:{says}")
        assert outcome.err.count("\n") == 1


def test_what_is_no_text(run: Run, config: Path) -> None:
    config.write_bytes(b"options:\n  fsname: \xff\n")
    assert run("config", "check").err == f"archivefs: {config}:2: this is not UTF-8\n"
    config.write_bytes(b" " * (plainyaml.MAX_BYTES + 1))
    assert "larger than 256 KiB" in run("config", "check").err
    config.unlink()
    config.mkdir()
    assert run("config", "check").err == f"archivefs: {config}: the configuration cannot be read: is a directory\n"
    config.rmdir()
    os.mkfifo(config)
    assert run("config", "check").err == f"archivefs: {config}: the configuration is not a file\n"


@pytest.mark.parametrize("text", ["", "# nothing\n", "options:\nformats:\nmounts:\n", "\ufeffoptions: {}", "---\n"])
def test_empty_ones(run: Run, config: Path, text: str) -> None:
    config.write_text(text)
    assert run("config", "check").text == f"{config}: ok; mounts: none\n"


def test_a_format_that_cannot_be_loaded_does_not_stop_others(
    run: Run, archive: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch, [fake()], [PluginBroken("odd", "no wheels")])
    config.write_text("formats: {odd: {speed: 3}}")
    assert run("ls", archive).code == 0


def test_paths_in_options_begin_at_the_file(config: Path) -> None:
    config.write_text("options: {index: tables}")
    assert [word.text for word in load(str(config)).words] == [f"index={config.parent}/tables"]
    config.write_text("options: {index: auto}")
    assert [word.text for word in load(str(config)).words] == ["index=auto"]
    assert {"DIR", "PATH"} <= configreading.PATHS


def test_a_value_with_a_comma(archive: Path, config: Path) -> None:
    config.write_text('options: {fsname: "a,b"}')
    assert general(archive)["fsname"] == "a,b"


# -- archivefs config --


def test_check(run: Run, config: Path) -> None:
    assert run("config", "check").text == f"{config}: there is none\n"
    config.write_text(EVERYTHING)
    assert run("config", "check").text == f"{config}: ok; mounts: island, one\n"
    other = config.with_name("other.yaml")
    assert run("config", "check", other).code == 2
    other.write_text("mounts: {}")
    assert run("config", "check", other).text == f"{other}: ok; mounts: none\n"


def test_show(run: Run, config: Path) -> None:
    assert run("config", "show").lines[:2] == ["file: none", "ro                   no          built in"]
    config.write_text(EVERYTHING)
    lines = [line.split() for line in run("config", "show", "-o", "timeout=9").lines]
    assert ["umask", "077", f"{config}:2"] in lines
    assert ["timeout", "9", "the", "command", "line"] in lines
    assert ["transport", "auto", "built", "in"] in lines
    assert ["fake", "colour", "green", f"{config}:6"] in lines
    assert lines[-1] == ["mount", "one:", f"{config.parent}/site.fake", "at", "/mnt/one", f"{config}:13"]


def test_show_as_json(run: Run, config: Path) -> None:
    config.write_text(EVERYTHING)
    answer = run("config", "show", "--json").json
    assert answer["file"] == str(config)
    assert {"option": "umask", "value": "077", "from": f"{config}:2"} in answer["settings"]
    assert {"option": "colour", "value": "green", "from": f"{config}:6", "format": "fake"} in answer["settings"]
    assert list(answer["mounts"]) == ["island", "one"]


def test_show_a_mount(run: Run, config: Path) -> None:
    config.write_text(EVERYTHING)
    answer = run("config", "show", "--json", "-o", "umask=027", "island").json
    assert answer["mount"]["mountpoint"] == f"{config.parent}/mnt"
    rows = {row["option"]: (row["value"], row["from"]) for row in answer["settings"]}
    assert rows["umask"] == ("027", "the command line")
    assert rows["loud"] == ("yes", f"{config}:12")
    assert rows["cache_size"] == ("8M", f"{config}:3")
    assert rows["timeout"] == ("30.0", "built in")
    one = {row["option"]: row["value"] for row in run("config", "show", "--json", "one").json["settings"]}
    assert (one["colour"], one["timeout"]) == ("green", "5")
    assert "no mount is called" in run("config", "show", "none").err


def test_show_a_mount_whose_format_is_found(run: Run, config: Path, archive: Path) -> None:
    config.write_text(
        f"formats: {{fake: {{timeout: 5}}}}\nmounts: {{a: {{sources: {archive}, mountpoint: m, options: {{loud: }}}}}}"
    )
    rows = run("config", "show", "--json", "a").json["settings"]
    assert {"option": "loud", "value": "yes", "from": f"{config}:2", "format": "fake"} in rows
    assert {"option": "timeout", "value": "5", "from": f"{config}:1"} in rows


def test_show_refuses_what_a_mount_would(run: Run, config: Path) -> None:
    assert "did you mean umask?" in run("config", "show", "-o", "umsk=1").err
