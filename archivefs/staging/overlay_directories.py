"""Directories of an overlay: what the base has, less what was removed, plus what was put there.

The lock of the tree (``overlay.py``) guards them all.
"""

from __future__ import annotations

import time
import weakref
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
    StaleNode,
)
from archivefs.staging.overlay_files import OverlayFile
from archivefs.tree import Attributes, Directory, Entry, File, Kind, Node, Parts, WritableDirectory, WritableFile

if TYPE_CHECKING:
    from archivefs.staging.overlay import OverlayTree


class OverlayDirectory(WritableDirectory):
    """A directory: what the base has in it, less what was removed, plus what was put here."""

    def __init__(self, tree: OverlayTree, parent: OverlayDirectory | None, name: str, base: Directory | None) -> None:
        self.tree: OverlayTree = tree
        self.parent = parent
        self.name = name
        self.base = base
        self.ident = tree.new_ident(parent, name)
        self.removed = False
        self._mtime_ns: int | None = None if base is not None else time.time_ns()
        self._placed: dict[str, OverlayDirectory | OverlayFile | None] = {}
        """What was put here, or None for what was taken away."""
        self._seen: dict[str, OverlayDirectory] = {}
        """Directories of the base that were looked up; kept, since their changes hang on them."""
        self._files: weakref.WeakValueDictionary[str, OverlayFile] = weakref.WeakValueDictionary()
        tree.remember(self)

    def parts(self) -> Parts:
        """Where it is now."""
        return (*self.parent.parts(), self.name) if self.parent is not None else ()

    def attributes(self) -> Attributes:
        if self._mtime_ns is not None:
            return Attributes(0, self._mtime_ns)
        return self.base.attributes() if self.base is not None else Attributes()

    def xattrs(self) -> Mapping[str, bytes]:
        return self.base.xattrs() if self.base is not None else {}

    def set_times(self, *, mtime_ns: int) -> None:
        self._mtime_ns = mtime_ns

    # -- looking --

    def child(self, name: str) -> OverlayDirectory | OverlayFile:
        with self.tree.lock:
            if name in self._placed:
                placed = self._placed[name]
                if placed is None:
                    raise NotFound(member=name)
                return placed
            known = self._known(name)
            if known is not None:
                return known
            if self.base is None:
                raise NotFound(member=name)
            return self._wrap(name, self.base.child(name))

    def _known(self, name: str) -> OverlayDirectory | OverlayFile | None:
        return self._seen.get(name) or self._files.get(name)

    def _wrap(self, name: str, node: Node) -> OverlayDirectory | OverlayFile:
        if isinstance(node, Directory):
            directory = self._seen[name] = OverlayDirectory(self.tree, self, name, node)
            return directory
        if not isinstance(node, File):
            raise NotFound(member=name)
        file = self._files[name] = OverlayFile(self.tree, self, name, node)
        return file

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        """The base's names in the base's order, then those it does not have, sorted."""
        with self.tree.lock:
            placed = dict(self._placed)
        if after is None or self._in_base(after):
            for entry in self.base.entries(after) if self.base is not None else ():
                node = placed[entry.name] if entry.name in placed else self._wrapped(entry)
                if node is not None:
                    yield Entry(entry.name, node.kind, node.ident, node)
                elif entry.name not in placed:
                    yield Entry(entry.name, entry.kind)
            after = None
        for name in sorted(placed):
            node = placed[name]
            if node is not None and (after is None or name > after) and not self._in_base(name):
                yield Entry(name, node.kind, node.ident, node)

    def _wrapped(self, entry: Entry) -> OverlayDirectory | OverlayFile | None:
        """The node of a line of the base's listing, where it costs nothing."""
        if entry.node is None or entry.kind is Kind.SYMLINK:
            return None
        with self.tree.lock:
            return self._known(entry.name) or self._wrap(entry.name, entry.node)

    def _in_base(self, name: str) -> bool:
        if self.base is None:
            return False
        try:
            self.base.child(name)
        except NotFound:
            return False
        return True

    def is_empty(self) -> bool:
        """Is nothing listed?"""
        return next(self.entries(), None) is None

    @property
    def placed(self) -> Mapping[str, OverlayDirectory | OverlayFile | None]:
        """What was put here, and None for what was taken away.  Hold the tree's lock."""
        return self._placed

    @property
    def seen(self) -> Mapping[str, OverlayDirectory]:
        """Those directories of the base that something may hang on.  Hold the tree's lock."""
        return self._seen

    # -- changing --

    def create(self, name: str, *, exclusive: bool) -> WritableFile:
        with self.tree.lock:
            self._check_alive()
            try:
                found = self.child(name)
            except NotFound:
                self.tree.check_name(self, name, Kind.FILE)
                file = OverlayFile(self.tree, self, name, None)
                self._place(name, file)
                self.tree.named(file, None)
                return file
            if exclusive:
                raise AlreadyExists(member=name)
            if not isinstance(found, OverlayFile):
                raise FileExpected(member=name)
            return found

    def make_directory(self, name: str) -> OverlayDirectory:
        with self.tree.lock:
            self._check_alive()
            self._check_free(name)
            self.tree.check_name(self, name, Kind.DIRECTORY)
            directory = OverlayDirectory(self.tree, self, name, None)
            self._place(name, directory)
            self.tree.named(directory, None)
            self.tree.record({"op": "mkdir", "path": [*self.parts(), name]})
            return directory

    def remove(self, name: str, *, kind: Kind) -> None:
        with self.tree.lock:
            node = self.child(name)
            if kind is Kind.DIRECTORY:
                if not isinstance(node, OverlayDirectory):
                    raise DirectoryExpected(member=name)
                if not node.is_empty():
                    raise DirectoryNotEmpty(member=name)
            elif isinstance(node, OverlayDirectory):
                raise FileExpected(member=name)
            self._take_away(name)
            node.removed = True
            # A body may go only when the record that makes it superfluous is on disk.
            body = node.staged_body
            self.tree.record({"op": "remove", "path": [*self.parts(), name], "kind": int(kind)}, sync=bool(body))
            self.tree.drop_body(body)

    def rename(self, name: str, to: Directory, to_name: str, *, replace: bool) -> None:
        # What it replaces may go only when the new content is durable; saved before the lock, which saving takes too.
        moving = self.child(name)
        if isinstance(moving, OverlayFile):
            moving.save()
        with self.tree.lock:
            if not isinstance(to, OverlayDirectory) or to.tree is not self.tree:
                raise OtherTree(member=name)
            to._check_alive()
            node = self.child(name)
            if node.parent is to and name == to_name:
                return
            if isinstance(node, OverlayDirectory) and node.is_above(to):
                raise NotPermitted("a directory cannot be moved into itself", member=name)
            source = [*self.parts(), name]
            self.tree.check_move(node, to, to_name)
            target = to._make_room(to_name, node, replace=replace)
            self._take_away(name)
            node.parent, node.name = to, to_name
            to._place(to_name, node)
            self.tree.named(node, target)
            self.tree.record({"op": "rename", "path": source, "to": [*to.parts(), to_name]}, sync=True)
            self.tree.drop_body(target.staged_body if target is not None else 0)

    def _make_room(
        self, name: str, node: OverlayDirectory | OverlayFile, *, replace: bool
    ) -> OverlayDirectory | OverlayFile | None:
        """Check that *node* may come to *name* here, and take away what it replaces, which is given back."""
        try:
            target = self.child(name)
        except NotFound:
            self.tree.check_name(self, name, node.kind)
            return None
        if target is node:
            return None
        if not replace:
            raise AlreadyExists(member=name)
        if isinstance(target, OverlayDirectory):
            if not isinstance(node, OverlayDirectory):
                raise FileExpected(member=name)
            if not target.is_empty():
                raise DirectoryNotEmpty(member=name)
        elif isinstance(node, OverlayDirectory):
            raise DirectoryExpected(member=name)
        self._take_away(name)
        target.removed = True
        return target

    staged_body = 0
    """A directory has none; see OverlayFile."""

    def is_above(self, other: OverlayDirectory) -> bool:
        """Is *other* this directory, or below it?"""
        node: OverlayDirectory | None = other
        while node is not None:
            if node is self:
                return True
            node = node.parent
        return False

    def _place(self, name: str, node: OverlayDirectory | OverlayFile) -> None:
        self._placed[name] = node
        self._mtime_ns = time.time_ns()

    def keep(self, file: OverlayFile) -> None:
        """A file of the base has changed: from now on it hangs here."""
        if not file.removed and self._placed.get(file.name) is not file:
            self._files.pop(file.name, None)
            self._placed[file.name] = file

    def _take_away(self, name: str) -> None:
        self._placed.pop(name, None)
        self._seen.pop(name, None)
        self._files.pop(name, None)
        if self._in_base(name):
            self._placed[name] = None
        self._mtime_ns = time.time_ns()

    def _check_alive(self) -> None:
        if self.removed:
            raise StaleNode(member=self.name)

    def _check_free(self, name: str) -> None:
        try:
            self.child(name)
        except NotFound:
            return
        raise AlreadyExists(member=name)

    # -- what is pending --

    def changes(self) -> Iterator[tuple[str, Parts]]:
        """Of the files here and below; directories are implied by them."""
        here = self.parts()
        for name, node in list(self._placed.items()):
            below = _child_or_none(self.base, name)
            path = (*here, name)
            if isinstance(node, OverlayFile):
                yield "changed" if isinstance(below, File) else "added", path
            elif isinstance(below, File):
                yield "removed", path
            if isinstance(below, Directory):
                yield from (("removed", (*path, *parts)) for parts in _files_below(below))
            if isinstance(node, OverlayDirectory):
                yield from (("added", parts) for parts, _ in node.files())
        for directory in list(self._seen.values()):
            yield from directory.changes()

    def files(self) -> Iterator[tuple[Parts, OverlayFile]]:
        """Every file here and below."""
        stack = [self]
        while stack:
            directory = stack.pop()
            here = directory.parts()
            for entry in directory.entries():
                node = directory.child(entry.name)
                if isinstance(node, OverlayDirectory):
                    stack.append(node)
                else:
                    yield (*here, entry.name), node

    def empty_directories(self) -> Iterator[Parts]:
        """Directories here and below without any file."""
        for entry in self.entries():
            if entry.kind is Kind.DIRECTORY:
                directory = self.child(entry.name)
                assert isinstance(directory, OverlayDirectory)
                if next(directory.files(), None) is None:
                    yield directory.parts()
                else:
                    yield from directory.empty_directories()

    def reset(self) -> None:
        """Throw away every change here and below."""
        for node in self._placed.values():
            if node is not None:
                node.removed = True
        self._placed.clear()
        self._mtime_ns = None if self.base is not None else self._mtime_ns
        for directory in self._seen.values():
            directory.reset()

    def rebase(self, base: Directory | None) -> None:
        """Take *base* for what lies under this directory and all that hang on it."""
        self.base = base
        nodes = [*self._placed.values(), *self._seen.values(), *self._files.values()]
        self._placed, self._seen = {}, {}
        self._files.clear()
        for node in nodes:
            if node is None:
                continue
            found = self.tree.find_again(base, node)
            name, below = found or (node.name, None)
            node.name = name
            if isinstance(node, OverlayFile):
                self._rebase_file(node, below if isinstance(below, File) else None)
            else:
                (self._seen if isinstance(below, Directory) else self._placed)[name] = node
                node.rebase(below if isinstance(below, Directory) else None)

    def _rebase_file(self, file: OverlayFile, below: File | None) -> None:
        if below is not None:
            self._files[file.name] = file
        elif file.is_new:
            # An open writer has not saved it yet, so it is in no archive.
            self._placed[file.name] = file
        else:
            file.removed = True
        file.rebase(below)

    def left_over(self) -> Iterator[Parts]:
        """The directories here and below that the base does not have, each after the one it is in."""
        for node in self._placed.values():
            if isinstance(node, OverlayDirectory):
                yield node.parts()
                yield from node.left_over()
        for directory in self._seen.values():
            yield from directory.left_over()


def _child_or_none(directory: Directory | None, name: str) -> Node | None:
    try:
        return directory.child(name) if directory is not None else None
    except NotFound:
        return None


def _files_below(directory: Directory) -> Iterator[Parts]:
    """The paths of all files below, relative to it."""
    stack: list[tuple[Parts, Directory]] = [((), directory)]
    while stack:
        here, top = stack.pop()
        for entry in top.entries():
            path = (*here, entry.name)
            if entry.kind is Kind.DIRECTORY:
                child = top.child(entry.name)
                assert isinstance(child, Directory)
                stack.append((path, child))
            else:
                yield path
