"""The records of a collection as files: ``records/``, ``decoded/`` and ``physical/``, and ``unknown/``.

Listings go by physical key and resume by seeking; nothing is kept between two pages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from archivefs.errors import ArchiveError, LimitExceeded, NotFound
from archivefs.formats.centidb import keynames
from archivefs.formats.centidb.keynames import CutName
from archivefs.formats.centidb.keys import KeyTuple
from archivefs.formats.centidb.metadata import Collection
from archivefs.formats.centidb.nodes import StoredFile, StoreDirectory, ident_of, version_of
from archivefs.formats.centidb.renderings import EXTENSIONS, Rendering
from archivefs.formats.centidb.store import MAX_CUT_WALK
from archivefs.readers import BytesReader
from archivefs.tree import Attributes, Entry, File, Kind, Node, Reader

if TYPE_CHECKING:
    from archivefs.formats.centidb.tree import CentidbTree


class RecordFile(File):
    """A record: its bytes as the application's encoder wrote them."""

    def __init__(self, tree: CentidbTree, collection: Collection, key: bytes) -> None:
        self.tree: CentidbTree = tree
        self.ident = ident_of("record", collection.idx, key)
        self.collection = collection
        self.key = key

    def attributes(self) -> Attributes:
        store = self.tree.store
        try:
            place, value = store.locate(self.collection.idx, self.key)
        except LimitExceeded:  # it is there, and cannot be read
            return Attributes(store.stored_size(self.collection.idx, self.key), self.tree.mtime_ns)
        return Attributes(store.size(place, value), self.tree.mtime_ns, version_of(value, place.member))

    def open(self) -> Reader:
        store = self.tree.store
        place, value = store.locate(self.collection.idx, self.key)
        data = store.read_value(place, value)
        return BytesReader(data, mtime_ns=self.tree.mtime_ns, version=version_of(value, place.member))


class RecordsDirectory(StoreDirectory):
    """``records/``, flat."""

    def __init__(self, tree: CentidbTree, collection: Collection) -> None:
        self.tree = tree
        self.ident = ident_of("records", collection.idx)
        self.collection = collection

    def child(self, name: str) -> Node:
        key = self.tree.naming.key(self.collection.idx, name)
        if key is None:
            raise NotFound(member=name)
        with suppress(LimitExceeded):  # then it is there, and too large to be read
            self.tree.store.locate(self.collection.idx, key.data)
        return self.file(key.data)

    def file(self, key: bytes) -> File:
        """The node of a record."""
        return RecordFile(self.tree, self.collection, key)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        naming = self.tree.naming
        key = None if after is None else naming.key(self.collection.idx, after)
        for named in self.tree.store.listed(self.collection.idx, None if key is None else key.data):
            yield Entry(naming.shown(named), Kind.FILE)


# -- decoded/ --


class DecodedFile(File):
    """A record made readable."""

    def __init__(self, tree: CentidbTree, collection: Collection, key: bytes, extension: str) -> None:
        self.tree: CentidbTree = tree
        self.ident = ident_of("decoded", collection.idx, key, extension)
        self._collection = collection
        self._key = key
        self._extension = extension

    def _made(self) -> tuple[bytes, int]:
        made = self.tree.rendering(self._collection, self._key)
        if made is None or made.extension != self._extension:
            raise NotFound
        return made.data, version_of(made.data)

    def attributes(self) -> Attributes:
        data, version = self._made()
        return Attributes(len(data), self.tree.mtime_ns, version)

    def open(self) -> Reader:
        data, version = self._made()
        return BytesReader(data, mtime_ns=self.tree.mtime_ns, version=version)


class DecodedDirectory(StoreDirectory):
    """``decoded/``.  Listing it reads every value; nothing else does."""

    def __init__(self, tree: CentidbTree, collection: Collection) -> None:
        self.tree = tree
        self.ident = ident_of("decoded/", collection.idx)
        self._collection = collection

    def child(self, name: str) -> Node:
        for extension in EXTENSIONS.values():
            key = self._key(name, extension)
            made = None if key is None else self._rendering(key.data)
            if key is not None and made is not None and made.extension == extension:
                return DecodedFile(self.tree, self._collection, key.data, extension)
        raise NotFound(member=name)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        start = None
        if after is not None:
            found = (self._key(after, extension) for extension in EXTENSIONS.values())
            start = next((key.data for key in found if key is not None), None)
        for named in self.tree.store.listed(self._collection.idx, start):
            made = self._rendering(named.data)
            if made is not None:
                yield Entry(self.tree.naming.shown(named, made.extension), Kind.FILE)

    def _key(self, name: str, extension: str) -> KeyTuple | None:
        if not name.endswith(extension):
            return None
        return self.tree.naming.key(self._collection.idx, name, extension)

    def _rendering(self, key: bytes) -> Rendering | None:
        try:
            return self.tree.rendering(self._collection, key)
        except ArchiveError:
            return None  # what cannot be read has no rendering; its record says why


# -- physical/ and unknown/ --


class KeysDirectory(StoreDirectory):
    """Stored values under the hex of their keys: those of one collection, or those that belong nowhere."""

    def __init__(self, tree: CentidbTree, base: bytes, place: str, *, unknown: bool) -> None:
        self.tree = tree
        self.ident = ident_of(place + "/", base)
        self._base = base
        self._place = place
        self._unknown = unknown

    def child(self, name: str) -> Node:
        physical = self._physical(name)
        item = None if physical is None else self.tree.store.item(physical)
        if item is None or not self._shows(item.key, item.size):
            raise NotFound(member=name)
        return StoredFile(self.tree, item.key, self._place)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        last = None if after is None else self._physical(after)
        start = self._base if last is None else last + b"\x00"
        for item in self.tree.store.engine.items(start, self._base):
            if self._shows(item.key, item.size):
                yield Entry(keynames.hex_name(item.key[len(self._base) :]), Kind.FILE)

    def _shows(self, physical: bytes, size: int) -> bool:
        return not self._unknown or self.tree.store.is_unknown(physical[len(self._base) :], size)

    def _physical(self, name: str) -> bytes | None:
        parsed = keynames.parse_hex(name)
        if not isinstance(parsed, CutName):
            return None if parsed is None else self._base + parsed
        start = self._base + parsed.bound
        for count, item in enumerate(self.tree.store.engine.items(start, start)):
            data = item.key[len(self._base) :]
            if hashlib.sha256(data).hexdigest().startswith(parsed.digest) and keynames.hex_name(data) == name:
                return item.key
            if count >= MAX_CUT_WALK:
                break
        return None
