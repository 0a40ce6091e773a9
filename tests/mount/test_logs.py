"""Where the problems of a mount are told, once nobody sees its stderr: in a file, or in the system's log."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mount.harness import Mount, mount_points, run_archivefs, wait_until
from tests.samples import labrador
from tests.samples.zips import write_tree

STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d archivefs\[\d+\] "
WITH_SYSTEM_LOG = "import sys; from archivefs.cli import logs, main; logs.SYSTEM_LOG = sys.argv[1]; main(sys.argv[2:])"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """One member is damaged, and so is one with a name that would like to be two lines."""
    names = ("bad", "two\nlines")
    archive = write_tree(tmp_path / "damaged.zip", {**{f"stored.{name}": b"x" * 1000 for name in names}, "good": b"g"})
    data = bytearray(archive.read_bytes())
    for at in re.finditer(b"x{1000}", bytes(data)):
        data[at.start() + 500] ^= 1
    archive.write_bytes(data)
    return archive


@pytest.fixture
def point(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "mnt"
    yield path
    if str(path) in mount_points():
        subprocess.run(["fusermount3", "-uz", str(path)], check=False)


def read_bad(point: Path, times: int = 1) -> None:
    for name in sorted(os.listdir(point)):
        for _ in range(times if name != "good" else 0):
            with pytest.raises(OSError) as caught:
                (point / name).read_bytes()
            assert caught.value.errno == errno.EIO


def lines(path: Path) -> list[str]:
    return [re.sub(STAMP, "", line) for line in path.read_text().splitlines()]


def end(point: Path) -> None:
    """Unmount, and wait for the driver."""
    done = run_archivefs("umount", point)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_has_a_line_for_each_problem_and_says_when_the_mount_began_and_ended(
    archive: Path, point: Path, tmp_path: Path, transport: str
) -> None:
    log = tmp_path / "a,b.log"
    words = ["mount", "-o", f"transport={transport}", "--log-file", log.name, archive, point]
    done = run_archivefs(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    read_bad(point)
    problems = [f"error read: {archive}: stored.{name}: its CRC is wrong" for name in ("bad", "two^0Alines")]
    found = lines(log)
    assert found[0] == f"info {archive} mounted on {point}"
    assert len(found) == 3 and all("its CRC is wrong" in line for line in found[1:]), found
    assert found[1] == problems[0]
    end(point)
    assert lines(log)[3:] == [f"info {archive} unmounted from {point}"]
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_flood_of_one_problem_is_counted(archive: Path, point: Path, tmp_path: Path) -> None:
    log = tmp_path / "mount.log"
    assert run_archivefs("mount", "--log-file", log, archive, point).returncode == 0
    read_bad(point, times=2000)
    assert len(lines(log)) == 3
    end(point)
    counted = [line for line in lines(log) if "more like this" in line]
    assert len(counted) == 2
    assert all(int(line.split("(")[1].split()[0].replace(",", "")) >= 1999 for line in counted)
    assert len(lines(log)) == 6


def test_the_log_of_the_system_is_told_after_detaching(
    archive: Path, point: Path, tmp_path: Path, transport: str
) -> None:
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listener:
        listener.bind(str(tmp_path / "log"))
        listener.settimeout(10)
        words = [str(tmp_path / "log"), "mount", "-o", f"transport={transport}", str(archive), str(point)]
        done = subprocess.run(
            [sys.executable, "-c", WITH_SYSTEM_LOG, *words], capture_output=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        read_bad(point)
        pid = json.loads((point / ".archivefs" / "status.json").read_bytes())["pid"]
        end(point)
        heard = [listener.recv(1 << 16).decode() for _ in range(4)]
    assert [re.sub(r"^(<\d+>)\w{3} [ \d]\d [\d:]{8} ", r"\1", line) for line in (heard[0], heard[1], heard[3])] == [
        f"<30>archivefs[{pid}]: {archive} mounted on {point}",
        f"<27>archivefs[{pid}]: read: {archive}: stored.bad: its CRC is wrong",
        f"<30>archivefs[{pid}]: {archive} unmounted from {point}",
    ]


@pytest.mark.parametrize("words", [[], ["--log-file", "/dev/full"]], ids=["no system log", "full disk"])
def test_a_log_that_cannot_be_written_is_no_failure(archive: Path, point: Path, words: list[str]) -> None:
    call = ["/nowhere/log", "mount", *words, str(archive), str(point)]
    done = subprocess.run([sys.executable, "-c", WITH_SYSTEM_LOG, *call], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    read_bad(point)
    assert (point / "good").read_bytes() == b"g"
    end(point)


def test_what_fails_at_the_end_is_in_the_file(tmp_path: Path, point: Path) -> None:
    """Who unmounts with umount(8) is not told that the changes could not be put into the archive."""
    (tmp_path / "archives").mkdir()
    archive = labrador.write(tmp_path / "archives" / "island.lbz", labrador.SITE)
    log = tmp_path / "mount.log"
    assert run_archivefs("mount", "-o", f"rw,log_file={log}", archive, point).returncode == 0
    (point / "new").write_text("1")
    pid = json.loads((point / ".archivefs" / "status.json").read_bytes())["pid"]
    (archive.parent / f".{archive.name}.{pid}.archivefs-new").mkdir()
    subprocess.run(["fusermount3", "-u", str(point)], check=True)
    assert wait_until(lambda: len(lines(log)) == 3), lines(log)
    assert lines(log)[-1].startswith(f"error {archive}: ")


@pytest.mark.parametrize("inside", ["archives/new.log", "archives/damaged.zip"])
def test_an_archive_is_no_log_file(archive: Path, point: Path, tmp_path: Path, inside: str) -> None:
    (tmp_path / "archives").mkdir()
    archive.rename(tmp_path / "archives" / "damaged.zip")
    before = (tmp_path / "archives" / "damaged.zip").read_bytes()
    source = tmp_path / "archives" / ("damaged.zip" if inside.endswith(".zip") else "")
    done = run_archivefs("mount", "--log-file", tmp_path / inside, source, point)
    assert done.returncode == 2
    assert done.stderr == f"archivefs: {tmp_path / inside}: the log file lies inside the archive; name another file\n"
    assert os.listdir(tmp_path / "archives") == ["damaged.zip"]
    assert (tmp_path / "archives" / "damaged.zip").read_bytes() == before


def test_a_file_that_cannot_be_opened_is_told_before_mounting(archive: Path, point: Path, tmp_path: Path) -> None:
    done = run_archivefs("mount", "--log-file", tmp_path, archive, point)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"archivefs: {tmp_path}: the log file cannot be opened: Is a directory\n"
    assert not point.exists()


def test_in_the_foreground_problems_are_told_on_stderr_too(archive: Path, point: Path, tmp_path: Path) -> None:
    mount = Mount(archive, at=point, arguments=["-v", "--log-file", str(tmp_path / "mount.log")]).wait_ready()
    try:
        read_bad(point)
        assert mount.unmount() == 0
        written = [line.split(" ", 1)[1] for line in lines(tmp_path / "mount.log")]
        assert len(written) == 4
        assert [line.removeprefix("archivefs: ") for line in mount.said().splitlines()] == written
    finally:
        mount.end()
