"""Making and removing revisions of a project that is held (``held.py``).

A revision is made in an order that leaves the project whole wherever it stops: body in ``tmp/`` and on disk, row
inserted, body renamed to its place and the folders on disk, commit.  What a crash leaves is a body without a row, which
everybody ignores; never a row without a body, which Crystal would delete.  Removing goes the other way round.

Threading: ``HeldDatabase.transaction`` is the lock.  Nothing is copied inside it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from archivefs.errors import ArchiveError, CorruptArchive, LimitExceeded, NotPermitted, SourceBusy, quoted, reason
from archivefs.formats.crystal.bodies import FLAT, MAX_HEX_ID, PACK16, BodyStore, Spot, pack_spots, spots
from archivefs.formats.crystal.held import HeldConnection, HeldDatabase
from archivefs.formats.crystal.media_types import type_by_suffix
from archivefs.formats.crystal.project import Project
from archivefs.formats.crystal.repacking import without_entries
from archivefs.staging import durable

LOG = logging.getLogger("archivefs.crystal")

TEMPORARY = "tmp"
MARK = ("X-Archivefs", "written")
"""Tells a revision that was written from one that was fetched."""
MAX_TAKEN = 100_000
"""So many places with something in them in a row cannot be."""

Fill = Callable[[str], None]
"""Makes the file of a body at a path where nothing is, durable when it returns."""


class NewRevision(NamedTuple):
    """What is to be stored."""

    url: bytes
    fill: Fill
    time_s: int
    content_type: str | None = None
    """The header as it was before; None: by the suffix of the URL."""


class RevisionStore:
    """The revisions of a project, for the one who may change them."""

    def __init__(self, project: Project, database: HeldDatabase, bodies: BodyStore) -> None:
        self._project = project
        self._database = database
        self._bodies = bodies
        self._folder = project.place.folder
        self._major = project.edition().major

    # -- adding --

    def add(self, new: NewRevision) -> int:
        """Store a revision; gives its id.  Raises OSError, and then nothing has changed."""
        temporary = self._temporary(".body")
        try:
            new.fill(temporary)
            return self._enter(new, temporary)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)

    def _enter(self, new: NewRevision, temporary: str) -> int:
        place: str | None = None
        key = 0
        try:
            with self._database.transaction() as connection:
                resource = self._resource(connection, new.url)
                key = self._free_id(connection)
                metadata = metadata_text(new.url, new.content_type, new.time_s)
                connection.run(
                    "insert into resource_revision (id, resource_id, error, metadata) values (?, ?, 'null', ?)",
                    (key, resource, metadata),
                )
                place = self._put(temporary, next(spots(key, self._major)))
        except BaseException:
            if place is not None and not self._may_have_row(key):
                with contextlib.suppress(OSError):
                    os.unlink(place)
            raise
        self._bodies.forget_folders()
        return key

    def _may_have_row(self, key: int) -> bool:
        """After a commit that failed: a body may only go when its row is surely not there."""
        try:
            return self._database.row("select 1 from resource_revision where id = ?", (key,)) is not None
        except ArchiveError:
            return True

    def _resource(self, connection: HeldConnection, url: bytes) -> int:
        found = self._one(connection, "select id from resource where url = cast(? as text)", url)
        if found is None:
            connection.run("insert into resource (url) values (cast(? as text))", (url,))
            found = self._one(connection, "select id from resource where url = cast(? as text)", url)
        assert found is not None
        return found

    def _free_id(self, connection: HeldConnection) -> int:
        """The next id at whose place nothing lies: what a crash has left must never be taken for a new body."""
        newest = self._one(connection, "select max(id) from resource_revision")
        first = max(newest or 0, 0) + 1
        for key in range(first, first + MAX_TAKEN):
            if self._major != FLAT and key > MAX_HEX_ID:
                raise LimitExceeded("there is no place for another revision", archive=self._folder)
            if not self._is_taken(key):
                return key
        raise CorruptArchive("too many bodies without a row", archive=self._folder, advice="run archivefs verify")

    def _is_taken(self, key: int) -> bool:
        if os.path.lexists(self._path(next(spots(key, self._major)))):
            return True
        return self._major == PACK16 and self._bodies.is_packed(key)

    def _one(self, connection: HeldConnection, sql: str, *parameters: object) -> int | None:
        rows = connection.page(sql, parameters, 5.0).rows
        value = rows[0][0] if rows else None
        return value if isinstance(value, int) else None

    # -- removing --

    def remove_resource(self, resource: int) -> None:
        """Remove all revisions of a resource; the resource stays, as one that was seen and never fetched."""
        rows = self._database.rows("select id from resource_revision where resource_id = ?", (resource,))
        self._remove([row[0] for row in rows], "resource_id = ?", resource)

    def remove(self, key: int) -> None:
        """Remove one revision."""
        self._remove([key], "id = ?", key)

    def _remove(self, keys: Sequence[int], condition: str, value: int) -> None:
        if self._major == PACK16:
            newest = self._database.row("select max(id) from resource_revision")
            if newest and newest[0] in keys:
                # Crystal would use the id again, build a pack of that one body and so lose the fifteen others
                raise SourceBusy(
                    "the newest revision of a project of version 3 cannot be removed",
                    archive=self._folder,
                    advice="let Crystal fetch or write something first",
                )
        with self._database.transaction() as connection:
            connection.run(f"delete from resource_revision where {condition}", (value,))
        for key in keys:
            try:
                self._remove_body(key)
            except (OSError, ArchiveError) as error:  # a body without a row is nothing, so nothing is wrong
                LOG.warning("%s", quoted(f"{self._folder}: the body of revision {key} stays behind: {reason(error)}"))

    def _remove_body(self, key: int) -> None:
        for spot in spots(key, self._major):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(self._path(spot))
        if self._major == PACK16 and self._bodies.is_packed(key):
            spot = next(spot for spot in pack_spots(key) if os.path.lexists(self._path(spot)))
            without_entries(self._path(spot), {key}, self._temporary(".zip"))
        self._bodies.forget_folders()

    # -- renaming --

    def rename_resource(self, resource: int, url: bytes) -> None:
        """Give a resource another URL, which no other has; raises NotPermitted."""
        with self._database.transaction() as connection:
            if self._one(connection, "select id from resource where url = cast(? as text)", url) is not None:
                raise NotPermitted("that URL is in the project already", archive=self._folder, member=url)
            connection.run("update resource set url = cast(? as text) where id = ?", (url, resource))

    # -- files --

    def _path(self, spot: Spot) -> str:
        return os.path.join(self._folder, *spot.folders, spot.name)

    def _temporary(self, suffix: str) -> str:
        folder = os.path.join(self._folder, TEMPORARY)
        _make_folder(folder)
        return os.path.join(folder, f"archivefs-{secrets.token_hex(8)}{suffix}")

    def _put(self, temporary: str, spot: Spot) -> str:
        """Rename a body to its place; it, and every folder on the way, is on disk when this returns."""
        made = []
        folder = self._folder
        for name in spot.folders:
            folder = os.path.join(folder, name)
            if _make_folder(folder):
                made.append(folder)
        place = os.path.join(folder, spot.name)
        try:
            durable.rename(temporary, place)
            for folder in reversed(made):
                durable.sync_folder(os.path.dirname(folder))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(place)
            raise
        return place


def _make_folder(path: str) -> bool:
    """Make a folder unless it is there; a link in its place could lead anywhere.  Says whether it was made."""
    try:
        os.mkdir(path)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise NotPermitted("not a folder", archive=path) from None
        return False
    return True


def metadata_text(url: bytes, content_type: str | None, time_s: int) -> str:
    """What the row of a revision that was written says of it."""
    content_type = content_type or type_by_suffix(url.decode("utf-8", "surrogateescape"))
    headers = [*([["Content-Type", content_type]] if content_type else []), ["Date", http_date(time_s)], list(MARK)]
    return json.dumps({"http_version": 11, "status_code": 200, "reason_phrase": "OK", "headers": headers})


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def http_date(time_s: int) -> str:
    """A time as HTTP writes it, whatever the locale."""
    at = time.gmtime(time_s)
    day, month = _DAYS[at.tm_wday], _MONTHS[at.tm_mon - 1]
    return f"{day}, {at.tm_mday:02} {month} {at.tm_year:04} {at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02} GMT"


# -- ways to fill a body --


def filled_with(data: bytes) -> Fill:
    """A body of these bytes."""
    return filled_by(lambda: iter((data,)))


def filled_by(pieces: Callable[[], Iterator[bytes]]) -> Fill:
    """A body of these pieces."""

    def fill(path: str) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            for piece in pieces():
                durable.write_all(fd, piece)
            durable.sync_file(fd)
        finally:
            os.close(fd)

    return fill


def linked_or_copied(source: str) -> Fill:
    """A body that lies in a file, which stays where it is: shared where the file system can, else copied."""

    def fill(path: str) -> None:
        try:
            os.link(source, path, follow_symlinks=False)
        except OSError:
            filled_by(lambda: _pieces_of(source))(path)
            return
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.fchmod(fd, 0o666 & ~_umask())
            durable.sync_file(fd)
        finally:
            os.close(fd)

    return fill


def _pieces_of(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            yield piece


def _umask() -> int:
    umask = os.umask(0o077)
    os.umask(umask)
    return umask
