"""One connection to a project's database: everything off that a stranger's schema can do, limits, a time budget.

Used by ``database.py``, which hands it to one thread at a time.  Text comes as bytes: a URL need not be UTF-8.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from archivefs.errors import ArchiveError, CorruptArchive, LimitExceeded, OperationTimedOut, SourceBusy
from archivefs.formats.crystal.recipe import State, Way, uri_of

MAX_VALUE_BYTES = 2 << 20
"""The longest text that is read; a URL or a set of headers that is longer counts as damaged."""
MAX_PAGE_BYTES = 8 << 20
"""A page ends early when its rows weigh more."""
BUSY_TIMEOUT_S = 5.0
_PROGRESS_STEPS = 20_000
_FETCH_ROWS = 16
"""How many rows are taken before their weight is looked at."""
_FETCH_LIGHT_ROWS, _LIGHT_BYTES = 256, 1000
"""And where those before were light."""

SCHEMA_MOVED = "schema-moved"
"""The code of an error that says: a table, column or index is not there (any more)."""

Row = tuple[Any, ...]


class Page(NamedTuple):
    """Some rows."""

    rows: list[Row]
    cut: bool
    """Was it ended because of the weight of its rows?"""


class Connection:
    """One connection: limits, time budget, and rows fetched whole."""

    last_pragmas: tuple[str, ...] = ("query_only=on",)

    def __init__(self, path: str, way: Way, state: State, helper: str | None) -> None:
        self.state = state
        self.helper = helper
        self.trusting = way is Way.IMMUTABLE
        """Opened as immutable: SQLite takes no lock and looks for no change."""
        self.private = False
        """Does it read a copy that nobody else has?"""
        self.broken = False
        self.used_at = 0.0
        self._deadline = 0.0
        self._connection = sqlite3.connect(
            uri_of(path, way), uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        try:
            self._set_up(helper)
        except UnicodeDecodeError as error:
            self._connection.close()
            raise _damaged() from error
        except BaseException:
            self._connection.close()
            raise

    def _set_up(self, helper: str | None) -> None:
        connection = self._connection
        connection.text_factory = bytes
        _set_limits(connection, attached=1 if helper else 0)
        self._deadline = time.monotonic() + BUSY_TIMEOUT_S
        connection.set_progress_handler(self._too_late, _PROGRESS_STEPS)
        if helper:
            connection.execute("attach ? as ours", (uri_of(helper, Way.IMMUTABLE),))
        connection.execute("pragma trusted_schema=off")
        _load_schema(connection)
        for pragma in (*_PRAGMAS, *self.last_pragmas):
            connection.execute(f"pragma {pragma}").fetchall()
        connection.set_authorizer(self.authorize)

    @staticmethod
    def authorize(action: int, _first: str | None, second: str | None, _database: str | None, _by: str | None) -> int:
        """Nothing but reading, whatever a stranger's schema has in it."""
        allowed = action in _READING or (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS)
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    def page(self, sql: str, parameters: Sequence[Any], budget_s: float) -> Page:
        self._deadline = time.monotonic() + budget_s
        try:
            cursor = self._connection.execute(sql, parameters)
            try:
                return _fetch(cursor)
            finally:
                cursor.close()
        except UnicodeDecodeError as error:
            raise _damaged() from error

    def close(self) -> None:
        self._connection.close()

    def _too_late(self) -> bool:
        return time.monotonic() > self._deadline


_PRAGMAS = (
    "cell_size_check=on",
    "mmap_size=0",
    "temp_store=memory",
    "cache_size=-2048",  # of eight connections; the pages are in the kernel's cache too
)
_LIMITS = {
    "SQLITE_LIMIT_LENGTH": MAX_VALUE_BYTES,
    "SQLITE_LIMIT_SQL_LENGTH": 100_000,
    "SQLITE_LIMIT_COLUMN": 100,
    "SQLITE_LIMIT_EXPR_DEPTH": 20,  # our own statements need twelve
    "SQLITE_LIMIT_COMPOUND_SELECT": 3,
    "SQLITE_LIMIT_VDBE_OP": 25_000,
    "SQLITE_LIMIT_TRIGGER_DEPTH": 10,
    "SQLITE_LIMIT_WORKER_THREADS": 0,
}


_READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA, sqlite3.SQLITE_RECURSIVE})
_FUNCTIONS = frozenset(
    {"cast", "count", "ifnull", "json_extract", "json_valid", "lower", "max", "min", "typeof", "coalesce"}
)
"""What our statements call.  No other function runs, whatever a schema says."""


def _load_schema(connection: sqlite3.Connection) -> None:
    """Have SQLite read the schema now; this is also where a hot journal shows.

    SQLite 3.38 to 3.40 take their own JSON functions for unsafe and then refuse the index that Crystal has on
    the status.  The functions that may run are limited in any case (``Connection.authorize``).
    """
    try:
        connection.execute("select 1 from sqlite_master limit 1").fetchall()
    except sqlite3.DatabaseError as error:
        if "unsafe use of json_extract()" not in str(error):
            raise
        connection.execute("pragma trusted_schema=on")
        connection.execute("select 1 from sqlite_master limit 1").fetchall()


def _damaged() -> sqlite3.DatabaseError:
    """What SQLite has to say quotes a damaged name, and Python cannot make text of it."""
    return sqlite3.DatabaseError("malformed database schema")


def _set_limits(connection: sqlite3.Connection, *, attached: int) -> None:
    setlimit = getattr(connection, "setlimit", None)  # Python 3.11
    if setlimit:
        for name, value in {**_LIMITS, "SQLITE_LIMIT_ATTACHED": attached}.items():
            setlimit(getattr(sqlite3, name), value)
    setconfig = getattr(connection, "setconfig", None)  # Python 3.12
    if setconfig:
        setconfig(getattr(sqlite3, "SQLITE_DBCONFIG_DEFENSIVE"), True)  # noqa: B009  not known to older Pythons


def _fetch(cursor: sqlite3.Cursor) -> Page:
    found = cursor.fetchmany(_FETCH_ROWS)
    if len(found) < _FETCH_ROWS:
        return Page(found, False)
    weight = _weight(found)
    while weight <= MAX_PAGE_BYTES:
        size = _FETCH_ROWS if weight > _LIGHT_BYTES * len(found) else _FETCH_LIGHT_ROWS
        more = cursor.fetchmany(size)
        found += more
        if len(more) < size:
            return Page(found, False)
        weight += _weight(more)
    return Page(found, True)


def _weight(rows: list[Row]) -> int:
    return sum(len(value) for row in rows for value in row if type(value) is bytes)


Key = TypeVar("Key", int, bytes, tuple[int, int])


def forward(before: Key, after: Key) -> Key:
    """*after*, from where a listing goes on; raises CorruptArchive if it does not get on.

    In a damaged tree of SQLite's, rows come out of order: a loop that goes by keys would never end.
    """
    if type(after) is not type(before) or after <= before:
        raise CorruptArchive("database.sqlite: rows are out of order", advice="archivefs verify tells more")
    return after


def with_urls(rows: list[Row]) -> list[Row]:
    """*rows*, whose first values are URLs; raises CorruptArchive if one is not: in a damaged tree anything may come."""
    for row in rows:
        if type(row[0]) is not bytes:
            raise CorruptArchive("database.sqlite: a URL is no text", advice="archivefs verify tells more")
    return rows


def explain(error: sqlite3.Error, folder: str) -> ArchiveError:
    """What an error of SQLite means to us."""
    text = str(error)
    if "too big" in text:
        return LimitExceeded("a text in its database is longer than the limit", archive=folder)
    if "interrupted" in text:
        return OperationTimedOut("its database took too long to answer", archive=folder)
    if "locked" in text or "busy" in text:
        return SourceBusy("its database is locked by another program", archive=folder)
    if "no such" in text or "no query solution" in text:
        return CorruptArchive(f"database.sqlite: {text}", archive=folder, code=SCHEMA_MOVED)
    return CorruptArchive(f"database.sqlite: {text}", archive=folder, advice="archivefs verify tells more")
