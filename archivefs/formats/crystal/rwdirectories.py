"""Directories of ``web/`` on a read-write mount: what the project lists, and beside it what is not stored yet.

The lock of the tree (``rwtree.py``) guards names.  A directory is known by the prefix of its URLs alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from archivefs.errors import (
    AlreadyExists,
    DirectoryExpected,
    DirectoryNotEmpty,
    FileExpected,
    NotFound,
    NotPermitted,
    OtherTree,
)
from archivefs.formats.crystal.history import RevisionsDirectory, number_of
from archivefs.formats.crystal.newurls import is_scratch, new_prefix, new_url
from archivefs.formats.crystal.rwfiles import RwFile
from archivefs.tree import Attributes, Directory, Entry, Kind, Node, WritableDirectory, WritableFile

if TYPE_CHECKING:
    from archivefs.formats.crystal.rwtree import RwTree


class RwDirectory(WritableDirectory):
    """The URLs that begin with a prefix; the empty one is ``web/`` itself."""

    def __init__(self, tree: RwTree, ident: int, prefix: bytes) -> None:
        self.tree: RwTree = tree
        self.ident = ident
        self.prefix = prefix
        self._mtime_ns: int | None = None

    def attributes(self) -> Attributes:
        return Attributes(0, self.tree.base.mtime_ns() if self._mtime_ns is None else self._mtime_ns)

    def xattrs(self) -> Mapping[str, bytes]:
        return {"user.archivefs.url": self.prefix} if 0 < len(self.prefix) <= 65_536 else {}

    def set_times(self, *, mtime_ns: int) -> None:
        self._mtime_ns = mtime_ns
        self.tree.keep_until_unmount(self)

    # -- looking --

    def child(self, name: str) -> Node:
        with self.tree.lock:
            found: Node | None = self.tree.unsaved.get((self.prefix, name))
            found = found or self.stored_child(name) or self.tree.made_directory(self.prefix, name)
        if found is None:
            raise NotFound(archive=self.tree.folder, member=name)
        return found

    def stored_child(self, name: str) -> Node | None:
        """What the project has of that name, unless an editor has moved it out of the way."""
        if (self.prefix, name) in self.tree.hidden:
            return None
        base = self.tree.base_child(self.prefix, name)
        return None if base is None else self.tree.ours(base)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        """The project's names in the project's order, then those it does not have, sorted."""
        with self.tree.lock:
            more = self.tree.unsaved_names(self.prefix)
            hidden = {name for prefix, name in self.tree.hidden if prefix == self.prefix}
        listed = set()
        if after is None or after not in more:
            for entry in self.tree.base_directory(self.prefix).entries(after):
                if entry.name in more:
                    listed.add(entry.name)
                elif entry.name not in hidden:
                    node = self.tree.ours(entry.node) if entry.node is not None else None
                    yield Entry(entry.name, entry.kind, node.ident if node else 0, node)
            after = None
        for name in sorted(more):
            if after is None or name > after:
                yield Entry(name, more[name].kind, more[name].ident, more[name])

    def is_empty(self) -> bool:
        """Is nothing listed?"""
        return next(self.entries(), None) is None

    # -- making --

    def create(self, name: str, *, exclusive: bool) -> WritableFile:
        with self.tree.lock:
            try:
                found = self.child(name)
            except NotFound:
                return self._new_file(name)
        if exclusive:
            raise AlreadyExists(member=name)
        if not isinstance(found, RwFile):
            raise FileExpected(member=name) if isinstance(found, Directory) else NotPermitted(member=name)
        return found

    def _new_file(self, name: str) -> RwFile:
        spot = (self.prefix, name)
        hidden = self.tree.hidden.get(spot)
        url = None
        if hidden is not None and hidden.base is not None:
            url = hidden.base.shown.url
        elif not is_scratch(name):
            url = new_url(self.prefix, name, self.tree.aliases())
        file = self.tree.new_file(url, spot)
        self.tree.hidden.pop(spot, None)
        return file

    def make_directory(self, name: str) -> Directory:
        with self.tree.lock:
            try:
                self.child(name)
            except NotFound:
                inner = new_prefix(self.prefix, name, self.tree.aliases())
                return self.tree.make_directory(self.prefix, name, inner)
        raise AlreadyExists(member=name)

    # -- removing --

    def remove(self, name: str, *, kind: Kind) -> None:
        node = self.child(name)
        if kind is Kind.DIRECTORY:
            if not isinstance(node, Directory):
                raise DirectoryExpected(member=name)
            if not isinstance(node, RwDirectory):
                raise NotPermitted(member=name)
            if not node.is_empty():
                raise DirectoryNotEmpty(member=name)
            self.tree.forget_directory(self.prefix, name)
            return
        if isinstance(node, Directory):
            raise FileExpected(member=name)
        if not isinstance(node, RwFile):
            raise NotPermitted("a link that the project makes", member=name)
        self.tree.remove_file(node)

    # -- renaming --

    def rename(self, name: str, to: Directory, to_name: str, *, replace: bool) -> None:
        node = self.child(name)
        if not isinstance(to, RwDirectory) or to.tree is not self.tree:
            raise OtherTree(member=name)
        if to is self and name == to_name:
            return
        if isinstance(node, RwDirectory):
            self._rename_directory(node, name, to, to_name)
            return
        if not isinstance(node, RwFile):
            raise NotPermitted("a link that the project makes", member=name)
        with node.at_rest(), self.tree.lock:
            target = to.child_or_none(to_name)
            if target is node:
                return
            if target is not None and not replace:
                raise AlreadyExists(member=to_name)
            if isinstance(target, Directory):
                raise FileExpected(member=to_name)
            if target is not None and not isinstance(target, RwFile):
                raise NotPermitted(member=to_name)
            self._rename_file(node, name, to, to_name, target)

    def child_or_none(self, name: str) -> Node | None:
        """The child of that name, if there is one."""
        try:
            return self.child(name)
        except NotFound:
            return None

    def _rename_file(self, file: RwFile, name: str, to: RwDirectory, to_name: str, target: RwFile | None) -> None:
        tree, spot = self.tree, (to.prefix, to_name)
        if file.aside == spot and target is None:
            tree.put_back(file)
        elif is_scratch(to_name) and (target is None or target.url is None):
            if file.spot is None:
                tree.put_aside(file, (self.prefix, name), spot)
            else:
                tree.move_unsaved(file, spot)
            if target is not None:
                target.removed = True
        elif file.spot is not None:
            url = target.url if target is not None else None
            tree.store_as(file, url or new_url(to.prefix, to_name, tree.aliases()), target)
        else:
            tree.rename_stored(file, new_url(to.prefix, to_name, tree.aliases()), target)

    def _rename_directory(self, node: RwDirectory, name: str, to: RwDirectory, to_name: str) -> None:
        if not node.is_empty():
            raise NotPermitted("a directory of a project cannot be moved", member=name)
        with self.tree.lock:
            if to.child_or_none(to_name) is not None:
                raise AlreadyExists(member=to_name)
            inner = new_prefix(to.prefix, to_name, self.tree.aliases())
            self.tree.forget_directory(self.prefix, name)
            self.tree.make_directory(to.prefix, to_name, inner)


class RemovableRevisions(RevisionsDirectory, WritableDirectory):
    """The revisions of one resource in ``history/``, each of which can be removed (``-o delete``)."""

    __slots__ = ()

    def create(self, name: str, *, exclusive: bool) -> WritableFile:
        raise NotPermitted("a revision is made by writing to the page in web/", member=name)

    def make_directory(self, name: str) -> Directory:
        raise NotPermitted(member=name)

    def remove(self, name: str, *, kind: Kind) -> None:
        self.child(name)
        key = number_of(name)
        remover = self.tree.remover
        if key is None or kind is not Kind.FILE or remover is None:
            raise NotPermitted("only revisions can be removed, and only with -o delete", member=name)
        remover(key)

    def rename(self, name: str, to: Directory, to_name: str, *, replace: bool) -> None:
        raise NotPermitted(member=name)
