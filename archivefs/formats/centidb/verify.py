"""``archivefs verify`` for centidb stores: one walk over all keys, every rule of specification §8; nothing is changed.

Memory is bounded: each key is looked at by itself, with look-ups for index entries and for members of batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from archivefs.errors import ArchiveError, LimitExceeded
from archivefs.format import Finding, Level, Opening, VerifyRequest
from archivefs.formats.centidb import keynames, packers
from archivefs.formats.centidb.detection import collection_number
from archivefs.formats.centidb.engine import SMALL, Item
from archivefs.formats.centidb.keys import KeyTuple
from archivefs.formats.centidb.metadata import Collection
from archivefs.formats.centidb.places import Place
from archivefs.formats.centidb.store import Store
from archivefs.formats.centidb.tree import open_store

PROGRESS_EVERY = 1000
NOTICES = frozenset(
    {"meta-duplicate", "meta-name", "key-not-canonical", "zlib-trailing", "index-stale", "record-hidden"}
)
"""What is odd and yet readable."""


def verify(path: str, opening: Opening, request: VerifyRequest) -> Iterator[Finding]:
    """Findings as they are met."""
    store = open_store(path, opening)
    try:
        for code, where, problem in store.metadata.problems:
            yield _finding(code, where, problem)
        previous = b""
        for count, item in enumerate(store.engine.items(store.prefix, store.prefix, SMALL)):
            if count % PROGRESS_EVERY == 0:
                request.progress(count, 0)
            yield from Check(store, item, previous).findings()
            previous = item.key
    finally:
        store.close()


def _finding(code: str, where: str, problem: str) -> Finding:
    return Finding(code, Level.NOTICE if code in NOTICES else Level.ERROR, where, problem)


class Check:
    """What is wrong with one physical entry."""

    def __init__(self, store: Store, item: Item, previous: bytes) -> None:
        self._store = store
        self._item = item
        self._previous = previous
        self._key = item.key[len(store.prefix) :]
        self._where = keynames.hex_name(self._key)

    def findings(self) -> Iterable[Finding]:
        """All of it."""
        store = self._store
        number = collection_number(self._key)
        if not store.dialect.readable:
            return [self._say("dialect", "its key cannot be told from others")]
        if number is None:
            return [self._say("key-unknown", "the number of its collection is not well written")]
        idx, at = number
        if idx in store.dialect.tables:
            return []  # told with the metadata
        collection = store.metadata.collections.get(idx)
        if collection is None:
            return [self._say("key-unknown", f"there is no collection {idx}")]
        tuples = store.tuples(self._key[at:])
        if not tuples:
            return [self._say("key-damaged", f"its key cannot be decoded; collection {idx}")]
        return [*self._oddities(tuples), *self._content(collection, tuples)]

    def _oddities(self, tuples: list[KeyTuple]) -> Iterator[Finding]:
        if not all(found.canonical for found in tuples):
            yield self._say("key-not-canonical", "its key is not written in the shortest way")

    def _content(self, collection: Collection, tuples: list[KeyTuple]) -> Iterator[Finding]:
        if collection.is_index:
            yield from self._entry(collection, tuples)
        elif len(tuples) == 1:
            yield from self._single()
        elif self._item.size == 0:
            yield self._say("index-stray", "an index entry lies among the records")
        else:
            yield from self._batch(collection)

    def _entry(self, index: Collection, tuples: list[KeyTuple]) -> Iterator[Finding]:
        if len(tuples) != 2:
            yield self._say("index-entry", f"an index entry has {len(tuples)} tuples where two are expected")
        elif self._item.size:
            yield self._say("index-entry", "an index entry has a value")
        else:
            parent = self._store.metadata.parent(index)
            if parent is None:
                yield self._say("index-orphan", "the collection of its index is missing")
            elif self._store.find(parent.idx, tuples[1].data) is None:
                yield self._say("index-stale", "an index entry leads to no record")

    def _value(self) -> bytes:
        value = self._item.value
        return self._store.value(self._item.key) if value is None else value

    def _single(self) -> Iterator[Finding]:
        try:
            packed = packers.taken_apart(self._value(), 0, self._store.dialect, self._store.metadata.encodings)
            found = packers.unpacked(packed, self._store.limits.value)
        except LimitExceeded as error:
            yield self._say("value-limit", error.problem)
        except ArchiveError as error:
            yield self._say("value-damaged", error.problem)
        else:
            if found.warning:
                yield self._say("zlib-trailing", found.warning)

    def _batch(self, collection: Collection) -> Iterator[Finding]:
        try:
            batch = self._store.batch(self._item.key, self._value())
            for index in range(len(batch.members)):
                batch.read(index)
        except LimitExceeded as error:
            yield self._say("value-limit", error.problem)
            return
        except ArchiveError as error:
            yield self._say("batch-damaged", error.problem)
            return
        for warning in batch.warnings:
            yield self._say("zlib-trailing" if warning == packers.TRAILING else "batch-item", warning)
        members, base = batch.members, self._store.base(collection.idx)
        if len(set(members)) == len(members) and self._store.alone(self._item.key, base, members, self._previous):
            return
        for index, member in enumerate(members):
            found = self._store.find(collection.idx, member)
            if found is None:
                yield self._say("batch-order", "a member of its batch cannot be found: it is not stored behind its key")
            elif found != Place(self._item.key, index):
                yield self._say("record-hidden", "a member of its batch is hidden by another record of the same key")

    def _say(self, code: str, problem: str) -> Finding:
        return _finding(code, self._where, problem)
