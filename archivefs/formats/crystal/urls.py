"""The forms in which a URL may be stored, and what an alias makes of it.  Pure functions.

Used to find a URL that a person or a page names: Crystal stores its normal form today, older rows hold other
forms, and all stay as they are.  URLs are text with surrogate escapes for bytes that are not UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote, urljoin

from archivefs.urlnames import scheme_of

_KEPT = "!#$%&'()*+,/:;=?@[]~"
"""Beside letters, digits and ``-._`` the characters that stay as they are."""
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})?")
_UNRESERVED = re.compile(r"[A-Za-z0-9\-._~]")
_AUTHORITY = re.compile(r"(https?)://([^/?#]*)", re.IGNORECASE)


class Alias(NamedTuple):
    """URLs that begin with *source* are taken for others that begin with *target*."""

    id: int
    source: str
    target: str
    external: bool


def forms(url: str, aliases: Sequence[Alias] = ()) -> Iterator[str]:
    """The forms under which *url* may be stored, the exact one first; each once."""
    seen = {url}
    yield url
    for step in (without_fragment, with_plain_authority, with_path, percent_encoded):
        url = step(url)
        if url not in seen:
            seen.add(url)
            yield url
    other = by_alias(url, aliases)
    if other is not None and other not in seen:
        yield other


def normal_form(url: str) -> str:
    """The form in which Crystal stores a new URL, but for rules that belong to single sites."""
    return percent_encoded(with_path(with_plain_authority(without_fragment(url))))


def by_alias(url: str, aliases: Sequence[Alias]) -> str | None:
    """What the first alias that fits makes of *url*; None if none does, or if it leads out of the project."""
    for alias in aliases:
        if url.startswith(alias.source):
            return None if alias.external else alias.target + url[len(alias.source) :]
    return None


def without_fragment(url: str) -> str:
    """Without ``#fragment``, if that is not empty."""
    rest, _, fragment = url.partition("#")
    return rest if fragment else url


def with_plain_authority(url: str) -> str:
    """With an ASCII authority (and its scheme) in lower case."""
    found = _AUTHORITY.match(url)
    return found[0].lower() + url[found.end() :] if found and found[0].isascii() else url


def with_path(url: str) -> str:
    """With ``/`` for an empty path."""
    found = _AUTHORITY.match(url)
    if not found or url[found.end() : found.end() + 1] == "/":
        return url
    return f"{found[0]}/{url[found.end() :]}"


def percent_encoded(url: str) -> str:
    """With what need not be escaped unescaped, and all else escaped."""
    if any(escape[1] is None for escape in _ESCAPE.finditer(url)):
        url = url.replace("%", "%25")
    else:
        url = _ESCAPE.sub(_unescape, url)
    return quote(url, safe=_KEPT, errors="surrogateescape")


def _unescape(found: re.Match[str]) -> str:
    character = chr(int(found[1], 16))
    return character if _UNRESERVED.fullmatch(character) else found[0]


def resolved(location: str, base: str) -> str | None:
    """Where ``Location`` leads from the page *base*; None if that makes no sense."""
    try:
        target = urljoin(base, location.strip())
    except ValueError:
        return None
    return target if scheme_of(target) else None
