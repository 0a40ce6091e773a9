"""Readers that any format can use: bytes in memory, and a stretch of an open file."""

from __future__ import annotations

import os

from archivefs.errors import CorruptMember
from archivefs.tree import Attributes, Extent, Reader


class BytesReader(Reader):
    """Content that is in memory."""

    def __init__(self, data: bytes, *, mtime_ns: int = 0, version: int = 0) -> None:
        self._data = data
        self._attributes = Attributes(len(data), mtime_ns, version)

    def read_at(self, offset: int, size: int) -> bytes:
        if offset == 0 and size >= len(self._data):
            return self._data
        return self._data[offset : offset + size]

    def attributes(self) -> Attributes:
        return self._attributes

    def close(self) -> None:
        """Nothing is held."""


class ExtentReader(Reader):
    """A stretch of a file that somebody else keeps open, or that is closed with the reader (``owned``)."""

    def __init__(self, extent: Extent, *, mtime_ns: int = 0, version: int = 0, owned: bool = False) -> None:
        self._extent = extent
        self._owned = owned
        self._attributes = Attributes(extent.length, mtime_ns, version)

    def read_at(self, offset: int, size: int) -> bytes:
        fd, start, length = self._extent
        size = min(size, length - offset)
        if size <= 0:
            return b""
        return pread_exactly(fd, size, start + offset)

    def attributes(self) -> Attributes:
        return self._attributes

    def extent(self) -> Extent | None:
        return self._extent

    def close(self) -> None:
        if self._owned:
            self._owned = False
            os.close(self._extent.fd)


def pread_exactly(fd: int, size: int, offset: int) -> bytes:
    """*size* bytes of a file; raises CorruptMember when it ends before (it was cut while open)."""
    data = os.pread(fd, size, offset)
    if len(data) == size:
        return data
    pieces = [data]
    missing = size - len(data)
    while missing and data:
        data = os.pread(fd, missing, offset + size - missing)
        pieces.append(data)
        missing -= len(data)
    if missing:
        raise CorruptMember(f"the file ends {missing} bytes too early")
    return b"".join(pieces)
