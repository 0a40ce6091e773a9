"""Which dialect a store is in, by a few look-ups.  Specification §1."""

from __future__ import annotations

from archivefs.errors import CorruptMember, UnreadableArchive
from archivefs.formats.centidb import dialects, varints
from archivefs.formats.centidb.dialects import Dialect
from archivefs.formats.centidb.engine import Engine, Item
from archivefs.formats.centidb.keys import KINDS

_NAME = bytes.fromhex("8098edf6e3b1cae3ba9aadf6f3cdbee9b29e")
TABLES_COUNTER = b"\x01\x28" + _NAME + b"\x00"
ACID_COUNTER = b"\x09\x15\x03\x28" + _NAME + b"\x80\x0f"
LOSSY_COUNTER = b"\x09\x15\x03\x28" + _NAME + b"\x00\x0f"
SMALL = 4096


def detect(engine: Engine, prefix: bytes, wanted: str) -> Dialect:
    """The dialect; *wanted* is ``auto`` or one given by name.  Raises UnreadableArchive for what is no such store."""
    if wanted == "centidb":
        return dialects.CENTIDB
    if wanted == "auto" and engine.get(prefix + TABLES_COUNTER, SMALL) is not None:
        return dialects.CENTIDB
    counter = engine.get(prefix + ACID_COUNTER, SMALL)
    if counter is not None:
        return _acid(counter)
    if wanted == "auto" and engine.get(prefix + LOSSY_COUNTER, SMALL) is not None:
        return dialects.LOSSY
    first, _ = engine.scan(prefix, prefix, 1, SMALL)
    if wanted == "acid":
        return _acid(first[0].value or b"" if first else b"")
    return _by_first_key(first[0], prefix) if first else dialects.CENTIDB


def _acid(value: bytes) -> Dialect:
    return dialects.ACID_PREFIXED if value.startswith(b"\x03") else dialects.ACID_BARE


def _by_first_key(item: Item, prefix: bytes) -> Dialect:
    key = item.key[len(prefix) :]
    if key[:2] in (b"\x00\x28", b"\x01\x28", b"\x02\x28"):
        return dialects.CENTIDB
    if key[:2] == b"\x09\x15" and key[2:3] < b"\x10" and key[3:4] == b"\x28":
        return _acid(item.value or b"") if _reads_as_acid(key[1:]) else dialects.LOSSY
    advice = "name its prefix with -o prefix=HEX, its database with -o db=NAME or its dialect with -o dialect="
    raise UnreadableArchive("it is not a centidb store", advice=advice)


def _reads_as_acid(key: bytes) -> bool:
    """Does an element follow the name, and not the end mark of the lossy strings?"""
    at = 3
    while at < len(key) and key[at] >= 0x80:
        at += 1
    return at == len(key) or key[at] in KINDS


def collection_number(key: bytes) -> tuple[int, int] | None:
    """The collection's number at the beginning of a key and where the tuples begin; None if it is not well written."""
    try:
        number, at = varints.decode(key, 0)
    except CorruptMember:
        return None
    return (number, at) if at == varints.length(number) else None
