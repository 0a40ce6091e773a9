"""Records: an index file that grows, of records that are checked one by one.

Used by ``savedpoints.py``.  Each record has a key, a number larger than that of the record before.  Records are only
ever added at the end, by whoever has the file's lock just then, so any number of processes may use one file.  What a
process that was killed has left at the end is no whole record and is written over.  The checksum of a record goes on
from that of the file's header: a record of another file is never taken for one of this.

As with everything in the index, nothing here raises: what cannot be read or written is as if it were not there.
Any thread may call.
"""

from __future__ import annotations

import fcntl
import logging
import os
import struct
import threading
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, overload

from archivefs.zips.index import ArchiveIndex, Grown, write_all

LOG = logging.getLogger(__name__)

_HEAD = struct.Struct("<IQ")
"""CRC-32 of all that follows, and the key."""
_KEY = struct.Struct("<4xQ")
_ROOM_FOR = 64
"""How many records room is made for at once."""


class Records:
    """The records of one part of an index, *size* bytes each; *about* says what they were made of."""

    def __init__(self, index: ArchiveIndex, part: str, *, about: list[int], size: int) -> None:
        self._index = index
        self._part = part
        self._about = about
        self._size = size
        self._stride = _HEAD.size + size
        self._lock = threading.Lock()
        self._fd = -1
        self._base = self._seed = 0
        self._writing = True
        with self._lock:
            self._take(index.open_grown(part, about))

    def _take(self, opened: Grown | None) -> None:
        if opened:
            self._fd, self._base, self._seed = opened

    def close(self) -> None:
        """Nothing is found or added from now on."""
        with self._lock:
            self._writing = False
            self._let_go()

    def _let_go(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __len__(self) -> int:
        with self._lock:
            return self._count() if self._fd >= 0 else 0

    def _count(self) -> int:
        return max(0, os.fstat(self._fd).st_size - self._base) // self._stride

    def last_before(self, key: int) -> tuple[int, bytes] | None:
        """Key and content of the last record whose key is not above *key*; a damaged one ends the whole file."""
        with self._lock:
            if self._fd < 0:
                return None
            try:
                number = bisect_right(_Keys(self._fd, self._base, self._stride, self._count()), key) - 1
                return self._record(number, key) if number >= 0 else None
            except (OSError, ValueError, struct.error) as error:
                LOG.debug("index %s thrown away: %s", self._part, error)
                self._index.remove(self._part)
                self._let_go()
                return None

    def _record(self, number: int, most: int) -> tuple[int, bytes]:
        data = os.pread(self._fd, self._stride, self._base + number * self._stride)
        crc, key = _HEAD.unpack_from(data)
        if len(data) != self._stride or zlib.crc32(memoryview(data)[4:], self._seed) != crc or key > most:
            raise ValueError(f"record {number} is damaged")
        return key, data[_HEAD.size :]

    def add(self, key: int, content: bytes) -> None:
        """Add a record, unless there is one of that key or a larger one."""
        with self._lock:
            if not self._writing:
                return
            try:
                if self._fd < 0:
                    self._take(self._index.create_grown(self._part, self._about))
                self._append(key, content)
            except OSError as error:
                self._writing = False
                LOG.debug("index %s not kept: %s", self._part, error)

    def _append(self, key: int, content: bytes) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # another process adds the same
        try:
            count = self._count()
            if count and _Keys(self._fd, self._base, self._stride, count)[-1] >= key:
                return
            if count % _ROOM_FOR == 0:
                self._index.make_room(_ROOM_FOR * self._stride)
            body = key.to_bytes(8, "little") + content.ljust(self._size, b"\0")
            os.lseek(self._fd, self._base + count * self._stride, os.SEEK_SET)
            write_all(self._fd, zlib.crc32(body, self._seed).to_bytes(4, "little") + body)
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)


class _Keys(Sequence[int]):
    """The keys in a file, read when asked for; not checked."""

    def __init__(self, fd: int, base: int, stride: int, count: int) -> None:
        self._fd = fd
        self._base = base
        self._stride = stride
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, number: int) -> int: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[int]: ...
    def __getitem__(self, number: Any) -> Any:
        place = self._base + number % self._count * self._stride
        return _KEY.unpack(os.pread(self._fd, _KEY.size, place))[0]
