"""``history/``: every revision of every URL; and ``by-id/``: any revision by its number.

``history/`` has the directories of ``web/`` and marked names; each leaf is a directory ``LEAF^revs`` with the
revisions that are no errors, by id, and a link to the latest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from archivefs.formats.crystal.idents import Fixed, Sort
from archivefs.formats.crystal.nodes import BodyFile, CrystalDirectory, Link
from archivefs.formats.crystal.project import HIGHEST_ID
from archivefs.formats.crystal.records import Revision
from archivefs.formats.crystal.sight import Shown
from archivefs.formats.crystal.stand_ins import LOWEST_ID
from archivefs.formats.crystal.url_views import UrlView, text
from archivefs.formats.crystal.walk import Leaf
from archivefs.tree import Entry, Kind, Node, Parts
from archivefs.urlnames import marked_path

if TYPE_CHECKING:
    from archivefs.formats.crystal.tree import CrystalTree

SUFFIX = "^revs"
LATEST = "latest"
_NUMBER = re.compile("0|-?[1-9][0-9]{0,18}")


def number_of(name: str) -> int | None:
    """The id that a name is; None if it is none."""
    if not _NUMBER.fullmatch(name):
        return None
    number = int(name)
    return number if LOWEST_ID <= number <= HIGHEST_ID else None


def revision_parts(url: bytes, key: int | str) -> Parts:
    """Where a revision is in the tree."""
    *folders, leaf = marked_path(text(url))
    return ("history", *folders, leaf + SUFFIX, str(key))


class HistoryView(UrlView):
    """All revisions by URL."""

    directory_sort = Sort.HISTORY_DIR
    no_scheme = Fixed.HISTORY_NO_SCHEME

    def leaf_entry(self, leaf: Leaf, name: str) -> Entry | None:
        if leaf.newest is None or (leaf.failed and self.project.row("newest_kept", leaf.resource) is None):
            return None
        ident = self.tree.idents.of(Sort.REVISIONS, leaf.resource)
        node = self.tree.revisions_class(self.tree, ident, leaf.resource)
        return Entry(name + SUFFIX, Kind.DIRECTORY, ident, node)

    def leaf_url(self, prefix: bytes, name: str, *, whole: bool, has_directory: bool = False) -> bytes | None:
        if not name.endswith(SUFFIX):
            return None
        return self.find_leaf(prefix, name.removesuffix(SUFFIX), whole=whole)

    def leaf_node(self, url: bytes) -> Node | None:
        resource = self.project.resource_by_url(url)
        return revisions_of(self.tree, resource.id) if resource else None


def revisions_of(tree: CrystalTree, resource: int) -> RevisionsDirectory | None:
    """The directory of a resource's revisions, if there are any."""
    if tree.project.row("newest_kept", resource) is None:
        return None
    return tree.revisions_class(tree, tree.idents.of(Sort.REVISIONS, resource), resource)


class RevisionsDirectory(CrystalDirectory):
    """The revisions of one resource."""

    __slots__ = ("_resource",)

    def __init__(self, tree: CrystalTree, ident: int, resource: int) -> None:
        super().__init__(tree, ident)
        self._resource = resource

    def xattrs(self) -> Mapping[str, bytes]:
        resource = self.tree.project.resource(self._resource)
        return {"user.archivefs.url": resource.url} if resource and len(resource.url) <= 65_536 else {}

    def child(self, name: str) -> Node:
        if name == LATEST:
            return latest_of(self.tree, self._resource)
        key = number_of(name)
        node = revision_node(self.tree, Sort.REVISION, key) if key is not None else None
        if node is None or node.shown.resource != self._resource:
            raise self.not_found(name)
        return node

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        if after == LATEST:
            return
        above = number_of(after) if after is not None else None
        of = self.tree.idents.of
        for key in self.tree.project.kept_ids(self._resource, above=LOWEST_ID if above is None else above):
            yield Entry(str(key), Kind.FILE, of(Sort.REVISION, key))
        yield Entry(LATEST, Kind.SYMLINK, of(Sort.LATEST, self._resource))


def latest_of(tree: CrystalTree, resource: int) -> Link:
    """The link to the latest revision of a resource."""
    return Link(
        tree, tree.idents.of(Sort.LATEST, resource), lambda: str((tree.project.row("newest_kept", resource) or [0])[0])
    )


def revision_node(tree: CrystalTree, sort: Sort, key: int) -> BodyFile | None:
    """The file of one revision; None if it is not there or is an error."""
    revision = tree.project.revision(key)
    if revision is None or revision.error:
        return None
    resource = tree.project.resource(revision.resource)
    if resource is None and sort is Sort.REVISION:
        return None  # its resource is gone: it is found by its id alone
    return BodyFile(tree, tree.idents.of(sort, key), shown_alone(revision, resource.url if resource else None))


def shown_alone(revision: Revision, url: bytes | None) -> Shown:
    """A revision by itself, with its own headers."""
    return Shown(url, revision.resource, revision, revision.headers)


class ByIdDirectory(CrystalDirectory):
    """Any revision with a body, by its id.  Nothing is listed: there are too many, and all are in ``history/``."""

    __slots__ = ()

    def child(self, name: str) -> Node:
        key = number_of(name)
        node = revision_node(self.tree, Sort.BY_ID, key) if key is not None else None
        if node is None:
            raise self.not_found(name)
        return node

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        return iter(())
