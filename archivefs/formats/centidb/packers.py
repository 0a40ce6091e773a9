"""How values are packed: plain, zlib, or by something only the application had.  Pure functions.

Specification §4.1, §4.5.  Nothing is inflated beyond a limit.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Container
from typing import NamedTuple

from archivefs.errors import CorruptMember, LimitExceeded
from archivefs.formats.centidb import varints
from archivefs.formats.centidb.dialects import Dialect

PLAIN, ZLIB = 3, 4
BUILTIN = {1: b"key", 2: b"pickle", PLAIN: b"plain", ZLIB: b"zlib"}
"""The encodings that are never stored."""
MAX_VALUE = 256 << 20
TRAILING = "bytes after the end of the zlib stream are ignored"


class Packing(enum.Enum):
    """What can be done with packed bytes."""

    PLAIN = "plain"
    ZLIB = "zlib"
    OPAQUE = "opaque"


class Packed(NamedTuple):
    """A value taken apart."""

    number: int
    packing: Packing
    data: bytes


class Unpacked(NamedTuple):
    """Bytes as the application's encoder wrote them; of an opaque packer the packed ones."""

    data: bytes
    warning: str = ""


def packing_of(number: int, encodings: Container[int]) -> Packing:
    """What packer *number* is; raises CorruptMember for a number that nobody has registered."""
    if number == PLAIN:
        return Packing.PLAIN
    if number == ZLIB:
        return Packing.ZLIB
    if number in (1, 2) or (number >= 10 and number in encodings):
        return Packing.OPAQUE
    raise CorruptMember(f"its packer has the number {number}, which is not registered")


def taken_apart(value: bytes, at: int, dialect: Dialect, encodings: Container[int]) -> Packed:
    """The packer and the packed bytes of a value, from *at* on."""
    if not dialect.numbered:
        return Packed(PLAIN, Packing.PLAIN, value[at:])
    if at >= len(value):
        raise CorruptMember("its value is empty" if not value else "its packer is missing")
    number, start = varints.decode(value, at)
    return Packed(number, packing_of(number, encodings), value[start:])


def unpacked(packed: Packed, limit: int) -> Unpacked:
    """The bytes; raises CorruptMember, or LimitExceeded where there are more than *limit*."""
    if packed.packing is Packing.ZLIB:
        return inflated(packed.data, limit)
    if len(packed.data) > limit:
        raise LimitExceeded(f"its value is larger than the limit of {limit} bytes")
    return Unpacked(packed.data)


def inflated(data: bytes, limit: int) -> Unpacked:
    """The content of a zlib stream."""
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(data, limit + 1)
    except zlib.error as error:
        raise CorruptMember(f"its zlib stream is damaged ({error})") from None
    if len(found) > limit:
        raise LimitExceeded(f"its value unpacks to more than the limit of {limit} bytes")
    if not stream.eof:
        raise CorruptMember("its zlib stream is cut off")
    return Unpacked(found, TRAILING if stream.unused_data else "")


def packed_value(data: bytes, number: int, dialect: Dialect) -> bytes:
    """A value to store: with the packer *number*, which is plain or zlib."""
    if not dialect.numbered:
        return data
    return varints.encode(number) + (zlib.compress(data) if number == ZLIB else data)
