"""Decoders for the compression methods of a zip: stored, deflate, bzip2, LZMA and, where a library is there, zstd.

Used by ``members.py``.  A decoder pulls compressed bytes from a ``Packed`` and gives plain bytes in pieces no
larger than asked for, so a declared size never decides how much memory is taken.  What a header asks for
(LZMA dictionary, zstd window) is limited before anything is allocated.

A decoder belongs to one thread at a time.  Libraries are imported when a member needs them.
"""

from __future__ import annotations

import importlib.util
import struct
import sys
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, NamedTuple

from archivefs.errors import CorruptMember, LimitExceeded, MissingLibrary
from archivefs.zips.inflating import RAW, copied_library
from archivefs.zips.source import SourceFile

STORED, DEFLATED, BZIP2, LZMA, ZSTD = 0, 8, 12, 14, 93
METHOD_NAMES = {STORED: "stored", DEFLATED: "deflate", BZIP2: "bzip2", LZMA: "lzma", ZSTD: "zstd"}

INPUT_BYTES = 32 << 10
"""How much is read at once: a checkpoint may have to keep one such piece."""
MAX_WINDOW_BYTES = 64 << 20
"""The largest LZMA dictionary or zstd window."""
_MAX_WINDOW_LOG = 26


def supported(method: int) -> bool:
    """Can members of that method be read on this machine?"""
    return method in (STORED, DEFLATED, BZIP2, LZMA) or (method == ZSTD and zstd_library() is not None)


@lru_cache(maxsize=1)
def zstd_library() -> str | None:
    """The module that reads zstd: the standard library's since Python 3.14, else ``zstandard`` if installed."""
    if sys.version_info >= (3, 14) and importlib.util.find_spec("compression.zstd"):
        return "compression.zstd"
    return "zstandard" if importlib.util.find_spec("zstandard") else None


class Packed:
    """The compressed bytes of a member, from ``position`` to ``end`` of the archive file."""

    __slots__ = ("end", "position", "source")

    def __init__(self, source: SourceFile, position: int, end: int) -> None:
        self.source = source
        self.position = position
        self.end = end

    def read(self, size: int = -1) -> bytes:
        """The next *size* bytes or what is left; nothing at the end."""
        left = self.end - self.position
        size = left if size < 0 else min(size, left)
        if not size:
            return b""
        data = self.source.pread(size, self.position)
        self.position += size
        return data

    def copy(self) -> Packed:
        """Another one at the same place."""
        return Packed(self.source, self.position, self.end)


class Point(NamedTuple):
    """Where inflating can begin again."""

    packed: int
    """The place of the next whole byte in the file."""
    bits: int
    """How many bits of the byte before are still to come."""
    window: bytes
    """The plain bytes before, as many as can be referred to."""


class Decoder(ABC):
    """Plain bytes out of packed ones."""

    weight = 0
    """What a copy of it takes in memory; 0 where it cannot be copied."""

    @abstractmethod
    def read(self, limit: int) -> bytes:
        """The next bytes, at most *limit* and at least one; nothing at the end of the data.

        Raises CorruptMember when the data are damaged or end in the middle.
        """

    def copy(self) -> Decoder | None:
        """Another decoder in the same state, where the library can do that."""
        return None

    def point(self) -> Point | None:
        """Where it stands, if a decoder can begin there and that is to be noted now."""
        return None


def open_decoder(method: int, packed: Packed, *, size: int, ends_marked: bool) -> Decoder:
    """A decoder for *method*; *size* is what is declared, *ends_marked* is flag bit 1 (LZMA only)."""
    if method == STORED:
        return _Stored(packed)
    if method == DEFLATED:
        return _Inflater(packed, copied_library().decompressobj(RAW), copied_library().error)
    if method == BZIP2:
        return _Pushed(packed, *_bzip2())
    if method == LZMA:
        return _Pushed(packed, *_lzma(packed, size=None if ends_marked else size))
    return _zstd(packed)


class _Stored(Decoder):
    weight = 500

    def __init__(self, packed: Packed) -> None:
        self._packed = packed

    def read(self, limit: int) -> bytes:
        return self._packed.read(limit)

    def copy(self) -> Decoder:
        return _Stored(self._packed.copy())


class _Inflater(Decoder):
    weight = INPUT_BYTES + (44 << 10)

    def __init__(self, packed: Packed, engine: Any, failure: type[Exception]) -> None:
        self._packed = packed
        self._engine = engine
        self._failure = failure

    def read(self, limit: int) -> bytes:
        engine = self._engine
        while not engine.eof:
            data = engine.unconsumed_tail or self._packed.read(INPUT_BYTES)
            try:
                piece: bytes = engine.decompress(data, limit)
            except self._failure as error:
                raise CorruptMember(_damaged(error)) from error
            if piece:
                return piece
            if not data:
                raise CorruptMember("its compressed data end in the middle")
        return b""

    def copy(self) -> Decoder:
        return _Inflater(self._packed.copy(), self._engine.copy(), self._failure)


class _Pushed(Decoder):
    """For engines that work as ``bz2.BZ2Decompressor`` does."""

    def __init__(self, packed: Packed, engine: Any, failure: type[Exception]) -> None:
        self._packed = packed
        self._engine = engine
        self._failure = failure

    def read(self, limit: int) -> bytes:
        engine = self._engine
        while not engine.eof:
            data = self._packed.read(INPUT_BYTES) if engine.needs_input else b""
            ended = engine.needs_input and not data
            try:
                piece: bytes = engine.decompress(data, limit)
            except (self._failure, EOFError, ValueError) as error:
                raise CorruptMember(_damaged(error)) from error
            if piece:
                return piece
            if ended and not engine.eof:
                raise CorruptMember("its compressed data end in the middle")
        return b""


class _Pulled(Decoder):
    """For engines that read from a file themselves, as ``zstandard`` does."""

    def __init__(self, engine: Any, failure: type[Exception]) -> None:
        self._engine = engine
        self._failure = failure

    def read(self, limit: int) -> bytes:
        try:
            piece: bytes = self._engine.read(limit)
        except self._failure as error:
            raise CorruptMember(_damaged(error)) from error
        return piece


def _bzip2() -> tuple[Any, type[Exception]]:
    import bz2

    return bz2.BZ2Decompressor(), OSError


def _lzma(packed: Packed, *, size: int | None) -> tuple[Any, type[Exception]]:
    """The zip's own little header (APPNOTE 5.8.8), rewritten as that of an .lzma file, which can tell its size."""
    import lzma

    header = packed.read(9)
    if len(header) < 9 or header[2:4] != b"\5\0" or header[4] >= 9 * 5 * 5:
        raise CorruptMember("its LZMA header makes no sense")
    dictionary = int.from_bytes(header[5:9], "little")
    if dictionary > MAX_WINDOW_BYTES:
        raise LimitExceeded(f"its LZMA dictionary of {dictionary} bytes is larger than the {MAX_WINDOW_BYTES} allowed")
    engine = lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=2 * MAX_WINDOW_BYTES)
    try:
        engine.decompress(header[4:9] + struct.pack("<q", -1 if size is None else size), 0)
    except lzma.LZMAError as error:
        raise CorruptMember(_damaged(error)) from error
    return engine, lzma.LZMAError


def _zstd(packed: Packed) -> Decoder:
    library = zstd_library()
    if library == "zstandard":
        import zstandard

        engine: Any = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        return _Pulled(
            engine.stream_reader(packed, read_size=INPUT_BYTES, read_across_frames=True), zstandard.ZstdError
        )
    if library is None:
        raise MissingLibrary("zstd is not there", advice="pip install zstandard")
    zstd: Any = importlib.import_module(library)
    options = {zstd.DecompressionParameter.window_log_max: _MAX_WINDOW_LOG}
    return _Pushed(packed, zstd.ZstdDecompressor(options=options), zstd.ZstdError)


def _damaged(error: Exception) -> str:
    return f"its compressed data are damaged ({error})"
