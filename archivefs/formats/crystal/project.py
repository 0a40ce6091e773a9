"""A project: its database asked in our words, and what is known of it as of one generation (``Edition``).

Used by the trees and by ``verify.py``.  An edition holds what is small: schema, version, properties, roots, groups,
aliases.  When the database has changed, a new one is made at the next question; nothing else is remembered.  Rows
of resources and revisions are kept in the cache that the mount shares, under keys that name the generation.

Any thread may call anything; one lock guards the making of an edition.
"""

from __future__ import annotations

import itertools
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from archivefs.caches import ByteCache
from archivefs.errors import (
    CorruptArchive,
    LimitExceeded,
    SourceChanged,
    UnreadableArchive,
    quoted,
)
from archivefs.formats.crystal import side_tables
from archivefs.formats.crystal.connection import SCHEMA_MOVED, Page, Row, forward, with_urls
from archivefs.formats.crystal.database import Database
from archivefs.formats.crystal.location import Place
from archivefs.formats.crystal.records import Revision, revision_of
from archivefs.formats.crystal.schema import Schema, read_schema
from archivefs.formats.crystal.side_tables import Group, Root
from archivefs.formats.crystal.stand_ins import LOWEST_ID, StandIns, are_needed
from archivefs.formats.crystal.statements import statements_for
from archivefs.formats.crystal.urls import Alias

LOG = logging.getLogger("archivefs.crystal")

FLAT, HIERARCHICAL, PACK16 = 1, 2, 3
HIGHEST_ID = 2**63 - 1
ROW_OVERHEAD = 1000
"""What a parsed row weighs beside its text."""

_owners = itertools.count(1)
T = TypeVar("T")


class Resource(NamedTuple):
    """A URL of the project."""

    id: int
    url: bytes
    newest: int | None
    """Its revision with the highest id, an error included; None: never fetched."""
    failed: bool
    """Is that one an error?"""


class LookUp(NamedTuple):
    """What a name can be."""

    first: int | None
    """The id of the first resource in the directory of that name."""
    fetched: bool
    """Was one of the first resources in it fetched?"""
    resource: int | None
    """The resource of that very URL, and its newest revision."""
    newest: Revision | None


class Edition:
    """What is known as of one generation.  Lazily read parts are read once, or twice at the same moment."""

    def __init__(self, project: Project, generation: int, schema: Schema) -> None:
        self.generation = generation
        self.schema = schema
        self.sql = statements_for(schema)
        self._project = project
        self.properties = side_tables.read_properties(project.database, schema)
        self.major = _major_version(self.properties, project.place)

    @cached_property
    def roots(self) -> Sequence[Root]:
        """Roots whose resource is there, with their labels."""
        return side_tables.read_roots(self._project, self.sql)

    @cached_property
    def groups(self) -> Sequence[Group]:
        """Groups, with their labels."""
        return side_tables.read_groups(self._project, self.sql)

    @cached_property
    def aliases(self) -> Sequence[Alias]:
        """Aliases, in the order in which they are tried."""
        return side_tables.read_aliases(self._project, self.sql)

    @cached_property
    def tables(self) -> dict[str, Any]:
        """For views that keep something small for as long as nothing changes."""
        return {}


class Project:
    """An opened project."""

    def __init__(self, place: Place, cache: ByteCache, database: Database | None = None) -> None:
        """Raises UnreadableArchive.  *database*: opened already, and closed with the project."""
        self.place = place
        self.cache = cache
        self.owner = ("crystal", next(_owners))
        self.database = database or Database(place)
        self._lock = threading.RLock()
        self._stand_ins: StandIns | None = None
        try:
            self._edition = self._read_edition()
        except CorruptArchive as error:
            self.close()
            raise UnreadableArchive(error.problem, archive=place.folder) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close everything; again does nothing."""
        self.database.close()
        self.cache.forget(self.owner)
        with self._lock:
            if self._stand_ins:
                self._stand_ins.close()
                self._stand_ins = None

    # -- editions --

    def edition(self) -> Edition:
        """What is known now; made anew when the database has changed."""
        if self.database.generation() != self._edition.generation:
            self._renew()
        return self._edition

    def generation(self) -> int:
        """Grows when an earlier answer may be wrong."""
        return self.database.generation()

    def renew(self) -> Edition:
        """Look again at once, for a caller who met something that cannot be."""
        self.database.changed()
        self._renew()
        return self._edition

    def _renew(self) -> None:
        with self._lock:
            if self.database.known_generation == self._edition.generation:
                return
            try:
                self._edition = self._read_edition()
            except UnreadableArchive as error:
                LOG.warning("%s: changed into what cannot be read: %s", quoted(self.place.folder), error.problem)
                self._edition.generation = self.database.known_generation

    def _read_edition(self) -> Edition:
        generation = self.database.known_generation
        schema = read_schema(self.database)
        for name in sorted(schema.posing):
            LOG.warning("%s: %s is no table; it counts as empty", quoted(self.place.folder), name)
        if are_needed(schema):
            self._make_stand_ins(schema)
        return Edition(self, generation, schema)

    def _make_stand_ins(self, schema: Schema) -> None:
        LOG.warning("%s: its database lacks an index; it is made in a private database", quoted(self.place.folder))
        old, self._stand_ins = self._stand_ins, StandIns(self.database, schema)
        self.database.attach(self._stand_ins.path)
        if old:
            old.close()

    # -- asking --

    def page(self, name: str, parameters: Sequence[Any]) -> Page:
        """A page of the statement of that name (``Statements``)."""
        try:
            return self.database.page(self._sql(self.edition(), name), parameters)
        except CorruptArchive as error:
            if error.code != SCHEMA_MOVED:
                raise
            edition = self.renew()  # Crystal may have added a column or an index under us
        return self.database.page(self._sql(edition, name), parameters)

    def _sql(self, edition: Edition, name: str) -> str:
        sql: str = getattr(edition.sql, name)
        if not sql:  # it was there when the caller looked
            raise SourceChanged("the schema of its database changed", archive=self.place.folder)
        return sql

    def rows(self, name: str, *parameters: Any) -> list[Row]:
        """The rows of a statement that gives few."""
        found = self.page(name, parameters)
        if found.cut:
            raise LimitExceeded("more than fits into one answer", archive=self.place.folder)
        return found.rows

    def row(self, name: str, *parameters: Any) -> Row | None:
        """The first row of a statement."""
        found = self.rows(name, *parameters)
        return found[0] if found else None

    def cached(self, kind: str, key: object, make: Callable[[], T | None], weigh: Callable[[T], int]) -> T | None:
        """What *make* gives, kept as long as the generation lasts; None is not kept."""
        full_key = (self.owner, self.generation(), kind, key)
        found: T | None = self.cache.get(full_key)
        if found is None:
            found = make()
            if found is not None:
                self.cache.put(full_key, found, weigh(found))
        return found

    def kept(self, kind: str, key: object) -> Any | None:
        """What is kept of this generation."""
        return self.cache.get((self.owner, self.generation(), kind, key))

    def keep(self, kind: str, key: object, value: object, weight: int) -> None:
        """Keep what ``cached`` would have made."""
        self.cache.put((self.owner, self.generation(), kind, key), value, weight)

    # -- resources --

    def resource_by_url(self, url: bytes) -> Resource | None:
        """The resource of exactly that URL."""
        row = self.row("resource_by_url", url)
        return Resource(row[0], url, row[1], bool(row[2])) if row else None

    def resource(self, key: int) -> Resource | None:
        """The resource with that id."""
        return self.cached("resource", key, lambda: self._resource(key), lambda found: 400 + len(found.url))

    def _resource(self, key: int) -> Resource | None:
        try:
            row = self.row("resource_by_id", key)
        except LimitExceeded:
            return None
        return Resource(key, row[0], row[1], bool(row[2])) if row else None

    def look_up(self, url: bytes) -> LookUp:
        """What a name can be, in one query; raises LimitExceeded if a row is too long to be read."""
        low, high = url + b"/", url + b"0"
        row = self.row("look_up", low, high, low, high, url)
        if row is None:
            return LookUp(None, False, None, None)
        return LookUp(row[0], bool(row[1]), row[2], revision_of(row[3:]) if row[3] is not None else None)

    def look_up_leaf(self, url: bytes) -> LookUp:
        """The same of a name that cannot be a directory's."""
        row = self.row("look_up_leaf", url)
        if row is None:
            return LookUp(None, False, None, None)
        return LookUp(None, False, row[0], revision_of(row[1:]) if row[1] is not None else None)

    def resource_pair(self, one: bytes, two: bytes) -> tuple[Resource | None, Resource | None]:
        """The resources of two URLs."""
        found = {
            row[0]: Resource(row[1], row[0], row[2], bool(row[3]))
            for row in with_urls(self.rows("resource_pair", one, two))
        }
        return found.get(one), found.get(two)

    def first_below(self, low: bytes, high: bytes | None) -> tuple[bytes, int] | None:
        """The first URL from *low* to before *high*, with its id; those too long to be read are passed over."""
        for skipped in itertools.count():
            try:
                rows = with_urls(self.rows("first_below", low, high, skipped))
            except LimitExceeded:
                continue
            return (rows[0][0], rows[0][1]) if rows else None
        raise AssertionError("counting does not end")

    # -- revisions --

    def revision(self, key: int) -> Revision | None:
        """The revision with that id."""
        try:
            row = self.row("revision", key)
        except LimitExceeded:
            row = self._row_alone(key)
        return revision_of(row) if row else None

    def newest(self, resource: int, *, below: int = HIGHEST_ID, limit: int = 1) -> list[Revision]:
        """The newest revisions of a resource with ids below *below*."""
        try:
            rows = self.page("newest", (resource, below, limit)).rows
        except LimitExceeded:
            rows = self._rows_alone(resource, below)
        return [revision_of(row) for row in rows]

    def kept_ids(self, resource: int, *, above: int = LOWEST_ID) -> Iterator[int]:
        """The ids of a resource's revisions that are no errors, oldest first."""
        while rows := self.rows("kept_ids", resource, above, 500):
            yield from (key for key, failed in rows if not failed)
            above = forward(above, rows[-1][0])

    def chunks(self, *, above: int = LOWEST_ID) -> Iterator[tuple[int, int]]:
        """Stretches of revision ids ``(above, up to)``, for reading bounded numbers of rows without an index."""
        while (row := self.row("chunk", above)) and row[1]:
            yield above, forward(above, row[0])
            above = row[0]

    def next_id(self, above: int) -> int | None:
        """The next revision id."""
        row = self.row("next_id", above)
        return row[0] if row else None

    def chunk_rows(self, name: str, low: int, high: int) -> list[Row]:
        """The rows of a statement for a stretch of ids, without those too long to be read."""
        try:
            return self.page(name, (low, high)).rows
        except LimitExceeded:
            ids = self.page("chunk_ids", (low, high)).rows
        if len(ids) < 2:
            return []
        middle: int = forward(low, ids[len(ids) // 2 - 1][0])
        forward(middle, high)
        return self.chunk_rows(name, low, middle) + self.chunk_rows(name, middle, high)

    def _row_alone(self, key: int) -> Row | None:
        """A row whose texts are too long to be read: what is left of it."""
        row = self.row("revision_alone", key)
        if row is None:
            return None
        try:
            failed = self.row("revision_error", key)
        except LimitExceeded:
            failed = (1,)
        return (row[0], row[1], b"" if failed and failed[0] else b"null", None, 0)

    def _rows_alone(self, resource: int, below: int) -> list[Row]:
        """The first of what ``newest`` gives, where a text is too long to be read."""
        try:
            return self.page("newest", (resource, below, 1)).rows
        except LimitExceeded:
            keys = self.rows("newest_ids", resource, below, 1)
        row = self._row_alone(keys[0][0]) if keys else None
        return [row] if row else []


def _major_version(properties: Mapping[str, str | None], place: Place) -> int:
    text = properties.get("major_version")
    if text is None:
        return FLAT
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) < FLAT:
        problem = f"its version is {text[:40]!r}, not a number"
        raise UnreadableArchive(problem, archive=place.folder, advice="see the property major_version in its database")
    if int(text) > PACK16:
        raise UnreadableArchive(
            f"its version is {int(text)}, and only {FLAT} to {PACK16} are known",
            archive=place.folder,
            advice="install a newer archivefs",
        )
    return int(text)
