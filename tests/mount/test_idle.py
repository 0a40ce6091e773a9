"""``-o idle=N``: a mount that nobody uses ends, and one that somebody uses stays."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.mount.harness import Mount, tool, wait_until
from tests.samples import labrador
from tests.samples.zips import write_tree

CONTENT = {"hello.txt": b"hello", "folder": {f"{number}.txt": b"deep" for number in range(20)}}
IN_USE = "still in use"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "archive.zip", CONTENT)


@contextmanager
def idle_mount(archive: Path, at: Path, transport: str, *arguments: str, options: str = "idle=2") -> Iterator[Mount]:
    mount = Mount(archive, at=at, transport=transport, options=options, arguments=arguments)
    try:
        yield mount.wait_ready()
    finally:
        mount.end()


def test_an_unused_mount_ends_and_says_why(archive: Path, tmp_path: Path, transport: str) -> None:
    with idle_mount(archive, tmp_path / "mnt", transport, "-v") as mount:
        assert (mount.path / "hello.txt").read_bytes() == b"hello"
        assert json.loads((mount.path / ".archivefs" / "status.json").read_bytes())["options"]["idle"] == "2"
        assert mount.wait_gone() == 0
        assert not mount.is_mounted()
        assert not mount.path.exists(), "a mount point that was created is removed again"
        assert mount.said().splitlines() == [
            f"archivefs: {archive} mounted on {mount.path}",
            f"archivefs: {archive} unmounted from {mount.path}, not used for 2 s",
        ]


@contextmanager
def standing_in(mount: Mount) -> Iterator[None]:
    """A process whose working directory is in the mount, and that asks for nothing."""
    process = subprocess.Popen([tool("sleep"), "60"], cwd=mount.path / "folder")
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def reading(mount: Mount) -> Iterator[None]:
    """An open file, everything of which the kernel has already."""
    with open(mount.path / "hello.txt", "rb") as file:
        assert file.read() == b"hello"
        yield


@contextmanager
def mapping(mount: Mount) -> Iterator[None]:
    """A file in memory, with no descriptor of it any more."""
    with open(mount.path / "hello.txt", "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    try:
        yield
        assert mapped[:] == b"hello"
    finally:
        mapped.close()


def test_a_mount_in_use_stays_although_nothing_is_asked_of_it(archive: Path, tmp_path: Path, transport: str) -> None:
    uses = {"standing": standing_in, "reading": reading, "mapping": mapping}
    with ExitStack() as mounts:
        found = []
        with ExitStack() as held:
            for name, use in uses.items():
                mount = mounts.enter_context(idle_mount(archive, tmp_path / name, transport, "-d"))
                held.enter_context(use(mount))
                found.append(mount)
            for mount in found:
                assert wait_until(lambda mount=mount: IN_USE in mount.said()), "it was not even tried"
                assert mount.is_mounted()
        for mount in found:
            assert mount.wait_gone() == 0


def test_looking_at_what_the_kernel_knows_is_a_use(archive: Path, tmp_path: Path) -> None:
    """Without a shorter lifetime of what the kernel keeps, none of this would reach the driver after the first time."""
    with ExitStack() as mounts:
        started = [idle_mount(archive, tmp_path / name, name, "-d", options="idle=4") for name in ("kernel", "fusepy")]
        found = [mounts.enter_context(mount) for mount in started]
        end = time.monotonic() + 6
        while time.monotonic() < end:
            for mount in found:
                names = subprocess.run([tool("find"), str(mount.path)], stdout=subprocess.PIPE, check=True).stdout
                assert len(names.splitlines()) == 23
            time.sleep(0.05)
        for mount in found:
            assert IN_USE not in mount.said(), "it was taken for unused"
            assert mount.wait_gone() == 0


def test_asking_how_full_it_is_is_none(archive: Path, tmp_path: Path, transport: str) -> None:
    with idle_mount(archive, tmp_path / "mnt", transport) as mount:

        def is_gone() -> bool:
            # Where nothing is mounted any more the folder is asked about, or is missing.
            subprocess.run(["stat", "-f", str(mount.path)], capture_output=True, check=False)
            return not mount.is_mounted()

        assert wait_until(is_gone)
        assert mount.wait_gone() == 0


def test_changes_are_committed(tmp_path: Path, transport: str) -> None:
    archive = labrador.write(tmp_path / "island.lbz", labrador.SITE)
    with idle_mount(archive, tmp_path / "mnt", transport, options="idle=2,rw") as mount:
        (mount.path / "new").write_text("new")
        assert mount.wait_gone() == 0, mount.said()
        assert mount.said() == ""
    with zipfile.ZipFile(archive) as read:
        assert b"new" in [read.read(name) for name in read.namelist()]
    assert sorted(os.listdir(tmp_path)) == ["island.lbz"]
