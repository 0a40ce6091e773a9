"""The zip around a site: its three special files, and members found by name ignoring case.

Any thread may ask a Container; its table of names is made when first needed, under the lock.  No member is ever
walked to: a name is looked up or not at all, so what hostile members are called does not matter.
"""

from __future__ import annotations

import os
import threading

from archivefs.caches import ByteCache
from archivefs.errors import ArchiveError, CorruptArchive, LimitExceeded, UnsupportedMember
from archivefs.formats.labrador import extmime
from archivefs.formats.labrador.flattable import MAX_NUMBERS, FlatTable
from archivefs.tree import Reader
from archivefs.zips.directory import ZipDirectory
from archivefs.zips.members import open_member, stream_member

MIMETYPE, EXTMIME, MANIFEST = b"mimetype", b"extmime", b"manifest"
SPECIAL_FILES = (MIMETYPE, EXTMIME, MANIFEST)
MAGIC = b"application/x-labrador"
SITE = b"www/"
METHODS = (0, 8)
"""Stored and deflated: the format allows no others."""

MAX_MANIFEST_BYTES = 1 << 30
SUSPICIOUS_BYTES, SUSPICIOUS_RATIO = 64 << 20, 250
"""Half of a manifest are digests, which do not compress: a large one that shrank so much is a bomb."""


class Container:
    """An opened zip as Labrador sees it."""

    def __init__(self, directory: ZipDirectory) -> None:
        if len(directory) > MAX_NUMBERS:
            raise LimitExceeded(f"it has {len(directory)} members", archive=directory.path)
        self.directory = directory
        self.mtime_ns = os.fstat(directory.fd).st_mtime_ns
        """The archive's own: the format has no times, and those of the zip say nothing of suppressed files."""
        self._lock = threading.Lock()
        self._by_name: FlatTable | None = None

    def find(self, name: bytes) -> int | None:
        """The first member whose name is the lower-cased *name*, ignoring case."""
        for i in (self._by_name or self._table()).candidates(name):
            if self.directory.name(i).lower() == name:
                return i
        return None

    def find_special(self, name: bytes) -> int | None:
        """The same for one of the special files.  These come first, so the table is not needed to open a site."""
        for i in range(len(self.directory)):
            if self.directory.name(i).lower() == name:
                return i
        return None

    def find_file(self, key: bytes) -> int | None:
        """The first member that holds the data of the lower-cased *key*."""
        return None if key.endswith(b"/") else self.find(SITE + key)

    def _table(self) -> FlatTable:
        with self._lock:
            if self._by_name is None:
                name = self.directory.name
                self._by_name = FlatTable(name(i).lower() for i in range(len(self.directory)))
            return self._by_name

    def open(self, i: int, cache: ByteCache) -> Reader:
        """Open a member; raises CorruptMember, EncryptedMember, UnsupportedMember, SourceChanged."""
        self.check_method(i)
        return open_member(self.directory, i, cache)

    def check_method(self, i: int) -> None:
        """Raise UnsupportedMember if the format does not allow the member's compression."""
        method = self.directory.method(i)
        if method not in METHODS and not self.directory.encrypted(i):
            problem = f"compressed by method {method}, which a Labrador archive may not use"
            raise UnsupportedMember(problem, archive=self.directory.path, member=self.directory.name(i))

    def manifest(self) -> bytes:
        """The manifest; raises CorruptArchive if there is none that can be read."""
        i = self.find_special(MANIFEST)
        if i is None:
            raise CorruptArchive("it has no manifest, so it is no Labrador archive", archive=self.directory.path)
        try:
            return self.read_text(i, MAX_MANIFEST_BYTES)
        except LimitExceeded:
            raise
        except ArchiveError as error:
            raise CorruptArchive(
                f"its manifest cannot be read: {error.problem}", archive=self.directory.path
            ) from error

    def types(self) -> extmime.Types:
        """The type declarations; none where they cannot be read."""
        i = self.find_special(EXTMIME)
        if i is None:
            return extmime.Types()
        try:
            return extmime.Types(self.read_text(i, extmime.MAX_BYTES))
        except ArchiveError:
            return extmime.Types()

    def read_text(self, i: int, limit: int) -> bytes:
        """The whole of a special file; raises LimitExceeded beside what reading may raise."""
        directory = self.directory
        self.check_method(i)
        directory.check(i)  # a size that is a lie is damage, not too much
        size = directory.size(i)
        if size > limit or (size > SUSPICIOUS_BYTES and size > directory.compressed_size(i) * SUSPICIOUS_RATIO):
            problem = f"{size} bytes of text are more than is sensible"
            raise LimitExceeded(problem, archive=directory.path, member=directory.name(i))
        directory.unchanged()
        return b"".join(stream_member(directory, i))
