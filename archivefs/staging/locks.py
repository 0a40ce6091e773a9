"""One writer an archive.  The lock is the kernel's (flock), so it dies with its process, however that ends.

It is taken on the archive itself, so that two writers with different staging folders still meet.  Who holds it is
read from the kernel's table of locks.
"""

from __future__ import annotations

import errno
import fcntl
import os

from archivefs.errors import SourceBusy


class WriterLock:
    """Held from construction to ``close``.  ``move_to`` takes it along when the archive is replaced."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = _locked(path)

    def move_to(self, path: str) -> None:
        """Lock the file that is about to take the archive's place, before it does; the old lock is let go."""
        fd = _locked(path)
        os.close(self._fd)
        self._fd = fd

    def is_overtaken(self, path: str) -> bool:
        """Is there a file at *path* that is not the locked one?"""
        try:
            return not os.path.samestat(os.fstat(self._fd), os.stat(path))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Let go."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def holder(path: str) -> int | None:
    """The process that holds the lock on *path*, or None when nobody does or it cannot be known."""
    try:
        state = os.stat(path)
        with open("/proc/locks") as table:
            rows = [line.split() for line in table]
    except OSError:
        return None
    place = f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x}:{state.st_ino}"
    # "1: FLOCK ADVISORY WRITE 1234 fe:01:131 0 EOF"; one that waits has an arrow after the number.
    for row in rows:
        if len(row) >= 6 and row[1] == "FLOCK" and row[5] == place:
            return int(row[4])
    return None


def _locked(path: str) -> int:
    # A replaced archive has another inode: lock, then look whether the name still means the file locked.
    while True:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise _busy(path) from None
            raise
        try:
            if os.path.samestat(os.fstat(fd), os.stat(path)):
                return fd
        except OSError:
            os.close(fd)
            raise
        os.close(fd)


def _busy(path: str) -> SourceBusy:
    pid = holder(path)
    who = f"process {pid}" if pid else "another process"
    return SourceBusy(f"it is mounted read-write already, by {who}", archive=path, advice="unmount that one first")
