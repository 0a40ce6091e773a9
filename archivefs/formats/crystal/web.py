"""``web/``: the site, each URL once, with what is shown of it (``sight.py``), under its listed name.

Beside files and directories there is one kind of link: where nothing is stored under the source of an alias, the
source's directory is a link to the target's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from archivefs.formats.crystal.idents import Fixed, Sort
from archivefs.formats.crystal.nodes import BodyFile, Link, relative_path
from archivefs.formats.crystal.project import Resource
from archivefs.formats.crystal.sight import Shown
from archivefs.formats.crystal.url_views import UrlView
from archivefs.formats.crystal.urls import resolved
from archivefs.formats.crystal.walk import Leaf, below
from archivefs.formats.crystal.web_aliases import AliasLinks
from archivefs.tree import Entry, Kind, Node
from archivefs.urlnames import INDEX_NAMES, PAGE_SUFFIX

if TYPE_CHECKING:
    from archivefs.formats.crystal.tree import CrystalTree


class WebView(UrlView):
    """The site."""

    directory_sort = Sort.WEB_DIR
    no_scheme = Fixed.WEB_NO_SCHEME

    def __init__(self, tree: CrystalTree) -> None:
        super().__init__(tree)
        self.sight = tree.sight
        self.alias_links = AliasLinks(tree)

    # -- nodes --

    def node_of(self, resource: Resource) -> Node | None:
        """The node of a resource, if it is shown."""
        shown = self.sight.shown(resource)
        if shown is None:
            return None
        ident = self.tree.idents.of(Sort.WEB, resource.id)
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
        resource = Resource(leaf.resource, leaf.url, leaf.newest, leaf.failed)
        if not self.sight.shows(resource):
            return None
        if leaf.has_directory:
            if self.sight.is_listed_inside(resource):
                return None
            name += PAGE_SUFFIX
        return self._entry(name, resource)

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


def _has_tail(url: bytes) -> bool:
    return b"?" in url or b"#" in url
