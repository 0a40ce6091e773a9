"""Where a record's content is: in its own member, nowhere (empty), in another record's member, or not here.

Used by the tree and for archives given with ``--external``.  Any thread may ask; the table of digests is made when
first needed, under the lock, and only by archives that leave something out.
See the Labrador format, "Empty file suppression" and what follows it.
"""

from __future__ import annotations

import threading
from array import array
from typing import NamedTuple

from archivefs.formats.labrador.container import Container
from archivefs.formats.labrador.flattable import FlatTable
from archivefs.formats.labrador.keys import EMPTY_DIGEST, rank
from archivefs.formats.labrador.manifest import Manifest

STORED, EMPTY, DUPLICATE, EXTERNAL = "stored", "empty", "duplicate", "external"
STATES = (STORED, EMPTY, DUPLICATE, EXTERNAL)

_ALONE, _NOWHERE = -2, -1


class Place(NamedTuple):
    """Where content is."""

    state: str
    member: int | None = None


class Contents:
    """The contents of one archive."""

    def __init__(self, container: Container, manifest: Manifest) -> None:
        self.container = container
        self.manifest = manifest
        self._lock = threading.Lock()
        self._digests: _Digests | None = None

    def member_of(self, record: int) -> int | None:
        """The member that holds the record's own data."""
        return self.container.find_file(self.manifest.lower_key(record))

    def place_of(self, record: int) -> Place:
        """The state of a record, and the member with its content if this archive has it."""
        member = self.member_of(record)
        if member is not None:
            return Place(STORED, member)
        digest = self.manifest.digest(record)
        if digest == EMPTY_DIGEST:
            return Place(EMPTY)
        member = self.find(digest) if digest else None
        return Place(EXTERNAL) if member is None else Place(DUPLICATE, member)

    def find(self, digest: str) -> int | None:
        """The member whose record has this *digest*: the primary's, or where that is absent any other's."""
        digests = self._table()
        for record in digests.table.candidates(digest):
            if self.manifest.digest(record) == digest:
                member = digests.members[record]
                if member == _ALONE:
                    return self.member_of(record)
                return None if member == _NOWHERE else member
        return None

    def _table(self) -> _Digests:
        with self._lock:
            if self._digests is None:
                self._digests = self._make_table()
            return self._digests

    def _make_table(self) -> _Digests:
        digest = self.manifest.digest
        table = FlatTable(digest(record) for record in range(len(self.manifest)))
        members = array("i", [_ALONE]) * len(self.manifest)
        for group in table.groups():
            by_digest: dict[str | None, list[int]] = {}
            for record in group:
                by_digest.setdefault(digest(record), []).append(record)
            for text, records in by_digest.items():
                if text not in (None, EMPTY_DIGEST):
                    self._settle(records, members)
        return _Digests(table, members)

    def _settle(self, records: list[int], members: array[int]) -> None:
        """Note for *records*, which share a digest, the member that holds their content."""
        stored = [(record, member) for record in records if (member := self.member_of(record)) is not None]
        if len(stored) > 1:  # only one should be; the primary is the lowest of all, so also of those stored
            stored = [min(stored, key=lambda found: rank(self.manifest.key(found[0])))]
        for record in records:
            members[record] = stored[0][1] if stored else _NOWHERE


class _Digests(NamedTuple):
    table: FlatTable
    members: array[int]
    """By record: the member with the content of all records of its digest, if it is not the only one."""
