"""The plain kinds of nodes of the tree: made-up files, stored values, small directories that are listed whole.

Nodes hold keys and never values, so keeping one costs nothing.  Idents are digests of what a node stands for, keyed
with a secret of this process: nobody can make two names that share one.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from archivefs.errors import LimitExceeded, NotFound
from archivefs.readers import BytesReader
from archivefs.tree import MAX_IDENT, Attributes, Directory, Entry, File, Kind, Node, Reader, Symlink

if TYPE_CHECKING:
    from archivefs.formats.centidb.tree import CentidbTree

_SECRET = os.urandom(16)
Makers = Mapping[str, tuple[Kind, Callable[[], Node]]]


def ident_of(*parts: str | bytes | int) -> int:
    """The number of what *parts* describe."""
    digest = hashlib.blake2b(key=_SECRET, digest_size=8)
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(b"%d:" % len(data) + data)
    return 2 + int.from_bytes(digest.digest(), "big") % (MAX_IDENT - 2)


class MadeFile(File):
    """A text that is made when it is opened."""

    volatile = True

    def __init__(self, tree: CentidbTree, make: Callable[[], str], *place: str | int) -> None:
        self.tree: CentidbTree = tree
        self.ident = ident_of("made", *place)
        self._make = make

    def attributes(self) -> Attributes:
        return Attributes(len(self._make().encode()), self.tree.mtime_ns)

    def open(self) -> Reader:
        return BytesReader(self._make().encode(), mtime_ns=self.tree.mtime_ns)


class SteadyFile(MadeFile):
    """The same, where the text depends on nothing but the metadata."""

    volatile = False


class EmptyFile(File):
    """An index entry without a record to lead to."""

    def __init__(self, tree: CentidbTree, ident: int) -> None:
        self.tree: CentidbTree = tree
        self.ident = ident

    @property
    def sure(self) -> bool:
        return True

    def attributes(self) -> Attributes:
        return Attributes(0, self.tree.mtime_ns)

    def open(self) -> Reader:
        return BytesReader(b"", mtime_ns=self.tree.mtime_ns)


class StoredFile(File):
    """A stored value as it is."""

    def __init__(self, tree: CentidbTree, physical: bytes, place: str) -> None:
        self.tree: CentidbTree = tree
        self.ident = ident_of(place, physical)
        self._physical = physical

    def attributes(self) -> Attributes:
        item = self.tree.store.item(self._physical)
        if item is None:
            raise NotFound
        return Attributes(item.size, self.tree.mtime_ns, self._version())

    def _version(self) -> int:
        if self.tree.immutable:
            return 0
        try:
            return version_of(self.tree.store.value(self._physical))
        except LimitExceeded:  # it is there, and cannot be read
            return 0

    def open(self) -> Reader:
        value = self.tree.store.value(self._physical)
        version = version_of(value) if not self.tree.immutable else 0
        return BytesReader(value, mtime_ns=self.tree.mtime_ns, version=version)


def version_of(value: bytes, member: int | None = None) -> int:
    """A number that is another one when the bytes are."""
    digest = hashlib.blake2b(value, digest_size=6).digest()
    return int.from_bytes(digest, "big") ^ (0 if member is None else member + 1)


class Link(Symlink):
    """An index entry: leads to its record."""

    def __init__(self, tree: CentidbTree, ident: int, target: str) -> None:
        self.tree: CentidbTree = tree
        self.ident = ident
        self._target = target

    def attributes(self) -> Attributes:
        return Attributes(len(self._target.encode()), self.tree.mtime_ns)

    def target(self) -> str:
        return self._target


class StoreDirectory(Directory):
    """What all directories share."""

    tree: CentidbTree

    def attributes(self) -> Attributes:
        return Attributes(0, self.tree.mtime_ns)


class SmallDirectory(StoreDirectory):
    """A directory of which all names are known; they are listed in the order of their code points."""

    def __init__(self, tree: CentidbTree, ident: int, makers: Callable[[], Makers]) -> None:
        self.tree = tree
        self.ident = ident
        self._makers = makers

    def child(self, name: str) -> Node:
        maker = self._makers().get(name)
        if maker is None:
            raise NotFound(member=name)
        return maker[1]()

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        makers = self._makers()
        names = sorted(makers)
        for name in names[0 if after is None else bisect_right(names, after) :]:
            yield Entry(name, makers[name][0])
