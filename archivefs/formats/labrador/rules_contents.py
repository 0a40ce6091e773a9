"""The rules for what is stored: every file has a record, its digest is right, and nothing is stored in vain.

Digests are made by several threads: both inflating and hashing leave the interpreter free for the others.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from archivefs.errors import ArchiveError
from archivefs.format import Finding, Opening, VerifyRequest
from archivefs.formats.labrador.container import Container
from archivefs.formats.labrador.contents import EXTERNAL, Contents
from archivefs.formats.labrador.externals import External, open_external
from archivefs.formats.labrador.findings import error, member_name, notice, unreadable
from archivefs.formats.labrador.flattable import FlatTable
from archivefs.formats.labrador.keys import EMPTY_DIGEST, rank
from archivefs.formats.labrador.manifest import Manifest
from archivefs.formats.labrador.rules_members import Members
from archivefs.zips.members import stream_member

_IN_FLIGHT = 4
"""How many batches there may be for each thread."""
_BATCH_MEMBERS, _BATCH_BYTES = 100, 4 << 20


def findings(
    members: Members, manifest: Manifest | None, opening: Opening, request: VerifyRequest
) -> Iterator[Finding]:
    """What is wrong with what is stored; without a *manifest* only whether it can be read."""
    records = _Records(manifest) if manifest is not None else None
    if records is not None:
        yield from records.stored_in_vain(members)
        yield from _external(Contents(members.container, records.manifest), opening, request)
    yield from _digests(members, records, request)


class _Records:
    """The records of a manifest, found by key."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        numbers = range(len(manifest))
        self._keys = FlatTable(manifest.lower_key(record) for record in numbers)
        self._secondary = bytearray(len(manifest))
        for group in FlatTable(manifest.digest(record) for record in numbers).groups():
            self._find_primaries(group)

    def find(self, key: bytes) -> int | None:
        """The record with this lower-cased key."""
        for record in self._keys.candidates(key):
            if self.manifest.lower_key(record) == key:
                return record
        return None

    def _find_primaries(self, group: list[int]) -> None:
        by_digest: dict[str | None, list[int]] = {}
        for record in group:
            by_digest.setdefault(self.manifest.digest(record), []).append(record)
        for digest, records in by_digest.items():
            if digest in (None, EMPTY_DIGEST) or len(records) == 1:
                continue
            primary = min(records, key=lambda record: rank(self.manifest.key(record)))
            for record in records:
                self._secondary[record] = record != primary

    def stored_in_vain(self, members: Members) -> Iterator[Finding]:
        """Members without a record, and those that should have been left out."""
        for member, key in members.stored():
            where = member_name(members.container, member)
            record = self.find(key)
            if record is None:
                yield error("www-unlisted", where, "is not in the manifest")
            elif self._secondary[record]:
                yield error("stored-secondary", where, "is a copy, and another record is the primary one")
            elif self.manifest.digest(record) == EMPTY_DIGEST:
                yield error("stored-empty", where, "is empty by its digest, and empty files are not stored")


# -- what is left out --


def _external(contents: Contents, opening: Opening, request: VerifyRequest) -> Iterator[Finding]:
    externals: list[External] = []
    report = error if request.complete else notice

    def missing() -> Iterator[tuple[int, str | None]]:
        for record in range(len(contents.manifest)):
            if contents.place_of(record).state == EXTERNAL:
                digest = contents.manifest.digest(record)
                if digest is None or not any(external.find(digest) for external in externals):
                    yield record, digest

    def wanted() -> set[str]:
        return {digest for _, digest in missing() if digest}

    try:
        for path in opening.externals:
            externals.append(open_external(path, opening.cache, wanted))
        for record, _ in missing():
            yield report("external", contents.manifest.key(record), "its content is not in the archive")
    finally:
        for external in externals:
            external.close()


# -- digests --


class _Batch(NamedTuple):
    """Members that one thread looks at in one go: handing over each by itself would cost more than a small one does."""

    members: list[tuple[int, str | None]]
    """Each with the digest that is expected of it."""
    size: int


def _digests(members: Members, records: _Records | None, request: VerifyRequest) -> Iterator[Finding]:
    """Read all that is stored; members are reported in order, however many threads there are."""
    directory = members.container.directory
    total = sum(directory.size(member) for member, _ in members.stored())
    done = 0
    jobs = request.jobs or os.cpu_count() or 1
    request.progress(0, total)
    with ThreadPoolExecutor(jobs, thread_name_prefix="verify") as pool:
        waiting: deque[tuple[_Batch, Future[list[Finding]]]] = deque()
        batches = _batches(members, records)
        try:
            while True:
                while len(waiting) < jobs * _IN_FLIGHT and (batch := next(batches, None)):
                    waiting.append((batch, pool.submit(_check_all, members.container, batch)))
                if not waiting:
                    return
                batch, future = waiting.popleft()
                yield from future.result()
                done += batch.size
                request.progress(done, total)
        finally:  # also when nobody wants to hear the rest
            for _, future in waiting:
                future.cancel()


def _batches(members: Members, records: _Records | None) -> Iterator[_Batch]:
    batch: list[tuple[int, str | None]] = []
    size = 0
    for member, key in members.stored():
        record = records.find(key) if records else None
        batch.append((member, records.manifest.digest(record) if records and record is not None else None))
        size += members.container.directory.size(member)
        if len(batch) >= _BATCH_MEMBERS or size >= _BATCH_BYTES:
            yield _Batch(batch, size)
            batch, size = [], 0
    if batch:
        yield _Batch(batch, size)


def _check_all(container: Container, batch: _Batch) -> list[Finding]:
    findings = (_check(container, member, expected) for member, expected in batch.members)
    return [finding for finding in findings if finding]


def _check(container: Container, member: int, expected: str | None) -> Finding | None:
    """Read a member whole, and compare its digest with the *expected* one."""
    digest = hashlib.sha256()
    try:
        container.check_method(member)
        container.directory.unchanged()
        for piece in stream_member(container.directory, member):
            digest.update(piece)
    except ArchiveError as problem:
        return unreadable(container, member, problem)
    if expected is None or digest.hexdigest() == expected:
        return None
    message = f"its digest is {digest.hexdigest()}, the manifest has {expected}"
    return error("digest-mismatch", member_name(container, member), message)
