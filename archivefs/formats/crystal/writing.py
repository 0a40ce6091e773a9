"""Opening a project for writing: who may, where not, and what is put right first.

Used by ``__init__.py``.  Only one who has the project for himself may write.  When Crystal has it open the project is
opened read-only, with a word about it; a second read-write mount of ours is refused.
"""

from __future__ import annotations

import logging
import os

from archivefs.errors import ArchiveError, SourceBusy, UsageError, quoted
from archivefs.format import LEAVE_OUT_RW, Opening
from archivefs.formats.crystal.bodies import IN_PROGRESS, PACK16
from archivefs.formats.crystal.drafts import Drafts
from archivefs.formats.crystal.held import HeldDatabase
from archivefs.formats.crystal.location import Place, find_project
from archivefs.formats.crystal.media import is_network, medium_of
from archivefs.formats.crystal.revisions import RevisionStore
from archivefs.formats.crystal.rwtree import RwTree, allow_removal
from archivefs.formats.crystal.schema import STATUS_INDEX
from archivefs.formats.crystal.tree import CrystalTree
from archivefs.staging.access import require_writable
from archivefs.staging.area import JOURNAL, area_of, default_folder
from archivefs.staging.locks import WriterLock, holder
from archivefs.tree import Tree

LOG = logging.getLogger("archivefs.crystal")


def open_for_writing(path: str, opening: Opening) -> Tree:
    """The project, writable; or read-only when Crystal has it open.  Raises UsageError and SourceBusy."""
    place = find_project(path)
    _check_medium(place, forced=bool(opening.options.get("network")))
    lock = WriterLock(place.folder)
    try:
        database = HeldDatabase(place)
    except SourceBusy:
        lock.close()
        LOG.warning("%s", quoted(f"{place.folder}: another program has it open, Crystal perhaps; read-only for now"))
        mention_pending(path, opening)
        return CrystalTree(path, opening)
    except BaseException:
        lock.close()
        raise
    try:
        return _opened(path, opening, place, database, lock)
    except BaseException:
        database.close()
        lock.close()
        raise


def mention_pending(path: str, opening: Opening) -> None:
    """Say that an earlier mount has left something, where nobody is about to store it."""
    folder = find_project(path).folder
    area = default_folder(folder, opening.options.get("staging"))
    if os.path.exists(os.path.join(area, JOURNAL)) and holder(folder) is None:
        problem = f"{folder}: pages that an earlier mount has left are not stored yet; mount it read-write for that"
        LOG.warning("%s", quoted(problem))


def _opened(path: str, opening: Opening, place: Place, database: HeldDatabase, lock: WriterLock) -> RwTree:
    base = CrystalTree(path, opening, database)
    _check_state(base)
    area = area_of(place.folder, opening.options.get("staging"))
    tree = RwTree(base, RevisionStore(base.project, database, base.bodies), Drafts(area), lock)
    tree.may_delete = bool(opening.options.get("delete"))
    tree.may_rename = bool(opening.options.get("rename"))
    if tree.may_delete:
        allow_removal(tree)
    if not opening.ignore_pending:
        made = tree.recover()
        if made:
            LOG.warning("%s", quoted(f"{place.folder}: {made} pages that an earlier mount has left are stored now"))
    LOG.warning("%s", quoted(f"{place.folder}: read-write; Crystal cannot open it until it is unmounted"))
    return tree


def _refused(place: Place, problem: str, advice: str = LEAVE_OUT_RW) -> UsageError:
    return UsageError(f"cannot be written: {problem}", archive=place.folder, advice=advice)


def _check_medium(place: Place, *, forced: bool) -> None:
    require_writable(place.folder, place.folder, place.database)
    medium = medium_of(place.folder)
    if not forced and medium is not None and is_network(medium):
        problem = f"it lies on a file system of the kind {medium.kind}, where locks may not hold"
        raise _refused(place, problem, "copy it to a local disk, or insist with -o network")


def _check_state(base: CrystalTree) -> None:
    place, edition = base.project.place, base.project.edition()
    if os.path.lexists(os.path.join(place.folder, IN_PROGRESS)):
        raise _refused(place, "its move to another version has not ended", "let Crystal open it, which goes on with it")
    if edition.major == PACK16 and edition.properties.get("major_version_old") is not None:
        raise _refused(place, "its move to another version has not ended", "let Crystal open it, which goes on with it")
    if edition.schema.posing:
        raise _refused(place, f"{sorted(edition.schema.posing)[0]} in its database is no table")
    database = base.project.database
    if database.row("select 1 from sqlite_master where type = 'trigger' limit 1"):
        raise _refused(place, "its database has triggers, which Crystal does not make")
    if STATUS_INDEX in edition.schema.indexes:
        try:
            database.row("select json_extract('{\"a\": 1}', '$.a')")
        except ArchiveError:
            raise _refused(place, "SQLite has no JSON functions here, which an index of its database needs") from None
