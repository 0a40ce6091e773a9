"""Clients of a mount that run for a while: random operations, many readers, walks while archives change.

Each compares what the mount says with a plain folder that holds the same, and returns what differs.  The tests run
them briefly, ``make torture`` for long.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import random
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

CLIENTS = 8
GONE = {errno.ENOENT, errno.ESTALE}
"""What a client may be told while archives come and go."""


class RandomClient:
    """Asks a mount and a plain folder the same things, in an order that its seed decides."""

    def __init__(self, mount: Path, plain: Path, *, seed: int) -> None:
        self.mount = mount
        self.plain = plain
        self.paths = sorted(str(path.relative_to(plain)) for path in [plain, *plain.rglob("*")])
        self.chance = random.Random(seed)
        self.open: list[tuple[int, int, str]] = []
        self.problems: list[str] = []

    def run(self, operations: int) -> list[str]:
        """Do so many operations; what differed."""
        ways = [self._stat, self._list, self._read, self._open, self._read_open, self._close, self._link]
        ways += [self._missing, self._map, self._resume, self._change]
        for number in range(operations):
            way = self.chance.choice(ways)
            path = self.chance.choice(self.paths)
            dice = self.chance.getstate()  # the same for both
            here = self._told(way, self.mount, path)
            self.chance.setstate(dice)
            there = self._told(way, self.plain, path)
            if here != there:
                self.problems.append(f"{number} {way.__name__.strip('_')} {path}: {here!r}, expected {there!r}"[:500])
        while self.open:
            self._close()
        return self.problems

    def _told(self, way: Callable, root: Path, path: str) -> object:
        try:
            return way(root, path)
        except OSError as error:
            return errno.errorcode.get(error.errno or 0, str(error))

    def _stat(self, root: Path, path: str) -> object:
        """Kind and size; the time of files only, since unzip gives links and folders that of the unpacking."""
        status = os.lstat(root / path)
        is_file = stat.S_ISREG(status.st_mode)
        size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
        return stat.S_IFMT(status.st_mode), size, status.st_mtime_ns if is_file else 0

    def _list(self, root: Path, path: str) -> object:
        with os.scandir(root / path) as entries:
            return sorted((e.name, e.is_dir(follow_symlinks=False), e.is_symlink()) for e in entries)

    def _read(self, root: Path, path: str) -> object:
        with open(root / path, "rb", buffering=0) as file:
            return hashlib.sha256(file.read()).digest()

    def _open(self, root: Path, path: str) -> object:
        """Keep a file open on both sides; done for both when the mount's turn comes."""
        if root is self.plain or len(self.open) >= 20 or not (self.plain / path).is_file():
            return None
        self.open.append((os.open(self.mount / path, os.O_RDONLY), os.open(self.plain / path, os.O_RDONLY), path))
        return None

    def _read_open(self, root: Path, _path: str) -> object:
        if not self.open:
            return None
        one, two, _ = self.chance.choice(self.open)
        fd = one if root is self.mount else two
        offset, size = self.chance.randrange(1 << self.chance.randrange(1, 24)), 1 << self.chance.randrange(18)
        return os.pread(fd, size, offset)

    def _close(self, root: Path | None = None, _path: str = "") -> object:
        if self.open and root is not self.plain:
            one, two, _ = self.open.pop(0)
            os.close(one)
            os.close(two)
        return None

    def _link(self, root: Path, path: str) -> object:
        return os.readlink(root / path)

    def _missing(self, root: Path, path: str) -> object:
        return os.lstat(root / path / self.chance.choice(["none", "a b", "ü", "x" * 250]))

    def _map(self, root: Path, path: str) -> object:
        with open(root / path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return None  # an empty file cannot be mapped
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
                at = self.chance.randrange(len(view))
                return view[at : at + 5000]

    def _resume(self, root: Path, path: str) -> object:
        """Begin a listing, leave it, and begin again."""
        with os.scandir(root / path) as entries:
            next(entries, None)
        return len(os.listdir(root / path))

    def _change(self, root: Path, path: str) -> object:
        """A read-only mount refuses; the plain folder is not asked."""
        if root is self.plain:
            return "EROFS"
        target = self.mount / path / "new" if (self.plain / path).is_dir() else self.mount / path
        return os.open(target, os.O_RDWR | os.O_CREAT)


def at_once(work: Callable[[int], list[str]], clients: int = CLIENTS) -> list[str]:
    """What *clients* threads find, each with its number; one that does not come back is a problem too."""
    problems: list[str] = []

    def run(number: int) -> None:
        try:
            problems.extend(work(number))
        except Exception as error:
            problems.append(f"client {number}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    return problems + ["a client did not come back" for thread in threads if thread.is_alive()]


def read_for(mount: Path, digests: dict[str, str], *, seconds: float, seed: int) -> list[str]:
    """Read whole files over and over; those whose bytes are not the expected ones."""
    chance = random.Random(seed)
    names = sorted(digests)
    end = time.monotonic() + seconds
    problems = []
    while time.monotonic() < end:
        name = chance.choice(names)
        digest = hashlib.sha256((mount / name).read_bytes()).hexdigest()
        if digest != digests[name]:
            problems.append(f"{name}: other bytes than expected")
    return problems


def digests_of(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def walk_for(mount: Path, *, seconds: float) -> list[str]:
    """Walk and read while archives come and go; every file says itself what it holds, so a mixture shows."""
    end = time.monotonic() + seconds
    problems = []
    while time.monotonic() < end:
        try:
            for folder, _, names in os.walk(mount, onerror=_tell):
                for name in names:
                    data = Path(folder, name).read_bytes()
                    if hashlib.sha256(data[64:]).hexdigest().encode() != data[:64]:
                        problems.append(f"{folder}/{name}: torn or mixed content")
        except OSError as error:
            if error.errno not in GONE:
                problems.append(str(error))
    return problems


def _tell(error: OSError) -> None:
    if error.errno not in GONE:
        raise error


def sealed(data: bytes) -> bytes:
    """*data* behind its own SHA-256, for ``walk_for``."""
    return hashlib.sha256(data).hexdigest().encode() + data
