"""A file replaced whole or not at all: written beside the old one, made durable, renamed over it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

from archivefs.errors import told_as
from archivefs.staging import durable

SUFFIX = ".archivefs-new"


@contextlib.contextmanager
def replacing(
    path: str, *, mode: int = 0o644, keep_owner: bool = True, last: Callable[[str], None] | None = None
) -> Iterator[BinaryIO]:
    """A new file to write; when the block ends well it is at *path*, otherwise nothing has happened there.

    The old file's mode and owner are kept.  Leftovers of writers that died are removed.  *last* is called with the
    place of the new file when that is durable, before it is renamed: what it raises stops that.
    """
    folder, name = os.path.split(os.path.abspath(path))
    remove_leftovers(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}{SUFFIX}")
    with told_as(os.path.join(folder, name), temporary):
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "w+b") as file:
                yield file
                file.flush()
                _take_after(fd, path, mode, keep_owner=keep_owner)
                durable.sync_file(fd)
            if last is not None:
                last(temporary)
            durable.rename(temporary, os.path.join(folder, name))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def remove_leftovers(path: str) -> None:
    """Remove what writers of *path* that are no longer alive have left beside it."""
    folder, name = os.path.split(os.path.abspath(path))
    pattern = re.compile(rf"\.{re.escape(name)}\.(\d+){re.escape(SUFFIX)}")
    for found in os.listdir(folder):
        match = pattern.fullmatch(found)
        if match and not _alive(int(match[1])):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, found))


def _take_after(fd: int, path: str, mode: int, *, keep_owner: bool) -> None:
    try:
        old = os.stat(path)
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        os.fchmod(fd, mode & ~umask)
        return
    if keep_owner and (old.st_uid, old.st_gid) != (os.getuid(), os.getgid()):
        with contextlib.suppress(PermissionError):
            os.fchown(fd, old.st_uid, old.st_gid)
    os.fchmod(fd, old.st_mode & 0o7777)


def _alive(pid: int) -> bool:
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
