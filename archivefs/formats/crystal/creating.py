"""New projects: made whole under another name, put on disk, and renamed.

Used by ``archivefs create crystal`` and by ``building.py``, which fills one before it gets its name.  A project is of
version 2, with the tables and indexes that Crystal 2.3 makes; Crystal adds the rest of its decoration itself.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator

from archivefs.errors import AlreadyExists, UsageError, told_as
from archivefs.formats.crystal.bodies import HIERARCHICAL, REVISIONS
from archivefs.formats.crystal.location import DATABASE, PARTIAL_SUFFIX, PROJECT_SUFFIX
from archivefs.formats.crystal.revisions import TEMPORARY, filled_with
from archivefs.staging import durable

OPENER = "OPEN ME.crystalopen"
OPENER_BYTES = b"CrOp"
MAKING = ".archivefs-making"
"""Tells an unfinished project of ours from one of Crystal's."""
README = b"""This folder is a project of the website archiver Crystal: pages of websites as they were
fetched, with all their earlier versions.

Open it with Crystal, or look into it as a folder:

    archivefs mount THIS.crystalproj MOUNTPOINT

The pages are in revisions/, what is known of them in database.sqlite. Move the folder as a
whole, and change nothing in it by hand.
"""
SCHEMA = (
    "create table project_property (name text unique not null, value text)",
    "create table resource (id integer primary key, url text unique not null)",
    "create table root_resource (id integer primary key, name text not null, resource_id integer unique not null,"
    " foreign key (resource_id) references resource(id))",
    "create table resource_group (id integer primary key, name text not null, url_pattern text not null,"
    " source_type text, source_id integer, do_not_download integer not null default 0)",
    "create table resource_revision (id integer primary key, resource_id integer not null, request_cookie text,"
    " error text not null, metadata text not null)",
    "create table alias (id integer primary key, source_url_prefix text unique not null,"
    " target_url_prefix text not null, target_is_external integer not null default 0)",
    "create index resource_revision__resource_id on resource_revision (resource_id)",
    "create index resource_revision__error_not_null on resource_revision (id, resource_id) where error != 'null'",
    "create index resource_revision__request_cookie_not_null on resource_revision (id, resource_id)"
    " where request_cookie is not null",
    "create index resource_revision__status_code on resource_revision"
    " (json_extract(metadata, '$.status_code'), resource_id) where json_extract(metadata, '$.status_code') != 200",
)


def create(path: str) -> None:
    """Make an empty project; raises AlreadyExists, and UsageError for a name that Crystal would not open."""
    with new_project(path):
        pass


@contextlib.contextmanager
def new_project(path: str) -> Iterator[str]:
    """The folder of a new project, to be filled; it has its name when the block has ended well, or is gone."""
    path = path.rstrip("/")
    if not path.endswith(PROJECT_SUFFIX):
        advice = f"Crystal opens only what is called NAME{PROJECT_SUFFIX}"
        raise UsageError(f"the name of a project ends in {PROJECT_SUFFIX}", archive=path, advice=advice)
    _check_free(path)
    partial = path.removesuffix(PROJECT_SUFFIX) + PARTIAL_SUFFIX
    _remove_ours(partial)
    try:
        with told_as(path, partial):
            _make(partial)
        yield partial
        os.unlink(os.path.join(partial, MAKING))
        durable.sync_folder(partial)
        _check_free(path)
        durable.rename(partial, path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _check_free(path: str) -> None:
    if os.path.lexists(path):
        raise AlreadyExists("there is something of that name already", archive=path)


def _remove_ours(partial: str) -> None:
    """Remove what an earlier one of us has left that did not end; one of Crystal's is not ours to remove."""
    if os.path.lexists(partial) and not os.path.lexists(os.path.join(partial, MAKING)):
        problem = "there is an unfinished copy of that name, which somebody may be making"
        raise AlreadyExists(problem, archive=partial, advice="remove it if nobody is")
    shutil.rmtree(partial, ignore_errors=True)


def _make(folder: str) -> None:
    os.mkdir(folder)
    filled_with(b"")(os.path.join(folder, MAKING))
    for name in (REVISIONS, TEMPORARY):
        os.mkdir(os.path.join(folder, name))
    filled_with(OPENER_BYTES)(os.path.join(folder, OPENER))
    filled_with(README)(os.path.join(folder, "README.txt"))
    database = sqlite3.connect(os.path.join(folder, DATABASE), isolation_level=None)
    try:
        database.execute("begin")
        for statement in SCHEMA:
            database.execute(statement)
        database.execute("insert into project_property values ('major_version', ?)", (str(HIERARCHICAL),))
        database.execute("commit")
    finally:
        database.close()
