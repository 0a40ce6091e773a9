"""Whether an archive can be written where it lies: asked before a read-write mount promises it."""

from __future__ import annotations

import os

from archivefs.errors import NotPermitted


def require_writable(archive: str, *places: str) -> None:
    """Raise NotPermitted unless files and folders at *places* can be written, or made where they are missing."""
    for place in map(_nearest, places):
        if not os.access(place, os.W_OK | (os.X_OK if os.path.isdir(place) else 0)):
            called = "it" if place == os.path.abspath(archive) else place
            problem = f"cannot be written: {_reason(place, called)}"
            raise NotPermitted(problem, archive=archive, advice="leave out rw, or copy it to where it can be written")


def _nearest(place: str) -> str:
    place = os.path.abspath(place)
    while not os.path.exists(place):
        place = os.path.dirname(place)
    return place


def _reason(place: str, called: str) -> str:
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        return f"{called} lies on a read-only file system"
    return f"{called} is write-protected"
