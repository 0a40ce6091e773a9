"""Packs: zips of up to sixteen bodies, as projects of version 3 have them.

Used by ``bodies.py``.  A pack is read once for its directory; what is kept is where each body lies.  Stored bodies are
served from there, with a CRC that runs along; anything else a zip may hold is left to our zip reader.
"""

from __future__ import annotations

import os
import zlib
from typing import NamedTuple

from archivefs.caches import ByteCache
from archivefs.errors import ArchiveError, CorruptMember
from archivefs.readers import pread_exactly
from archivefs.tree import Attributes, Reader
from archivefs.zips.codecs import STORED
from archivefs.zips.directory import ZipDirectory, ZipLimits
from archivefs.zips.members import open_member

PACKED = 16
"""How many ids share a pack."""
LIMITS = ZipLimits(max_entries=4096, max_directory_bytes=1 << 20)


class PackEntry(NamedTuple):
    """Where a body lies in its pack."""

    start: int
    size: int
    crc: int
    stored: bool


Contents = dict[str, PackEntry]


def entry_name(key: int) -> str:
    """The name of a revision's body in its pack."""
    return f"{key % 4096:03x}"


def pack_name(key: int) -> str:
    """The name of the pack that holds a revision's body."""
    return f"{entry_name(key)[:2]}_.zip"


def read_pack(fd: int, name: str) -> Contents:
    """What a pack holds, by name; nothing if it cannot be read.  Closes *fd*."""
    try:
        directory = ZipDirectory.open(name, limits=LIMITS, fd=fd)
    except ArchiveError:
        return {}
    try:
        found = {}
        for i in range(len(directory)):
            try:
                start = directory.locate(i).start
            except ArchiveError:
                continue  # a damaged entry counts as absent
            entry = PackEntry(start, directory.size(i), directory.crc(i), directory.method(i) == STORED)
            found[directory.name(i).decode("ascii", "replace")] = entry
            if len(found) == PACKED:
                break
        return found
    except ArchiveError:
        return {}
    finally:
        directory.close()


def pack_problem(fd: int, name: str) -> str | None:
    """What is wrong with a pack as a whole, if anything.  Closes *fd*."""
    try:
        ZipDirectory.open(name, limits=LIMITS, fd=fd).close()
    except ArchiveError as error:
        return error.problem
    return None


def open_entry(fd: int, name: str, key: int, entry: PackEntry, attributes: Attributes, cache: ByteCache) -> Reader:
    """Open a body in the pack that is open as *fd*, which is the reader's to close."""
    if entry.stored:
        return StoredReader(fd, entry, attributes)
    directory = ZipDirectory.open(name, limits=LIMITS, fd=fd)
    try:
        i = directory.find(entry_name(key).encode("ascii"))
        if i is None:
            raise CorruptMember("not in its pack any more", archive=name)
        return DressedReader(open_member(directory, i, cache), attributes)
    finally:
        directory.close()


class StoredReader(Reader):
    """A stored body, read where it lies.  Read from beginning to end, its CRC is checked with the last byte.

    Several threads may read; the CRC follows only reads that come in order, so it needs no lock: a lost update
    leaves it behind, and then it is not checked.
    """

    def __init__(self, fd: int, entry: PackEntry, attributes: Attributes) -> None:
        self._fd = fd
        self._entry = entry
        self._attributes = attributes
        self._checked = (0, 0)

    def read_at(self, offset: int, size: int) -> bytes:
        size = min(size, self._entry.size - offset)
        if size <= 0:
            return b""
        data = pread_exactly(self._fd, size, self._entry.start + offset)
        position, crc = self._checked
        if position == offset:
            crc = zlib.crc32(data, crc)
            if offset + size == self._entry.size and crc != self._entry.crc:
                raise CorruptMember("its CRC is wrong")
            self._checked = (offset + size, crc)
        return data

    def attributes(self) -> Attributes:
        return self._attributes

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class DressedReader(Reader):
    """Another reader's bytes under attributes of our own."""

    def __init__(self, inner: Reader, attributes: Attributes) -> None:
        self._inner = inner
        self._attributes = attributes

    def read_at(self, offset: int, size: int) -> bytes:
        return self._inner.read_at(offset, size)

    def attributes(self) -> Attributes:
        return self._attributes

    def close(self) -> None:
        self._inner.close()
