"""Inflating from the middle: places in a deflate stream where decoding can begin again, in another process too.

Used by ``savedpoints.py``.  At the boundary of two blocks all that is needed is where the next one begins, to the bit,
and the 32 KiB before.  Python's own modules can neither stop at blocks nor begin there, so the library is called
directly: the one inside ``zlib-ng`` where that is installed, else the system's zlib; where neither can be loaded,
``available`` says so.  An ``Inflate`` belongs to one thread at a time.
"""

from __future__ import annotations

import ctypes
import importlib
from functools import lru_cache
from typing import Any

from archivefs.errors import CorruptMember
from archivefs.zips.codecs import Decoder, Packed, Point
from archivefs.zips.inflating import RAW

WINDOW = 32 << 10
INPUT_BYTES = 128 << 10

_OK, _STREAM_END, _BUF_ERROR = 0, 1, -5
_BLOCK = 5
"""Stop where a block ends."""
_BITS, _LAST_BLOCK, _AT_BOUNDARY = 7, 64, 128
"""What ``data_type`` says after that: how many bits of the last byte are left, and where it stands."""


_FIELDS: tuple[tuple[str, Any], ...] = (
    ("next_in", ctypes.c_void_p),
    ("avail_in", ctypes.c_uint),
    ("total_in", ctypes.c_ulong),
    ("next_out", ctypes.c_void_p),
    ("avail_out", ctypes.c_uint),
    ("total_out", ctypes.c_ulong),
    ("msg", ctypes.c_char_p),
    ("state", ctypes.c_void_p),
    ("zalloc", ctypes.c_void_p),
    ("zfree", ctypes.c_void_p),
    ("opaque", ctypes.c_void_p),
    ("data_type", ctypes.c_int),
)


class _ZlibStream(ctypes.Structure):
    _fields_ = (*_FIELDS, ("adler", ctypes.c_ulong), ("reserved", ctypes.c_ulong))


class _ZlibNgStream(ctypes.Structure):
    _fields_ = (*_FIELDS, ("adler", ctypes.c_uint32), ("reserved", ctypes.c_ulong))


class _Library:
    """The functions of one library; raises AttributeError if one is not there."""

    def __init__(self, library: Any, *, stream: Any, prefix: str, version: str) -> None:
        self.stream = stream
        self.version = library[version]
        self.version.restype = ctypes.c_char_p
        self.begin = library[f"{prefix}inflateInit2_"]
        self.inflate = library[f"{prefix}inflate"]
        self.prime = library[f"{prefix}inflatePrime"]
        self.set_window = library[f"{prefix}inflateSetDictionary"]
        self.get_window = library[f"{prefix}inflateGetDictionary"]
        self.end = library[f"{prefix}inflateEnd"]


@lru_cache(maxsize=1)
def _library() -> _Library | None:
    for load in (_zlib_ng, _zlib):
        try:
            return load()
        except (ImportError, OSError, AttributeError):
            continue
    return None


def _zlib_ng() -> _Library:
    path = str(importlib.import_module("zlib_ng.zlib_ng").__file__)
    return _Library(ctypes.CDLL(path), stream=_ZlibNgStream, prefix="zng_", version="zlibng_version")


def _zlib() -> _Library:
    return _Library(ctypes.CDLL("libz.so.1"), stream=_ZlibStream, prefix="", version="zlibVersion")


def available() -> bool:
    """Can a library be called directly on this machine?"""
    return _library() is not None


class Inflate(Decoder):
    """Deflated bytes, from the beginning or from a point; stops where a point is due and can be made."""

    def __init__(self, packed: Packed, spacing: int, point: Point | None = None) -> None:
        library = _library()
        if library is None:
            raise MemoryError("no library for it")
        self._library = library
        self._packed = packed
        self._spacing = spacing
        self._since = 0
        self._ended = False
        self._input = b""
        self._output = bytearray()
        self._stream = library.stream()
        self._at = ctypes.byref(self._stream)
        size = ctypes.c_int(ctypes.sizeof(self._stream))
        self._begun = library.begin(self._at, RAW, library.version(), size) == _OK
        if not self._begun:
            raise MemoryError("inflating cannot begin")
        if point:
            self._resume(point)

    def _resume(self, point: Point) -> None:
        self._packed.position = point.packed - bool(point.bits)
        if point.bits:
            self._library.prime(self._at, point.bits, self._packed.read(1)[0] >> (8 - point.bits))
        self._library.set_window(self._at, point.window, len(point.window))

    def __del__(self) -> None:
        if getattr(self, "_begun", False):
            self._library.end(self._at)

    def read(self, limit: int) -> bytes:
        stream, inflate = self._stream, self._library.inflate
        if len(self._output) < limit:
            self._output = bytearray(limit)
        stream.next_out = ctypes.addressof(ctypes.c_char.from_buffer(self._output))
        stream.avail_out = limit
        while stream.avail_out and not self._ended:
            if not stream.avail_in:
                self._feed()
            before = stream.avail_out
            code = inflate(self._at, _BLOCK)
            self._since += before - stream.avail_out
            self._ended = code == _STREAM_END
            if code not in (_OK, _STREAM_END, _BUF_ERROR):
                reason = (stream.msg or b"unknown reason").decode("ascii", "replace")
                raise CorruptMember(f"its compressed data are damaged ({reason})")
            if code == _BUF_ERROR and not self._input:
                raise CorruptMember("its compressed data end in the middle")
            if self._due and stream.avail_out < limit:
                break
        return bytes(memoryview(self._output)[: limit - stream.avail_out])

    def _feed(self) -> None:
        """The next input; nothing at the end, where some bits may still be in the library's state."""
        self._input = self._packed.read(INPUT_BYTES)
        self._stream.next_in = ctypes.cast(ctypes.c_char_p(self._input), ctypes.c_void_p)
        self._stream.avail_in = len(self._input)

    @property
    def _due(self) -> bool:
        return self._since >= self._spacing and self._stream.data_type & (_AT_BOUNDARY | _LAST_BLOCK) == _AT_BOUNDARY

    def point(self) -> Point | None:
        """The point where it stands, if one is due and can be made."""
        if not self._due:
            return None
        self._since = 0
        window, length = ctypes.create_string_buffer(WINDOW), ctypes.c_uint()
        self._library.get_window(self._at, window, ctypes.byref(length))
        return Point(
            self._packed.position - self._stream.avail_in, self._stream.data_type & _BITS, window.raw[: length.value]
        )
