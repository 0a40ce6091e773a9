"""What a row of ``resource_revision`` says: an error, or an answer with status and headers.

Used by everything that shows revisions.  Rows come from strangers and from twelve years of Crystal: what is well
formed is taken, the rest is left out and said so (``problem``).  Headers that are credentials never get further
than here.  Pure functions and values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any, NamedTuple

from archivefs.formats.crystal.connection import Row
from archivefs.formats.crystal.media_types import type_by_suffix

NOT_MODIFIED = 304
SECRET_HEADERS = frozenset(
    {"set-cookie", "set-cookie2", "cookie", "authorization", "proxy-authorization", "authentication-info"}
)
HEADERS_OF_304 = frozenset({"cache-control", "content-location", "date", "etag", "expires", "vary"})
"""What a 304 says anew about the page it stands for."""
_NULL = b"null"

Headers = tuple[tuple[str, str], ...]


class FetchError(NamedTuple):
    """Why a page could not be fetched."""

    type: str
    message: str | None


class Revision(NamedTuple):
    """One fetch of a resource."""

    id: int
    resource: int
    error: FetchError | None = None
    status: int | None = None
    reason: str | None = None
    headers: Headers = ()
    """Without those that are credentials."""
    has_cookie: bool = False
    problem: str | None = None
    """What is wrong with the row."""

    def header(self, name: str) -> str | None:
        """The first header of that name (lower case)."""
        return next((value for key, value in self.headers if key.lower() == name), None)

    @property
    def is_redirect(self) -> bool:
        """Does it lead elsewhere?"""
        return self.status is not None and self.status // 100 == 3


def revision_of(row: Row) -> Revision:
    """A row of id, resource id, error, metadata and cookie flag; null for a text that was too long to read."""
    key, resource, error, metadata, has_cookie = row
    if error is not None and error != _NULL:
        return Revision(key, resource, error_of(error), has_cookie=bool(has_cookie))
    if metadata == _NULL:
        return Revision(key, resource, has_cookie=bool(has_cookie))
    if metadata is None:
        return Revision(key, resource, has_cookie=bool(has_cookie), problem="the metadata cannot be read")
    document, problem = _object(metadata)
    status, reason = document.get("status_code"), document.get("reason_phrase")
    headers, skipped = _headers(document.get("headers"))
    if document and type(status) is not int:
        problem = "the status is not a number"
    return Revision(
        key,
        resource,
        status=status if type(status) is int else None,
        reason=reason if isinstance(reason, str) else None,
        headers=headers,
        has_cookie=bool(has_cookie),
        problem=problem or skipped,
    )


def error_of(text: bytes) -> FetchError:
    """What a text of the column ``error`` says."""
    document, problem = _object(text)
    kind, message = document.get("type"), document.get("message")
    if problem or not isinstance(kind, str):
        return FetchError("unknown", None)
    return FetchError(kind, message if isinstance(message, str) else None)


def _object(text: Any) -> tuple[dict[str, Any], str | None]:
    """The JSON object in *text*, and what is wrong if there is none."""
    if not isinstance(text, bytes):
        return {}, "the metadata is not text"
    try:
        document = json.loads(text.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return {}, "the metadata is not JSON"
    if not isinstance(document, dict):
        return {}, "the metadata is not a JSON object"
    return document, None


def _headers(found: Any) -> tuple[Headers, str | None]:
    if not isinstance(found, list):
        return (), "there is no list of headers"
    headers = tuple((pair[0], pair[1]) for pair in found if _is_header(pair))
    skipped = None if len(headers) == len(found) else "a header is not two strings"
    return tuple(pair for pair in headers if pair[0].lower() not in SECRET_HEADERS), skipped


def _is_header(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], str)


# -- what the headers mean --


def content_type(headers: Headers, url: str) -> str | None:
    """The content type: the header's without parameters, lower case; by suffix without a header; None: unknown."""
    for name, value in headers:
        if name.lower() == "content-type":
            kind = value.split(";")[0].strip().lower()
            return kind if kind.count("/") == 1 else "text/plain"
    return type_by_suffix(url)


def merged_headers(shown: Revision, not_modified: Revision) -> Headers:
    """The headers of a page that a 304 stands for: some are told anew."""
    anew = [pair for pair in not_modified.headers if pair[0].lower() in HEADERS_OF_304]
    names = {name.lower() for name, _ in anew}
    return (*(pair for pair in shown.headers if pair[0].lower() not in names), *anew)


def first(headers: Iterable[tuple[str, str]], name: str) -> str | None:
    """The first header of that name (lower case)."""
    return next((value for key, value in headers if key.lower() == name), None)


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATE = re.compile(
    r"(?:mon|tue|wed|thu|fri|sat|sun),\s+(\d{1,2})\s+([a-z]{3})\s+(\d{4})\s+(\d{1,2}):(\d{1,2}):(\d{1,2})\s+GMT",
    re.IGNORECASE | re.ASCII,
)


def http_time(text: str | None) -> int | None:
    """Seconds since 1970 of a date such as ``Mon, 01 Jan 2024 00:01:00 GMT``; None if it is written otherwise."""
    found = _DATE.fullmatch(text) if text else None
    if not found:
        return None
    day, month, year, hour, minute, second = found.groups()
    try:
        moment = datetime(
            int(year),
            _MONTHS.index(month.lower()) + 1,
            int(day),
            int(hour),
            int(minute),
            int(second),
            tzinfo=timezone.utc,
        )
    except ValueError:
        return None
    return int(moment.timestamp())


def iso_time(seconds: int) -> str:
    """``2024-01-01T00:01:00Z``."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def fetch_time(headers: Headers) -> int | None:
    """When the page was fetched: Date and Age are all that records it."""
    moment = http_time(first(headers, "date"))
    age = first(headers, "age")
    if moment is not None and age and re.fullmatch("[0-9]{1,9}", age):
        moment += int(age)
    return moment
