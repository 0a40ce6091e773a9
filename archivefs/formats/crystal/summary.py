"""What a project is, in a few lines: ``project.json``, and what ``archivefs info`` shows.

Only what costs nothing: the largest ids instead of counts, which would read everything.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from archivefs.formats.crystal.bodies import IN_PROGRESS, REVISIONS
from archivefs.formats.crystal.gatherings import json_bytes
from archivefs.formats.crystal.project import FLAT, HIERARCHICAL, PACK16, Edition, Project
from archivefs.formats.crystal.recipe import Way

NAMES = {FLAT: "flat", HIERARCHICAL: "hierarchical", PACK16: "packs of 16"}
UNSHOWN_PROPERTIES = frozenset({"hibernated_state"})
"""Row ids of unfinished downloads: long, and of no use without Crystal."""
_JOURNALS = {
    Way.PLAIN: "rollback",
    Way.SHARED_LOG: "write-ahead log, shared with another program or left by one",
    Way.IMMUTABLE: "write-ahead log, empty",
    Way.COPY: "left half written; read from a copy put right",
}
_TABLES = ("resource", "resource_revision", "root_resource", "resource_group", "alias")


def project_document(project: Project) -> bytes:
    """The text of ``project.json``."""
    return json_bytes(facts_of_project(project))


def facts_of_project(project: Project) -> Mapping[str, object]:
    """Version, migration, properties, largest ids, and what is missing."""
    edition = project.edition()
    properties = {
        name: value
        for name, value in edition.properties.items()
        if name not in ("major_version", "major_version_old", *UNSHOWN_PROPERTIES)
    }
    facts: dict[str, object] = {
        "name": project.place.name,
        "version": edition.major,
        "bodies": NAMES[edition.major],
        "migration": migration(project, edition),
        "properties": properties,
        "largest_ids": {table: _largest_id(project, edition, table) for table in _TABLES if edition.schema.has(table)},
        "journal": _JOURNALS[project.database.state.way],
    }
    missing = [table for table in _TABLES if not edition.schema.has(table)]
    if missing:
        facts["missing_tables"] = missing
    return facts


def migration(project: Project, edition: Edition) -> str | None:
    """What Crystal was in the middle of, if anything."""
    begun = os.path.isdir(os.path.join(project.place.folder, IN_PROGRESS))
    if begun and edition.major == FLAT:
        return "1 to 2, under way"
    if begun and edition.major == HIERARCHICAL:
        swapped = not os.path.isdir(os.path.join(project.place.folder, REVISIONS))
        return "1 to 2, stopped between two renames" if swapped else "1 to 2, all bodies moved"
    if edition.major == PACK16 and edition.properties.get("major_version_old") == "2":
        return "2 to 3, under way"
    return None


def _largest_id(project: Project, edition: Edition, table: str) -> int | None:
    row = project.database.row(f"select max(id) from {table}")
    return row[0] if row and isinstance(row[0], int) else None
