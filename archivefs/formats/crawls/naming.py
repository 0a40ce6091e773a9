"""The file name of a crawl archive is its identity: parsed here, made here.  Pure functions.

Revision 1 is ``<TS>_[<domain>]_<action>_<scope>_<mode>.zip``; the domain ends at the last ``]``, since no token after
it holds one.  Two later revisions share ``<TS>_<domain>_<scope>_<mode>.zip``, with a domain of plain characters, so a
misspelt name of revision 1 is never taken for one of theirs.  The crawl id is the name without ``.zip``; because it
begins with the time, the order of ids is the order of time.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from functools import lru_cache
from typing import NamedTuple

ACTIONS = ("download", "process", "embed", "crawl")
SCOPES = ("all", "files", "lists", "sitepages")
MODES = ("full", "incremental")
SUFFIX = ".zip"
FOLDER_OF_SCOPE = {"files": "01_files", "lists": "02_lists", "sitepages": "03_sitepages"}
SOURCE_TYPES = {"01_files": "file_sources", "02_lists": "list_sources", "03_sitepages": "sitepage_sources"}

_ACTION_OF_ENDPOINT = {"download_data": "download", "process_data": "process", "embed_data": "embed"}
_STAMP = "%Y-%m-%d_%H-%M-%S"
_FIELDS = ((0, 4), (5, 7), (8, 10), (11, 13), (14, 16), (17, 19))
_TAIL = rf"_({'|'.join(SCOPES)})_({'|'.join(MODES)})"
_TS = r"([0-9]{4}-[0-9]{2}-[0-9]{2}_[0-9]{2}-[0-9]{2}-[0-9]{2})"
_FIRST = re.compile(rf"{_TS}_\[([^/\\\x00-\x1f\x7f-\x9f]+)\]_({'|'.join(ACTIONS)}){_TAIL}")
_LATER = re.compile(rf"{_TS}_([A-Za-z0-9_-]+?){_TAIL}")
_NEW_DOMAIN = re.compile(r"[A-Za-z0-9_-]+")
_NEW_SOURCE = re.compile(r"[^/\\\0]+")


class CrawlName(NamedTuple):
    """What a file name says."""

    crawl_id: str
    stamp: str
    """``2025-01-15_14-25-00``, UTC."""
    time_s: int
    domain_id: str
    action: str
    scope: str
    mode: str
    later: bool = False
    """A later revision: read, never written or deleted."""

    @property
    def date(self) -> str:
        """``2025-01-15``."""
        return self.stamp[:10]

    @property
    def file_name(self) -> str:
        """With its suffix."""
        return self.crawl_id + SUFFIX


@lru_cache(maxsize=32_768)
def parse_id(crawl_id: str) -> CrawlName | None:
    """What an id says; None if it is none."""
    match = _FIRST.fullmatch(crawl_id)
    if match:
        stamp, domain_id, action, scope, mode = match.groups()
        later = False
    else:
        match = _LATER.fullmatch(crawl_id)
        if not match:
            return None
        stamp, domain_id, scope, mode = match.groups()
        action, later = "crawl", True
    time_s = _seconds(stamp)
    if time_s is None or domain_id in (".", "..") or not _is_text(domain_id):
        return None
    return CrawlName(crawl_id, stamp, time_s, domain_id, action, scope, mode, later)


def parse_file_name(name: str) -> CrawlName | None:
    """What a file name says; None if it is not a crawl's."""
    return parse_id(name[: -len(SUFFIX)]) if name.endswith(SUFFIX) else None


def new_id(domain_id: str, action: str, scope: str, mode: str, *, time: datetime) -> str:
    """The id of a new archive; raises ValueError.  Stricter than reading: the domain is of plain characters."""
    if not isinstance(domain_id, str) or not _NEW_DOMAIN.fullmatch(domain_id):
        raise ValueError(f"domain_id {domain_id!r}: letters, digits, '_' and '-' are expected")
    action = _ACTION_OF_ENDPOINT.get(action, action)
    for what, value, valid in (("action", action, ACTIONS), ("scope", scope, SCOPES), ("mode", mode, MODES)):
        if value not in valid:
            raise ValueError(f"{what} {value!r}: one of {', '.join(valid)} is expected")
    return f"{time.astimezone(timezone.utc).strftime(_STAMP)}_[{domain_id}]_{action}_{scope}_{mode}"


def check_source_id(source_id: str | None) -> None:
    """Raises ValueError for what cannot be a source's folder."""
    if source_id is None:
        return
    if not isinstance(source_id, str) or not _NEW_SOURCE.fullmatch(source_id) or source_id in (".", ".."):
        raise ValueError(f"source_id {source_id!r}: the name of a folder is expected")


def why_not(name: str) -> str:
    """One line that says what is wrong with a file name that is not a crawl's."""
    if not name.endswith(SUFFIX):
        return "not a crawl archive: its name does not end in .zip"
    stem = name[: -len(SUFFIX)]
    if not re.match(_TS + "_", stem):
        return "not a crawl archive: its name does not begin with a time such as 2025-01-15_14-25-00_"
    if _seconds(stem[:19]) is None:
        return f"not a crawl archive: {stem[:19]} is not a time that exists"
    return "not a crawl archive: TIME_[DOMAIN]_ACTION_SCOPE_MODE.zip is expected after the time in its name"


def _seconds(stamp: str) -> int | None:
    try:
        # not strptime, which takes ten times as long
        fields = [int(stamp[start:end]) for start, end in _FIELDS]
        return int(datetime(*fields, tzinfo=timezone.utc).timestamp())  # type: ignore[arg-type, misc]
    except ValueError:
        return None


def _is_text(name: str) -> bool:
    """A name that is not UTF-8 comes with lone surrogates, which no tree may show."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
