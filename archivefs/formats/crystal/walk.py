"""Walking the URL index: what is directly below a prefix, without reading what is further down.

Used by the views.  ``resource.url`` is unique, so its index is a sorted list of URLs; a directory is the range
``[P, P')`` where P ends in ``/`` and P' is the same with ``0``.  Rows are read in pages that grow while there are
leaves and shrink at each sub-directory, which is jumped over.  Nothing is held between pages.

URLs are bytes here, in the order of bytes, which is the order of the index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from archivefs.errors import LimitExceeded
from archivefs.formats.crystal.connection import Row, forward, with_urls
from archivefs.formats.crystal.project import Project
from archivefs.formats.crystal.statements import MAX_BELOW
from archivefs.urlnames import MAX_NAME_BYTES, MAX_SCHEME

FIRST_PAGE, LARGEST_PAGE = 8, 1024
_SEPARATOR = re.compile(rb"[/?#]")
_PLAIN_NAMES = re.compile(rb"[\n -.0-\]_-~]+").fullmatch
"""Names of printable ASCII without ``/`` and ``^``, one a line."""
_NO_NAMES = (b"", b".", b"..")
_SCHEME_CHARACTERS = re.compile(rb"[A-Za-z][A-Za-z0-9+.\-]*")

Range = tuple[bytes, "bytes | None"]
"""From the first to before the second; None: to the end of all URLs."""


class Leaf:
    """A URL that ends in this directory."""

    __slots__ = ("failed", "has_directory", "newest", "resource", "url")

    def __init__(self, url: bytes, resource: int, newest: int | None, failed: int) -> None:
        self.url = url
        self.resource = resource
        self.newest = newest
        self.failed = failed
        """Is that one an error?  0 or 1, as SQLite says it."""
        self.has_directory = False
        """Are there URLs that go on with ``/``?"""


class Branch:
    """A directory in this directory."""

    __slots__ = ("complete", "fetched", "first", "page", "page_known", "prefix", "seen")

    def __init__(self, prefix: bytes, first: int) -> None:
        self.prefix = prefix
        self.first = first
        """The id of the first resource in it."""
        self.seen = 0
        self.fetched = False
        """Was a resource with a revision seen in it?"""
        self.complete = False
        """Were all of its resources seen?"""
        self.page: Leaf | None = None
        """The URL without its last ``/``, if it is stored and was seen."""
        self.page_known = False
        """Would it have been seen?  Not if the walk began after it."""


Found = Leaf | Branch


class Flat(NamedTuple):
    """A page of nothing but leaves, none of which has a directory, and whose names need no mark.

    Directories with millions of entries consist of these, so no object is made for a leaf.
    """

    names: list[str]
    rows: list[Row]
    """URL, resource id, newest revision id or null, is that one an error?"""


# -- directories of scheme://… --


def below(prefix: bytes) -> Range:
    """The range of the URLs that begin with *prefix*, which ends in ``/``."""
    return prefix, prefix[:-1] + b"0"


def starting_with(stem: bytes) -> Range:
    """The range of the URLs that begin with *stem*, whatever it is."""
    kept = stem.rstrip(b"\xff")
    return stem, kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def walk(project: Project, prefix: bytes, *, start: bytes, end: bytes | None = None) -> Iterator[Found]:
    """What is directly below *prefix*, from *start* on, in the order of URLs."""
    for page in walk_pages(project, prefix, start=start, end=end):
        if not isinstance(page, Flat):
            yield from page


def walk_pages(
    project: Project, prefix: bytes, *, start: bytes, end: bytes | None = None, flat: bool = False
) -> Iterator[list[Found] | Flat]:
    """The same by the page; *flat*: also flat pages."""
    high = end or below(prefix)[1]
    begin, size = start, FIRST_PAGE
    pages: list[Leaf] = []  # leaves whose directory is still to come
    while True:
        rows, more = url_rows(project, start, high, size)
        found = _flat(rows, len(prefix)) if flat and more and len(rows) == LARGEST_PAGE else None
        if found:
            yield found
            start = forward(start, rows[-1][0])  # again: its directory may be next
            continue
        folded = _Fold(prefix, rows, begin)
        folded.settle(project, pages, more=more)
        yield folded.found
        if not more:
            return
        if folded.last:
            start, size = forward(start, below(folded.last.prefix)[1] or b""), FIRST_PAGE
        else:
            start, size = forward(start, rows[-1][0] + b"\0"), min(LARGEST_PAGE, 2 * size)


def _flat(rows: list[Row], cut: int) -> Flat | None:
    """*rows* but the last as a flat page, if they are one."""
    *rows, last = rows
    pieces = [row[0][cut:] for row in rows]
    joined = b"\n".join(pieces)
    if not _PLAIN_NAMES(joined) or max(map(len, pieces)) > MAX_NAME_BYTES:
        return None
    if any(special in pieces for special in _NO_NAMES) or any(last[0].startswith(row[0]) for row in rows):
        return None
    names = joined.decode("ascii").split("\n")
    return Flat(names, rows) if len(names) == len(rows) else None


class _Fold:
    """The leaves and branches of one page of rows."""

    def __init__(self, prefix: bytes, rows: list[Row], begin: bytes) -> None:
        self.found: list[Found] = []
        self.last: Branch | None = None
        """The branch that the last row is in."""
        self._begin = begin
        self._branches: list[Branch] = []
        self._waiting: list[Leaf] = []
        """Leaves that the row at hand begins with: their directory may follow."""
        self._fold(len(prefix), rows)

    def _fold(self, cut: int, rows: list[Row]) -> None:
        add, search, waiting = self.found.append, _SEPARATOR.search, self._waiting
        branch: Branch | None = None
        for url, resource, newest, failed in rows:
            if branch is not None:
                if url.startswith(branch.prefix):
                    branch.seen += 1
                    branch.fetched = branch.fetched or newest is not None
                    continue
                branch.complete = True
                branch = None
            while waiting and not url.startswith(waiting[-1].url):
                waiting.pop()
            separator = search(url, cut)
            if separator is not None and separator[0] == b"/":
                branch = self._branch(url[: separator.end()], resource, newest is not None)
                add(branch)
                continue
            leaf = Leaf(url, resource, newest, failed)
            add(leaf)
            if separator is None and len(url) > cut:
                waiting.append(leaf)
        self.last = branch

    def _branch(self, prefix: bytes, first: int, fetched: bool) -> Branch:
        branch = Branch(prefix, first)
        branch.seen, branch.fetched = 1, fetched
        branch.page_known = prefix[:-1] >= self._begin
        if self._waiting and len(self._waiting[-1].url) == len(prefix) - 1:
            branch.page = self._waiting.pop()
            branch.page.has_directory = True
        self._branches.append(branch)
        return branch

    def settle(self, project: Project, pages: list[Leaf], *, more: bool) -> None:
        """Find out what the ends of the pages left open: directories whose page came before, pages whose directory
        comes later."""
        for branch in self._branches if pages else ():
            while pages and not branch.prefix.startswith(pages[-1].url):
                pages.pop()
            if pages and len(pages[-1].url) == len(branch.prefix) - 1:
                branch.page = pages.pop()
        for leaf in self._waiting if more else ():
            if project.first_below(*below(leaf.url + b"/")):
                leaf.has_directory = True
                pages.append(leaf)
        if self.last and not more:
            self.last.complete = True


def is_empty(project: Project, branch: Branch) -> bool:
    """Is there nothing fetched in a directory?  When that is not certain, there is."""
    if branch.fetched:
        return False
    if branch.complete:
        return branch.seen < MAX_BELOW
    return nothing_fetched(project, [below(branch.prefix)])


def nothing_fetched(project: Project, ranges: list[Range]) -> bool:
    """Do some ranges hold fewer than MAX_BELOW resources, none of them fetched?"""
    for low, high in ranges:
        if project.row("any_fetched", low, high) or project.row("url_keys", low, high, 1, MAX_BELOW - 1):
            return False
    return True


# -- pages --


def url_rows(
    project: Project, low: bytes, high: bytes | None, limit: int, statement: str = "url_page"
) -> tuple[list[Row], bool]:
    """Rows of a statement by URL, and whether there may be more."""
    try:
        page = project.page(statement, (low, high, limit, 0))
    except LimitExceeded:
        return _one_by_one(project, low, high, statement)
    return with_urls(page.rows), page.cut or len(page.rows) == limit


def _one_by_one(project: Project, low: bytes, high: bytes | None, statement: str) -> tuple[list[Row], bool]:
    """A few rows, passing over URLs too long to be read."""
    rows: list[Row] = []
    skipped = 0
    while len(rows) < FIRST_PAGE:
        try:
            found = with_urls(project.rows(statement, low, high, 1, skipped))
        except LimitExceeded:
            skipped += 1
            continue
        if not found:
            return rows, False
        rows += found
        low, skipped = forward(low, found[0][0] + b"\0"), 0
    return rows, True


# -- schemes --


def ranges_of_top(name: str) -> list[Range]:
    """The ranges of a first directory: ``https``, or ``mailto:`` (all but what ``mailto`` would hold)."""
    scheme = name.removesuffix(":").encode("ascii")
    if not name.endswith(":"):
        return [below(scheme + b"://")]
    return [(scheme + b":", scheme + b"://"), (scheme + b":/0", scheme + b";")]


def schemes(project: Project, *, start: bytes = b"") -> Iterator[bytes]:
    """Every scheme that some URL from *start* on has, in the order of bytes."""
    while True:
        first = project.first_below(start, None)
        if first is None:
            return
        scheme, following = _scheme_or_next(first[0])
        if scheme is not None:
            yield scheme
        if following is None:
            return
        start = forward(start, following)


def without_scheme(project: Project, *, start: bytes = b"") -> Iterator[Leaf]:
    """The URLs that have no scheme, from *start* on."""
    size = FIRST_PAGE
    while True:
        rows, more = url_rows(project, start, None, size)
        jump: bytes | None = None
        for row in rows:
            if jump is not None and row[0] < jump:
                continue
            scheme, following = _scheme_or_next(row[0])
            if scheme is None:
                yield Leaf(row[0], row[1], row[2], row[3])
            else:
                jump = following
        if not more:
            return
        last: bytes = rows[-1][0]
        if jump is not None and jump > last:
            start, size = forward(start, jump), FIRST_PAGE
        else:
            start, size = forward(start, last + b"\0"), min(LARGEST_PAGE, 2 * size)


def leaves(project: Project, ranges: list[Range], *, start: bytes = b"") -> Iterator[Leaf]:
    """All URLs of some ranges, from *start* on: where there are no directories."""
    for low, high in ranges:
        size, low = FIRST_PAGE, max(low, start)
        while high is None or low < high:
            rows, more = url_rows(project, low, high, size)
            for row in rows:
                yield Leaf(row[0], row[1], row[2], row[3])
            if not more:
                break
            low, size = forward(low, rows[-1][0] + b"\0"), min(LARGEST_PAGE, 2 * size)


def _scheme_or_next(url: bytes) -> tuple[bytes | None, bytes | None]:
    """The scheme of a URL if it has one, and where to go on to find another scheme (None: there is none)."""
    found = _SCHEME_CHARACTERS.match(url)
    if found is None:
        first = url[:1]
        if first < b"A":
            return None, b"A"
        return None, (b"a" if first < b"a" else None)
    name = found[0]
    if len(name) > MAX_SCHEME:
        return None, starting_with(name[: MAX_SCHEME + 1])[1]
    if len(name) == len(url):
        return None, url + b"\0"
    if url[len(name)] == 0x3A:
        return name, name + b";"
    return None, starting_with(url[: len(name) + 1])[1]


def has_no_scheme(url: bytes) -> bool:
    """Does it belong to ``^noscheme``?"""
    return _scheme_or_next(url)[0] is None
