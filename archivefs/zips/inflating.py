"""The libraries that inflate: the fastest that is installed, with the standard one behind it.

Used by ``members.py``, ``streams.py`` and ``codecs.py``.  What ``make bench-inflate`` showed decides the order:
``isal`` is the quickest by far, but its state cannot be copied, so it serves members that are unpacked at one go;
streams, which checkpoints are copied from, get ``zlib-ng``.  Whoever inflates at one go leaves everything that is
not right to a stream, so what a damaged member is called does not depend on the library.

All three let go of the interpreter's lock while they work.  Any thread may call; libraries are imported when
the first member is read.
"""

from __future__ import annotations

import importlib
import zlib
from functools import lru_cache
from typing import Any

WHOLE = ("isal.isal_zlib", "zlib_ng.zlib_ng", "zlib")
COPIED = ("zlib_ng.zlib_ng", "zlib")
RAW = -15
"""Deflate without a wrapper, as a zip has it, with the largest window."""


@lru_cache(maxsize=1)
def whole_library() -> Any:
    """The module for members that are unpacked at one go, and for their CRC."""
    return _first(WHOLE)


@lru_cache(maxsize=1)
def copied_library() -> Any:
    """The module for streams: its ``decompressobj`` has ``copy``."""
    return _first(COPIED)


def _first(names: tuple[str, ...]) -> Any:
    for name in names:
        try:
            return importlib.import_module(name)
        except Exception:  # not there, or broken: what a library may raise when it is loaded is not known
            continue
    return zlib


def inflated(packed: bytes, size: int) -> bytes | None:
    """What *packed* holds, if that is a whole deflate stream of *size* bytes; never makes more than one byte more."""
    library = whole_library()
    engine = library.decompressobj(RAW)
    try:
        data: bytes = engine.decompress(packed, size + 1)
    except library.error:
        return None
    return data if engine.eof and len(data) == size else None


def crc32(data: bytes | memoryview, start: int = 0) -> int:
    """The CRC of *data*, going on from *start*."""
    crc: int = whole_library().crc32(data, start)
    return crc
