"""The small tables of a project: properties, roots, groups, aliases, each with the name it is shown under.

Used by ``project.py``.  These are few in any real project and are held in memory, so what a stranger may put there
is bounded in number and in bytes; what is beyond is left out, with a line in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from archivefs.errors import LimitExceeded, quoted
from archivefs.formats.crystal.connection import Row, forward
from archivefs.formats.crystal.database import Database
from archivefs.formats.crystal.patterns import Pattern
from archivefs.formats.crystal.schema import Schema
from archivefs.formats.crystal.stand_ins import LOWEST_ID
from archivefs.formats.crystal.urls import Alias
from archivefs.urlnames import escape

if TYPE_CHECKING:
    from archivefs.formats.crystal.project import Project
    from archivefs.formats.crystal.statements import Statements

LOG = logging.getLogger("archivefs.crystal")

MAX_ROWS = 10_000
MAX_BYTES = 4 << 20
MAX_PROPERTIES = 1000
MAX_LABEL_BYTES = 224
"""Of a label that gets a number: room for ``^``, twenty digits and ``.json``."""
_PAGE_ROWS = 200


class Root(NamedTuple):
    """A starting point that the user chose."""

    id: int
    label: str
    resource: int


class Group(NamedTuple):
    """Resources that belong together by their URLs."""

    id: int
    label: str
    name: str
    pattern: Pattern
    source_type: str
    source_id: int | None
    do_not_download: bool


# -- reading --


def read_properties(database: Database, schema: Schema) -> Mapping[str, str | None]:
    """The properties; a value too long to be read is None."""
    if not {"name", "value"} <= schema.columns.get("project_property", frozenset()):
        return {}
    names = database.rows(f"select name from project_property order by rowid limit {MAX_PROPERTIES}")
    found: dict[str, str | None] = {}
    for (name,) in names:
        if isinstance(name, bytes):
            found[text_of(name)] = _value(database, name)
    return found


def _value(database: Database, name: bytes) -> str | None:
    sql = "select value from project_property where name = cast(? as text) limit 1"
    try:
        row = database.row(sql, (name,))
    except LimitExceeded:
        return None
    return text_of(row[0]) if row and row[0] is not None else None


def read_roots(project: Project, sql: Statements) -> list[Root]:
    """The roots whose resource is there."""
    rows = [(row, project.resource(row[2])) for row in _rows(project, sql.roots, "roots")]
    kept = [(row, resource) for row, resource in rows if resource]
    names = [(row[0], text_of(row[1]) or text_of(resource.url)) for row, resource in kept]
    return [Root(row[0], label, resource.id) for (row, resource), label in zip(kept, _labels(names), strict=True)]


def read_groups(project: Project, sql: Statements) -> list[Group]:
    """The groups."""
    rows = list(_rows(project, sql.groups, "groups"))
    labels = _labels([(row[0], text_of(row[1]) or text_of(row[2])) for row in rows])
    return [
        Group(
            key,
            label,
            text_of(name),
            Pattern(text_of(pattern)),
            text_of(source_type),
            source_id if isinstance(source_id, int) else None,
            bool(skip),
        )
        for label, (key, name, pattern, source_type, source_id, skip) in zip(labels, rows, strict=True)
    ]


def read_aliases(project: Project, sql: Statements) -> list[Alias]:
    """The aliases, by id."""
    return [
        Alias(key, text_of(source), text_of(target), bool(external))
        for key, source, target, external in _rows(project, sql.aliases, "aliases")
    ]


def alias_labels(aliases: Iterable[Alias]) -> list[str]:
    """Under which names they are listed."""
    return _labels([(alias.id, alias.source) for alias in aliases])


def _rows(project: Project, sql: str, what: str) -> Iterator[Row]:
    """The rows of a small table, as many as are allowed."""
    if not sql:
        return
    after, count, weight = LOWEST_ID, 0, 0
    while rows := _next_rows(project.database, sql, after):
        for row in rows:
            count += 1
            weight += sum(len(value) for value in row if isinstance(value, bytes))
            if count > MAX_ROWS or weight > MAX_BYTES:
                LOG.warning("%s: too many %s; the rest is left out", quoted(project.place.folder), what)
                return
            yield row
        after = forward(after, rows[-1][0])


def _next_rows(database: Database, sql: str, after: int) -> list[Row]:
    try:
        return database.page(sql, (after, _PAGE_ROWS)).rows
    except LimitExceeded:
        pass
    for skipped in range(_PAGE_ROWS):  # pass over those that cannot be read
        try:
            return database.rows(f"{sql} offset {skipped}", (after, 1))
        except LimitExceeded:
            continue
    return []


def text_of(value: object) -> str:
    """Text as it is stored; nothing for what is no text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return "" if value is None else str(value)


# -- labels --


def _labels(names: list[tuple[int, str]]) -> list[str]:
    """One name each: escaped, with ``^`` and the row's id after all but the first of equal ones."""
    seen: set[str] = set()
    labels = []
    for key, name in names:
        label = escape(name)
        if not label or label in seen or label.endswith((".json", ".url")):
            label = escape(name, limit=MAX_LABEL_BYTES)
            while True:
                label += f"^{key}"
                if label not in seen:  # ^10 may also be an escaped character of another name
                    break
        seen.add(label)
        labels.append(label)
    return labels
