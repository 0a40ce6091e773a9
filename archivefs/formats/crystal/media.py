"""What a project lies on: a local disk or a network, and whether anybody at all can change it.

Used by ``tree.py`` and ``writing.py``.  Any thread may call.
"""

from __future__ import annotations

import os
from typing import NamedTuple

_MOUNTS = "/proc/self/mountinfo"
_NETWORK = frozenset(
    ("9p", "afs", "ceph", "cifs", "coda", "davfs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs")
)
_STACKED = frozenset(("overlay", "virtiofs", "vboxsf", "unionfs", "aufs", "ecryptfs"))
"""Read-only or not, what is below may be written by others."""


class Medium(NamedTuple):
    """A file system."""

    kind: str
    """As the kernel calls it."""
    read_only: bool
    """As a whole; not only where it is mounted, as ``mount -o bind,ro`` does."""


def medium_of(path: str) -> Medium | None:
    """The file system that *path* lies on; None if that cannot be known."""
    try:
        device = os.stat(path).st_dev
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as lines:
            rows = [line.rstrip("\n").split(" ") for line in lines]
    except OSError:
        return None
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for row in rows:
        if row[2] == wanted and "-" in row:
            kind, *_, options = row[row.index("-") + 1 :]
            return Medium(kind, "ro" in options.split(","))
    return None


def is_network(medium: Medium) -> bool:
    """May the locks of SQLite not hold there?"""
    return medium.kind in _NETWORK or medium.kind.startswith("fuse")


def cannot_change(path: str) -> bool:
    """Can nobody write where *path* lies?  When that is not certain, somebody can."""
    medium = medium_of(path)
    if medium is None or is_network(medium) or medium.kind in _STACKED:
        return False
    return medium.read_only
