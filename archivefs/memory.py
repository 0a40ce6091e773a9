"""MemoryTree: the smallest honest Tree.  The example in the docs, the double in tests.

A nested dict is the tree: a ``dict`` is a directory, ``bytes`` a file, ``str`` a symbolic link.

>>> tree = MemoryTree({"a": {"hello.txt": b"hello"}, "link": "a/hello.txt"})
>>> tree.lookup(("a", "hello.txt")).open().read_at(0, 100)
b'hello'
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Union

from archivefs.errors import NotFound
from archivefs.readers import BytesReader
from archivefs.tree import ROOT_IDENT, Attributes, Directory, Entry, File, Node, Reader, Symlink, Tree, Usage

Content = Union[bytes, str, "Mapping[str, Content]"]


class MemoryTree(Tree):
    """A tree made of a nested dict; never changes, so it needs no lock."""

    leads_back = True

    def __init__(
        self,
        content: Mapping[str, Content],
        *,
        mtime_ns: int = 0,
        xattrs: Mapping[str, bytes] | None = None,
        extras: Mapping[str, bytes] | None = None,
    ) -> None:
        self.mtime_ns = mtime_ns
        self.common_xattrs = dict(xattrs or {})
        self._extras = dict(extras or {})
        self._nodes: list[Node] = []
        self._root = _MemoryDirectory(self, content)

    def root(self) -> Directory:
        return self._root

    def node(self, ident: int) -> Node:
        if not ROOT_IDENT <= ident <= len(self._nodes):
            raise NotFound
        return self._nodes[ident - 1]

    def usage(self) -> Usage:
        return Usage(size=sum(node.attributes().size for node in self._nodes), files=len(self._nodes))

    def extras(self) -> Mapping[str, Callable[[], Reader]]:
        return {name: (lambda data=data: BytesReader(data)) for name, data in self._extras.items()}  # type: ignore[misc]

    def close(self) -> None:
        """Nothing is held."""

    def _add(self, node: Node) -> int:
        self._nodes.append(node)
        return len(self._nodes)


class _MemoryDirectory(Directory):
    def __init__(self, tree: MemoryTree, content: Mapping[str, Content]) -> None:
        self.tree: MemoryTree = tree
        self.ident = tree._add(self)
        self._children = {name: _node(tree, content[name]) for name in sorted(content)}
        self._names = list(self._children)

    def attributes(self) -> Attributes:
        return Attributes(0, self.tree.mtime_ns)

    def xattrs(self) -> Mapping[str, bytes]:
        return self.tree.common_xattrs

    def child(self, name: str) -> Node:
        try:
            return self._children[name]
        except KeyError:
            raise NotFound(member=name) from None

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        start = 0 if after is None else bisect_right(self._names, after)
        for name in self._names[start:]:
            node = self._children[name]
            yield Entry(name, node.kind, node.ident, node)


class _MemoryFile(File):
    sure = True

    def __init__(self, tree: MemoryTree, data: bytes) -> None:
        self.tree: MemoryTree = tree
        self.ident = tree._add(self)
        self._data = data

    def attributes(self) -> Attributes:
        return Attributes(len(self._data), self.tree.mtime_ns)

    def xattrs(self) -> Mapping[str, bytes]:
        return self.tree.common_xattrs

    def open(self) -> Reader:
        return BytesReader(self._data, mtime_ns=self.tree.mtime_ns)


class _MemorySymlink(Symlink):
    def __init__(self, tree: MemoryTree, target: str) -> None:
        self.tree: MemoryTree = tree
        self.ident = tree._add(self)
        self._target = target

    def attributes(self) -> Attributes:
        return Attributes(len(self._target.encode()), self.tree.mtime_ns)

    def target(self) -> str:
        return self._target


def _node(tree: MemoryTree, content: Content) -> Node:
    if isinstance(content, bytes):
        return _MemoryFile(tree, content)
    if isinstance(content, str):
        return _MemorySymlink(tree, content)
    return _MemoryDirectory(tree, content)
