"""Ordinary tools and random operations on a read-write mount, beside a plain folder; on both transports.

The tree is the plug-in's ``scratch``: an overlay over a few files, with a staging area and no format's own rules.
"""

from __future__ import annotations

import errno
import mmap
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.mount.harness import Mount, mounted, tool, wait_until
from tests.mount.test_odd import ENV, odd_archive

STEPS = 400
NAMES = ["a", "b", "c", "dir", "in", "base.txt", "é ü", "x.txt"]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return odd_archive(tmp_path, "scratch")


@pytest.fixture
def mount(archive: Path, tmp_path: Path, transport: str) -> Iterator[Mount]:
    with mounted(archive, at=tmp_path / "m", transport=transport, options="rw", env=ENV) as mount:
        yield mount


def run(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run([*map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def make_folder(where: Path) -> Path:
    (where / "sub" / "deep").mkdir(parents=True)
    for number in range(30):
        (where / "sub" / f"{number}.txt").write_bytes(bytes([number]) * number * 997)
    (where / "sub" / "deep" / "big").write_bytes(random.Random(1).randbytes(3_000_000))
    (where / "empty").touch()
    return where


# -- what people do --


def test_copying_in_and_out(mount: Mount, tmp_path: Path) -> None:
    source = make_folder(tmp_path / "source")
    run("cp", "-r", source, "copied", cwd=mount.path)
    run("rsync", "-a", f"{source}/", "synced/", cwd=mount.path)
    run("sh", "-c", f"tar cf - -C '{source}' . | (mkdir untarred; tar xf - -C untarred)", cwd=mount.path)
    for name in ("copied", "synced", "untarred"):
        run("diff", "-r", source, mount.path / name, cwd=tmp_path)
    run("rsync", "-a", f"{mount.path}/synced/", tmp_path / "out", cwd=tmp_path)
    run("diff", "-r", source, tmp_path / "out", cwd=tmp_path)
    run("mv", "copied", "moved", cwd=mount.path)
    run("rm", "-r", "synced", "untarred", cwd=mount.path)
    run("diff", "-r", source, mount.path / "moved", cwd=tmp_path)
    assert not (mount.path / "synced").exists()


def test_editing(mount: Mount) -> None:
    run("sed", "-i", "s/base/BASE/", "base.txt", cwd=mount.path)
    assert (mount.path / "base.txt").read_bytes() == b"BASE\n"
    run("sh", "-c", "(cat base.txt; cat dir/in) > both; echo more >> both", cwd=mount.path)
    assert (mount.path / "both").read_bytes() == b"BASE\nin\nmore\n"
    run("truncate", "-s", "2", "both", cwd=mount.path)
    run("truncate", "-s", "5", "both", cwd=mount.path)
    assert (mount.path / "both").read_bytes() == b"BA\0\0\0"
    run("mv", "both", "base.txt", cwd=mount.path)
    assert (mount.path / "base.txt").read_bytes() == b"BA\0\0\0"


def test_git(mount: Mount, tmp_path: Path) -> None:
    tool("git")
    source = make_folder(tmp_path / "source")
    git = ("git", "-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "safe.directory=*")
    run(*git, "init", "-q", "repo", cwd=mount.path)
    shutil.copytree(source / "sub", mount.path / "repo" / "sub")
    run(*git, "add", "-A", cwd=mount.path / "repo")
    run(*git, "commit", "-qm", "first", cwd=mount.path / "repo")
    (mount.path / "repo" / "sub" / "1.txt").write_text("changed")
    run(*git, "commit", "-qam", "second", cwd=mount.path / "repo")
    run(*git, "fsck", "--strict", cwd=mount.path / "repo")
    assert run(*git, "status", "--short", cwd=mount.path / "repo") == ""
    assert len(run(*git, "log", "--oneline", cwd=mount.path / "repo").splitlines()) == 2


def test_a_database_and_a_memory_map(mount: Mount) -> None:
    connection = sqlite3.connect(mount.path / "x.db")
    connection.execute("create table t (n)")
    connection.executemany("insert into t values (?)", [(n,) for n in range(2000)])
    connection.commit()
    assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    connection.close()
    with open(mount.path / "mapped", "w+b") as file:
        file.truncate(10_000)
        with mmap.mmap(file.fileno(), 0) as mapped:
            mapped[5000:5005] = b"hello"
    assert (mount.path / "mapped").read_bytes()[4999:5006] == b"\0hello\0"


def test_a_removed_file_lives_as_long_as_it_is_open(mount: Mount) -> None:
    with open(mount.path / "gone", "w+b") as file:
        file.write(b"abc" * 50_000)
        file.flush()
        os.unlink(mount.path / "gone")
        assert "gone" not in os.listdir(mount.path)
        file.seek(0)
        assert file.read() == b"abc" * 50_000
        assert os.fstat(file.fileno()).st_size == 150_000
        file.write(b"more")
    assert not (mount.path / "gone").exists()
    assert [name for name in os.listdir(mount.path) if name.startswith(".fuse")] == []


def test_modes_times_and_owners(mount: Mount) -> None:
    path = mount.path / "base.txt"
    os.chmod(path, 0o600)
    os.utime(path, ns=(1, 1_600_000_000_123_456_789))
    state = path.stat()
    assert (state.st_mode & 0o7777, state.st_mtime_ns) == (0o600, 1_600_000_000_123_456_789)
    os.chown(path, os.getuid(), os.getgid())
    if os.getuid() == 0:
        with pytest.raises(PermissionError):
            os.chown(path, 12345, -1)
    assert path.read_bytes() == b"base\n"


def test_what_cannot_be_is_refused_as_anywhere(mount: Mount) -> None:
    root = mount.path
    cases = [
        (errno.EPERM, lambda: os.link(root / "base.txt", root / "hard")),
        (errno.EPERM, lambda: os.symlink("base.txt", root / "soft")),
        (errno.EPERM, lambda: os.mkfifo(root / "pipe")),
        (errno.EINVAL, lambda: (root / "a*b").touch()),
        (errno.ENOTEMPTY, lambda: os.rmdir(root / "dir")),
        (errno.EISDIR, lambda: os.unlink(root / "dir")),
        (errno.ENOTDIR, lambda: os.rmdir(root / "base.txt")),
        (errno.EEXIST, lambda: os.mkdir(root / "dir")),
        (errno.EEXIST, lambda: os.close(os.open(root / "base.txt", os.O_CREAT | os.O_EXCL | os.O_WRONLY))),
        (errno.ENOENT, lambda: os.rename(root / "none", root / "x")),
        (errno.EISDIR, lambda: os.rename(root / "base.txt", root / "dir")),
        (errno.EILSEQ, lambda: os.close(os.open(os.fsencode(root) + b"/\xff", os.O_CREAT | os.O_WRONLY))),
        (errno.EOPNOTSUPP, lambda: os.setxattr(root / "base.txt", "user.mine", b"x")),
    ]
    for number, action in cases:
        with pytest.raises(OSError) as caught:
            action()
        assert caught.value.errno == number, (errno.errorcode[number], caught.value)


def test_what_is_pending_is_told_and_can_be_thrown_away(mount: Mount) -> None:
    (mount.path / "new").write_text("1")
    os.unlink(mount.path / "base.txt")
    (mount.path / "dir" / "in").write_text("2")
    lines = (mount.path / ".archivefs" / "pending").read_text().splitlines()
    assert lines == ["removed base.txt", "changed dir/in", "added new"]
    (mount.path / ".archivefs" / "control").write_text("discard")
    assert (mount.path / ".archivefs" / "pending").read_text() == ""
    end = time.monotonic() + 5
    while sorted(os.listdir(mount.path)) != ["base.txt", "dir"] and time.monotonic() < end:
        time.sleep(0.05)
    assert (mount.path / "base.txt").read_bytes() == b"base\n"
    assert (mount.path / "dir" / "in").read_bytes() == b"in\n"
    with pytest.raises(OSError):
        (mount.path / ".archivefs" / "control").write_text("nonsense")


def test_what_is_thrown_away_is_gone_when_the_command_returns(mount: Mount, transport: str) -> None:
    """libfuse 2 has no way to tell the kernel, so there it takes up to a second."""
    for number in range(5):
        old, *new = paths = [mount.path / name for name in ("base.txt", f"new{number}", "dir/more")]
        for path in paths:
            path.write_text("changed")
        assert [path.stat().st_size for path in paths] == [7, 7, 7]
        (mount.path / ".archivefs" / "control").write_text("discard")
        assert sorted(os.listdir(mount.path)) == ["base.txt", "dir"]
        assert sorted(os.listdir(mount.path / "dir")) == ["big", "in"]
        if transport == "fusepy":
            assert all(wait_until(partial(_is_missing, path), 5) for path in new)
        else:
            assert all(_is_missing(path) for path in new)
            assert old.stat().st_size == 5


def _is_missing(path: Path) -> bool:
    return not path.exists()


# -- random operations, beside a plain folder --


class Beside:
    """The same operation on both; both say the same, also what is wrong."""

    def __init__(self, one: Path, two: Path, seed: int) -> None:
        self.roots = (one, two)
        self.random = random.Random(seed)

    def path(self) -> Path:
        depth = self.random.choice([1, 1, 2, 2, 3])
        return Path(*(self.random.choice(NAMES) for _ in range(depth)))

    def step(self) -> None:
        action = self.random.choice([self.write, self.write, self.patch, self.append, self.remove, self.rename])
        action = self.random.choice([action, action, self.mkdir, self.rmtree, self.truncate])
        action()

    def both(self, action, *paths: Path) -> None:
        outcome = []
        for root in self.roots:
            try:
                outcome.append(action(*(root / path for path in paths)))
            except OSError as error:
                outcome.append(errno.errorcode[error.errno])
        assert outcome[0] == outcome[1], (action, paths, outcome)

    def data(self) -> bytes:
        return self.random.randbytes(self.random.choice([0, 1, 100, 5000, 40_000, 200_000]))

    def write(self) -> None:
        data = self.data()
        self.both(lambda path: path.write_bytes(data), self.path())

    def patch(self) -> None:
        data, offset = self.data(), self.random.choice([0, 3, 4096, 100_000])

        def patch(path: Path) -> None:
            with open(path, "r+b") as file:
                file.seek(offset)
                file.write(data)

        self.both(patch, self.path())

    def append(self) -> None:
        data = self.data()

        def append(path: Path) -> None:
            with open(path, "ab") as file:
                file.write(data)

        self.both(append, self.path())

    def truncate(self) -> None:
        size = self.random.choice([0, 10, 50_000])
        self.both(lambda path: os.truncate(path, size), self.path())

    def mkdir(self) -> None:
        self.both(os.mkdir, self.path())

    def remove(self) -> None:
        self.both(os.unlink, self.path())

    def rmtree(self) -> None:
        self.both(os.rmdir, self.path())

    def rename(self) -> None:
        self.both(os.rename, self.path(), self.path())

    def same(self) -> None:
        assert snapshot(self.roots[0]) == snapshot(self.roots[1])


def snapshot(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes() for path in sorted(root.rglob("*"))
    }


@pytest.mark.parametrize("seed", [1, 2])
def test_random_operations_with_remounts(archive: Path, tmp_path: Path, transport: str, seed: int) -> None:
    plain, at = tmp_path / "plain", tmp_path / "m"
    for round_number in range(3):
        with mounted(archive, at=at, transport=transport, options="rw", env=ENV) as mount:
            if not round_number:
                shutil.copytree(mount.path, plain)
            beside = Beside(mount.path, plain, seed * 10 + round_number)
            for _ in range(STEPS // 3):
                beside.step()
            beside.same()


def test_acknowledged_writes_survive_kill_9(archive: Path, tmp_path: Path, transport: str) -> None:
    """What close() or fsync() has acknowledged is there after the driver was killed; the rest is old or new."""
    acknowledged: dict[str, bytes] = {}
    rng = random.Random(5)
    for round_number in range(4):
        mount = Mount(archive, at=tmp_path / "m", transport=transport, options="rw", env=ENV).wait_ready()
        try:
            for name, data in acknowledged.items():
                assert (mount.path / name).read_bytes() == data, f"{name} was lost"
            for number in range(rng.randrange(5, 15)):
                name, data = f"f{round_number}-{number}", rng.randbytes(rng.choice([10, 5000, 60_000]))
                (mount.path / name).write_bytes(data)
                acknowledged[name] = data
            half = open(mount.path / "half", "wb")
            half.write(b"h" * 100_000)
            half.flush()
            mount.process.send_signal(signal.SIGKILL)
            mount.process.wait(10)
            with pytest.raises(OSError):
                os.fsync(half.fileno())
            with pytest.raises(OSError):
                half.close()
        finally:
            mount.end()
