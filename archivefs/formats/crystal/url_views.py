"""What the views by URL share: ``web/`` and ``history/`` have the same directories and differ in their leaves.

A view says what stands for a leaf, for a sub-directory and for a look-up; the directory classes here turn that into
nodes.  Listings walk the URL index (``walk.py``) and can be resumed after any name, since a name leads to its place
in the index.  Any thread may use any of this.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from archivefs.formats.crystal.idents import Fixed, Sort
from archivefs.formats.crystal.nodes import CrystalDirectory
from archivefs.formats.crystal.walk import (
    Branch,
    Flat,
    Leaf,
    below,
    has_no_scheme,
    is_empty,
    leaves,
    nothing_fetched,
    ranges_of_top,
    schemes,
    starting_with,
    walk,
    walk_pages,
    without_scheme,
)
from archivefs.tree import Entry, Kind, Node
from archivefs.urlnames import (
    NO_SCHEME,
    Shortened,
    directory_name,
    directory_piece,
    leaf_name,
    leaf_piece,
    top_prefix,
)

if TYPE_CHECKING:
    from archivefs.formats.crystal.tree import CrystalTree

_LONG_NAME_WEIGHT = 3000
_PLAIN = re.compile(rb"(?!\.\.?$)[ -.0-\]_-~]{1,250}").fullmatch
"""A name of printable ASCII without ``/`` and ``^`` is its own marked name."""


def text(url: bytes) -> str:
    """A URL, or a piece of one, as text."""
    return url.decode("utf-8", "surrogateescape")


def raw(url: str) -> bytes:
    """The bytes of a URL."""
    return url.encode("utf-8", "surrogateescape")


def name_of_leaf(piece: bytes) -> str:
    """The marked name of a leaf; most need no mark."""
    return piece.decode("ascii") if _PLAIN(piece) else leaf_name(text(piece))


class UrlView(ABC):
    """One way to show the URLs of a project."""

    directory_sort: Sort
    no_scheme: Fixed

    def __init__(self, tree: CrystalTree) -> None:
        self.tree = tree
        self.project = tree.project

    # -- what a view decides --

    @abstractmethod
    def leaf_entry(self, leaf: Leaf, name: str) -> Entry | None:
        """What is listed for a leaf whose marked name is *name*."""

    @abstractmethod
    def leaf_url(self, prefix: bytes, name: str, *, whole: bool, has_directory: bool = False) -> bytes | None:
        """The URL of the leaf that is listed as *name*; it need not be stored.

        *has_directory*: there is a directory of that very name.
        """

    @abstractmethod
    def leaf_node(self, url: bytes) -> Node | None:
        """The node of a leaf's URL, if it is there."""

    lists_flat_pages = False
    """Does it have ``flat_entries``?"""

    def flat_entries(self, page: Flat) -> list[Entry]:
        """What is listed for a page of the very many leaves of a large directory."""
        raise NotImplementedError

    def first_url(self, prefix: bytes) -> bytes:
        """Where the walk of a directory begins."""
        return prefix

    def first_entry(self, prefix: bytes) -> Entry | None:
        """What is listed before the leaves and directories below *prefix*."""
        return None

    def last_entries(self, prefix: bytes, after: str | None) -> Iterator[Entry]:
        """What is listed behind them, from the beginning or after a name of theirs."""
        return iter(())

    def is_last(self, prefix: bytes, name: str) -> bool:
        """Is that name one of ``last_entries``?"""
        return False

    def extra_child(self, prefix: bytes, name: str) -> Node | None:
        """A child that is neither a stored leaf nor a stored directory."""
        return None

    def shows_directory(self, prefix: bytes) -> bool:
        """Is a directory with nothing fetched below it shown all the same?"""
        return self.tree.sight.choices.unfetched

    # -- directories --

    def directory(self, prefix: bytes, first: int) -> UrlDirectory:
        """The directory of the URLs that begin with *prefix*; *first* is the id of the first of them."""
        ident = self.tree.idents.of(self.directory_sort, first, depth_of(prefix))
        return UrlDirectory(self, ident, prefix)

    def top(self, name: str) -> Node | None:
        """The directory of a scheme, or of what has none, if it is shown."""
        if name == NO_SCHEME:
            if next(without_scheme(self.project), None) is None or self._schemeless_is_empty():
                return None
            return FlatDirectory(self, int(self.no_scheme), name)
        prefix = top_prefix(name)
        if prefix is None:
            return None
        ranges = ranges_of_top(name)
        found = next((first for first in (self.project.first_below(*one) for one in ranges) if first), None)
        if found is None or (not self.shows_directory(raw(prefix)) and nothing_fetched(self.project, ranges)):
            return None
        if name.endswith(":"):
            return FlatDirectory(self, self.tree.idents.of(self.directory_sort, found[1], 1), name)
        return self.directory(raw(prefix), found[1])

    def _schemeless_is_empty(self) -> bool:
        if self.tree.sight.choices.unfetched:
            return False
        for number, leaf in enumerate(without_scheme(self.project)):
            if leaf.newest is not None or number == 63:
                return False
        return True

    def shows(self, branch: Branch) -> bool:
        """Is a sub-directory listed?"""
        return branch.fetched or not is_empty(self.project, branch) or self.shows_directory(branch.prefix)

    def child(self, prefix: bytes, name: str) -> Node | None:
        """The child of that name of the directory of *prefix*."""
        found = self.find_directory(prefix, name)
        node: Node | None = found[1] if found else None
        if node is None:
            url = self.leaf_url(prefix, name, whole=False, has_directory=found is not None)
            node = self.leaf_node(url) if url is not None else None
        return node or self.extra_child(prefix, name)

    def shown_directory(self, inner: bytes, first: int) -> UrlDirectory | None:
        """The directory of a stored prefix, unless it is hidden because nothing in it was fetched."""
        if nothing_fetched(self.project, [below(inner)]) and not self.shows_directory(inner):
            return None
        return self.directory(inner, first)

    def find_directory(self, prefix: bytes, name: str) -> tuple[bytes, UrlDirectory | None] | None:
        """The prefix of the sub-directory of that name, if it is stored, and its node, if it is shown."""
        piece = directory_piece(name)
        if isinstance(piece, Shortened):
            piece = self._long_piece(prefix, piece, _piece_of_branch)
        if piece is None:
            return None
        inner = prefix + raw(piece) + b"/"
        first = self.project.first_below(*below(inner))
        if first is None:
            return None
        return inner, self.shown_directory(inner, first[1])

    def find_leaf(self, prefix: bytes, name: str, *, whole: bool = False) -> bytes | None:
        """The URL of the leaf whose marked name is *name*; it need not be stored."""
        piece = leaf_piece(name, whole=whole)
        if isinstance(piece, Shortened):
            piece = self._long_piece(prefix, piece, _piece_of_leaf, whole=whole)
        return None if piece is None else prefix + raw(piece)

    def _long_piece(
        self, prefix: bytes, wanted: Shortened, piece_of: Callable[[bytes, object], str | None], *, whole: bool = False
    ) -> str | None:
        """The piece of a name that was too long, looked for among those that begin alike."""

        def look() -> str | None:
            low, high = starting_with(prefix + raw(wanted.stem))
            found = leaves(self.project, [(low, high)]) if whole else walk(self.project, prefix, start=low, end=high)
            for item in found:
                piece = piece_of(prefix, item)
                if piece is not None and wanted.is_name_of(piece):
                    return piece
            return None

        key = (prefix, wanted.name, piece_of is _piece_of_branch)
        return self.project.cached("long", key, look, lambda piece: _LONG_NAME_WEIGHT + len(piece))


def _piece_of_branch(prefix: bytes, item: object) -> str | None:
    return text(item.prefix[len(prefix) : -1]) if isinstance(item, Branch) else None


def _piece_of_leaf(prefix: bytes, item: object) -> str | None:
    return text(item.url[len(prefix) :]) if isinstance(item, Leaf) else None


def depth_of(prefix: bytes) -> int:
    """How many names lead to the directory of *prefix*: 1 for ``https://``."""
    return prefix.count(b"/") - 1


def prefix_at(url: bytes, depth: int) -> bytes | None:
    """The prefix of *url* at that depth; None if it has no such directory."""
    start = url.find(b"://") + 3
    if start < 3 or depth < 1:
        return None
    end = min(position for position in (url.find(b"?", start), url.find(b"#", start), len(url)) if position >= 0)
    for _ in range(depth - 1):
        start = url.find(b"/", start, end) + 1
        if not start:
            return None
    return url[:start]


class UrlRoot(CrystalDirectory):
    """``web/`` or ``history/``: a directory for each scheme."""

    __slots__ = ("_view",)

    def __init__(self, view: UrlView, ident: int) -> None:
        super().__init__(view.tree, ident)
        self._view = view

    def child(self, name: str) -> Node:
        node = self._view.top(name) or self._view.extra_child(b"", name)
        if node is None:
            raise self.not_found(name)
        return node

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        view = self._view
        if after is None or not view.is_last(b"", after):
            for name in self._names(after):
                node = view.top(name)
                if node:
                    yield Entry(name, Kind.DIRECTORY, node.ident, node)
            after = None
        yield from view.last_entries(b"", after)

    def _names(self, after: str | None) -> Iterator[str]:
        start = b""
        if after == NO_SCHEME:
            return
        if after is not None:
            scheme = after.removesuffix(":")
            if not after.endswith(":"):
                yield f"{scheme}:"
            start = scheme.encode("utf-8", "replace") + b";"
        for found in schemes(self.tree.project, start=start):
            yield found.decode("ascii")
            yield f"{found.decode('ascii')}:"
        yield NO_SCHEME


class FlatDirectory(CrystalDirectory):
    """``mailto:`` or ``^noscheme``: leaves only."""

    __slots__ = ("_name", "_view")

    def __init__(self, view: UrlView, ident: int, name: str) -> None:
        super().__init__(view.tree, ident)
        self._view = view
        self._name = name

    @property
    def _prefix(self) -> bytes:
        return raw(top_prefix(self._name) or "")

    def xattrs(self) -> Mapping[str, bytes]:
        return {"user.archivefs.url": self._prefix} if self._prefix else {}

    def child(self, name: str) -> Node:
        url = self._view.leaf_url(self._prefix, name, whole=True)
        node = self._view.leaf_node(url) if url is not None and self._holds(url) else None
        if node is None:
            raise self.not_found(name)
        return node

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        cut = len(self._prefix)
        for leaf in self._leaves(after):
            entry = self._view.leaf_entry(leaf, name_of_leaf(leaf.url[cut:]))
            if entry:
                yield entry

    def _leaves(self, after: str | None) -> Iterator[Leaf]:
        url = self._view.leaf_url(self._prefix, after, whole=True) if after is not None else None
        start = url + b"\0" if url is not None else b""
        if self._name == NO_SCHEME:
            return without_scheme(self.tree.project, start=start)
        return leaves(self.tree.project, ranges_of_top(self._name), start=start)

    def _holds(self, url: bytes) -> bool:
        if self._name == NO_SCHEME:
            return has_no_scheme(url)
        return not url.startswith(self._prefix + b"//")


class UrlDirectory(CrystalDirectory):
    """The URLs that begin with a prefix."""

    __slots__ = ("_view", "prefix")

    def __init__(self, view: UrlView, ident: int, prefix: bytes) -> None:
        super().__init__(view.tree, ident)
        self._view = view
        self.prefix = prefix

    def xattrs(self) -> Mapping[str, bytes]:
        return {"user.archivefs.url": self.prefix} if len(self.prefix) <= 65_536 else {}

    def child(self, name: str) -> Node:
        node = self._view.child(self.prefix, name)
        if node is None:
            raise self.not_found(name)
        return node

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        view, cut = self._view, len(self.prefix)
        if after is not None and view.is_last(self.prefix, after):
            yield from view.last_entries(self.prefix, after)
            return
        entry = view.first_entry(self.prefix) if after is None else None
        if entry:
            yield entry
        leaf_entry = view.leaf_entry
        for page in walk_pages(self.tree.project, self.prefix, start=self._start(after), flat=view.lists_flat_pages):
            if isinstance(page, Flat):
                yield from view.flat_entries(page)
                continue
            for found in page:
                if type(found) is Leaf:
                    entry = leaf_entry(found, name_of_leaf(found.url[cut:]))
                    if entry is not None:
                        yield entry
                elif type(found) is Branch and view.shows(found):
                    node = view.directory(found.prefix, found.first)
                    yield Entry(directory_name(text(found.prefix[cut:-1])), Kind.DIRECTORY, node.ident, node)
        yield from view.last_entries(self.prefix, None)

    def _start(self, after: str | None) -> bytes:
        """Where the walk goes on after a name: each leads to its place in the index."""
        view = self._view
        if after is None:
            return view.first_url(self.prefix)
        first = view.first_entry(self.prefix)
        if first and first.name == after:
            return view.first_url(self.prefix)
        found = view.find_directory(self.prefix, after)
        if found:
            return below(found[0])[1] or b""
        url = view.leaf_url(self.prefix, after, whole=False)
        return view.first_url(self.prefix) if url is None else url + b"\0"
