"""From the kernel's node numbers to nodes and back, with the kernel's count of each.

Where a tree leads back, the number alone finds the node and nothing is kept.  Of other trees (parent, name) is kept
from the first look-up to the last FORGET, which is asked for when there are too many (``pruning.py``).  A file that is
made anew at each open gets a number of its own at each look-up where the kernel does not tell us of opens, so that
what one client reads cannot change under it.

Threading: one lock, never held while a tree is asked.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Container, Mapping

from archivefs.errors import NotFound, StaleNode
from archivefs.fuse.driver import MAX_TREES, TREE_SHIFT, Driver
from archivefs.tree import Attributes, File, Kind, Node, Reader

FIRST_SNAPSHOT = MAX_TREES << TREE_SHIFT
"""Numbers from here on belong to no tree."""
RECENT_NODES = 1000
BYTES_A_NAME = 640
"""Of the cache's size: as many names are kept as come to about half of it (measured: 300 bytes each)."""
FEWEST_NAMES = 10_000


class Known:
    """What is kept of a node of a tree that does not lead back."""

    __slots__ = ("count", "leaf", "name", "node", "nodeid", "parent")

    def __init__(self, nodeid: int, parent: Known | int, name: str, node: Node | None = None, *, leaf: bool) -> None:
        self.nodeid = nodeid
        self.parent = parent
        """The number suffices for a parent that leads back.  Any other is held, so that it outlives its FORGET."""
        self.name = name
        self.node = node
        """The node itself, where the tree can be changed: it stays what it is when its name becomes another's."""
        self.leaf = leaf
        self.count = 1


class Inodes:
    """The numbers the kernel holds."""

    def __init__(self, driver: Driver, *, snapshots: bool = False) -> None:
        self._driver = driver
        self._snapshots = snapshots
        self._lock = threading.Lock()
        self._known: dict[int, Known] = {}
        self._taken: dict[int, Snapshot] = {}
        self._serial = itertools.count(FIRST_SNAPSHOT)
        self.limit = max(FEWEST_NAMES, driver.cache.limit // BYTES_A_NAME)
        """How many names of trees that do not lead back are kept without asking the kernel to forget some."""
        self.crowded = threading.Event()
        """Set when there are more."""
        self._recent: dict[int, Node] = {}
        """Nodes resolved by name not long ago; dropped when the tree has changed."""

    # -- from number to node --

    def node(self, nodeid: int) -> Node:
        """The node with that number; raises StaleNode when it is gone."""
        known = self._known.get(nodeid)
        if known is not None:
            return known.node or self._resolve(known)
        if nodeid >= FIRST_SNAPSHOT:
            return self.snapshot(nodeid)
        return self._driver.node_of(nodeid)

    def snapshot(self, nodeid: int) -> Snapshot:
        """The content that was fixed under that number; raises StaleNode."""
        try:
            return self._taken[nodeid]
        except KeyError:
            raise StaleNode from None

    def _resolve(self, known: Known) -> Node:
        """Walk down from the nearest directory at hand.  Not recursive: paths may be thousands of names long."""
        chain: list[Known] = []
        step: Known | int = known
        while isinstance(step, Known):
            recent = self._recent.get(step.nodeid)
            if recent is not None:
                break
            chain.append(step)
            step = step.parent
        node = self._recent.get(step.nodeid) if isinstance(step, Known) else self._driver.node_of(step)
        if node is None:
            raise StaleNode
        for step in reversed(chain):
            node = self._child(node, step)
        return node

    def _child(self, parent: Node, known: Known) -> Node:
        try:
            node = self._driver.lookup(parent, known.name)
        except NotFound:
            raise StaleNode(member=known.name) from None
        if self._driver.inode(node) != known.nodeid:
            raise StaleNode(member=known.name)
        self._remember(known.nodeid, node)
        return node

    def _remember(self, nodeid: int, node: Node) -> None:
        with self._lock:
            self._recent[nodeid] = node
            if len(self._recent) > RECENT_NODES:
                del self._recent[next(iter(self._recent))]

    def drop_recent(self) -> None:
        """The tree has changed: names may lead elsewhere now."""
        with self._lock:
            self._recent.clear()

    # -- from node to number --

    def hand_out(self, node: Node, parent: int, name: str) -> int:
        """The number of *node* for a reply; the kernel counts each."""
        if node.tree.leads_back:
            if self._snapshots and isinstance(node, File) and node.volatile:
                return self._new_snapshot(node)
            return self._driver.inode(node)
        return self._new_known(node, parent, name)

    def _new_known(self, node: Node, parent: int, name: str) -> int:
        nodeid = self._driver.inode(node)
        with self._lock:
            known = self._known.get(nodeid)
            if known is not None:
                known.count += 1
                # It may have been moved: the name it was found by last is the one to find it by.
                known.parent, known.name = self._known.get(parent, parent), name
            else:
                kept = node if node.tree.writable else None
                leaf = node.kind != Kind.DIRECTORY
                self._known[nodeid] = Known(nodeid, self._known.get(parent, parent), name, kept, leaf=leaf)
                if len(self._known) > self.limit:
                    self.crowded.set()
        return nodeid

    def _new_snapshot(self, node: File) -> int:
        snapshot = Snapshot(node)
        nodeid = next(self._serial)
        self._taken[nodeid] = snapshot
        return nodeid

    def forget(self, nodeid: int, count: int) -> None:
        """The kernel gives back *count* of what was handed out."""
        if nodeid >= FIRST_SNAPSHOT:
            snapshot = self._taken.pop(nodeid, None)
            if snapshot is not None:
                snapshot.reader.close()
        elif self._known:
            with self._lock:
                known = self._known.get(nodeid)
                if known is not None:
                    known.count -= count
                    if known.count <= 0:
                        del self._known[nodeid]
                        self._recent.pop(nodeid, None)

    @property
    def empty(self) -> bool:
        """Is nothing kept, so that FORGET need not be read?"""
        return not self._known and not self._taken

    def names(self, limit: int) -> list[tuple[int, str]]:
        """Up to *limit* of the (parent, name) that are kept."""
        with self._lock:
            chosen = list(itertools.islice(self._known.values(), limit))
        return [_place(known) for known in chosen]

    def oldest(self, limit: int, *, but: Container[int] = ()) -> list[tuple[int, str]]:
        """Up to *limit* (parent, name) of what was handed out first; they become the newest.

        Only of what is no directory, since somebody may be inside, that cannot be changed, since what has lost its
        name is found by number alone, and whose number is not in *but*.
        """
        with self._lock:
            seen = list(itertools.islice(self._known.items(), limit))
            for nodeid, known in seen:
                del self._known[nodeid]
                self._known[nodeid] = known
        return [_place(known) for nodeid, known in seen if known.leaf and known.node is None and nodeid not in but]

    def __len__(self) -> int:
        return len(self._known) + len(self._taken)


def _place(known: Known) -> tuple[int, str]:
    return known.parent if isinstance(known.parent, int) else known.parent.nodeid, known.name


class Snapshot(File):
    """The content of a volatile file as it was at one look-up."""

    volatile = True

    def __init__(self, node: File) -> None:
        self.tree = node.tree
        self.ident = node.ident
        self.reader = node.open()
        self._node = node

    def attributes(self) -> Attributes:
        return self.reader.attributes()

    def xattrs(self) -> Mapping[str, bytes]:
        return self._node.xattrs()

    def open(self) -> Reader:
        return _Lent(self.reader)


class _Lent(Reader):
    """A reader that stays open when it is closed: its owner closes it."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def read_at(self, offset: int, size: int) -> bytes:
        return self._reader.read_at(offset, size)

    def attributes(self) -> Attributes:
        return self._reader.attributes()

    def close(self) -> None:
        """Left to the snapshot."""
