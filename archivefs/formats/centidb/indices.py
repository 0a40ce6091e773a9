"""Indices as folders of links: one folder for each tuple of the index, one link for each record.  Specification §5.1.

Entries of one tuple lie together, so the tuples are listed by jumping from one to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from archivefs.errors import NotFound
from archivefs.formats.centidb.engine import Item
from archivefs.formats.centidb.keynames import CutName
from archivefs.formats.centidb.keys import PAST, SEP, KeyTuple
from archivefs.formats.centidb.metadata import Collection
from archivefs.formats.centidb.nodes import EmptyFile, Link, StoreDirectory, ident_of
from archivefs.formats.centidb.store import MAX_CUT_WALK
from archivefs.tree import Entry, Kind, Node

if TYPE_CHECKING:
    from archivefs.formats.centidb.tree import CentidbTree

CHUNK = 64
"""Keys looked at before jumping: small groups are quicker read than jumped over."""
MAX_STALE = 10_000


class IndexEntry(NamedTuple):
    """A well-formed entry: the tuple of the index, and the key of the record."""

    tuple: KeyTuple
    record: KeyTuple


class IndexDirectory(StoreDirectory):
    """``indices/<name>/``, or ``entries/`` of an index without a parent."""

    def __init__(self, tree: CentidbTree, index: Collection, parent: Collection | None) -> None:
        self.tree = tree
        self.ident = ident_of("index", index.idx)
        self._index = index
        self._parent = parent
        self._base = tree.store.base(index.idx)

    def child(self, name: str) -> Node:
        key = self._tuple(name)
        if key is None:
            raise NotFound(member=name)
        found = TupleDirectory(self.tree, self._index, self._parent, key)
        if next(found.keys(b""), None) is None:
            raise NotFound(member=name)
        return found

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        key = None if after is None else self._tuple(after)
        start = self._base if key is None else self._base + key.data + PAST
        for found in self._tuples(start):
            yield Entry(self.tree.naming.name(found), Kind.DIRECTORY)

    def _tuples(self, start: bytes) -> Iterator[KeyTuple]:
        more = True
        while more:
            items, more = self.tree.store.engine.scan(start, self._base, CHUNK)
            passed = b""
            for item in items:
                entry = entry_of(self.tree, item, self._base) if item.key >= passed else None
                if entry is not None:
                    yield entry.tuple
                    passed = self._base + entry.tuple.data + PAST
            if items:
                start = max(passed, items[-1].key + b"\x00")

    def _tuple(self, name: str) -> KeyTuple | None:
        naming = self.tree.naming
        parsed = naming.parse(name)
        if not isinstance(parsed, CutName):
            found = naming.one_tuple(parsed)
            return found if found is not None and naming.name(found) == name else None
        start = self._base + parsed.bound
        for count, item in enumerate(self.tree.store.engine.items(start, start)):
            entry = entry_of(self.tree, item, self._base)
            if entry is not None and naming.name(entry.tuple) == name:
                return entry.tuple
            if count >= MAX_CUT_WALK:
                break
        return None


class TupleDirectory(StoreDirectory):
    """The records that an index finds for one tuple."""

    def __init__(self, tree: CentidbTree, index: Collection, parent: Collection | None, key: KeyTuple) -> None:
        self.tree = tree
        self.ident = ident_of("tuple", index.idx, key.data)
        self._index = index
        self._parent = parent
        self._key = key
        self._base = tree.store.base(index.idx)

    def child(self, name: str) -> Node:
        record = self._record(name)
        if record is None:
            raise NotFound(member=name)
        ident = ident_of("entry", self._index.idx, self._key.data, record.data)
        if self._parent is None:
            return EmptyFile(self.tree, ident)
        return Link(self.tree, ident, "../../../records/" + self.tree.record_path(record))

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        last = None if after is None else self.tree.naming.parse(after)
        if isinstance(last, CutName):
            record = self._record(after or "")
            last = None if record is None else record.data
        kind = Kind.FILE if self._parent is None else Kind.SYMLINK
        stale = 0
        for found in self.keys(b"" if last is None else last + b"\x00"):
            stale += self._parent is not None and self.tree.store.find(self._parent.idx, found.data) is None
            yield Entry(self.tree.naming.name(found), kind)
        if after is None:
            self._note(stale)

    def keys(self, start: bytes) -> Iterator[KeyTuple]:
        """The keys of the records, from some bytes on."""
        within = self._base + self._key.data + SEP
        for item in self.tree.store.engine.items(within + start, within):
            entry = entry_of(self.tree, item, self._base)
            if entry is not None and entry.tuple.data == self._key.data:
                yield entry.record

    def _note(self, stale: int) -> None:
        known = self.tree.store.stale
        if stale and len(known) < MAX_STALE:
            known[self._index.idx, self._key.data] = stale
            name = self.tree.naming.name(self._key)
            self.tree.store.problems.note(self.tree.shown_index(self._index), f"{name}: {stale} entries lead nowhere")

    def _record(self, name: str) -> KeyTuple | None:
        naming = self.tree.naming
        parsed = naming.parse(name)
        if isinstance(parsed, CutName):
            return next((key for key in self.keys(parsed.bound) if naming.name(key) == name), None)
        found = naming.one_tuple(parsed)
        if found is None or naming.name(found) != name:
            return None
        item = self.tree.store.item(self._base + self._key.data + SEP + found.data)
        return found if item is not None and item.size == 0 else None


def entry_of(tree: CentidbTree, item: Item, base: bytes) -> IndexEntry | None:
    """The entry of an index that a physical key is, if it is well-formed."""
    if item.size:
        return None
    tuples = tree.store.tuples(item.key[len(base) :])
    return IndexEntry(tuples[0], tuples[1]) if len(tuples) == 2 else None
