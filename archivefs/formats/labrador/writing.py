"""The bytes of an archive that we write: the same ones for the same content, whenever and wherever it is written.

Used by commits and by ``archivefs pack``.  A member is written from a stream, or copied compressed as it is in
another zip.  Times are all 1980-01-01 00:00; there are no owners, comments or extra fields but those that sizes beyond
4 GiB need.  A member is deflated if that saves at least three per cent, else stored.  Memory is bounded: what is too
large to be tried out in memory is tried out in the file itself.

A ZipWriter belongs to one thread.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from archivefs.errors import CorruptMember, SourceChanged
from archivefs.staging import durable
from archivefs.tree import Reader
from archivefs.zips.directory import Place, ZipDirectory

CHUNK = 1 << 18
"""What the compressor is given at a time.  Always the same, since the result may depend on it."""
IN_MEMORY = 1 << 20
"""Up to this size a member is compressed in memory."""
FLUSH_BYTES = 1 << 20
COPY_BYTES = 16 << 20
"""How much is copied from file to file in one call: Ctrl-C should not have to wait for more."""
LEVEL = 6
WORTHWHILE_PERCENT = 97
"""Compressed data that take more than this of the original are not worth it."""

STORED, DEFLATED = 0, 8
_DATE = 0x0021
"""The first of January 1980."""
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END = struct.Struct("<4sHHHHIIH")
_END64 = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR64 = struct.Struct("<4sIQI")
_ALL16, _ALL32 = 0xFFFF, 0xFFFFFFFF
LARGE, MANY = _ALL32, _ALL16
"""From here on a size or place, and the number of members, are written in zip64 fields.  Tests make them less."""
_KEPT_FLAGS = 0x0006
"""Of a copied member only what says how it was compressed; sizes are in front of the data, names are ASCII."""


class Content(NamedTuple):
    """What becomes a member: its size, and a way to read it from the beginning, as often as needed."""

    size: int
    pieces: Callable[[], Iterator[bytes]]


def content_of(data: bytes) -> Content:
    """Content that is in memory."""
    return Content(len(data), lambda: iter([data] if data else []))


def pieces_of(opener: Callable[[], Reader]) -> Iterator[bytes]:
    """What a reader has, in pieces."""
    reader = opener()
    try:
        at, size = 0, reader.attributes().size
        while at < size:
            piece = reader.read_at(at, min(CHUNK, size - at))
            if not piece:
                return
            at += len(piece)
            yield piece
    finally:
        reader.close()


def pieces_of_fd(fd: int, size: int | None = None) -> Iterator[bytes]:
    """What an open file has, up to *size* bytes."""
    at = 0
    while size is None or at < size:
        piece = os.pread(fd, CHUNK if size is None else min(CHUNK, size - at), at)
        if not piece:
            return
        at += len(piece)
        yield piece


class _Written(NamedTuple):
    """What the headers say of a member."""

    method: int
    crc: int
    packed: int
    size: int
    flags: int = 0


class ZipWriter:
    """A zip that is written into an open, empty file from its beginning to ``finish``."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._end = 0
        """Where the bytes in the buffer will begin."""
        self._buffer = bytearray()
        self._directory = bytearray()
        self._entries = 0

    @property
    def _position(self) -> int:
        return self._end + len(self._buffer)

    # -- members --

    def add(self, name: bytes, content: Content, *, compress: bool = True) -> str:
        """Write a member; gives the SHA-256 of what was read.  Raises SourceChanged if the size is not the one said."""
        if content.size > IN_MEMORY:
            return self._add_large(name, content)
        data = b"".join(content.pieces())
        _check_size(name, len(data), content.size)
        packed = _deflated(data) if compress else data
        method = DEFLATED if compress and _worthwhile(len(packed), len(data)) else STORED
        body = packed if method == DEFLATED else data
        self._enter(name, _Written(method, zlib.crc32(data), len(body), len(data)))
        self._write(body)
        return hashlib.sha256(data).hexdigest()

    def copy(self, name: bytes, source: ZipDirectory, place: Place) -> None:
        """Write a member with the compressed bytes that another zip has at *place*."""
        flags = place.flags & _KEPT_FLAGS
        self._enter(name, _Written(place.method, place.crc, place.packed, place.size, flags))
        if place.packed <= FLUSH_BYTES:
            self._write(source.source.pread(place.packed, place.start))
            return
        self._flush()
        start, end = place.start, place.start + place.packed
        source.source.watch(now=True)
        while start < end:
            copied = durable.copy_range(source.fd, start, min(COPY_BYTES, end - start), self._fd, self._end)
            if not copied:
                data = source.source.pread(min(FLUSH_BYTES, end - start), start)
                durable.write_all(self._fd, data, self._end)
                copied = len(data)
            start += copied
            self._end += copied

    def _add_large(self, name: bytes, content: Content) -> str:
        """Deflate into the file; where that was not worth it, go back and store."""
        start = self._position
        self._write(_local_header(name, _Written(DEFLATED, 0, 0, content.size)))
        self._flush()
        body = self._end
        digest, crc = self._stream(name, content, zlib.compressobj(LEVEL, zlib.DEFLATED, -15))
        written = _Written(DEFLATED, crc, self._end - body, content.size)
        if not _worthwhile(written.packed, content.size):
            self._end = body
            os.ftruncate(self._fd, body)
            digest, crc = self._stream(name, content, None)
            written = _Written(STORED, crc, content.size, content.size)
        durable.write_all(self._fd, _local_header(name, written), start)
        self._note(name, written, start)
        return digest

    def _stream(self, name: bytes, content: Content, packer: zlib._Compress | None) -> tuple[str, int]:
        """Write *content*, compressed by *packer*; gives its digest and CRC."""
        digest, crc, size = hashlib.sha256(), 0, 0
        for piece in _evenly(content.pieces()):
            digest.update(piece)
            crc = zlib.crc32(piece, crc)
            size += len(piece)
            self._write_through(packer.compress(piece) if packer else piece)
        if packer:
            self._write_through(packer.flush())
        _check_size(name, size, content.size)
        return digest.hexdigest(), crc

    def _enter(self, name: bytes, written: _Written) -> None:
        """Write a local header, and the line of the directory."""
        start = self._position
        self._write(_local_header(name, written))
        self._note(name, written, start)

    def _note(self, name: bytes, written: _Written, start: int) -> None:
        self._entries += 1
        method, crc, packed, size, flags = written
        large = [value for value in (size, packed, start) if value >= LARGE]
        extra = struct.pack(f"<HH{len(large)}Q", 1, 8 * len(large), *large) if large else b""
        version = 45 if large else 20
        packed, size, start = (_ALL32 if value >= LARGE else value for value in (packed, size, start))
        fixed = (version, version, flags, method, 0, _DATE, crc, packed, size, len(name), len(extra), 0, 0, 0, 0, start)
        self._directory += _CENTRAL.pack(b"PK\x01\x02", *fixed) + name + extra

    # -- the end --

    def finish(self) -> None:
        """Write the directory; all bytes are handed to the system when this returns."""
        start, size, count = self._position, len(self._directory), self._entries
        self._write(bytes(self._directory))
        if start >= LARGE or size >= LARGE or count >= MANY:
            at = self._position
            self._write(_END64.pack(b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, start))
            self._write(_LOCATOR64.pack(b"PK\x06\x07", 0, at, 1))
        count = _ALL16 if count >= MANY else count
        size, start = (_ALL32 if value >= LARGE else value for value in (size, start))
        self._write(_END.pack(b"PK\x05\x06", 0, 0, count, count, size, start, 0))
        self._flush()

    # -- bytes --

    def _write(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) >= FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._buffer:
            durable.write_all(self._fd, bytes(self._buffer), self._end)
            self._end += len(self._buffer)
            self._buffer.clear()

    def _write_through(self, data: bytes) -> None:
        if data:
            durable.write_all(self._fd, data, self._end)
            self._end += len(data)


def _local_header(name: bytes, written: _Written) -> bytes:
    method, crc, packed, size, flags = written
    large = max(packed, size) >= LARGE
    extra = struct.pack("<HHQQ", 1, 16, size, packed) if large else b""
    if large:
        packed = size = _ALL32
    version = 45 if large else 20
    fixed = (version, flags, method, 0, _DATE, crc, packed, size, len(name), len(extra))
    return _LOCAL.pack(b"PK\x03\x04", *fixed) + name + extra


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, -15)
    pieces = [packer.compress(data[at : at + CHUNK]) for at in range(0, len(data), CHUNK)]
    return b"".join([*pieces, packer.flush()])


def _worthwhile(packed: int, size: int) -> bool:
    return packed * 100 <= size * WORTHWHILE_PERCENT


def _evenly(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of CHUNK."""
    kept = bytearray()
    for piece in pieces:
        if not kept and len(piece) == CHUNK:
            yield piece
            continue
        kept += piece
        while len(kept) >= CHUNK:
            yield bytes(kept[:CHUNK])
            del kept[:CHUNK]
    if kept:
        yield bytes(kept)


def _check_size(name: bytes, size: int, expected: int) -> None:
    if size < expected:
        raise CorruptMember(f"its content ends after {size} of {expected} bytes", member=name)
    if size > expected:
        raise SourceChanged(f"it has grown beyond {expected} bytes while it was read", member=name)
