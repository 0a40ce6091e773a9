"""``archivefs verify`` for crawls: every file of the storage, every member of every archive.

=================  ==========================================================================================
crawl-name         a file whose name is not a crawl's, or what is no regular file
crawl-unreadable   an archive whose zip directory or metadata cannot be read
crawl-member       a member that cannot be read to its end
crawl-encrypted    a member is encrypted
crawl-skipped      notice: a member that is not shown, for its name or because another has it too
crawl-metadata     notice: the metadata contradict the file name, or have a key twice
crawl-csv          notice: a map file is not UTF-8 throughout, or is no CSV
=================  ==========================================================================================
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from archivefs.errors import ArchiveError, CorruptMember, EncryptedMember, NotFound
from archivefs.format import Finding, Level, Opening, VerifyRequest
from archivefs.formats.crawls.archive import CrawlArchive
from archivefs.formats.crawls.maps import MAP_SUFFIX, MapRows
from archivefs.formats.crawls.naming import parse_file_name
from archivefs.formats.crawls.storage import Item, Storage, one_line


def verify(path: str, opening: Opening, request: VerifyRequest) -> Iterator[Finding]:
    """Findings as they are met; raises UnreadableArchive for what is no storage, or one zip that cannot be opened."""
    if not os.path.isdir(path):
        yield from _of_archive(CrawlArchive(path, parse_file_name(os.path.basename(path))), "")
        return
    storage = Storage(path)
    try:
        snapshot = storage.snapshot()
        for odd in snapshot.odd:
            yield Finding("crawl-name", Level.ERROR, _below(path, odd.path), odd.reason)
        for number, item in enumerate(snapshot.items):
            request.progress(number, len(snapshot.items))
            yield from _of_item(item, _below(path, item.path))
    finally:
        storage.close()


def _below(root: str, path: str) -> str:
    return os.fsencode(os.path.relpath(path, root)).decode("utf-8", "backslashreplace")


def _of_item(item: Item, where: str) -> Iterator[Finding]:
    try:
        archive = CrawlArchive(item.path, item.name)
    except NotFound:
        return  # deleted meanwhile
    except ArchiveError as error:
        yield Finding("crawl-unreadable", Level.ERROR, where, one_line(error))
        return
    yield from _of_archive(archive, where)


def _of_archive(archive: CrawlArchive, where: str) -> Iterator[Finding]:
    try:
        for warning in archive.warnings:
            yield Finding("crawl-skipped", Level.NOTICE, where, warning)
        try:
            for warning in archive.metadata().warnings:
                yield Finding("crawl-metadata", Level.NOTICE, where, warning)
        except ArchiveError as error:
            yield Finding("crawl-unreadable", Level.ERROR, where, one_line(error))
        for name, member in archive.members.items():
            yield from _of_member(archive, name, member, ":".join(filter(None, (where, name))))
    finally:
        archive.close()


def _of_member(archive: CrawlArchive, name: str, member: int, where: str) -> Iterator[Finding]:
    try:
        for _ in archive.pieces(member):
            pass
    except EncryptedMember as error:
        yield Finding("crawl-encrypted", Level.ERROR, where, error.problem)
        return
    except ArchiveError as error:
        yield Finding("crawl-member", Level.ERROR, where, error.problem)
        return
    if name.endswith(MAP_SUFFIX):
        yield from _of_map(archive, member, where)


def _of_map(archive: CrawlArchive, member: int, where: str) -> Iterator[Finding]:
    try:
        rows = MapRows(archive.pieces(member))
        for _ in rows:
            pass
        problems = rows.warnings
    except CorruptMember as error:
        problems = [error.problem]
    for problem in problems:
        yield Finding("crawl-csv", Level.NOTICE, where, problem)
