"""Files of the tree: records, metadata, raw files and scratch, all of one class, since a rename makes one of another.

What a file holds, and what becomes of new content, is asked of the tree's store.  A writer keeps the bytes in memory
until they are synced; then they are one change of the database.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from archivefs.errors import ContentRefused, LimitExceeded, StaleNode, TreeReadOnly
from archivefs.formats.urldb.nodetable import Key, KeyedNode
from archivefs.readers import BytesReader
from archivefs.tree import Attributes, File, Reader, Symlink, WritableFile, Writer

if TYPE_CHECKING:
    from archivefs.formats.urldb.tree import UrldbTree


class ErrorsFile(KeyedNode, File):
    """``^errors.txt``: the lint lines of what could not be shown."""

    __slots__ = ()

    def _text(self) -> bytes:
        findings = self.tree.database.hidden(self.key[1])
        return "".join(f"{finding}\n" for finding in findings).encode("utf-8", "backslashreplace")

    def attributes(self) -> Attributes:
        text = self._text()
        return Attributes(len(text), self.tree.mtime_ns(self.key), zlib.crc32(text))

    def open(self) -> Reader:
        text = self._text()
        return BytesReader(text, mtime_ns=self.tree.mtime_ns(self.key), version=zlib.crc32(text))


class AliasLink(KeyedNode, Symlink):
    """A cname: a link to its domain."""

    __slots__ = ()

    def target(self) -> str:
        found = self.tree.database.aliases().get(self.key[1])
        if found is None:
            raise StaleNode(member=self.key[1])
        return found

    def attributes(self) -> Attributes:
        return Attributes(len(self.target().encode()), self.tree.mtime_ns(self.key))


class DatabaseFile(KeyedNode, WritableFile):
    """Any file that can be changed."""

    __slots__ = ("writer",)

    def __init__(self, tree: UrldbTree, key: Key, ident: int) -> None:
        super().__init__(tree, key, ident)
        self.writer: BufferWriter | None = None

    @property
    def sure(self) -> bool:
        return True

    def attributes(self) -> Attributes:
        if self.writer is not None:
            return self.writer.attributes()
        return self.attributes_of(self._content())

    def attributes_of(self, data: bytes) -> Attributes:
        """What ``stat`` says when that is the content."""
        return Attributes(len(data), self.tree.mtime_ns(self.key), zlib.crc32(data) + (self.changes << 32))

    def xattrs(self) -> Mapping[str, bytes]:
        return {} if self.removed else self.tree.xattrs_of(self.key)

    def open(self) -> Reader:
        data = self.writer.content() if self.writer is not None else self._content()
        attributes = self.attributes_of(data)
        return BytesReader(data, mtime_ns=attributes.mtime_ns, version=attributes.version)

    def _content(self) -> bytes:
        if self.removed:
            raise StaleNode
        return self.tree.store.read(self.key)

    def open_writer(self, *, truncate: bool) -> Writer:
        if not self.tree.writable:
            raise TreeReadOnly
        if self.dropped:
            self.tree.store.revive(self)
        fresh = self.tree.store.is_pending(self.key)
        old = b"" if fresh or self.removed else self._content()
        writer = BufferWriter(self, b"" if truncate else old, dirty=fresh or (truncate and bool(old)))
        self.writer = writer
        return writer

    def set_times(self, *, mtime_ns: int) -> None:
        self.tree.set_mtime(self.key, mtime_ns)


class BufferWriter(Writer):
    """New content of a file, in memory.  One lock guards it."""

    def __init__(self, node: DatabaseFile, data: bytes, *, dirty: bool) -> None:
        self._node = node
        self._lock = threading.RLock()
        self._data = bytearray(data)
        self._dirty = dirty
        self._written = False
        self._refused: bytes | None = None
        self._mtime_ns = time.time_ns() if dirty else node.tree.mtime_ns(node.key)

    def content(self) -> bytes:
        """What is there now."""
        with self._lock:
            return bytes(self._data)

    def read_at(self, offset: int, size: int) -> bytes:
        with self._lock:
            return bytes(self._data[offset : offset + size])

    def attributes(self) -> Attributes:
        with self._lock:
            return Attributes(len(self._data), self._mtime_ns, self._node.changes << 32 | 1)

    def write_at(self, offset: int, data: bytes) -> None:
        with self._lock:
            self._grow(offset + len(data))
            self._data[offset : offset + len(data)] = data
            self._touch()

    def truncate(self, size: int) -> None:
        with self._lock:
            self._grow(size)
            del self._data[size:]
            self._touch()
            self._written = size > 0

    def _grow(self, size: int) -> None:
        missing = size - len(self._data)
        if missing <= 0:
            return
        if size > self._node.tree.store.limit(self._node.key):
            raise LimitExceeded("larger than the limits allow")
        self._node.tree.store.reserve(self._node.key, missing)
        self._data.extend(bytes(missing))

    def _touch(self) -> None:
        self._dirty = self._written = True
        self._mtime_ns = time.time_ns()
        self._node.tree.forget_mtime(self._node.key)

    def set_times(self, *, mtime_ns: int) -> None:
        self._mtime_ns = mtime_ns
        self._node.tree.set_mtime(self._node.key, mtime_ns)

    def sync(self) -> None:
        # A shell that redirects closes a copy of the descriptor before the first byte: that is not the end of the file.
        with self._lock:
            if self._written:
                self._save()

    def _save(self) -> None:
        data = bytes(self._data)
        if not self._dirty or self._node.removed or data == self._refused:
            return
        try:
            self._node.tree.store.save(self._node.key, data, mtime_ns=self._mtime_ns)
        except ContentRefused:
            self._refused = data
            raise
        self._dirty = False

    def finish(self) -> None:
        node = self._node
        try:
            with self._lock:
                self._save()
        finally:
            node.changes += 1
            node.tree.store.finished(node.key)
            if node.writer is self:
                node.writer = None

    def close(self) -> None:
        """Nothing is held."""
