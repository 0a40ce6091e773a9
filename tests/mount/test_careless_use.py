"""Mounting the way careless people and odd machines do: closed streams, wrong numbers, odd places and locales."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.mount.harness import mount_points, mounted, run_archivefs, wait_until
from tests.samples.zips import write_tree

pytestmark = pytest.mark.fuse

CONTENT = {"hello.txt": b"hello", "folder": {"mühle.txt": b"deep", "to": "mühle.txt"}}
PLAIN_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "archive.zip", CONTENT)


@pytest.fixture
def point(tmp_path: Path):
    """A mount point that does not exist yet; whatever is left there is taken away."""
    path = tmp_path / "mnt"
    yield path
    subprocess.run(["fusermount3", "-uz", str(path)], check=False, capture_output=True)


def shell(line: str, *arguments: object, **more) -> subprocess.CompletedProcess[bytes]:
    """Run a line of shell in which ``archivefs`` is ours and $1, $2 … are *arguments*."""
    line = f'archivefs() {{ "{sys.executable}" -m archivefs "$@"; }}; {line}'
    words = ["sh", "-c", line, "sh", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, timeout=60, check=False, **more)


# -- streams --


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_mount_works_with_streams_closed(archive: Path, point: Path, transport: str, closed: str) -> None:
    done = shell(f'archivefs mount -o transport={transport} "$1" "$2" {closed}', archive, point)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (point / "hello.txt").read_bytes() == b"hello"
    pid = json.loads((point / ".archivefs/status.json").read_text())["pid"]
    assert {os.readlink(f"/proc/{pid}/fd/{number}") for number in (0, 1, 2)} == {os.devnull}
    assert run_archivefs("umount", point).returncode == 0


def test_output_that_is_lost_is_a_failure_in_one_line(archive: Path) -> None:
    for line in ('archivefs ls "$1"', 'archivefs cat "$1:/hello.txt"', 'archivefs info --json "$1"'):
        done = shell(f"{line} >&-", archive)
        assert (done.returncode, done.stderr) == (1, b"archivefs: Bad file descriptor\n")
    assert shell('archivefs cat "$1:/hello.txt" <&- 2>&-', archive).stdout == b"hello"


# -- being told --


@pytest.mark.parametrize("number", [1, 2, 9])
def test_a_byte_comes_on_any_descriptor(archive: Path, point: Path, transport: str, number: int) -> None:
    told = point.parent / "told"
    line = f'archivefs mount -o transport={transport} --ready-fd {number} "$1" "$2" {number}>"$3"'
    assert shell(line, archive, point, told).returncode == 0
    assert wait_until(lambda: told.read_bytes() == b"\n")
    assert run_archivefs("umount", point).returncode == 0


@pytest.mark.parametrize("number", [-1, 99, 1 << 40])
def test_a_descriptor_that_is_not_open_is_refused(archive: Path, point: Path, number: int) -> None:
    done = run_archivefs("mount", "--ready-fd", str(number), archive, point)
    assert done.returncode == 2
    assert done.stderr.startswith(f"archivefs: --ready-fd {number}: there is no such descriptor")
    assert not point.exists()


# -- numbers --


@pytest.mark.parametrize("option", ["uid=4294967295", "gid=99999999999", "uid=-1", "gid=nobody"])
def test_an_owner_the_kernel_cannot_hold_is_refused(archive: Path, point: Path, transport: str, option: str) -> None:
    done = run_archivefs("mount", "-o", f"transport={transport},{option}", archive, point)
    assert done.returncode == 2
    assert "a number from 0 to 4294967294 is expected" in done.stderr
    assert not point.exists()


def test_the_largest_owner_is_shown(archive: Path, point: Path, transport: str) -> None:
    with mounted(archive, at=point, transport=transport, options="uid=4294967294"):
        assert (point / "hello.txt").stat().st_uid == 4294967294


# -- places --


def test_a_place_that_is_not_utf8(archive: Path, tmp_path: Path, transport: str) -> None:
    source = os.fsencode(tmp_path) + b"/arch\xff.zip"
    os.rename(archive, source)
    point = os.fsencode(tmp_path) + b"/m\xfe"
    command = [sys.executable, "-m", "archivefs"]
    done = subprocess.run(
        [*command, "mount", "-o", f"transport={transport}", source, point], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    try:
        assert sorted(os.listdir(point)) == [b"folder", b"hello.txt"]
        with open(b"/proc/self/mounts", "rb") as table:
            assert source in table.read()
    finally:
        assert subprocess.run([*command, "umount", point], timeout=60, check=False).returncode == 0


def test_a_link_to_a_mount_point_is_that_mount_point(archive: Path, tmp_path: Path, transport: str) -> None:
    point, link = tmp_path / "point", tmp_path / "link"
    point.mkdir()
    link.symlink_to("point")
    with mounted(archive, at=point, transport=transport):
        done = run_archivefs("mount", "-o", f"transport={transport}", archive, link)
        assert done.returncode == 1
        assert "something is mounted there already" in done.stderr


# -- the one who waits --


def test_a_command_killed_while_it_waits_leaves_no_dead_mount(archive: Path, point: Path, transport: str) -> None:
    code = (
        "import os, signal, archivefs.fuse.detaching as m\n"
        "from archivefs.cli import main\n"
        "m._outcome = lambda child, reading: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"main(['mount', '-o', 'transport={transport}', {str(archive)!r}, {str(point)!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    time.sleep(2)  # it goes on for a moment and finds that nobody waits
    assert str(point) not in mount_points() or os.path.exists(point / "hello.txt"), "a mount that is there answers"


# -- locales --


def test_names_are_utf8_in_a_locale_that_is_not(archive: Path, tmp_path: Path) -> None:
    env = {**os.environ, **PLAIN_LOCALE}
    done = shell('archivefs cat "$1:/folder/mühle.txt"', archive, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"deep", b"")
    done = shell('archivefs cp -r "$1:/folder" "$2"', archive, tmp_path / "über", env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "über" / "mühle.txt").read_bytes() == b"deep"
    assert os.readlink(tmp_path / "über" / "to") == "mühle.txt"


# -- a driver that died --


def test_commands_on_a_dead_mount_say_what_to_do(tmp_path: Path, point: Path, transport: str) -> None:
    archive = tmp_path / "site.lbz"
    assert run_archivefs("create", "labrador", archive).returncode == 0
    assert run_archivefs("mount", "-o", f"rw,transport={transport}", archive, point).returncode == 0
    (point / "new.txt").write_text("new")
    os.kill(json.loads((point / ".archivefs/status.json").read_text())["pid"], signal.SIGKILL)
    wait_until(lambda: not os.path.exists(point))
    for command in ("status", "commit", "discard"):
        done = run_archivefs(command, point)
        assert done.returncode == 1
        assert "the driver of this mount has died" in done.stderr
        assert f"archivefs umount {point}" in done.stderr
    assert run_archivefs("umount", point).returncode == 0
    assert run_archivefs("commit", archive).returncode == 0
    assert run_archivefs("cat", f"{archive}:/new.txt").stdout == "new"


def test_changes_that_cannot_be_saved_are_told_once(tmp_path: Path, point: Path, transport: str) -> None:
    archive, other = tmp_path / "site.lbz", tmp_path / "other.lbz"
    for path in (archive, other):
        assert run_archivefs("create", "labrador", path).returncode == 0
    assert run_archivefs("mount", "-o", f"rw,transport={transport}", archive, point).returncode == 0
    (point / "new.txt").write_text("new")
    other.replace(archive)
    done = run_archivefs("umount", point)
    assert done.returncode == 1
    assert done.stderr.count("another archive was put in its place") == 1
    assert done.stderr.count("they are kept") == 1
    assert str(point) not in mount_points()
