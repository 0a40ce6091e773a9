"""The kinds of nodes a tree of crawls is made of.

All of them are of the kind that can be changed, because on a read-write mount what is not allowed is "not permitted",
and times may be set and are kept until unmount; on a read-only one every change is refused as that.  Nodes are made
when asked for and hold what they were made of, so that they need no lock.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, Union

from archivefs.errors import ArchiveError, NotFound, NotPermitted, SourceChanged, StaleNode, TreeReadOnly
from archivefs.formats.crawls.archive import CrawlArchive, Folder
from archivefs.formats.crawls.products import Product
from archivefs.formats.crawls.storage import State, open_regular
from archivefs.tree import (
    Attributes,
    Changeable,
    Directory,
    Entry,
    Kind,
    Node,
    Reader,
    Symlink,
    WritableDirectory,
    WritableFile,
    Writer,
)
from archivefs.zips.source import SourceFile

if TYPE_CHECKING:
    from archivefs.formats.crawls.idents import KnownTree

Key = tuple[object, ...]
"""What a node is, from which its ident is made."""
NANO = 10**9


class Kept(Changeable):
    """What all nodes share: whose they are, who they are, and when they were changed."""

    __slots__ = ("_mtime_ns", "ident", "key", "tree")

    def __init__(self, tree: KnownTree, key: Key, mtime_ns: int) -> None:
        self.tree: KnownTree = tree
        self.key = key
        self.ident = tree.ident(key)
        self._mtime_ns = mtime_ns

    @property
    def mtime_ns(self) -> int:
        """The time that was set, or the one it has."""
        return self.tree.times.get(self.ident, self._mtime_ns)

    def set_times(self, *, mtime_ns: int) -> None:
        if not self.tree.writable:
            raise TreeReadOnly
        self.tree.times[self.ident] = mtime_ns

    def refuse(self) -> NoReturn:
        """Whatever the spec does not allow."""
        raise NotPermitted if self.tree.writable else TreeReadOnly


# -- directories --


class KeptDirectory(Kept, WritableDirectory):
    """A directory in which nothing can be changed, unless a subclass says so."""

    __slots__ = ()

    def attributes(self) -> Attributes:
        return Attributes(0, self.mtime_ns)

    def create(self, name: str, *, exclusive: bool) -> WritableFile:
        self.refuse()

    def make_directory(self, name: str) -> Directory:
        self.refuse()

    def make_symlink(self, name: str, target: str) -> Symlink:
        self.refuse()

    def remove(self, name: str, *, kind: Kind) -> None:
        self.child(name)
        self.refuse()

    def rename(self, name: str, to: Directory, to_name: str, *, replace: bool) -> None:
        self.child(name)
        self.refuse()


class ListDirectory(KeptDirectory):
    """A directory whose names are a list, in an order that follows from the names alone."""

    __slots__ = ()
    inner = Kind.DIRECTORY
    """What all of its children are."""
    newest_first = True

    @abstractmethod
    def names(self) -> Sequence[str]:
        """What is listed, in order."""

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        for name in self.names():
            if after is None or self._follows(name, after):
                yield self.entry(name)

    def entry(self, name: str) -> Entry:
        """A line of the listing."""
        return Entry(name, self.inner)

    def _follows(self, name: str, after: str) -> bool:
        return name < after if self.newest_first else name > after


class FixedDirectory(KeptDirectory):
    """A directory with few children that are always the same."""

    __slots__ = ("_children",)

    def __init__(self, tree: KnownTree, key: Key, mtime_ns: int, children: Mapping[str, Callable[[], Node]]) -> None:
        super().__init__(tree, key, mtime_ns)
        self._children = children

    def child(self, name: str) -> Node:
        if name not in self._children:
            raise NotFound(member=name)
        return self._children[name]()

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        names = list(self._children)
        for name in names[names.index(after) + 1 if after is not None and after in names else 0 :]:
            yield Entry(name, self._children[name]().kind)


Built = dict[str, Union[Callable[[], Node], "Built"]]
"""A layout: how to make a file, or what is in a folder, by name."""


class BuiltDirectory(KeptDirectory):
    """A folder of a layout, which is asked for at each use."""

    __slots__ = ("_layout",)

    def __init__(self, tree: KnownTree, key: Key, mtime_ns: int, layout: Callable[[], Built]) -> None:
        super().__init__(tree, key, mtime_ns)
        self._layout = layout

    def child(self, name: str) -> Node:
        found = self._layout().get(name)
        if found is None:
            raise NotFound(member=name)
        if not isinstance(found, dict):
            return found()
        return BuiltDirectory(self.tree, (*self.key, name), self._mtime_ns, lambda: found)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        layout = self._layout()
        for name in sorted(layout):
            if after is None or name > after:
                yield Entry(name, Kind.DIRECTORY if isinstance(layout[name], dict) else Kind.FILE)


def put(layout: Built, path: str, make: Callable[[], Node]) -> None:
    """Put a file into a layout; where a name is a file and a folder, the file is left out."""
    *above, last = path.split("/")
    for name in above:
        inner = layout.get(name)
        if not isinstance(inner, dict):
            inner = layout[name] = {}
        layout = inner
    if not isinstance(layout.get(last), dict):
        layout[last] = make


class MemberFolder(KeptDirectory):
    """A folder of an archive, or the archive itself; one that cannot be opened is empty."""

    __slots__ = ("_find", "_path")

    def __init__(
        self, tree: KnownTree, key: Key, mtime_ns: int, find: Callable[[], CrawlArchive], path: tuple[str, ...] = ()
    ) -> None:
        super().__init__(tree, key, mtime_ns)
        self._find = find
        self._path = path

    def child(self, name: str) -> Node:
        archive, folder = self._folder()
        found = folder.get(name)
        if archive is None or found is None:
            raise NotFound(member=name)
        return self._node(archive, name, found)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        archive, folder = self._folder()
        for name in sorted(folder):
            if archive is not None and (after is None or name > after):
                node = self._node(archive, name, folder[name])
                yield Entry(name, node.kind, node.ident, node)

    def _node(self, archive: CrawlArchive, name: str, found: int | Folder) -> MemberFolder | MemberFile:
        key = (*self.key, name)
        if isinstance(found, dict):
            return MemberFolder(self.tree, key, self._mtime_ns, self._find, (*self._path, name))
        return MemberFile(self.tree, key, self._mtime_ns, self._find, archive, found)

    def _folder(self) -> tuple[CrawlArchive | None, Folder]:
        try:
            archive = self._find()
        except NotFound:
            raise
        except ArchiveError:
            return None, {}
        folder: int | Folder = archive.root
        for name in self._path:
            folder = folder[name] if isinstance(folder, dict) and name in folder else 0
        if not isinstance(folder, dict):
            raise NotFound(member="/".join(self._path))
        return archive, folder


# -- files and links --


class KeptFile(Kept, WritableFile):
    """A file that cannot be changed."""

    __slots__ = ()

    def open_writer(self, *, truncate: bool) -> Writer:
        self.refuse()


class MemberFile(KeptFile):
    """A member of an archive."""

    __slots__ = ("_attributes", "_find", "_member", "_state")

    def __init__(
        self,
        tree: KnownTree,
        key: Key,
        mtime_ns: int,
        find: Callable[[], CrawlArchive],
        archive: CrawlArchive,
        member: int,
    ) -> None:
        directory = archive.directory
        self._state = (directory.file_size, directory.source.mtime_ns)
        super().__init__(tree, (*key, self._state), mtime_ns)
        self._find = find
        self._member = member
        self._attributes = (directory.size(member), directory.crc(member))

    def attributes(self) -> Attributes:
        return Attributes(self._attributes[0], self.mtime_ns, self._attributes[1])

    def open(self) -> Reader:
        try:
            archive = self._find()
        except SourceChanged:
            raise StaleNode from None
        directory = archive.directory
        if (directory.file_size, directory.source.mtime_ns) != self._state:
            raise StaleNode(archive=directory.path)
        return archive.open_member(self._member, self.tree.cache)


class ProductFile(KeptFile):
    """A file that is made of archives when somebody wants to know its size."""

    __slots__ = ("_make", "_version")

    def __init__(
        self, tree: KnownTree, key: Key, mtime_ns: int, make: Callable[[], Product], *, version: int = 0
    ) -> None:
        super().__init__(tree, key, mtime_ns)
        self._make = make
        self._version = version

    def attributes(self) -> Attributes:
        return Attributes(self._make().size, self.mtime_ns, self._version)

    def open(self) -> Reader:
        return self._make().open(mtime_ns=self.mtime_ns, version=self._version)


class WholeFile(KeptFile):
    """A file of the storage, byte for byte."""

    __slots__ = ("_state", "path")

    def __init__(self, tree: KnownTree, key: Key, path: str, state: State) -> None:
        super().__init__(tree, (*key, state), state.mtime_ns)
        self.path = path
        self._state = state

    def attributes(self) -> Attributes:
        return Attributes(self._state.size, self.mtime_ns, self._state.inode)

    def open(self) -> Reader:
        return WholeReader(SourceFile(self.path, fd=open_regular(self.path)), self.mtime_ns, self._state.inode)


class WholeReader(Reader):
    """The bytes of a file as it was opened; one rewritten in place gives an error, never a mixture."""

    def __init__(self, source: SourceFile, mtime_ns: int, version: int) -> None:
        self._source = source
        self._attributes = Attributes(source.size, mtime_ns, version)

    def read_at(self, offset: int, size: int) -> bytes:
        size = min(size, self._source.size - offset)
        return self._source.pread(size, offset) if size > 0 else b""

    def attributes(self) -> Attributes:
        return self._attributes

    def close(self) -> None:
        self._source.release()


class Link(Kept, Symlink):
    """A symbolic link to a crawl's own directory."""

    __slots__ = ("_target",)

    def __init__(self, tree: KnownTree, key: Key, mtime_ns: int, target: str) -> None:
        super().__init__(tree, (*key, target), mtime_ns)
        self._target = target

    def attributes(self) -> Attributes:
        return Attributes(len(self._target.encode()), self.mtime_ns)

    def target(self) -> str:
        return self._target
