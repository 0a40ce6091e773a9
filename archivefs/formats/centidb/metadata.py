"""What a store says of itself: collections, counters, encodings, in either layout.  Specification §5, §6.

A row that makes no sense is set aside (``lost``) and shown among the unknown keys; the rest works.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from archivefs.errors import ArchiveError, CorruptMember, quoted
from archivefs.formats.centidb import keys, packers
from archivefs.formats.centidb.dialects import Dialect
from archivefs.formats.centidb.engine import Engine, Item
from archivefs.formats.centidb.keys import Element
from archivefs.formats.centidb.packers import Packing

FIRST_IDX = 10
MAX_ROWS = 200_000
"""Rows of metadata that are read; a store with more of them is not one a program has made."""
MAX_ROW = 1 << 16
SCHEMES = ("key_scheme", "value_scheme", "packer_scheme")
TABLE, INDEX, ENCODER, COUNTER = range(4)
"""The kinds of rows where all metadata is in one table."""


@dataclass(frozen=True)
class Collection:
    """One collection."""

    name: bytes
    idx: int
    is_index: bool = False
    index_for: bytes | None = None
    fields: Mapping[str, Element] = field(default_factory=dict)
    """What else its row says."""

    @property
    def encoder(self) -> bytes:
        """The name of the encoder of its values, if the store tells; a hint only."""
        hint = self.fields.get("encoder", self.fields.get("value_scheme"))
        return name_bytes(hint) or b""


@dataclass
class Metadata:
    """All of it."""

    collections: dict[int, Collection] = field(default_factory=dict)
    encodings: dict[int, bytes] = field(default_factory=dict)
    counters: dict[bytes, int] = field(default_factory=dict)
    lost: set[bytes] = field(default_factory=set)
    """Keys of rows that make no sense, without the store's prefix."""
    problems: list[tuple[str, str, str]] = field(default_factory=list)
    """A code, where, and what is wrong."""

    def note(self, code: str, key: bytes, problem: str, *, lost: bool) -> None:
        """Keep a problem; the row is *lost* if it is to be shown among the unknown keys."""
        self.problems.append((code, key.hex(), problem))
        if lost:
            self.lost.add(key)

    def add(self, collection: Collection, key: bytes) -> None:
        """Take a collection, unless its number is taken."""
        if collection.idx in self.collections:
            first = quoted(self.collections[collection.idx].name)
            problem = f"collection {quoted(collection.name)} has the number {collection.idx} of {first} and is left out"
            self.note("meta-duplicate", key, problem, lost=False)
        else:
            self.collections[collection.idx] = collection

    def add_encoding(self, name: bytes, idx: int, key: bytes) -> None:
        """Take an encoding, unless its number is taken."""
        if idx in packers.BUILTIN or idx in self.encodings:
            self.note("meta-duplicate", key, f"encoding {quoted(name)} has the number {idx} of another", lost=False)
        else:
            self.encodings[idx] = name

    def add_counter(self, name: bytes, value: int, key: bytes) -> None:
        """Take a counter, unless there is one of that name (as bytes and as text)."""
        if name in self.counters:
            self.note("meta-duplicate", key, f"counter {quoted(name)} is there twice", lost=False)
        else:
            self.counters[name] = value

    # -- indices --

    def has_index(self, collection: Collection) -> bool:
        """Is there an index on it?"""
        return any(self.is_on(other, collection) for other in self.collections.values())

    def is_on(self, index: Collection, collection: Collection) -> bool:
        """Is it an index on that collection?"""
        parent = self.parent(index)
        return parent is not None and parent.idx == collection.idx

    def parent(self, index: Collection) -> Collection | None:
        """The collection an index is for, if there is one that is no index itself."""
        if not index.is_index or index.index_for is None:
            return None
        for other in self.collections.values():
            if other.name == index.index_for and not other.is_index:
                return other
        return None


def read_metadata(engine: Engine, prefix: bytes, dialect: Dialect) -> Metadata:
    """All rows; nothing is raised for what is wrong with one of them."""
    found = Metadata()
    if not dialect.readable:
        found.problems.append(("dialect", "", "the store was written by a version whose keys cannot be told apart"))
    elif dialect.one_table:
        _read_one_table(_rows(engine, prefix, 9, found), dialect, found)
    else:
        for table, take in ((2, _take_encoding), (0, _take_collection), (1, _take_counter)):
            for item in _rows(engine, prefix, table, found):
                try:
                    take(item, *_row(item, dialect, found.encodings), found)
                except ArchiveError as error:
                    found.note("meta-row", item.key, f"metadata row: {error.problem}", lost=True)
    return found


def _rows(engine: Engine, prefix: bytes, table: int, found: Metadata) -> Iterator[Item]:
    start = prefix + bytes((table,))
    for count, item in enumerate(engine.items(start, start, MAX_ROW)):
        if count == MAX_ROWS:
            found.problems.append(
                ("meta-limit", "", f"table {table} has more than {MAX_ROWS} rows; the rest is left out")
            )
            return
        yield item._replace(key=item.key[len(prefix) :])


def name_bytes(value: Element) -> bytes | None:
    """A name, which may be stored as text too."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return value if isinstance(value, bytes) else None


def _is_number(value: Element) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# -- three tables --


def _row(item: Item, dialect: Dialect, encodings: Mapping[int, bytes]) -> tuple[bytes, tuple[Element, ...]]:
    """The name in the key and the fields in the value."""
    values = keys.decode_tuple(item.key[1:], dialect).values
    name = name_bytes(values[0]) if len(values) == 1 else None
    if name is None:
        raise CorruptMember("its key is not one name")
    return name, keys.decode_tuple(_row_value(item, dialect, encodings), dialect).values


def _row_value(item: Item, dialect: Dialect, encodings: Mapping[int, bytes]) -> bytes:
    if item.value is None:
        raise CorruptMember("it is too large")
    if not dialect.numbered or item.value[:1] in (b"\x28", b"\x32"):
        return item.value
    packed = packers.taken_apart(item.value, 0, dialect, encodings)
    if packed.packing is Packing.OPAQUE:
        raise CorruptMember("its packer cannot be undone here")
    return packers.unpacked(packed, MAX_ROW).data


def _take_collection(item: Item, name: bytes, fields: tuple[Element, ...], found: Metadata) -> None:
    idx = _idx(fields)
    _compare_names(item, name, fields, found)
    parent = fields[2] if len(fields) > 2 else None
    index_for = name_bytes(parent)
    more = dict(zip((*SCHEMES, *(f"field_{number}" for number in range(7, len(fields) + 1))), fields[3:], strict=False))
    if parent is not None and index_for is None:
        found.note("meta-row", item.key, f"collection {quoted(name)}: the name of its parent is no name", lost=False)
    found.add(Collection(name, idx, parent is not None, index_for, more), item.key)


def _take_counter(item: Item, name: bytes, fields: tuple[Element, ...], found: Metadata) -> None:
    if len(fields) < 2 or not _is_number(fields[1]):
        raise CorruptMember("its value is not a number")
    _compare_names(item, name, fields, found)
    found.add_counter(name, fields[1], item.key)  # type: ignore[arg-type]


def _take_encoding(item: Item, name: bytes, fields: tuple[Element, ...], found: Metadata) -> None:
    idx = _idx(fields, builtin=True)
    _compare_names(item, name, fields, found)
    found.add_encoding(name, idx, item.key)


def _idx(fields: tuple[Element, ...], *, builtin: bool = False) -> int:
    if len(fields) < 2:
        raise CorruptMember("it has fewer than two fields")
    return _checked_idx(fields[1], builtin=builtin)


def _checked_idx(idx: Element, *, builtin: bool = False) -> int:
    if not _is_number(idx) or (idx < FIRST_IDX and not (builtin and idx in packers.BUILTIN)):  # type: ignore[operator]
        raise CorruptMember("its number is not one from 10 on")
    return idx  # type: ignore[return-value]


def _compare_names(item: Item, name: bytes, fields: tuple[Element, ...], found: Metadata) -> None:
    if name_bytes(fields[0]) != name:
        found.note(
            "meta-name", item.key, f"{quoted(name)} has another name in its value; that of its key counts", lost=False
        )


# -- one table --


@dataclass
class _Group:
    """The rows of one thing."""

    keys: list[bytes] = field(default_factory=list)
    attributes: dict[str, Element] = field(default_factory=dict)


def _read_one_table(rows: Iterator[Item], dialect: Dialect, found: Metadata) -> None:
    groups: dict[tuple[int, bytes], _Group] = {}
    for item in rows:
        try:
            kind, name, attribute, value = _attribute(item, dialect)
        except ArchiveError as error:
            found.note("meta-row", item.key, f"metadata row: {error.problem}", lost=True)
            continue
        if kind == COUNTER:
            _take_counter_row(item, name, attribute, value, found)
            continue
        group = groups.setdefault((kind, name), _Group())
        group.keys.append(item.key)
        group.attributes[(name_bytes(attribute) or b"").decode("utf-8", "backslashreplace")] = value
    for (kind, name), group in groups.items():
        _take_group(kind, name, group, found)


def _attribute(item: Item, dialect: Dialect) -> tuple[int, bytes, Element, Element]:
    values = keys.decode_tuple(item.key[1:], dialect).values
    if len(values) != 3 or values[0] not in (TABLE, INDEX, ENCODER, COUNTER) or not _is_number(values[0]):
        raise CorruptMember("its key is not a kind, a name and an attribute")
    name = name_bytes(values[1])
    if name is None or (values[0] != COUNTER and name_bytes(values[2]) is None):
        raise CorruptMember("its key has no name")
    content = keys.decode_tuple(_row_value(item, dialect, {}), dialect).values
    if len(content) != 1:
        raise CorruptMember("its value is not one value")
    return values[0], name, values[2], content[0]  # type: ignore[return-value]


def _take_counter_row(item: Item, name: bytes, attribute: Element, value: Element, found: Metadata) -> None:
    if attribute is not None or not _is_number(value):
        found.note("meta-row", item.key, f"counter {quoted(name)} is not a number", lost=True)
    else:
        found.add_counter(name, value, item.key)  # type: ignore[arg-type]


def _take_group(kind: int, name: bytes, group: _Group, found: Metadata) -> None:
    try:
        idx = _checked_idx(group.attributes.get("idx"), builtin=kind == ENCODER)
    except ArchiveError as error:
        for key in group.keys:
            found.note("meta-row", key, f"metadata of {quoted(name)}: {error.problem}", lost=True)
        return
    if kind == ENCODER:
        found.add_encoding(name, idx, group.keys[0])
        return
    more = {attribute: value for attribute, value in group.attributes.items() if attribute not in ("idx", "name")}
    parent = name_bytes(more.pop("index_for", None)) if kind == INDEX else None
    found.add(Collection(name, idx, kind == INDEX, parent, more), group.keys[0])


# -- writing --


def collection_rows(name: bytes, idx: int, dialect: Dialect) -> list[tuple[bytes, bytes]]:
    """The rows of a new collection, and of the counter that has moved on: keys without the store's prefix, values."""
    counter = b"\x00collections_idx"
    if not dialect.one_table:
        return [
            (b"\x00" + keys.encode_tuple([name], dialect), _value([name, idx, None], dialect)),
            (b"\x01" + keys.encode_tuple([counter], dialect), _value([counter, idx + 1], dialect)),
        ]
    encoder = b"pickle" if dialect.numbered else b"json"
    attributes: dict[bytes, Element] = {b"encoder": encoder, b"idx": idx, b"name": name}
    rows = [
        (_key(TABLE, name, attribute, dialect), _value([value], dialect)) for attribute, value in attributes.items()
    ]
    return [*rows, (_key(COUNTER, counter, None, dialect), _value([idx + 1], dialect))]


def _key(kind: int, name: bytes, attribute: Element, dialect: Dialect) -> bytes:
    return b"\x09" + keys.encode_tuple([kind, name, attribute], dialect)


def _value(fields: list[Element], dialect: Dialect) -> bytes:
    return packers.packed_value(keys.encode_tuple(fields, dialect), packers.PLAIN, dialect)
