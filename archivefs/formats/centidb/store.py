"""Store: the records of a centidb store, found and listed by seeking; nothing is ever read as a whole.

Used by the tree, by ``verify`` and by the writer.  Specification §4, §8, §9.2.  Any thread may call anything; what
is kept (metadata, problems, counts) is replaced or guarded by a lock.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator, Sequence

from archivefs.caches import ByteCache
from archivefs.errors import ArchiveError, CorruptMember, NotFound, StaleNode
from archivefs.formats.centidb import detection, keys, packers, varints
from archivefs.formats.centidb.batches import Batch, open_batch
from archivefs.formats.centidb.dialects import Dialect
from archivefs.formats.centidb.engine import FIRST_CHUNK, SMALL, Engine, Item
from archivefs.formats.centidb.keynames import CutName, whole_name
from archivefs.formats.centidb.keys import SEP, KeyTuple
from archivefs.formats.centidb.metadata import Metadata, read_metadata
from archivefs.formats.centidb.packers import Packing
from archivefs.formats.centidb.places import Limits, Named, Place, Row, next_after
from archivefs.formats.centidb.problems import Problems
from archivefs.formats.centidb.quicknames import QuickNames

MAX_CUT_WALK = 1 << 16
"""How many keys of the same beginning are looked at for one cut name."""
SLACK = 1 << 20
"""What a stored value may be larger than what it unpacks to."""
CHECK_S = 1.0
RECENT_S = 0.25
"""How long a value that was just read is good for: a look-up, a stat and an open follow each other that quickly."""
RECENT = 32
RECENT_BYTES = 1 << 16
RECENT_KEY = 4096


class Store:
    """An opened store."""

    def __init__(
        self, engine: Engine, *, prefix: bytes, dialect: str, cache: ByteCache, limits: Limits, archive: str
    ) -> None:
        self.engine = engine
        self.prefix = prefix
        self.limits = limits
        self.archive = archive
        self.problems = Problems()
        self.counts: dict[int, int] = {}
        """How many records a collection has, once it was listed as a whole."""
        self.stale: dict[tuple[int, bytes], int] = {}
        """Index entries that lead nowhere, as far as they were listed."""
        self.dialect: Dialect = detection.detect(engine, prefix, dialect)
        self.quick = QuickNames(self.dialect)
        self._cache = cache
        self._owner = ("centidb", id(self))
        self._lock = threading.Lock()
        self._recent: dict[bytes, tuple[float, Place, bytes]] = {}
        self._state = engine.state()
        self._checked = time.monotonic()
        self._generation = 0
        self.metadata: Metadata = Metadata()
        self.reload()

    def reload(self) -> None:
        """Read the metadata again."""
        metadata = read_metadata(self.engine, self.prefix, self.dialect)
        for _code, where, problem in metadata.problems:
            self.problems.note(where, problem)
        with self._lock:
            self.metadata = metadata
            self.counts.clear()
            self.stale.clear()

    def generation(self) -> int:
        """Grows when somebody else has changed the store."""
        with self._lock:
            due = time.monotonic() - self._checked >= CHECK_S
            if due:
                self._checked = time.monotonic()
        if due:
            try:
                state = self.engine.state()
                if state != self._state:
                    self._state = state
                    self.reload()
                    self._generation += 1
            except ArchiveError as error:
                self.problems.note("", error.problem)
        return self._generation

    def changed_by_us(self, *, metadata: bool) -> None:
        """After a change of our own, which is no new generation."""
        with self._lock:
            self._recent.clear()
        self._state = self.engine.state()
        self.counts.clear()
        self.stale.clear()
        if metadata:
            self.reload()

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()
        self._cache.forget(self._owner)

    # -- keys --

    def base(self, idx: int) -> bytes:
        """What every physical key of a collection begins with."""
        return self.prefix + varints.encode(idx)

    def tuples(self, data: bytes) -> list[KeyTuple]:
        """The tuples of a key after its collection's number; none if it cannot be decoded."""
        try:
            return keys.decode_key(data, self.dialect)
        except CorruptMember:
            return []

    def value(self, physical: bytes) -> bytes:
        """A stored value; raises StaleNode, LimitExceeded."""
        value = self.engine.get(physical, self.limits.value + SLACK)
        if value is None:
            raise StaleNode(archive=self.archive)
        return value

    def is_unknown(self, key: bytes, size: int) -> bool:
        """Does a key (after the store's prefix) belong nowhere?"""
        if not self.dialect.readable:
            return True
        number = detection.collection_number(key)
        if number is None:
            return True
        idx, at = number
        if idx in self.dialect.tables:
            return key in self.metadata.lost
        collection = self.metadata.collections.get(idx)
        if collection is None:
            return True
        tuples = self.tuples(key[at:])
        if collection.is_index:
            return len(tuples) != 2 or size != 0
        return not tuples or (len(tuples) > 1 and size == 0)

    # -- finding --

    def find(self, idx: int, key: bytes) -> Place | None:
        """Where the record of an encoded tuple is: by itself, or in the first batch that has it (§4.2)."""
        base = self.base(idx)
        physical = base + key
        for count, item in enumerate(self.engine.items(physical, base)):
            place = self._place_in(item, base, key)
            if place is not None:
                return place
            if count >= self.limits.walk:
                break
        return None

    def locate(self, idx: int, key: bytes) -> tuple[Place, bytes]:
        """Where a record is and the value that is stored there; raises NotFound."""
        base = self.base(idx)
        physical = base + key
        recent = self._recent.get(physical)
        if recent is not None and time.monotonic() - recent[0] < RECENT_S:
            return recent[1], recent[2]
        # Mostly the first entry that is met is it, or the batch that has it: one question for both.
        items, _ = self.engine.scan(physical, base, 1, SMALL)
        place = self._place_in(items[0], base, key) or self.find(idx, key) if items else None
        if place is None:
            raise NotFound(archive=self.archive)
        value = items[0].value if place.physical == items[0].key else None
        if value is None:
            value = self.value(place.physical)
        self._remember(physical, place, value)
        return place, value

    def _remember(self, physical: bytes, place: Place, value: bytes) -> None:
        with self._lock:
            self._recent.pop(physical, None)
            if len(value) <= RECENT_BYTES:
                self._recent[physical] = (time.monotonic(), place, value)
                if len(self._recent) > RECENT:
                    del self._recent[next(iter(self._recent))]

    def stored_size(self, idx: int, key: bytes) -> int:
        """How much is stored where a record is; 0 where there is none."""
        place = self.find(idx, key)
        item = None if place is None else self.item(place.physical)
        return 0 if item is None else item.size

    def item(self, physical: bytes) -> Item | None:
        """One physical entry, without its value."""
        found, _ = self.engine.scan(physical, physical, 1)
        return found[0] if found and found[0].key == physical else None

    def _place_in(self, item: Item, base: bytes, key: bytes) -> Place | None:
        """The record in one physical entry, if it is there."""
        data = item.key[len(base) :]
        if data == key:
            return Place(item.key)
        if SEP not in data or not item.size:
            return None  # no batch
        if self.dialect.numbered and key not in data:
            return None
        members = self._members(item.key, data)
        return Place(item.key, members.index(key)) if key in members else None

    def _members(self, physical: bytes, data: bytes) -> Sequence[bytes]:
        """The encoded keys in a batch; nothing where it is none."""
        tuples = self._encoded_tuples(data)
        if self.dialect.numbered or len(tuples) != 2:
            return tuples[::-1] if len(tuples) > 1 else ()
        return self.batch(physical).members

    def _encoded_tuples(self, data: bytes) -> list[bytes]:
        """The tuples of a key, kept for a while: neighbours are often read one after the other."""
        token = (self._owner, "tuples", data)
        found: list[bytes] | None = self._cache.get(token) if len(data) <= RECENT_KEY else None
        if found is None:
            found = [one.data for one in self.quick.tuples(data) or self.tuples(data)]
            if len(data) <= RECENT_KEY:
                self._cache.put(token, found, 2 * len(data) + 60 * len(found))
        return found

    def batch(self, physical: bytes, value: bytes | None = None) -> Batch:
        """The batch of a physical key, from the cache if its value is still the same."""
        if value is None:
            value = self.value(physical)
        token = (self._owner, "batch", physical, hashlib.blake2b(value, digest_size=16).digest())
        batch: Batch | None = self._cache.get(token)
        if batch is None:
            batch = open_batch(
                self._encoded_tuples(self._without_number(physical)),
                value,
                dialect=self.dialect,
                encodings=self.metadata.encodings,
                limit=self.limits.value,
            )
            self._cache.put(token, batch, batch.weight)
        for warning in batch.warnings:
            self.problems.note(physical.hex(), warning)
        return batch

    def _without_number(self, physical: bytes) -> bytes:
        key = physical[len(self.prefix) :]
        return key[varints.decode(key, 0)[1] :]

    # -- reading --

    def read(self, place: Place) -> bytes:
        """The bytes of a record; raises CorruptMember, LimitExceeded, StaleNode."""
        return self.read_value(place, self.value(place.physical))

    def read_value(self, place: Place, value: bytes) -> bytes:
        """The same, of a value that is at hand."""
        try:
            if place.member is not None:
                return self.batch(place.physical, value=value).read(place.member)
            packed = packers.taken_apart(value, 0, self.dialect, self.metadata.encodings)
            found = packers.unpacked(packed, self.limits.value)
        except ArchiveError as error:
            self.problems.note(place.physical.hex(), error.problem)
            raise
        if found.warning:
            self.problems.note(place.physical.hex(), found.warning)
        return found.data

    def size(self, place: Place, value: bytes) -> int:
        """The size of a record, without unpacking where that is possible; 0 for one that cannot be read."""
        try:
            if place.member is not None:
                lengths = self.batch(place.physical, value=value).lengths
                return lengths[place.member] if place.member < len(lengths) else 0
            packed = packers.taken_apart(value, 0, self.dialect, self.metadata.encodings)
            if packed.packing is not Packing.ZLIB:
                return len(packed.data)
            token = (self._owner, "size", hashlib.blake2b(value, digest_size=16).digest())
            size: int | None = self._cache.get(token)
            if size is None:
                size = len(self.read_value(place, value))
                self._cache.put(token, size, 8)
            return size
        except ArchiveError as error:
            self.problems.note(place.physical.hex(), error.problem)
            return 0

    # -- listing --

    def listed(self, idx: int, after: bytes | None = None) -> Iterator[Named]:
        """The records of a collection in stored order, from the first one or behind the one of that key."""
        base = self.base(idx)
        start, skipped = base, -1
        if after is not None:
            place = self.find(idx, after)
            start = base + after + b"\x00"
            if place is not None and place.member is not None:
                start, skipped = place.physical, place.member
        previous = b"" if after is None else None
        count = 0
        quick_name = self.quick.name
        for item in self.engine.items(start, base, count=FIRST_CHUNK):
            data = item.key[len(base) :]
            name = quick_name(data) if SEP not in data else None
            if name is not None:  # a record by itself, as most are
                count += 1
                yield Named(data, name)
            else:
                for named, place in self._shown_in(idx, item, previous):
                    if not (item.key == start and (place.member or 0) <= skipped):
                        count += 1
                        yield named
            previous = item.key
        if after is None:
            self.counts[idx] = count

    def _shown_in(self, idx: int, item: Item, previous: bytes | None) -> Iterator[tuple[Named, Place]]:
        """The records in one physical entry that are not hidden by others; *previous* as for `alone`."""
        base = self.base(idx)
        found = self._named_in(item, base)
        if len(found) == 1 and found[0][1].member is None:
            yield found[0]
            return
        alone = self.alone(item.key, base, [named.data for named, _ in found], previous)
        seen: set[bytes] = set()
        for named, place in found:
            if named.data in seen:
                continue
            seen.add(named.data)
            if alone or self.find(idx, named.data) == place:
                yield named, place

    @staticmethod
    def alone(physical: bytes, base: bytes, members: Sequence[bytes], previous: bytes | None) -> bool:
        """Can nothing hide a member of that batch, but another one in it?

        *previous* is the physical key before it, if it is known: where it lies before every member, and every member
        before this entry, nothing that could hide one lies in between.
        """
        if previous is None or not members:
            return False
        return previous < base + min(members) and base + max(members) < physical

    def _named_in(self, item: Item, base: bytes) -> list[tuple[Named, Place]]:
        """Every record in one physical entry; none where it is no record."""
        tuples = self.quick.tuples(item.key[len(base) :]) if item.size else []
        if len(tuples) > (1 if self.dialect.numbered else 2):
            return [(named, Place(item.key, at)) for at, named in enumerate(reversed(tuples))]
        return [(Named(row.key.data, whole_name(row.key)), row.place) for row in self.members_of(item, base)]

    def members_of(self, item: Item, base: bytes) -> list[Row]:
        """Every record in one physical entry; none where it is no record."""
        tuples = self.tuples(item.key[len(base) :])
        if len(tuples) == 1:
            return [Row(tuples[0], Place(item.key))]
        if not tuples or not item.size:
            return []
        if self.dialect.numbered or len(tuples) > 2:
            return [Row(found, Place(item.key, at)) for at, found in enumerate(reversed(tuples))]
        try:
            members = self.batch(item.key).members
        except ArchiveError as error:
            self.problems.note(item.key.hex(), error.problem)
            return []
        return [Row(keys.decode_tuple(key, self.dialect), Place(item.key, at)) for at, key in enumerate(members)]

    def begun_with(self, idx: int, beginning: bytes) -> Iterator[Row]:
        """Records whose encoded key begins with some bytes, within the bounds of a walk; hidden ones too."""
        base = self.base(idx)
        for count, item in enumerate(self.engine.items(base + beginning, base + beginning)):
            if count >= MAX_CUT_WALK:
                return
            yield from (row for row in self.members_of(item, base) if row.key.data.startswith(beginning))
        yield from self.behind(idx, beginning)

    def behind(self, idx: int, beginning: bytes) -> Iterator[Row]:
        """The same of batches that lie behind all keys that begin so."""
        base = self.base(idx)
        start = next_after(base + beginning)
        if not beginning or start is None:
            return
        for count, item in enumerate(self.engine.items(start, base)):
            if count >= self.limits.walk:
                return
            if SEP in item.key[len(base) :] and item.size:
                yield from (row for row in self.members_of(item, base) if row.key.data.startswith(beginning))

    def find_cut(self, idx: int, cut: CutName) -> KeyTuple | None:
        """The key of a cut name."""
        for row in self.begun_with(idx, cut.bound):
            if hashlib.sha256(row.key.data).hexdigest().startswith(cut.digest):
                return row.key
        return None
