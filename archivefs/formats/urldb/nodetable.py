"""The nodes that somebody holds, by what they stand for: a rename changes a node in place, under its number.

Idents are digests of what the node stands for, so they are the same at every mount; should two meet, or a renamed
node hold the number of its old name, the next free one is taken.  Threading: one lock guards the tables.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from typing import TYPE_CHECKING, TypeVar

from archivefs.tree import MAX_IDENT, ROOT_IDENT, Node

if TYPE_CHECKING:
    from archivefs.formats.urldb.tree import UrldbTree

Key = tuple[str, ...]
"""("record", domain, path), ("meta", domain), ("raw", domain), ("errors", domain), ("alias", name),
("scratch", domain, prefix, name), ("dir", domain, prefix), ("rawdir",) or ("root",)."""


class KeyedNode(Node):
    """A node that knows what it stands for."""

    __slots__ = ("__weakref__", "changes", "dropped", "ident", "key", "removed", "tree")

    tree: UrldbTree

    def __init__(self, tree: UrldbTree, key: Key, ident: int) -> None:
        self.tree = tree
        self.key = key
        self.ident = ident
        self.changes = 0
        """How often it was written, so that pages the kernel has of it are not kept."""
        self.removed = False
        self.dropped = False
        """Created, and never anything that could be stored."""


N = TypeVar("N", bound=KeyedNode)


class NodeTable:
    """Every node that is alive."""

    def __init__(self, tree: UrldbTree) -> None:
        self._tree = tree
        self._lock = threading.Lock()
        self._by_key: weakref.WeakValueDictionary[Key, KeyedNode] = weakref.WeakValueDictionary()
        self._by_ident: weakref.WeakValueDictionary[int, KeyedNode] = weakref.WeakValueDictionary()

    def get(self, key: Key, cls: type[N]) -> N:
        """The node for *key*, made if nobody holds one."""
        with self._lock:
            found = self._by_key.get(key)
            if isinstance(found, cls):
                return found
            node = cls(self._tree, key, self._free_ident(key))
            self._by_key[key] = node
            self._by_ident[node.ident] = node
            return node

    def alive(self, key: Key) -> KeyedNode | None:
        """The node for *key*, if somebody holds it."""
        return self._by_key.get(key)

    def removed(self, key: Key) -> None:
        """What *key* stood for is gone; whoever has it open keeps it."""
        with self._lock:
            node = self._by_key.pop(key, None)
            if node is not None:
                node.removed = True

    def adopt(self, node: KeyedNode) -> None:
        """It stands for its key again."""
        with self._lock:
            node.removed = node.dropped = False
            self._by_key[node.key] = node

    def moved(self, key: Key, to: Key) -> None:
        """What *key* stood for is *to* now."""
        if key == to:
            return
        self.removed(to)
        with self._lock:
            node = self._by_key.pop(key, None)
            if node is not None:
                node.key = to
                node.changes += 1
                self._by_key[to] = node

    def moved_below(self, domain: str, prefix: str, to: str) -> None:
        """A directory was renamed, and with it all that is in it."""
        with self._lock:
            held = [key for key in self._by_key if len(key) > 2 and key[1] == domain and key[2].startswith(prefix)]
        for key in held:
            self.moved(key, (key[0], domain, to + key[2][len(prefix) :], *key[3:]))

    def _free_ident(self, key: Key) -> int:
        if key == ("root",):
            return ROOT_IDENT
        digest = hashlib.blake2b("\0".join(key).encode("utf-8", "surrogatepass"), digest_size=6).digest()
        ident = int.from_bytes(digest, "big")
        while not ROOT_IDENT < ident < MAX_IDENT or ident in self._by_ident:
            ident = ident + 1 if ident < MAX_IDENT - 1 else ROOT_IDENT + 1
        return ident
