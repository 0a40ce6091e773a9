"""Where things go."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


class Refused(Exception):
    """The message is one line for the user."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """The folders that were asked for, as they will be called on the machine that the program runs on."""

    prefix: Path
    sbin: Path
    destdir: Path | None = None
    """Where that machine's root folder is meanwhile; None: it is this machine."""

    @property
    def program(self) -> Path:
        """Our own folder."""
        return self.prefix / "lib" / "archivefs"

    @property
    def manifest(self) -> Path:
        """The list of what was put in place."""
        return self.program / "manifest"

    def now(self, path: Path) -> Path:
        """Where *path* is now."""
        return below(self.destdir, path) if self.destdir else path


def below(root: Path, path: Path) -> Path:
    """*path*, which is absolute, where *root* is the root folder."""
    return root / path.relative_to("/")


def check(places: Places) -> None:
    """Raises Refused where this cannot work."""
    for path in (places.prefix, places.sbin):
        if not path.is_absolute() or len(str(path).split()) != 1:
            raise Refused(f"{path}: an absolute path without spaces is needed")
    if places.destdir is None:
        closed = [str(path) for path in (places.prefix, places.sbin) if not _is_ours_to_change(path)]
        if closed:
            raise Refused(
                f"you may not write in {' and '.join(closed)}: use sudo, or another PREFIX and SBINDIR, or DESTDIR"
            )


def _is_ours_to_change(path: Path) -> bool:
    there = next(each for each in (path, *path.parents) if each.exists())
    return os.access(there, os.W_OK)
