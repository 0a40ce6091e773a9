"""The content of a zip's members: whole, as a stream, or through a reader at any place.

Used by every format that is a zip.  Which reader a member gets:

* up to ``SMALL_MEMBER`` bytes: unpacked whole, checked, and kept in the shared cache while it is read in parts;
* stored and larger: read where it lies, with a CRC that runs along;
* compressed and larger: through a window over a stream, with checkpoints in the shared cache, or in the index
  (``savedpoints.py``) for those that are deflated and large.

Whatever the way, the last byte of a member is handed out only after the CRC of the whole was found right:
the kernel never asks for more than the size, so a check at the end of the file would never run.  Any thread
may use any reader.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from archivefs.caches import ByteCache
from archivefs.errors import LimitExceeded
from archivefs.readers import WindowReader
from archivefs.tree import Attributes, Extent, Reader
from archivefs.zips.checkpoints import Checkpoints
from archivefs.zips.codecs import DEFLATED, STORED
from archivefs.zips.directory import Place, ZipDirectory
from archivefs.zips.inflating import crc32, inflated
from archivefs.zips.streams import MemberStream

if TYPE_CHECKING:  # it loads ctypes
    from archivefs.zips.savedpoints import SavedPoints

SMALL_MEMBER = 1 << 20
SMALL_STORED = 128 << 10
"""A stored member above this is not worth keeping: it can be read where it lies."""
SAVED_MEMBER = 8 << 20
"""From this size on, points where a deflated member can be entered are kept between mounts."""
STREAM_BYTES = 1 << 18
CATCH_UP_BYTES = 4 << 20
"""How far a read may be ahead of the running CRC to take it along."""


def open_member(directory: ZipDirectory, i: int, cache: ByteCache) -> Reader:
    """Open a member; raises CorruptMember, EncryptedMember, UnsupportedMember, SourceChanged."""
    directory.unchanged()
    place = directory.locate(i)
    if directory.ahead:
        directory.ahead.opened(i)
    if place.size == 0:
        _unpacked(directory, i, place)
    stored = place.method == STORED
    if place.size <= (SMALL_STORED if stored else SMALL_MEMBER):
        return _SmallReader(directory, i, place, cache)
    if stored:
        return _StoredReader(directory, i, place, cache)
    return _large_reader(directory, i, place, cache)


def _large_reader(directory: ZipDirectory, i: int, place: Place, cache: ByteCache) -> Reader:
    attributes = attributes_of(directory, i)
    directory.source.hold()
    saved = _saved_points(directory, i, place)
    if saved is None:
        points = Checkpoints(cache, (directory.cache_owner, i), place.size)
        begin = lambda: MemberStream(directory, i, place)  # noqa: E731
        return WindowReader(begin, attributes, points=points, release=directory.source.release)

    def release() -> None:
        saved.close()
        directory.source.release()

    return WindowReader(saved.begin, attributes, points=saved, release=release)


def _saved_points(directory: ZipDirectory, i: int, place: Place) -> SavedPoints | None:
    """Where points of the member are kept between mounts, if they are."""
    if directory.index is None or place.method != DEFLATED or place.size < SAVED_MEMBER:
        return None
    from archivefs.zips.savedpoints import SavedPoints

    return SavedPoints.of(directory, i, place)


def read_member(directory: ZipDirectory, i: int, cache: ByteCache, *, limit: int) -> bytes:
    """The whole content, checked; raises LimitExceeded if it is larger than *limit*."""
    if directory.size(i) > limit:
        problem = f"{directory.size(i)} bytes are more than the {limit} allowed"
        raise LimitExceeded(problem, archive=directory.path, member=directory.name(i))
    return cache.bytes_for(_whole_key(directory, i), lambda: _unpacked(directory, i, directory.locate(i)))


def stream_member(directory: ZipDirectory, i: int, chunk: int = STREAM_BYTES) -> Iterator[bytes]:
    """The content in pieces; raises CorruptMember before the last one if size or CRC are wrong."""
    stream = MemberStream(directory, i)
    while piece := stream.read(chunk):
        yield piece


def attributes_of(directory: ZipDirectory, i: int) -> Attributes:
    """Size, time and CRC as the version."""
    return Attributes(*directory.size_time_crc(i))


def _whole_key(directory: ZipDirectory, i: int) -> tuple[object, int, str]:
    return directory.cache_owner, i, "whole"


def _unpacked(directory: ZipDirectory, i: int, place: Place) -> bytes:
    """The whole content, checked."""
    if place.method == DEFLATED and place.size <= SMALL_MEMBER and place.packed <= 2 * SMALL_MEMBER:
        # at one go; what is not right is left to the stream, which can say what is wrong
        data = inflated(directory.source.pread(place.packed, place.start), place.size)
        if data is not None and crc32(data) == place.crc:
            return data
    stream = MemberStream(directory, i, place)
    return b"".join(iter(lambda: stream.read(STREAM_BYTES), b""))


class _SmallReader(Reader):
    """A member that is unpacked whole.  Holds nothing: the cache bounds what a thousand open files take.

    Who takes all of it at once will hardly ask again, for the kernel keeps what it was given: only what is read in
    parts goes into the cache.
    """

    def __init__(self, directory: ZipDirectory, i: int, place: Place, cache: ByteCache) -> None:
        self._directory = directory
        self._i = i
        self._place = place
        self._cache = cache
        directory.source.hold()

    def read_at(self, offset: int, size: int) -> bytes:
        key = _whole_key(self._directory, self._i)
        data: bytes | None = self._cache.get(key)
        if data is None:
            data = _unpacked(self._directory, self._i, self._place)
            if offset or size < len(data):
                self._cache.put(key, data, len(data))
        return data if offset == 0 and size >= len(data) else data[offset : offset + size]

    def attributes(self) -> Attributes:
        return attributes_of(self._directory, self._i)

    def close(self) -> None:
        self._directory.source.release()


class _StoredReader(Reader):
    """A stored member, read where it lies.  The lock guards the running CRC."""

    def __init__(self, directory: ZipDirectory, i: int, place: Place, cache: ByteCache) -> None:
        self._directory = directory
        self._i = i
        self._extent = Extent(directory.fd, place.start, place.size)
        self._cache = cache
        self._key = (directory.cache_owner, i, "crc")
        self._lock = threading.Lock()
        progress: tuple[int, int] = cache.get(self._key) or (0, 0)
        self._position, self._crc = progress
        self._closed = False
        directory.source.hold()

    def read_at(self, offset: int, size: int) -> bytes:
        _, start, length = self._extent
        size = min(size, length - offset)
        if size <= 0:
            return b""
        data = self._directory.source.pread(size, start + offset)
        if not self._directory.verified(self._i):
            with self._lock:
                self._follow(offset, data)
        return data

    def attributes(self) -> Attributes:
        return attributes_of(self._directory, self._i)

    def extent(self) -> Extent | None:
        return self._extent if self._directory.verified(self._i) else None

    def close(self) -> None:
        self._closed = True
        if 0 < self._position < self._extent.length:
            self._cache.put(self._key, (self._position, self._crc), 100)
        self._directory.source.release()

    def _follow(self, offset: int, data: bytes) -> None:
        """Take *data* into the CRC; before the last byte is handed out, all of it."""
        end = offset + len(data)
        if end == self._extent.length or 0 < offset - self._position <= CATCH_UP_BYTES:
            self._catch_up(offset)
        if offset <= self._position < end:
            self._crc = crc32(memoryview(data)[self._position - offset :], self._crc)
            self._position = end
        if end == self._extent.length:
            if self._crc != self._directory.crc(self._i):
                raise self._directory.corrupt(self._i, "its CRC is wrong", "zip-crc")
            self._directory.mark_verified(self._i)

    def _catch_up(self, offset: int) -> None:
        while self._position < offset:
            if self._closed:
                raise self._directory.corrupt(self._i, "closed while it was checked")
            size = min(CATCH_UP_BYTES, offset - self._position)
            piece = self._directory.source.pread(size, self._extent.start + self._position)
            self._crc = crc32(piece, self._crc)
            self._position += size
