"""Extra fields and times of zip records (APPNOTE 4.5 and 4.4.6).  Pure functions, used by ``directory.py``.

Extra fields are hostile like everything else: a field whose length runs over its block ends the block.
"""

from __future__ import annotations

import calendar
import struct
import time
from collections.abc import Iterator
from functools import lru_cache

ZIP64 = 0x0001
NTFS = 0x000A
UNIX_TIMES = 0x5455
OLD_UNIX = 0x5855
UNICODE_PATH = 0x7075

MAX_MTIME_S = 4354819199
"""The last second of 2107, where DOS times end."""
NTFS_EPOCH_S = 11644473600
"""Seconds from 1601 to 1970."""

_FIELD = struct.Struct("<HH")
_NTFS_TIMES = struct.Struct("<4xHHQ")
_NANO = 10**9


def fields(extra: bytes) -> Iterator[tuple[int, bytes]]:
    """The whole fields of an extra block: number and data."""
    at = 0
    while at + 4 <= len(extra):
        number, length = _FIELD.unpack_from(extra, at)
        at += 4
        if at + length > len(extra):
            return
        yield number, extra[at : at + length]
        at += length


def zip64_values(extra: bytes, wanted: int) -> tuple[int, ...] | None:
    """The first *wanted* 64-bit numbers of the zip64 field, or None where they are not there."""
    for number, data in fields(extra):
        if number == ZIP64 and len(data) >= 8 * wanted:
            values: tuple[int, ...] = struct.unpack_from(f"<{wanted}Q", data)
            return values
    return None


def mtime_ns(extra: bytes, dos: int) -> int:
    """The time of last change: from an extra field where there is one, else the DOS date and time as local time."""
    for number, data in fields(extra):
        if number == UNIX_TIMES and len(data) >= 5 and data[0] & 1:
            return _clamped(int.from_bytes(data[1:5], "little", signed=True) * _NANO)
        if number == NTFS and len(data) >= 32:
            tag, length, ticks = _NTFS_TIMES.unpack_from(data)
            if tag == 1 and length >= 24:
                return _clamped(ticks * 100 - NTFS_EPOCH_S * _NANO)
        if number == OLD_UNIX and len(data) >= 8:
            return _clamped(int.from_bytes(data[4:8], "little", signed=True) * _NANO)
    return dos_time_ns(dos)


@lru_cache(maxsize=4096)
def dos_time_ns(dos: int) -> int:
    """A DOS date (upper 16 bits) and time as local time; what is impossible is moved to the nearest that is not."""
    year, month, day = 1980 + (dos >> 25), dos >> 21 & 15, dos >> 16 & 31
    month = min(max(month, 1), 12)
    day = min(max(day, 1), calendar.monthrange(year, month)[1])
    hour, minute, second = min(dos >> 11 & 31, 23), min(dos >> 5 & 63, 59), min((dos & 31) * 2, 59)
    return _clamped(int(time.mktime((year, month, day, hour, minute, second, 0, 0, -1))) * _NANO)


def _clamped(value: int) -> int:
    return min(max(value, 0), MAX_MTIME_S * _NANO)
