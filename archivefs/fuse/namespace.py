"""Going into another mount namespace, for ``mount -N``."""

from __future__ import annotations

import ctypes
import os

from archivefs.errors import BadOption

CLONE_NEWNS = 0x00020000


def enter(namespace: str) -> None:
    """Go on in *namespace*, the number of a process or the path of a namespace file; raises BadOption.

    From then on every path is one of that namespace.  Only a process without other threads can do that.
    """
    path = f"/proc/{namespace}/ns/mnt" if namespace.isdecimal() else namespace
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            library = ctypes.CDLL(None, use_errno=True)
            if library.setns(fd, CLONE_NEWNS):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
        finally:
            os.close(fd)
    except OSError as error:
        raise BadOption(f"-N {namespace}: that mount namespace cannot be entered: {error.strerror}") from None
