"""New archives appear whole or not at all, and never in the place of another.

A new archive is written to a hidden file in the same folder, made durable, and then given its name by a hard link,
which fails if the name is taken.  Whoever writes such a file holds a lock on it, so one without an owner is what a
writer that died has left, and is removed.  Used by ``creating.py`` and ``writing.py``.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets

from archivefs.errors import NotFound, told_as
from archivefs.formats.crawls.storage import TEMPORARY
from archivefs.staging import durable

NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""What a file system says that has no hard links."""


def new_temporary(folder: str) -> tuple[int, str]:
    """A new hidden file, open and locked, with the mode any new file would have."""
    while True:
        path = os.path.join(folder, f".crawl-{secrets.token_hex(8)}{TEMPORARY}")
        with told_as(folder, path):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        fcntl.flock(fd, fcntl.LOCK_EX)
        # Somebody who cleans up may have taken it for a leftover before it was locked.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(fd), os.stat(path)):
                return fd, path
        os.close(fd)


def publish(fd: int, temporary: str, final: str) -> None:
    """Give the file its name, durably; raises FileExistsError.  The hidden name stays until ``discard``."""
    durable.sync_file(fd)
    try:
        os.link(temporary, final)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        _publish_without_links(temporary, final)
    durable.sync_folder(os.path.dirname(final))


def _publish_without_links(temporary: str, final: str) -> None:
    """The empty file that is made first keeps others away from the name."""
    os.close(os.open(final, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    try:
        os.replace(temporary, final)
    except BaseException:
        os.unlink(final)
        raise


def discard(temporary: str) -> None:
    """Take the hidden name away."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)


def remove(path: str) -> None:
    """Remove exactly that directory entry, durably; raises NotFound if somebody was quicker."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        raise NotFound(archive=path) from None
    durable.sync_folder(os.path.dirname(path))


def remove_leftovers(folder: str) -> list[str]:
    """Remove hidden files whose writers are gone; gives their names."""
    removed = []
    for name in _listed(folder):
        if not (name.startswith(".crawl-") and name.endswith(TEMPORARY)):
            continue
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
                removed.append(name)
            finally:
                os.close(fd)
    return removed


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
