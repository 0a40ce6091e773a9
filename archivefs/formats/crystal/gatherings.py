"""``roots/``, ``groups/`` and ``aliases/``: what the user told Crystal about the site.

Roots and aliases are links into ``web/``; a group is a directory of links to its members, which are computed from
its pattern by walking the URLs that begin with the pattern's literal prefix.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from archivefs.errors import NotFound
from archivefs.formats.crystal.idents import Sort
from archivefs.formats.crystal.nodes import (
    MAX_TARGET_BYTES,
    CrystalDirectory,
    Link,
    SmallDirectory,
    TextFile,
    relative_path,
)
from archivefs.formats.crystal.project import Resource
from archivefs.formats.crystal.side_tables import Group, Root, alias_labels
from archivefs.formats.crystal.url_views import raw, text
from archivefs.formats.crystal.urls import Alias
from archivefs.formats.crystal.walk import leaves, starting_with
from archivefs.tree import Entry, Kind, Node, Parts
from archivefs.urlnames import Shortened, directory_path, leaf_name, leaf_piece

if TYPE_CHECKING:
    from archivefs.formats.crystal.tree import CrystalTree

JSON_SUFFIX, URL_SUFFIX = ".json", ".url"
DIRECTORY_EXTRA, JSON_EXTRA = 0, 1

Children = Callable[[], Sequence[tuple[str, Node]]]


def json_bytes(document: object) -> bytes:
    """A document as a text file."""
    return json.dumps(document, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


# -- links into web/ --


def link_to_page(tree: CrystalTree, ident: int, resource: Resource, folder: Parts) -> Link:
    """A link from *folder* to where a resource is listed, or to its revision where that path is too long."""

    def target() -> str:
        path = relative_path(folder, ("web", *tree.sight.listed_path(resource.url)))
        if len(path.encode("utf-8")) <= MAX_TARGET_BYTES:
            return path
        shown = tree.sight.shown(resource)
        return relative_path(folder, ("by-id", str(shown.revision.id if shown and shown.revision else resource.id)))

    return Link(tree, ident, target)


# -- roots --


def root_children(tree: CrystalTree) -> list[tuple[str, Node]]:
    """The links of ``roots/``."""
    return [(root.label, root_link(tree, root)) for root in tree.project.edition().roots]


def root_link(tree: CrystalTree, root: Root) -> Link:
    """The link of one root."""
    resource = tree.project.resource(root.resource)
    if resource is None:
        raise NotFound(member=root.label)
    return link_to_page(tree, tree.idents.of(Sort.ROOT, root.id), resource, ("roots",))


# -- aliases --


def alias_children(tree: CrystalTree) -> list[tuple[str, Node]]:
    """What is in ``aliases/``."""
    aliases = tree.project.edition().aliases
    found = []
    for alias, label in zip(aliases, alias_labels(aliases), strict=True):
        node = alias_node(tree, alias)
        found.append((label if node.kind is Kind.SYMLINK else label + URL_SUFFIX, node))
    return found


def alias_node(tree: CrystalTree, alias: Alias) -> Node:
    """A link to the target's directory; for one that leads out of the project, a text that says where."""
    ident = tree.idents.of(Sort.ALIAS, alias.id, 0)
    target = None if alias.external else directory_path(alias.target)
    if target is None:
        return TextFile(tree, ident, lambda: raw(alias.target) + b"\n")
    path = relative_path(("aliases",), ("web", *target))
    return Link(tree, ident, lambda: path)


# -- groups --


def group_children(tree: CrystalTree) -> list[tuple[str, Node]]:
    """A directory and a description for each group."""
    found: list[tuple[str, Node]] = []
    for group in tree.project.edition().groups:
        found.append((group.label, group_node(tree, group, DIRECTORY_EXTRA)))
        found.append((group.label + JSON_SUFFIX, group_node(tree, group, JSON_EXTRA)))
    return found


def group_node(tree: CrystalTree, group: Group, extra: int) -> Node:
    """The directory of a group's members, or the description beside it."""
    ident = tree.idents.of(Sort.GROUP, group.id, extra)
    if extra == DIRECTORY_EXTRA:
        return GroupDirectory(tree, ident, group)
    return TextFile(tree, ident, lambda: json_bytes(describe_group(tree, group)))


def describe_group(tree: CrystalTree, group: Group) -> Mapping[str, object]:
    """What ``groups/NAME.json`` says."""
    return {
        "name": group.name,
        "pattern": group.pattern.text,
        "source": _source_path(tree, group),
        "do_not_download": group.do_not_download,
    }


def _source_path(tree: CrystalTree, group: Group) -> str | None:
    """Where the members of a group are linked from: a root or another group; None if that is not known."""
    edition = tree.project.edition()
    if group.source_type == "root_resource":
        return next((f"roots/{root.label}" for root in edition.roots if root.id == group.source_id), None)
    if group.source_type == "resource_group":
        return next((f"groups/{other.label}" for other in edition.groups if other.id == group.source_id), None)
    return None


class GroupDirectory(CrystalDirectory):
    """The members of a group that ``web/`` shows, each named by what follows the literal prefix of the pattern."""

    __slots__ = ("_group",)

    def __init__(self, tree: CrystalTree, ident: int, group: Group) -> None:
        super().__init__(tree, ident)
        self._group = group

    def child(self, name: str) -> Node:
        url = self._url(name)
        resource = self.tree.sight.shown_at(url) if url is not None else None
        if resource is None or not self._group.pattern.matches(text(resource.url)):
            raise self.not_found(name)
        return member_link(self.tree, self._group, resource)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        prefix = raw(self._group.pattern.prefix)
        url = self._url(after) if after is not None else None
        start = url + b"\0" if url is not None else prefix
        for leaf in leaves(self.tree.project, [starting_with(prefix)], start=start):
            resource = Resource(leaf.resource, leaf.url, leaf.newest, bool(leaf.failed))
            if self._group.pattern.matches(text(leaf.url)) and self.tree.sight.shows(resource):
                ident = member_ident(self.tree, self._group, leaf.resource)
                yield Entry(leaf_name(text(leaf.url[len(prefix) :])), Kind.SYMLINK, ident)

    def _url(self, name: str) -> bytes | None:
        """The URL of the member of that name; it need not be stored."""
        prefix = raw(self._group.pattern.prefix)
        piece = leaf_piece(name, whole=True)
        if not isinstance(piece, Shortened):
            return None if piece is None else prefix + raw(piece)
        low, high = starting_with(prefix + raw(piece.stem))
        for leaf in leaves(self.tree.project, [(low, high)]):
            if piece.is_name_of(text(leaf.url[len(prefix) :])):
                return leaf.url
        return None


def member_ident(tree: CrystalTree, group: Group, resource: int) -> int:
    """The ident of a link to a member; a group's id above what fits there makes it one of the table."""
    return tree.idents.of(Sort.MEMBER, resource, group.id if group.id > 0 else -1)


def member_link(tree: CrystalTree, group: Group, resource: Resource) -> Link:
    """The link to a member of a group."""
    return link_to_page(tree, member_ident(tree, group, resource.id), resource, ("groups", group.label))


def small(tree: CrystalTree, ident: int, make: Callable[[CrystalTree], Sequence[tuple[str, Node]]]) -> SmallDirectory:
    """A directory of one of the kinds above."""
    return SmallDirectory(tree, ident, lambda: make(tree))
