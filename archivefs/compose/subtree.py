"""SubTree: a directory of a tree, shown as if it were the root (``--subdir``).

Threading: nothing changes after it is made, so there is nothing to guard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from archivefs.errors import DirectoryExpected
from archivefs.tree import Directory, Node, Parts, Reader, Tree, Usage, is_root


class SubTree(Tree):
    """A directory of *inner* shown as the root; raises NotFound or DirectoryExpected if it is none.

    The root is the inner node itself, so its ident is not ROOT_IDENT.  The tree it belongs to is told where
    it begins (``top``), so that no symbolic link leads above it.
    """

    def __init__(self, inner: Tree, parts: Sequence[str]) -> None:
        self.inner = inner
        self.immutable = inner.immutable
        self.writable = inner.writable
        self.open_needed = inner.open_needed
        self.leads_back = inner.leads_back
        self.commit_idle_s = inner.commit_idle_s
        self._root, below = _descend(inner, parts)
        self._root.tree.top = self._root.tree.top + below

    def root(self) -> Directory:
        return self._root

    def node(self, ident: int) -> Node:
        return self.inner.node(ident)

    def generation(self) -> int:
        return self.inner.generation()

    def usage(self) -> Usage:
        return self.inner.usage()

    def extras(self) -> Mapping[str, Callable[[], Reader]]:
        return self._root.tree.extras()

    def facts(self) -> Mapping[str, object]:
        return self.inner.facts()

    def savers(self) -> Mapping[str, Callable[[bytes], None]]:
        return self._root.tree.savers()

    def pending(self) -> Iterator[tuple[str, Parts]]:
        return self.inner.pending()

    def commit(self, progress: Callable[[int, int], None]) -> None:
        self.inner.commit(progress)

    def discard_changes(self) -> None:
        self.inner.discard_changes()

    def idle_s(self) -> float:
        return self.inner.idle_s()

    def sync(self) -> None:
        self.inner.sync()

    def close(self) -> None:
        self.inner.close()


def _descend(tree: Tree, parts: Sequence[str]) -> tuple[Directory, Parts]:
    """The directory at *parts*, and the part of the path that lies in the tree it belongs to."""
    directory = tree.root()
    below: Parts = ()
    for name in parts:
        node = directory.child(name)
        if not isinstance(node, Directory):
            raise DirectoryExpected(member="/".join(parts))
        # Where another tree begins, its root may have been stood in for.
        inside = (*below, name) if node.tree is directory.tree else (name,)
        below = () if is_root(node) else inside
        directory = node
    return directory, below
