"""Readers that any format can use: bytes in memory, a stretch of an open file, a window over a stream."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from archivefs.errors import CorruptMember
from archivefs.tree import Attributes, Extent, Reader

WINDOW_BYTES = 1 << 20
"""How much a WindowReader keeps behind each place it reads at: read-ahead arrives slightly out of order."""
PIECE_BYTES = 1 << 18
MAX_CURSORS = 2
"""How many places of one stream are read at in turn without going back: two programs, or a file and its index."""


class BytesReader(Reader):
    """Content that is in memory."""

    def __init__(self, data: bytes, *, mtime_ns: int = 0, version: int = 0) -> None:
        self._data = data
        self._attributes = Attributes(len(data), mtime_ns, version)

    def read_at(self, offset: int, size: int) -> bytes:
        if offset == 0 and size >= len(self._data):
            return self._data
        return self._data[offset : offset + size]

    def attributes(self) -> Attributes:
        return self._attributes

    def close(self) -> None:
        """Nothing is held."""


class ExtentReader(Reader):
    """A stretch of a file that somebody else keeps open, or that is closed with the reader (``owned``)."""

    def __init__(self, extent: Extent, *, mtime_ns: int = 0, version: int = 0, owned: bool = False) -> None:
        self._extent = extent
        self._owned = owned
        self._attributes = Attributes(extent.length, mtime_ns, version)

    def read_at(self, offset: int, size: int) -> bytes:
        fd, start, length = self._extent
        size = min(size, length - offset)
        if size <= 0:
            return b""
        return pread_exactly(fd, size, start + offset)

    def attributes(self) -> Attributes:
        return self._attributes

    def extent(self) -> Extent | None:
        return self._extent

    def close(self) -> None:
        if self._owned:
            self._owned = False
            os.close(self._extent.fd)


def pread_exactly(fd: int, size: int, offset: int) -> bytes:
    """*size* bytes of a file; raises CorruptMember when it ends before (it was cut while open)."""
    data = os.pread(fd, size, offset)
    if len(data) == size:
        return data
    pieces = [data]
    missing = size - len(data)
    while missing and data:
        data = os.pread(fd, missing, offset + size - missing)
        pieces.append(data)
        missing -= len(data)
    if missing:
        raise CorruptMember(f"the file ends {missing} bytes too early")
    return b"".join(pieces)


# -- a window over a stream --


class Stream(Protocol):
    """Content that can only be read from its beginning, in order."""

    @property
    def position(self) -> int:
        """How many bytes were read."""

    @property
    def weight(self) -> int:
        """What a copy takes in memory."""

    def read(self, limit: int) -> bytes:
        """The next bytes, at most *limit*; nothing at the end.  After an error it is of no more use."""

    def copy(self) -> Stream | None:
        """An independent stream at the same place, where that is possible."""


class StreamPoints(Protocol):
    """Where copies of a stream are kept, so that going back is cheap."""

    def keep(self, stream: Stream) -> None:
        """Called after each piece: keep a copy if one is due."""

    def nearest(self, offset: int) -> Stream | None:
        """The kept stream that stands least before *offset*, as a copy; None: begin at the beginning."""


class WindowReader(Reader):
    """Content behind a stream: read forward, with a window behind the position and checkpoints to go back to.

    Nothing is held but the windows.  One lock guards them, so several threads may read, one after the other.
    """

    def __init__(
        self,
        begin: Callable[[], Stream],
        attributes: Attributes,
        *,
        points: StreamPoints | None = None,
        window: int = WINDOW_BYTES,
        release: Callable[[], None] | None = None,
    ) -> None:
        self._begin = begin
        self._attributes = attributes
        self._points = points
        self._window = window
        self._release = release
        self._lock = threading.Lock()
        self._cursors: list[_Cursor] = []
        self._closed = False

    def read_at(self, offset: int, size: int) -> bytes:
        size = min(size, self._attributes.size - offset)
        if size <= 0:
            return b""
        with self._lock:
            cursor = self._cursor_for(offset)
            try:
                self._advance(cursor, offset, offset + size)
            except BaseException:
                self._cursors.remove(cursor)
                raise
            return cursor.bytes_at(offset, size)

    def attributes(self) -> Attributes:
        return self._attributes

    def close(self) -> None:
        """Also ends a read that is under way in another thread."""
        self._closed = True
        with self._lock:
            self._cursors.clear()
        if self._release:
            self._release()

    def _advance(self, cursor: _Cursor, offset: int, end: int) -> None:
        while cursor.stream.position < end:
            if self._closed:
                raise CorruptMember("closed while it was read")
            cursor.step(keep_from=min(offset, cursor.stream.position + PIECE_BYTES - self._window))
            if self._points:
                self._points.keep(cursor.stream)

    def _cursor_for(self, offset: int) -> _Cursor:
        """The cursor with the shortest way to *offset*; the one used last is the last of the list."""
        near = [cursor for cursor in self._cursors if cursor.first <= offset]
        best = max(near, key=lambda cursor: cursor.stream.position, default=None)
        if best is None or best.stream.position < offset:
            point = self._points.nearest(offset) if self._points else None
            if point and (best is None or point.position > best.stream.position):
                best = _Cursor(point)
        if best is None:
            best = _Cursor(self._begin())
        if best in self._cursors:
            self._cursors.remove(best)
        self._cursors = [*self._cursors[-(MAX_CURSORS - 1) :], best]
        return best


class _Cursor:
    """A stream and the last pieces read from it."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.first = stream.position
        self._pieces: deque[bytes] = deque()

    def step(self, *, keep_from: int) -> None:
        """Read one piece and drop those that end before *keep_from*."""
        position = self.stream.position
        piece = self.stream.read(PIECE_BYTES)
        if not piece:
            raise CorruptMember(f"its data end after {position} bytes")
        self._pieces.append(piece)
        while self.first + len(self._pieces[0]) <= keep_from:
            self.first += len(self._pieces.popleft())

    def bytes_at(self, offset: int, size: int) -> bytes:
        """What was read from *offset* on; the caller has made sure that it is here."""
        found = []
        at = self.first
        for piece in self._pieces:
            if offset < at + len(piece) and at < offset + size:
                found.append(piece[max(0, offset - at) : offset + size - at])
            at += len(piece)
        return found[0] if len(found) == 1 else b"".join(found)
