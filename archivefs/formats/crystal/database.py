"""The database of a project as a good neighbour reads it: rows in small pages, nothing held while idle.

Used by ``project.py`` and ``verify.py``.  Connections come from a small pool; each serves one thread at a time
and is closed after a second without work, so that Crystal can open and close the project beside us.  Whatever a
query needs is fetched before it returns: no cursor stays open.  What others commit is noticed by looking at a few
bytes of the files (``recipe.State``), at most once a second.

Any thread may call anything.  One lock guards the pool and the state and is never held while a query runs.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from typing import Any

from archivefs.errors import ArchiveError, LimitExceeded, OperationTimedOut, SourceBusy, UnreadableArchive, quoted
from archivefs.formats.crystal.connection import BUSY_TIMEOUT_S, Connection, Page, Row, explain
from archivefs.formats.crystal.location import Place
from archivefs.formats.crystal.recipe import PrivateCopy, State, Way, check_header, look_at

LOG = logging.getLogger("archivefs.crystal")

MAX_CONNECTIONS = 8
IDLE_S = 1.0
LOOK_INTERVAL_S = 1.0
QUERY_BUDGET_S = 20.0
_ATTEMPTS = 4


class Database:
    """A project's database, opened by the recipe, reopened as needed."""

    def __init__(self, place: Place) -> None:
        """Raises UnreadableArchive."""
        self.place = place
        self._helper: str | None = None
        self._fd = _open_for_looking(place)
        self._lock = threading.Condition(threading.Lock())
        self._copying = threading.Lock()
        self._in_use = 0
        self._idle: list[Connection] = []
        self._copy: PrivateCopy | None = None
        self._generation = 0
        self._closed = False
        self._reaping = False
        self._pid = os.getpid()
        self._state = look_at(self._fd, place.database)
        self._looked_at = time.monotonic()

    # -- asking --

    def page(self, sql: str, parameters: Sequence[Any] = (), *, budget_s: float = QUERY_BUDGET_S) -> Page:
        """The rows of a query, as many as MAX_PAGE_BYTES allow.

        Raises LimitExceeded, SourceBusy, OperationTimedOut or CorruptArchive (with the code SCHEMA_MOVED).
        """
        for attempt in range(_ATTEMPTS):
            connection = self._take()
            try:
                found = connection.page(sql, parameters, budget_s)
                # an immutable connection does not lock: look whether somebody wrote meanwhile
                if not connection.trusting or self._unchanged(connection.state):
                    return found
                connection.broken = True
            except sqlite3.Error as error:
                explained = explain(error, self.place.folder)
                if isinstance(explained, (LimitExceeded, OperationTimedOut)):
                    raise explained from error
                connection.broken = True
                if attempt or isinstance(explained, SourceBusy) or explained.code:
                    raise explained from error
                self._look(max_age_s=0)  # the database may have changed its mode under us: once more, opened anew
            finally:
                self._give_back(connection)
        raise SourceBusy("its database changes all the time", archive=self.place.folder)

    def rows(self, sql: str, parameters: Sequence[Any] = (), *, budget_s: float = QUERY_BUDGET_S) -> list[Row]:
        """All rows of a query that gives few; raises as ``page`` does, and LimitExceeded if they are not few."""
        found = self.page(sql, parameters, budget_s=budget_s)
        if found.cut:
            raise LimitExceeded("more than fits into one answer", archive=self.place.folder)
        return found.rows

    def row(self, sql: str, parameters: Sequence[Any] = (), *, budget_s: float = QUERY_BUDGET_S) -> Row | None:
        """The first row of a query, if there is one."""
        found = self.rows(sql, parameters, budget_s=budget_s)
        return found[0] if found else None

    def attach(self, helper: str) -> None:
        """Have a database of ours at hand in every query, as ``ours`` (see ``stand_ins.py``)."""
        with self._lock:
            self._helper = helper
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Close everything; again does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            idle, self._idle = self._idle, []
            copy, self._copy = self._copy, None
            os.close(self._fd)
        for connection in idle:
            connection.close()
        if copy:
            copy.close()

    # -- others' changes --

    def generation(self) -> int:
        """Grows when the database has changed; looks at most once a second."""
        self._look(max_age_s=LOOK_INTERVAL_S)
        return self._generation

    def look(self, *, max_age_s: float = 0.0) -> bool:
        """Look now, unless that was done a moment ago; has the database changed since the last look?"""
        before = self._generation
        self._look(max_age_s=max_age_s)
        return self._generation != before

    @property
    def known_generation(self) -> int:
        """The same without a look."""
        return self._generation

    @property
    def state(self) -> State:
        """What was seen at the last look."""
        return self._state

    def changed(self) -> None:
        """Count a change that was seen elsewhere."""
        with self._lock:
            self._generation += 1

    def _unchanged(self, state: State) -> bool:
        self._look(max_age_s=0)
        return self._state == state

    def _look(self, *, max_age_s: float) -> None:
        now = time.monotonic()
        with self._lock:
            if self._closed or now - self._looked_at < max_age_s:
                return
            self._looked_at = now
            self._follow_replacement()
            state = look_at(self._fd, self.place.database)
            if state == self._state:
                return
            self._state = state
            self._generation += 1
            stale = [connection for connection in self._idle if _needs_reopening(connection, state)]
            self._idle = [connection for connection in self._idle if connection not in stale]
        for connection in stale:
            connection.close()

    def _follow_replacement(self) -> None:
        """If another file has taken the database's name, look at that one from now on."""
        try:
            status = os.stat(self.place.database, follow_symlinks=False)
        except OSError:
            return  # gone for a moment, or for good: the open descriptor goes on
        known = os.fstat(self._fd)
        if (status.st_dev, status.st_ino) == (known.st_dev, known.st_ino):
            return
        try:
            fd = _open_for_looking(self.place)
        except ArchiveError as error:
            LOG.warning("%s: replaced by something else: %s", quoted(self.place.folder), error)
            return
        os.dup2(fd, self._fd, inheritable=False)
        os.close(fd)

    # -- the pool --

    def _take(self) -> Connection:
        """An idle connection, or a new one; waits while too many are in use."""
        self._look(max_age_s=0 if self._state.way is Way.IMMUTABLE else LOOK_INTERVAL_S)
        with self._lock:
            if self._pid != os.getpid():  # connections do not survive a fork
                self._pid, self._idle, self._reaping, self._in_use = os.getpid(), [], False, 0
            if not self._lock.wait_for(lambda: self._in_use < MAX_CONNECTIONS, BUSY_TIMEOUT_S + QUERY_BUDGET_S):
                raise SourceBusy("too many queries at once", archive=self.place.folder)
            if self._closed:
                raise SourceBusy("it is closed", archive=self.place.folder)
            self._in_use += 1
            if self._idle:
                return self._idle.pop()
        try:
            self._look(max_age_s=0)  # how it is opened follows from what is there now
            return self._open()
        except BaseException as error:
            with self._lock:
                self._in_use -= 1
                self._lock.notify()
            if isinstance(error, sqlite3.Error):
                raise explain(error, self.place.folder) from error
            raise

    def _give_back(self, connection: Connection) -> None:
        connection.used_at = time.monotonic()
        with self._lock:
            self._in_use -= 1
            self._lock.notify()
            keep = not (self._closed or connection.broken or connection.helper != self._helper)
            keep = keep and not _needs_reopening(connection, self._state)
            if keep:
                self._idle.append(connection)
            start = keep and not self._reaping
            self._reaping = self._reaping or start
        if not keep:
            connection.close()
        if start:
            threading.Thread(target=self._reap, name="archivefs-crystal-idle", daemon=True).start()

    def _reap(self) -> None:
        """Close connections that were idle for a second; ends when there are none."""
        while True:
            time.sleep(IDLE_S / 2)
            limit = time.monotonic() - IDLE_S
            with self._lock:
                old = [connection for connection in self._idle if connection.used_at < limit]
                self._idle = [connection for connection in self._idle if connection.used_at >= limit]
                ended = not self._idle
                if ended:
                    self._reaping = False
            for connection in old:
                connection.close()
            if ended:
                return

    def _open(self) -> Connection:
        state = self._state
        if state.way is Way.COPY:
            return self._open_copy(state)
        try:
            return Connection(self.place.database, state.way, state, self._helper)
        except sqlite3.OperationalError as error:
            if "readonly" not in str(error) or not state.journal or not state.journal[0]:
                raise
        return self._open_copy(state)  # nobody writes: the journal is hot, and only a copy may be rolled back

    def _open_copy(self, state: State) -> Connection:
        with self._copying:
            if self._copy is None or self._copy.state != state:
                old, self._copy = self._copy, None
                if old:
                    old.close()
                LOG.info("%s: left half written; read from a copy put right", quoted(self.place.folder))
                self._copy = PrivateCopy(self.place.database, state)
            path = self._copy.path
        connection = Connection(path, Way.IMMUTABLE, state, self._helper)
        connection.trusting, connection.private = False, True  # nobody else writes to the copy
        return connection


def _needs_reopening(connection: Connection, state: State) -> bool:
    """Would an open connection not see what is there now, or not rightly?  A plain commit it sees."""
    before = connection.state
    if before == state:
        return False
    return connection.private or connection.trusting or before.way is not state.way or before[:2] != state[:2]


def _open_for_looking(place: Place) -> int:
    try:
        fd = os.open(place.database, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise UnreadableArchive(f"database.sqlite cannot be opened: {error.strerror}", archive=place.folder) from error
    try:
        check_header(fd, place.folder)
    except BaseException:
        os.close(fd)
        raise
    return fd
