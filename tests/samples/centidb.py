"""Small centidb stores, made in code.  Written from the specification, with none of the code under test.

``StoreMaker`` collects physical entries as the library would have written them; ``write_lmdb``, ``write_leveldb`` and
``write_dump`` put them on disk.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from uuid import UUID

Entries = dict[bytes, bytes]
PACKERS: dict[int, Callable[[bytes], bytes]] = {3: bytes, 4: zlib.compress}

HOSTILE = b"\x80\x02cos\nmkdir\nq\x01U\x1eARCHIVEFS_PICKLE_WAS_EXECUTEDq\x02\x85q\x03Rq\x04."
"""Makes a folder of that name where anybody loads it."""
PLAIN_PICKLE = b"\x80\x02}q\x01(U\x04nameq\x02U\x03bobq\x03X\x03\x00\x00\x00ageq\x04K\x05U\x01lq\x05]q\x06(K\x01Neu."
"""{b"name": b"bob", "age": 5, b"l": [1, None]}, as Python 2 wrote it."""


# -- the key coding, once more and simply --


def number(value: int) -> bytes:
    if value <= 240:
        return bytes([value])
    if value <= 2287:
        return bytes([241 + (value - 240) // 256, (value - 240) % 256])
    if value <= 67823:
        return b"\xf9" + struct.pack(">H", value - 2288)
    raw = value.to_bytes(8, "big").lstrip(b"\0").rjust(3, b"\0")
    return bytes([0xF7 + len(raw)]) + raw


def string(data: bytes, *, acid: bool) -> bytes:
    bits = "".join(f"{byte:08b}" for byte in data)
    groups = [bits[at : at + 7].ljust(7, "0") for at in range(0, len(bits), 7)]
    out = [0x80 | int(group, 2) for group in groups]
    if not acid:
        out = [*out[:-1], out[-1] & 0x7F] if out else [0]
    return bytes(out)


def element(value: object, *, acid: bool) -> bytes:
    if value is None:
        return b"\x0f"
    if isinstance(value, bool):
        return b"\x1e" + bytes([value])
    if isinstance(value, int) and value >= 0:
        return b"\x15" + number(value)
    if isinstance(value, int):
        body = number(-value)
        return b"\x14" + (bytes(255 - byte for byte in body) if acid else body)
    if isinstance(value, bytes):
        return b"\x28" + string(value, acid=acid)
    if isinstance(value, str):
        return b"\x32" + string(value.encode("utf-8", "surrogatepass"), acid=acid)
    assert isinstance(value, UUID)
    return b"\x5a" + value.bytes


def key(*values: object, acid: bool = False) -> bytes:
    """One encoded tuple."""
    return b"".join(element(value, acid=acid) for value in values)


# -- a store --


class StoreMaker:
    """The entries of one store, in any of the dialects."""

    def __init__(self, *, acid: bool = False, bare: bool = False, prefix: bytes = b"") -> None:
        self.acid = acid
        self.bare = bare
        self.prefix = prefix
        self.entries: Entries = {}
        self._counters: dict[bytes, int] = {}

    def key(self, *values: object) -> bytes:
        return key(*values, acid=self.acid)

    def put(self, physical: bytes, value: bytes) -> None:
        self.entries[self.prefix + physical] = value

    def count(self, name: bytes, start: int = 1) -> int:
        value = self._counters.get(name, start)
        self._counters[name] = value + 1
        if self.acid:
            self.put(b"\x09" + self.key(3, name, None), self.plain(self.key(value + 1)))
        else:
            self.put(b"\x01" + self.key(name), self.plain(self.key(name, value + 1)))
        return value

    def plain(self, data: bytes) -> bytes:
        return data if self.bare else b"\x03" + data

    def collection(self, name: bytes, parent: bytes | None = None, *more: object) -> int:
        idx = self.count(b"\x00collections_idx", 10)
        if not self.acid:
            self.put(b"\x00" + self.key(name), self.plain(self.key(name, idx, parent, *more)))
            return idx
        attributes = {b"name": name, b"idx": idx, **({b"index_for": parent} if parent else {b"encoder": b"json"})}
        for attribute, value in attributes.items():
            self.put(b"\x09" + self.key(1 if parent else 0, name, attribute), self.plain(self.key(value)))
        return idx

    def encoding(self, name: bytes) -> int:
        counter = b"\x00encoder_idx" if self.acid else b"\x00encodings_idx"
        idx = self.count(counter, 10)
        if self.acid:
            self.put(b"\x09" + self.key(2, name, b"idx"), self.plain(self.key(idx)))
        else:
            self.put(b"\x02" + self.key(name), self.plain(self.key(name, idx)))
        return idx

    def record(self, idx: int, values: Sequence[object], data: bytes, packer: int = 3) -> None:
        stored = data if self.bare else number(packer) + PACKERS.get(packer, bytes)(data)
        self.put(number(idx) + self.key(*values), stored)

    def batch(self, idx: int, members: Iterable[tuple[Sequence[object], bytes]], packer: int = 3) -> None:
        rows = sorted((self.key(*values), data) for values, data in members)
        physical = b"\x66".join(encoded for encoded, _ in reversed(rows))
        head = number(len(rows)) + b"".join(number(len(data)) for _, data in rows)
        body = PACKERS[packer](b"".join(data for _, data in rows))
        self.put(number(idx) + physical, head + (b"" if self.bare else number(packer)) + body)

    def batch2(self, idx: int, members: Iterable[tuple[Sequence[object], bytes]], *, zipped: bool) -> None:
        rows = sorted((self.key(*values), data) for values, data in members)
        lowest, highest = rows[0][0], rows[-1][0]
        shared = 0
        while shared < min(len(lowest), len(highest)) and lowest[shared] == highest[shared]:
            shared += 1
        items = [bytes([len(encoded) - shared]) + encoded[shared:] + data for encoded, data in rows]
        offsets = [2 * len(items) + 6]
        for item in items:
            offsets.append(offsets[-1] + len(item))
        block = struct.pack(f">{len(items) + 3}H", len(items), *offsets, 0) + b"".join(items)
        self.put(number(idx) + highest + b"\x66" + lowest, zlib.compress(block) if zipped else block)

    def entry(self, idx: int, values: Sequence[object], record: Sequence[object]) -> None:
        self.put(number(idx) + self.key(*values) + b"\x66" + self.key(*record), b"")


PEOPLE = [("Alfred", "Nairobi", 46), ("Jemima", "Madrid", 64), ("Zoë", "Köln", 0)]


def library() -> StoreMaker:
    """Collections of all kinds: key-coded values with indices, JSON, batches, pickles, odd packers."""
    made = StoreMaker()
    people = made.collection(b"people")
    by_name = made.collection(b"index:people:name", b"people")
    by_city = made.collection(b"index:people:city_age", b"people")
    for name, city, age in PEOPLE:
        record = (made.count(b"key:people"),)
        made.record(people, record, made.key(name, city, age))
        made.entry(by_name, (name,), record)
        made.entry(by_city, (city, age), record)
    made.encoding(b"json")
    notes = made.collection(b"notes", None, None, b"json", None)
    for at in range(3):
        made.record(notes, (b"note", at), json.dumps({"n": at}).encode(), 4 if at else 3)
    pages = made.collection(b"pages")
    urls = [((f"http://bbb.example/page?id={at}".encode(),), f"<html>{at}</html>".encode() * 9) for at in range(1, 9)]
    made.batch(pages, urls[:3], 4)
    made.batch(pages, urls[3:5], 3)
    made.record(pages, urls[5][0], urls[5][1], 4)
    made.batch(pages, urls[6:], 4)
    pickles = made.collection(b"pickles")
    made.record(pickles, (b"dict",), PLAIN_PICKLE)
    made.record(pickles, (b"hostile",), HOSTILE)
    odd = made.collection(b"odd packers")
    made.record(odd, (1,), b"backwards", made.encoding(b"reversed"))
    mixed = made.collection(b"mixed")
    for at, values in enumerate(MIXED):
        made.record(mixed, values, b"value %d\n" % at)
    made.collection(b"weird/name\x00\xff")
    made.count(b"visits", 41)
    return made


MIXED: list[tuple[object, ...]] = [
    (),
    (None,),
    (0,),
    (67824,),
    (2**64 - 1,),
    (-300,),
    (True,),
    (b"",),
    (b"a",),
    (b"`a",),
    (b"\x00\xff/..\n",),
    ("café",),
    ("\u4e2d/\u202e",),
    (UUID(int=7),),
    ("user", 613, b"end"),
    ("user", 613),
    ("user", 614, "x"),
    ("user",),
    (".",),
    ("x" * 300,),
    ("y", "z" * 300),
]


def overlapping() -> StoreMaker:
    """One collection in which batches overlap, hide and are hidden."""
    made = StoreMaker()
    idx = made.collection(b"overlap")
    made.batch(idx, [((1,), b"batch one"), ((2,), b"batch two"), ((5,), b"batch five")])
    made.record(idx, (2,), b"single two")
    made.record(idx, (2, b"x"), b"single two x")
    made.record(idx, (3,), b"single three")
    made.batch(idx, [((6,), b"outer six"), ((9,), b"outer nine")])
    made.batch(idx, [((7,), b"inner seven"), ((8,), b"inner eight")], 4)
    made.batch(idx, [((9,), b"later nine"), ((12,), b"twelve")])
    return made


OVERLAPPING = {
    "Pa1": b"batch one",
    "Pa2": b"single two",
    "Pa2,Rx": b"single two x",
    "Pa3": b"single three",
    "Pa5": b"batch five",
    "Pa6": b"outer six",
    "Pa7": b"inner seven",
    "Pa8": b"inner eight",
    "Pa9": b"outer nine",
    "Pb12": b"twelve",
}


def acid(*, bare: bool) -> StoreMaker:
    """A store of the later dialect."""
    made = StoreMaker(acid=True, bare=bare)
    people = made.collection(b"people")
    ages = made.collection(b"index:people:age", b"people")
    for name, _, age in PEOPLE:
        record = (made.count(b"key:people"),)
        made.record(people, record, json.dumps({"name": name}).encode())
        made.entry(ages, (age - 40,), record)
    pages = made.collection(b"pages")
    for letter in "ab":
        members = [((letter, at), b'{"page":%d}' % at) for at in range(4)]
        if bare:
            made.batch2(pages, members, zipped=letter == "a")
        else:
            made.batch(pages, members, 4)
    mixed = made.collection(b"mixed")
    for at, values in enumerate([(-1,), (-2,), (-300,), (b"a",), (b"`a",), (b"", b""), ("",), (b"", 1)]):
        made.record(mixed, values, b"%d" % at)
    return made


# -- on disk --


def write_lmdb(path: Path, entries: Mapping[bytes, bytes], *, name: str = "", subdir: bool = True) -> Path:
    """An LMDB store without a lock file, as one that was copied here."""
    import lmdb

    environment = lmdb.open(str(path), map_size=1 << 26, subdir=subdir, max_dbs=1 if name else 0)
    database = environment.open_db(name.encode()) if name else None
    with environment.begin(write=True) as transaction:
        for physical in sorted(entries):
            transaction.put(physical, entries[physical], db=database)
    environment.close()
    (path / "lock.mdb" if subdir else path.with_name(path.name + "-lock")).unlink()
    return path


def write_leveldb(path: Path, entries: Mapping[bytes, bytes]) -> Path:
    import plyvel

    database = plyvel.DB(str(path), create_if_missing=True)
    for physical in sorted(entries):
        database.put(physical, entries[physical])
    database.close()
    return path


def write_dump(path: Path, entries: Mapping[bytes, bytes], *, printed: bool = False, ordered: bool = True) -> Path:
    """The text of ``mdb_dump``."""
    form = "print" if printed else "bytevalue"
    shown = _printed if printed else bytes.hex
    rows = sorted(entries.items(), reverse=not ordered)
    lines = [f" {shown(part)}\n" for row in rows for part in row]
    head = f"VERSION=3\nformat={form}\ntype=btree\nmapsize=1048576\nHEADER=END\n"
    path.write_text(head + "".join(lines) + "DATA=END\n", encoding="ascii")
    return path


def _printed(data: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F and byte != 0x5C else f"\\{byte:02x}" for byte in data)
