"""MountTree: many archives under one root, and the names they are shown by.

Threading: nothing changes after it is made, so there is nothing to guard.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from archivefs.errors import NotFound
from archivefs.tree import ROOT_IDENT, Attributes, Directory, Entry, Kind, Node, Parts, Tree, Usage

HIDDEN_NAME = ".archivefs"
"""What every mount keeps for itself at its root."""


class MountTree(Tree):
    """Many archives under one root, each a directory named after it.

    *archives* are names, as :func:`shown_names` makes them, with their trees; all are closed together.
    """

    leads_back = True

    def __init__(self, archives: Iterable[tuple[str, Tree]]) -> None:
        self.trees = dict(sorted(archives, key=lambda pair: pair[0]))
        self.immutable = all(tree.immutable for tree in self.trees.values())
        self.open_needed = any(tree.open_needed for tree in self.trees.values())
        self.writable = any(tree.writable for tree in self.trees.values())
        self.commit_idle_s = next((t.commit_idle_s for t in self.trees.values() if t.commit_idle_s), None)
        self._root = _MountDirectory(self)

    def root(self) -> Directory:
        return self._root

    def node(self, ident: int) -> Node:
        """Only the root is a node of this tree; all others belong to the archives."""
        if ident != ROOT_IDENT:
            raise NotFound
        return self._root

    def generation(self) -> int:
        return sum(tree.generation() for tree in self.trees.values())

    def usage(self) -> Usage:
        all_of_them = [tree.usage() for tree in self.trees.values()]
        return Usage(
            size=sum(usage.size for usage in all_of_them),
            free=min((usage.free for usage in all_of_them), default=0),
            files=sum(usage.files for usage in all_of_them),
        )

    def facts(self) -> Mapping[str, object]:
        return {name: dict(tree.facts()) for name, tree in self.trees.items()}

    def pending(self) -> Iterator[tuple[str, Parts]]:
        for name, tree in self.trees.items():
            yield from ((what, (name, *parts)) for what, parts in tree.pending())

    def commit(self, progress: Callable[[int, int], None]) -> None:
        for tree in self.trees.values():
            tree.commit(progress)

    def discard_changes(self) -> None:
        for tree in self.trees.values():
            tree.discard_changes()

    def idle_s(self) -> float:
        return min((tree.idle_s() for tree in self.trees.values()), default=0.0)

    def sync(self) -> None:
        for tree in self.trees.values():
            tree.sync()

    def close(self) -> None:
        close_all(self.trees.values())


class _MountDirectory(Directory):
    def __init__(self, tree: MountTree) -> None:
        self.tree: MountTree = tree
        self.ident = ROOT_IDENT

    def attributes(self) -> Attributes:
        times = [tree.root().attributes().mtime_ns for tree in self.tree.trees.values()]
        return Attributes(mtime_ns=max(times, default=0))

    def child(self, name: str) -> Node:
        if name not in self.tree.trees:
            raise NotFound(member=name)
        return self.tree.trees[name].root()

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        for name, tree in self.tree.trees.items():
            if after is None or name > after:
                # No ident: it would be read as one of this tree's, and the node belongs to another.
                yield Entry(name, Kind.DIRECTORY, node=tree.root())


# -- names, and closing, also for a folder of archives --


def shown_names(paths: Sequence[str]) -> list[str]:
    """The name each archive is shown by: the last part of its path, the second of one name as ``NAME~2``."""
    taken: set[str] = set()
    found = []
    for path in paths:
        name = _first_free(shown_name(path), taken)
        taken.add(name)
        found.append(name)
    return found


def shown_name(path: str) -> str:
    """The last part of *path* as a name of a tree: what is not UTF-8 as ``^XX`` a byte."""
    name = os.path.basename(os.path.abspath(path)) or "root"
    if name == HIDDEN_NAME:
        name = "^2E" + name[1:]
    if name.isascii():
        return name
    return "".join(f"^{ord(c) - 0xDC00:02X}" if "\udc80" <= c <= "\udcff" else c for c in name)


def _first_free(name: str, taken: set[str]) -> str:
    candidate = name
    number = 1
    while candidate in taken:
        number += 1
        candidate = f"{name}~{number}"
    return candidate


def close_all(trees: Iterable[Tree]) -> None:
    """Close every one of them, also when one fails; the first error is raised at the end."""
    first: Exception | None = None
    for tree in trees:
        try:
            tree.close()
        except Exception as error:
            first = first or error
    if first is not None:
        raise first
