"""The driver: nodes to answers.  It knows no transport.

fusepy asks by path and the kernel by inode; both find a node and then come here.  Every operation goes
through :meth:`Driver.answer`, so that there is one place where errors become errnos, are counted and
are logged.

Threading: every method may be called from any thread; no lock is held while a tree is asked.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, ParamSpec, TypeVar

from archivefs import __version__
from archivefs.caches import ByteCache
from archivefs.errors import (
    ArchiveError,
    AttributeMissing,
    DirectoryExpected,
    FileExpected,
    LimitExceeded,
    NotFound,
    OperationTimedOut,
    StaleNode,
    SymlinkExpected,
    quoted,
    reason,
)
from archivefs.fuse.committing import Committer
from archivefs.fuse.control import CONTROL_NAME, ControlTree
from archivefs.fuse.errnos import EXPECTED, to_errno
from archivefs.fuse.handles import Directories, OpenFiles
from archivefs.fuse.options import MountOptions
from archivefs.fuse.probes import MissingProbes, is_probe
from archivefs.fuse.problems import ProblemLog, Repeats, again
from archivefs.readers import BytesReader
from archivefs.tree import Attributes, Directory, Entry, File, Kind, Node, Reader, Symlink, Tree, Usage, is_root

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger("archivefs.fuse")

ROOT_INODE = 1
UNKNOWN_INODE = 0xFFFFFFFF
"""What the kernel takes for "not known" in a listing."""
TREE_SHIFT = 48
MAX_TREES = (1 << 16) - 1
"""The number after it is left to the transports, for inodes of their own."""
IMMUTABLE_LIFETIME_S = 86400.0
LIVING_LIFETIME_S = 1.0
VERSIONS_KEPT = 10_000


class Stat(NamedTuple):
    """What a transport tells the kernel of a node; owner and block size are the same for all."""

    inode: int
    mode: int
    size: int
    mtime_ns: int


class Opened(NamedTuple):
    """An opened file: its handle, and what the kernel may do with its pages."""

    handle: int
    keep_cache: bool
    direct: bool
    settled: bool = True
    """False: it has changed so lately that the kernel may still have its earlier size."""


class Driver:
    """One mount: a tree, its options, its open files, its counters."""

    def __init__(self, tree: Tree, options: MountOptions, cache: ByteCache) -> None:
        self.tree = tree
        self.options = options
        self.cache = cache
        self.root = tree.root()
        self.files = OpenFiles()
        self.directories = Directories()
        self.counts: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.started = time.monotonic()
        self.kept_s = min(IMMUTABLE_LIFETIME_S, options.idle_s / 2 or IMMUTABLE_LIFETIME_S)
        """The longest that the kernel may keep an answer: with ``-o idle``, whoever uses the mount has to be seen."""
        self.transport = ""
        self.leaving = False
        """The mount is being taken down: what is refused because of that is nothing for the log."""
        self.problems = ProblemLog()
        self.committer = Committer(tree, self.files.sync_all)
        self._lock = threading.Lock()
        self._trees: list[weakref.ref[Tree]] = []
        self._numbers: weakref.WeakKeyDictionary[Tree, int] = weakref.WeakKeyDictionary()
        self._controls: weakref.WeakKeyDictionary[Tree, ControlTree] = weakref.WeakKeyDictionary()
        self.modes_set: dict[int, int] = {}
        """Modes that were set by chmod, by inode."""
        self._versions: dict[int, tuple[int, float]] = {}
        self._repeats = Repeats()
        self._missing = MissingProbes()
        self._main = self.root.tree
        self._last_base: tuple[Tree, int] = (self._main, 0)
        """Most questions are about the tree that the last one was about."""
        self._number(self._main)
        write = 0o222 if options.read_write else 0
        self._modes = {
            Kind.DIRECTORY: Kind.DIRECTORY << 12 | (0o555 | write & 0o200) & ~options.dmask,
            Kind.FILE: Kind.FILE << 12 | (0o444 | write & 0o200) & ~options.fmask,
            Kind.SYMLINK: Kind.SYMLINK << 12 | 0o777,
        }

    # -- the way every operation goes --

    def answer(self, name: str, operation: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of *operation*; whatever it raises becomes an OSError with the errno of our one table."""
        self.counts[name] += 1
        try:
            return operation(*args, **kwargs)
        except Exception as error:
            raise OSError(self.explain(name, error), name) from None

    def explain(self, name: str, error: BaseException) -> int:
        """The errno for *error*; what is not part of ordinary life is counted and logged, once a minute each."""
        number = to_errno(error)
        if number in EXPECTED and isinstance(error, ArchiveError):
            return number
        if self.leaving and isinstance(error, OperationTimedOut):
            return number
        self.failures[errno.errorcode.get(number, str(number))] += 1
        known = isinstance(error, (ArchiveError, OSError, MemoryError))
        text = f"{name}: {reason(error)}" if known else f"{name}: {type(error).__name__}: {error} (a bug in archivefs)"
        times = self._repeats.met(text)
        if times is not None:
            log.error("%s%s", quoted(text), again(times), exc_info=error if not known else None)
        return number

    # -- identity --

    def inode(self, node: Node) -> int:
        """The number the kernel knows *node* by: the ident, and above it the number of its tree."""
        root = self.root
        if node.ident == root.ident and node.tree is root.tree:
            return ROOT_INODE
        return self.base(node.tree) | node.ident

    def entry_inode(self, directory: Directory, entry: Entry) -> int:
        """The inode of a line in a listing of *directory*; UNKNOWN_INODE where only a look-up would tell."""
        if entry.node is not None:
            return self.inode(entry.node)
        return self.base(directory.tree) | entry.ident if entry.ident else UNKNOWN_INODE

    def base(self, tree: Tree) -> int:
        """What is added to the idents of *tree* to make inodes."""
        if tree is self._main:
            return 0
        if tree.known_as is not None:
            tree = tree.known_as
        last, base = self._last_base
        if tree is not last:
            base = self._number(tree) << TREE_SHIFT
            self._last_base = (tree, base)
        return base

    def node_of(self, inode: int) -> Node:
        """The node with that inode, where its tree leads back; raises StaleNode if it is gone."""
        if inode == ROOT_INODE:
            return self.root
        number = inode >> TREE_SHIFT
        tree = self._trees[number]() if number < len(self._trees) else None
        if tree is None:
            raise StaleNode
        try:
            return tree.node(inode & (1 << TREE_SHIFT) - 1)
        except NotFound:
            raise StaleNode from None

    def _number(self, tree: Tree) -> int:
        number = self._numbers.get(tree)
        if number is None:
            with self._lock:
                number = self._numbers.get(tree)
                if number is None:
                    number = len(self._trees)
                    if number >= MAX_TREES:
                        raise LimitExceeded(f"more than {MAX_TREES} archives were opened in one mount")
                    self._trees.append(weakref.ref(tree))
                    self._numbers[tree] = number
        return number

    def lifetime_s(self, node: Node) -> float:
        """How long the kernel may keep what it is told about *node*."""
        tree = node.tree
        if tree.immutable:
            return self.kept_s
        return 0.0 if isinstance(tree, ControlTree) else min(LIVING_LIFETIME_S, self.kept_s)

    # -- looking --

    def lookup(self, directory: Node, name: str) -> Node:
        """The node called *name* in *directory*; raises NotFound or DirectoryExpected."""
        if not isinstance(directory, Directory):
            raise DirectoryExpected(member=name)
        if name == CONTROL_NAME and (is_root(directory) or directory is self.root):
            control = self.control_of(directory)
            if control is not None:
                return control.root()
        if is_probe(name) and not self.options.read_write and not isinstance(directory.tree, ControlTree):
            return self._probed(directory, name)
        return directory.child(name)

    def _probed(self, directory: Directory, name: str) -> Node:
        if self._missing.has(directory, name):
            raise NotFound(member=name)
        generation = self._missing.generation(directory.tree)
        try:
            return directory.child(name)
        except NotFound:
            self._missing.add(directory, name, generation=generation)
            raise

    def resolve(self, parts: Sequence[str]) -> Node:
        """The node at a path from the root of the mount."""
        node: Node = self.root
        for name in parts:
            node = self.lookup(node, name)
        return node

    def control_of(self, directory: Directory) -> ControlTree | None:
        """The ``.archivefs/`` of the tree whose root this is; None where there would be nothing in it."""
        tree = directory.tree
        if isinstance(tree, ControlTree):
            return None
        control = self._controls.get(tree)
        if control is None:
            made = self._new_control(tree, is_mount=self.inode(directory) == ROOT_INODE)
            with self._lock:
                control = self._controls.setdefault(tree, made)
        return control if control.names else None

    def _new_control(self, tree: Tree, *, is_mount: bool) -> ControlTree:
        openers = dict(tree.extras())
        savers = dict(tree.savers()) if self.options.read_write else {}
        if is_mount:
            openers |= {"status.json": self._status_reader, "errors.log": self._problems_reader}
        if is_mount and self.options.read_write:
            openers |= {"pending": self._pending_reader, "control": lambda: BytesReader(b"")}
            savers["control"] = lambda data: self.committer.command(data.decode("utf-8", "replace").strip())
        return ControlTree(openers, savers)

    def _pending_reader(self) -> Reader:
        lines = (f"{what} {quoted('/'.join(parts))}\n" for what, parts in self.tree.pending())
        return BytesReader("".join(lines).encode("utf-8", "backslashreplace"))

    def _status_reader(self) -> Reader:
        return BytesReader(json.dumps(self.status(), indent=1).encode() + b"\n")

    def _problems_reader(self) -> Reader:
        return BytesReader(self.problems.text())

    def status(self) -> dict[str, object]:
        """What ``status.json`` says."""
        options = self.options
        return {
            "version": __version__,
            "format": options.format,
            "source": options.source,
            "options": options.shown,
            "mode": "rw" if options.read_write else "ro",
            "transport": self.transport,
            "pid": os.getpid(),
            "generation": self.tree.generation(),
            "uptime_s": round(time.monotonic() - self.started, 3),
            "cache": self.cache.status()._asdict(),
            "open_files": len(self.files),
            "operations": dict(sorted(self.counts.items())),
            "failures": dict(sorted(self.failures.items())),
            "problems": self.problems.total,
            **({"commit": self.committer.status()} if options.read_write else {}),
        }

    def attributes(self, node: Node) -> tuple[Attributes, bool]:
        """What ``stat`` shows of *node*, and whether that may be kept.

        Of a file that was changed while it is open: what fits the bytes that are read, until it is closed.
        """
        attributes = node.attributes()
        if node.tree.immutable or node.kind is not Kind.FILE:
            return attributes, True
        file = self.files.by_inode(self.inode(node))
        shown = file.shown() if file is not None else None
        return (attributes, True) if shown is None else (shown, shown == attributes)

    def stat(self, node: Node) -> Stat:
        """What ``stat`` shows."""
        attributes, _ = self.attributes(node)
        inode = self.inode(node)
        mode = self.modes_set.get(inode) or self._modes[node.kind]
        return Stat(inode, mode, attributes.size, attributes.mtime_ns)

    def set_mode(self, node: Node, mode: int) -> None:
        """Show other permission bits from now on: chmod on a read-write mount, kept until unmount."""
        self.modes_set[self.inode(node)] = node.kind << 12 | mode

    def mode(self, kind: Kind) -> int:
        """Type and permission bits of everything of that kind."""
        return self._modes[kind]

    def readlink(self, node: Node) -> bytes:
        """The target of a symbolic link."""
        if not isinstance(node, Symlink):
            raise SymlinkExpected
        return os.fsencode(node.target())

    def xattr(self, node: Node, name: str) -> bytes:
        """One attribute; names outside ``user.`` are answered without touching the archive."""
        if not name.startswith("user."):
            raise AttributeMissing
        try:
            return node.xattrs()[name]
        except KeyError:
            raise AttributeMissing from None

    def xattr_names(self, node: Node) -> bytes:
        """All attribute names, each followed by NUL; none of a link, whose ``user.`` ones Linux lets nobody read."""
        if node.kind is Kind.SYMLINK:
            return b""
        return b"".join(name.encode() + b"\0" for name in node.xattrs())

    def usage(self) -> Usage:
        """For ``statfs``."""
        return self.tree.usage()

    # -- reading --

    def open(self, node: Node) -> Opened:
        """Open a file."""
        if not isinstance(node, File):
            raise FileExpected
        inode = self.inode(node)
        seen = None if node.tree.immutable else node.attributes()
        handle = self.files.open(inode, node, seen)
        if node.volatile or self.files.by_inode(inode) is not self.files.get(handle):
            return Opened(handle, keep_cache=False, direct=True)
        if seen is None:
            return Opened(handle, keep_cache=True, direct=False)
        known_s = self._known_for(inode, hash(seen))
        return Opened(handle, keep_cache=known_s > 0, direct=False, settled=known_s > LIVING_LIFETIME_S)

    def _known_for(self, inode: int, version: int) -> float:
        """For how long this version of a file has been opened; 0.0 at its first open, whose pages cannot be kept."""
        now = time.monotonic()
        with self._lock:
            last, since = self._versions.get(inode, (0, now))
            if last == version:
                return max(now - since, 1e-9)
            if len(self._versions) >= VERSIONS_KEPT:
                self._versions.clear()
            self._versions[inode] = (version, now)
        return 0.0

    def read(self, handle: int, offset: int, size: int) -> bytes:
        """Bytes of an open file.  One that is known to hang is failed at once, since the kernel asks twice."""
        file = self.files.get(handle)
        if file.stuck:
            raise OperationTimedOut(f"a read of inode {file.inode} is still waiting")
        try:
            return file.reader.read_at(offset, size)
        finally:
            file.stuck = False

    def mark_stuck(self, handle: int) -> None:
        """A read of this file did not come back in time: fail others at once until it does."""
        self.files.get(handle).stuck = True

    def opendir(self, node: Node) -> int:
        """Open a directory."""
        if not isinstance(node, Directory):
            raise DirectoryExpected
        return self.directories.open(node)

    # -- the end --

    @property
    def busy(self) -> bool:
        """Something is under way that takes long and for which requests rightly wait."""
        return self.committer.running

    def finish(self) -> None:
        """The mount is gone: finish the files that are open and commit; raises when changes stay pending."""
        self.committer.stop()
        self.files.close_all()
        if self.options.read_write:
            self.committer.commit()

    def close(self) -> None:
        """Close what is open, then the tree."""
        for line in self._repeats.untold():
            log.error("%s", quoted(line))
        self.files.close_all()
        self.tree.close()
