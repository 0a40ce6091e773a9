"""``.archivefs/``: a directory at the root of every mount that is not listed, but is there when named.

grep and rsync therefore never meet it.  It holds what the driver says of itself and what a format adds.
Its files are made anew at each open.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

from archivefs.errors import LimitExceeded, NotFound
from archivefs.tree import (
    ROOT_IDENT,
    Attributes,
    Directory,
    Entry,
    File,
    Kind,
    Node,
    Reader,
    Tree,
    WritableFile,
    Writer,
)

CONTROL_NAME = ".archivefs"
MAX_WRITTEN = 16 << 20


class ControlTree(Tree):
    """The tree behind ``.archivefs/``: a name and an opener a file.  Never changes, so it needs no lock."""

    immutable = False
    leads_back = True

    def __init__(
        self, openers: Mapping[str, Callable[[], Reader]], savers: Mapping[str, Callable[[bytes], None]] | None = None
    ) -> None:
        self.names = sorted(openers)
        self.openers = dict(openers)
        self.saved_by = dict(savers or {})
        """What becomes of new content, for the files that can be written."""
        self._root = _ControlDirectory(self)

    def root(self) -> Directory:
        return self._root

    def node(self, ident: int) -> Node:
        if ident == ROOT_IDENT:
            return self._root
        if not ROOT_IDENT < ident <= len(self.names) + ROOT_IDENT:
            raise NotFound
        writable = self.names[ident - ROOT_IDENT - 1] in self.saved_by
        return _WritableControlFile(self, ident) if writable else _ControlFile(self, ident)

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


class _WritableControlFile(_ControlFile, WritableFile):
    """Taken as a whole when it is closed."""

    def open_writer(self, *, truncate: bool) -> Writer:
        name = self.tree.names[self.ident - ROOT_IDENT - 1]
        reader = self.open()
        try:
            data = reader.read_at(0, reader.attributes().size)
            return _ControlWriter(self.tree.saved_by[name], b"" if truncate else data, emptied=truncate and bool(data))
        finally:
            reader.close()

    def set_times(self, *, mtime_ns: int) -> None:
        """Not kept: the content is made anew each time."""


class _ControlWriter(Writer):
    """Collects what is written, and hands it over when a descriptor is closed."""

    def __init__(self, save: Callable[[bytes], None], data: bytes, *, emptied: bool) -> None:
        self._save = save
        self._data = bytearray(data)
        self._dirty = emptied
        self._lock = threading.Lock()

    def read_at(self, offset: int, size: int) -> bytes:
        return bytes(self._data[offset : offset + size])

    def attributes(self) -> Attributes:
        return Attributes(len(self._data))

    def write_at(self, offset: int, data: bytes) -> None:
        if offset + len(data) > MAX_WRITTEN:
            raise LimitExceeded("that is too much for this file")
        with self._lock:
            self._data.extend(bytes(max(0, offset - len(self._data))))
            self._data[offset : offset + len(data)] = data
            self._dirty = True

    def truncate(self, size: int) -> None:
        if size > MAX_WRITTEN:
            raise LimitExceeded("that is too much for this file")
        with self._lock:
            self._data = bytearray(self._data[:size].ljust(size, b"\0"))
            self._dirty = True

    def set_times(self, *, mtime_ns: int) -> None:
        """Not kept."""

    def sync(self) -> None:
        with self._lock:
            if self._dirty:
                self._dirty = False
                self._save(bytes(self._data))

    def finish(self) -> None:
        self.sync()

    def close(self) -> None:
        """Nothing is held."""
