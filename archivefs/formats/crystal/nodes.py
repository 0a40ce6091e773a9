"""The nodes that every view is made of: bodies, generated texts, links, and small directories.

Nodes are made on demand and hold rows, not files.  Any thread may use them.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from archivefs.errors import CorruptMember, NotFound
from archivefs.formats.crystal.facts_of import attributes_of, xattrs_of
from archivefs.formats.crystal.sight import Shown
from archivefs.readers import BytesReader
from archivefs.tree import Attributes, Directory, Entry, File, Kind, Node, Parts, Reader, Symlink

if TYPE_CHECKING:
    from archivefs.formats.crystal.tree import CrystalTree

LOG = logging.getLogger("archivefs.crystal")

MAX_TARGET_BYTES = 4000
"""The kernel follows no link whose target is longer than a page."""


class BodyFile(File):
    """The body of a revision, or an empty file for a resource that was never fetched."""

    __slots__ = ("ident", "shown", "tree")

    def __init__(self, tree: CrystalTree, ident: int, shown: Shown) -> None:
        self.tree: CrystalTree = tree
        self.ident = ident
        self.shown = shown

    def attributes(self) -> Attributes:
        return attributes_of(self.tree, self.shown)

    def xattrs(self) -> Mapping[str, bytes]:
        return xattrs_of(self.tree, self.shown)

    def open(self) -> Reader:
        return self.tree.open_body(self.shown)


class TextFile(File):
    """A small text made from rows."""

    __slots__ = ("_make", "ident", "tree")

    def __init__(self, tree: CrystalTree, ident: int, make: Callable[[], bytes]) -> None:
        self.tree: CrystalTree = tree
        self.ident = ident
        self._make = make

    def attributes(self) -> Attributes:
        return self.open().attributes()

    def open(self) -> Reader:
        text = self._make()
        return BytesReader(text, mtime_ns=self.tree.mtime_ns(), version=zlib.crc32(text))


class Link(Symlink):
    """A link to another place in the tree."""

    __slots__ = ("_make", "ident", "tree")

    def __init__(self, tree: CrystalTree, ident: int, make: Callable[[], str]) -> None:
        self.tree: CrystalTree = tree
        self.ident = ident
        self._make = make

    def attributes(self) -> Attributes:
        return Attributes(len(self._make().encode("utf-8")), self.tree.mtime_ns())

    def target(self) -> str:
        return self._make()


class CrystalDirectory(Directory):
    """What all directories of a project share."""

    __slots__ = ("ident", "tree")

    def __init__(self, tree: CrystalTree, ident: int) -> None:
        self.tree: CrystalTree = tree
        self.ident = ident

    def attributes(self) -> Attributes:
        return Attributes(0, self.tree.mtime_ns())

    def not_found(self, name: str) -> NotFound:
        """The error for a name that is not there."""
        return NotFound(archive=self.tree.project.place.folder, member=name)


class SmallDirectory(CrystalDirectory):
    """A directory whose children are few and known at once."""

    __slots__ = ("_make",)

    def __init__(self, tree: CrystalTree, ident: int, make: Callable[[], Sequence[tuple[str, Node]]]) -> None:
        super().__init__(tree, ident)
        self._make = make

    def child(self, name: str) -> Node:
        for known, node in self._make():
            if known == name:
                return node
        raise self.not_found(name)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        children = self._make()
        names = [name for name, _ in children]
        start = names.index(after) + 1 if after in names else 0
        for name, node in children[start:]:
            yield Entry(name, node.kind, node.ident, node if node.kind is Kind.DIRECTORY else None)


def relative_path(folder: Parts, target: Parts) -> str:
    """The path *target* as seen from *folder*; both from the same root."""
    same = 0
    while same < len(folder) and same < len(target) and folder[same] == target[same]:
        same += 1
    return "/".join((*[".."] * (len(folder) - same), *target[same:])) or "."


def lost(tree: CrystalTree, shown: Shown) -> CorruptMember:
    """The error for a body that is not there."""
    key = shown.revision.id if shown.revision else 0
    return CorruptMember(
        f"the body of revision {key} is lost", archive=tree.project.place.folder, member=shown.url or b""
    )
