"""The key coding: tuples of simple values to bytes that sort almost as the tuples do, and back.  Pure functions.

Used for physical keys (after the store's prefix and the collection's number), for values in metadata and for the
values of collections that use it.  Specification §3.  A key that can be read but that we would write otherwise is
not canonical: it is kept by its bytes, since two of them may mean the same tuple.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from archivefs.errors import CorruptMember
from archivefs.formats.centidb import sevenbits, varints
from archivefs.formats.centidb.dialects import Dialect

NULL, NEGATIVE, INTEGER, BOOL, BLOB, TEXT = 0x0F, 0x14, 0x15, 0x1E, 0x28, 0x32
UUID_KIND, EARLY_TIME, TIME, SEPARATOR = 0x5A, 0x5B, 0x5C, 0x66
KINDS = frozenset((NULL, NEGATIVE, INTEGER, BOOL, BLOB, TEXT, UUID_KIND, EARLY_TIME, TIME))
"""The bytes an element can begin with."""
SEP = b"\x66"
PAST = b"\x67"
"""Greater than any byte that can follow an element, except more of an open string."""

MIN_MILLIS = -62135596800000
MAX_MILLIS = 253402300799999
"""The years 1 … 9999; nothing else can be shown."""
QUARTER_MINUTES = 15


class Moment(NamedTuple):
    """A time with its offset from UTC."""

    millis: int
    """Since 1970, UTC."""
    quarters: int
    """The offset in quarters of an hour, plus 64."""

    @property
    def minutes(self) -> int:
        """The offset in minutes."""
        return (self.quarters - 64) * QUARTER_MINUTES


Element = None | bool | int | bytes | str | UUID | Moment


class KeyTuple(NamedTuple):
    """One decoded tuple."""

    data: bytes
    """As it was encoded."""
    values: tuple[Element, ...]
    ends: tuple[int, ...]
    """Where each element ends in the data."""
    flaws: tuple[int, ...]
    """Which elements are not written as we would."""

    @property
    def canonical(self) -> bool:
        """Would we encode it to the same bytes?"""
        return not self.flaws


# -- encoding --


def encode_key(tuples: Iterable[Iterable[Element]], dialect: Dialect) -> bytes:
    """The bytes of one tuple or several; raises ValueError for what no key can hold."""
    return SEP.join(encode_tuple(values, dialect) for values in tuples)


def encode_tuple(values: Iterable[Element], dialect: Dialect) -> bytes:
    """The bytes of one tuple."""
    return b"".join(encode_element(value, dialect) for value in values)


def encode_element(value: Element, dialect: Dialect) -> bytes:
    """The bytes of one element."""
    if value is None:
        return b"\x0f"
    if value is True or value is False:
        return b"\x1e\x01" if value else b"\x1e\x00"
    if isinstance(value, int):
        return _number(value, NEGATIVE, INTEGER, dialect)
    if isinstance(value, bytes):
        return b"\x28" + encode_string(value, dialect)
    if isinstance(value, str):
        return b"\x32" + encode_string(value.encode("utf-8", "surrogatepass"), dialect)
    if isinstance(value, UUID):
        return b"\x5a" + value.bytes
    return _number(_moment_number(value), EARLY_TIME, TIME, dialect)


def _number(value: int, negative: int, positive: int, dialect: Dialect) -> bytes:
    if value >= 0:
        return bytes((positive,)) + varints.encode(value)
    body = varints.encode(-value)
    return bytes((negative,)) + (body.translate(_INVERTED) if dialect.inverted else body)


def _moment_number(moment: Moment) -> int:
    if not 0 <= moment.quarters <= 127:
        raise ValueError("an offset from -16:00 to +15:45 is expected")
    if not _can_be_shown(moment):
        raise ValueError("a time in the years 1 to 9999 is expected")
    return moment.millis * 128 + moment.quarters


def _can_be_shown(moment: Moment) -> bool:
    local = moment.millis + moment.minutes * 60000
    return MIN_MILLIS <= moment.millis <= MAX_MILLIS and MIN_MILLIS <= local <= MAX_MILLIS


def encode_string(data: bytes, dialect: Dialect) -> bytes:
    """Groups of seven bits, each in a byte with the eighth bit set; the last one without it, or open."""
    if not data:
        return b"" if dialect.open_strings else b"\x00"
    groups = sevenbits.grouped(data)
    return groups if dialect.open_strings else groups[:-1] + bytes((groups[-1] & 0x7F,))


# -- decoding --


def decode_key(data: bytes, dialect: Dialect) -> list[KeyTuple]:
    """The tuples of a key, at least one; raises CorruptMember."""
    tuples = []
    at = 0
    while True:
        found, at = _decode_tuple(data, at, dialect)
        tuples.append(found)
        if at == len(data):
            return tuples
        at += 1  # the separator
        if at == len(data):
            return [*tuples, KeyTuple(b"", (), (), ())]


def decode_tuple(data: bytes, dialect: Dialect) -> KeyTuple:
    """Exactly one tuple; raises CorruptMember."""
    found, at = _decode_tuple(data, 0, dialect)
    if at != len(data):
        raise CorruptMember("one tuple is expected where there are several")
    return found


def _decode_tuple(data: bytes, start: int, dialect: Dialect) -> tuple[KeyTuple, int]:
    at = start
    values: list[Element] = []
    ends: list[int] = []
    flaws: list[int] = []
    while at < len(data) and data[at] != SEPARATOR:
        value, at, canonical = _decode_element(data, at, dialect)
        if not canonical:
            flaws.append(len(values))
        values.append(value)
        ends.append(at - start)
    return KeyTuple(data[start:at], tuple(values), tuple(ends), tuple(flaws)), at


def _decode_element(data: bytes, at: int, dialect: Dialect) -> tuple[Element, int, bool]:
    """The value, where the next one begins, and whether it is written as we would."""
    kind = data[at]
    at += 1
    if kind == INTEGER:
        number, end = varints.decode(data, at)
        return number, end, end - at == varints.length(number)
    if kind in (BLOB, TEXT):
        return _decode_string(data, at, kind, dialect)
    if kind == NULL:
        return None, at, True
    if kind in (NEGATIVE, EARLY_TIME, TIME):
        return _decode_signed(data, at, kind, dialect)
    if kind == BOOL:
        number, end = varints.decode(data, at)
        return number != 0, end, number <= 1 and end - at == 1
    if kind == UUID_KIND:
        raw = data[at : at + 16]
        if len(raw) != 16:
            raise CorruptMember("a UUID is cut off")
        return UUID(bytes=raw), at + 16, True
    raise CorruptMember(f"no element begins with the byte {kind:02x}")


def _decode_signed(data: bytes, at: int, kind: int, dialect: Dialect) -> tuple[Element, int, bool]:
    negative = kind != TIME
    if negative and dialect.inverted:
        number, size = varints.decode(data[at : at + 9].translate(_INVERTED), 0)
    else:
        number, end = varints.decode(data, at)
        size = end - at
    canonical = size == varints.length(number) and not (negative and number == 0)
    if kind == NEGATIVE:
        return -number, at + size, canonical
    signed = -number if negative else number
    moment = Moment(signed >> 7, signed & 127)
    if not _can_be_shown(moment):
        raise CorruptMember("a time outside the years 1 to 9999")
    return moment, at + size, canonical


def _decode_string(data: bytes, at: int, kind: int, dialect: Dialect) -> tuple[Element, int, bool]:
    match = (_OPEN if dialect.open_strings else _MARKED).match(data, at)
    if match is None:
        raise CorruptMember("a string is not ended")
    raw, canonical = sevenbits.ungrouped(match[0])
    if kind == BLOB:
        return raw, match.end(), canonical
    try:
        return raw.decode("utf-8", "surrogatepass"), match.end(), canonical
    except UnicodeDecodeError:
        raise CorruptMember("a text is not UTF-8") from None


_INVERTED = bytes(range(255, -1, -1))
_OPEN = re.compile(rb"[\x80-\xff]*")
_MARKED = re.compile(rb"[\x80-\xff]*[\x00-\x7f]")


def joined(tuples: Sequence[bytes]) -> bytes:
    """A physical key of encoded tuples."""
    return SEP.join(tuples)
