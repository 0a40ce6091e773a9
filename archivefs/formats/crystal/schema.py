"""What a project's database is made of: which tables, columns and indexes are really there.

Used by ``project.py``, which looks once and again when the schema moves.  Crystal has added columns and indexes
over the years and a project opened read-only is never upgraded, so every mixture occurs.  What is no plain table
(a view, a virtual table) is never queried: it counts as an empty table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from archivefs.errors import CorruptArchive, UnreadableArchive
from archivefs.formats.crystal.connection import SCHEMA_MOVED
from archivefs.formats.crystal.database import Database

REQUIRED = {"resource": {"id", "url"}, "resource_revision": {"id", "resource_id", "error", "metadata"}}
OPTIONAL = {
    "project_property": {"name", "value"},
    "root_resource": {"id", "name", "resource_id"},
    "resource_group": {"id", "name", "url_pattern"},
    "alias": {"id", "source_url_prefix", "target_url_prefix"},
}
ERROR_INDEX = "resource_revision__error_not_null"
COOKIE_INDEX = "resource_revision__request_cookie_not_null"
STATUS_INDEX = "resource_revision__status_code"
_USES = {
    ERROR_INDEX: "v.error != 'null' and v.id = 1",
    COOKIE_INDEX: "v.request_cookie is not null and v.id = 1",
    STATUS_INDEX: "json_extract(v.metadata, '$.status_code') != 200 and json_extract(v.metadata, '$.status_code') = 1"
    " and v.resource_id > 1",
}
"""What each index is asked."""
_PLAIN_COLUMN = 0


class Schema(NamedTuple):
    """What was found."""

    version: int
    """SQLite's own count of changes to the schema."""
    columns: Mapping[str, frozenset[str]]
    """The usable columns of each usable table."""
    posing: frozenset[str]
    """Names that belong to tables and are something else."""
    indexes: frozenset[str]
    """The indexes of ``resource_revision``, by name."""
    urls_indexed: bool
    """Is there an index of all URLs in the order of their bytes?"""
    revisions_indexed: bool
    """Is there an index of all revisions by resource?"""

    def has(self, table: str, column: str = "id") -> bool:
        """Can that column be asked for?"""
        return column in self.columns.get(table, ())


def read_schema(database: Database) -> Schema:
    """Look at the schema; raises UnreadableArchive if what must be there is not."""
    version = database.row("pragma schema_version")
    kinds = _kinds(database)
    posing = frozenset(name for name, plain in kinds.items() if not plain)
    columns = {name: _columns(database, name) for name, plain in kinds.items() if plain}
    for table, needed in REQUIRED.items():
        _require(table, needed, columns, posing, database.place.folder)
    usable = {
        table: found
        for table, found in columns.items()
        if table in REQUIRED or OPTIONAL[table] <= found or table == "project_property"
    }
    return Schema(
        version=int(version[0]) if version else 0,
        columns=usable,
        posing=posing,
        indexes=frozenset() if "resource_revision" in posing else _index_names(database),
        urls_indexed="resource" in posing or _is_indexed(database, "resource", "url"),
        revisions_indexed="resource_revision" in posing or _is_indexed(database, "resource_revision", "resource_id"),
    )


def _kinds(database: Database) -> dict[str, bool]:
    """Our names in the schema, and whether each is a plain table.  A view and a virtual table have no root page."""
    names = sorted({*REQUIRED, *OPTIONAL})
    marks = ",".join("?" * len(names))
    rows = database.rows(
        f"select lower(name), type = 'table' and rootpage > 0 from sqlite_master"
        f" where type in ('table', 'view') and lower(name) in ({marks})",
        names,
    )
    return {name.decode("ascii"): bool(plain) for name, plain in rows}


def _columns(database: Database, table: str) -> frozenset[str]:
    """The columns that hold stored values, in lower case; generated ones are left alone."""
    rows = database.rows(f"pragma table_xinfo({table})")  # number, name, type, not null, default, key, hidden
    return frozenset(row[1].decode("utf-8", "replace").lower() for row in rows if row[6] == _PLAIN_COLUMN)


def _require(
    table: str, needed: set[str], columns: Mapping[str, frozenset[str]], posing: frozenset[str], folder: str
) -> None:
    if table in posing:
        return
    if table not in columns:
        raise UnreadableArchive(f"not a Crystal project: its database has no table {table}", archive=folder)
    missing = sorted(needed - columns[table])
    if missing:
        problem = f"the table {table} of its database has no column {missing[0]}"
        raise UnreadableArchive(problem, archive=folder)


def _index_names(database: Database) -> frozenset[str]:
    """Those of Crystal's partial indexes that serve our questions; one of the same name may be something else."""
    return frozenset(name for name, condition in _USES.items() if _serves(database, name, condition))


def _serves(database: Database, index: str, condition: str) -> bool:
    sql = f"explain query plan select 1 from resource_revision v indexed by {index} where {condition}"
    try:
        rows = database.rows(sql)
    except CorruptArchive as error:
        if error.code != SCHEMA_MOVED:
            raise
        return False
    return len(rows) == 1 and rows[0][3].startswith(b"SEARCH")


def _is_indexed(database: Database, table: str, column: str) -> bool:
    """Does a whole index begin with *column*, in the order of bytes?"""
    for row in database.rows(f"pragma index_list({table})"):  # number, name, unique, origin, partial
        if row[4] == 0 and _begins_with(database, row[1].decode("utf-8", "replace"), column):
            return True
    return False


def _begins_with(database: Database, index: str, column: str) -> bool:
    quoted_name = index.replace('"', '""')
    # number, number in the table, name, descending, collation, key
    rows = database.rows(f'pragma index_xinfo("{quoted_name}")')
    name, descending, collation = rows[0][2:5] if rows else (None, 0, b"")
    if name is None or name.decode("utf-8", "replace").lower() != column:
        return False
    return not descending and collation == b"BINARY"
