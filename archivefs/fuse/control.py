"""``.archivefs/``: a directory at the root of every mount that is not listed, but is there when named.

grep and rsync therefore never meet it.  It holds what the driver says of itself and what a format adds.
Its files are made anew at each open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from archivefs.errors import NotFound
from archivefs.tree import ROOT_IDENT, Attributes, Directory, Entry, File, Kind, Node, Reader, Tree

CONTROL_NAME = ".archivefs"


class ControlTree(Tree):
    """The tree behind ``.archivefs/``: a name and an opener a file.  Never changes, so it needs no lock."""

    immutable = False
    leads_back = True

    def __init__(self, openers: Mapping[str, Callable[[], Reader]]) -> None:
        self.names = sorted(openers)
        self.openers = dict(openers)
        self._root = _ControlDirectory(self)

    def root(self) -> Directory:
        return self._root

    def node(self, ident: int) -> Node:
        if ident == ROOT_IDENT:
            return self._root
        if not ROOT_IDENT < ident <= len(self.names) + ROOT_IDENT:
            raise NotFound
        return _ControlFile(self, ident)

    def close(self) -> None:
        """Nothing is held."""


class _ControlDirectory(Directory):
    def __init__(self, tree: ControlTree) -> None:
        self.tree: ControlTree = tree
        self.ident = ROOT_IDENT

    def attributes(self) -> Attributes:
        return Attributes()

    def child(self, name: str) -> Node:
        if name not in self.tree.openers:
            raise NotFound(member=name)
        return self.tree.node(ROOT_IDENT + 1 + self.tree.names.index(name))

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        for number, name in enumerate(self.tree.names, ROOT_IDENT + 1):
            if after is None or name > after:
                yield Entry(name, Kind.FILE, number)


class _ControlFile(File):
    volatile = True

    def __init__(self, tree: ControlTree, ident: int) -> None:
        self.tree: ControlTree = tree
        self.ident = ident

    def attributes(self) -> Attributes:
        reader = self.open()
        try:
            return reader.attributes()
        finally:
            reader.close()

    def open(self) -> Reader:
        return self.tree.openers[self.tree.names[self.ident - ROOT_IDENT - 1]]()
