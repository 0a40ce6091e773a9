"""URL <-> path: the one rule for every format whose keys are URLs.  Pure functions; any thread may call them.

A URL has exactly one *marked path*, found without a look at any other URL::

    >>> marked_path("https://h.example/a/?q=/x")
    ('https', 'h.example', 'a', '?q=^2Fx')
    >>> url_of(("https", "h.example", "a", "?q=^2Fx"))
    'https://h.example/a/?q=/x'

Nothing is decoded, folded or normalised; what is made up is marked with ``^``.  A name that would be too long
keeps its beginning and a digest of the whole, so it is found again only by looking (``Shortened``).

URLs are text in which a byte that is not UTF-8 is a surrogate escape (``errors="surrogateescape"``).
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

MAX_NAME_BYTES = 250
"""Five less than a file system takes: room for ``^file``, ``^revs``, ``.yaml`` and the like."""
MAX_STEM_BYTES = 224
DIGEST_DIGITS = 24
MAX_SCHEME = 64

NO_SCHEME = "^noscheme"
EMPTY_DIRECTORY = "^empty"
DIRECTORY_PAGE = "^index"
PAGE_SUFFIX = "^file"
"""Marks the page ``/d`` beside the directory ``d``."""
RECORD_SUFFIX = ".yaml"
RECORD_DIRECTORY_SUFFIX = "^dir"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*(?=:)")
_SCHEME_NAME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")
_ODD = re.compile("[/^\x00-\x1f\x7f\x85\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ESCAPES = re.compile(r"(?:\^[0-9A-F]{2})+")
_SHORTENED = re.compile(r"(.*)\^~([0-9a-f]{24})", re.DOTALL)
_CUT = re.compile("[?#]")
_NOT_IN_DIRECTORY = re.compile("[/?#]")
_SLASH_BEFORE_TAIL = re.compile("[^?#]*/")


class UrlPieces(NamedTuple):
    """A URL taken apart; the pieces are as they are in the URL."""

    top: str
    """The name of the first directory: ``https``, ``mailto:`` or ``^noscheme``."""
    directories: tuple[str, ...]
    leaf: str
    """What follows the last directory, with the ``?query`` and the ``#fragment``."""

    @property
    def has_tail(self) -> bool:
        """Is there a query or a fragment?"""
        return _CUT.search(self.leaf) is not None


class Shortened(NamedTuple):
    """A name too long to be read back alone: that of a piece which begins with *stem*."""

    stem: str
    name: str

    def is_name_of(self, piece: str) -> bool:
        """Is it the name of *piece*?"""
        return piece.startswith(self.stem) and escape(piece) == self.name


# -- the marked path --


def split_url(url: str) -> UrlPieces:
    """Take a URL apart at the places where its path is."""
    scheme = scheme_of(url)
    if scheme is None:
        return UrlPieces(NO_SCHEME, (), url)
    rest = url[len(scheme) + 1 :]
    if not rest.startswith("//"):
        return UrlPieces(f"{scheme}:", (), rest)
    rest = rest[2:]
    cut = _CUT.search(rest)
    end = cut.start() if cut else len(rest)
    *directories, last = rest[:end].split("/")
    return UrlPieces(scheme, tuple(directories), last + rest[end:])


def scheme_of(url: str) -> str | None:
    """The scheme, its letters as they are; None if there is none."""
    found = _SCHEME.match(url)
    return found[0] if found and len(found[0]) <= MAX_SCHEME else None


def marked_path(url: str) -> tuple[str, ...]:
    """The one path of a URL."""
    pieces = split_url(url)
    return (pieces.top, *map(directory_name, pieces.directories), leaf_name(pieces.leaf))


def directory_path(prefix: str) -> tuple[str, ...] | None:
    """The path of the directory whose URLs begin with *prefix* (ending in ``/``); None if there is no such one."""
    pieces = split_url(prefix)
    if pieces.leaf or not prefix.endswith("/") or pieces.top.endswith(":") or pieces.top == NO_SCHEME:
        return None
    return (pieces.top, *map(directory_name, pieces.directories))


def url_of(parts: tuple[str, ...]) -> str | Shortened | None:
    """The URL of a marked path; None if it is none, Shortened if a name in it cannot be read back alone."""
    if len(parts) < 2:
        return None
    prefix = top_prefix(parts[0])
    if prefix is None or (len(parts) > 2 and not prefix.endswith("//")):
        return None
    pieces = [*map(directory_piece, parts[1:-1]), leaf_piece(parts[-1], whole=not prefix.endswith("//"))]
    if None in pieces:
        return None
    shortened = [piece for piece in pieces if isinstance(piece, Shortened)]
    if shortened:
        return shortened[0]
    url = prefix + "/".join(str(piece) for piece in pieces)
    return url if marked_path(url) == tuple(parts) else None


def top_prefix(name: str) -> str | None:
    """What the URLs of a first directory begin with: ``https://``, ``mailto:`` or nothing; None: no such name."""
    if name == NO_SCHEME:
        return ""
    scheme = name.removesuffix(":")
    if len(scheme) > MAX_SCHEME or not _SCHEME_NAME.fullmatch(scheme):
        return None
    return f"{scheme}:" if name.endswith(":") else f"{scheme}://"


# -- one name --


def directory_name(piece: str) -> str:
    """The name of a directory piece."""
    return escape(piece) if piece else EMPTY_DIRECTORY


def leaf_name(piece: str) -> str:
    """The name of a leaf."""
    return escape(piece) if piece else DIRECTORY_PAGE


def directory_piece(name: str) -> str | Shortened | None:
    """What ``directory_name`` made *name* of; None if it made no such name."""
    if name == EMPTY_DIRECTORY:
        return ""
    piece = unescape(name)
    return None if isinstance(piece, str) and _NOT_IN_DIRECTORY.search(piece) else piece


def leaf_piece(name: str, *, whole: bool = False) -> str | Shortened | None:
    """What ``leaf_name`` made *name* of; None if it made no such name.

    *whole*: below ``scheme:`` or ``^noscheme``, where there are no directories, so that any ``/`` is in the leaf.
    """
    if name == DIRECTORY_PAGE:
        return ""
    piece = unescape(name)
    return None if isinstance(piece, str) and not whole and _SLASH_BEFORE_TAIL.match(piece) else piece


def escape(piece: str, *, limit: int = MAX_NAME_BYTES) -> str:
    """*piece* as one name of at most *limit* bytes."""
    name = _marked(piece)
    if len(name) * 4 <= limit or len(name.encode("utf-8")) <= limit:
        return name
    return f"{_stem(piece, limit - MAX_NAME_BYTES + MAX_STEM_BYTES)}^~{_digest(piece)}"


def unescape(name: str) -> str | Shortened | None:
    """What ``escape`` made *name* of; None if it made no such name, so that nothing has two names."""
    shortened = _SHORTENED.fullmatch(name)
    if shortened:
        stem = _unmarked(shortened[1])
        return None if stem is None else Shortened(stem, name)
    piece = _unmarked(name)
    if not piece or escape(piece) != name:
        return None
    return piece


def _marked(piece: str) -> str:
    if piece in (".", ".."):
        return piece.replace(".", "^2E")
    return _ODD.sub(_mark, piece) if _ODD.search(piece) else piece


def _mark(found: re.Match[str]) -> str:
    return "".join(f"^{byte:02X}" for byte in found[0].encode("utf-8", "surrogateescape"))


def _unmarked(name: str) -> str | None:
    piece = _ESCAPES.sub(_unmark, name) if "^" in name else name
    try:
        return piece if _marked(piece) == name else None
    except UnicodeEncodeError:  # half of a surrogate pair, which no name on disk has
        return None


def _unmark(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("^", "")).decode("utf-8", "surrogateescape")


def _stem(piece: str, limit: int) -> str:
    """The longest beginning of at most *limit* bytes that ends at a whole character, escaped or not."""
    stem, size = [], 0
    for character in piece:
        name = _ODD.sub(_mark, character)
        size += len(name.encode("utf-8"))
        if size > limit:
            break
        stem.append(name)
    return "".join(stem)


def _digest(piece: str) -> str:
    return hashlib.sha256(piece.encode("utf-8", "surrogateescape")).hexdigest()[:DIGEST_DIGITS]


# -- index names --

_EXTENSIONS = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "text/plain": ".txt",
    "application/json": ".json",
    "text/xml": ".xml",
    "application/xml": ".xml",
    "text/css": ".css",
    "text/javascript": ".js",
    "application/javascript": ".js",
    "text/csv": ".csv",
    "application/pdf": ".pdf",
    "image/png": ".png",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/jpeg": ".jpg",
    "image/svg+xml": ".svg",
}
INDEX_NAMES = frozenset({"index", *(f"index{extension}" for extension in _EXTENSIONS.values())})
"""Every name that the page of a directory can have."""


def index_name(content_type: str | None) -> str:
    """The name under which the page of a directory is listed, by its content type (lower case, no parameters)."""
    extension = _EXTENSIONS.get(content_type or "", "")
    if not extension and content_type and content_type.endswith("+xml"):
        extension = ".xml"
    return f"index{extension}"


# -- views of records --


def record_path(url: str) -> tuple[str, ...]:
    """The path of a URL's record: the marked path, where files and directories never meet."""
    *directories, leaf = marked_path(url)
    return (*map(record_directory, directories), leaf + RECORD_SUFFIX)


def record_directory(name: str) -> str:
    """The name of a directory in a view of records."""
    return name + RECORD_DIRECTORY_SUFFIX if name.endswith(RECORD_SUFFIX) else name


def marked_path_of_record(parts: tuple[str, ...]) -> tuple[str, ...] | None:
    """The marked path of a record's path; None if it is no such path."""
    *directories, leaf = parts or ("",)
    if not leaf.endswith(RECORD_SUFFIX) or any(name.endswith(RECORD_SUFFIX) for name in directories):
        return None
    marked = (*map(_plain_directory, directories), leaf.removesuffix(RECORD_SUFFIX))
    return marked if tuple(map(record_directory, marked[:-1])) == tuple(directories) else None


def _plain_directory(name: str) -> str:
    return name.removesuffix(RECORD_DIRECTORY_SUFFIX)
