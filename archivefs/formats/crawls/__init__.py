"""The format crawls: a folder of zips, one for each crawl of a domain, with tables of what was found.

This module has what is needed to recognise an archive, and the three names a crawler uses to write one; everything
else is imported when it is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from archivefs.format import Finding, Format, Match, Opening, Probe, VerifyRequest, WebOffer
from archivefs.options import Option

if TYPE_CHECKING:
    from archivefs.tree import Tree

__all__ = ["FORMAT", "PERSISTENT_STORAGE_PATH_CRAWLS_SUBFOLDER", "create_crawl_archive", "generate_crawl_id"]

PERSISTENT_STORAGE_PATH_CRAWLS_SUBFOLDER: str = "crawls"
"""Where new archives are put, below the storage."""


def create_crawl_archive(
    domain_id: str,
    action: str,
    scope: str,
    mode: str,
    source_id: str | None,
    job_id: str | None,
    started_utc: str,
    finished_utc: str,
    ok: bool,
    error: str,
    sources: Sequence[Mapping[str, Any]],
    *,
    storage: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    now: datetime | None = None,
) -> str | None:
    """Put the map files of a crawl and what is known of it into a new archive; gives its id, None for a dry run.

    A crawl that failed is archived all the same.  *storage* is the folder that has ``crawler/`` and ``crawls/``;
    without it the one that the environment calls ``PERSISTENT_STORAGE_PATH``.  The archive appears whole or not at
    all, and never in the place of another.  Raises ValueError for ids, words or sources that cannot be, and
    ArchiveError ("archive error: …", also logged) when it cannot be written: a crawler should go on as if nothing had
    happened.
    """
    from archivefs.formats.crawls.creating import Crawl, create

    crawl = Crawl(
        domain_id=domain_id,
        action=action,
        scope=scope,
        mode=mode,
        source_id=source_id,
        job_id=job_id,
        started_utc=started_utc,
        finished_utc=finished_utc,
        ok=ok,
        error=error,
        sources=sources,
    )
    return create(crawl, storage=storage, dry_run=dry_run, now=now)


def generate_crawl_id(domain_id: str, action: str, scope: str, mode: str, *, now: datetime | None = None) -> str:
    """The id an archive made now (or at *now*) would have; raises ValueError."""
    from archivefs.formats.crawls.creating import crawl_id_at

    return crawl_id_at(domain_id, action, scope, mode, now)


def _match(probe: Probe) -> Match:
    from archivefs.formats.crawls.detection import match

    return match(probe)


def _open(path: str, opening: Opening) -> Tree:
    from archivefs.errors import UsageError
    from archivefs.formats.crawls.tree import CrawlsTree, CrawlTree

    if os.path.isdir(path):
        return CrawlsTree(path, opening)
    if opening.read_write:
        raise UsageError("one crawl alone cannot be written", archive=path, advice="mount its folder")
    return CrawlTree(path, opening)


def _commands() -> Sequence[Any]:
    from archivefs.formats.crawls.commands import COMMANDS

    return COMMANDS


def _web() -> WebOffer:
    from archivefs.formats.crawls.routes import offer

    return offer()


def _verify(path: str, opening: Opening, request: VerifyRequest) -> Iterable[Finding]:
    from archivefs.formats.crawls.verify import verify

    return verify(path, opening, request)


FORMAT = Format(
    name="crawls",
    summary="Crawl archives: listed, compared, created, served",
    match=_match,
    open=_open,
    options=(
        Option(
            name="safe_csv",
            help="Put ' before cells of generated CSV that a spreadsheet would take for formulas.",
            default=False,
        ),
    ),
    verify=_verify,
    commands=_commands,
    command_names=("crawls",),
    web=_web,
    can_write=True,
)
