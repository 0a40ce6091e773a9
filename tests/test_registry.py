"""The registry: which formats there are, which one an archive is, and whose option is whose."""

from __future__ import annotations

import errno
import os
import sys
import textwrap
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from archivefs import registry
from archivefs.errors import (
    AmbiguousFormat,
    BadOption,
    CorruptArchive,
    MissingLibrary,
    UnknownFormat,
    UnknownOption,
    UnreadableArchive,
)
from archivefs.format import Match, Opening, PluginBroken, Probe
from archivefs.options import Option, size
from archivefs.plugins import Plugin, offered
from tests.fakes import FakeTree, fake, register, write_fake


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_fake(tmp_path / "a.fake", {"x": b"x"})


def maybe(_probe: object) -> Match:
    return Match.MAYBE


def never(_probe: object) -> Match:
    return Match.NO


# -- which formats there are --


def test_our_own_formats_are_found_by_their_entry_points() -> None:
    assert registry.formats()["zip"].name == "zip"
    assert registry.broken() == []


def installed(folder: Path, package: str, text: str) -> None:
    place = folder / package
    place.mkdir(parents=True)
    (place / "entry_points.txt").write_text(text)


def test_entry_points_are_those_that_importlib_finds() -> None:
    for group in (registry.GROUP, "console_scripts", "pytest11", "there.is.none"):
        expected = {(point.name, point.value) for point in entry_points(group=group)}
        assert offered(group) == expected
    assert offered("pytest11")


def test_a_package_that_is_there_twice_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    text = "# ours\n[some.group]\na = there:THAT\n\n[other.group]\nb = there:THIS [more]\n"
    installed(new, "it_is-2.dist-info", text)
    installed(old, "it_is-1.dist-info", "[some.group]\ngone = there:GONE\n")
    (old / "bare-1.egg-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(new), str(tmp_path / "missing"), str(old)])
    assert offered("some.group") == {("a", "there:THAT")}
    assert offered("other.group") == {("b", "there:THIS [more]")}


def test_a_package_that_offers_nothing_any_more_hides_its_older_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new" / "it_is-2.dist-info").mkdir(parents=True)
    installed(tmp_path / "old", "it_is-1.dist-info", "[some.group]\ngone = there:GONE\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "new"), str(tmp_path / "old")])
    assert offered("some.group") == set()


def test_a_list_of_entry_points_that_is_no_text_keeps_nobody_else_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad-1.dist-info").mkdir()
    (tmp_path / "bad-1.dist-info" / "entry_points.txt").write_bytes(b"[some.group]\n\xff = a:b\n")
    installed(tmp_path, "good-1.dist-info", "[some.group]\na = there:THAT\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert offered("some.group") == {("a", "there:THAT")}


def test_packages_in_a_zip_on_the_path_are_found_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "lib.zip", "w") as lib:
        lib.writestr("zipped-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: zipped\nVersion: 1\n")
        lib.writestr("zipped-1.dist-info/entry_points.txt", "[some.group]\na = there:THAT\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "lib.zip")])
    assert offered("some.group") == {("a", "there:THAT")}


@pytest.mark.parametrize("value", ["os.path:join", "os:path.join", "os.path : join [more]"])
def test_a_plugin_is_what_its_entry_point_says(value: str) -> None:
    assert Plugin("join", value).load() is os.path.join


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for modules that plug-ins could be made of."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("plugin_good", "plugin_broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    good = """
        from tests.fakes import fake
        GOOD = fake("good")
        WRONG = "not a format"
    """
    (tmp_path / "plugin_good.py").write_text(textwrap.dedent(good))
    (tmp_path / "plugin_broken.py").write_text("import there_is_no_such_module\n")
    return tmp_path


def point(name: str, value: str) -> Plugin:
    return Plugin(name, value)


def test_a_plugin_that_fails_is_reported_and_the_others_work(plugins: Path) -> None:
    loaded = registry._load([point("bad", "plugin_broken:FORMAT"), point("good", "plugin_good:GOOD")])
    assert list(loaded.formats) == ["good"]
    assert [str(plugin) for plugin in loaded.broken] == [
        "format bad cannot be loaded: ModuleNotFoundError: No module named 'there_is_no_such_module'"
    ]


def test_an_entry_point_that_is_no_format_is_reported(plugins: Path) -> None:
    loaded = registry._load([point("wrong", "plugin_good:WRONG"), point("other", "plugin_good:GOOD")])
    assert loaded.formats == {}
    assert [str(plugin) for plugin in loaded.broken] == [
        "format other cannot be loaded: its entry point offers the format 'good' under another name",
        "format wrong cannot be loaded: its entry point is a str and not a Format",
    ]


def test_an_entry_point_seen_twice_is_one_format(plugins: Path) -> None:
    loaded = registry._load([point("good", "plugin_good:GOOD")] * 2)
    assert (list(loaded.formats), loaded.broken) == (["good"], [])


def test_two_plugins_of_one_name_are_reported(plugins: Path) -> None:
    (plugins / "plugin_second.py").write_text("from plugin_good import GOOD\n")
    loaded = registry._load([point("good", "plugin_good:GOOD"), point("good", "plugin_second:GOOD")])
    assert list(loaded.formats) == ["good"]
    assert [str(plugin) for plugin in loaded.broken] == [
        "format good cannot be loaded: two plug-ins offer a format of that name"
    ]


# -- which one an archive is --


def test_the_surest_match_wins(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [fake("aaa", match=maybe), fake("sure"), fake("zzz", match=maybe)])
    assert registry.detect(str(archive)).name == "sure"


def test_a_tie_names_the_rivals(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [fake("one"), fake("two"), fake("three", match=maybe)])
    with pytest.raises(AmbiguousFormat) as caught:
        registry.detect(str(archive))
    assert str(caught.value) == f"{archive}: it could be any of one, two; choose one, such as --format one"


def test_forcing_a_format_settles_a_tie(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [fake("one"), fake("two")])
    assert registry.detect(str(archive), "two").name == "two"


def test_what_nobody_recognises_says_what_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = PluginBroken("odd", ImportError("no wheels"))
    register(monkeypatch, [fake("one"), fake("two")], [broken])
    (tmp_path / "x").write_bytes(b"nothing known")
    with pytest.raises(UnknownFormat) as caught:
        registry.detect(str(tmp_path / "x"))
    assert str(caught.value) == (
        f"{tmp_path}/x: no format recognises it (tried: one, two); "
        "format odd cannot be loaded: ImportError: no wheels; force one with --format NAME, or see archivefs formats"
    )


def test_an_empty_file_is_called_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [fake()])
    (tmp_path / "x").touch()
    with pytest.raises(UnknownFormat, match="no format recognises it, for it is empty"):
        registry.detect(str(tmp_path / "x"))


@pytest.mark.parametrize("forced", [None, "fake"])
def test_a_missing_file_is_told_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forced: str | None) -> None:
    register(monkeypatch, [fake()])
    with pytest.raises(UnreadableArchive) as caught:
        registry.detect(str(tmp_path / "gone"), forced)
    assert str(caught.value) == f"{tmp_path}/gone: no such file or folder"


def test_looking_at_a_file_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert Probe(str(tmp_path / "fifo")).head == b""


def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [fake()])
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UnreadableArchive, match="neither a file nor a folder"):
        registry.detect(str(tmp_path / "fifo"))


def test_an_error_of_the_disk_is_told_as_one(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [fake()])

    def refuse(*_args: object, **_more: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("archivefs.format.open", refuse, raising=False)
    with pytest.raises(UnreadableArchive) as caught:
        registry.detect(str(archive))
    assert str(caught.value) == f"{archive}: permission denied"


def test_a_forced_format_nobody_has_names_the_nearest(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [fake("labrador"), fake("zip")], [PluginBroken("odd", ImportError("no wheels"))])
    for asked, answer in {
        "labradr": "no format is called 'labradr'; did you mean labrador?",
        "xyzzy": "no format is called 'xyzzy'; there are: labrador, zip",
        "odd": "format odd cannot be loaded: ImportError: no wheels",
    }.items():
        with pytest.raises(UnknownFormat) as caught:
            registry.detect(str(archive), asked)
        assert str(caught.value) == answer


def test_a_match_with_a_bug_does_not_keep_the_others_away(
    archive: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def bug(_probe: object) -> Match:
        raise ZeroDivisionError("no\nway")

    register(monkeypatch, [fake("bug", match=bug), fake("good")])
    assert registry.detect(str(archive)).name == "good"
    assert [record.getMessage() for record in caplog.records] == [
        f"format bug could not look at {archive}: ZeroDivisionError('no\\nway')"
    ]


def test_what_cannot_be_read_is_told_once_for_all_formats(
    archive: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unreadable(_probe: object) -> Match:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    register(monkeypatch, [fake("one", match=unreadable), fake("other", match=unreadable)])
    with pytest.raises(UnknownFormat):
        registry.detect(str(archive))
    assert [record.getMessage() for record in caplog.records] == [
        f"{archive}: it cannot be looked at: invalid argument"
    ]


# -- opening --


def test_the_winners_own_error_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [fake(), fake("other", match=maybe)])
    (tmp_path / "x").write_bytes(b"FAKE {{{")
    with pytest.raises(CorruptArchive, match="nobody could read this"):
        registry.open_tree(str(tmp_path / "x"), Opening())


def test_an_archive_is_opened_by_its_absolute_path(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = []

    def open_fake(path: str, opening: Opening) -> FakeTree:
        paths.append(path)
        return FakeTree(path, opening)

    register(monkeypatch, [fake(open=open_fake)])
    monkeypatch.chdir(archive.parent)
    registry.open_tree("a.fake", Opening(options={"colour": "red"})).close()
    assert paths == [str(archive)]


def test_a_format_that_cannot_work_here_says_what_to_install(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [fake(unavailable=lambda: "install lmdb")])
    with pytest.raises(MissingLibrary) as caught:
        registry.open_tree(str(archive), Opening())
    assert str(caught.value) == "format fake cannot be used here: install lmdb"


# -- options --

CACHE = Option(name="cache_size", help="", parse=size, default=7)


def test_options_are_sorted_by_who_understands_them() -> None:
    other = fake("other", options=(Option(name="mode", help="", parse=str), CACHE))
    settings = registry.settle(
        ["colour=red,cache_size=1k", r"mode=a\,b", "loud"], chosen=[fake(), other], general=[CACHE]
    )
    assert settings.general == {"cache_size": 1024}
    assert settings.of(fake()) == {"colour": "red", "depth": None, "loud": True}
    assert settings.of(other) == {"mode": "a,b", "cache_size": 7}
    assert settings.apply(Opening(externals=["x"]), fake()).externals == ["x"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("color=red", "unknown option 'color'; did you mean colour?"),
        ("cachesize=1", "unknown option 'cachesize'; did you mean cache_size?"),
        ("qqq", "unknown option 'qqq'; see --help for those that exist"),
        ("mode=1", "option 'mode' belongs to the format other, and this is fake"),
    ],
)
def test_an_option_nobody_knows_names_the_nearest(text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [fake(), fake("other", options=(Option(name="mode", help="", parse=str),))])
    with pytest.raises(UnknownOption) as caught:
        registry.settle([text], chosen=[fake()], general=[CACHE])
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["depth=deep", "depth", "loud=perhaps", "cache_size=much"])
def test_a_bad_value_is_told_before_anything_is_opened(text: str) -> None:
    with pytest.raises(BadOption):
        registry.settle([text], chosen=[fake()], general=[CACHE])
