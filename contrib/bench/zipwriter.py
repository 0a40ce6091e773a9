"""A zip writer for large inputs: structures by ``struct``, no check, no object per entry.

A million entries take a few seconds; the stdlib's writer takes a minute.  Not for use outside of the benchmark.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from types import TracebackType
from typing import BinaryIO, NamedTuple

STORED, DEFLATED = 0, 8

_LOCAL = struct.Struct("<IHHHHHIIIHH")
_CENTRAL = struct.Struct("<IHHHHHHIIIHHHHHII")
_END64 = struct.Struct("<IQHHIIQQQQ")
_LOCATOR = struct.Struct("<IIQI")
_END = struct.Struct("<IHHHHIIH")

_VERSION = 20
_MADE_BY = 3 << 8 | _VERSION  # 3 is Unix: the upper half of the attributes is a mode
_TIME, _DATE = 12 << 11, 42 << 9 | 6 << 5 | 15  # 2022-06-15 12:00
_FILE_MODE = 0o100644 << 16
_DIRECTORY_MODE = 0o040755 << 16 | 0x10
_FLUSH = 1 << 20


class Content(NamedTuple):
    """One member's bytes as they lie in the zip, and what its headers say about them."""

    stored: bytes
    method: int
    crc: int
    size: int


def plain(data: bytes) -> Content:
    """*data* as it is."""
    return Content(data, STORED, zlib.crc32(data), len(data))


def deflated(data: bytes) -> Content:
    """*data* compressed as zip programs do by default."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return Content(packer.compress(data) + packer.flush(), DEFLATED, zlib.crc32(data), len(data))


class ZipWriter:
    """Writes members one after the other, and the directory on leaving the ``with`` block."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._position = 0
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._directory: list[bytes] = []

    def __enter__(self) -> ZipWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        if kind is None:
            self._finish()

    def add(self, name: str, content: Content) -> None:
        """Append one member; a name that ends in ``/`` is a directory."""
        mode = _DIRECTORY_MODE if name.endswith("/") else _FILE_MODE
        self._head(name.encode("ascii"), content.method, content.crc, len(content.stored), content.size, mode)
        self._write(content.stored)

    def add_pieces(self, name: str, pieces: Iterable[bytes], *, method: int, crc: int, packed: int, size: int) -> None:
        """Append one member that is too large for memory; *packed* is the length of all pieces together."""
        self._head(name.encode("ascii"), method, crc, packed, size, _FILE_MODE)
        for piece in pieces:
            self._write(piece)

    def _head(self, name: bytes, method: int, crc: int, packed: int, size: int, mode: int) -> None:
        common = (_VERSION, 0, method, _TIME, _DATE, crc, packed, size, len(name), 0)
        place = self._position
        self._directory.append(_CENTRAL.pack(0x02014B50, _MADE_BY, *common, 0, 0, 0, mode, place) + name)
        self._write(_LOCAL.pack(0x04034B50, *common) + name)

    def _write(self, data: bytes) -> None:
        self._pending.append(data)
        self._pending_size += len(data)
        self._position += len(data)
        if self._pending_size >= _FLUSH:
            self._out.write(b"".join(self._pending))
            self._pending.clear()
            self._pending_size = 0

    def _finish(self) -> None:
        start, count = self._position, len(self._directory)
        directory = b"".join(self._directory)
        self._write(directory)
        if count > 0xFFFE:
            end = self._position
            self._write(
                _END64.pack(0x06064B50, 44, _MADE_BY, 45, 0, 0, count, count, len(directory), start)
                + _LOCATOR.pack(0x07064B50, 0, end, 1)
            )
        shown = min(count, 0xFFFF)
        self._write(_END.pack(0x06054B50, 0, 0, shown, shown, len(directory), start, 0))
        self._out.write(b"".join(self._pending))
