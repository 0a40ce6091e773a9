"""Handing whole files over to the kernel (Linux 6.9 and later, root only): reads then never reach us.

The kernel knows no offset, so only an extent that is a whole file will do.  All handles of one inode must be of
one kind, so what was decided at the first open holds until the last release.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
import threading

from archivefs.fuse.handles import OpenFile
from archivefs.fuse.kernel import protocol
from archivefs.tree import Extent

log = logging.getLogger("archivefs.fuse")


class Passthrough:
    """The files the kernel reads by itself.  Thread-safe."""

    def __init__(self, fd: int, *, enabled: bool) -> None:
        self._fd = fd
        self._enabled = enabled
        self._lock = threading.Lock()
        self.handed_over = 0
        """How many files have been."""

    def backing_of(self, file: OpenFile) -> int:
        """The kernel's number for what lies behind *file*; 0 when it has to ask us for its bytes."""
        if file.backing is not None:
            return file.backing
        extent = file.reader.extent() if self._enabled else None
        with self._lock:
            if file.backing is None:
                file.backing = self._hand_over(extent) if extent is not None and _is_whole_file(extent) else 0
            return file.backing

    def close(self, file: OpenFile) -> None:
        """The last handle of *file* is gone."""
        if file.backing:
            fcntl.ioctl(self._fd, protocol.IOC_BACKING_CLOSE, protocol.BACKING_ID.pack(file.backing))
            file.backing = 0

    def _hand_over(self, extent: Extent) -> int:
        # A mutable buffer, so that Python gives the return value, which is the number.
        request = bytearray(protocol.BACKING_MAP.pack(extent.fd, 0, 0))
        try:
            number: int = fcntl.ioctl(self._fd, protocol.IOC_BACKING_OPEN, request)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL):
                self._enabled = False
                log.info("passthrough: %s", error.strerror)
            return 0
        self.handed_over += 1
        return number


def _is_whole_file(extent: Extent) -> bool:
    if extent.start:
        return False
    state = os.fstat(extent.fd)
    return stat.S_ISREG(state.st_mode) and state.st_size == extent.length
