"""Which project a path means: its folder, its database, or the opener file inside it.  (Layout: README, "Crystal".)

Used by ``__init__.py`` and ``project.py``.  Everything that must be regular files is checked here, before SQLite
is let near it: a project travels, and a symbolic link or a fifo in it must neither leak nor hang.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from archivefs.errors import UnreadableArchive

DATABASE = "database.sqlite"
PROJECT_SUFFIX = ".crystalproj"
PARTIAL_SUFFIX = ".crystalproj-partial"
OPENER_SUFFIX = ".crystalopen"
COMPANIONS = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database, by the end of the name."""


class Place(NamedTuple):
    """Where a project is."""

    folder: str
    database: str

    @property
    def name(self) -> str:
        """The name of the folder."""
        return os.path.basename(self.folder)


def find_project(path: str) -> Place:
    """The project that *path* means; raises UnreadableArchive."""
    folder = _folder_of(os.path.realpath(path), asked=path)
    if folder.endswith(PARTIAL_SUFFIX):
        raise UnreadableArchive(
            "an unfinished copy, made by a Save As that did not end",
            archive=path,
            advice="open the project it was copied from, or let Crystal make the copy again",
        )
    place = Place(folder, os.path.join(folder, DATABASE))
    _require_regular(place.database, asked=path)
    for suffix in COMPANIONS:
        if os.path.lexists(place.database + suffix):
            _require_regular(place.database + suffix, asked=path)
    return place


def _folder_of(path: str, *, asked: str) -> str:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise UnreadableArchive(f"cannot be opened: {error.strerror}", archive=asked) from error
    if stat.S_ISDIR(mode):
        return path
    name = os.path.basename(path)
    if name == DATABASE or name.endswith(OPENER_SUFFIX):
        return os.path.dirname(path)
    raise UnreadableArchive("neither a Crystal project nor a file of one", archive=asked)


def _require_regular(path: str, *, asked: str) -> None:
    name = os.path.basename(path)
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        raise UnreadableArchive(
            f"there is no {name} in it", archive=asked, advice="a Crystal project is a folder with that file"
        ) from None
    except OSError as error:
        raise UnreadableArchive(f"{name} cannot be looked at: {error.strerror}", archive=asked) from error
    if not stat.S_ISREG(mode):
        raise UnreadableArchive(f"{name} is not a regular file", archive=asked)
