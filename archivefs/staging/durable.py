"""The calls that make bytes and names durable.  All of staging goes through here, so a test can record their order."""

from __future__ import annotations

import errno
import os


def sync_file(fd: int) -> None:
    """The bytes of an open file, and its size, are on disk when this returns."""
    os.fsync(fd)


def sync_folder(path: str) -> None:
    """The names in a folder are on disk when this returns."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def rename(source: str, target: str) -> None:
    """Put *source* in the place of *target* in one step, and make that durable."""
    os.replace(source, target)
    sync_folder(os.path.dirname(target) or ".")


def copy_range(source: int, start: int, length: int, fd: int, offset: int) -> int:
    """Copy up to *length* bytes from one file to another without looking at them; gives how many were copied.

    0 means that it cannot be done so here, or that the source ends: read and write instead.
    """
    copy = getattr(os, "copy_file_range", None)
    if copy is None:
        return 0
    try:
        return int(copy(source, fd, length, start, offset))
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF):
            return 0
        raise


def write_all(fd: int, data: bytes | memoryview, offset: int | None = None) -> None:
    """Write all of *data*, at *offset* or at the end; a disk that takes only part of it raises OSError."""
    view = memoryview(data)
    while view:
        written = os.write(fd, view) if offset is None else os.pwrite(fd, view, offset)
        view = view[written:]
        if offset is not None:
            offset += written
