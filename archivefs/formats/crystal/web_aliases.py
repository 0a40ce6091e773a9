"""Aliases in ``web/``: a link where the directory of an alias's source would be, if nothing is stored there.

Directories on the way to such a link that hold nothing else exist for its sake.  Loops and chains are left to the
kernel.  What is known of aliases belongs to an edition of the project, so it is made anew when that changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from archivefs.formats.crystal.idents import Sort
from archivefs.formats.crystal.nodes import CrystalDirectory, Link, relative_path
from archivefs.formats.crystal.urls import Alias
from archivefs.formats.crystal.walk import below
from archivefs.tree import Entry, Node, Parts
from archivefs.urlnames import directory_path

if TYPE_CHECKING:
    from archivefs.formats.crystal.tree import CrystalTree

LINK_EXTRA = 1
"""``extra`` of a link's ident; that of a directory on the way is its depth and one more."""


class AliasPath(NamedTuple):
    """An alias that can be a link: where it is, and where it leads."""

    alias: Alias
    parts: Parts
    target: Parts


class AliasLinks:
    """The links of all aliases."""

    def __init__(self, tree: CrystalTree) -> None:
        self.tree = tree
        self.project = tree.project

    def entries(self, prefix: bytes, after: str | None) -> Iterator[Entry]:
        """What is listed for aliases in a directory of ``web/``."""
        parts = _parts_of(prefix) if self._paths() else None
        return iter(()) if parts is None else self.entries_at(parts, after)

    def entries_at(self, parts: Parts, after: str | None) -> Iterator[Entry]:
        """The same by the directory's path."""
        names = self._names_at(parts)
        for name in sorted(names):
            if after is None or name > after:
                node = self._node(names[name], len(parts) + 1)
                yield Entry(name, node.kind, node.ident)

    def child(self, prefix: bytes, name: str) -> Node | None:
        """The link or directory of that name in a directory of ``web/``."""
        parts = _parts_of(prefix) if self._paths() else None
        return None if parts is None else self.child_at(parts, name)

    def child_at(self, parts: Parts, name: str) -> Node | None:
        """The same by the directory's path."""
        found = self._names_at(parts).get(name)
        return self._node(found, len(parts) + 1) if found else None

    def any_below(self, prefix: bytes) -> bool:
        """Is there a link anywhere below a directory?"""
        parts = _parts_of(prefix) if self._paths() else None
        return parts is not None and any(self._is_free(path) for path in self._below(parts))

    def node(self, key: int, extra: int) -> Node | None:
        """The node of an alias's ident."""
        found = next((path for path in self._paths() if path.alias.id == key), None)
        if found is None or not self._is_free(found) or not LINK_EXTRA <= extra <= len(found.parts):
            return None
        return self._node(found, len(found.parts) if extra == LINK_EXTRA else extra - 1)

    # -- what is known --

    def _paths(self) -> Sequence[AliasPath]:
        edition = self.project.edition()
        found: list[AliasPath] | None = edition.tables.get("alias paths")
        if found is None:
            found = edition.tables["alias paths"] = list(_usable(edition.aliases))
        return found

    def _below(self, parts: Parts) -> Iterator[AliasPath]:
        depth = len(parts)
        return (path for path in self._paths() if len(path.parts) > depth and path.parts[:depth] == parts)

    def _names_at(self, parts: Parts) -> dict[str, AliasPath]:
        """The first alias for each name in a directory; a link comes before a directory on the way to another."""
        depth = len(parts) + 1
        found: dict[str, AliasPath] = {}
        for path in sorted(self._below(parts), key=lambda path: len(path.parts) > depth):
            name = path.parts[depth - 1]
            if name not in found and self._is_free(path) and not self._is_stored(path, depth):
                found[name] = path
        return found

    def _is_free(self, path: AliasPath) -> bool:
        """Is nothing stored under the source of an alias?"""
        known = self.project.edition().tables.setdefault("free aliases", {})
        if path.alias.id not in known:
            source = path.alias.source.encode("utf-8", "surrogateescape")
            known[path.alias.id] = (
                self.project.first_below(*below(source)) is None and self.project.resource_by_url(source[:-1]) is None
            )
        return bool(known[path.alias.id])

    def _is_stored(self, path: AliasPath, depth: int) -> bool:
        """Is the directory at that depth on the way to a link a stored one?"""
        if depth == len(path.parts):
            return False
        prefix = "/".join(path.alias.source.split("/")[: depth + 1]) + "/"
        return self.project.first_below(*below(prefix.encode("utf-8", "surrogateescape"))) is not None

    def _node(self, path: AliasPath, depth: int) -> Node:
        of = self.tree.idents.of
        if depth < len(path.parts):
            return AliasDirectory(self, of(Sort.ALIAS, path.alias.id, depth + 1), path.parts[:depth])
        target = relative_path(path.parts[:-1], path.target)
        return Link(self.tree, of(Sort.ALIAS, path.alias.id, LINK_EXTRA), lambda: target)


class AliasDirectory(CrystalDirectory):
    """A directory that exists for the sake of a link further down."""

    __slots__ = ("_links", "_parts")

    def __init__(self, links: AliasLinks, ident: int, parts: Parts) -> None:
        super().__init__(links.tree, ident)
        self._links = links
        self._parts = parts

    def child(self, name: str) -> Node:
        node = self._links.child_at(self._parts, name)
        if node is None:
            raise self.not_found(name)
        return node

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        return self._links.entries_at(self._parts, after)


def _usable(aliases: Sequence[Alias]) -> Iterator[AliasPath]:
    for alias in aliases:
        parts, target = directory_path(alias.source), directory_path(alias.target)
        if not alias.external and parts and target and len(parts) > 1:
            yield AliasPath(alias, parts, target)


def _parts_of(prefix: bytes) -> Parts | None:
    return directory_path(prefix.decode("utf-8", "surrogateescape")) if prefix else ()
