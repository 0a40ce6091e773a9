"""``mount.archivefs``: what mount(8) says, in the words of ``archivefs mount``; and its exit codes."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from archivefs.cli import Interrupted
from archivefs.cli.mount_helper import exit_code, main, translated
from archivefs.cli.shared import StderrHandler
from archivefs.errors import (
    ArchiveError,
    BadOption,
    CorruptArchive,
    MissingLibrary,
    MountRefused,
    UnknownFormat,
    UnknownOption,
    UnreadableArchive,
    UsageError,
)
from tests.mount.harness import mount_points
from tests.samples.zips import write_tree


@pytest.fixture
def fake_format() -> None:
    """The formats that are installed."""


@pytest.fixture(autouse=True)
def quiet_log() -> Iterator[None]:
    """What ``-v`` has changed is changed back."""
    yield
    logger = logging.getLogger("archivefs")
    logger.setLevel(logging.NOTSET)
    for handler in [handler for handler in logger.handlers if isinstance(handler, StderrHandler)]:
        logger.removeHandler(handler)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "archive.zip", {"hello.txt": b"hello"})


def caused_by(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("words", "means"),
    [
        (["rw"], []),
        (["ro"], ["-o", "ro"]),
        (["rw", "write"], ["-o", "rw"]),
        (["ro", "write"], ["-o", "ro", "-o", "rw"]),
        (["format=zip", "external=/a,b", "subdir=x"], ["--format=zip", "--external=/a,b", "--subdir=x"]),
        (["fsname=a,b"], ["-o", "fsname=a\\,b"]),
    ],
)
def test_words_of_mount8_are_translated(words: list[str], means: list[str]) -> None:
    assert translated([*words, "config=x"]) == [*means, "-o", "config=x"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnknownOption(), 1),
        (BadOption(), 1),
        (UsageError(), 1),
        (click.UsageError("x"), 1),
        (PermissionError(errno.EACCES, "x"), 1),
        (caused_by(UnreadableArchive(), PermissionError(errno.EACCES, "x")), 1),
        (OSError(errno.ENOSPC, "x"), 2),
        (MissingLibrary(), 2),
        (MemoryError(), 2),
        (KeyError(), 4),
        (Interrupted(), 8),
        (UnreadableArchive(), 32),
        (UnknownFormat(), 32),
        (CorruptArchive(), 32),
        (MountRefused(), 32),
        (ArchiveError(), 32),
    ],
)
def test_the_exit_codes_are_those_of_mount8(error: Exception, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize(
    "words",
    [
        ["-f", "SOURCE", "MNT"],
        ["SOURCE", "MNT", "-nfsv", "-o", "rw,noauto,user=me,nofail,_netdev", "-o", "x-systemd.automount,comment=hello"],
        ["-o", 'ro,write,fsname="a,b"', "-f", "SOURCE", "-t", "fuse.archivefs", "MNT"],
        ["SOURCE", "MNT", "-f", "-t", "archivefs.zip"],
        ["SOURCE", "MNT", "-f", "-t", "fuse.archivefs.zip", "-o", "write,ro"],
    ],
)
def test_a_dry_run_mounts_nothing(words: list[str], archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    point = archive.with_name("mnt")
    assert main([{"SOURCE": str(archive), "MNT": str(point)}.get(word, word) for word in words]) == 0
    assert capsys.readouterr() == ("", "")
    assert not point.exists()
    assert str(point) not in mount_points()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["-f", "SOURCE"], 1, "Missing argument"),
        (["-f", "-x", "SOURCE", "MNT"], 1, "-x"),
        (["-f", "SOURCE", "MNT", "-o", "nosuch"], 1, "unknown option 'nosuch'"),
        (["-f", "SOURCE", "MNT", "-o", "umask=9"], 1, "umask"),
        (["-f", "SOURCE", "MNT", "-o", "ro,remount"], 1, "cannot be changed"),
        (["-f", "SOURCE", "MNT", "-t", "nfs"], 1, "-t nfs"),
        (
            ["-f", "SOURCE", "MNT", "-o", "write"],
            1,
            "the format zip cannot be written; leave out write, or mount with ro",
        ),
        (["-f", "TEXT", "MNT"], 32, "; force one with -o format=NAME, or see archivefs formats"),
        (["-f", "SOURCE", "MNT", "-N", "/nowhere"], 1, "-N /nowhere: that mount namespace cannot be entered"),
        (["-f", "MISSING", "MNT"], 32, "missing.zip"),
        (["-f", "SOURCE", "FILE"], 32, "not a directory"),
        (["-f", "SOURCE", "FULL"], 32, "not empty"),
        (["-f", "SOURCE", "NOWHERE"], 32, "cannot be created"),
        (["-f", "SOURCE", "MNT", "-t", "archivefs.labrador"], 32, "archive.zip"),
    ],
)
def test_a_dry_run_finds_what_a_mount_would(
    words: list[str], code: int, says: str, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "notes.txt").write_text("notes")
    places = {"SOURCE": archive, "MNT": tmp_path / "mnt", "FILE": tmp_path / "file", "FULL": tmp_path}
    places |= {"TEXT": tmp_path / "notes.txt"}
    places |= {"MISSING": tmp_path / "missing.zip", "NOWHERE": tmp_path / "no" / "where"}
    inside = tmp_path / "inside"
    inside.mkdir()
    places["SOURCE"] = archive.rename(inside / archive.name)
    assert main([str(places.get(word, word)) for word in words]) == code
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1, "one line says it"


def test_sloppy_options_are_told_of_and_left_out(
    archive: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert main(["-sf", str(archive), f"{archive}.mnt", "-o", "rw,uni_xlate,base_url=x,umask=022"]) == 0
    assert capsys.readouterr().err == (
        "archivefs: unknown option 'uni_xlate'; it is left out\n"
        "archivefs: option 'base_url' belongs to the format labrador, and this is zip; it is left out\n"
    )


def test_it_has_a_help_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert "/etc/fstab" in said
    assert "32 it cannot be mounted" in " ".join(said.split())


def test_nothing_is_left_behind_by_a_dry_run(archive: Path) -> None:
    before = sorted(os.listdir(archive.parent))
    assert main(["-f", str(archive), str(archive.with_name("mnt"))]) == 0
    assert sorted(os.listdir(archive.parent)) == before
