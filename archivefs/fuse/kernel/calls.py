"""One request under way: its bytes, and what the watchdog needs to know of it.

A worker has one :class:`Call` and fills it anew for each request.  The watchdog reads ``unique``, ``nodeid`` and
``opcode`` from another thread, and marks the call as overdue before it answers in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from archivefs.fuse.handles import OpenFile
from archivefs.fuse.kernel.protocol import IN_SIZE

Buffer = bytes | bytearray | memoryview
Reply = bytes | Sequence[Buffer] | None
"""Bytes, or several pieces that are sent together, or nothing for a request that is not answered."""

LARGEST_READ = 1 << 20


class MalformedRequest(Exception):
    """A request that is shorter than its kind must be, or lacks the end of a name."""


class Call:
    """The request a worker is at."""

    __slots__ = ("_data", "buffer", "file", "given", "handle", "length", "nodeid", "opcode", "overdue", "unique")

    def __init__(self, buffer_size: int) -> None:
        self.buffer = bytearray(buffer_size)
        self.length = 0
        self.opcode = 0
        self.nodeid = 0
        self.unique = 0
        """0 while the worker waits for a request."""
        self.overdue = False
        """Somebody else has answered, or is about to."""
        self.file: OpenFile | None = None
        """What is being read."""
        self.given: list[int] = []
        """Nodes handed out by the reply, each to be forgotten if the kernel does not take it."""
        self.handle = 0
        """The handle handed out by the reply, to be released if the kernel does not take it."""
        self._data: memoryview | None = None

    def name(self, start: int = IN_SIZE) -> bytes:
        """The name that begins at *start*; raises MalformedRequest."""
        end = self.buffer.find(b"\0", start, self.length)
        if end < 0:
            raise MalformedRequest("a name without an end")
        return bytes(self.buffer[start:end])

    def data(self, size: int) -> memoryview:
        """Room for *size* bytes of content, used again by each request of this worker."""
        if self._data is None or len(self._data) < size:
            self._data = memoryview(bytearray(max(size, LARGEST_READ)))
        return self._data[:size]
