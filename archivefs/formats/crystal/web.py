"""``web/``: the site, each URL once, with what is shown of it (``sight.py``), under its listed name.

Beside files and directories there is one kind of link: where nothing is stored under the source of an alias, the
source's directory is a link to the target's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from archivefs.errors import LimitExceeded
from archivefs.formats.crystal.idents import Fixed, Sort
from archivefs.formats.crystal.nodes import BodyFile, Link, relative_path
from archivefs.formats.crystal.project import Resource
from archivefs.formats.crystal.sight import Shown
from archivefs.formats.crystal.url_views import UrlView, raw
from archivefs.formats.crystal.urls import resolved
from archivefs.formats.crystal.walk import Branch, Flat, Leaf, below, is_empty
from archivefs.formats.crystal.web_aliases import AliasLinks
from archivefs.tree import Entry, Kind, Node
from archivefs.urlnames import INDEX_NAMES, PAGE_SUFFIX, leaf_piece

if TYPE_CHECKING:
    from archivefs.formats.crystal.tree import CrystalTree


_FILE, _WEB = Kind.FILE, Sort.WEB


class WebView(UrlView):
    """The site."""

    directory_sort = Sort.WEB_DIR
    no_scheme = Fixed.WEB_NO_SCHEME

    def __init__(self, tree: CrystalTree) -> None:
        super().__init__(tree)
        self.sight = tree.sight
        self.alias_links = AliasLinks(tree)
        # asked for every name of a listing
        self._ident = tree.idents.of
        self._unfetched = tree.sight.choices.unfetched
        self._redirects_as_links = tree.sight.choices.redirects_as_links
        self.lists_flat_pages = not (self._unfetched or self._redirects_as_links)

    # -- nodes --

    def node_of(self, resource: Resource) -> Node | None:
        """The node of a resource, if it is shown."""
        return self._shown_node(resource.id, self.sight.shown(resource))

    def node_by_id(self, key: int) -> Node | None:
        """The node of the resource with that id, if it is shown."""
        return self._shown_node(key, self.sight.shown_by_id(key))

    def _shown_node(self, resource: int, shown: Shown | None) -> Node | None:
        if shown is None:
            return None
        ident = self.tree.idents.of(Sort.WEB, resource)
        target = self._redirect_target(shown)
        if target is not None:
            return Link(self.tree, ident, lambda: target)
        return BodyFile(self.tree, ident, shown)

    def _redirect_target(self, shown: Shown) -> str | None:
        """Where a redirect leads, if it is to be a link and what it leads to is shown."""
        if not self.sight.choices.redirects_as_links or not shown.revision or not shown.revision.is_redirect:
            return None
        location = shown.revision.header("location")
        url = resolved(location, shown.url_text) if location else None
        target = self.tree.find_shown(url) if url else None
        if target is None or target.url == shown.url:
            return None
        here = self.sight.listed_path(shown.url or b"")
        return relative_path(here[:-1], self.sight.listed_path(target.url))

    # -- listings --

    def leaf_entry(self, leaf: Leaf, name: str) -> Entry | None:
        if leaf.newest is None:
            if not self._unfetched:
                return None
        elif leaf.failed and not self.sight.shows(_resource(leaf)):
            return None
        if leaf.has_directory:
            if self.sight.is_listed_inside(_resource(leaf)):
                return None
            name += PAGE_SUFFIX
        if self._redirects_as_links:
            return self._entry(name, _resource(leaf))
        return Entry(name, _FILE, self._ident(_WEB, leaf.resource))

    def flat_entries(self, page: Flat) -> list[Entry]:
        rows, shows, ident = page.rows, self.sight.shows, self._ident
        return [
            Entry(name, _FILE, ident(_WEB, resource))
            for name, (url, resource, newest, failed) in zip(page.names, rows, strict=True)
            if newest is not None and (not failed or shows(Resource(resource, url, newest, True)))
        ]

    def shows(self, branch: Branch) -> bool:
        if branch.fetched or self.sight.choices.unfetched or not is_empty(self.project, branch):
            return True
        if self.alias_links.any_below(branch.prefix):
            return True
        if not branch.page_known:
            return self.sight.listed_page(branch.prefix) is not None
        page = _resource(branch.page) if branch.page else None  # nothing in it was fetched, so it is this page or none
        return page is not None and self.sight.shows(page) and self.sight.is_listed_inside(page)

    def _entry(self, name: str, resource: Resource) -> Entry:
        kind = Kind.FILE
        if self.sight.choices.redirects_as_links:
            node = self.node_of(resource)
            kind = node.kind if node else kind
        return Entry(name, kind, self.tree.idents.of(Sort.WEB, resource.id))

    def first_url(self, prefix: bytes) -> bytes:
        return prefix + b"\0"  # the page of the directory itself comes first, under a name of its own

    def first_entry(self, prefix: bytes) -> Entry | None:
        page = self.sight.listed_page(prefix)
        return self._entry(page.name, page.resource) if page else None

    def last_entries(self, prefix: bytes, after: str | None) -> Iterator[Entry]:
        return self.alias_links.entries(prefix, after)

    def is_last(self, prefix: bytes, name: str) -> bool:
        return self.alias_links.child(prefix, name) is not None

    # -- look-ups --

    def child(self, prefix: bytes, name: str) -> Node | None:
        """Most names are those of a directory or a leaf as it is: one query tells."""
        if name.startswith("^") or name.endswith(PAGE_SUFFIX):
            return super().child(prefix, name)
        piece = leaf_piece(name)
        if not isinstance(piece, str):
            return super().child(prefix, name)
        url = prefix + raw(piece)
        try:
            leaf_only = "?" in piece or "#" in piece
            found = self.project.look_up_leaf(url) if leaf_only else self.project.look_up(url)
        except LimitExceeded:
            return super().child(prefix, name)
        if found.first is not None:
            if not found.fetched or self.project.resource(found.first) is None:
                return super().child(prefix, name)  # it may be hidden, or its first URL is too long to be read
            return self.directory(url + b"/", found.first)
        shown = self.sight.shown_of(found.resource, url, found.newest) if found.resource is not None else None
        return self._shown_node(found.resource or 0, shown) or self.extra_child(prefix, name)

    def leaf_url(self, prefix: bytes, name: str, *, whole: bool, has_directory: bool = False) -> bytes | None:
        """``d^file`` is the page ``/d`` beside the directory ``d``; any other marked name is a leaf's own."""
        if whole or not name.endswith(PAGE_SUFFIX):
            return None if has_directory else self.find_leaf(prefix, name, whole=whole)
        url = self.find_leaf(prefix, name.removesuffix(PAGE_SUFFIX))
        if url is None or url == prefix or _has_tail(url) or self.project.first_below(*below(url + b"/")) is None:
            return None
        return url

    def leaf_node(self, url: bytes) -> Node | None:
        resource = self.project.resource_by_url(url)
        return self.node_of(resource) if resource else None

    def extra_child(self, prefix: bytes, name: str) -> Node | None:
        if name in INDEX_NAMES and prefix:
            page = self.sight.listed_page(prefix)
            if page and page.name == name:
                return self.node_of(page.resource)
        return self.alias_links.child(prefix, name)

    def shows_directory(self, prefix: bytes) -> bool:
        if super().shows_directory(prefix) or self.alias_links.any_below(prefix):
            return True
        return self.sight.listed_page(prefix) is not None


def _resource(leaf: Leaf) -> Resource:
    return Resource(leaf.resource, leaf.url, leaf.newest, bool(leaf.failed))


def _has_tail(url: bytes) -> bool:
    return b"?" in url or b"#" in url
