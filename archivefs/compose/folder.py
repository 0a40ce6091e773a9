"""FolderTree: a plain folder, with each archive in it as a directory named after its file.

An archive is opened when somebody looks into it.  At most ``MAX_OPEN`` are kept open; the one not looked into for
longest is let go, not closed: whoever still holds the tree or one of its nodes keeps it going, and it is closed
when nobody does.  Other files are not shown.

An archive that cannot be opened is listed all the same; looking into it raises its error.

Threading: every method may be called from any thread.  One lock guards the tables and is never held while an
archive is opened or asked; each archive has a lock of its own, so that two threads do not open it twice.  A thread
that finds the folder being looked through goes on with what was last seen.
"""

from __future__ import annotations

import gc
import os
import stat
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from queue import Empty, SimpleQueue
from typing import NamedTuple

from archivefs.compose.archives import close_all, shown_names
from archivefs.errors import ArchiveError, NotFound, SourceChanged, StaleNode
from archivefs.tree import ROOT_IDENT, Attributes, Directory, Entry, Kind, Node, Reader, Tree, Usage

MAX_OPEN = 64
LOOK_INTERVAL_S = 1.0
LOOK_SHARE = 10
"""Looking through a folder may take at most one tenth of the time, however many files are in it."""
RETRY_S = 5.0
"""How long the error of an archive that cannot be opened is kept."""

Opener = Callable[[], Tree]
Recognise = Callable[[str], "Opener | None"]
"""How to open the archive at a path, or None if it is none.  Must not raise."""


class FolderTree(Tree):
    """The archives in the folder *path*; new, changed and removed ones are noticed within about a second."""

    immutable = False
    leads_back = True
    open_needed = True  # as one of the archives may need it

    def __init__(self, path: str, recognise: Recognise, *, max_open: int = MAX_OPEN) -> None:
        self.path = os.path.abspath(path)
        self._recognise = recognise
        self._max_open = max_open
        self._root = _FolderDirectory(self)
        self._looking = threading.Lock()
        self._looked = False
        self._look_again = 0.0
        self._seen: dict[str, _Seen] = {}
        self._shown: dict[str, ArchiveTree] = {}
        self._mtime_ns = 0
        self._generation = 0
        self._generations: weakref.WeakKeyDictionary[Tree, int] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self._kept: OrderedDict[ArchiveTree, Tree] = OrderedDict()
        self._alive: weakref.WeakSet[Tree] = weakref.WeakSet()
        self._unused: SimpleQueue[Tree] = SimpleQueue()
        self._crowd = 2 * max_open
        self.closed = False

    def root(self) -> Directory:
        return self._root

    def node(self, ident: int) -> Node:
        """Only the root is a node of this tree; all others belong to the archives."""
        if ident != ROOT_IDENT:
            raise NotFound
        return self._root

    def generation(self) -> int:
        self.archives()
        self._close_unused()
        with self._lock:
            kept = list(self._kept.values())
        now = {tree: tree.generation() for tree in kept}
        with self._lock:
            # A tree's first answer is only what its later ones are compared with.
            self._generation += sum(self._generations.get(tree, number) != number for tree, number in now.items())
            self._generations.update(now)
            return self._generation

    def usage(self) -> Usage:
        self.archives()
        return Usage(size=sum(seen.size for seen in self._seen.values() if seen.archive))

    def facts(self) -> Mapping[str, object]:
        return {"archives": len(self.archives())}

    def close(self) -> None:
        with self._lock:
            self.closed = True
            self._kept.clear()
            alive = list(self._alive)
        close_all(alive)
        self._close_unused()

    @property
    def mtime_ns(self) -> int:
        """When the folder was last changed, as far as is known."""
        return self._mtime_ns

    # -- what is in the folder --

    def archives(self) -> Mapping[str, ArchiveTree]:
        """What is shown, by name and in order, looked at again if that is due; raises SourceChanged."""
        if time.monotonic() >= self._look_again and self._looking.acquire(blocking=not self._looked):
            try:
                if time.monotonic() >= self._look_again:
                    self._look()
            finally:
                self._looking.release()
        return self._shown

    def _look(self) -> None:
        began = time.monotonic()
        try:
            mtime_ns = os.stat(self.path).st_mtime_ns
            statuses = dict(_statuses(self.path))
        except OSError as error:
            problem = f"the folder cannot be read: {error.strerror or error}"
            raise SourceChanged(problem, archive=self.path) from error
        seen = {name: self._look_at(name, statuses[name]) for name in sorted(statuses)}
        archives = {name: entry.archive for name, entry in seen.items() if entry.archive}
        by_name = dict(zip(shown_names(list(archives)), archives.values(), strict=True))
        shown = {name: by_name[name] for name in sorted(by_name)}
        with self._lock:
            if self._looked and shown != self._shown:
                self._generation += 1
            self._seen, self._shown, self._mtime_ns, self._looked = seen, shown, mtime_ns, True
            for gone in self._kept.keys() - set(shown.values()):
                del self._kept[gone]
        ended = time.monotonic()
        self._look_again = ended + max(LOOK_INTERVAL_S, LOOK_SHARE * (ended - began))

    def _look_at(self, name: str, status: os.stat_result) -> _Seen:
        """What the file is, recognised again only if it is another one than last time."""
        signature = _signature(status)
        old = self._seen.get(name)
        if old is not None and (old.signature == signature or old.follows_itself(signature)):
            return old
        path = os.path.join(self.path, name)
        opener = self._recognise(path)
        if opener is None:
            return _Seen(signature, status.st_size, None)
        living = stat.S_ISDIR(status.st_mode)
        archive = ArchiveTree(self, opener, path=path, mtime_ns=status.st_mtime_ns, living=living)
        return _Seen(signature, status.st_size, archive)

    # -- which archives are kept open --

    def keep(self, archive: ArchiveTree, tree: Tree) -> None:
        """Note that *archive* was just used, and let go of the one that was not for longest."""
        with self._lock:
            if self.closed:
                raise StaleNode
            self._kept[archive] = tree
            self._kept.move_to_end(archive)
            self._alive.add(tree)
            let_go = [self._kept.popitem(last=False) for _ in range(len(self._kept) - self._max_open)]
            crowded = len(self._alive) > self._crowd
        del let_go
        if crowded:
            # A tree and its nodes refer to each other, so they wait for the collector, which is in no hurry.
            gc.collect()
            self._crowd = len(self._alive) + self._max_open
        self._close_unused()

    def watch_over(self, tree: Tree) -> None:
        """Have *tree* closed when nobody refers to it any more."""
        tree.__dict__["_noticed_when_unused"] = _UnusedNotice(tree, self._unused)

    def _close_unused(self) -> None:
        while True:
            try:
                tree = self._unused.get_nowait()
            except Empty:
                return
            tree.close()


class _UnusedNotice:
    """Tells when nobody refers to a tree any more: tree and notice refer to each other, so they go together.

    Python then calls ``__del__`` with the tree still whole (PEP 442).  It runs in the midst of whatever thread
    the collector chose, perhaps one that holds a lock ``close`` would need, so the tree is only handed on.
    """

    def __init__(self, tree: Tree, unused: SimpleQueue[Tree]) -> None:
        self._tree = tree
        self._unused = unused

    def __del__(self) -> None:
        self._unused.put(self._tree)


class _Seen(NamedTuple):
    """A file in the folder as it was last seen."""

    signature: tuple[int, ...]
    size: int
    archive: ArchiveTree | None

    def follows_itself(self, signature: tuple[int, ...]) -> bool:
        """Is it an archive that is still the same file or folder, and notices its own changes?"""
        return self.archive is not None and self.signature[:3] == signature[:3] and self.archive.living


def _statuses(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """The files and folders in a folder; a FIFO or a device is never opened, not even to recognise it."""
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                status = entry.stat()
            except OSError:  # a link that leads nowhere, or gone already
                continue
            if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
                yield entry.name, status


def _signature(status: os.stat_result) -> tuple[int, ...]:
    kind = stat.S_IFMT(status.st_mode)
    return (kind, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class _FolderDirectory(Directory):
    def __init__(self, tree: FolderTree) -> None:
        self.tree: FolderTree = tree
        self.ident = ROOT_IDENT

    def attributes(self) -> Attributes:
        self.tree.archives()
        return Attributes(mtime_ns=self.tree.mtime_ns)

    def child(self, name: str) -> Node:
        archive = self.tree.archives().get(name)
        if archive is None:
            raise NotFound(member=name)
        return archive.root()

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        for name, archive in self.tree.archives().items():
            if after is None or name > after:
                # No ident: it would be read as one of this tree's, and the node belongs to another.
                yield Entry(name, Kind.DIRECTORY, node=archive.root())


class ArchiveTree(Tree):
    """One archive of a folder, opened when its root is looked into; the rest are nodes of the tree that is opened.

    Its own root stands in for that tree's root, whose ident is the same, so both can go by one number: the
    opened tree is ``known_as`` this one, and ``node`` leads back through it, however often it is opened.
    """

    immutable = False  # its name may be given to another archive at any time
    leads_back = True
    living: bool
    """Does it notice its own changes?  A folder does, and so does a tree that says so once it is opened."""

    def __init__(self, folder: FolderTree, opener: Opener, *, path: str, mtime_ns: int, living: bool) -> None:
        self.path = path
        self.mtime_ns = mtime_ns
        self.living = living
        self._folder = folder
        self._opener = opener
        self._root = _ArchiveDirectory(self)
        self._lock = threading.Lock()
        self._tree: weakref.ref[Tree] | None = None
        self._failure: ArchiveError | None = None
        self._failed_at = 0.0

    def root(self) -> Directory:
        return self._root

    def node(self, ident: int) -> Node:
        return self._root if ident == ROOT_IDENT else self.opened().node(ident)

    def generation(self) -> int:
        tree = self._tree() if self._tree else None
        return tree.generation() if tree else 0

    def usage(self) -> Usage:
        return self.opened().usage()

    def extras(self) -> Mapping[str, Callable[[], Reader]]:
        # Through opened() again, so that whoever keeps these does not keep the archive open.
        return {name: self._opener_of(name) for name in self.opened().extras()}

    def _opener_of(self, name: str) -> Callable[[], Reader]:
        return lambda: self.opened().extras()[name]()

    def facts(self) -> Mapping[str, object]:
        return self.opened().facts()

    def close(self) -> None:
        """The folder closes the archive; nothing is held here."""

    def opened(self) -> Tree:
        """The archive, opened if it is not; raises what its format raises."""
        with self._lock:
            tree = self._tree() if self._tree else None
            if tree is None:
                tree = self._open()
        self._folder.keep(self, tree)
        return tree

    def _open(self) -> Tree:
        if self._folder.closed:
            raise StaleNode
        if self._failure is not None and time.monotonic() < self._failed_at + RETRY_S:
            raise self._failure.with_traceback(None)
        try:
            tree = self._opener()
        except ArchiveError as error:
            if not os.path.lexists(self.path):
                # Removed since the folder was last looked through: that is no damage, it is gone.
                raise StaleNode(archive=self.path) from error
            error.archive = error.archive or self.path
            self._failure, self._failed_at = error, time.monotonic()
            raise
        self._failure = None
        tree.known_as = self
        self._folder.watch_over(tree)
        self.living = self.living or not tree.immutable
        self._tree = weakref.ref(tree)
        return tree


class _ArchiveDirectory(Directory):
    """Stands in for the root of an archive that may not be open."""

    def __init__(self, tree: ArchiveTree) -> None:
        self.tree: ArchiveTree = tree
        self.ident = ROOT_IDENT

    def attributes(self) -> Attributes:
        return Attributes(mtime_ns=self.tree.mtime_ns)

    def child(self, name: str) -> Node:
        return self.tree.opened().root().child(name)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        return self.tree.opened().root().entries(after)
