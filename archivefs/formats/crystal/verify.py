"""``archivefs verify`` for Crystal: the database, every row, every body, and bodies that belong to no row.

Findings come as they are met; of each code the first thousand, then their number.  Bodies are read whole, in a few
threads.  Rows are read in pages by id, so memory stays flat.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from archivefs.errors import ArchiveError, DamagedContent, LimitExceeded, OperationTimedOut
from archivefs.format import Finding, Level, Opening, VerifyRequest
from archivefs.formats.crystal.connection import Row, forward
from archivefs.formats.crystal.orphans import orphans
from archivefs.formats.crystal.project import Project
from archivefs.formats.crystal.records import Revision, revision_of
from archivefs.formats.crystal.schema import OPTIONAL
from archivefs.formats.crystal.stand_ins import LOWEST_ID, are_needed
from archivefs.formats.crystal.summary import migration
from archivefs.formats.crystal.tree import CrystalTree

MAX_PER_CODE = 1000
LONG_BUDGET_S = 24 * 3600.0
COUNT_BUDGET_S = 60.0
"""Only the progress bar needs the number of rows, and counting a damaged tree may never end."""
_PAGE_ROWS = 200
_READ_BYTES = 1 << 20


def verify_crystal(path: str, opening: Opening, request: VerifyRequest) -> Iterator[Finding]:
    """The findings for the project at *path*; raises UnreadableArchive."""
    tree = CrystalTree(path, Opening(cache=opening.cache))
    try:
        yield from _limited(_findings(tree, request))
    finally:
        tree.close()


def _findings(tree: CrystalTree, request: VerifyRequest) -> Iterator[Finding]:
    project = tree.project
    for part in (
        _schema_findings(project),
        _database_findings(project),
        _resource_findings(project),
        _revision_findings(tree, request),
        _side_findings(project),
        orphans(project),
    ):
        try:
            yield from part
        except (DamagedContent, OperationTimedOut) as error:  # the rest can be looked at all the same
            yield Finding("database", Level.ERROR, "database.sqlite", error.problem)


def _limited(findings: Iterator[Finding]) -> Iterator[Finding]:
    """The first of each code; of the rest only how many."""
    seen: Counter[str] = Counter()
    levels = {}
    for finding in findings:
        seen[finding.code] += 1
        levels[finding.code] = finding.level
        if seen[finding.code] <= MAX_PER_CODE:
            yield finding
    for code, number in seen.items():
        if number > MAX_PER_CODE:
            yield Finding(code, levels[code], "", f"the same {number - MAX_PER_CODE} times more")


# -- the database --


def _schema_findings(project: Project) -> Iterator[Finding]:
    edition = project.edition()
    for name in sorted(edition.schema.posing):
        yield Finding("not-a-table", Level.ERROR, name, "is no table; it counts as empty")
    for name in sorted(OPTIONAL):
        if name not in edition.schema.columns and name not in edition.schema.posing and name != "alias":
            yield Finding("missing-table", Level.NOTICE, name, "the table is not there, or lacks a column")
    if are_needed(edition.schema):
        yield Finding("missing-index", Level.NOTICE, "database.sqlite", "an index that every project has is missing")
    under_way = migration(project, edition)
    if under_way:
        yield Finding("migration", Level.NOTICE, "", f"in the middle of a migration: {under_way}")


def _database_findings(project: Project) -> Iterator[Finding]:
    """What SQLite finds wrong with its own file."""
    try:
        rows = project.database.rows(f"pragma quick_check({MAX_PER_CODE})", budget_s=LONG_BUDGET_S)
    except LimitExceeded:
        message = "a text is longer than the limit, so the file could not be checked as a whole"
        yield Finding("unchecked", Level.NOTICE, "database.sqlite", message)
        return
    except ArchiveError as error:
        yield Finding("database", Level.ERROR, "database.sqlite", error.problem)
        return
    for (line,) in rows:
        if line != b"ok":
            yield Finding("database", Level.ERROR, "database.sqlite", line.decode("utf-8", "replace"))


def _resource_findings(project: Project) -> Iterator[Finding]:
    """Rows of ``resource`` that cannot be shown."""
    if "resource" in project.edition().schema.posing:
        return
    sql = "select id, typeof(url) from resource where id > ? and typeof(url) != 'text' order by id limit 500"
    after = LOWEST_ID
    while rows := project.database.rows(sql, (after,), budget_s=10 * COUNT_BUDGET_S):
        for key, kind in rows:
            yield Finding("bad-url", Level.ERROR, f"resource {key}", f"its URL is no text but {kind.decode()}")
        after = forward(after, rows[-1][0])
    yield from _long_urls(project)


def _long_urls(project: Project) -> Iterator[Finding]:
    after = LOWEST_ID
    sql = "select id, url from resource where id > ? order by id limit {}"
    while True:
        try:
            rows = project.database.page(sql.format(500), (after,)).rows
        except LimitExceeded:
            rows = []
        if not rows:
            row = project.database.row("select id from resource where id > ? order by id limit 1", (after,))
            if row is None:
                return
            try:
                project.database.rows(sql.format(1), (after,))
            except LimitExceeded:
                yield Finding("bad-url", Level.ERROR, f"resource {row[0]}", "its URL is longer than the limit")
            rows = [row]
        after = forward(after, rows[-1][0])


# -- revisions --


def _revision_findings(tree: CrystalTree, request: VerifyRequest) -> Iterator[Finding]:
    total = _count(tree.project)
    done = 0
    with ThreadPoolExecutor(max_workers=request.jobs or os.cpu_count() or 1) as pool:
        for page in _pages(tree.project):
            for found in pool.map(lambda revision: _of_revision(tree, revision), page):
                yield from found
            done += len(page)
            request.progress(done, max(total, done))


def _count(project: Project) -> int:
    if "resource_revision" in project.edition().schema.posing:
        return 0
    try:
        row = project.database.row("select count(*) from resource_revision", budget_s=COUNT_BUDGET_S)
    except OperationTimedOut:
        return 0
    return int(row[0]) if row else 0


def _pages(project: Project) -> Iterator[list[Revision]]:
    after = LOWEST_ID
    while True:
        try:
            rows: list[Row] = project.page("revisions_page", (after, _PAGE_ROWS)).rows
            page = [revision_of(row) for row in rows]
        except LimitExceeded:
            key = project.next_id(after)
            found = project.revision(key) if key is not None else None
            page = [found] if found else []
        if not page:
            return
        yield page
        after = forward(after, page[-1].id)


def _of_revision(tree: CrystalTree, revision: Revision) -> list[Finding]:
    """What is wrong with one revision and its body."""
    where = f"revision {revision.id}"
    found = []
    if tree.project.resource(revision.resource) is None:
        found.append(Finding("no-resource", Level.ERROR, where, f"its resource {revision.resource} is not there"))
    if revision.error:
        if revision.error.type == "unknown":
            found.append(Finding("bad-error", Level.ERROR, where, "what it says of its error cannot be read"))
        return found
    if revision.problem:
        found.append(Finding("bad-metadata", Level.ERROR, where, revision.problem))
    body = tree.find_body(revision.id)
    if body is None:
        found.append(Finding("lost-body", Level.ERROR, where, "its body is not there"))
        return found
    try:
        tree.read_through(body, _READ_BYTES)
    except (ArchiveError, OSError) as error:
        problem = error.problem if isinstance(error, ArchiveError) else str(error.strerror)
        found.append(Finding("damaged-body", Level.ERROR, body.where, problem))
    return found


# -- roots, groups, aliases --


def _side_findings(project: Project) -> Iterator[Finding]:
    edition = project.edition()
    if edition.schema.has("root_resource"):
        known = {root.id for root in edition.roots}
        for key, resource in project.database.rows("select id, resource_id from root_resource order by id limit 10000"):
            if key not in known:
                yield Finding("no-resource", Level.ERROR, f"root {key}", f"its resource {resource} is not there")
    ids = {
        "root_resource": {root.id for root in edition.roots},
        "resource_group": {group.id for group in edition.groups},
    }
    for group in edition.groups:
        if group.source_type and group.source_id not in ids.get(group.source_type, ()):
            yield Finding("no-source", Level.NOTICE, f"group {group.id}", "what it is linked from is not there")
