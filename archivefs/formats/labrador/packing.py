"""Making archives: of a folder, of an archive that leaves content out and those that have it, and empty ones.

Used by ``archivefs pack``, ``complete`` and ``create``.  The same folder gives the same bytes: names are in order,
types come from our own table, and times, owners and permissions are not looked at.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import NamedTuple

from archivefs.caches import ByteCache
from archivefs.errors import AlreadyExists, ArchiveError, CorruptMember, NameTooLong, NotPermitted, SourceChanged
from archivefs.format import Opening, Progress
from archivefs.formats.labrador import mediatypes
from archivefs.formats.labrador.container import EXTMIME
from archivefs.formats.labrador.externals import open_external
from archivefs.formats.labrador.extmime import MAX_BYTES
from archivefs.formats.labrador.keys import EMPTY_DIGEST, INDEX, MAX_KEY_LENGTH, decoded_name
from archivefs.formats.labrador.newnames import INDEX_NAMES, document_name, encoded
from archivefs.formats.labrador.site import Site, SiteRecord, digest_of
from archivefs.formats.labrador.tree import LabradorTree
from archivefs.formats.labrador.writing import Content, pieces_of, pieces_of_fd
from archivefs.staging.replace import replacing

INDEX_ATTRIBUTE = "user.archivefs.index"
_OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Refused(NamedTuple):
    """Something in a folder that an archive cannot hold."""

    path: str
    error: ArchiveError


class Found(NamedTuple):
    """A file to be packed."""

    key: str
    path: str
    size: int


def create(path: str) -> None:
    """Make an empty archive; raises AlreadyExists."""
    if os.path.lexists(path):
        raise AlreadyExists("there is something of that name already", archive=path)
    write(Site([], b""), path, lambda _done, _total: None)


def write(site: Site, path: str, progress: Progress) -> None:
    """Write *site* to *path*, whole or not at all."""
    with replacing(path) as file:
        site.write(file.fileno(), progress)


# -- a folder --


class Folder:
    """The files below a folder, and what cannot be packed of it.  Links are not followed."""

    def __init__(self, path: str, extensions: Sequence[str] = INDEX_NAMES) -> None:
        self.path = path
        self._extensions = tuple(extensions)
        self.files: list[Found] = []
        self.refused: list[Refused] = []
        stack = [(path, "")]
        while stack:
            stack += self._look_into(*stack.pop())

    def site(self, *, extmime: bytes, bases: Collection[str], progress: Progress) -> Site:
        """The site it makes, without the content that one of *bases* has."""
        records = list(self._records(progress))
        if bases:
            left_out = _had_by(bases, {record.digest for record in records})
            records = [r._replace(source=None) if r.digest in left_out else r for r in records]
        names = (record.key.rpartition("/")[2].lower() for record in records)
        return Site(records, mediatypes.completed(extmime, names))

    def _records(self, progress: Progress) -> Iterator[SiteRecord]:
        total, done = sum(found.size for found in self.files), 0
        for found in self.files:
            progress(done, total)
            content = Content(found.size, partial(_pieces_of_file, found))
            yield SiteRecord(found.key, digest_of(content.pieces()), content)
            done += found.size

    def _look_into(self, folder: str, prefix: str) -> list[tuple[str, str]]:
        """Note the files of one folder; gives the folders in it, with their keys."""
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        document = self._document([entry for entry in entries if entry.is_file(follow_symlinks=False)])
        below: list[tuple[str, str]] = []
        meanings: dict[str, str] = {}
        for entry in entries:
            try:
                key = self._key(entry, prefix, document, meanings)
                if entry.is_dir(follow_symlinks=False):
                    below.append((entry.path, key + "/"))
                else:
                    self.files.append(Found(key, entry.path, _size_of(entry)))
            except ArchiveError as error:
                self.refused.append(Refused(entry.path, error))
        return below

    def _key(self, entry: os.DirEntry[str], prefix: str, document: str | None, meanings: dict[str, str]) -> str:
        if entry.name == document:
            key = prefix + entry.name
        else:
            component = encoded(entry.name)
            other = meanings.setdefault(decoded_name(component.lower()), entry.name)
            if other != entry.name:
                raise AlreadyExists(f"the format cannot tell the name from that of {other!r}")
            key = prefix + component
        if len(key) > MAX_KEY_LENGTH:
            raise NameTooLong("the path is too long for the format")
        return key

    def _document(self, files: list[os.DirEntry[str]]) -> str | None:
        """The name of the file that is the folder's document: one that is marked so, or the first of our list."""
        marks = {entry.name: _mark(entry.path) for entry in files if entry.name.startswith(INDEX)}
        for name, mark in marks.items():
            if mark == b"1" and document_name(name, (name.removeprefix(INDEX),)):
                return name
        wanted = (INDEX + extension for extension in self._extensions)
        return next((name for name in wanted if name in marks and marks[name] != b"0"), None)


def _mark(path: str) -> bytes | None:
    """What unpacking has written down: is it the document of its directory?"""
    with suppress(OSError):
        return os.getxattr(path, INDEX_ATTRIBUTE, follow_symlinks=False)
    return None


def _size_of(entry: os.DirEntry[str]) -> int:
    status = entry.stat(follow_symlinks=False)
    if not stat.S_ISREG(status.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "neither a file nor a folder"
        raise NotPermitted(f"{kind}, which the format cannot hold")
    return status.st_size


def _pieces_of_file(found: Found) -> Iterator[bytes]:
    try:
        fd = os.open(found.path, _OPEN_FLAGS)
    except OSError as error:
        raise SourceChanged(f"it cannot be opened: {error.strerror}", archive=found.path) from error
    try:
        yield from pieces_of_fd(fd)
    finally:
        os.close(fd)


def _had_by(bases: Collection[str], digests: set[str]) -> set[str]:
    """Those of *digests* whose content one of *bases* has."""
    missing = digests - {EMPTY_DIGEST}
    cache = ByteCache()
    for base in bases:
        with closing(open_external(base, cache, missing.copy)) as external:
            missing = {digest for digest in missing if external.find(digest) is None}
    return digests - {EMPTY_DIGEST} - missing


# -- an archive that leaves content out --


def complete(path: str, out: str, externals: Sequence[str], progress: Progress) -> None:
    """Write to *out* the archive at *path* with all that it leaves out.  Raises CorruptMember if nobody has something.

    Everything is compressed anew, so the bytes are those that packing the whole site would have given.
    """
    tree = LabradorTree(path, Opening(externals=externals))
    try:
        member = tree.container.find_special(EXTMIME)
        extmime = tree.container.read_text(member, MAX_BYTES) if member is not None else b""
        write(Site(_all_records(tree), mediatypes.tidied(extmime)), out, progress)
    finally:
        tree.close()


def _all_records(tree: LabradorTree) -> Iterator[SiteRecord]:
    missing: list[str] = []
    for record in range(len(tree.manifest)):
        key, digest = tree.manifest.key(record), tree.manifest.digest(record)
        if digest is None:
            raise CorruptMember("its digest is none", archive=tree.directory.path, member=key)
        place = tree.contents.place_of(record)
        if digest == EMPTY_DIGEST:
            yield SiteRecord(key, digest)
        elif place.member is None and not tree.has_supply(record):
            missing.append(key)
        else:
            size = tree.attributes_of(record, place).size
            yield SiteRecord(key, digest, Content(size, partial(pieces_of, partial(tree.open_record, record))))
    if missing:
        problem = f"the content of {len(missing)} files is missing" if len(missing) > 1 else "its content is missing"
        advice = "name the archives or folders that have it with --external"
        raise CorruptMember(problem, archive=tree.directory.path, member=missing[0], advice=advice)
