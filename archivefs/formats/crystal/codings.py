"""Content codings undone (``-o decode``): what gzip and deflate hold, with exact sizes.

Used by ``tree.py``.  Crystal keeps bodies as the server sent them.  How large one is unpacked has to be measured, once;
what is not what its header says, ends too early or grows beyond the limit is served as it lies.  A stream belongs to
one reader; readers are for any thread.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Hashable, Iterator
from typing import Any

from archivefs.caches import ByteCache
from archivefs.errors import ArchiveError, CorruptMember
from archivefs.formats.crystal.records import Headers, first
from archivefs.readers import BytesReader, Stream, WindowReader
from archivefs.tree import Attributes, Reader
from archivefs.zips.checkpoints import Checkpoints

MAX_DECODED = 1 << 30
"""What grows larger is not unpacked: it takes seconds to find out how large it is."""
MAX_CODINGS = 3
SMALL = 64 << 10
_INPUT_BYTES = 32 << 10
_PIECE = 1 << 18
_KNOWN = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate"}
_GZIP_MAGIC = b"\x1f\x8b"
_WINDOW_WEIGHT = _INPUT_BYTES + (44 << 10)

Codings = tuple[str, ...]
_openings = itertools.count()


def codings_of(headers: Headers) -> Codings:
    """What to undo, the last coding first; nothing if one of them is not known."""
    words = [word.strip().lower() for word in (first(headers, "content-encoding") or "").split(",")]
    names = [word for word in words if word not in ("", "identity")]
    if len(names) > MAX_CODINGS or any(name not in _KNOWN for name in names):
        return ()
    return tuple(_KNOWN[name] for name in reversed(names))


def decoded_size(raw: Reader, codings: Codings) -> int | None:
    """How large the content is unpacked; None if it cannot be, or is larger than the limit."""
    stream = _begin(raw, codings)
    try:
        while stream.read(_PIECE):
            if stream.position > MAX_DECODED:
                return None
    except ArchiveError:
        return None
    return stream.position


def open_decoded(raw: Reader, codings: Codings, attributes: Attributes, cache: ByteCache, owner: Hashable) -> Reader:
    """The content unpacked; *raw* is closed with it."""
    if attributes.size <= SMALL:
        try:
            return BytesReader(
                b"".join(_pieces(_begin(raw, codings))), mtime_ns=attributes.mtime_ns, version=attributes.version
            )
        finally:
            raw.close()
    # a key of its own: what is kept reads from *raw*, which no other reader may use
    points = Checkpoints(cache, (owner, "decoded", next(_openings)), attributes.size)
    return WindowReader(lambda: _begin(raw, codings), attributes, points=points, release=raw.close)


def _begin(raw: Reader, codings: Codings) -> Stream:
    stream: Stream = _RawStream(raw)
    for coding in codings:
        stream = _Unpacked(stream, coding)
    return stream


def _pieces(stream: Stream) -> Iterator[bytes]:
    while piece := stream.read(_PIECE):
        yield piece


class _RawStream:
    """A reader as a stream."""

    weight = 200

    def __init__(self, raw: Reader, position: int = 0) -> None:
        self._raw = raw
        self.position = position

    def read(self, limit: int) -> bytes:
        data = self._raw.read_at(self.position, limit)
        self.position += len(data)
        return data

    def copy(self) -> _RawStream:
        return _RawStream(self._raw, self.position)


class _Unpacked:
    """A stream with one coding undone.  A gzip may have several members, one after the other."""

    def __init__(self, packed: Stream, coding: str) -> None:
        self.position = 0
        self._packed = packed
        self._coding = coding
        self._engine: Any = None
        self._begun = False
        self._waiting = b""

    @property
    def weight(self) -> int:
        return _WINDOW_WEIGHT + self._packed.weight

    def read(self, limit: int) -> bytes:
        while True:
            data = self._waiting or self._packed.read(_INPUT_BYTES)
            if self._engine is None:
                data = data if len(data) > 1 else data + self._packed.read(_INPUT_BYTES)
                if not self._starts(data):
                    return b""
            elif not data and not self._engine.eof:
                raise CorruptMember("its compressed data end in the middle")
            piece = self._decompress(data, limit)
            if piece:
                self.position += len(piece)
                return piece

    def copy(self) -> _Unpacked | None:
        packed = self._packed.copy()
        if packed is None:
            return None
        twin = _Unpacked(packed, self._coding)
        twin.position, twin._begun, twin._waiting = self.position, self._begun, self._waiting
        twin._engine = self._engine.copy() if self._engine else None
        return twin

    def _starts(self, data: bytes) -> bool:
        """Begin with the first member, or with the next; what follows the last one is no part of the content."""
        if self._coding == "deflate" and (self._begun or not data):
            return False
        if self._coding == "gzip" and data[:2] != _GZIP_MAGIC:
            if self._begun:
                return False
            raise CorruptMember("its data are not gzip")
        self._begun = True
        if self._coding == "gzip":
            self._engine = zlib.decompressobj(zlib.MAX_WBITS | 16)
        else:
            self._engine = zlib.decompressobj(zlib.MAX_WBITS if _is_zlib(data) else -zlib.MAX_WBITS)
        return True

    def _decompress(self, data: bytes, limit: int) -> bytes:
        engine = self._engine
        try:
            piece: bytes = engine.decompress(data, limit)
        except zlib.error as error:
            raise CorruptMember(f"its compressed data are damaged ({error})") from error
        self._waiting = engine.unconsumed_tail or engine.unused_data
        if engine.eof:
            self._engine = None
        return piece


def _is_zlib(data: bytes) -> bool:
    """Does it begin as RFC 1950 says?  Some servers send bare deflate instead."""
    return len(data) >= 2 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
