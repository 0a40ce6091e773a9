"""Crawls through a real mount point: the contract, a storage that changes, and what a read-write mount allows."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mount.contract import MountContract
from tests.mount.harness import Mount, mounted, wait_until
from tests.samples import crawls
from tests.samples.crawls import FAILED, FILES_MAP, FIRST, IDS, SECOND

NEW = "2025-03-05_06-00-00_[WIKI]_crawl_all_full"


class TestStorageMounted(MountContract):
    def make_archive(self, tmp_path: Path) -> Path:
        return crawls.write_storage(tmp_path / "storage")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return crawls.write_storage(tmp_path / "storage")


@pytest.fixture
def mount(root: Path, tmp_path: Path, transport: str) -> Iterator[Mount]:
    with mounted(root, at=tmp_path / "mnt", transport=transport, options="rw") as mount:
        yield mount


@contextlib.contextmanager
def refused(*numbers: int) -> Iterator[None]:
    with pytest.raises(OSError) as error:
        yield
    assert error.value.errno in numbers, error.value


# -- looking --


def test_an_operator_looks_around(root: Path, tmp_path: Path, transport: str) -> None:
    with mounted(root, at=tmp_path / "mnt", transport=transport) as mount:
        assert os.listdir(mount.path / "crawls") == list(IDS)
        latest = mount.path / "domains" / "WIKI" / "latest"
        assert json.loads((latest / "crawl.json").read_bytes())["ok"] is False
        assert os.path.basename(os.path.realpath(mount.path / "domains" / "WIKI" / "latest-ok")) == SECOND
        assert (mount.path / "archives" / f"{FIRST}.zip").read_bytes() == (
            root / "crawls" / f"{FIRST}.zip"
        ).read_bytes()
        summary = json.loads((mount.path / "diffs" / "WIKI" / f"{FIRST}..{SECOND}" / "summary.json").read_bytes())
        assert summary["members"][FILES_MAP]["changed_content"] == 1
        assert os.listdir(mount.path / "diffs" / "WIKI") == [FAILED]
        status = os.stat(mount.path / "crawls" / FIRST / "crawl.json")
        assert (status.st_mode & 0o777, status.st_mtime) == (0o444, 1740808800)
        with refused(errno.EROFS):
            os.unlink(mount.path / "archives" / f"{FIRST}.zip")
        with refused(errno.EROFS):
            os.mkdir(mount.path / "x")


def test_what_changes_is_seen_within_two_seconds(root: Path, tmp_path: Path, transport: str) -> None:
    """One second for us to notice, one for the kernel to ask again."""
    with mounted(root, at=tmp_path / "mnt", transport=transport) as mount:
        assert len(os.listdir(mount.path / "crawls")) == 4
        assert not (mount.path / "crawls" / NEW).exists()
        crawls.write(root / "crawls", NEW)
        assert wait_until(lambda: NEW in os.listdir(mount.path / "crawls"), 1)
        assert wait_until(lambda: (mount.path / "crawls" / NEW / "crawl.json").exists(), 2)
        assert wait_until(lambda: os.readlink(mount.path / "domains" / "WIKI" / "latest").endswith(NEW), 2)
        (root / "crawls" / f"{NEW}.zip").write_bytes(b"broken")
        assert wait_until(lambda: f"{NEW}.zip.why" in os.listdir(mount.path / "broken"), 2)
        (root / "crawls" / f"{NEW}.zip").unlink()
        assert wait_until(lambda: not (mount.path / "archives" / f"{NEW}.zip").exists(), 2)


def test_one_crawl_and_a_folder_of_crawls(root: Path, tmp_path: Path, transport: str) -> None:
    with mounted(root / "crawls" / f"{FIRST}.zip", at=tmp_path / "one", transport=transport) as mount:
        assert sorted(os.listdir(mount.path)) == ["01_files", "02_lists", "crawl.json"]
    with mounted(root / "crawls", at=tmp_path / "folder", transport=transport) as mount:
        assert os.listdir(mount.path / "crawls") == list(IDS)


def test_an_encrypted_member_says_so(tmp_path: Path, transport: str) -> None:
    members = {"crawl.json": json.dumps(crawls.metadata(FIRST)).encode(), "01_files/s/a_map.csv": b"x" * 50}
    data = bytearray(crawls.zipped(members, method=0))
    for mark, offset in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
        data[data.rindex(mark) + offset] |= 1
    path = crawls.write(tmp_path / "storage" / "crawls", FIRST)
    path.write_bytes(data)
    mount = Mount(tmp_path / "storage", at=tmp_path / "mnt", transport=transport).wait_ready()
    try:
        with refused(errno.EACCES):
            (mount.path / "crawls" / FIRST / "01_files/s/a_map.csv").read_bytes()
        assert (mount.path / "crawls" / FIRST / "crawl.json").read_bytes() == members["crawl.json"]
        assert mount.unmount() == 0
    finally:
        mount.end()


# -- changing --


def test_copying_an_archive_in(mount: Mount, root: Path, tmp_path: Path) -> None:
    source = crawls.write(tmp_path / "new", NEW, {FILES_MAP: b"openai_file_id\r\na\r\n" * 50_000})
    os.utime(source, ns=(10**18, 10**18))
    subprocess.run(["cp", "-p", source, mount.path / "archives"], check=True, timeout=60)
    published = root / "crawls" / f"{NEW}.zip"
    assert published.read_bytes() == source.read_bytes()
    assert published.stat().st_mtime_ns == 10**18
    assert (mount.path / "archives" / f"{NEW}.zip").read_bytes() == source.read_bytes()
    assert NEW in os.listdir(mount.path / "crawls")
    assert (mount.path / "crawls" / NEW / "crawl.json").exists()
    again = subprocess.run(["cp", source, mount.path / "archives"], capture_output=True, timeout=60, check=False)
    assert again.returncode != 0
    assert b"File exists" in again.stderr
    assert len(os.listdir(root / "crawls")) == 5


def test_two_writers_of_one_file(mount: Mount, root: Path, tmp_path: Path) -> None:
    data = crawls.archive(NEW)
    (tmp_path / "a").write_bytes(data[:60])
    (tmp_path / "b").write_bytes(data[60:])
    command = f"(cat a; cat b) > '{mount.path}/archives/{NEW}.zip'"
    subprocess.run(["sh", "-c", command], cwd=tmp_path, timeout=60, check=False, capture_output=True)
    assert wait_until(lambda: (root / "crawls" / f"{NEW}.zip").exists(), 5)
    assert (root / "crawls" / f"{NEW}.zip").read_bytes() == data


@pytest.mark.parametrize("sync", [True, False])
def test_what_is_not_sound_is_told(mount: Mount, root: Path, sync: bool) -> None:
    path = mount.path / "archives" / f"{NEW}.zip"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(fd, b"not a zip")
    if sync:
        with refused(errno.EINVAL):
            os.fsync(fd)
    with refused(errno.EINVAL):
        os.close(fd)
    assert wait_until(lambda: not path.exists(), 5)
    assert wait_until(lambda: len(os.listdir(root / "crawls")) == 4, 5)


def test_deleting(mount: Mount, root: Path) -> None:
    os.unlink(mount.path / "archives" / f"{FIRST}.zip")
    assert not (root / "crawls" / f"{FIRST}.zip").exists()
    assert FIRST not in os.listdir(mount.path / "crawls")
    failing = subprocess.run(["rm", "-r", mount.path / "crawls" / SECOND], capture_output=True, timeout=60, check=False)
    assert b"Operation not permitted" in failing.stderr
    assert (root / "crawls" / f"{SECOND}.zip").exists()
    os.rmdir(mount.path / "crawls" / SECOND)
    assert not (root / "crawls" / f"{SECOND}.zip").exists()
    (root / "crawls" / "notes.zip").write_bytes(b"notes")
    assert wait_until(lambda: (mount.path / "broken" / "notes.zip").exists(), 3)
    with refused(errno.EPERM):
        os.unlink(mount.path / "broken" / "notes.zip.why")
    os.unlink(mount.path / "broken" / "notes.zip")
    assert not (root / "crawls" / "notes.zip").exists()


def test_everything_else_is_not_permitted(mount: Mount) -> None:
    base = mount.path
    with refused(errno.EPERM):
        os.rename(base / "archives" / f"{FIRST}.zip", base / "archives" / f"{NEW}.zip")
    with refused(errno.EPERM):
        os.mkdir(base / "crawls" / NEW)
    with refused(errno.EPERM):
        os.symlink("x", base / "domains" / "x")
    with refused(errno.EPERM):
        (base / "crawls" / FIRST / "crawl.json").write_bytes(b"")
    with refused(errno.EPERM):
        (base / "crawls" / FIRST / "new").write_bytes(b"")
    with refused(errno.EPERM):
        os.unlink(base / "index.csv")
    with refused(errno.EPERM):
        os.unlink(base / "domains" / "WIKI" / "latest")
    os.chmod(base / "archives" / f"{FIRST}.zip", 0o600)
    os.utime(base / "archives" / f"{FIRST}.zip", ns=(5 * 10**9, 5 * 10**9))
    status = os.stat(base / "archives" / f"{FIRST}.zip")
    assert (status.st_mode & 0o777, status.st_mtime) == (0o600, 5)


def test_a_second_writer_is_refused(mount: Mount, root: Path, tmp_path: Path, transport: str) -> None:
    second = Mount(root, at=tmp_path / "second", transport=transport, options="rw")
    try:
        assert second.process.wait(30) != 0
        assert str(mount.process.pid) in second.said()
    finally:
        second.end()


def test_a_killed_driver_loses_nothing_that_was_closed(root: Path, tmp_path: Path, transport: str) -> None:
    closed: list[str] = []
    for round_number in range(3):
        mount = Mount(root, at=tmp_path / "mnt", transport=transport, options="rw").wait_ready()
        try:
            end = time.monotonic() + 0.3
            number = 0
            while time.monotonic() < end:
                number += 1
                name = f"2026-0{round_number + 1}-01_00-{number // 60:02}-{number % 60:02}_[KILL]_crawl_all_full"
                (mount.path / "archives" / f"{name}.zip").write_bytes(crawls.archive(name))
                closed.append(name)
            torn = os.open(mount.path / "archives" / f"{NEW}.zip", os.O_WRONLY | os.O_CREAT)
            os.write(torn, crawls.archive(NEW)[:100])
            mount.process.send_signal(signal.SIGKILL)
            mount.process.wait(10)
            with contextlib.suppress(OSError):
                os.close(torn)
        finally:
            mount.end()
        for name in closed:
            with zipfile.ZipFile(root / "crawls" / f"{name}.zip") as archive:
                assert json.loads(archive.read("crawl.json"))["crawl_id"] == name
        assert not (root / "crawls" / f"{NEW}.zip").exists()
    mount = Mount(root, at=tmp_path / "mnt", transport=transport, options="rw").wait_ready()
    mount.unmount()
    assert "removed what a writer that died has left" in mount.said()
    mount.end()
    assert all(name.endswith(".zip") for name in os.listdir(root / "crawls"))
