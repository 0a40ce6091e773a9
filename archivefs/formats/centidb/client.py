"""LMDB and LevelDB from a distance: the engine runs in a worker process, whose death is an error and not the end.

Each question has a time limit; a worker that does not answer in time is killed.  One that dies is started again
when the next question comes, after a pause that grows while it keeps dying.  A question that has killed a worker
is refused for a while, so that its neighbours can be read.

Any thread may ask; one question is under way at a time.  A transaction keeps the others waiting.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence

from archivefs.errors import (
    ArchiveError,
    CorruptArchive,
    CorruptMember,
    LimitExceeded,
    OperationTimedOut,
    OutOfSpace,
    SourceBusy,
    UnreadableArchive,
)
from archivefs.formats.centidb import worker
from archivefs.formats.centidb.engine import Changes, Engine, Item

TIMEOUT_S = 20.0
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 5.0
PATIENCE_S = 0.5
"""A pause up to this long is waited for; during a longer one questions are refused."""
WELL_AFTER = 50
"""Answers after which a worker counts as well, and the pauses begin anew."""
REFUSED_S = 30.0
MAX_REFUSED = 256
MAX_GROWTHS = 20


class Worker(Engine):
    """A store behind a worker process."""

    def __init__(
        self, kind: str, path: str, *, db: str = "", words: Sequence[str] = (), timeout_s: float = TIMEOUT_S
    ) -> None:
        self.kind = kind
        self._path = path
        self._words = words
        self._db = db
        self._locked = False
        self._timeout_s = timeout_s
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._deaths = 0
        self._answers = 0
        self._not_before = 0.0
        self._refused: dict[bytes, float] = {}
        self._writing = False
        self._closed = False
        with self._lock:
            self._start()

    # -- asking --

    def get(self, key: bytes, limit: int) -> bytes | None:
        return self._ask(b"get", key, b"%d" % limit)[0]

    def scan(self, start: bytes, within: bytes, count: int, value_limit: int = 0) -> tuple[list[Item], bool]:
        more, sizes, *fields = self._ask(b"scan", max(start, within), within, b"%d" % count, b"%d" % value_limit)
        numbers = struct.unpack(f">{len(sizes or b'') // 8}Q", sizes or b"")
        if value_limit:
            rows = zip(fields[::2], numbers, fields[1::2], strict=True)
            return [Item(key or b"", size, value) for key, size, value in rows], more == b"1"
        return [Item(key or b"", size) for key, size in zip(fields, numbers, strict=True)], more == b"1"

    def state(self) -> int:
        if not self._locked and self._lock_words():  # a writer has come, beside whom only the lock makes reading safe
            with self._lock:
                self._end()
        return int(self._ask(b"state")[0] or 0)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Changes]:
        """One at a time; what is asked inside is answered as if the changes had been made."""
        if not self._lock.acquire(timeout=self._timeout_s):
            raise OperationTimedOut("the store is busy", archive=self._path)
        try:
            self._ask(b"begin")
            self._writing = True
            try:
                yield _Changes(self)
                self._ask(b"commit")
            except BaseException:
                if self._connection is not None:
                    with contextlib.suppress(ArchiveError):
                        self._ask(b"abort")
                raise
            finally:
                self._writing = False
        finally:
            self._lock.release()

    def _ask(self, *request: bytes) -> worker.Message:
        if not self._lock.acquire(timeout=self._timeout_s):
            raise OperationTimedOut("the store is busy", archive=self._path)
        try:
            answer = self._exchange(worker.packed(request))
        finally:
            self._lock.release()
        if answer[0] == b"error":
            raise self._error((answer[1] or b"").decode(), (answer[2] or b"").decode("utf-8", "replace"))
        return answer[1:]

    def _exchange(self, request: bytes) -> worker.Message:
        self._check_refused(request)
        if self._connection is None:
            if self._writing:
                raise CorruptArchive("the engine ended in the middle of a change; nothing of it was made")
            self._restart()
        assert self._connection is not None
        try:
            self._connection.settimeout(self._timeout_s)
            self._connection.sendall(request)
            answer = worker.received(self._connection)
        except TimeoutError:
            self._bury(request)
            raise OperationTimedOut(f"the engine gave no answer in {self._timeout_s:g} s", archive=self._path) from None
        except OSError:
            answer = None
        if answer is None:
            raise self._bury(request)
        self._answers += 1
        if self._answers == WELL_AFTER:
            self._deaths = 0
        return answer

    def _error(self, kind: str, text: str) -> ArchiveError:
        if kind == "large":
            return LimitExceeded(f"its value has {text} bytes, more than the limit", archive=self._path)
        if kind == "busy":
            return SourceBusy(f"the engine says: {text}", archive=self._path)
        if kind == "no-space":
            return OutOfSpace(text, archive=self._path)
        if kind == "full":
            raise MapFull
        return CorruptMember(f"the engine says: {text}", archive=self._path)

    # -- the process --

    def _start(self) -> None:
        words = [*self._words, *([] if "lock" in self._words else self._lock_words())]
        self._locked = "lock" in words
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, worker.__file__, str(theirs.fileno()), self.kind, self._path, self._db, *words],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # an interrupt at the keyboard is for us
                )
            except BaseException:
                ours.close()
                raise
        self._connection = ours
        self._answers = 0
        try:
            ours.settimeout(self._timeout_s)
            told = worker.received(ours)
        except (TimeoutError, OSError):
            told = None
        if told is None:
            raise self._bury(b"")
        if told[0] == b"error":
            self._end()
            raise self._cannot_open((told[1] or b"").decode(), (told[2] or b"").decode("utf-8", "replace"))
        self.longest_key = int(told[2] or 0)

    def _lock_words(self) -> list[str]:
        """How it must be opened for reading: with its lock where there is one that can be used, never making one."""
        if self.kind != "lmdb":
            return []
        lock = os.path.join(self._path, "lock.mdb") if os.path.isdir(self._path) else self._path + "-lock"
        return ["lock"] if os.access(lock, os.R_OK | os.W_OK) else []

    def _cannot_open(self, kind: str, text: str) -> ArchiveError:
        if kind == "busy":
            return SourceBusy(f"the engine says: {text}", archive=self._path)
        advice = "name an existing database with -o db=NAME" if kind == "no-database" else ""
        return UnreadableArchive(f"the engine says: {text}", archive=self._path, advice=advice)

    def _restart(self) -> None:
        if self._closed:
            raise CorruptArchive("the store is closed", archive=self._path)
        pause = self._not_before - time.monotonic()
        if pause > PATIENCE_S:
            raise CorruptArchive("the engine keeps ending; it is tried again in a moment", archive=self._path)
        if pause > 0:
            time.sleep(pause)
        self._start()

    def _bury(self, request: bytes) -> CorruptArchive:
        """The worker is dead, or must be: remember what it died of, and when to try again."""
        status = self._end()
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**self._deaths)
        self._deaths += 1
        self._not_before = time.monotonic() + pause
        if request:
            while len(self._refused) >= MAX_REFUSED:
                del self._refused[next(iter(self._refused))]
            self._refused[request] = time.monotonic() + REFUSED_S
        reason = f"signal {-status}" if status < 0 else f"exit code {status}"
        return CorruptArchive(f"the engine ended with {reason}; the store is damaged", archive=self._path)

    def _check_refused(self, request: bytes) -> None:
        until = self._refused.get(request)
        if until is None:
            return
        if time.monotonic() < until:
            raise CorruptArchive(
                "the engine ended when it was asked for this; the store is damaged", archive=self._path
            )
        del self._refused[request]

    def _end(self) -> int:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        process, self._process = self._process, None
        if process is None:
            return 0
        try:
            return process.wait(1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def grow(self) -> None:
        """Room for more, where the engine has a bound."""
        self._ask(b"grow")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._end()


class MapFull(Exception):
    """The store is full as it was opened: `grow` and try again.  It never leaves the format."""


class _Changes(Changes):
    def __init__(self, engine: Worker) -> None:
        self._engine = engine

    def put(self, key: bytes, value: bytes) -> None:
        self._engine._ask(b"put", key, value)

    def delete(self, key: bytes) -> None:
        self._engine._ask(b"delete", key)
