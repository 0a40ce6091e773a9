"""Where the data of a zip's members lie, and whether they may be read.

Used by ``directory.py``, whose methods ``check`` and ``locate`` come here.  The central directory is what counts;
of a local header only its signature and its two lengths are used, as Info-ZIP does.  Any thread may ask; the one
table is made when first needed, under the lock.
"""

from __future__ import annotations

import itertools
import struct
import threading
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from archivefs.errors import EncryptedMember, UnsupportedMember
from archivefs.zips.codecs import DEFLATED, STORED, ZSTD, supported
from archivefs.zips.endrecord import LOCAL_SIGNATURE

if TYPE_CHECKING:
    from archivefs.zips.directory import ZipDirectory

LOCAL_BYTES = 30
MAX_DEFLATE_RATIO = 1032
"""A match of 258 bytes takes at least two bits."""
MAX_FALSE_STARTS = 64
"""How many entries that lie about their place are looked at before a member they point into is given up."""
FLAGS_ENCRYPTED = 0x2041
"""Bits 0 (encrypted), 6 (strong encryption) and 13 (masked header)."""
AES = 99

_FIELDS = struct.Struct("<HH4xIII6xH")
"""Of a record, from its byte 8 on: flags, method, CRC, compressed size, size, disk."""
_LOCAL = struct.Struct("<4s22xHH")
_ALL16, _ALL32 = 0xFFFF, 0xFFFFFFFF


class Place(NamedTuple):
    """Where a member's data lie in the file, and what is needed to unpack them."""

    start: int
    packed: int
    """How many bytes it takes there."""
    size: int
    crc: int
    method: int
    flags: int


class Places:
    """The places of all members of one zip."""

    def __init__(self, directory: ZipDirectory, offsets: array[int], end: int) -> None:
        self._directory = directory
        self._offsets = offsets
        self._end = end
        """Where the central directory begins: no member reaches further."""
        self._lock = threading.Lock()
        self._order: array[int] | range | None = None

    def locate(self, i: int) -> Place:
        """The place of a member; raises EncryptedMember, UnsupportedMember or CorruptMember."""
        directory = self._directory
        flags, method, crc, packed, size, disk = _FIELDS.unpack_from(directory.records, directory.positions[i] + 8)
        if flags & FLAGS_ENCRYPTED or method == AES:
            raise EncryptedMember(archive=directory.path, member=directory.name(i))
        if not supported(method) or disk not in (0, _ALL16):
            raise self._unsupported(i, method)
        if packed == _ALL32 or size == _ALL32:
            if not directory.has_zip64_sizes(i):
                raise directory.corrupt(i, "its zip64 sizes are missing", "zip-size")
            packed, size = directory.compressed_size(i), directory.size(i)
        if method == STORED and size != packed:
            raise directory.corrupt(i, f"stored as {packed} bytes, but {size} are declared", "zip-size")
        if method == DEFLATED and size > (packed + 1) * MAX_DEFLATE_RATIO:
            raise directory.corrupt(i, f"{packed} compressed bytes cannot hold the {size} declared", "zip-size")
        start = self._data_start(i)
        if start + packed > self._end:
            raise directory.corrupt(i, "its data reach beyond the end of the archive's data")
        self._check_overlap(i, start + packed)
        return Place(start, packed, size, crc, method, flags)

    def _unsupported(self, i: int, method: int) -> UnsupportedMember:
        directory = self._directory
        if supported(method):
            problem = "it lies in another part of a split archive"
            return UnsupportedMember(problem, archive=directory.path, member=directory.name(i))
        problem = f"compressed by method {method}, which is not known here"
        advice = "pip install zstandard" if method == ZSTD else ""
        return UnsupportedMember(problem, archive=directory.path, member=directory.name(i), advice=advice)

    def _data_start(self, i: int) -> int:
        offset = self._offsets[i]
        if offset + LOCAL_BYTES > self._end:
            raise self._directory.corrupt(i, "its place is outside the archive's data")
        signature, name, extra = _LOCAL.unpack(self._directory.source.pread(LOCAL_BYTES, offset))
        if signature != LOCAL_SIGNATURE:
            raise self._directory.corrupt(i, f"no member begins at byte {offset}")
        return int(offset + LOCAL_BYTES + name + extra)

    def _check_overlap(self, i: int, end: int) -> None:
        """Of members that share bytes at most one can be right: the one that others do not reach into.

        Of entries with the same place the first counts; a member whose data hold the beginning of another is
        refused.  So no byte of the file is ever read for two members, and no bomb is made of overlaps.
        """
        order, offsets = self._in_order(), self._offsets
        offset = offsets[i]
        first = bisect_left(order, offset, key=offsets.__getitem__)
        if order[first] != i:
            raise self._directory.corrupt(i, "it lies at the same place as another member", "zip-overlap")
        after = bisect_right(order, offset, first, key=offsets.__getitem__)
        for number in itertools.count(after):
            if number == len(order) or offsets[order[number]] >= end:
                return
            if number - after == MAX_FALSE_STARTS or self._begins_at(offsets[order[number]]):
                raise self._directory.corrupt(i, "its data overlap another member's", "zip-overlap")

    def _begins_at(self, offset: int) -> bool:
        """Does a member begin there?  An entry that points elsewhere is damaged itself and harms no other."""
        return self._directory.source.pread(len(LOCAL_SIGNATURE), offset) == LOCAL_SIGNATURE

    def _in_order(self) -> array[int] | range:
        """The entries by place in the file; those of one place in directory order."""
        order = self._order
        if order is None:
            with self._lock:
                offsets = self._offsets
                order = range(len(offsets))
                if not all(map(int.__le__, offsets, itertools.islice(offsets, 1, None))):
                    order = array("I", sorted(order, key=offsets.__getitem__))
                self._order = order
        return order
