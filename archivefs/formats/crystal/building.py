"""A new project of the pages of another archive.

Used by ``archivefs convert``.  Each page becomes a revision, as if it had been written (``revisions.py``); the project
gets its name when everything is on disk.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator

from archivefs.errors import AlreadyExists
from archivefs.format import Page
from archivefs.formats.crystal.bodies import REVISIONS, hex_path
from archivefs.formats.crystal.creating import new_project
from archivefs.formats.crystal.location import DATABASE
from archivefs.formats.crystal.media_types import type_by_suffix
from archivefs.formats.crystal.revisions import filled_by, metadata_text
from archivefs.formats.crystal.urls import normal_form
from archivefs.staging import durable
from archivefs.tree import Reader

NANO = 1_000_000_000
_CHUNK = 1 << 20


def build(path: str, site: str, pages: Iterable[Page]) -> None:
    """Make the project at *path*; raises what reading a page raises."""
    with new_project(path) as folder:
        database = sqlite3.connect(os.path.join(folder, DATABASE), isolation_level=None)
        try:
            database.execute("begin")
            for key, page in enumerate(pages, 1):
                _add(database, folder, key, page)
            _name_site(database, normal_form(site))
            database.execute("commit")
        finally:
            database.close()
        for place, _, _ in os.walk(os.path.join(folder, REVISIONS)):
            durable.sync_folder(place)


def _add(database: sqlite3.Connection, folder: str, key: int, page: Page) -> None:
    url = normal_form(page.url)
    place = os.path.join(folder, REVISIONS, *hex_path(key))
    os.makedirs(os.path.dirname(place), exist_ok=True)
    filled_by(lambda: _pieces(page.open()))(place)
    try:
        resource = database.execute("insert into resource (url) values (?)", (url,)).lastrowid
    except sqlite3.IntegrityError:
        raise AlreadyExists("two pages have that URL", member=url) from None
    time_s = int(time.time()) if page.time_ns is None else page.time_ns // NANO
    # a page that is called index.html where it comes from may have a URL that tells nothing
    content_type = page.content_type or type_by_suffix(f"file:///{page.parts[-1]}")
    metadata = metadata_text(url.encode("utf-8", "surrogateescape"), content_type, time_s)
    columns = "insert into resource_revision (id, resource_id, error, metadata) values (?, ?, 'null', ?)"
    database.execute(columns, (key, resource, metadata))


def _name_site(database: sqlite3.Connection, site: str) -> None:
    """Where the site begins: what Crystal serves first, and a root to begin with."""
    prefix = site.rstrip("/")
    database.execute("insert into project_property values ('default_url_prefix', ?)", (prefix,))
    found = database.execute("select id from resource where url = ?", (f"{prefix}/",)).fetchone()
    if found:
        database.execute("insert into root_resource (name, resource_id) values ('Home', ?)", found)


def _pieces(reader: Reader) -> Iterator[bytes]:
    with contextlib.closing(reader):
        for offset in range(0, reader.attributes().size, _CHUNK):
            yield reader.read_at(offset, _CHUNK)
