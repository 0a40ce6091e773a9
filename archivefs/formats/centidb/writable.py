"""The nodes of a store that is mounted read-write: records that can be written, collections that can be made.

A writer keeps its bytes in memory until they are synced or the file is finished, and then stores them in one
transaction.  A new record is seen from the moment it is made, though it is stored only then.

Threading: the tables of new and open records are guarded by the lock of the tree.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from archivefs.errors import (
    AlreadyExists,
    DirectoryExpected,
    FileExpected,
    LimitExceeded,
    NameNotHeld,
    NameTooLong,
    NotFound,
    NotPermitted,
    OtherTree,
)
from archivefs.formats.centidb import keynames
from archivefs.formats.centidb.keys import KeyTuple
from archivefs.formats.centidb.metadata import Collection
from archivefs.formats.centidb.nodes import SmallDirectory
from archivefs.formats.centidb.records import RecordFile, RecordsDirectory
from archivefs.readers import BytesReader
from archivefs.tree import (
    Attributes,
    Changeable,
    Directory,
    Entry,
    File,
    Kind,
    Node,
    Reader,
    WritableDirectory,
    WritableFile,
    Writer,
)

MAX_TIMES = 10_000


class Pending:
    """Records that are open for writing, and times that were set; of one tree."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writers: dict[tuple[int, bytes], RecordWriter] = {}
        self._fresh: dict[tuple[int, bytes], None] = {}
        self._times: dict[int, int] = {}

    def make(self, idx: int, key: bytes) -> None:
        """A record was made and not stored yet."""
        with self._lock:
            self._fresh[idx, key] = None

    def is_fresh(self, idx: int, key: bytes) -> bool:
        """Was it made and not stored yet?"""
        return (idx, key) in self._fresh

    def fresh(self, idx: int) -> list[bytes]:
        """All of those, in one collection."""
        with self._lock:
            return [key for number, key in self._fresh if number == idx]

    def open(self, writer: RecordWriter) -> None:
        """A writer was opened."""
        with self._lock:
            self._writers[writer.place] = writer

    def writer(self, idx: int, key: bytes) -> RecordWriter | None:
        """The writer of a record, if it is open."""
        return self._writers.get((idx, key))

    def stored(self, place: tuple[int, bytes]) -> None:
        """It is in the store now."""
        with self._lock:
            self._fresh.pop(place, None)

    def close(self, writer: RecordWriter) -> None:
        """A writer is done."""
        with self._lock:
            if self._writers.get(writer.place) is writer:
                del self._writers[writer.place]

    def remove(self, place: tuple[int, bytes]) -> bool:
        """A record goes: its writer must not revive it.  Whether it was never stored."""
        with self._lock:
            writer = self._writers.pop(place, None)
            if writer is not None:
                writer.removed = True
            fresh = place in self._fresh
            self._fresh.pop(place, None)
            return fresh

    def set_time(self, ident: int, mtime_ns: int) -> None:
        """Keep a time until unmount; of many the oldest are forgotten."""
        with self._lock:
            self._times.pop(ident, None)
            self._times[ident] = mtime_ns
            if len(self._times) > MAX_TIMES:
                del self._times[next(iter(self._times))]

    def time(self, ident: int, otherwise: int) -> int:
        """The time that was set."""
        return self._times.get(ident, otherwise)


# -- records --


class WritableRecord(RecordFile, WritableFile):
    """A record that can be written."""

    def attributes(self) -> Attributes:
        writer = self.tree.pending_records.writer(self.collection.idx, self.key)
        if writer is not None:  # what is being written counts, stored or not
            return writer.attributes()
        if self._is_fresh():
            return Attributes(0, self.tree.pending_records.time(self.ident, self.tree.mtime_ns))
        found = super().attributes()
        return found._replace(mtime_ns=self.tree.pending_records.time(self.ident, found.mtime_ns))

    def open(self) -> Reader:
        if self._is_fresh():
            return BytesReader(b"", mtime_ns=self.tree.mtime_ns)
        return super().open()

    def open_writer(self, *, truncate: bool) -> Writer:
        self.tree.writer.check(self.collection, self.key)
        key = self.tree.naming.one_tuple(self.key)
        if key is None or not key.canonical:
            raise NotPermitted("a key that is not canonical cannot be written")
        self.tree.writer.check_packer(self.collection, self.key)
        fresh = self._is_fresh()
        if fresh:
            data = b""
        elif truncate:
            self.tree.store.locate(self.collection.idx, self.key)  # it must be there
            data = b""
        else:
            reader = super().open()
            data = reader.read_at(0, reader.attributes().size)
        writer = RecordWriter(self, data, dirty=truncate and not fresh)
        self.tree.pending_records.open(writer)
        return writer

    def set_times(self, *, mtime_ns: int) -> None:
        self.tree.pending_records.set_time(self.ident, mtime_ns)

    def _is_fresh(self) -> bool:
        return self.tree.pending_records.is_fresh(self.collection.idx, self.key)


class RecordWriter(Writer):
    """The bytes of a record while it is open for writing."""

    def __init__(self, file: WritableRecord, data: bytes, *, dirty: bool) -> None:
        self.place = (file.collection.idx, file.key)
        self.removed = False
        self._file = file
        self._data = bytearray(data)
        self._dirty = dirty
        self._version = 1
        self._mtime_ns = file.tree.pending_records.time(file.ident, time.time_ns() if dirty else file.tree.mtime_ns)
        self._lock = threading.Lock()

    def read_at(self, offset: int, size: int) -> bytes:
        with self._lock:
            return bytes(self._data[offset : offset + size])

    def attributes(self) -> Attributes:
        with self._lock:
            return Attributes(len(self._data), self._mtime_ns, self._version)

    def write_at(self, offset: int, data: bytes) -> None:
        with self._lock:
            self._check_size(offset + len(data))
            if offset > len(self._data):
                self._data.extend(bytes(offset - len(self._data)))
            self._data[offset : offset + len(data)] = data
            self._changed()

    def truncate(self, size: int) -> None:
        with self._lock:
            if size == len(self._data):
                return
            self._check_size(size)
            del self._data[size:]
            self._data.extend(bytes(size - len(self._data)))
            self._changed()

    def set_times(self, *, mtime_ns: int) -> None:
        self._mtime_ns = mtime_ns
        self._file.set_times(mtime_ns=mtime_ns)

    def sync(self) -> None:
        with self._lock:
            if self._dirty:
                self._store()

    def finish(self) -> None:
        with self._lock:
            if self._dirty or self._file._is_fresh():
                self._store()

    def close(self) -> None:
        self._file.tree.pending_records.close(self)

    def _store(self) -> None:
        if self.removed:
            return
        tree = self._file.tree
        tree.writer.put(self._file.collection, self._file.key, bytes(self._data))
        tree.pending_records.stored(self.place)
        self._dirty = False

    def _changed(self) -> None:
        self._dirty = True
        self._version += 1
        self._mtime_ns = time.time_ns()

    def _check_size(self, size: int) -> None:
        limit = self._file.tree.store.limits.value
        if size > limit:
            raise LimitExceeded(f"a record may have {limit} bytes at most")


class WritableRecords(RecordsDirectory, WritableDirectory):
    """``records/`` of a store that is mounted read-write."""

    def child(self, name: str) -> Node:
        key = self.tree.naming.key(self.collection.idx, name)
        if key is not None and self.tree.pending_records.is_fresh(self.collection.idx, key.data):
            return self.file(key.data)
        return super().child(name)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        """What is stored, and then what was made and is not stored yet."""
        naming = self.tree.naming
        fresh = sorted(self.tree.pending_records.fresh(self.collection.idx))
        keys = [key for key in map(naming.one_tuple, fresh) if key is not None]
        names = [naming.name(key) for key in keys]
        if after not in names:
            yield from super().entries(after)
        for name in names[names.index(after) + 1 if after in names else 0 :]:
            yield Entry(name, Kind.FILE)

    def file(self, key: bytes) -> File:
        return WritableRecord(self.tree, self.collection, key)

    def create(self, name: str, *, exclusive: bool) -> WritableFile:
        key = self._new_key(name)
        self.tree.writer.check(self.collection, key.data)
        file = WritableRecord(self.tree, self.collection, key.data)
        idx = self.collection.idx
        if self.tree.pending_records.is_fresh(idx, key.data) or self.tree.store.find(idx, key.data) is not None:
            if exclusive:
                raise AlreadyExists(member=name)
            return file
        self.tree.pending_records.make(idx, key.data)
        return file

    def _new_key(self, name: str) -> KeyTuple:
        if len(name.encode("utf-8", "surrogateescape")) > keynames.MAX_BYTES:
            raise NameTooLong(member=name)
        key = self.tree.naming.key(self.collection.idx, name)
        if key is None:
            advice = "see `archivefs centidb key encode --help`"
            raise NameNotHeld("it is not the name of a key", member=name, advice=advice)
        if not key.canonical:
            raise NotPermitted("a key that is not canonical cannot be written", member=name)
        return key

    def make_directory(self, name: str) -> Directory:
        raise NotPermitted("a collection has records and nothing else", member=name)

    def remove(self, name: str, *, kind: Kind) -> None:
        file = self.child(name)
        assert isinstance(file, WritableRecord)
        if kind is Kind.DIRECTORY:
            raise DirectoryExpected(member=name)
        key = self._new_key(name)
        self.tree.writer.check(self.collection, key.data)
        if not self.tree.pending_records.is_fresh(self.collection.idx, key.data):
            self.tree.writer.delete(self.collection, key.data)
        self.tree.pending_records.remove((self.collection.idx, key.data))

    def rename(self, name: str, to: Directory, to_name: str, *, replace: bool) -> None:
        # A record is its key: it cannot go on as another one.  This error makes `mv` copy and remove instead.
        self.child(name)
        raise OtherTree("a record is moved by copying it", member=name)

    def set_times(self, *, mtime_ns: int) -> None:
        self.tree.pending_records.set_time(self.ident, mtime_ns)

    def attributes(self) -> Attributes:
        return Attributes(0, self.tree.pending_records.time(self.ident, self.tree.mtime_ns))


# -- collections --


class CollectionDirectory(SmallDirectory, Changeable):
    """``collections/<name>/``: its own names stay, but a mode and a time can be set, as `mkdir` does."""

    def set_times(self, *, mtime_ns: int) -> None:
        self.tree.pending_records.set_time(self.ident, mtime_ns)


class WritableCollections(SmallDirectory, WritableDirectory):
    """``collections/`` of a store that is mounted read-write."""

    def create(self, name: str, *, exclusive: bool) -> WritableFile:
        raise NotPermitted("here are collections, which are made with mkdir", member=name)

    def make_directory(self, name: str) -> Directory:
        if name in self._makers():
            raise AlreadyExists(member=name)
        raw = keynames.parse_cname(name)
        if raw is None:
            raise NameNotHeld("it is not the name of a collection", member=name)
        idx = self.tree.writer.make_collection(raw)
        return self.tree.collection_directory(self._collection(idx))

    def _collection(self, idx: int) -> Collection:
        found = self.tree.store.metadata.collections.get(idx)
        if found is None:
            raise NotFound
        return found

    def remove(self, name: str, *, kind: Kind) -> None:
        self.child(name)
        if kind is not Kind.DIRECTORY:
            raise FileExpected(member=name)
        raise NotPermitted("a collection cannot be removed", member=name)

    def rename(self, name: str, to: Directory, to_name: str, *, replace: bool) -> None:
        self.child(name)
        raise NotPermitted("a collection cannot be renamed", member=name)

    def set_times(self, *, mtime_ns: int) -> None:
        self.tree.pending_records.set_time(self.ident, mtime_ns)
