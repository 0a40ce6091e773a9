"""``layout=nested``: every element of a key but the last is a folder.  Specification §9.1, §9.2.

A folder is listed by jumping: after the first key or batch that lies in one folder as a whole the next one looked for
is beyond all keys of that, so the cost goes with the number of names and not of keys.  Batches are listed where they
are stored, which may be behind what they hold; so are their names, each once: at the first physical key that has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from archivefs.errors import NotFound
from archivefs.formats.centidb import keynames, keys
from archivefs.formats.centidb.engine import CHUNK as LONG_CHUNK
from archivefs.formats.centidb.engine import Item
from archivefs.formats.centidb.keynames import CutName
from archivefs.formats.centidb.keys import PAST, SEP
from archivefs.formats.centidb.metadata import Collection
from archivefs.formats.centidb.nodes import StoreDirectory, ident_of
from archivefs.formats.centidb.places import Row, next_after
from archivefs.formats.centidb.records import RecordFile
from archivefs.tree import Entry, Kind, Node

if TYPE_CHECKING:
    from archivefs.formats.centidb.tree import CentidbTree

CHUNK = 64
"""Keys looked at before jumping, also for batches that hold what lies before them."""


class Met(NamedTuple):
    """A name as the listing of a folder meets it."""

    name: str
    is_file: bool
    data: bytes
    """For a folder the bytes with which its keys begin, for a file its key."""
    row: Row


class NestedDirectory(StoreDirectory):
    """``records/`` or a folder below it: the keys that begin with some elements."""

    def __init__(self, tree: CentidbTree, collection: Collection, beginning: bytes = b"") -> None:
        self.tree = tree
        self.ident = ident_of("nested", collection.idx, beginning)
        self._collection = collection
        self._beginning = beginning
        self._base = tree.store.base(collection.idx)

    # -- looking up --

    def child(self, name: str) -> Node:
        met = self._find(name)
        if met is None:
            raise NotFound(member=name)
        if met.is_file:
            return RecordFile(self.tree, self._collection, met.data)
        return NestedDirectory(self.tree, self._collection, met.data)

    def _find(self, name: str) -> Met | None:
        if name.endswith(","):
            element = self._parsed(name[:-1])
            first = None if element is None else self._first(name, self._beginning + element)
            return None if first is None else first[1]
        store = self.tree.store
        for data in self._candidates(name):
            key = self.tree.naming.one_tuple(data)
            met = None if key is None else self._met(Row(key, store.find(self._collection.idx, data)))  # type: ignore[arg-type]
            if met is not None and met.row.place is not None and met.name == name:
                return met
        return None

    def _candidates(self, name: str) -> Iterator[bytes]:
        """Keys that a file of that name may have."""
        parsed = keynames.parse_flat(name, self.tree.store.dialect) if _is_text(name) else None
        if isinstance(parsed, CutName):
            for row in self.tree.store.begun_with(self._collection.idx, self._beginning + parsed.bound):
                yield row.key.data
        elif parsed is not None:
            yield self._beginning + parsed

    def _parsed(self, name: str) -> bytes | None:
        """The bytes of one element."""
        try:
            return keys.encode_element(keynames.parse_element(name), self.tree.store.dialect)
        except (ValueError, OverflowError):
            return None

    def _first(self, name: str, beginning: bytes) -> tuple[bytes, Met] | None:
        """The first physical key that has a folder of that name."""
        start = self._base + beginning
        for count, item in enumerate(self.tree.store.engine.items(start, self._base)):
            if count and not item.key.startswith(start) and SEP not in item.key[len(self._base) :]:
                if count >= self.tree.store.limits.walk:
                    return None
                continue
            for met in self._all_met(item):
                if met.name == name:
                    return item.key, met
            if count >= self.tree.store.limits.walk:
                return None
        return None

    # -- listing --

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        start, passed = self._base + self._beginning, None
        if after is not None:
            start, passed = self._resumed(after)
        for item, met in self._listing(start, passed):
            if passed is not None and item.key == start:
                # the entry where the last page ended: go on behind the name
                passed = None if met.name == passed else passed
                continue
            yield Entry(met.name, Kind.FILE if met.is_file else Kind.DIRECTORY)

    def _resumed(self, after: str) -> tuple[bytes, str | None]:
        """Where to go on: a physical key, and the name in it behind which to begin."""
        if after.endswith(","):
            element = self._parsed(after[:-1])
            if element is not None:
                first = self._first(after, self._beginning + element)
                return first[0] if first else self._base + self._beginning + element + PAST, after if first else None
        met = self._find(after)
        if met is not None:
            return met.row.place.physical, after
        data = next(self._candidates(after), self._beginning)
        return self._base + data + b"\x00", None

    def _listing(self, start: bytes, passed: str | None) -> Iterator[tuple[Item, Met]]:
        within = self._base + self._beginning
        more = start.startswith(within)
        jump = shown = b""
        count, previous = CHUNK, None
        while more:
            items, more = self.tree.store.engine.scan(max(start, jump), within, count)
            for item in items:
                mets = list(self._all_met(item))
                for met in self._shown(item, mets, previous, jumped=item.key < shown):
                    yield item, met
                shown = max(shown, self._past(item, mets))
                if len({(met.name, met.is_file) for met in mets}) == 1:
                    jump = shown
                previous = item.key
            if items:
                start = items[-1].key + b"\x00"
            count = CHUNK if jump > start else LONG_CHUNK
            previous = None if jump > start else previous
        yield from self._behind(start if not start.startswith(within) else None)

    def _past(self, item: Item, mets: Sequence[Met]) -> bytes:
        """A key beyond all of the folder that a physical key lies in; nothing where it lies in none."""
        folders = (self._base + met.data for met in mets if not met.is_file)
        return next((folder + PAST for folder in folders if item.key.startswith(folder)), b"")

    def _behind(self, start: bytes | None) -> Iterator[tuple[Item, Met]]:
        """Batches that lie behind all keys of this folder, and hold some of it."""
        if not self._beginning:
            return
        first = next_after(self._base + self._beginning)
        start = max(start or b"", first or b"")
        for count, item in enumerate(self.tree.store.engine.items(start, self._base)):
            if count >= self.tree.store.limits.walk:
                return
            if SEP in item.key[len(self._base) :]:
                mets = list(self._all_met(item))
                yield from ((item, met) for met in self._shown(item, mets, None, jumped=False))

    def _shown(self, item: Item, mets: Sequence[Met], previous: bytes | None, *, jumped: bool) -> Iterator[Met]:
        """The names of one physical entry that no earlier one has; *previous* as for `Store.alone`."""
        keys_here = [met.row.key.data for met in mets]
        alone = self.tree.store.alone(item.key, self._base, keys_here, previous)
        seen: set[str] = set()
        for met in mets:
            if met.name in seen:
                continue
            seen.add(met.name)
            if met.row.place.member is None:
                if not jumped:
                    yield met
            elif met.is_file:
                if alone or self.tree.store.find(self._collection.idx, met.data) == met.row.place:
                    yield met
            elif not (jumped and item.key.startswith(self._base + met.data)):
                first = self._first(met.name, met.data)
                if first is not None and first[0] == item.key:
                    yield met

    def _all_met(self, item: Item) -> Iterator[Met]:
        for row in self.tree.store.members_of(item, self._base):
            met = self._met(row)
            if met is not None:
                yield met

    def _met(self, row: Row) -> Met | None:
        """What a record is in this folder: a file, a folder, or nothing."""
        key, size = row.key, len(self._beginning)
        if size and (not key.data.startswith(self._beginning) or size not in key.ends):
            return None
        at = key.ends.index(size) + 1 if size else 0
        if at == len(key.ends):
            return Met(keynames.EMPTY, True, key.data, row) if not size else None
        if any(flaw < at for flaw in key.flaws):
            return None
        name, is_file = self.tree.naming.component(key, at)
        return Met(name, is_file, key.data if is_file else key.data[: key.ends[at]], row)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
