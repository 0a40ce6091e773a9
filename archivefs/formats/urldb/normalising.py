"""A URL that somebody types, as the database stores it (specification 5).  Pure functions.

Only new URLs are normalised; what is stored is never touched again.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote

from archivefs.errors import UsageError

DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]")
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
_KEPT = "!$%&'()*+,/:;=?@[]~-._|\\^`{}<>\""
_URL = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*)://)?([^/?#]*)([^#]*)", re.DOTALL)


class TypedUrl(NamedTuple):
    """The parts of a URL that count."""

    scheme: str
    had_scheme: bool
    host: str
    """In lower case, without the default port."""
    path: str
    """Normalised, but for its case."""


def normalised(url: str) -> TypedUrl:
    """Take a URL apart; raises UsageError."""
    match = _URL.match(url)
    if match is None or not match[2]:
        raise UsageError(f"{url} is no URL of a page")
    scheme = (match[1] or "http").lower()
    if scheme not in DEFAULT_PORTS:
        raise UsageError(f"{url} is no URL of a web server", advice="only http and https can be checked")
    if "@" in match[2]:
        raise UsageError("a URL with a user name in it cannot be stored")
    host = match[2].lower().removesuffix(DEFAULT_PORTS[scheme])
    return TypedUrl(scheme, match[1] is not None, host, normalised_path(match[3]))


def normalised_path(text: str) -> str:
    """A path with its query: dot segments gone, escapes in one form."""
    path, mark, query = text.partition("?")
    path = _without_dots(_escapes(path) or "/")
    query = _escapes(query)
    return path + mark + query if query else path


def _escapes(text: str) -> str:
    return _ENCODED.sub(_escape, quote(text, safe=_KEPT, errors="surrogateescape"))


def _escape(found: re.Match[str]) -> str:
    character = chr(int(found[0][1:], 16))
    return character if _UNRESERVED.fullmatch(character) else found[0].upper()


def _without_dots(path: str) -> str:
    out: list[str] = []
    pieces = path.split("/")[1:]
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        if piece == "..":
            if out:
                out.pop()
        elif piece != ".":
            out.append(piece)
        if last and piece in (".", ".."):
            out.append("")
    return "/" + "/".join(out)
