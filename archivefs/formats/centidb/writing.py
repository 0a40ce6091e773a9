"""Changes to a store: put, replace and delete a record, make a collection; each in one transaction.

Specification §9.3.  A record that is changed becomes a single record; it is taken out of every batch that has it,
and what else such a batch shows is kept.  Threading: the engine's transaction lets one change happen at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from archivefs.errors import AlreadyExists, CorruptMember, NameTooLong, NotFound, NotPermitted, OutOfSpace
from archivefs.formats.centidb import packers
from archivefs.formats.centidb.batches import Rewritten
from archivefs.formats.centidb.client import MAX_GROWTHS, MapFull, Worker
from archivefs.formats.centidb.engine import Changes
from archivefs.formats.centidb.keys import joined
from archivefs.formats.centidb.metadata import FIRST_IDX, Collection, collection_rows, read_metadata
from archivefs.formats.centidb.packers import Packing
from archivefs.formats.centidb.places import Place
from archivefs.formats.centidb.store import Store

Result = TypeVar("Result")


class StoreWriter:
    """Changes one store, which was opened for that."""

    def __init__(self, store: Store, *, stale_indices: bool) -> None:
        self._store = store
        self._stale_indices = stale_indices

    def check(self, collection: Collection, key: bytes) -> None:
        """Raise what stands against writing a record of that key at all."""
        store = self._store
        if store.metadata.has_index(collection) and not self._stale_indices:
            advice = "mount with -o stale_indices=ok to change it all the same"
            raise NotPermitted("the collection has an index, which only its program can keep right", advice=advice)
        if len(store.base(collection.idx)) + len(key) > store.engine.longest_key:
            raise NameTooLong(f"the engine has no keys of more than {store.engine.longest_key} bytes")

    def check_packer(self, collection: Collection, key: bytes) -> None:
        """Raise NotPermitted where the record is packed by something that is not known here."""
        place = self._store.find(collection.idx, key)
        if place is not None and place.member is None:
            self._packer_of(place)

    def put(self, collection: Collection, key: bytes, data: bytes) -> None:
        """Set the record of an encoded tuple."""
        self.check(collection, key)

        def change(changes: Changes) -> None:
            number = self._remove(changes, collection.idx, key)
            value = packers.packed_value(data, packers.PLAIN if number is None else number, self._store.dialect)
            changes.put(self._store.base(collection.idx) + key, value)

        self._change(change)
        self._store.changed_by_us(metadata=False)

    def delete(self, collection: Collection, key: bytes) -> None:
        """Remove the record of an encoded tuple; raises NotFound."""
        self.check(collection, key)

        def change(changes: Changes) -> None:
            if self._remove(changes, collection.idx, key) is None:
                raise NotFound

        self._change(change)
        self._store.changed_by_us(metadata=False)

    def make_collection(self, name: bytes) -> int:
        """A new collection; its number comes back.  Raises AlreadyExists."""
        store = self._store
        if not store.dialect.readable or name.startswith(b"\x00"):
            raise NotPermitted("no such collection can be made in this store")

        def change(changes: Changes) -> int:
            metadata = read_metadata(store.engine, store.prefix, store.dialect)
            if any(collection.name == name for collection in metadata.collections.values()):
                raise AlreadyExists
            idx = max(FIRST_IDX, metadata.counters.get(b"\x00collections_idx", FIRST_IDX))
            while idx in metadata.collections:
                idx += 1
            for key, value in collection_rows(name, idx, store.dialect):
                if len(store.prefix + key) > store.engine.longest_key:
                    raise NameTooLong
                changes.put(store.prefix + key, value)
            return idx

        idx = self._change(change)
        store.changed_by_us(metadata=True)
        return idx

    def _change(self, change: Callable[[Changes], Result]) -> Result:
        """One transaction; where the engine is full as it was opened, it is made larger and asked again."""
        engine = self._store.engine
        for _attempt in range(MAX_GROWTHS):
            try:
                with engine.transaction() as changes:
                    return change(changes)
            except MapFull:
                assert isinstance(engine, Worker)
                engine.grow()
        raise OutOfSpace(archive=self._store.archive)

    # -- taking a record out --

    def _remove(self, changes: Changes, idx: int, key: bytes) -> int | None:
        """Remove every record of that key; the number of the packer of the one that was shown, None if none was."""
        number = None
        while True:
            place = self._store.find(idx, key)
            if place is None:
                return number
            if place.member is None:
                found = self._packer_of(place)
                changes.delete(place.physical)
            else:
                found = self._drop(changes, idx, place, key)
            number = found if number is None else number

    def _packer_of(self, place: Place) -> int:
        """What a single record is packed with; a damaged one may be replaced by a plain one."""
        value = self._store.value(place.physical)
        try:
            packed = packers.taken_apart(value, 0, self._store.dialect, self._store.metadata.encodings)
        except CorruptMember:
            return packers.PLAIN
        if packed.packing is Packing.OPAQUE:
            raise NotPermitted(f"the record is packed by number {packed.number}, which is not known here")
        return packed.number

    def _drop(self, changes: Changes, idx: int, place: Place, key: bytes) -> int:
        """Write a batch anew without the members of that key, and without those that others hide."""
        store = self._store
        batch = store.batch(place.physical)
        kept = [
            member != key and store.find(idx, member) == Place(place.physical, at)
            for at, member in enumerate(batch.members)
        ]
        dropped = {at for at, keep in enumerate(kept) if not keep}
        rewritten = batch.without(dropped)
        left = {member: batch.read(at) for at, member in enumerate(batch.members) if kept[at]}
        number = batch.packer
        changes.delete(place.physical)
        if rewritten is not None and not self._put_batch(changes, idx, rewritten, left):
            for member, data in left.items():
                changes.put(store.base(idx) + member, packers.packed_value(data, number, store.dialect))
        return number

    def _put_batch(self, changes: Changes, idx: int, batch: Rewritten, left: dict[bytes, bytes]) -> bool:
        """Store it, unless it would take another's place or no longer be seen; then each member is to stand alone."""
        store = self._store
        physical = store.base(idx) + joined(batch.tuples)
        if len(physical) > store.engine.longest_key or store.item(physical) is not None:
            return False
        changes.put(physical, batch.value)
        for member in left:
            found = store.find(idx, member)
            if found is None or found.physical != physical:
                changes.delete(physical)
                return False
        return True
