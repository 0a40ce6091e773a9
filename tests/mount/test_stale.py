"""Mounts whose driver has died or hangs: they are found without waiting for them, and cleaned on request."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from archivefs.errors import MountRefused
from archivefs.fuse.stale import StaleMount, asked, clean, clean_at, is_dead, stale_mounts
from archivefs.fuse.unmount import mounted_at
from tests.mount.harness import Mount, run_archivefs
from tests.samples.zips import write_tree


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "archive.zip", {"hello.txt": b"hello"})


@pytest.fixture
def mount(archive: Path, tmp_path: Path, transport: str) -> Iterator[Mount]:
    mount = Mount(archive, at=tmp_path / "mnt", transport=transport).wait_ready()
    yield mount
    if mount.process.poll() is None:
        mount.process.send_signal(signal.SIGCONT)
    mount.end()


def found_at(path: Path, **more: float) -> list[StaleMount]:
    """What is found there; other mounts of this machine are nobody's business."""
    return [stale for stale in stale_mounts(**more) if stale.mountpoint == str(path)]


def kill(mount: Mount) -> None:
    mount.process.kill()
    mount.process.wait(10)


def test_a_mount_that_answers_is_not_stale(mount: Mount) -> None:
    assert found_at(mount.path) == []
    assert not is_dead(str(mount.path))
    assert not clean_at(str(mount.path))
    assert (mount.path / "hello.txt").read_bytes() == b"hello"


def test_a_dead_mount_is_found_and_cleaned_also_while_in_use(mount: Mount) -> None:
    fd = os.open(mount.path, os.O_PATH)
    try:
        kill(mount)
        (stale,) = found_at(mount.path)
        assert stale.dead
        assert stale.message == f"the driver of the mount at {mount.path} has died"
        assert stale.mend == f"archivefs umount {mount.path}"
        clean(stale)
        assert not mount.is_mounted()
        assert found_at(mount.path) == []
        clean(stale)  # gone already, and so nothing to do
    finally:
        os.close(fd)


def test_what_was_mounted_since_is_left_alone(mount: Mount, archive: Path, transport: str) -> None:
    kill(mount)
    (stale,) = found_at(mount.path)
    assert clean_at(str(mount.path))
    # Another one before it, so that the kernel does not give the same device number again.
    between = Mount(archive, at=mount.path.with_name("between"), transport=transport).wait_ready()
    again = Mount(archive, at=mount.path, transport=transport).wait_ready()
    try:
        assert mounted_at(str(mount.path)).number != stale.mount.number
        clean(stale)
        assert again.is_mounted()
    finally:
        again.end()
        between.end()


def test_a_driver_that_hangs_keeps_nobody(mount: Mount) -> None:
    mount.process.send_signal(signal.SIGSTOP)
    start = time.monotonic()
    (stale,) = found_at(mount.path, limit_s=0.5)
    assert time.monotonic() - start < 5
    assert not stale.dead
    assert stale.mend == f"archivefs umount --lazy {mount.path}"
    with pytest.raises(MountRefused, match="may only be slow"):
        clean(stale)
    assert mount.is_mounted()
    mount.process.send_signal(signal.SIGCONT)
    assert asked(str(mount.path), limit_s=10) == 0


def test_umount_does_not_wait_for_a_driver_that_hangs(mount: Mount) -> None:
    mount.process.send_signal(signal.SIGSTOP)
    refused = run_archivefs("umount", mount.path, timeout_s=20)
    assert refused.returncode == 1
    assert refused.stderr == f"archivefs: {mount.path}: its driver does not answer; wait for it, or use --lazy\n"
    assert mount.is_mounted()
    done = run_archivefs("umount", "--lazy", mount.path, timeout_s=20)
    assert (done.returncode, done.stderr) == (0, "")
    assert not mount.is_mounted()
    mount.process.send_signal(signal.SIGCONT)
    assert mount.wait_gone() == 0


def test_umount_takes_a_dead_one(mount: Mount) -> None:
    kill(mount)
    done = run_archivefs("umount", mount.path)
    assert (done.returncode, done.stderr) == (0, "")
    assert not mount.is_mounted()


def test_a_new_mount_replaces_a_dead_one_only_on_request(mount: Mount, archive: Path, transport: str) -> None:
    kill(mount)
    words = f"transport={transport}"
    refused = run_archivefs("mount", "-o", words, archive, mount.path)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"archivefs: {mount.path}: the driver of an earlier mount there has died; "
        f"run: archivefs umount {mount.path}, or mount with -o clean_stale\n"
    )
    again = Mount(archive, at=mount.path, transport=transport, options="clean_stale").wait_ready()
    try:
        assert (mount.path / "hello.txt").read_bytes() == b"hello"
        busy = run_archivefs("mount", "-o", f"{words},clean_stale", archive, mount.path)
        assert busy.returncode == 1
        assert "something is mounted there already" in busy.stderr
    finally:
        again.end()
