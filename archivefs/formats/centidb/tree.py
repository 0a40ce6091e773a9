"""CentidbTree: a centidb store as a tree of files.  Specification §9.

Everything large is listed by seeking in the store; metadata is in memory and read again when it has changed.  A
LMDB store lives: its last transaction's number tells whether others have written.  LevelDB and dumps are snapshots.

Any thread may call anything; what is shared is guarded in ``store.py``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from archivefs.errors import BadOption
from archivefs.format import Opening
from archivefs.formats.centidb import keynames, packers, renderings, yamltext
from archivefs.formats.centidb.indices import IndexDirectory
from archivefs.formats.centidb.keys import KeyTuple
from archivefs.formats.centidb.metadata import Collection, Metadata
from archivefs.formats.centidb.naming import Naming
from archivefs.formats.centidb.nesting import NestedDirectory
from archivefs.formats.centidb.nodes import MadeFile, Makers, SmallDirectory, SteadyFile, ident_of, version_of
from archivefs.formats.centidb.places import Limits
from archivefs.formats.centidb.records import DecodedDirectory, KeysDirectory, RecordsDirectory
from archivefs.formats.centidb.renderings import Rendering
from archivefs.formats.centidb.sources import main_file, open_engine
from archivefs.formats.centidb.store import Store
from archivefs.formats.centidb.writable import CollectionDirectory, Pending, WritableCollections, WritableRecords
from archivefs.formats.centidb.writing import StoreWriter
from archivefs.staging.locks import WriterLock
from archivefs.tree import ROOT_IDENT, Directory, Kind, Tree, Usage

LOSSY_WARNING = "written by a version that lost data when it wrote keys; everything is under unknown/"


def open_store(path: str, opening: Opening) -> Store:
    """The store at *path*, opened as the options say."""
    options = opening.options
    engine = open_engine(path, options, read_write=opening.read_write)
    limits = Limits(
        value=options.get("max_value") or packers.MAX_VALUE,
        rendering=options.get("max_rendering") or 4 << 20,
        walk=options.get("walk") or 4096,
    )
    try:
        return Store(
            engine,
            prefix=options.get("prefix") or b"",
            dialect=options.get("dialect") or "auto",
            cache=opening.cache,
            limits=limits,
            archive=path,
        )
    except BaseException:
        engine.close()
        raise


class CentidbTree(Tree):
    """An opened store."""

    def __init__(self, path: str, opening: Opening) -> None:
        options = opening.options
        self._path = path
        self._db = str(options.get("db") or "")
        self._nested = options.get("layout") == "nested"
        hexed = options.get("names") == "hex"
        if self._nested and hexed:
            raise BadOption("layout=nested needs names=readable", archive=path)
        if self._nested and opening.read_write:
            raise BadOption("layout=nested is read-only; leave it out to write", archive=path)
        self._cache = opening.cache
        self.mtime_ns = self._mtime_ns()
        self._lock = WriterLock(path) if opening.read_write else None
        try:
            self.store = open_store(path, opening)
        except BaseException:
            self._unlock()
            raise
        self.writable = opening.read_write
        self.writer = StoreWriter(self.store, stale_indices=options.get("stale_indices") == "ok")
        self.pending_records = Pending()
        lives = self.store.engine.kind == "lmdb" and not options.get("consistent")
        self.immutable = not lives and not opening.read_write
        self.naming = Naming(self.store, hexed=hexed)
        self._shown: tuple[Metadata, dict[str, Makers]] | None = None

    # -- the contract --

    def root(self) -> Directory:
        return SmallDirectory(self, ROOT_IDENT, self._root_makers)

    def generation(self) -> int:
        if self.immutable:
            return 0
        generation = self.store.generation()
        self.mtime_ns = self._mtime_ns()
        return generation

    def usage(self) -> Usage:
        if not os.path.isdir(self._path):
            return Usage(size=os.path.getsize(self._path))
        with os.scandir(self._path) as entries:
            return Usage(size=sum(entry.stat().st_size for entry in entries if entry.is_file()))

    def facts(self) -> Mapping[str, object]:
        metadata = self.store.metadata
        tables = [collection for collection in metadata.collections.values() if not collection.is_index]
        return {
            "engine": self.store.engine.kind,
            "dialect": self._dialect_text(),
            "prefix": self.store.prefix.hex(),
            "database": self._db,
            "collections": [keynames.cname(collection.name) for collection in tables],
            "indices": len(metadata.collections) - len(tables),
            "counters": len(metadata.counters),
            "encodings": len(metadata.encodings),
            "problems": len(self.store.problems),
        }

    def close(self) -> None:
        self.store.close()
        self._unlock()
        self._cache.forget(("centidb-renderings", id(self)))

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()

    # -- for the nodes --

    def rendering(self, collection: Collection, key: bytes) -> Rendering | None:
        """A record made readable; None if it is binary.  Raises what reading it raises."""
        place, value = self.store.locate(collection.idx, key)
        token = (("centidb-renderings", id(self)), collection.idx, key, version_of(value, place.member))
        found: tuple[Rendering | None] | None = self._cache.get(token)
        if found is None:
            data = self.store.read_value(place, value)
            limit = self.store.limits.rendering
            found = (renderings.render(data, collection.encoder, self.store.dialect, limit),)
            self._cache.put(token, found, len(found[0].data) if found[0] else 0)
        return found[0]

    def record_path(self, key: KeyTuple) -> str:
        """Where a record is below ``records/``."""
        return "/".join(self.naming.parts(key)) if self._nested else self.naming.name(key)

    def shown_index(self, index: Collection) -> str:
        """How an index is called in messages."""
        return keynames.cname(index.name)

    # -- what is where --

    def _root_makers(self) -> Makers:
        store = self.store
        return {
            "store.yaml": (Kind.FILE, lambda: MadeFile(self, self._store_yaml, "store.yaml")),
            "errors.txt": (Kind.FILE, lambda: MadeFile(self, store.problems.text, "errors.txt")),
            "counters": (Kind.DIRECTORY, lambda: self._small("counters")),
            "encodings": (Kind.DIRECTORY, lambda: self._small("encodings")),
            "collections": (Kind.DIRECTORY, lambda: self._small("collections")),
            "unknown": (Kind.DIRECTORY, lambda: KeysDirectory(self, store.prefix, "unknown", unknown=True)),
        }

    def _small(self, name: str) -> Directory:
        kind = WritableCollections if self.writable and name == "collections" else SmallDirectory
        return kind(self, ident_of("folder", name), lambda: self.listed(name))

    def listed(self, name: str) -> Makers:
        """What is in ``counters/``, ``encodings/`` or ``collections/``; made once for each state of the metadata."""
        metadata = self.store.metadata
        if self._shown is None or self._shown[0] is not metadata:
            self._shown = (
                metadata,
                {
                    "counters": self._counters(metadata),
                    "encodings": self._encodings(metadata),
                    "collections": self._collections(metadata),
                },
            )
        return self._shown[1][name]

    def _counters(self, metadata: Metadata) -> Makers:
        makers: dict[str, tuple[Kind, object]] = {}
        for name, value in metadata.counters.items():
            text = f"{value}\n"
            file = SteadyFile(self, lambda text=text: text, "counter", keynames.cname(name))  # type: ignore[misc]
            makers[keynames.cname(name)] = (Kind.FILE, lambda file=file: file)
        return makers  # type: ignore[return-value]

    def _encodings(self, metadata: Metadata) -> Makers:
        makers: dict[str, tuple[Kind, object]] = {}
        for idx, name in {**packers.BUILTIN, **metadata.encodings}.items():
            fields = {
                "name": yamltext.name_value(name),
                "idx": idx,
                "builtin": idx in packers.BUILTIN,
                "usable": idx in packers.BUILTIN,
            }
            text = yamltext.mapping(fields)
            file = SteadyFile(self, lambda text=text: text, "encoding", idx)  # type: ignore[misc]
            makers[keynames.encoding_name(idx, name)] = (Kind.FILE, lambda file=file: file)
        return makers  # type: ignore[return-value]

    def _collections(self, metadata: Metadata) -> Makers:
        makers: dict[str, tuple[Kind, object]] = {}
        for collection in metadata.collections.values():
            if not collection.is_index or self.store.metadata.parent(collection) is None:
                shown = keynames.cname(collection.name)
                if shown in makers:
                    shown = f"{shown}~{collection.idx}"
                makers[shown] = (Kind.DIRECTORY, lambda collection=collection: self.collection_directory(collection))
        return makers  # type: ignore[return-value]

    def collection_directory(self, collection: Collection) -> Directory:
        """``collections/<name>/``."""
        kind = CollectionDirectory if self.writable else SmallDirectory
        return kind(self, ident_of("collection", collection.idx), lambda: self._parts_of(collection))

    def _parts_of(self, collection: Collection) -> Makers:
        base = self.store.base(collection.idx)
        makers = {
            "info.yaml": (Kind.FILE, lambda: MadeFile(self, lambda: self._info(collection), "info", collection.idx)),
            "physical": (Kind.DIRECTORY, lambda: KeysDirectory(self, base, "physical", unknown=False)),
        }
        if collection.is_index:
            return {**makers, "entries": (Kind.DIRECTORY, lambda: IndexDirectory(self, collection, None))}
        return {
            **makers,
            "records": (Kind.DIRECTORY, lambda: self.records(collection)),
            "decoded": (Kind.DIRECTORY, lambda: DecodedDirectory(self, collection)),
            "indices": (
                Kind.DIRECTORY,
                lambda: SmallDirectory(self, ident_of("indices", collection.idx), lambda: self._indices(collection)),
            ),
        }

    def records(self, collection: Collection) -> Directory:
        """``records/`` of a collection."""
        if self.writable:
            return WritableRecords(self, collection)
        return NestedDirectory(self, collection) if self._nested else RecordsDirectory(self, collection)

    def _indices(self, parent: Collection) -> Makers:
        makers: dict[str, tuple[Kind, object]] = {}
        for index in self.store.metadata.collections.values():
            if self.store.metadata.is_on(index, parent):
                shown = keynames.cname(index.name.removeprefix(b"index:" + parent.name + b":"))
                if shown in makers:
                    shown = f"{shown}~{index.idx}"
                makers[shown] = (Kind.DIRECTORY, lambda index=index: IndexDirectory(self, index, parent))
        return makers  # type: ignore[return-value]

    # -- texts --

    def _store_yaml(self) -> str:
        store = self.store
        fields: dict[str, object] = {
            "engine": store.engine.kind,
            "dialect": self._dialect_text(),
            "prefix": store.prefix.hex(),
            "db": self._db or None,
            "warnings": len(store.problems),
        }
        if not store.dialect.readable:
            fields["warning"] = LOSSY_WARNING
        names = {str(idx): yamltext.name_value(one.name) for idx, one in sorted(store.metadata.collections.items())}
        lines = "".join(f"  {line}\n" for line in yamltext.mapping(names).splitlines())
        return yamltext.mapping(fields) + (f"collections:\n{lines}" if lines else "collections: {}\n")

    def _dialect_text(self) -> str:
        dialect = self.store.dialect
        return dialect.name if dialect.name != "acid" else f"acid-{'prefixed' if dialect.numbered else 'bare'}"

    def _info(self, collection: Collection) -> str:
        store = self.store
        fields: dict[str, object] = {
            "name": yamltext.name_value(collection.name),
            "idx": collection.idx,
            "prefix": store.base(collection.idx).hex(),
            "index_for": None if collection.index_for is None else yamltext.name_value(collection.index_for),
            **{
                name: yamltext.name_value(value) if isinstance(value, bytes) else value
                for name, value in collection.fields.items()
            },
        }
        fields["encoder_hint"] = yamltext.name_value(collection.encoder) if collection.encoder else None
        if collection.idx in store.counts:
            fields["count"] = store.counts[collection.idx]
        stale = [count for (idx, _), count in list(store.stale.items()) if self._belongs(idx, collection)]
        if stale:
            fields["stale"] = sum(stale)
        return yamltext.mapping(fields)

    def _belongs(self, idx: int, collection: Collection) -> bool:
        index = self.store.metadata.collections.get(idx)
        return index is not None and self.store.metadata.is_on(index, collection)

    def _mtime_ns(self) -> int:
        try:
            return os.stat(main_file(self._path)).st_mtime_ns
        except OSError:
            return getattr(self, "mtime_ns", 0)
