"""The text of ``mdb_dump`` as an engine: needs no library; read only.

Where each pair lies is kept in a private temporary database, so neither the order of the dump nor its size matters.
The values stay in the dump, whose descriptor is kept open.  Any thread may ask; a lock guards the database.
"""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from typing import BinaryIO

from archivefs.errors import CorruptMember, LimitExceeded, UnreadableArchive
from archivefs.formats.centidb.engine import Engine, Item
from archivefs.readers import pread_exactly

HEADER_LINES = 100
MAX_KEY_LINE = 1 << 20
PIECE = 1 << 20
_HEX = re.compile(rb"(?:[0-9a-fA-F]{2})*")
_PRINTED = re.compile(rb"\\(?:\\|[0-9a-fA-F]{2})")


class Dump(Engine):
    """A dump, indexed when it is opened."""

    kind = "dump"

    def __init__(self, path: str, *, db: str = "") -> None:
        self._path = path
        self._lock = threading.Lock()
        self._file = open(path, "rb")
        try:
            self._printed = self._read_header(db)
            self._index = _new_index()
            with self._index:
                self._index.executemany("insert or ignore into pairs values (?, ?, ?)", self._places())
        except BaseException:
            self.close()
            raise

    # -- asking --

    def get(self, key: bytes, limit: int) -> bytes | None:
        with self._lock:
            row = self._index.execute("select at, size from pairs where key = ?", (key,)).fetchone()
        return None if row is None else self._value(row[0], row[1], limit)

    def scan(self, start: bytes, within: bytes, count: int, value_limit: int = 0) -> tuple[list[Item], bool]:
        query = "select key, at, size from pairs where key >= ? order by key limit ?"
        with self._lock:
            rows = self._index.execute(query, (max(start, within), count)).fetchall()
        items: list[Item] = []
        for key, at, size in rows:
            if not key.startswith(within):
                return items, False
            value = self._value(at, size) if value_limit or self._printed else None
            length = size // 2 if value is None else len(value)
            items.append(Item(key, length, value if length <= value_limit else None))
        return items, len(rows) == count

    def close(self) -> None:
        with self._lock:
            self._file.close()
            index = getattr(self, "_index", None)
            if index is not None:
                index.close()

    def _value(self, at: int, size: int, limit: int = 1 << 62) -> bytes:
        if size > (3 if self._printed else 2) * limit:
            raise self._too_large(size)
        value = self._decoded(pread_exactly(self._file.fileno(), size, at))
        if len(value) > limit:
            raise self._too_large(len(value))
        return value

    def _too_large(self, size: int) -> LimitExceeded:
        return LimitExceeded(f"its value takes {size} bytes, more than the limit", archive=self._path)

    # -- reading the text --

    def _read_header(self, db: str) -> bool:
        """Whether values are printed (``format=print``); the file stands after ``HEADER=END``."""
        while True:
            fields = dict(_header_fields(self._file, self._path))
            if fields.get(b"database", b"").decode("utf-8", "replace") == db or (not db and b"database" not in fields):
                break
            self._skip_database(db)
        form = fields.get(b"format", b"bytevalue")
        if form not in (b"bytevalue", b"print"):
            raise UnreadableArchive(f"the dump has the unknown format {form!r}", archive=self._path)
        return form == b"print"

    def _skip_database(self, db: str) -> None:
        for line in self._file:
            if line.startswith(b"DATA=END"):
                break
        if not self._file.peek(1):
            raise UnreadableArchive(f"the dump has no database {db!r}", archive=self._path)

    def _places(self) -> Iterator[tuple[bytes, int, int]]:
        while True:
            line = self._file.readline(MAX_KEY_LINE)
            if line.rstrip(b"\r\n") == b"DATA=END":
                return
            if not line.startswith(b" "):
                raise UnreadableArchive("the dump is cut off or damaged", archive=self._path)
            key = self._decoded(line[1:].rstrip(b"\r\n"))
            at = self._file.tell() + 1
            yield key, at, self._skip_value() - 1

    def _skip_value(self) -> int:
        """How long the next line is, of which no more than a piece is ever in memory."""
        size, piece = 0, self._file.readline(PIECE)
        if not piece.startswith(b" "):
            raise UnreadableArchive("the dump is cut off or damaged", archive=self._path)
        while piece and not piece.endswith(b"\n"):
            size += len(piece)
            piece = self._file.readline(PIECE)
        if not piece:
            raise UnreadableArchive("the dump is cut off or damaged", archive=self._path)
        return size + len(piece.rstrip(b"\r\n"))

    def _decoded(self, text: bytes) -> bytes:
        if self._printed:
            return _PRINTED.sub(
                lambda found: b"\\" if found[0] == b"\\\\" else bytes.fromhex(found[0][1:].decode()), text
            )
        if not _HEX.fullmatch(text):
            raise CorruptMember("the dump has something else than hex", archive=self._path)
        return bytes.fromhex(text.decode())


def _header_fields(file: BinaryIO, path: str) -> Iterator[tuple[bytes, bytes]]:
    for _ in range(HEADER_LINES):
        line = file.readline(4096).rstrip(b"\r\n")
        if line == b"HEADER=END":
            return
        name, _equals, value = line.partition(b"=")
        yield name, value
    raise UnreadableArchive("the dump has no end of its header", archive=path)


def _new_index() -> sqlite3.Connection:
    """An empty index in a file that is gone with its connection."""
    handle, name = tempfile.mkstemp(prefix="archivefs-dump-")
    os.close(handle)
    connection = sqlite3.connect(name, check_same_thread=False)
    # No journal: nothing of it is needed after a crash, and the file has no name any more.
    connection.execute("pragma journal_mode = off")
    connection.execute("pragma synchronous = off")
    connection.execute("create table pairs (key blob primary key, at integer, size integer) without rowid")
    connection.commit()
    os.unlink(name)
    return connection
