"""``errors/``: revisions that went wrong, found by the partial indexes that Crystal keeps for its own list of them.

``fetch/ID.json`` says why a page could not be fetched; ``status/CODE/ID`` leads to a revision whose status is not 200;
``no-cookie/ID`` to one fetched without a cookie, in a project where some were fetched with one.  Where an index
is missing (before Crystal 1.6) rows are read instead, a bounded number at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from archivefs.errors import LimitExceeded
from archivefs.formats.crystal.connection import forward
from archivefs.formats.crystal.gatherings import json_bytes
from archivefs.formats.crystal.history import number_of, revision_parts
from archivefs.formats.crystal.idents import Fixed, Sort
from archivefs.formats.crystal.nodes import MAX_TARGET_BYTES, CrystalDirectory, Link, TextFile, relative_path
from archivefs.formats.crystal.schema import COOKIE_INDEX
from archivefs.formats.crystal.stand_ins import LOWEST_ID
from archivefs.tree import Entry, Kind, Node, Parts

if TYPE_CHECKING:
    from archivefs.formats.crystal.tree import CrystalTree

FETCH, STATUS, NO_COOKIE = "fetch", "status", "no-cookie"
JSON_SUFFIX = ".json"
MAX_STATUSES = 10_000
MAX_COOKIE_CHUNKS = 20
"""How many stretches of rows are read for a first cookie where no index tells."""
_PAGE_ROWS = 500
_LINK_EXTRA = 1


def error_children(tree: CrystalTree) -> list[tuple[str, Node]]:
    """What is in ``errors/``."""
    found: list[tuple[str, Node]] = [
        (FETCH, FetchErrors(tree, Fixed.FETCH_ERRORS)),
        (STATUS, Statuses(tree, Fixed.STATUSES)),
    ]
    if some_with_cookie(tree):
        found.append((NO_COOKIE, NoCookies(tree, Fixed.NO_COOKIES)))
    return found


# -- fetch/ --


class FetchErrors(CrystalDirectory):
    """A text for each revision that is an error."""

    __slots__ = ()

    def child(self, name: str) -> Node:
        key = number_of(name.removesuffix(JSON_SUFFIX)) if name.endswith(JSON_SUFFIX) else None
        node = fetch_error(self.tree, key) if key is not None else None
        if node is None:
            raise self.not_found(name)
        return node

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        above = number_of(after.removesuffix(JSON_SUFFIX)) if after is not None else None
        for key in _error_ids(self.tree, LOWEST_ID if above is None else above):
            yield Entry(f"{key}{JSON_SUFFIX}", Kind.FILE, self.tree.idents.of(Sort.FETCH_ERROR, key))


def _error_ids(tree: CrystalTree, above: int) -> Iterator[int]:
    project = tree.project
    if not project.edition().sql.errors_page:
        for low, high in project.chunks(above=above):
            yield from (row[0] for row in project.chunk_rows("error_chunk", low, high))
        return
    while rows := project.rows("errors_page", above, _PAGE_ROWS):
        yield from (row[0] for row in rows)
        above = forward(above, rows[-1][0])


def fetch_error(tree: CrystalTree, key: int) -> TextFile | None:
    """The text about one error."""
    revision = tree.project.revision(key)
    if revision is None or revision.error is None:
        return None
    resource = tree.project.resource(revision.resource)
    document = {
        "url": resource.url.decode("utf-8", "backslashreplace") if resource else None,
        "type": revision.error.type,
        "message": revision.error.message,
        "revision": revision.id,
    }
    return TextFile(tree, tree.idents.of(Sort.FETCH_ERROR, key), lambda: json_bytes(document))


# -- status/ --


class Statuses(CrystalDirectory):
    """A directory for each status that is not 200."""

    __slots__ = ()

    def child(self, name: str) -> Node:
        status = number_of(name)
        if status is None or status not in statuses(self.tree):
            raise self.not_found(name)
        return status_directory(self.tree, status)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        last = number_of(after) if after is not None else None
        for status in statuses(self.tree):
            if last is None or status > last:
                node = status_directory(self.tree, status)
                yield Entry(str(status), Kind.DIRECTORY, node.ident, node)


def status_directory(tree: CrystalTree, status: int) -> StatusDirectory:
    """The directory of one status."""
    return StatusDirectory(tree, tree.idents.of(Sort.STATUS, status, 0), status)


def statuses(tree: CrystalTree) -> list[int]:
    """The statuses that are not 200, in order; found once for each edition."""
    edition = tree.project.edition()
    found: list[int] | None = edition.tables.get("statuses")
    if found is None:
        found = edition.tables["statuses"] = sorted(set(_statuses(tree)))
    return found


def _statuses(tree: CrystalTree) -> Iterator[int]:
    project = tree.project
    if not project.edition().sql.next_status:
        for low, high in project.chunks():
            yield from (row[2] for row in project.chunk_rows("status_chunk", low, high) if type(row[2]) is int)
        return
    status: int | float = LOWEST_ID
    for _ in range(MAX_STATUSES):  # from one to the next: the index is not read, only jumped through
        row = project.row("next_status", status)
        if row is None or not isinstance(row[0], (int, float)):
            return
        status = row[0]
        if isinstance(status, int):
            yield status


class StatusDirectory(CrystalDirectory):
    """Links to the revisions of one status, in the order of the index."""

    __slots__ = ("_status",)

    def __init__(self, tree: CrystalTree, ident: int, status: int) -> None:
        super().__init__(tree, ident)
        self._status = status

    def child(self, name: str) -> Node:
        key = number_of(name)
        if key is None or not _is_so(self.tree, "has_status", key, self._status):
            raise self.not_found(name)
        return status_link(self.tree, key)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        for key in self._ids(number_of(after) if after is not None else None):
            yield Entry(str(key), Kind.SYMLINK, self.tree.idents.of(Sort.STATUS, key, _LINK_EXTRA))

    def _ids(self, after: int | None) -> Iterator[int]:
        project = self.tree.project
        if not project.edition().sql.status_page:
            for low, high in project.chunks(above=LOWEST_ID if after is None else after):
                rows = project.chunk_rows("status_chunk", low, high)
                yield from (row[0] for row in rows if row[2] == self._status)
            return
        resource, key = LOWEST_ID, LOWEST_ID
        row = project.row("revision_alone", after) if after is not None else None
        if row:
            resource, key = row[1], row[0]
        while rows := project.rows("status_page", self._status, resource, resource, key, _PAGE_ROWS):
            yield from (row[0] for row in rows)
            resource, key = forward((resource, key), (rows[-1][1], rows[-1][0]))


def status_link(tree: CrystalTree, key: int) -> Link:
    """The link to a revision with a status."""
    folder = ("errors", STATUS, "000")
    return Link(tree, tree.idents.of(Sort.STATUS, key, _LINK_EXTRA), lambda: _target(tree, key, folder))


# -- no-cookie/ --


def some_with_cookie(tree: CrystalTree) -> bool:
    """Was any revision fetched with a cookie?  Found once for each edition."""
    edition = tree.project.edition()
    found: bool | None = edition.tables.get("cookies")
    if found is None:
        found = edition.tables["cookies"] = _some_with_cookie(tree)
    return found


def _some_with_cookie(tree: CrystalTree) -> bool:
    project = tree.project
    edition = project.edition()
    if not edition.sql.any_cookie:
        return False
    if COOKIE_INDEX in edition.schema.indexes:
        return project.row("any_cookie") is not None
    for number, (low, high) in enumerate(project.chunks()):
        try:
            if project.row("any_cookie", low, high):
                return True
        except LimitExceeded:
            return True  # a text that is too long is one
        if number == MAX_COOKIE_CHUNKS:
            break
    return False


class NoCookies(CrystalDirectory):
    """Links to the revisions fetched without a cookie."""

    __slots__ = ()

    def child(self, name: str) -> Node:
        key = number_of(name)
        if key is None or not _is_so(self.tree, "has_no_cookie", key):
            raise self.not_found(name)
        return no_cookie_link(self.tree, key)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        project = self.tree.project
        above = number_of(after) if after is not None else None
        for low, high in project.chunks(above=LOWEST_ID if above is None else above):
            for (key,) in project.chunk_rows("no_cookie_chunk", low, high):
                yield Entry(str(key), Kind.SYMLINK, self.tree.idents.of(Sort.NO_COOKIE, key))


def no_cookie_link(tree: CrystalTree, key: int) -> Link:
    """The link to a revision fetched without a cookie, or to why it could not be fetched."""
    folder = ("errors", NO_COOKIE)
    return Link(tree, tree.idents.of(Sort.NO_COOKIE, key), lambda: _target(tree, key, folder))


def _is_so(tree: CrystalTree, statement: str, *parameters: int) -> bool:
    """Does a statement give a row?  What is too long to be read is not listed either."""
    try:
        return tree.project.row(statement, *parameters) is not None
    except LimitExceeded:
        return False


def _target(tree: CrystalTree, key: int, folder: Parts) -> str:
    """Where a revision is: in ``history/``, by its id if that path is too long, or in ``errors/fetch``."""
    revision = tree.project.revision(key)
    if revision and revision.error:
        return relative_path(folder, ("errors", FETCH, f"{key}{JSON_SUFFIX}"))
    resource = tree.project.resource(revision.resource) if revision else None
    path = relative_path(folder, revision_parts(resource.url, key)) if resource else ""
    if not path or len(path.encode("utf-8")) > MAX_TARGET_BYTES:
        return relative_path(folder, ("by-id", str(key)))
    return path
