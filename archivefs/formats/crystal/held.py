"""The database of a project held by one writer: nobody else gets in while it is open.

Used by a read-write mount, for reading as well: SQLite's exclusive lock shuts out every other connection, those of our
own process too.  It follows that nothing changes but by our doing, so nothing has to be looked at again and again.

Threading: one lock; a transaction holds it from its beginning to its end, and readers wait that long.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from archivefs.errors import ArchiveError, UsageError
from archivefs.format import LEAVE_OUT_RW
from archivefs.formats.crystal.connection import BUSY_TIMEOUT_S, Connection, Page, explain
from archivefs.formats.crystal.database import QUERY_BUDGET_S, Database
from archivefs.formats.crystal.location import Place
from archivefs.formats.crystal.recipe import State, Way, look_at

WAIT_MS = 1500
"""How long somebody else may take to let go of the database before he counts as being there."""
_CHANGED_TABLES = frozenset({"resource", "resource_revision", "sqlite_master"})
_CHANGING = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
_STEPS = frozenset({sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT})
_WAL = 2
_LEAVING = (
    "pragma locking_mode=normal",
    "select 1 from sqlite_master limit 1",
    "pragma journal_mode=truncate",
    "pragma journal_mode=delete",
)
"""Has SQLite remove a journal that an exclusive writer has left, also one who was killed: emptied, but not removed."""


class HeldConnection(Connection):
    """A connection that may add, change and remove rows of the two tables that a writer changes."""

    last_pragmas = (f"busy_timeout={WAIT_MS}", "synchronous=full", "foreign_keys=off", "locking_mode=exclusive")

    @staticmethod
    def authorize(action: int, first: str | None, second: str | None, database: str | None, by: str | None) -> int:
        """Reading, and changing those rows; never because a trigger or a view says so (*by*)."""
        if by is None and (action in _STEPS or (action in _CHANGING and first in _CHANGED_TABLES)):
            return sqlite3.SQLITE_OK
        return Connection.authorize(action, first, second, database, by)

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run a statement that gives no rows; says how many it has changed."""
        self._deadline = time.monotonic() + QUERY_BUDGET_S
        cursor = self._connection.execute(sql, parameters)
        try:
            return cursor.rowcount
        finally:
            cursor.close()

    @property
    def in_transaction(self) -> bool:
        """Has a change begun that is neither committed nor taken back?"""
        return self._connection.in_transaction


class HeldDatabase(Database):
    """A database that is ours alone until it is closed."""

    def __init__(self, place: Place) -> None:
        """Raises UnreadableArchive, and SourceBusy when somebody else has it open."""
        super().__init__(place)
        self._turn = threading.RLock()
        try:
            self._connection = _take_hold(place, self._state)
        except BaseException:
            super().close()
            raise
        self._state = look_at(self._fd, place.database)

    # -- asking --

    def page(self, sql: str, parameters: Sequence[Any] = (), *, budget_s: float = QUERY_BUDGET_S) -> Page:
        with self._turn:
            try:
                return self._connection.page(sql, parameters, budget_s)
            except sqlite3.Error as error:
                raise explain(error, self.place.folder) from error

    def attach(self, helper: str) -> None:
        raise UsageError(
            "its database lacks an index that every version of Crystal makes",
            archive=self.place.folder,
            advice=f"let Crystal open and close it, or {LEAVE_OUT_RW}",
        )

    # -- changing --

    @contextlib.contextmanager
    def transaction(self) -> Iterator[HeldConnection]:
        """Everything in the block or nothing; readers wait.  What SQLite raises is explained."""
        with self._turn:
            try:
                self.run("begin immediate")
                yield self._connection
                self.run("commit")
            except BaseException as error:
                self._take_back()
                if isinstance(error, sqlite3.Error):
                    raise changed_in_vain(error, self.place.folder) from error
                raise
            self._changed_by_us()

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run a statement inside a transaction; says how many rows it has changed."""
        return self._connection.run(sql, parameters)

    def _take_back(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self.run("rollback")

    def _changed_by_us(self) -> None:
        with self._lock:
            self._state = look_at(self._fd, self.place.database)
            self._generation += 1

    # -- others' changes: there are none --

    def _look(self, *, max_age_s: float) -> None:
        """Nobody else can change it."""

    def close(self) -> None:
        """Let go: one file is left, without a journal."""
        with self._turn:
            if not self._closed:
                # before the descriptor that is only for looking: closing that drops SQLite's locks (fcntl(2))
                self._take_back()
                with contextlib.suppress(sqlite3.Error):
                    for statement in _LEAVING:
                        self._connection.page(statement, (), BUSY_TIMEOUT_S)
                with contextlib.suppress(sqlite3.Error):
                    self._connection.close()
            super().close()


def changed_in_vain(error: sqlite3.Error, folder: str) -> Exception:
    """What an error of SQLite means to somebody who wanted to change something."""
    text = str(error)
    if "full" in text:
        return OSError(28, f"{folder}: the disk is full")
    if "disk I/O" in text or "readonly" in text or "unable to open" in text:
        return OSError(5, f"{folder}: database.sqlite: {text}")
    return explain(error, folder)


def _take_hold(place: Place, state: State) -> HeldConnection:
    try:
        connection = HeldConnection(place.database, Way.WRITE, state, None)
        try:
            if _WAL in state.header[:2]:
                connection.page("pragma journal_mode=delete", (), BUSY_TIMEOUT_S)  # a log left over is folded in
            connection.run("begin exclusive")
            connection.run("commit")
            return connection
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise _no_hold(error, place.folder) from error


def _no_hold(error: sqlite3.Error, folder: str) -> ArchiveError:
    return explain(error, folder)
