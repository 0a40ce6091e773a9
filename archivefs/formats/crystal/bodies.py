"""Where the body of a revision lies, in every layout Crystal has had and in the middle of a migration.

Used by the views and by ``verify.py``.  A body is found by its revision's id alone: a plain file, or an entry of a
pack.  Each folder on the way is opened from the one before without following links, and a body must be a regular
file: projects travel, and a symbolic link or a fifo in one must neither leak nor hang.

Any thread may call anything.  Folders last used stay open, a bounded number of them; one that is dropped is closed
when the last thread has done with it.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from archivefs.caches import ByteCache
from archivefs.errors import CorruptMember
from archivefs.formats.crystal.packs import Contents, PackEntry, entry_name, open_entry, pack_name, read_pack
from archivefs.readers import ExtentReader
from archivefs.tree import Attributes, Extent, Reader

REVISIONS = "revisions"
IN_PROGRESS = "revisions.inprogress"
MAX_HEX_ID = 2**60 - 1
MAX_OPEN_FOLDERS = 128
PACK_WEIGHT = 3000
FLAT, HIERARCHICAL, PACK16 = 1, 2, 3
_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY
_VERSION_MASK = 2**63 - 1

Folders = tuple[str, ...]


class Spot(NamedTuple):
    """A place where a file may be."""

    folders: Folders
    name: str


class Body(NamedTuple):
    """A body that was found."""

    key: int
    spot: Spot
    size: int
    mtime_ns: int
    """Of the file; that of a pack says nothing about its bodies."""
    version: int
    entry: PackEntry | None = None

    @property
    def where(self) -> str:
        """Where it lies in the project."""
        path = "/".join((*self.spot.folders, self.spot.name))
        return f"{path}#{entry_name(self.key)}" if self.entry else path


def spots(key: int, major: int) -> Iterator[Spot]:
    """The places of a plain file to look at, in this order."""
    if major == FLAT:
        yield Spot((REVISIONS,), str(key))
    if not 0 <= key <= MAX_HEX_ID:
        return
    *folders, name = hex_path(key)
    if major != FLAT:
        yield Spot((REVISIONS, *folders), name)
    if major != PACK16:
        yield Spot((IN_PROGRESS, *folders), name)


def pack_spots(key: int) -> Iterator[Spot]:
    """The places of a pack: the second counts only while the first is not there (a replacement cut short)."""
    if 0 <= key <= MAX_HEX_ID:
        folders = (REVISIONS, *hex_path(key)[:-1])
        yield Spot(folders, pack_name(key))
        yield Spot(folders, f"{pack_name(key)}.replacing")


def hex_path(key: int) -> Folders:
    """Fifteen hexadecimal digits in threes."""
    digits = f"{key:015x}"
    return (digits[0:3], digits[3:6], digits[6:9], digits[9:12], digits[12:15])


class BodyStore:
    """The bodies of a project."""

    def __init__(self, folder: str, cache: ByteCache, owner: object) -> None:
        self._path = folder
        self._cache = cache
        self._owner = owner
        self._lock = threading.Lock()
        self._generation = 0
        self._folders: OrderedDict[Folders, _Folder] = OrderedDict()

    def find(self, key: int, major: int, generation: int) -> Body | None:
        """The body of a revision, or None if it is lost; in a new generation folders are opened anew."""
        if generation != self._generation:
            self._generation = generation
            self.forget_folders()
        body = self._packed(key) if major == PACK16 else None
        if body is not None:
            return body
        for spot in spots(key, major):
            status = self._status(spot)
            if status is not None:
                return Body(key, spot, status.st_size, status.st_mtime_ns, _version(key, status))
        return None

    def open(self, body: Body, *, mtime_ns: int) -> Reader:
        """Open a body; raises CorruptMember when it is not there any more."""
        fd = self._open(body.spot)
        if fd is None:
            raise CorruptMember("its body is not there any more", archive=self._path, member=body.where)
        if body.entry:
            attributes = Attributes(body.entry.size, mtime_ns, body.version)
            return open_entry(fd, body.where, body.key, body.entry, attributes, self._cache)
        status = os.fstat(fd)
        extent = Extent(fd, 0, status.st_size)
        return ExtentReader(extent, mtime_ns=mtime_ns, version=_version(body.key, status), owned=True)

    def forget_folders(self) -> None:
        """Open the folders anew at the next look: they may have been renamed."""
        with self._lock:
            self._folders.clear()

    def moved(self) -> bool:
        """Has ``revisions`` become another folder since it was opened?"""
        with self._lock:
            known = self._folders.get((REVISIONS,))
        try:
            status = os.stat(os.path.join(self._path, REVISIONS), follow_symlinks=False)
        except OSError:
            return known is not None
        return known is not None and known.identity != (status.st_dev, status.st_ino)

    def close(self) -> None:
        """Close the folders."""
        self.forget_folders()

    # -- packs --

    def is_packed(self, key: int) -> bool:
        """Is there a body of that id in a pack?"""
        return self._packed(key) is not None

    def _packed(self, key: int) -> Body | None:
        for spot in pack_spots(key):
            status = self._status(spot)
            if status is not None:
                entry = self._contents(spot, status).get(entry_name(key))
                if entry is None:
                    return None
                return Body(key, spot, entry.size, status.st_mtime_ns, _version(key, status), entry)
        return None

    def _contents(self, spot: Spot, status: os.stat_result) -> Contents:
        cache_key = (self._owner, "pack", status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        found: Contents | None = self._cache.get(cache_key)
        if found is None:
            fd = self._open(spot)
            found = read_pack(fd, "/".join((*spot.folders, spot.name))) if fd is not None else {}
            self._cache.put(cache_key, found, PACK_WEIGHT)
        return found

    # -- folders --

    def _status(self, spot: Spot) -> os.stat_result | None:
        """What is known of the file, if it is a regular one."""
        folder = self._folder(spot.folders)
        if folder is None:
            return None
        try:
            status = os.stat(spot.name, dir_fd=folder.fd, follow_symlinks=False)
        except OSError:
            return None
        return status if stat.S_ISREG(status.st_mode) else None

    def _open(self, spot: Spot) -> int | None:
        """Open the file, if it is a regular one."""
        folder = self._folder(spot.folders)
        if folder is None:
            return None
        try:
            fd = os.open(spot.name, _FILE, dir_fd=folder.fd)
        except OSError:
            return None
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        return None

    def _folder(self, path: Folders) -> _Folder | None:
        with self._lock:
            found = self._folders.get(path)
            if found is not None:
                self._folders.move_to_end(path)
                return found
        found = self._open_folder(path)
        if found is not None:
            with self._lock:
                self._folders[path] = found
                if len(self._folders) > MAX_OPEN_FOLDERS:
                    self._folders.popitem(last=False)
        return found

    def _open_folder(self, path: Folders) -> _Folder | None:
        try:
            if not path:
                return _Folder(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY))
            parent = self._folder(path[:-1])
            return _Folder(os.open(path[-1], _FOLDER, dir_fd=parent.fd)) if parent else None
        except OSError:
            return None


class _Folder:
    """An open folder, closed when nobody refers to it any more."""

    __slots__ = ("fd", "identity")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        status = os.fstat(fd)
        self.identity = (status.st_dev, status.st_ino)

    def __del__(self) -> None:
        os.close(self.fd)


def _version(key: int, status: os.stat_result) -> int:
    """Another number for other bytes, also when an id is used again."""
    return hash((key, status.st_ino, status.st_mtime_ns, status.st_size)) & _VERSION_MASK
