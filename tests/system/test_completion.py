"""What a TAB brings in real shells: bash and zsh in a terminal, fish by its own ``complete -C``."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from archivefs.registry import formats
from contrib.commandtree import Command, command_tree
from contrib.completion.__main__ import write_all
from contrib.completion.model import option_words
from tests.mount.harness import mounted, tool
from tests.samples.site import write_zip
from tests.system.shells import PROMPT, Shell

SHELLS = ("bash", "zsh", "fish")
SAID = "echo '['\"${@: -1}\"']'"

BASH = f"""PS1='{PROMPT}'
bind 'set show-all-if-ambiguous on'
bind 'set page-completions off'
bind 'set completion-query-items 0'
bind 'set enable-bracketed-paste off'
archivefs() {{ {SAID}; }}
source SCRIPTS/bash/archivefs
"""
ZSH = f"""PS1='{PROMPT}'
unset zle_bracketed_paste
unsetopt prompt_cr prompt_sp always_last_prompt
LISTMAX=9999
fpath=(SCRIPTS/zsh $fpath)
autoload -Uz compinit && compinit -u -D
archivefs() {{ {SAID}; }}
"""
CONFIGURATION = """options:
  umask: 027
mounts:
  # a comment
  island:
    sources: island.lbz
    mountpoint: isle
  harbour:
    sources: harbour.crystalproj
    mountpoint: boats
"""

Complete = Callable[[str], str]
List = Callable[[str], set[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the shells run: a configuration, an archive and a folder; the scripts are in it too."""
    folder = tmp_path_factory.mktemp("shells")
    write_all(folder / "scripts")
    for name, text in (("bashrc", BASH), (".zshrc", ZSH), ("config/archivefs/config.yaml", CONFIGURATION)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("SCRIPTS", str(folder / "scripts")))
    (folder / "site one.zip").touch()
    (folder / "places").mkdir()
    return folder


def environment(folder: Path) -> dict[str, str]:
    own = {"HOME": folder, "ZDOTDIR": folder, "XDG_CONFIG_HOME": folder / "config", "XDG_DATA_HOME": folder}
    others = {name: value for name, value in os.environ.items() if not name.startswith(("BASH", "ZSH"))}
    return {**others, **{name: str(path) for name, path in own.items()}, "TERM": "dumb", "COLUMNS": "300"}


@pytest.fixture(scope="module", params=["bash", "zsh"])
def shell(request: pytest.FixtureRequest, folder: Path) -> Iterator[Shell]:
    words = {"bash": ["--noprofile", "--rcfile", str(folder / "bashrc"), "-i"], "zsh": ["-d", "-i"]}[request.param]
    with Shell([tool(request.param), *words], folder, environment(folder)) as shell:
        shell.until(PROMPT)
        yield shell


def fish(folder: Path, *lines: str) -> list[list[str]]:
    """What fish offers for each of the lines."""
    script = f"source {folder}/scripts/fish/archivefs.fish\nfor line in $argv; echo '=='; complete -C $line; end"
    command = [tool("fish"), "--no-config", "-c", script, "--", *lines]
    done = subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    parts = done.stdout.split("==\n")[1:]
    return [[line.split("\t")[0] for line in part.splitlines()] for part in parts]


def bash(folder: Path, *lines: str) -> list[list[str]]:
    """What our function offers bash for each of the lines, which have no quotes and no = in them."""
    script = f"""source {folder}/scripts/bash/archivefs
for COMP_LINE in "$@"; do
    COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=($COMP_LINE)
    [[ $COMP_LINE != *' ' ]] || COMP_WORDS+=('')
    COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
    _archivefs; echo '=='; printf '%s\\n' "${{COMPREPLY[@]}}"
done"""
    command = [tool("bash"), "--norc", "-c", script, "bash", *lines]
    done = subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    return [part.split("\n")[:-1] for part in done.stdout.split("==\n")[1:]]


ONE = [
    ("unp", "unpack"),
    ("mount --form", "--format"),
    ("mount --format lab", "labrador"),
    ("mount --format=lab", "--format=labrador"),
    ("mount -o tra", "transport="),
    ("mount -o ro,tra", "ro,transport="),
    ("mount -o ro,transport=k", "ro,transport=kernel"),
    ("mount -o transport=kernel,cl", "transport=kernel,clean_stale"),
    ("mount -o index=of", "index=off"),
    ("mount -o index=pl", "index=places/"),
    ("mount -o ro,base", "ro,base_url="),
    ("mount -o redirects=s", "redirects=symlink"),
    ("ls -o names=r", "names=readable"),
    ("mount si", "site one.zip"),
    ("mount isl", "island"),
    ("umount harb", "harbour"),
    ("config show isl", "island"),
    ("crawls li", "list"),
    ("crawls list --format j", "json"),
    ("centidb key dec", "decode"),
    ("centidb key decode --dialect a", "acid"),
    ("create lab", "labrador"),
    ("open --under pl", "places/"),
]
"""What is typed before TAB, and what becomes of the last word."""

SEVERAL = [
    ("", {"mount", "umount", "verify", "crawls", "pack"}, {"index=", "places"}),
    ("mount -", {"--foreground", "--subdir", "-o"}, {"--lazy"}),
    ("mount --format ", set(formats()), {"folder"}),
    ("mount -o ro,c", {"cache_size", "clean_stale", "config", "commit_idle"}, {"transport"}),
    ("ls -o c", {"cache_size", "config"}, {"clean_stale"}),
    ("mount -o transport=", {"auto", "kernel", "fusepy"}, {"off"}),
    ("config ", {"show", "check", "path"}, {"island"}),
]
"""What is typed before TAB, what is offered, and what is not."""


@pytest.mark.parametrize(("typed", "expected"), ONE)
def test_what_there_is_one_of_is_written_out(shell: Shell, typed: str, expected: str) -> None:
    shown = shell.run(f"archivefs {typed}\t")
    # zsh takes a slash at the end away again when the line is run
    assert re.findall(r"^\[(.*?)/?\]\r?$", shown, re.MULTILINE) == [expected.rstrip("/")], shown


@pytest.mark.parametrize(("typed", "expected", "others"), SEVERAL)
def test_what_there_are_several_of_is_listed(shell: Shell, typed: str, expected: set[str], others: set[str]) -> None:
    shown = shell.run(f"archivefs {typed}\t\t")
    words = set(re.split(r"[\s=,]+", shown.partition("\n")[2]))
    assert expected <= words, shown
    assert not others & words, shown


def test_fish_offers_the_same(folder: Path) -> None:
    alone = fish(folder, *(f"archivefs {typed}" for typed, _ in ONE))
    assert alone == [[expected] for _, expected in ONE]
    for (_, expected, others), offered in zip(
        SEVERAL, fish(folder, *(f"archivefs {s[0]}" for s in SEVERAL)), strict=True
    ):
        words = {re.split("[,=]", word.rstrip("="))[-1] for word in offered}
        assert expected <= words
        assert not others & words


@pytest.mark.parametrize("offers", [bash, fish])
def test_every_command_and_option_is_offered(folder: Path, offers: Callable[..., list[list[str]]]) -> None:
    commands = list(command_tree().walk())
    names = offers(folder, *(f"{' '.join(command.words)} " for command in commands if command.children))
    assert [set(each) for each in names] == [_children(command) for command in commands if command.children]
    flags = offers(folder, *(f"{' '.join(command.words)} -" for command in commands))
    assert [set(each) for each in flags] == [_flags(command) for command in commands]


def test_a_shell_lists_every_option_of_every_command(shell: Shell) -> None:
    for command in command_tree().walk():
        shown = shell.run(f"{' '.join(command.words)} -\t\t")
        missing = _flags(command) - set(shown.partition("\n")[2].split())
        assert not missing, f"{command.words}: {missing} in {shown}"


@pytest.mark.fuse
@pytest.mark.parametrize("offers", [bash, fish])
def test_what_is_mounted_is_offered_to_umount(
    folder: Path, tmp_path: Path, offers: Callable[..., list[list[str]]]
) -> None:
    point = tmp_path / "a site"
    with mounted(write_zip(tmp_path / "site.zip"), at=point):
        (offered,) = offers(folder, "archivefs umount ")
    assert str(point) in [path.rstrip("/") for path in offered]


def _children(command: Command) -> set[str]:
    return {child.name for child in command.children}


def _flags(command: Command) -> set[str]:
    return {name for option in command.options() for name in option.opts}


@pytest.mark.parametrize("offers", [bash, fish])
def test_every_option_of_a_mount_is_offered(folder: Path, offers: Callable[..., list[list[str]]]) -> None:
    (offered,) = offers(folder, "archivefs mount -o ")
    assert set(offered) == {word.name + ("=" if word.value else "") for word in option_words(mounting=True)}
    assert {"transport=", "allow_other", "redirects="} <= set(offered)
