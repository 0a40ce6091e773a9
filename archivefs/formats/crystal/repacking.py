"""A pack written anew without some of its bodies.

Used by ``revisions.py``.  The new pack is made in the project's ``tmp/``, put on disk and renamed over the old one, so
that every other body in it is there at every moment.
"""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Collection

from archivefs.errors import UnsupportedMember
from archivefs.formats.crystal.packs import entry_name
from archivefs.staging import durable

_CHUNK = 1 << 20
_LARGE = 1 << 31


def without_entries(path: str, keys: Collection[int], temporary: str) -> None:
    """Take the bodies of *keys* out of the pack at *path*; an empty pack is removed."""
    names = {entry_name(key) for key in keys}
    with zipfile.ZipFile(path) as old:
        kept = [member for member in old.infolist() if member.filename not in names]
        if any(member.compress_type != zipfile.ZIP_STORED for member in kept):
            raise UnsupportedMember("a pack that is compressed is left as it is", archive=path)
        if kept:
            _write(old, kept, temporary)
    if kept:
        durable.rename(temporary, path)
    else:
        os.unlink(path)
        durable.sync_folder(os.path.dirname(path))


def _write(old: zipfile.ZipFile, kept: list[zipfile.ZipInfo], temporary: str) -> None:
    try:
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with open(fd, "w+b") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as new:
                for member in kept:
                    copy = zipfile.ZipInfo(member.filename)
                    large = member.file_size >= _LARGE
                    with old.open(member) as source, new.open(copy, "w", force_zip64=large) as target:
                        while piece := source.read(_CHUNK):
                            target.write(piece)
            file.flush()
            durable.sync_file(file.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
