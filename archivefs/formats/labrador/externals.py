"""Where content comes from that an archive leaves out: other Labrador archives and folders, by digest.

Given with ``--external``.  Any thread may ask.  A folder is read when the archive is opened, and only if something
is missing: digests of its files are made until all that is wanted was found.  Later it would be too late, since
sizes must be known and an operation on a mount may not take minutes.
"""

from __future__ import annotations

import hashlib
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import NamedTuple

from archivefs.caches import ByteCache
from archivefs.errors import SourceChanged, UnreadableArchive
from archivefs.formats.labrador.container import Container
from archivefs.formats.labrador.contents import Contents
from archivefs.formats.labrador.manifest import Manifest
from archivefs.readers import ExtentReader
from archivefs.tree import Extent, Reader
from archivefs.zips.directory import ZipDirectory

_CHUNK = 1 << 18
_OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Supply(NamedTuple):
    """Content that somebody else has."""

    size: int
    version: int
    open: Callable[[], Reader]


class External(ABC):
    """Somebody else."""

    @abstractmethod
    def find(self, digest: str) -> Supply | None:
        """The content with this *digest*."""

    @abstractmethod
    def close(self) -> None:
        """Close what is open."""


def open_external(path: str, cache: ByteCache, wanted: Callable[[], set[str]]) -> External:
    """Open an archive or folder; *wanted* gives the digests that are still missing.  Raises UnreadableArchive."""
    if os.path.isdir(path):
        return ExternalFolder(path, wanted())
    return ExternalArchive(path, cache)


class ExternalArchive(External):
    """Another Labrador archive; one that leaves content out itself is not asked any further."""

    def __init__(self, path: str, cache: ByteCache) -> None:
        self._cache = cache
        self._directory = ZipDirectory.open(path)
        try:
            container = Container(self._directory)
            self._contents = Contents(container, Manifest(container.manifest(), archive=path))
        except BaseException:
            self._directory.close()
            raise

    def find(self, digest: str) -> Supply | None:
        member = self._contents.find(digest)
        if member is None:
            return None
        return Supply(self._directory.size(member), self._directory.crc(member), lambda: self._open(member))

    def _open(self, member: int) -> Reader:
        return self._contents.container.open(member, self._cache)

    def close(self) -> None:
        self._directory.close()
        self._cache.forget(self._directory.cache_owner)


class _Found(NamedTuple):
    path: str
    size: int
    mtime_ns: int


class ExternalFolder(External):
    """The regular files below a folder; links are not followed."""

    def __init__(self, path: str, wanted: set[str]) -> None:
        self._files: dict[str, _Found] = {}
        if not os.access(path, os.R_OK | os.X_OK):
            raise UnreadableArchive("the folder cannot be read", archive=path)
        missing = set(wanted)
        for found in _regular_files(path) if missing else ():
            digest = _digest_of(found)
            if digest in missing:
                self._files[digest] = found
                missing.discard(digest)
                if not missing:
                    break

    def find(self, digest: str) -> Supply | None:
        found = self._files.get(digest)
        return Supply(found.size, found.mtime_ns, lambda: _open(found)) if found else None

    def close(self) -> None:
        """Nothing is held."""


def _regular_files(folder: str) -> Iterator[_Found]:
    for directory, subdirectories, names in os.walk(folder):
        subdirectories.sort()
        for name in sorted(names):
            path = os.path.join(directory, name)
            try:
                status = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and status.st_size:
                yield _Found(path, status.st_size, status.st_mtime_ns)


def _digest_of(found: _Found) -> str | None:
    """The digest of a file; None if it cannot be read."""
    digest = hashlib.sha256()
    try:
        with open(os.open(found.path, _OPEN_FLAGS), "rb", buffering=0) as file:
            while piece := file.read(_CHUNK):
                digest.update(piece)
    except OSError:
        return None
    return digest.hexdigest()


def _open(found: _Found) -> Reader:
    try:
        fd = os.open(found.path, _OPEN_FLAGS)
    except OSError as error:
        raise SourceChanged(f"it cannot be opened any more: {error.strerror}", archive=found.path) from error
    status = os.fstat(fd)
    if (status.st_size, status.st_mtime_ns) != (found.size, found.mtime_ns):
        os.close(fd)
        raise SourceChanged("it was changed since its digest was made", archive=found.path)
    return ExtentReader(Extent(fd, 0, found.size), mtime_ns=found.mtime_ns, owned=True)
