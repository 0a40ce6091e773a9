"""Creating an archive from the map files a crawler has left.

Every map file is read once, into a file without a name, before anything is written, so that one that grows or vanishes
meanwhile cannot make an archive that contradicts itself.  The archive then appears whole or not at all
(``publishing.py``); if its second is taken, the next free one is used.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import IO, Any, NamedTuple

from archivefs.errors import ArchiveError, OutOfSpace, quoted
from archivefs.formats.crawls import publishing
from archivefs.formats.crawls.maps import MAP_SUFFIX, MapRows
from archivefs.formats.crawls.metadata import CRAWL_JSON
from archivefs.formats.crawls.naming import (
    FOLDER_OF_SCOPE,
    SOURCE_TYPES,
    SUFFIX,
    check_source_id,
    new_id,
    parse_id,
)
from archivefs.formats.crawls.rendering import get_url
from archivefs.staging import durable

LOG = logging.getLogger(__name__)

STORAGE_VARIABLE = "PERSISTENT_STORAGE_PATH"
MAX_TRIES = 120
COUNTS = ("items_total", "items_added", "items_changed", "items_removed", "items_failed")
_PIECE = 1 << 20
_SPOOL_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True)
class Crawl:
    """What is told of a crawl."""

    domain_id: str
    action: str
    scope: str
    mode: str
    source_id: str | None
    job_id: str | None
    started_utc: str
    finished_utc: str
    ok: bool
    error: str
    sources: Sequence[Mapping[str, Any]]


class Collected(NamedTuple):
    """A map file that was read."""

    member: str
    offset: int
    size: int
    rows: int


def crawl_id_at(domain_id: str, action: str, scope: str, mode: str, now: datetime | None) -> str:
    """The id of an archive made at that time; raises ValueError."""
    return new_id(domain_id, action, scope, mode, time=_utc(now))


def create(crawl: Crawl, *, storage: str | os.PathLike[str] | None, dry_run: bool, now: datetime | None) -> str | None:
    """Make the archive; gives its id.  Raises ValueError and ArchiveError."""
    time = _utc(now)
    crawl_id = new_id(crawl.domain_id, crawl.action, crawl.scope, crawl.mode, time=time)
    named = parse_id(crawl_id)
    assert named is not None
    crawl = replace(crawl, action=named.action)
    check_source_id(crawl.source_id)
    _check_sources(crawl.sources)
    root = _storage_path(storage)
    if dry_run:
        return None
    try:
        return _create(crawl, root, time)
    except OSError as error:
        kind = OutOfSpace if error.errno in (errno.ENOSPC, errno.EDQUOT) else ArchiveError
        failure = kind(f"archive error: {error.strerror or error}", archive=root)
        LOG.error("%s", failure)
        raise failure from error


def _create(crawl: Crawl, root: str, time: datetime) -> str:
    folder = os.path.join(root, "crawls")
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES) as spool:
        collected = list(_collected(crawl, root, spool))
        if not os.path.isdir(folder):
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder)  # but not the storage: that it is missing is a mistake
            durable.sync_folder(root)
        publishing.remove_leftovers(folder)
        for later_s in range(MAX_TRIES):
            crawl_id = crawl_id_at(
                crawl.domain_id, crawl.action, crawl.scope, crawl.mode, time + timedelta(seconds=later_s)
            )
            final = os.path.join(folder, crawl_id + SUFFIX)
            if not os.path.lexists(final) and _written(crawl, crawl_id, collected, spool, final):
                return crawl_id
    problem = f"archive error: the names of the next {MAX_TRIES} seconds are all taken"
    failure = ArchiveError(problem, archive=folder)
    LOG.error("%s", failure)
    raise failure


def _written(crawl: Crawl, crawl_id: str, collected: Sequence[Collected], spool: IO[bytes], final: str) -> bool:
    """Write the archive under that name; False if somebody took it meanwhile."""
    fd, temporary = publishing.new_temporary(os.path.dirname(final))
    try:
        with open(fd, "w+b", closefd=False) as file:
            _write_zip(file, _metadata(crawl, crawl_id, collected), collected, spool)
        publishing.publish(fd, temporary, final)
        return True
    except FileExistsError:
        return False
    finally:
        publishing.discard(temporary)
        os.close(fd)


def _write_zip(file: IO[bytes], metadata: Mapping[str, Any], collected: Sequence[Collected], spool: IO[bytes]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        text = json.dumps(metadata, indent=2, ensure_ascii=False)
        archive.writestr(CRAWL_JSON, text.encode("utf-8", "backslashreplace"))
        for member, offset, size, _ in collected:
            info = zipfile.ZipInfo(member, date_time=_dos_time())
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            info.file_size = size
            spool.seek(offset)
            with archive.open(info, "w") as out:
                while size:
                    piece = spool.read(min(_PIECE, size))
                    out.write(piece)
                    size -= len(piece)


def _dos_time() -> tuple[int, int, int, int, int, int]:
    now = datetime.now(timezone.utc)
    return (max(now.year, 1980), now.month, now.day, now.hour, now.minute, now.second)


# -- what goes in --


def _metadata(crawl: Crawl, crawl_id: str, collected: Sequence[Collected]) -> dict[str, Any]:
    return {
        "crawl_id": crawl_id,
        "domain_id": crawl.domain_id,
        "action": crawl.action,
        "scope": crawl.scope,
        "mode": crawl.mode,
        "source_id": crawl.source_id,
        "job_id": crawl.job_id,
        "started_utc": crawl.started_utc,
        "finished_utc": crawl.finished_utc,
        "ok": crawl.ok,
        "error": crawl.error,
        "sources": list(_sources(crawl, crawl_id, collected)),
    }


def _sources(crawl: Crawl, crawl_id: str, collected: Sequence[Collected]) -> Iterator[dict[str, Any]]:
    """What the caller said, with the map files; then the sources that were found and not mentioned."""
    found: dict[tuple[str, str], list[Collected]] = {}
    for one in collected:
        folder, source, _ = one.member.split("/")
        found.setdefault((SOURCE_TYPES[folder], source), []).append(one)
    for told in crawl.sources:
        mine = found.pop((told.get("source_type", ""), told.get("source_id", "")), [])
        counts = {name: told.get(name, 0) for name in COUNTS}
        known = {"source_type": told.get("source_type"), "source_id": told.get("source_id"), **counts}
        more = {name: value for name, value in told.items() if name not in known and name != "map_files"}
        yield {**known, **more, "map_files": _map_files(mine, crawl_id)}
    for (source_type, source), mine in sorted(found.items()):
        counts = dict.fromkeys(COUNTS, 0) | {"items_total": _items_total(mine)}
        yield {"source_type": source_type, "source_id": source, **counts, "map_files": _map_files(mine, crawl_id)}


def _map_files(collected: Sequence[Collected], crawl_id: str) -> list[dict[str, str]]:
    return [{"path": one.member, "url": get_url(crawl_id, file=one.member)} for one in collected]


def _items_total(collected: Sequence[Collected]) -> int:
    rows = {one.member.rpartition("/")[2]: one.rows for one in collected}
    return rows.get("files_map.csv", rows.get("sharepoint_map.csv", 0))


# -- collecting --


def _collected(crawl: Crawl, root: str, spool: IO[bytes]) -> Iterator[Collected]:
    """Every map file of the scope, in order, its bytes in the spool."""
    scopes = FOLDER_OF_SCOPE if crawl.scope == "all" else (crawl.scope,)
    for folder in sorted(FOLDER_OF_SCOPE[scope] for scope in scopes):
        above = os.path.join(root, "crawler", crawl.domain_id, folder)
        if os.path.islink(above):
            continue
        for source in _names(above, directories=True):
            if crawl.source_id is not None and source != crawl.source_id:
                continue
            for name in _names(os.path.join(above, source), directories=False):
                if name.endswith(MAP_SUFFIX):
                    read = _read(os.path.join(above, source, name), f"{folder}/{source}/{name}", spool)
                    if read is not None:
                        yield read


def _names(folder: str, *, directories: bool) -> list[str]:
    """What is in a folder, sorted; links are left out, and so are names that no archive may hold."""
    try:
        with os.scandir(folder) as entries:
            fits = [
                entry.name
                for entry in entries
                if (entry.is_dir if directories else entry.is_file)(follow_symlinks=False)
            ]
    except OSError:
        return []
    bad = [name for name in fits if "\\" in name or not name.isprintable()]
    for name in bad:
        LOG.warning("%s is left out of the archive: no member can have its name", quoted(os.path.join(folder, name)))
    return sorted(set(fits) - set(bad))


def _read(path: str, member: str, spool: IO[bytes]) -> Collected | None:
    """Read a map file once; None if it has vanished."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        offset = spool.seek(0, os.SEEK_END)
        for piece in iter(lambda: file.read(_PIECE), b""):
            spool.write(piece)
    size = spool.tell() - offset
    return Collected(member, offset, size, _count_rows(spool, offset, size))


def _count_rows(spool: IO[bytes], offset: int, size: int) -> int:
    def pieces() -> Iterator[bytes]:
        left = size
        spool.seek(offset)
        while left:
            piece = spool.read(min(_PIECE, left))
            left -= len(piece)
            yield piece

    try:
        return sum(1 for _ in MapRows(pieces()))
    except ArchiveError:
        return 0


# -- what was asked --


def _utc(now: datetime | None) -> datetime:
    if now is None:
        return datetime.now(timezone.utc)
    return now.replace(tzinfo=timezone.utc) if now.tzinfo is None else now.astimezone(timezone.utc)


def _check_sources(sources: object) -> None:
    if not isinstance(sources, (list, tuple)) or not all(isinstance(source, Mapping) for source in sources):
        raise ValueError("sources: a list of dictionaries is expected")
    try:
        json.dumps(list(map(dict, sources)), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sources: {error}") from None


def _storage_path(storage: str | os.PathLike[str] | None) -> str:
    path = os.fspath(storage) if storage is not None else os.environ.get(STORAGE_VARIABLE, "")
    if not path:
        raise ValueError(f"storage is not given, and the environment has no {STORAGE_VARIABLE}")
    return os.path.abspath(path)
