"""The manual pages say everything that the commands have, and the tools that show them complain of nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from archivefs.cli.mount_helper import command as mount_helper
from archivefs.fuse.options import MOUNT_OPTIONS, OPEN_OPTIONS
from archivefs.registry import formats
from contrib.commandtree import command_tree
from contrib.manuals.__main__ import write_all
from contrib.manuals.helps import exit_codes, parsed
from contrib.manuals.pages import CHANGELOG, date
from contrib.manuals.roff import Page, escaped, placeholders
from tests.mount.harness import tool

DAY = "86400000"
"""A SOURCE_DATE_EPOCH: 1972-09-27."""
ENVIRONMENT = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "200", "MANROFFOPT": "", "MAN_KEEP_FORMATTING": ""}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", DAY)
        return write_all(tmp_path_factory.mktemp("man"))


def shown(page: Path) -> str:
    """What man(1) makes of it."""
    command = [tool("man"), "--warnings", "-E", "UTF-8", "-P", "cat", "-l", page]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "", f"man complains of {page.name}"
    return re.sub(".\b", "", done.stdout)


def named(pages: list[Path], name: str) -> str:
    return shown(next(page for page in pages if page.name == name))


def test_nothing_is_complained_of(pages: list[Path]) -> None:
    done = subprocess.run(
        [tool("groff"), "-man", "-ww", "-z", "-Tutf8", *pages], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    if shutil.which("mandoc"):  # which is stricter; not everybody has it
        lint = ["mandoc", "-Tlint", "-Wwarning", *(page for page in pages if not page.is_symlink())]
        done = subprocess.run(lint, capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout + done.stderr == ""


def test_there_is_a_page_for_every_command(pages: list[Path]) -> None:
    commands = {f"archivefs-{command.name}.1" for command in command_tree().children}
    others = {"archivefs.1", "archivefs.yaml.5", "mount.archivefs.8", "mount.fuse.archivefs.8"}
    assert {page.name for page in pages} == commands | others
    overview = named(pages, "archivefs.1")
    assert all(f"{name[:-2]}(1)" in overview for name in commands)


def test_every_option_of_every_command_is_there_with_its_help(pages: list[Path]) -> None:
    for top in command_tree().children:
        text = " ".join(named(pages, f"archivefs-{top.name}.1").split())
        for command in top.walk():
            for option in command.options():
                names, help = option.get_help_record(command.context) or ("", "")
                assert f"{names} {' '.join(help.split())}" in text, f"{command.words} {names}"
            assert all(f"{code} {meaning}" in text for code, meaning in parsed(command.declared).exit_codes)


def test_the_options_of_mounts_and_formats_are_there(pages: list[Path]) -> None:
    text = named(pages, "archivefs-mount.1")
    own = [option for format in formats().values() for option in format.options]
    for option in (*MOUNT_OPTIONS, *OPEN_OPTIONS, *own):
        value = f"={option.metavar}" if option.parse else ""
        assert re.search(rf"^ +{re.escape(option.name + value)}( |$)", text, re.MULTILINE), option.name
    helper = named(pages, "mount.archivefs.8")
    for name in (*(option.name for option in MOUNT_OPTIONS), "write", "format=NAME", "external=PATH", "subdir=PATH"):
        assert re.search(rf"^ +{name}( |=|$)", helper, re.MULTILINE), name


def test_examples_can_be_copied_from_a_page(pages: list[Path]) -> None:
    text = named(pages, "archivefs-open.1")
    assert "           archivefs open 'harbour.crystalproj/OPEN ME.crystalopen'\n" in text
    assert "  /srv/site.zip  /mnt/site  archivefs  noauto,user,nofail  0  0\n" in named(pages, "mount.archivefs.8")


def test_the_configuration_in_the_page_is_a_sound_one(pages: list[Path], tmp_path: Path) -> None:
    from archivefs.cli.configuration import load

    example = named(pages, "archivefs.yaml.5").split("\nEXAMPLE\n")[1].split("\nSEE ALSO")[0]
    (tmp_path / "config.yaml").write_text(re.sub("^ {11}", "", example, flags=re.MULTILINE))
    assert list(load(str(tmp_path / "config.yaml")).mounts) == ["island"]


def test_the_date_is_never_that_of_today(pages: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "1972-09-27" in named(pages, "archivefs.1")
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert date() in ("", *re.findall(r"\((\d{4}-\d\d-\d\d)\)", CHANGELOG.read_text()))


@pytest.mark.parametrize(
    "line", [".TH", "'quoted'", "a\\b \\fB", "--dry-run", '"x"', "~/^file `x`", "...", "Größe – 5", ".SH\n.so x"]
)
def test_any_line_is_shown_as_it_is(tmp_path: Path, line: str) -> None:
    page = Page("x", 1, date="2024-05-17", version="1")
    page.heading("NAME")
    page.line(r"x \- y")
    page.heading("EXAMPLE")
    page.verbatim(line.split("\n"))
    (tmp_path / "x.1").write_text(str(page), encoding="ascii")
    expected = "".join(f"           {part}\n" for part in line.split("\n"))
    assert f"EXAMPLE\n{expected}" in shown(tmp_path / "x.1")


def test_what_stands_for_something_else_is_marked() -> None:
    assert placeholders("-o NAME=VALUE") == r"\fB\-o\fR \fINAME\fR=\fIVALUE\fR"
    assert placeholders("SRC[:/PATH]...") == r"\fISRC\fR[:/\fIPATH\fR]..."
    assert escaped(".x\n.y") == "\\&.x\n\\&.y"


def test_exit_codes_are_taken_apart() -> None:
    assert exit_codes("Exit codes: 0 done, 1 a, b\nor c, 2 usage.") == [
        ("0", "done"),
        ("1", "a, b or c"),
        ("2", "usage"),
    ]
    assert [code for code, _ in parsed(mount_helper).exit_codes] == ["0", "1", "2", "4", "8", "32"]
