"""Reading ahead: the kernel is told which pieces of the archive will be read next, when members are read in order.

Used by ``members.py``, which says of each member that it is opened.  When several were opened in the order in which
their folder is listed, the kernel is asked to fetch those that follow, a few at a time.  In the archive they may lie
anywhere; where they lie side by side, nothing is asked, since it sees that by itself.  The next ones are asked for
only when half of the last were opened, so this stops with the client, and whatever is opened out of order ends it.

Nothing is unpacked ahead: on two cores a thread that did so took from the client and from the worker what it gave.

Threading: any thread may call; a lock guards the run.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archivefs.zips.directory import ZipDirectory

COUNT = 16
"""How many members are asked for at a time."""
LARGEST = 128 << 10
"""Of a member, no more than this: the kernel reads on by itself."""
HEADER_BYTES = 256
"""About what a local header takes."""
BEGINS_AFTER = 3
"""So many have to be opened in order first."""
STRAYS = 16
"""After so many that were in no order only one in so many is taken for the beginning of one."""


class Ahead:
    """What is read ahead of one zip."""

    def __init__(self, directory: ZipDirectory, following: Callable[[int], Iterator[int]]) -> None:
        """*following* gives the entries that are listed after one."""
        self._directory = directory
        self._following = following
        self._lock = threading.Lock()
        self._order: Iterator[int] = iter(())
        self._coming: deque[int] = deque()
        """What comes next; taken away when it is opened."""
        self._length = 0
        self._strays = 0

    def opened(self, i: int) -> None:
        """A member is opened: if it is the next one get on, or take it for the beginning of an order."""
        with self._lock:
            if self._coming and self._coming[0] == i:
                pieces = self._get_on()
            else:
                pieces = []
                self._begin(i)
        for offset, size in pieces:
            with suppress(OSError, OverflowError):  # a place no file has, or a file system that cannot do it
                os.posix_fadvise(self._directory.source.fd, offset, size, os.POSIX_FADV_WILLNEED)

    def _begin(self, i: int) -> None:
        self._coming.clear()
        self._length = 0
        self._strays += 1
        if self._strays <= STRAYS or self._strays % STRAYS == 0:
            self._order = self._following(i)
            self._coming.extend(self._more())

    def _get_on(self) -> list[tuple[int, int]]:
        """The pieces to ask for."""
        now = self._coming.popleft()
        self._strays = 0
        self._length += 1
        if self._length == BEGINS_AFTER:
            self._coming.extend(self._more())
            return self._pieces(now, list(self._coming))
        if len(self._coming) <= COUNT // 2:
            last, more = self._coming[-1] if self._coming else now, self._more()
            self._coming.extend(more)
            if self._length > BEGINS_AFTER:
                return self._pieces(last, more)
        return []

    def _more(self) -> list[int]:
        """The next ones; files that are empty are not opened.  A few at first: it may be no order at all."""
        count = COUNT if self._length else 2
        return [i for i in islice(self._order, count) if self._directory.size(i)]

    def _pieces(self, last: int, entries: list[int]) -> list[tuple[int, int]]:
        directory = self._directory
        if all(after - before == 1 for before, after in pairwise([last, *entries])):
            return []
        sizes = (min(directory.compressed_size(i), LARGEST) + HEADER_BYTES for i in entries)
        return [(directory.offset(i), size) for i, size in zip(entries, sizes, strict=True)]
