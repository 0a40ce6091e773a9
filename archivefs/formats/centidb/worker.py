"""The process in which LMDB and LevelDB run: it reads requests from a socket and answers them, one at a time.

A damaged store kills the process that reads it (bus errors and assertions in C), so that process is this one and
never the mount.  It is started by ``client.py`` as a script and imports nothing of archivefs, to be there quickly;
``client.py`` imports the coding of messages from here.

A message is a list of byte strings or None.  A request is an operation and its arguments; an answer is ``ok`` and
what was asked for, or ``error``, a kind and a sentence.  One thread; no state but the open store and a transaction.
"""

from __future__ import annotations

import bisect
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

Message = list["bytes | None"]
MAX_ANSWER = 1 << 20
"""A scan stops when it has collected so many bytes."""
_NONE = 0xFFFFFFFF
_LARGEST_MAP = 1 << 44


# -- messages --


def packed(message: Sequence[bytes | None]) -> bytes:
    """A message as bytes."""
    parts = [struct.pack(">I", len(message))]
    for field in message:
        parts.append(struct.pack(">I", _NONE if field is None else len(field)))
        if field:
            parts.append(field)
    body = b"".join(parts)
    return struct.pack(">Q", len(body)) + body


def unpacked(body: bytes) -> Message:
    """The message of those bytes, without their length."""
    (count,) = struct.unpack_from(">I", body)
    message: Message = []
    at = 4
    for _ in range(count):
        (size,) = struct.unpack_from(">I", body, at)
        at += 4
        if size == _NONE:
            message.append(None)
        else:
            message.append(body[at : at + size])
            at += size
    return message


def received(connection: socket.socket) -> Message | None:
    """The next message, or None at the end; raises TimeoutError where the socket has a limit."""
    head = _exactly(connection, 8)
    if head is None:
        return None
    body = _exactly(connection, struct.unpack(">Q", head)[0])
    return None if body is None else unpacked(body)


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    data = bytearray(size)
    view = memoryview(data)
    at = 0
    while at < size:
        count = connection.recv_into(view[at:])
        if not count:
            return None
        at += count
    return bytes(data)


# -- the engines --


class Lmdb:
    """An LMDB environment, or one named database of it."""

    def __init__(self, path: str, *, db: str, writable: bool, lock: bool, consistent: bool) -> None:
        import lmdb

        self._lmdb = lmdb
        self._env = lmdb.open(
            path,
            map_size=0,  # as large as the file says
            subdir=os.path.isdir(path),
            readonly=not writable,
            lock=lock,
            create=False,
            max_dbs=1 if db else 0,
        )
        self._db = self._env.open_db(db.encode(), create=False) if db else None
        self._kept: Any = self._begin() if consistent and not writable else None
        self._writing: Any = None

    def get(self, key: bytes) -> bytes | None:
        try:
            return self._with(lambda txn: _copied(txn.get(key, db=self._db)))  # type: ignore[no-any-return]
        except self._lmdb.BadValsizeError:
            return None  # longer than any key can be

    def pairs(self, start: bytes, take: Callable[[Iterable[tuple[Any, Any]]], Message]) -> Message:
        def scan(txn: Any) -> Message:
            with txn.cursor(db=self._db) as cursor:
                found = cursor.set_range(start) if start else cursor.first()
                return take(cursor.iternext() if found else ())

        return self._with(scan)  # type: ignore[no-any-return]

    def state(self) -> int:
        return int(self._env.info()["last_txnid"])

    def longest_key(self) -> int:
        return int(self._env.max_key_size())

    def begin(self) -> None:
        self._writing = self._env.begin(write=True, buffers=True)

    def put(self, key: bytes, value: bytes) -> None:
        self._writing.put(key, value, db=self._db)

    def delete(self, key: bytes) -> None:
        self._writing.delete(key, db=self._db)

    def commit(self) -> None:
        writing, self._writing = self._writing, None
        writing.commit()

    def abort(self) -> None:
        if self._writing is not None:
            self._writing.abort()
            self._writing = None

    def grow(self) -> None:
        """Room for twice as much; the transaction is lost."""
        self.abort()
        size = self._env.info()["map_size"] * 2
        if size > _LARGEST_MAP:
            raise OSError(28, "the store cannot grow any further")
        self._env.set_mapsize(size)

    def close(self) -> None:
        self.abort()
        self._env.close()

    def _begin(self) -> Any:
        try:
            return self._env.begin(buffers=True)  # a scan for keys must not copy values
        except self._lmdb.MapResizedError:  # a writer beside us has made it larger
            self._env.set_mapsize(0)
            return self._env.begin(buffers=True)

    def _with(self, ask: Callable[[Any], Any]) -> Any:
        txn = self._writing or self._kept
        if txn is not None:
            return ask(txn)
        with self._begin() as txn:
            return ask(txn)


class LevelDb:
    """A LevelDB folder, which nobody else has open: a private copy, or the store itself when it is written."""

    def __init__(self, path: str) -> None:
        import plyvel

        self._db = plyvel.DB(path, create_if_missing=False)
        self._changes: dict[bytes, bytes | None] | None = None
        self._count = 0

    def get(self, key: bytes) -> bytes | None:
        if self._changes is not None and key in self._changes:
            return self._changes[key]
        return _copied(self._db.get(key, verify_checksums=True))

    def pairs(self, start: bytes, take: Callable[[Iterable[tuple[Any, Any]]], Message]) -> Message:
        with self._db.iterator(start=start, verify_checksums=True) as stored:
            return take(merged(stored, self._changes, start) if self._changes else stored)

    def state(self) -> int:
        return self._count

    def longest_key(self) -> int:
        return 1 << 20

    def begin(self) -> None:
        self._changes = {}

    def put(self, key: bytes, value: bytes) -> None:
        assert self._changes is not None
        self._changes[key] = value

    def delete(self, key: bytes) -> None:
        assert self._changes is not None
        self._changes[key] = None

    def commit(self) -> None:
        changes, self._changes = self._changes or {}, None
        with self._db.write_batch(transaction=True, sync=True) as batch:
            for key, value in changes.items():
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
        self._count += 1

    def abort(self) -> None:
        self._changes = None

    def grow(self) -> None:
        """There is always room."""

    def close(self) -> None:
        self._db.close()


def _copied(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def merged(
    stored: Iterable[tuple[bytes, bytes]], changes: dict[bytes, bytes | None], start: bytes
) -> Iterator[tuple[bytes, bytes]]:
    """What a scan would see if the changes were made already."""
    fresh = sorted(changes)
    fresh = fresh[bisect.bisect_left(fresh, start) :]
    at = 0
    for key, value in stored:
        while at < len(fresh) and fresh[at] < key:
            changed = changes[fresh[at]]
            if changed is not None:
                yield fresh[at], changed
            at += 1
        if key not in changes:
            yield key, value
    for late in fresh[at:]:
        changed = changes[late]
        if changed is not None:
            yield late, changed


# -- answering --


class Server:
    """Answers requests on an open store."""

    def __init__(self, engine: Lmdb | LevelDb) -> None:
        self._engine = engine

    def answer(self, request: Message) -> Message:
        """What is asked for; whatever goes wrong is raised."""
        operation, *arguments = request
        engine = self._engine
        if operation == b"get":
            return self._get(*arguments)  # type: ignore[arg-type]
        if operation == b"scan":
            return self._scan(*arguments)  # type: ignore[arg-type]
        if operation == b"state":
            return [b"ok", b"%d" % engine.state(), b"%d" % engine.longest_key()]
        if operation == b"put":
            engine.put(arguments[0] or b"", arguments[1] or b"")
        elif operation == b"delete":
            engine.delete(arguments[0] or b"")
        elif operation in (b"begin", b"commit", b"abort", b"grow"):
            getattr(engine, operation.decode())()
        return [b"ok"]

    def _get(self, key: bytes, limit: bytes) -> Message:
        value = self._engine.get(key)
        if value is not None and len(value) > int(limit):
            return [b"error", b"large", b"%d" % len(value)]
        return [b"ok", value]

    def _scan(self, start: bytes, within: bytes, count: bytes, value_limit: bytes) -> Message:
        """``ok``, whether there may be more, the sizes of the values, and the keys, each with its value if asked."""
        wanted, largest = int(count), int(value_limit)

        def take(pairs: Iterable[tuple[Any, Any]]) -> Message:
            fields: Message = []
            sizes: list[int] = []
            total = 0
            for raw, value in pairs:
                key = bytes(raw)
                if not key.startswith(within):
                    return self._found(fields, sizes, more=False)
                fields.append(key)
                sizes.append(len(value))
                if largest:
                    fields.append(bytes(value) if len(value) <= largest else None)
                    total += min(len(value), largest)
                total += len(key)
                if len(sizes) >= wanted or total > MAX_ANSWER:
                    return self._found(fields, sizes, more=True)
            return self._found(fields, sizes, more=False)

        return self._engine.pairs(start, take)

    @staticmethod
    def _found(fields: Message, sizes: list[int], *, more: bool) -> Message:
        return [b"ok", b"1" if more else b"0", struct.pack(f">{len(sizes)}Q", *sizes), *fields]


def kind_of(error: BaseException) -> str:
    """What the other side should make of it."""
    name = type(error).__name__
    if name == "MapFullError":
        return "full"
    if name in ("LockError", "ReadersFullError") or "lock" in str(error).lower():
        return "busy"
    if name == "NotFoundError":
        return "no-database"
    if isinstance(error, OSError) and error.errno == 28:
        return "no-space"
    return "damaged"


def serve(connection: socket.socket, options: Sequence[str]) -> None:
    """Open the store, say so, and answer until the other side is gone."""
    kind, path, db, *words = options
    try:
        if kind == "lmdb":
            flags = {word: word in words for word in ("writable", "lock", "consistent")}
            engine: Lmdb | LevelDb = Lmdb(path, db=db, **flags)
        else:
            engine = LevelDb(path)
    except Exception as error:
        connection.sendall(packed([b"error", kind_of(error).encode(), str(error).encode("utf-8", "replace")]))
        return
    server = Server(engine)
    connection.sendall(packed([b"ok", b"%d" % engine.state(), b"%d" % engine.longest_key()]))
    while True:
        request = received(connection)
        if request is None:
            break
        try:
            answer = server.answer(request)
        except Exception as error:
            answer = [b"error", kind_of(error).encode(), str(error).encode("utf-8", "replace")]
        connection.sendall(packed(answer))
    engine.close()


if __name__ == "__main__":
    del sys.path[0]  # this folder: none of its modules is meant to be found here
    with socket.socket(fileno=int(sys.argv[1])) as own_end:
        serve(own_end, sys.argv[2:])
