"""``python -m contrib.bench.transports``: what the way to the kernel costs, without any archive behind it.

One tree in memory (small files in folders, one large file, one large file on disk as a plain extent) is served by
each transport in turn, several rounds, and the best of each is shown.  ``kernel/1`` is the kernel's protocol with a
single worker: whether more of them win shows beside it.  Needs root, to drop caches.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from archivefs.caches import ByteCache
from archivefs.fuse.driver import Driver
from archivefs.fuse.mount import TRANSPORTS
from archivefs.fuse.options import MountOptions
from archivefs.memory import MemoryTree
from archivefs.readers import ExtentReader
from archivefs.tree import Attributes, Extent, File, Node, Reader
from contrib.bench.processes import drop_caches

FOLDERS, FILES_EACH = 100, 100
LARGE = 1 << 30
RANDOM_READS = 5000
COLUMNS = ("fusepy", "kernel/1", "kernel")
NEEDLE = "no such text"


class SampleTree(MemoryTree):
    """10,000 small files, and a large one of zeros that need no memory; optionally one that lies on disk."""

    def __init__(self, plain: str) -> None:
        chance = random.Random(1)
        folder = {
            f"page {number:03}.html": chance.randbytes(chance.randrange(200, 3000)) for number in range(FILES_EACH)
        }
        super().__init__({f"folder {number:03}": folder for number in range(FOLDERS)} | {"zeros": b"", "plain": b""})
        self._special = {
            self.lookup((name,)).ident: file(self, self.lookup((name,)).ident, plain)
            for name, file in (("zeros", Zeros), ("plain", Plain))
        }

    def node(self, ident: int) -> Node:
        return self._special.get(ident) or super().node(ident)

    def lookup_special(self, node: Node) -> Node:
        """*node*, or the one that stands in its place."""
        return self._special.get(node.ident, node)


class Zeros(File):
    """A gibibyte of zeros."""

    def __init__(self, tree: SampleTree, ident: int, plain: str) -> None:
        self.tree: SampleTree = tree
        self.ident = ident
        self.path = plain

    def attributes(self) -> Attributes:
        return Attributes(LARGE)

    def open(self) -> Reader:
        return ZerosReader()


class ZerosReader(Reader):
    """Slices of one block."""

    BLOCK = bytes(1 << 20)

    def read_at(self, offset: int, size: int) -> bytes:
        size = max(0, min(size, LARGE - offset))
        return self.BLOCK if size == len(self.BLOCK) else self.BLOCK[:size]

    def attributes(self) -> Attributes:
        return Attributes(LARGE)

    def close(self) -> None:
        """Nothing is held."""


class Plain(Zeros):
    """The same, but from a file on disk."""

    def open(self) -> Reader:
        return ExtentReader(Extent(os.open(self.path, os.O_RDONLY), 0, LARGE), owned=True)


class SampleDriver(Driver):
    """A driver that puts the special files in their places."""

    def lookup(self, directory: Node, name: str) -> Node:
        node = super().lookup(directory, name)
        return self.tree.lookup_special(node) if isinstance(self.tree, SampleTree) else node


# -- serving --


def serve(column: str, plain: str, mountpoint: str) -> None:
    """Serve until unmounted; says "ready" on stdout."""
    name, _, workers = column.partition("/")
    transport = TRANSPORTS[name]()
    if workers:
        transport.workers = int(workers)  # type: ignore[attr-defined]
    options = MountOptions(transport=name)
    serving = transport(SampleDriver(SampleTree(plain), options, ByteCache()), mountpoint)
    done = threading.Event()

    def run() -> None:
        serving.serve(lambda: print("ready", flush=True))
        done.set()

    threading.Thread(target=run, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: serving.stop())
    while not done.wait(0.2):
        pass


@contextmanager
def mounted(column: str, plain: str, work: Path) -> Iterator[str]:
    """The path of a fresh mount, with empty caches."""
    point = work / "mnt"
    point.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "contrib.bench.transports", "--serve", column, plain, str(point)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        if server.stdout.readline() != b"ready\n":
            raise SystemExit(f"transports: {column} did not mount")
        try:
            drop_caches()
            yield str(point)
        finally:
            subprocess.run(["umount", str(point)], check=True)


# -- measuring --


def seconds_of(*command: str) -> float:
    """How long a program takes; what it says is not wanted."""
    start = perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return perf_counter() - start


def walk(root: str) -> float:
    """``find -ls``."""
    return seconds_of("find", root, "-ls")


def grep(root: str) -> float:
    """``grep -r`` over the small files."""
    return seconds_of("grep", "-r", NEEDLE, *(f"{root}/folder {number:03}" for number in range(FOLDERS)))


def sequential(path: str) -> float:
    """A whole large file, by pieces of a mebibyte."""
    return seconds_of("dd", f"if={path}", "of=/dev/null", "bs=1M")


def scattered(path: str) -> float:
    """Small reads here and there, each asked of the driver."""
    chance = random.Random(2)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        start = perf_counter()
        for _ in range(RANDOM_READS):
            os.pread(descriptor, 4096, chance.randrange(LARGE // 4096) * 4096)
        return perf_counter() - start
    finally:
        os.close(descriptor)


Steps = tuple[tuple[str, Callable[[str], float], Callable[[float], str]], ...]


def _seconds(value: float) -> str:
    return f"{value:.3f} s"


def _speed(value: float) -> str:
    return f"{LARGE / value / 1e6:.0f} MB/s"


def _each(value: float) -> str:
    return f"{value / RANDOM_READS * 1e6:.0f} us"


SCENARIOS: tuple[Steps, ...] = (
    (("walk, cold", walk, _seconds), ("walk, warm", walk, _seconds)),
    (("grep -r, cold", grep, _seconds), ("grep -r, warm", grep, _seconds)),
    (("1 GiB from memory, cold", lambda root: sequential(f"{root}/zeros"), _speed),),
    (("1 GiB from a plain file, cold", lambda root: sequential(f"{root}/plain"), _speed),),
    (("4 KiB at random", lambda root: scattered(f"{root}/zeros"), _each),),
)


def measure(columns: list[str], rounds: int, work: Path) -> dict[str, dict[str, float]]:
    """The best of each: by measure and column."""
    plain = work / "plain"
    subprocess.run(["dd", "if=/dev/urandom", f"of={plain}", "bs=1M", f"count={LARGE >> 20}"], check=True, stderr=-3)
    best: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for column in columns:
            for steps in SCENARIOS:
                with mounted(column, str(plain), work) as root:
                    for name, action, _ in steps:
                        seen = best.setdefault(name, {})
                        seen[column] = min(action(root), seen.get(column, 1e9))
    return best


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="Measure what the way to the kernel costs.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--columns", default=",".join(COLUMNS), help="comma-separated (%(default)s)")
    parser.add_argument("--serve", nargs=3, metavar=("COLUMN", "FILE", "MOUNTPOINT"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(*asked.serve)
        return 0
    columns = asked.columns.split(",")
    with tempfile.TemporaryDirectory(prefix="archivefs-transports-") as work:
        best = measure(columns, asked.rounds, Path(work))
    formats = {name: shown for steps in SCENARIOS for name, _, shown in steps}
    print("| measure | " + " | ".join(columns) + " | first / last |")
    print("|---|" + "---:|" * (len(columns) + 1))
    for name, values in best.items():
        cells = [formats[name](values[column]) for column in columns]
        print(f"| {name} | " + " | ".join(cells) + f" | {values[columns[0]] / values[columns[-1]]:.1f}x |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
