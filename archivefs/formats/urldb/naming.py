"""A record's path as names below its domain's directory, and back: the record view of ``urlnames`` (specification 4.1).

A directory is known by its *prefix*, the beginning of the paths below it (``/about/``).  Pure functions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from archivefs import urlnames
from archivefs.urlnames import RECORD_DIRECTORY_SUFFIX, RECORD_SUFFIX, Shortened

_AFTER_SLASH = chr(ord("/") + 1)
_BASE = "x://h"
SURELY_SHORT = urlnames.MAX_NAME_BYTES // 12
"""A piece of so few characters fits in a name, even if each becomes four bytes of three characters."""


def names_of(path: str) -> tuple[str, ...]:
    """The names that lead to a record, below the directory of its domain."""
    return urlnames.record_path(_BASE + path)[2:]


def prefix_of(path: str) -> str:
    """The prefix of the directory in which a record is."""
    return path[: len(path) - len(urlnames.split_url(_BASE + path).leaf)]


def leaf_name(path: str) -> str:
    """The last of a record's names."""
    return urlnames.leaf_name(urlnames.split_url(_BASE + path).leaf) + RECORD_SUFFIX


def record_named(prefix: str, name: str) -> str | Shortened | None:
    """The path of the record that is called *name* in a directory; None if no record can be."""
    if not name.endswith(RECORD_SUFFIX):
        return None
    piece = urlnames.leaf_piece(name.removesuffix(RECORD_SUFFIX))
    if not isinstance(piece, str):
        return piece
    return prefix + piece if "#" not in piece else None


def directory_named(prefix: str, name: str) -> str | Shortened | None:
    """The prefix of the directory that is called *name* in another; None if none can be."""
    if name.endswith(RECORD_SUFFIX):
        return None
    plain = name.removesuffix(RECORD_DIRECTORY_SUFFIX)
    if urlnames.record_directory(plain) != name:
        return None
    piece = urlnames.directory_piece(plain)
    return f"{prefix}{piece}/" if isinstance(piece, str) else piece


def directory_name(piece: str) -> str:
    """The name of a directory."""
    return urlnames.record_directory(urlnames.directory_name(piece))


def is_below(paths: Sequence[str], prefix: str) -> bool:
    """Is there a path with that prefix in the sorted *paths*?"""
    at = bisect_left(paths, prefix)
    return at < len(paths) and paths[at].startswith(prefix)


def below(paths: Sequence[str], prefix: str) -> Sequence[str]:
    """The sorted *paths* with that prefix, which ends in ``/``."""
    return paths[bisect_left(paths, prefix) : bisect_left(paths, prefix[:-1] + _AFTER_SLASH)]


def children(paths: Sequence[str], prefix: str) -> Iterator[tuple[str, bool]]:
    """What is directly in a directory, in order: (path, False) of a record, (prefix, True) of a directory."""
    at, end = bisect_left(paths, prefix), bisect_left(paths, prefix[:-1] + _AFTER_SLASH)
    length = len(prefix)
    while at < end:
        path = paths[at]
        slash, mark = path.find("/", length), path.find("?", length)
        if slash < 0 or 0 <= mark < slash:
            yield path, False
            at += 1
        else:
            yield path[: slash + 1], True
            at = bisect_left(paths, path[:slash] + _AFTER_SLASH, at + 1, end)


def shortened_names(paths: Iterable[str]) -> dict[tuple[str, str], str]:
    """The names that are too long to be read back: (prefix of the directory, name) and the path or prefix it means."""
    found = {}
    for path in paths:
        if len(path) <= SURELY_SHORT:
            continue
        pieces = urlnames.split_url(_BASE + path)
        prefix = "/"
        for piece in pieces.directories[1:]:
            inner = f"{prefix}{piece}/"
            if len(piece) > SURELY_SHORT:
                found[prefix, directory_name(piece)] = inner
            prefix = inner
        if len(pieces.leaf) > SURELY_SHORT:
            found[prefix, urlnames.leaf_name(pieces.leaf) + RECORD_SUFFIX] = path
    return found
