"""A whole site as an archive: which records are stored, under which name, and in which order.

Used by commits, ``pack``, ``complete`` and ``create``, so that all of them write the same bytes for the same site.
Suppression is computed anew each time: of the records that share a digest only the primary is stored, wherever its
content comes from, and empty ones never are.  See the Labrador format, "Empty file suppression" and what follows it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from archivefs.errors import CorruptArchive, SourceChanged
from archivefs.format import Progress
from archivefs.formats.labrador.container import EXTMIME, MAGIC, MANIFEST, MIMETYPE, SITE
from archivefs.formats.labrador.keys import EMPTY_DIGEST, rank
from archivefs.formats.labrador.writing import Content, ZipWriter, content_of
from archivefs.zips.directory import ZipDirectory
from archivefs.zips.members import stream_member

Source = int | Content | None
"""Where content is: in a member of the old archive, elsewhere, or nowhere here (external, or empty)."""


class SiteRecord(NamedTuple):
    """One file of the site."""

    key: str
    digest: str
    """In lower case; or whatever the old manifest has that is none."""
    source: Source = None


class Stored(NamedTuple):
    """What becomes a member."""

    key: str
    digest: str
    source: int | Content


class Site:
    """Everything that goes into an archive."""

    def __init__(self, records: Iterable[SiteRecord], extmime: bytes, old: ZipDirectory | None = None) -> None:
        self.records = sorted(records, key=lambda record: record.key)
        self.extmime = extmime
        self._old = old
        """The zip that the numbers of members in ``source`` are about."""
        self.stored = sorted(_stored(self.records), key=lambda stored: stored.key)

    def manifest(self) -> bytes:
        """The text of the manifest."""
        return "".join([f"{key} {digest}\n" for key, digest, _ in self.records]).encode("ascii")

    @property
    def size(self) -> int:
        """How many bytes have to be read to write it."""
        return sum(map(self._size, self.stored))

    def write(self, fd: int, progress: Progress) -> None:
        """Write the archive into the empty file *fd*; *progress* is told bytes.

        Raises SourceChanged if content has another digest than its record, and what reading it raises.
        """
        writer = ZipWriter(fd)
        writer.add(MIMETYPE, content_of(MAGIC), compress=False)
        writer.add(EXTMIME, content_of(self.extmime))
        writer.add(MANIFEST, content_of(self.manifest()))
        if not self.stored:
            writer.add(SITE, content_of(b""), compress=False)
        total, done = self.size, 0
        for stored in self.stored:
            progress(done, total)
            self._write_member(writer, stored)
            done += self._size(stored)
        writer.finish()
        progress(total, total)

    def _write_member(self, writer: ZipWriter, stored: Stored) -> None:
        key, digest, source = stored
        name = SITE + key.encode("ascii")
        if isinstance(source, Content):
            if writer.add(name, source) != digest:
                raise SourceChanged("its content was changed while it was read", member=key)
        else:
            assert self._old is not None
            writer.copy(name, self._old, self._old.locate(source))

    def _size(self, stored: Stored) -> int:
        source = stored.source
        if isinstance(source, Content):
            return source.size
        assert self._old is not None
        return self._old.compressed_size(source)

    def check(self, written: ZipDirectory, progress: Progress) -> None:
        """Read back what was written: its directory, and the digest of every new member.  Raises CorruptArchive."""
        names = [written.name(i) for i in range(len(written))]
        expected = [MIMETYPE, EXTMIME, MANIFEST, *([] if self.stored else [SITE])]
        if names != expected + [SITE + stored.key.encode("ascii") for stored in self.stored]:
            raise CorruptArchive("the new archive has not the members it should have", archive=written.path)
        done, total = 0, self.size
        for i, stored in enumerate(self.stored, len(expected)):
            progress(done, total)
            self._check_member(written, i, stored)
            done += self._size(stored)

    def _check_member(self, written: ZipDirectory, i: int, stored: Stored) -> None:
        if isinstance(stored.source, Content):
            right = digest_of(stream_member(written, i)) == stored.digest
        else:
            assert self._old is not None
            right = _same_entry(written, i, self._old, stored.source)
        if not right:
            raise CorruptArchive("the new archive cannot be read back", archive=written.path, member=stored.key)


def _same_entry(one: ZipDirectory, i: int, other: ZipDirectory, j: int) -> bool:
    _, packed, size, crc, method, _ = one.locate(i)
    return (packed, size, crc, method) == (other.compressed_size(j), other.size(j), other.crc(j), other.method(j))


def digest_of(pieces: Iterable[bytes]) -> str:
    """The SHA-256 of content in pieces."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _stored(records: Iterable[SiteRecord]) -> Iterator[Stored]:
    """Of each content the primary record, if anybody has the content."""
    by_digest: dict[str, list[SiteRecord] | SiteRecord] = {}
    for record in records:
        if record.digest == EMPTY_DIGEST:
            continue
        known = by_digest.setdefault(record.digest, record)
        if isinstance(known, list):
            known.append(record)
        elif known is not record:
            by_digest[record.digest] = [known, record]
    for digest, found in by_digest.items():
        group = found if isinstance(found, list) else [found]
        source = _best_source(group)
        if source is not None:
            primary = min(group, key=lambda record: rank(record.key)) if len(group) > 1 else group[0]
            yield Stored(primary.key, digest, source)


def _best_source(group: list[SiteRecord]) -> int | Content | None:
    """A member that can be copied as it is, or else content that must be compressed."""
    sources = [record.source for record in group if record.source is not None]
    members = [source for source in sources if isinstance(source, int)]
    return members[0] if members else sources[0] if sources else None
