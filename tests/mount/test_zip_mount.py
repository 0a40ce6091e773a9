"""A zip through a real mount point: the contract, and the tools people use."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.mount.contract import MountContract
from tests.mount.harness import Mount, mounted, tool
from tests.samples.zips import CONTENT, members, write_many, write_tree


class TestZipMounted(MountContract):
    expected = CONTENT

    def make_archive(self, tmp_path: Path) -> Path:
        return write_tree(tmp_path / "archive.zip")


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory, transport: str) -> Iterator[Mount]:
    """One mount for all tests that only look."""
    folder = tmp_path_factory.mktemp("zip")
    with mounted(write_tree(folder / "archive.zip"), at=folder / "mnt", transport=transport) as mount:
        yield mount


def run(*command: str | Path, **more) -> str:
    done = subprocess.run(
        [tool(str(command[0])), *map(str, command[1:])], capture_output=True, text=True, timeout=60, check=False, **more
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


# -- tools --


def test_rsync_copies_it_out(mount: Mount, tmp_path: Path) -> None:
    # an ordinary user's rsync -X cannot fill a folder that is read-only, as those of a mount are
    copy = ["rsync", "-aX", "--chmod=u+w", f"{mount.path}/", f"{tmp_path}/copy/"]
    run(*copy)
    assert run("diff", "-r", "--no-dereference", mount.path, tmp_path / "copy") == ""
    assert sorted(os.listdir(tmp_path / "copy")) == sorted(CONTENT)
    key = os.getxattr(tmp_path / "copy" / "a" / "hello.txt", "user.archivefs.key")
    assert key == b"a/hello.txt"
    # a second rsync finds nothing to do: sizes and times are exact
    assert run(*copy, "--itemize-changes") == ""


def test_cp_and_tar_copy_it_out(mount: Mount, tmp_path: Path) -> None:
    run("cp", "-a", mount.path, tmp_path / "copy")
    assert run("diff", "-r", "--no-dereference", mount.path, tmp_path / "copy") == ""
    run("tar", "-C", mount.path, "-cf", tmp_path / "a.tar", ".")
    assert run("tar", "-C", mount.path, "-df", tmp_path / "a.tar") == ""


def test_unzip_gives_the_same_files(mount: Mount, tmp_path: Path) -> None:
    run("unzip", "-q", mount.path.with_name("archive.zip"), "-d", tmp_path / "unzipped", env={"LC_ALL": "C.UTF-8"})
    assert run("diff", "-r", "--no-dereference", mount.path, tmp_path / "unzipped") == ""


def test_grep_finds_what_is_in_it(mount: Mount) -> None:
    found = run("grep", "-rl", "number 42$", mount.path).split()
    assert found == [f"{mount.path}/many/042.txt"]


def test_find_sees_kinds_and_sizes(mount: Mount) -> None:
    lines = run("find", ".", "-mindepth", "1", "-printf", r"%P\t%y\t%s\n", cwd=mount.path).splitlines()
    found = {name: (kind, int(size)) for name, kind, size in (line.split("\t") for line in lines)}
    for name, value in members(CONTENT):
        kind, size = found.pop(name.rstrip("/"))
        assert kind == {dict: "d", bytes: "f", str: "l"}[type(value)], name
        if not isinstance(value, dict):
            assert size == len(value), name
    assert found == {}


def test_links_lead_where_they_should(mount: Mount) -> None:
    assert (mount.path / "link").read_bytes() == b"hello"
    assert (mount.path / "a" / "deep" / "up").read_bytes() == b"hello"


def test_getfattr_finds_no_fault(mount: Mount) -> None:
    run("getfattr", "--absolute-names", "-d", "-m", "-", "-R", mount.path)
    with pytest.raises(OSError) as caught:
        os.getxattr(mount.path / "large.bin", "user.there.is.none")
    assert caught.value.errno == errno.ENODATA


@pytest.mark.parametrize("name", ["security.capability", "system.posix_acl_access", "trusted.x"])
def test_attributes_of_the_system_are_not_there(mount: Mount, name: str) -> None:
    with pytest.raises(OSError) as caught:
        os.getxattr(mount.path / "large.bin", name)
    assert caught.value.errno in (errno.ENODATA, errno.EOPNOTSUPP)


# -- the driver's promises --


def test_inode_numbers_are_the_same_at_every_look(mount: Mount) -> None:
    def numbers() -> dict[str, int]:
        found = {}
        for folder, _, _ in os.walk(mount.path):
            for entry in os.scandir(folder):
                assert entry.stat(follow_symlinks=False).st_ino == entry.inode() == os.lstat(entry.path).st_ino
                found[entry.path] = entry.inode()
        return found

    first = numbers()
    assert len(set(first.values())) == len(first) > 300
    assert numbers() == first


def test_the_mount_is_read_only(mount: Mount) -> None:
    path = mount.path / "a" / "hello.txt"
    attempts: list[Callable[[], object]] = [
        lambda: os.open(path, os.O_WRONLY),
        lambda: os.open(path, os.O_RDWR),
        lambda: os.open(mount.path / "new", os.O_CREAT | os.O_WRONLY),
        lambda: os.mkdir(mount.path / "new"),
        lambda: os.unlink(path),
        lambda: os.rmdir(mount.path / "empty"),
        lambda: os.rename(path, mount.path / "new"),
        lambda: os.symlink("a", mount.path / "new"),
        lambda: os.link(path, mount.path / "new"),
        lambda: os.chmod(path, 0o600),
        lambda: os.utime(path, (1, 1)),
        lambda: os.truncate(path, 0),
        lambda: os.setxattr(path, "user.x", b"x"),
        lambda: os.mkfifo(mount.path / "new"),
    ]
    for attempt in attempts:
        with pytest.raises(OSError) as caught:
            attempt()
        assert caught.value.errno == errno.EROFS
    assert path.read_bytes() == b"hello"


def test_statfs_says_how_much_there_is(mount: Mount) -> None:
    status = os.statvfs(mount.path)
    assert status.f_namemax >= 255
    assert status.f_blocks * status.f_frsize >= len(CONTENT["large.bin"])  # type: ignore[arg-type]
    assert status.f_bavail == 0
    assert status.f_flag & os.ST_RDONLY
    assert status.f_flag & os.ST_NOSUID
    assert status.f_flag & os.ST_NODEV


def test_everything_belongs_to_whoever_mounted_it(mount: Mount) -> None:
    for path in (mount.path, mount.path / "a", mount.path / "a" / "hello.txt", mount.path / "link"):
        status = os.lstat(path)
        assert (status.st_uid, status.st_gid) == (os.getuid(), os.getgid())
    assert os.lstat(mount.path / "a").st_mode & 0o7777 == 0o555
    assert os.lstat(mount.path / "a" / "hello.txt").st_mode & 0o7777 == 0o444


def test_the_control_folder_is_there_but_not_listed(mount: Mount) -> None:
    assert ".archivefs" not in os.listdir(mount.path)
    assert ".archivefs" not in run("find", mount.path)
    assert {"status.json", "errors.log"} <= set(os.listdir(mount.path / ".archivefs"))
    with pytest.raises(FileNotFoundError):
        os.stat(mount.path / "a" / ".archivefs")


def test_status_json_tells_of_the_mount(mount: Mount, transport: str) -> None:
    status = json.loads((mount.path / ".archivefs" / "status.json").read_text())
    assert status["format"] == "zip"
    assert status["source"] == str(mount.path.with_name("archive.zip"))
    assert status["options"]["transport"] == transport
    assert status["transport"] == transport
    assert status["pid"] == mount.process.pid
    assert status["generation"] == 0
    assert 0 < status["uptime_s"] < 3600
    assert status["cache"]["limit"] == 64 << 20
    assert status["cache"]["size"] <= status["cache"]["limit"]
    before = sum(status["operations"].values())
    for name in ("no", "such", "names"):
        assert not (mount.path / name).exists()
    (mount.path / "many" / "000.txt").read_bytes()
    again = json.loads((mount.path / ".archivefs" / "status.json").read_text())
    assert sum(again["operations"].values()) > before
    assert again["uptime_s"] >= status["uptime_s"]


def test_no_problem_was_met(mount: Mount) -> None:
    assert (mount.path / ".archivefs" / "errors.log").read_text() == ""
    assert mount.said() == ""


# -- many names --


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_many(tmp_path_factory.mktemp("many") / "many.zip", 1_000_000)


def resident(pid: int) -> int:
    """The resident memory of a process, in bytes."""
    with open(f"/proc/{pid}/statm") as line:
        return int(line.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def first_names(path: Path, count: int) -> float:
    """How many seconds it takes until the first names of a folder are there."""
    start = time.monotonic()
    with os.scandir(path) as listing:
        assert len({next(listing).name for _ in range(count)}) == count
        return time.monotonic() - start


def test_the_first_of_a_million_names_comes_at_once(many: Path, tmp_path: Path, transport: str) -> None:
    with mounted(many, at=tmp_path / "mnt", transport=transport) as mount:
        folder = mount.path / "many"
        assert first_names(folder, 10) < 5  # the first look puts the names in order, once
        assert first_names(folder, 10) < 0.5, "the folder is read whole before the first name comes"
        before = resident(mount.process.pid)
        first_names(folder, 50_000)
        assert resident(mount.process.pid) - before < 16 << 20
        assert (folder / "0999999").read_bytes() == b""


def test_the_second_mount_uses_what_the_first_has_kept(tmp_path: Path, transport: str) -> None:
    (tmp_path / "archives").mkdir()
    archive = write_tree(tmp_path / "archives" / "archive.zip")
    index = tmp_path / "index"
    seen = []
    for _ in range(2):
        with mounted(archive, at=tmp_path / "mnt", transport=transport, options=f"index={index}") as mount:
            seen.append(run("ls", "-lR", mount.path))
        kept = {path: path.stat().st_ino for path in index.iterdir()}
        seen.append(str(sorted(kept.items())))
    assert seen[:2] == seen[2:]
    assert len(kept) == 2
    assert [path.name for path in (tmp_path / "archives").iterdir()] == ["archive.zip"]
