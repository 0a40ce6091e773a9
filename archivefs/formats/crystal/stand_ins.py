"""Stand-ins for indexes that a database lacks, in a private database of ours.

Used by ``project.py``.  Every project that Crystal made has an index of its URLs and one of its revisions by
resource; without them each look-up would read everything.  Where one is missing, what it would hold is copied once
into a temporary database that every connection attaches as ``ours``; others' changes make it anew.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator

from archivefs.errors import LimitExceeded, quoted
from archivefs.formats.crystal.connection import Row, forward
from archivefs.formats.crystal.database import Database
from archivefs.formats.crystal.schema import Schema

LOG = logging.getLogger("archivefs.crystal")

LOWEST_ID = -(2**63)
_PAGE_ROWS = 2000
_TOLD_EVERY = 1_000_000

_TABLES = """
    create table resource (id integer primary key, url text unique);
    create table revision (resource_id, id, primary key (resource_id, id)) without rowid;
"""
_URLS = "select id, url from resource where id > ? and typeof(url) = 'text' order by id limit ?"
_NEXT_URL_ID = "select id from resource where id > ? order by id limit 1"
_PAIRS = "select id, resource_id from resource_revision where id > ? order by id limit ?"


class StandIns:
    """A temporary database with what the missing indexes would hold; removed with ``close``."""

    def __init__(self, database: Database, schema: Schema) -> None:
        self._folder = tempfile.mkdtemp(prefix="archivefs-crystal-")
        self.path = os.path.join(self._folder, "ours.sqlite")
        try:
            self._fill(database, schema)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove it."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _fill(self, database: Database, schema: Schema) -> None:
        ours = sqlite3.connect(self.path, isolation_level=None)
        try:
            ours.execute("pragma journal_mode=off")
            ours.execute("pragma synchronous=off")
            ours.executescript(_TABLES)
            ours.execute("begin")
            if not schema.urls_indexed:
                ours.executemany("insert or ignore into resource values (?, cast(? as text))", _urls(database))
            if not schema.revisions_indexed:
                ours.executemany("insert into revision (id, resource_id) values (?, ?)", _pairs(database))
            ours.execute("commit")
        finally:
            ours.close()


def are_needed(schema: Schema) -> bool:
    """Does the database lack an index that look-ups need?"""
    return not (schema.urls_indexed and schema.revisions_indexed)


def _urls(database: Database) -> Iterator[Row]:
    after = LOWEST_ID
    while True:
        try:
            rows = database.page(_URLS, (after, _PAGE_ROWS)).rows
        except LimitExceeded:
            rows = _one_url(database, after)
        if not rows:
            return
        yield from (row for row in rows if row[1] is not None)
        after = forward(after, rows[-1][0])


def _one_url(database: Database, after: int) -> list[Row]:
    """The next row by itself, with null for a URL that is too long."""
    try:
        return database.rows(_URLS, (after, 1))
    except LimitExceeded:
        row = database.row(_NEXT_URL_ID, (after,))
        return [(row[0], None)] if row else []


def _pairs(database: Database) -> Iterator[Row]:
    after, done = LOWEST_ID, 0
    while rows := database.page(_PAIRS, (after, _PAGE_ROWS)).rows:
        yield from rows
        after = forward(after, rows[-1][0])
        done += len(rows)
        if done % _TOLD_EVERY < _PAGE_ROWS:
            LOG.info("%s: %d revisions indexed", quoted(database.place.folder), done)
