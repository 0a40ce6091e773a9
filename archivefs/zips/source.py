"""The file a zip is read from: one kept descriptor, positional reads, and a watch for changes.

Used by everything in ``zips/``.  Never mapped into memory: a file cut under a mapping would kill the process.
Any thread may read; the descriptor is closed when the archive and all its readers have let go of it.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
import time

from archivefs.errors import CorruptMember, SourceChanged, UnreadableArchive, quoted

LOG = logging.getLogger("archivefs.zips")

WATCH_INTERVAL_S = 1.0
"""How often the size and time of the open file are looked at, at most."""


class SourceFile:
    """An open regular file that must not change."""

    def __init__(self, path: str, *, fd: int | None = None) -> None:
        """Raises UnreadableArchive.  *fd*, if given, is that file opened already; it is the new object's to close."""
        self.path = path
        self.fd = _open_file(path) if fd is None else fd
        status = os.fstat(self.fd)
        self.size = status.st_size
        self.mtime_ns = status.st_mtime_ns
        self._lock = threading.Lock()
        self._holders = 1
        self._watch_at = time.monotonic() + WATCH_INTERVAL_S
        self._reported = False

    def pread(self, size: int, offset: int) -> bytes:
        """Exactly *size* bytes; raises SourceChanged or CorruptMember when they are not there any more."""
        self.watch()
        pieces = []
        missing = size
        while missing:
            try:
                data = os.pread(self.fd, missing, offset + size - missing)
            except OSError as error:
                problem = f"cannot be read at byte {offset}: {error.strerror}"
                raise CorruptMember(problem, archive=self.path) from error
            if len(data) == size:
                return data
            if not data:
                self.watch(now=True)
                raise CorruptMember(f"the file ends {missing} bytes too early", archive=self.path)
            pieces.append(data)
            missing -= len(data)
        return b"".join(pieces)

    def watch(self, *, now: bool = False) -> None:
        """Raise SourceChanged if the file is not as it was opened; looks at most once a second unless *now*."""
        clock = time.monotonic()
        if clock < self._watch_at and not now:
            return
        try:
            status = os.fstat(self.fd)
        except OSError as error:
            raise CorruptMember(f"cannot be read: {error.strerror}", archive=self.path) from error
        if status.st_size == self.size and status.st_mtime_ns == self.mtime_ns:
            self._watch_at = clock + WATCH_INTERVAL_S
            return
        self._watch_at = 0.0
        if not self._reported:
            self._reported = True
            LOG.error("%s: changed while it was open; its files give an error from now on", quoted(self.path))
        raise SourceChanged(archive=self.path, advice="mount it again")

    def hold(self) -> None:
        """Keep the descriptor open until ``release``."""
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        """The counterpart of ``hold``, and of opening."""
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
            # not a number that may soon be another file's, should anyone read after closing
            fd, self.fd = self.fd, -1
        os.close(fd)


def _open_file(path: str) -> int:
    try:
        # O_NONBLOCK: a fifo of that name must not block the command; it means nothing to a regular file
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise UnreadableArchive(f"cannot be opened: {error.strerror}", archive=path) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UnreadableArchive("not a regular file", archive=path)
    return fd
