"""The SQL of this format, made to fit the schema that was found.

Used by ``project.py``.  Every statement names its columns, is answered by an index or a primary key (or reads a
bounded number of rows) and has a limit.  URLs are bound as bytes and cast: SQLite compares text by bytes, and a URL
need not be UTF-8.  ``request_cookie`` is a credential: its value is never selected.
"""

from __future__ import annotations

from dataclasses import dataclass

from archivefs.formats.crystal.schema import COOKIE_INDEX, ERROR_INDEX, STATUS_INDEX, Schema

NO_RESOURCES = "(select 0 as id, '' as url where 0)"
NO_REVISIONS = "(select 0 as id, 0 as resource_id, 'null' as error, 'null' as metadata where 0)"
STATUS = "json_extract({0}metadata, '$.status_code')"
SAFE_STATUS = "case when json_valid({0}metadata) then json_extract({0}metadata, '$.status_code') end"
MAX_BELOW = 64
"""How many resources below a directory are asked before it is taken to hold something."""
CHUNK_ROWS = 10_000
"""How many rows are read at once where there is no index."""


@dataclass(frozen=True, kw_only=True)
class Statements:
    """One SQL text each; "" where the question cannot be asked of this database."""

    url_page: str
    """lo, hi or null, limit, offset -> url, resource id, newest revision id or null, is that one an error?"""
    url_keys: str
    """lo, hi or null, limit, offset -> url, resource id"""
    any_fetched: str
    """lo, hi or null -> a row if one of the first MAX_BELOW resources has a revision"""
    first_below: str
    """lo, hi or null, offset -> url, resource id"""
    look_up: str
    """lo, hi of the directory, twice, url -> id of the first resource in it or null, was one of its first MAX_BELOW
    fetched?, then resource id and newest revision (a row as of ``revision``), null where there is none"""
    look_up_leaf: str
    """url -> resource id, then its newest revision (a row as of ``revision``), null where there is none"""
    resource_pair: str
    """two urls -> rows of url and what ``resource_by_url`` gives"""
    resource_by_url: str
    """url -> resource id, newest revision id or null, is that one an error?"""
    resource_by_id: str
    """resource id -> url, newest revision id or null, is that one an error?"""
    newest: str
    """resource id, below which revision id, limit -> rows as of ``revision``, newest first"""
    newest_kept: str
    """resource id -> id of its newest revision that is no error"""
    newest_ids: str
    """As ``newest``, their ids alone"""
    kept_ids: str
    """resource id, above which revision id, limit -> id, is it an error?; oldest first"""
    revision: str
    """revision id -> id, resource id, error, metadata, with a cookie?"""
    revision_alone: str
    """The same without the long columns: id, resource id, null, null, 0"""
    revision_error: str
    """revision id -> is it an error?"""
    revisions_page: str
    """above which id, limit -> rows as of ``revision``, by id"""
    next_id: str
    """above which id -> the next one"""
    chunk_ids: str
    """above which id, up to which id -> revision id, by id"""
    kept_chunk: str
    """The same of those that are no errors"""
    chunk: str
    """above which id -> last id and number of the next CHUNK_ROWS revisions"""
    errors_page: str
    """above which id, limit -> revision id, by id; "" without an index"""
    error_chunk: str
    """above which id, up to which id -> revision id, by id"""
    next_status: str
    """above which status -> the next one; "" without an index"""
    status_page: str
    """status, above which resource id and revision id, limit -> revision id, resource id; "" without an index"""
    status_chunk: str
    """above which id, up to which id -> id, resource id, status: where it is not 200"""
    has_status: str
    """revision id, status -> resource id"""
    any_cookie: str
    """[above which id, up to which id, without an index] -> a row if one was fetched with a cookie"""
    no_cookie_chunk: str
    """above which id, up to which id -> revision id, by id"""
    has_no_cookie: str
    """revision id -> resource id"""
    roots: str
    """above which id, limit -> id, name, resource id"""
    groups: str
    """above which id, limit -> id, name, pattern, source type, source id, do not download"""
    aliases: str
    """above which id, limit -> id, source, target, external"""


def statements_for(schema: Schema) -> Statements:
    """The statements for a schema."""
    return Statements(
        **_url_statements(schema),
        **_revision_statements(schema),
        **_error_statements(schema),
        **_side_statements(schema),
    )


# -- what the statements are made of --


def _resources(schema: Schema) -> str:
    if "resource" in schema.posing:
        return NO_RESOURCES
    return "resource" if schema.urls_indexed else "ours.resource"


def _revisions(schema: Schema) -> str:
    return NO_REVISIONS if "resource_revision" in schema.posing else "resource_revision"


def _newest_id(schema: Schema) -> str:
    """The newest revision of resource ``r``, from an index alone."""
    table = _revisions(schema) if schema.revisions_indexed else "ours.revision"
    # quicker than max(v.id), which SQLite does not stop at the first
    return f"(select v.id from {table} v where v.resource_id = r.id order by v.id desc limit 1)"


def _of_resource(schema: Schema) -> tuple[str, str]:
    """``from … where …`` for the revisions ``v`` of one resource, and what orders them."""
    if schema.revisions_indexed:
        return f"{_revisions(schema)} v where v.resource_id = ?", "v.id"
    return "ours.revision i cross join resource_revision v on v.id = i.id where i.resource_id = ?", "i.id"


def _is_error(schema: Schema, key: str) -> str:
    """Is the revision with that id an error?  Left to itself the planner would read the rows."""
    if ERROR_INDEX in schema.indexes:
        return (
            f"exists (select 1 from resource_revision e indexed by {ERROR_INDEX}"
            f" where e.error != 'null' and e.id = {key})"
        )
    return f"ifnull((select e.error != 'null' from {_revisions(schema)} e where e.id = {key}), 0)"


def _resource_known(schema: Schema) -> str:
    """Is the resource of revision ``v`` there?"""
    return f"exists (select 1 from {_resources(schema)} r where r.id = v.resource_id)"


def _row(schema: Schema) -> str:
    cookie = "v.request_cookie is not null" if schema.has("resource_revision", "request_cookie") else "0"
    return f"v.id, v.resource_id, v.error, v.metadata, {cookie}"


# -- by URL --


def _url_statements(schema: Schema) -> dict[str, str]:
    resources, newest = _resources(schema), _newest_id(schema)
    range_ = "r.url >= cast(? as text) and r.url < ifnull(cast(? as text), x'')"
    known = f"id, d, d is not null and {_is_error(schema, 'd')}"
    fetched = f"exists (select 1 from ({resources}) x where 0)"
    if "resource_revision" not in schema.posing:
        table = "resource_revision" if schema.revisions_indexed else "ours.revision"
        fetched = f"exists (select 1 from {table} v where v.resource_id = r.id)"
    return {
        "url_page": f"select url, {known} from (select r.url, r.id, {newest} as d from {resources} r"
        f" where {range_} order by r.url limit ? offset ?)",
        "url_keys": f"select r.url, r.id from {resources} r where {range_} order by r.url limit ? offset ?",
        "any_fetched": f"select 1 from (select r.id from {resources} r where {range_} limit {MAX_BELOW}) r"
        f" where {fetched} limit 1",
        "first_below": f"select r.url, r.id from {resources} r where {range_} order by r.url limit 1 offset ?",
        "look_up": f"select (select r.id from {resources} r where {range_} order by r.url limit 1),"
        f" exists (select 1 from (select r.id from {resources} r where {range_} limit {MAX_BELOW}) r where {fetched}),"
        f" r.id, {_row(schema)} from (select 1) left join {resources} r on r.url = cast(? as text)"
        f" left join {_revisions(schema)} v on v.id = {newest}",
        "look_up_leaf": f"select r.id, {_row(schema)} from {resources} r"
        f" left join {_revisions(schema)} v on v.id = {newest} where r.url = cast(? as text)",
        "resource_pair": f"select url, {known} from (select r.url, r.id, {newest} as d from {resources} r"
        " where r.url in (cast(? as text), cast(? as text)) limit 2)",
        "resource_by_url": f"select {known} from (select r.id, {newest} as d from {resources} r"
        f" where r.url = cast(? as text))",
        "resource_by_id": f"select url, d, d is not null and {_is_error(schema, 'd')} from (select r.url, {newest} as d"
        f" from {resources} r where r.id = ? and typeof(r.url) = 'text')",
    }


# -- by revision --


def _revision_statements(schema: Schema) -> dict[str, str]:
    revisions, row, inside = _revisions(schema), _row(schema), "v.id > ? and v.id <= ?"
    source, key = _of_resource(schema)
    return {
        "newest": f"select {row} from {source} and {key} < ? order by {key} desc limit ?",
        "newest_kept": f"select {key} from {source} and not {_is_error(schema, key)} order by {key} desc limit 1",
        "newest_ids": f"select {key} from {source} and {key} < ? order by {key} desc limit ?",
        "kept_ids": f"select {key}, {_is_error(schema, key)} from {source} and {key} > ? order by {key} limit ?",
        "revision": f"select {row} from {revisions} v where v.id = ?",
        "revision_alone": f"select v.id, v.resource_id, null, null, 0 from {revisions} v where v.id = ?",
        "revision_error": f"select {_is_error(schema, 'v.id')} from {revisions} v where v.id = ?",
        "revisions_page": f"select {row} from {revisions} v where v.id > ? order by v.id limit ?",
        "next_id": f"select v.id from {revisions} v where v.id > ? order by v.id limit 1",
        "chunk_ids": f"select v.id from {revisions} v where {inside} order by v.id",
        "kept_chunk": f"select v.id from {revisions} v where {inside} and not {_is_error(schema, 'v.id')}"
        " order by v.id",
        "chunk": f"select max(id), count(*) from (select v.id from {revisions} v where v.id > ?"
        f" order by v.id limit {CHUNK_ROWS})",
    }


# -- errors/ --


def _error_statements(schema: Schema) -> dict[str, str]:
    revisions, inside = _revisions(schema), "v.id > ? and v.id <= ?"
    by_index = f"select v.id from resource_revision v indexed by {ERROR_INDEX} where v.error != 'null' and v.id > ?"
    return {
        "errors_page": f"{by_index} order by v.id limit ?" if ERROR_INDEX in schema.indexes else "",
        "error_chunk": f"select v.id from {revisions} v where {inside} and v.error != 'null' order by v.id",
        **_status_statements(schema),
        **_cookie_statements(schema),
    }


def _cookie_statements(schema: Schema) -> dict[str, str]:
    if not schema.has("resource_revision", "request_cookie"):
        return {"any_cookie": "", "no_cookie_chunk": "", "has_no_cookie": ""}
    inside, known = "v.id > ? and v.id <= ?", _resource_known(schema)
    any_cookie = f"select 1 from resource_revision v where {inside} and v.request_cookie is not null limit 1"
    without = "v.request_cookie is null"
    if COOKIE_INDEX in schema.indexes:
        indexed = f"indexed by {COOKIE_INDEX} where"
        any_cookie = f"select 1 from resource_revision v {indexed} v.request_cookie is not null limit 1"
        without = (
            f"not exists (select 1 from resource_revision c {indexed} c.request_cookie is not null and c.id = v.id)"
        )
    return {
        "any_cookie": any_cookie,
        "no_cookie_chunk": f"select v.id from resource_revision v where {inside} and {without} and {known}"
        " order by v.id",
        "has_no_cookie": f"select v.resource_id from resource_revision v where v.id = ? and {without} and {known}",
    }


def _status_statements(schema: Schema) -> dict[str, str]:
    revisions, inside, known = _revisions(schema), "v.id > ? and v.id <= ?", _resource_known(schema)
    safe, status = SAFE_STATUS.format("v."), STATUS.format("v.")
    found: dict[str, str] = {
        "next_status": "",
        "status_page": "",
        "status_chunk": f"select v.id, v.resource_id, {safe} from {revisions} v where {inside} and {safe} != 200"
        f" and {known} order by v.id",
        "has_status": f"select v.resource_id from {revisions} v where v.id = ? and {safe} = ? and {known}",
    }
    if STATUS_INDEX in schema.indexes:
        source = f"resource_revision v indexed by {STATUS_INDEX} where {status} != 200"
        found["next_status"] = f"select min({status}) from {source} and {status} > ? and {status} < ''"
        found["has_status"] = (
            "select v.resource_id from resource_revision a cross join resource_revision v"
            f" indexed by {STATUS_INDEX} on v.resource_id = a.resource_id and v.id = a.id"
            f" where a.id = ? and {status} != 200 and {status} = ? and {known}"
        )
        found["status_page"] = (
            f"select v.id, v.resource_id from {source} and {status} = ? and v.resource_id >= ?"
            f" and (v.resource_id > ? or v.id > ?) and {known} order by v.resource_id, v.id limit ?"
        )
    return found


# -- roots, groups, aliases --


def _side_statements(schema: Schema) -> dict[str, str]:
    def column(table: str, name: str, default: str) -> str:
        return name if schema.has(table, name) else default

    group, alias = "resource_group", "alias"
    source = f"{column(group, 'source_type', 'null')}, {column(group, 'source_id', 'null')}"
    skip, external = column(group, "do_not_download", "0"), column(alias, "target_is_external", "0")
    page = "where id > ? order by id limit ?"
    return {
        "roots": f"select id, name, resource_id from root_resource {page}" if schema.has("root_resource") else "",
        "groups": f"select id, name, url_pattern, {source}, {skip} from {group} {page}" if schema.has(group) else "",
        "aliases": f"select id, source_url_prefix, target_url_prefix, {external} from {alias} {page}"
        if schema.has(alias)
        else "",
    }
