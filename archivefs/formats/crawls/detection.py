"""Is it a storage of crawls, a folder of them, or one crawl?  No zip reader is imported before a name fits."""

from __future__ import annotations

import os

from archivefs.errors import ArchiveError
from archivefs.format import MAX_PROBED_NAMES, Match, Probe
from archivefs.formats.crawls.naming import SUFFIX, parse_file_name

_FOLDERS = ("crawls", "crawl_results", os.path.join("reports", "crawls"))


def match(probe: Probe) -> Match:
    """YES where a crawl's name was seen; MAYBE where only the name of the folder speaks for it."""
    if not probe.is_directory:
        return Match.YES if _is_crawl(probe) else Match.NO
    zips = [name for name in probe.names if name.endswith(SUFFIX)]
    if zips and all(parse_file_name(name) for name in zips):
        return Match.YES
    found = [path for path in _candidates(probe) if os.path.isdir(path)]
    if not found:
        return Match.NO
    return Match.YES if any(_has_crawl(path) for path in found) else Match.MAYBE


def _candidates(probe: Probe) -> list[str]:
    """The folder itself if it is called so, and those of its folders in which crawls are kept."""
    real = os.path.abspath(probe.path)
    itself = [probe.path] if any(real.endswith(os.sep + name) for name in _FOLDERS) else []
    return itself + [os.path.join(probe.path, name) for name in _FOLDERS]


def _has_crawl(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return any(parse_file_name(entry.name) for entry, _ in zip(entries, range(MAX_PROBED_NAMES), strict=False))
    except OSError:
        return False


def _is_crawl(probe: Probe) -> bool:
    name = parse_file_name(probe.name)
    if name is None:
        return False
    from archivefs.formats.crawls.archive import CrawlArchive

    try:
        archive = CrawlArchive(probe.path, name)
    except ArchiveError:
        return False
    try:
        archive.metadata_member()
    except ArchiveError:
        return False
    finally:
        archive.close()
    return True
