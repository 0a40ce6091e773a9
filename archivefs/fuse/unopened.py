"""Readers and listings for a kernel that opens files and directories without saying so.

Reads then come with an inode instead of a handle.  What was used last is kept for a while, because the next
request most likely goes on where this one ended.

Threading: one lock each, never held while a tree is asked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from archivefs.fuse.handles import DirectoryHandle, OpenFile
from archivefs.tree import Directory, File

READERS_KEPT = 32
LISTINGS_KEPT = 16
IDLE_S = 10.0
"""After that long without a request a reader is closed."""


class Readers:
    """Open readers by inode.  ``borrow`` before a read, ``give_back`` after it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[int, OpenFile] = {}
        """In the order of use, the one used last at the end."""

    def borrow(self, inode: int, find: Callable[[int], File]) -> OpenFile:
        """The reader of *inode*, opened if need be; it stays open until it is given back."""
        with self._lock:
            file = self._files.pop(inode, None)
            if file is not None:
                self._files[inode] = file
                file.count += 1
                return file
        opened = find(inode)
        reader = opened.open()
        with self._lock:
            file = self._files.get(inode)
            if file is None:
                file = self._files[inode] = OpenFile(inode, opened, reader)
                return file
            file.count += 1
        reader.close()
        return file

    def give_back(self, file: OpenFile, *, done: bool) -> None:
        """The read is over.  *done*: the whole file was read by it, so that nobody will ask again soon."""
        closing: list[OpenFile] = []
        with self._lock:
            file.count -= 1
            if not file.count:
                if done:
                    closing.append(self._files.pop(file.inode, file))
                else:
                    file.used = time.monotonic()
                    closing += self._surplus()
        _close(closing)

    def close_idle(self) -> bool:
        """Close what nobody has used for a while; say whether any reader is still open."""
        limit = time.monotonic() - IDLE_S
        with self._lock:
            idle = [file for file in self._files.values() if not file.count and file.used < limit]
            for file in idle:
                del self._files[file.inode]
            left = bool(self._files)
        _close(idle)
        return left

    def close_all(self) -> None:
        """Close every reader that does not hang: the mount is gone."""
        with self._lock:
            files = [file for file in self._files.values() if not file.stuck]
            self._files.clear()
        _close(files)

    def __len__(self) -> int:
        return len(self._files)

    def _surplus(self) -> list[OpenFile]:
        if len(self._files) <= READERS_KEPT:
            return []
        idle = [file for file in self._files.values() if not file.count][: len(self._files) - READERS_KEPT]
        for file in idle:
            del self._files[file.inode]
        return idle


def _close(files: list[OpenFile]) -> None:
    for file in files:
        file.reader.close()


class Listings:
    """Listings under way, by inode and the offset at which each goes on.

    Two clients in one directory are at different offsets and so do not disturb each other.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handles: dict[tuple[int, int], DirectoryHandle] = {}

    def take(self, inode: int, offset: int, find: Callable[[int], Directory]) -> DirectoryHandle:
        """The listing of *inode* that goes on at *offset*, or a new one.  Nobody else has it meanwhile."""
        if offset:
            with self._lock:
                handle = self._handles.pop((inode, offset), None)
            if handle is not None:
                return handle
        return DirectoryHandle(find(inode))

    def keep(self, inode: int, offset: int, handle: DirectoryHandle) -> None:
        """The listing was read up to *offset*."""
        with self._lock:
            self._handles[inode, offset] = handle
            if len(self._handles) > LISTINGS_KEPT:
                del self._handles[next(iter(self._handles))]

    def __len__(self) -> int:
        return len(self._handles)
