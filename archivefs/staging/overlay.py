"""Changes on top of a tree that is only read: what a read-write mount shows before it is committed.

A format subclasses :class:`OverlayTree`, says which names it can hold and how a commit is made; directories, files,
renames, removals and the journal are here.  Every change is visible at once and lies in the staging area:
content when it is synced or closed, a change of names at the next sync after it.

The journal speaks of paths, so it means the same after a commit has put another archive under the overlay.

Threading: one lock guards names and structure; each open file has its own.  Neither is held
while the base tree is asked for content.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from archivefs.errors import (
    CorruptArchive,
    DirectoryExpected,
    NotFound,
)
from archivefs.staging.area import StagingArea
from archivefs.staging.journal import Record
from archivefs.staging.overlay_directories import OverlayDirectory
from archivefs.staging.overlay_files import OverlayFile, Staged
from archivefs.tree import (
    MAX_IDENT,
    ROOT_IDENT,
    Directory,
    Kind,
    Node,
    Parts,
    Reader,
    Tree,
    Usage,
)


class OverlayTree(Tree):
    """A base tree and the changes made to it."""

    immutable = False
    writable = True
    leads_back = False

    def __init__(self, base: Tree, area: StagingArea) -> None:
        self.base = base
        self.area = area
        self.lock = threading.RLock()
        self.last_change = time.monotonic()
        self._live: weakref.WeakValueDictionary[int, Node] = weakref.WeakValueDictionary()
        self._kept: set[OverlayFile] = set()
        self._replaying = False
        self._carried: list[Parts] = []
        """Empty directories that a commit could not put into the archive; the next area begins with them."""
        self._generation = 0
        """Grows when changes are thrown away: nothing else happens behind the kernel's back."""
        self._root = OverlayDirectory(self, None, "", base.root())

    # -- what a format says --

    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """What tells this state of the archive from any other; kept in the journal."""

    def check_name(self, directory: OverlayDirectory, name: str, kind: Kind) -> None:
        """Raise NameNotHeld, NameTooLong, AlreadyExists … if the format cannot hold a new *name* there."""

    def check_move(self, node: OverlayDirectory | OverlayFile, directory: OverlayDirectory, name: str) -> None:
        """Raise if *node* cannot be called *name* there, whether or not something has that name; comes first."""

    def named(self, node: OverlayDirectory | OverlayFile, replaced: OverlayDirectory | OverlayFile | None) -> None:
        """*node* is new, or was given the name it has; *replaced* is what had the name until now."""

    def put_fields(self, file: OverlayFile) -> Mapping[str, Any]:
        """What the journal should say of a file beside its content."""
        return {}

    def restored(self, file: OverlayFile, fields: Mapping[str, Any]) -> None:
        """*file* was found in the journal, with *fields* as ``put_fields`` gave them."""

    def find_again(self, base: Directory | None, node: OverlayDirectory | OverlayFile) -> tuple[str, Node] | None:
        """What *node* has become in *base*, which a commit has just made, and under which name."""
        try:
            return (node.name, base.child(node.name)) if base is not None else None
        except NotFound:
            return None

    def apply_own(self, record: Record) -> None:
        """Make a change of a kind that only the format knows; see ``replay``."""
        raise CorruptArchive(f"a change of unknown kind: {record.fields['op']!r}", archive=self.area.folder)

    def file_xattrs(self, file: OverlayFile) -> Mapping[str, bytes]:
        """The attributes of a file; by default the base's, as long as the content is the base's."""
        return {} if file.base is None or file.staged is not None else file.base.xattrs()

    def set_file_xattr(self, file: OverlayFile, name: str, value: bytes | None) -> None:
        """Raise NotSupported unless the format gives the attribute a meaning."""
        super(OverlayFile, file).set_xattr(name, value)

    # -- the tree --

    def root(self) -> OverlayDirectory:
        return self._root

    def sync(self) -> None:
        self.area.sync()

    def usage(self) -> Usage:
        return self.base.usage()

    def extras(self) -> Mapping[str, Callable[[], Reader]]:
        return self.base.extras()

    def facts(self) -> Mapping[str, object]:
        return self.base.facts()

    def close(self) -> None:
        self.area.close()
        self.base.close()

    def new_ident(self, directory: OverlayDirectory | None, name: str) -> int:
        """A number that follows from the path, so that it is the same at every look; the next free one if taken."""
        if directory is None:
            return ROOT_IDENT
        digest = hashlib.blake2b(f"{directory.ident}/{name}".encode("utf-8", "surrogateescape"), digest_size=6).digest()
        ident = int.from_bytes(digest, "big")
        while ident <= ROOT_IDENT or ident in self._live:
            ident = ident % MAX_IDENT + 1
        return ident

    def remember(self, node: Node) -> None:
        """Keep the ident of a node that is in use from being given to another."""
        self._live[node.ident] = node

    def drop_body(self, number: int) -> None:
        """Remove a body that nothing names any more; 0 is none."""
        if number and not self._replaying:
            self.area.drop_body(number)

    def keep_until_unmount(self, file: OverlayFile) -> None:
        """Hold on to a file that is not changed but was given a time of its own."""
        self._kept.add(file)

    # -- the journal --

    def record(self, fields: Mapping[str, Any], payload: bytes = b"", *, sync: bool = False) -> tuple[int, int]:
        """Write down a change; the area is made with the first one."""
        self.last_change = time.monotonic()
        if self._replaying:
            return 0, 0
        self.begin()
        return self.area.append(fields, payload, sync=sync)

    def begin(self) -> None:
        """Make the staging area if there is none."""
        if self.area.begin({"op": "base", "identity": self.identity()}):
            for path in self._carried:
                self.area.append({"op": "mkdir", "path": list(path)}, sync=False)
            self._carried = []

    def replay(self) -> int:
        """Make the changes that an earlier mount has left; returns how many there were.

        Raises CorruptArchive when they belong to another state of the archive.
        """
        records = list(self.area.replay())
        if not records:
            # A process died while it began or emptied the area: it must be begun anew, with its first record.
            self.area.discard()
            return 0
        identity = self.identity()
        matching = [at for at, record in enumerate(records) if record.fields.get("identity") == identity]
        if not matching:
            raise belongs_elsewhere(self)
        # What stands before the commit that made this archive is in it; what follows was changed since.
        changes = [record for record in records[matching[-1] + 1 :] if record.fields["op"] != "committing"]
        if matching[-1] and not changes:
            self.area.discard()
        self._replaying = True
        try:
            for record in changes:
                self._apply(record)
        finally:
            self._replaying = False
        return len(changes)

    def _apply(self, record: Record) -> None:
        fields = record.fields
        if fields["op"] not in ("put", "mkdir", "remove", "rename", "xattr"):
            self.apply_own(record)
            return
        directory, name = self._parent(tuple(fields["path"]))
        match fields["op"]:
            case "put":
                file = directory.create(name, exclusive=False)
                assert isinstance(file, OverlayFile)
                file.take(Staged.from_record(record))
                self.restored(file, fields)
            case "mkdir":
                directory.make_directory(name)
            case "remove":
                # A file that was removed before it was ever saved is in no record but this one.
                with contextlib.suppress(NotFound):
                    directory.remove(name, kind=Kind(fields["kind"]))
            case "rename":
                to, to_name = self._parent(tuple(fields["to"]))
                directory.rename(name, to, to_name, replace=True)
            case "xattr":
                value = fields["value"]
                with contextlib.suppress(NotFound):
                    node = directory.child(name)
                    assert isinstance(node, OverlayFile)
                    node.set_xattr(fields["name"], None if value is None else bytes.fromhex(value))

    def _parent(self, path: Parts) -> tuple[OverlayDirectory, str]:
        node: Node = self._root
        for name in path[:-1]:
            assert isinstance(node, OverlayDirectory)
            node = node.child(name)
        if not isinstance(node, OverlayDirectory):
            raise DirectoryExpected(member="/".join(path))
        return node, path[-1]

    # -- what is pending --

    def pending(self) -> Iterator[tuple[str, Parts]]:
        """What a commit would do, in order of the paths."""
        with self.lock:
            found = [(parts, what) for what, parts in self._root.changes()]
        kinds: dict[Parts, str] = {}
        for parts, what in sorted(found):
            # Removed and made again, in a directory that was: that is a change.
            kinds[parts] = "changed" if parts in kinds else what
        yield from ((what, parts) for parts, what in kinds.items())

    def files(self) -> Iterator[tuple[Parts, OverlayFile]]:
        """Every file there is now, changed or not."""
        yield from self._root.files()

    def empty_directories(self) -> Iterator[Parts]:
        """Directories made and left without a file: what the format may not be able to hold."""
        yield from self._root.empty_directories()

    def idle_s(self) -> float:
        return time.monotonic() - self.last_change

    def generation(self) -> int:
        return self._generation

    def discard_changes(self) -> None:
        with self.lock:
            self._root.reset()
            self.area.discard()
            # Last, so that nobody who has seen it grow keeps an answer from before.
            self._generation += 1

    def rebase(self, base: Tree) -> None:
        """Go on with *base* underneath, which holds everything changed so far; the staging area is emptied."""
        with self.lock:
            old, self.base = self.base, base
            self._root.rebase(base.root())
            self.empty_area()
        old.close()

    def empty_area(self) -> None:
        """Nothing is pending: empty the staging area, but for what open writers still use."""
        with self.lock:
            in_use = {node.body_in_use for node in list(self._live.values()) if isinstance(node, OverlayFile)}
            self._carried = list(self._root.left_over())
            self.area.discard(keep=in_use - {0})


def belongs_elsewhere(tree: OverlayTree) -> CorruptArchive:
    """The error for a staging area that was made for another state of the archive."""
    return CorruptArchive(
        "the changes in the staging area were made to another state of the archive",
        archive=tree.area.folder,
        advice="put that archive back, or throw the changes away with archivefs discard",
    )


__all__ = ["OverlayDirectory", "OverlayFile", "OverlayTree"]
