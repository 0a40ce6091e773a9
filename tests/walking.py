"""Walking a tree and reading what is in it, for the contract and for other tests."""

from __future__ import annotations

import gc
import os
import random
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from archivefs.tree import Directory, Entry, File, Node, Parts, Reader, Symlink, Tree

MANY = 40  # of how many names or files the costly tests take their share
THREADS = 8


class Found(NamedTuple):
    """One thing met on a walk."""

    parts: Parts
    entry: Entry
    node: Node
    depth: int
    """How far below the root of its own tree, or of what is shown of it."""


# -- walking --


def walk(tree: Tree) -> Iterator[Found]:
    """Everything below the root, parents first; links are not followed."""

    def below(directory: Directory, parts: Parts, depth: int) -> Iterator[Found]:
        for entry in directory.entries():
            node = directory.child(entry.name)
            here = (*parts, entry.name)
            # a directory of another tree is a root of its own: links may not lead above that one
            inside = depth if node.tree is directory.tree else 0
            yield Found(here, entry, node, inside)
            if isinstance(node, Directory):
                yield from below(node, here, inside + 1 if node.tree is directory.tree else 0)

    return below(tree.root(), (), 0)


def directories(tree: Tree) -> Iterator[tuple[Directory, list[str]]]:
    """Every directory with the names in it."""
    yield tree.root(), names_of(tree.root())
    for found in walk(tree):
        if isinstance(found.node, Directory):
            yield found.node, names_of(found.node)


def files(tree: Tree) -> list[tuple[Parts, File]]:
    """A share of the files, small and large."""
    found = [(parts, node) for parts, _, node, _ in walk(tree) if isinstance(node, File)]
    assert found, "the contract needs an archive with a file in it"
    return shares(found)


def names_of(directory: Directory, after: str | None = None) -> list[str]:
    """The names of a listing."""
    return [entry.name for entry in directory.entries(after)]


def shares(things: Sequence) -> list:
    """All of a few, and about MANY of many: the first, the last and some between."""
    if len(things) <= MANY:
        return list(things)
    step = len(things) // MANY
    return [*things[::step], things[-1]]


# -- content --


class opened:
    """``with opened(file) as reader``."""

    def __init__(self, file: File) -> None:
        self._file = file

    def __enter__(self) -> Reader:
        self._reader = self._file.open()
        return self._reader

    def __exit__(self, *_error: object) -> None:
        self._reader.close()


def content_of(node: Node) -> object:
    """Bytes of a file, target of a link, names of a directory."""
    if isinstance(node, File):
        with opened(node) as reader:
            return reader.read_at(0, reader.attributes().size)
    if isinstance(node, Symlink):
        return node.target()
    assert isinstance(node, Directory)
    return names_of(node)


def as_dict(directory: Directory) -> dict[str, object]:
    """A directory as MemoryTree takes it."""
    return {entry.name: _value_of(directory.child(entry.name)) for entry in directory.entries()}


def _value_of(node: Node) -> object:
    return as_dict(node) if isinstance(node, Directory) else content_of(node)


def stretches(size: int, *, seed: int) -> list[tuple[int, int]]:
    """Offsets and lengths worth a try in a file of *size* bytes."""
    chance = random.Random(seed)
    edges = [
        (0, size),
        (0, 1),
        (0, size + 1),
        (max(0, size - 1), 2),
        (max(0, size - 4097), 4096),
        (1, 4096),
        (size // 2, size),
    ]
    return edges + [(chance.randrange(size + 2), chance.randrange(1, 1 << chance.randrange(1, 18))) for _ in range(16)]


def stays_inside(target: str, *, depth: int) -> bool:
    """Does a link in a directory *depth* levels below its root lead nowhere above that root?"""
    if not target or target.startswith("/") or "\0" in target:
        return False
    for piece in target.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(piece, 1)
        if depth < 0:
            return False
    return True


def problems_of(work: Callable[[int], None]) -> list[BaseException]:
    """What goes wrong when eight threads do the same at once."""
    problems: list[BaseException] = []
    start = threading.Barrier(THREADS)

    def run(number: int) -> None:
        try:
            start.wait(10)
            work(number)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    problems += [TimeoutError("a thread did not end") for thread in threads if thread.is_alive()]
    return problems


# -- what must not change --


def state_of(path: Path) -> dict[str, object]:
    """Names, bytes, times and modes of a file or of a whole folder; access times may move."""
    status = path.lstat()
    state: dict[str, object] = {str(path): (status.st_mode, status.st_mtime_ns, status.st_ino, status.st_size)}
    if stat.S_ISDIR(status.st_mode):
        for child in sorted(path.iterdir()):
            state.update(state_of(child))
    elif stat.S_ISREG(status.st_mode):
        state[f"bytes of {path}"] = path.read_bytes()
    return state


def open_descriptors() -> set[tuple[str, str]]:
    """The descriptors of this process, with what they lead to."""
    gc.collect()
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
        except OSError:
            continue  # the one that listed them
    return found


def mkdir(path: Path) -> Path:
    """Make a folder and say which."""
    path.mkdir()
    return path
