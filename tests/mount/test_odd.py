"""Mounts of trees that hang, fail, are huge or change: what a person at the other end sees.

Clients of a driver that does not answer cannot be killed, so each runs in a child with a time limit.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.mount.harness import Mount, mount_points, mounted, wait_until

PLUGINS = Path(__file__).parent.parent / "plugins"
ENV = {"PYTHONPATH": os.pathsep.join([str(PLUGINS), str(Path(__file__).parent.parent.parent)])}

pytestmark = pytest.mark.fuse


def odd_archive(folder: Path, kind: str, *lines: str) -> Path:
    path = folder / f"{kind}.odd"
    path.write_text("\n".join([f"archivefs-odd {kind}", *lines]) + "\n")
    return path


def reading(path: Path) -> subprocess.Popen[bytes]:
    """A child that reads *path* and exits with the errno."""
    code = "import os,sys\ntry: os.read(os.open(sys.argv[1], os.O_RDONLY), 9)\nexcept OSError as e: sys.exit(e.errno)"
    return subprocess.Popen([sys.executable, "-c", code, str(path)])


def test_more_hung_reads_than_threads_and_others_still_answer(tmp_path: Path, transport: str) -> None:
    source = odd_archive(tmp_path, "hang")
    with mounted(source, at=tmp_path / "m", transport=transport, options="timeout=3", env=ENV) as mount:
        children = [reading(mount.path / f"hang{number}") for number in range(12)]
        time.sleep(0.5)
        began = time.monotonic()
        assert (mount.path / "ok.txt").read_bytes() == b"still here\n"
        assert (mount.path / "other.txt").read_bytes() == b"this too\n"
        # Well inside the limit of three seconds: nobody waited for the ones that hang.
        assert time.monotonic() - began < 2
        codes = [child.wait(15) for child in children]
        assert set(codes) <= {errno.ETIMEDOUT, errno.EIO}
        log = (mount.path / ".archivefs" / "errors.log").read_text()
        assert "no answer within 3 s" in log


def test_a_listing_that_hangs_is_answered_for(tmp_path: Path, transport: str) -> None:
    source = odd_archive(tmp_path, "hang")
    with mounted(source, at=tmp_path / "m", transport=transport, options="timeout=1", env=ENV) as mount:
        child = subprocess.Popen(["ls", str(mount.path / "never")], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        _, said = child.communicate(timeout=15)
        assert child.returncode != 0
        assert b"timed out" in said or b"Input/output error" in said
        assert (mount.path / "ok.txt").read_bytes() == b"still here\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_driver_with_reads_under_way(tmp_path: Path, transport: str, number: int) -> None:
    source = odd_archive(tmp_path, "hang")
    mount = Mount(source, at=tmp_path / "m", transport=transport, options="timeout=60", env=ENV).wait_ready()
    try:
        children = [reading(mount.path / f"hang{i}") for i in range(12)]
        time.sleep(0.5)
        mount.process.send_signal(number)
        assert mount.wait_gone() == 0, mount.said()
        assert not mount.is_mounted()
        assert all(child.wait(10) != 0 for child in children)
        assert not (tmp_path / "m").exists()
    finally:
        mount.end()


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("opening", signal.SIGTERM),
        ("opening", signal.SIGHUP),
        ("opening", signal.SIGINT),
        ("stuck", signal.SIGTERM),
    ],
)
def test_a_signal_to_the_command_that_waits_ends_a_driver_that_hangs_before_it_is_ready(
    tmp_path: Path, transport: str, kind: str, number: signal.Signals
) -> None:
    source, point = odd_archive(tmp_path, kind), tmp_path / "m"
    command = [sys.executable, "-m", "archivefs", "mount", "-o", f"transport={transport}", source, point]
    waiting = subprocess.Popen(command, env={**os.environ, **ENV}, stderr=subprocess.PIPE, text=True)
    driver = None
    try:
        assert wait_until(Path(f"{source}.hangs").exists, 30)
        driver = int(Path(f"{source}.hangs").read_text())
        assert driver != waiting.pid
        waiting.send_signal(number)
        _, said = waiting.communicate(timeout=12)
        assert waiting.returncode == 128 + number, said
        assert not os.path.exists(f"/proc/{driver}")
        assert str(point) not in mount_points()
        assert not point.exists()
        assert "Traceback" not in said
    finally:
        waiting.kill()
        waiting.communicate()
        if driver is not None and os.path.exists(f"/proc/{driver}"):
            os.kill(driver, signal.SIGKILL)
        if str(point) in mount_points():
            subprocess.run(["fusermount3", "-uz", str(point)], capture_output=True, timeout=5, check=False)


def test_a_bug_in_a_format_is_eio_and_one_line(tmp_path: Path, transport: str) -> None:
    source = odd_archive(tmp_path, "bugs")
    with mounted(source, at=tmp_path / "m", transport=transport, env=ENV) as mount:
        for name in ("read", "open", "stat"):
            with pytest.raises(OSError) as caught:
                (mount.path / name).read_bytes()
            assert caught.value.errno == errno.EIO, name
        with pytest.raises(OSError) as caught:
            os.listdir(mount.path / "list")
        assert caught.value.errno == errno.EIO
        assert (mount.path / "ok.txt").read_bytes() == b"still here\n"
        lines = (mount.path / ".archivefs" / "errors.log").read_text().splitlines()
        assert sum("ZeroDivisionError: a bug\\nin two lines" in line for line in lines) == 1
        assert "Traceback" not in mount.said()


def test_a_million_names(tmp_path: Path, transport: str) -> None:
    source = odd_archive(tmp_path, "million")
    with mounted(source, at=tmp_path / "m", transport=transport, env=ENV) as mount:
        before = resident(mount.process.pid)
        with os.scandir(mount.path) as entries:
            first = [next(entries).name for _ in range(5)]
            assert first == [f"{number:07d}" for number in range(5)]
            # The first names came without the rest: what was fetched is a small part of it.
            status = json.loads((mount.path / ".archivefs" / "status.json").read_text())
            asked = status["operations"].get("readdir", 0) + status["operations"].get("readdirplus", 0)
            assert asked < 100
            assert sum(1 for _ in entries) == 1_000_000 - 5
        assert resident(mount.process.pid) - before < 64 << 20


def test_inodes_are_the_same_at_every_look(tmp_path: Path, transport: str) -> None:
    source = odd_archive(tmp_path, "bugs")
    with mounted(source, at=tmp_path / "m", transport=transport, env=ENV) as mount:
        listed = {entry.name: entry.inode() for entry in os.scandir(mount.path)}
        for _ in range(3):
            assert os.lstat(mount.path / "ok.txt").st_ino == listed["ok.txt"]


def test_a_living_tree_is_seen_to_change(tmp_path: Path, transport: str) -> None:
    source = odd_archive(tmp_path, "living", "a one", "b two")
    with mounted(source, at=tmp_path / "m", transport=transport, env=ENV) as mount:
        assert (mount.path / "a").read_bytes() == b"one"
        assert sorted(os.listdir(mount.path)) == ["a", "b"]
        source.write_text("archivefs-odd living\na three!\nc new\n")
        assert wait_until(lambda: (mount.path / "a").read_bytes() == b"three!", 5)
        assert wait_until(lambda: sorted(os.listdir(mount.path)) == ["a", "c"], 5)
        assert wait_until(lambda: not (mount.path / "b").exists(), 5)


def test_a_killed_driver_leaves_no_client_hanging(tmp_path: Path, transport: str) -> None:
    source = odd_archive(tmp_path, "hang")
    mount = Mount(source, at=tmp_path / "m", transport=transport, env=ENV).wait_ready()
    try:
        child = reading(mount.path / "hang1")
        time.sleep(0.3)
        mount.process.kill()
        assert child.wait(10) in (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO)
        mount.process.wait(10)
        done = subprocess.run(
            [sys.executable, "-m", "archivefs", "umount", str(mount.path)], capture_output=True, text=True, timeout=20
        )
        assert done.returncode == 0, done.stderr
        assert not mount.is_mounted()
    finally:
        mount.end()


def resident(pid: int) -> int:
    """Resident memory of a process in bytes."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
