"""The contract between formats and front-ends: an archive as a tree of nodes.

Formats implement these classes; front-ends (``fuse/``, ``cli/``) only call them.  A composed tree hands
out the inner trees' own nodes, so nothing is ever wrapped.

Rules every implementation keeps, and ``tests/contract.py`` checks:

* Every method may be called from any thread.
* Errors are raised from ``errors.py``; an errno or an exit code is a front-end's business.
* A path is a tuple of names; the root is ``()``.  A name is UTF-8 text without "/" and NUL, never "", "." or "..".
* Idents are 1 … 2**48-1 and name one thing of one tree for as long as it is open; the root's is ``ROOT_IDENT``.
* Listings are generators in an order that follows from the names or keys alone; ``after`` is a name
  yielded before, which may have been removed since.
* Sizes are exact.  Reads are positional, short only at the end, and never share a position.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

from archivefs.errors import DirectoryExpected, NotFound, NotPermitted, NotSupported

ROOT_IDENT = 1
MAX_IDENT = 2**48 - 1

Parts = tuple[str, ...]
"""A path inside a tree."""


class Kind(enum.IntEnum):
    """What a node is, in the kernel's own numbers (``d_type``; shifted left by 12 it is ``S_IFMT``)."""

    DIRECTORY = 4
    FILE = 8
    SYMLINK = 10


class Attributes(NamedTuple):
    """What ``stat`` says.  A NamedTuple, not a dataclass: these are made by the million."""

    size: int = 0
    mtime_ns: int = 0
    version: int = 0
    """Another number when the bytes may differ: whether the kernel may keep its pages; also the ETag."""


class Entry(NamedTuple):
    """One line of a listing."""

    name: str
    kind: Kind
    ident: int = 0
    """0: not known without a look-up."""
    node: Node | None = None
    """Only when its ``attributes()`` cost nothing; otherwise the kernel asks for those it wants."""


class Extent(NamedTuple):
    """Content that lies as it is in an open file."""

    fd: int
    start: int
    length: int


class Usage(NamedTuple):
    """For ``statfs``, in bytes; ``files`` 0 means not counted."""

    size: int = 0
    free: int = 0
    files: int = 0


class Reader(ABC):
    """Open content: good until ``close()``, also when its file is removed or its tree has moved on."""

    @abstractmethod
    def read_at(self, offset: int, size: int) -> bytes:
        """Up to *size* bytes from *offset*; fewer only at the end."""

    @abstractmethod
    def attributes(self) -> Attributes:
        """As they are now; the size is what can be read."""

    def extent(self) -> Extent | None:
        """Where the same bytes lie unchanged in an open file, if they do and need no further check."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Give back what is held.  Called once."""


class Node(ABC):
    """One thing in a tree."""

    __slots__ = ()

    kind: ClassVar[Kind]
    tree: Tree
    ident: int

    @abstractmethod
    def attributes(self) -> Attributes:
        """Size, time and version."""

    def xattrs(self) -> Mapping[str, bytes]:
        """Extended attributes: ``user.xdg.origin.url`` and the like; all start with ``user.``."""
        return {}


class Directory(Node):
    """A directory."""

    __slots__ = ()
    kind = Kind.DIRECTORY

    @abstractmethod
    def child(self, name: str) -> Node:
        """The node of that name; raises NotFound."""

    @abstractmethod
    def entries(self, after: str | None = None) -> Iterator[Entry]:
        """What is listed, from the first name or from the one that follows *after*."""


class File(Node):
    """A file."""

    __slots__ = ()
    kind = Kind.FILE
    volatile: ClassVar[bool] = False
    """Its content is made anew at each open, so neither its size nor its pages may be kept."""

    @property
    def sure(self) -> bool:
        """Is it known without a look into the archive that ``open`` works?

        Only asked of empty files, which a front-end otherwise has to try before it can say that they are empty.
        """
        return False

    @abstractmethod
    def open(self) -> Reader:
        """Open its content."""


class Symlink(Node):
    """A symbolic link whose target stays inside its tree."""

    __slots__ = ()
    kind = Kind.SYMLINK

    @abstractmethod
    def target(self) -> str:
        """Where it leads, relative to its own directory."""


class Tree(ABC):
    """An opened archive."""

    immutable: bool = True
    """Nothing in it changes while it is open: the kernel may keep answers for as long as it likes."""
    writable: bool = False
    leads_back: bool = False
    """``node()`` finds any node by its ident, so a front-end need not remember any."""
    open_needed: bool = False
    """Each open must reach ``File.open``, which costs a front-end time: because files lie as whole files of their
    own, which the kernel can be handed at open, or because errors have to be told at open and not at the first read."""
    top: Parts = ()
    """Where a sub-tree begins that is shown instead of the root: no symbolic link may lead above it."""
    known_as: Tree | None = None
    """Set by a tree that opens this one again and again: the one by whose number a front-end should know its nodes,
    and whose ``node()`` leads back to them however often it was opened."""

    @abstractmethod
    def root(self) -> Directory:
        """The root directory; its ident is ``ROOT_IDENT``."""

    def lookup(self, parts: Sequence[str]) -> Node:
        """The node at *parts*; raises NotFound or DirectoryExpected.  Override where one query can do it."""
        node: Node = self.root()
        for name in parts:
            if not isinstance(node, Directory):
                raise DirectoryExpected(member="/".join(parts))
            node = node.child(name)
        return node

    def node(self, ident: int) -> Node:
        """The node with that ident, where ``leads_back``; raises NotFound if the thing is gone."""
        raise NotFound

    def generation(self) -> int:
        """Grows when an earlier answer may be wrong through others' doing.  Asked at most once a second."""
        return 0

    def usage(self) -> Usage:
        """How much there is, for ``statfs``."""
        return Usage()

    def extras(self) -> Mapping[str, Callable[[], Reader]]:
        """Files a format adds to ``.archivefs/``: name and how to open it."""
        return {}

    def facts(self) -> Mapping[str, object]:
        """What ``archivefs info`` shows of it, in the order shown; may take a moment."""
        return {}

    commit_idle_s: float | None = None
    """Commit by itself after so many seconds without a change."""

    def savers(self) -> Mapping[str, Callable[[bytes], None]]:
        """Those of the ``extras`` that can be written, and what becomes of new content when the file is closed."""
        return {}

    def pending(self) -> Iterator[tuple[str, Parts]]:
        """Changes that are not in the archive yet: ("added" | "changed" | "removed", path)."""
        return iter(())

    def commit(self, progress: Callable[[int, int], None]) -> None:
        """Put every change into the archive, whole or not at all; what fails stays pending, and is raised."""

    def discard_changes(self) -> None:
        """Throw away what is pending."""

    def idle_s(self) -> float:
        """Seconds since the last change."""
        return 0.0

    def sync(self) -> None:
        """Every change made so far is durable when this returns; nothing to do for a tree that is only read."""

    @abstractmethod
    def close(self) -> None:
        """Close what is open.  Nothing may be called afterwards, except ``close`` again; open readers stay good."""


# -- changing --


class Writer(Reader):
    """Open content that can be changed.  A front-end asks for one at a time for each file and shares it."""

    @abstractmethod
    def write_at(self, offset: int, data: bytes) -> None:
        """Write; a gap before *offset* reads as zeros.  Sets the time of change."""

    @abstractmethod
    def truncate(self, size: int) -> None:
        """Cut off, or grow with zeros."""

    @abstractmethod
    def set_times(self, *, mtime_ns: int) -> None:
        """Set the time of change; what is written later sets it again."""

    @abstractmethod
    def sync(self) -> None:
        """Durable when it returns.  Called at fsync, and at close with unsaved bytes: here is told what is wrong."""

    @abstractmethod
    def finish(self) -> None:
        """The last handle is gone: what is there becomes the file, unless it was removed; readable until close()."""


class Changeable(Node):
    """What can be told of a node that is no file content."""

    __slots__ = ()

    def set_times(self, *, mtime_ns: int) -> None:
        """Keep a time of change, until unmount or beyond where the format has a place for it."""
        raise NotSupported

    def set_xattr(self, name: str, value: bytes | None) -> None:
        """Set an attribute the format gives a meaning, or remove it (None); any other is NotSupported."""
        raise NotSupported


class WritableFile(File, Changeable):
    """A file that can be changed."""

    __slots__ = ()

    @abstractmethod
    def open_writer(self, *, truncate: bool) -> Writer:
        """Open it for changing, empty or as it is."""


class WritableDirectory(Directory, Changeable):
    """A directory that can be changed."""

    __slots__ = ()

    @abstractmethod
    def create(self, name: str, *, exclusive: bool) -> WritableFile:
        """A new empty file; where the name is taken by a file that one, or AlreadyExists if *exclusive*."""

    @abstractmethod
    def make_directory(self, name: str) -> Directory:
        """A new directory; raises AlreadyExists."""

    def make_symlink(self, name: str, target: str) -> Symlink:
        """A new symbolic link; NotPermitted where the format has none."""
        raise NotPermitted

    @abstractmethod
    def remove(self, name: str, *, kind: Kind) -> None:
        """Remove a directory (DIRECTORY: it must be empty) or anything else (FILE)."""

    @abstractmethod
    def rename(self, name: str, to: Directory, to_name: str, *, replace: bool) -> None:
        """Move it; raises OtherTree, AlreadyExists unless *replace*, DirectoryNotEmpty and the like."""


class Capture(NamedTuple):
    """One stored answer to a URL."""

    node: Node
    parts: Parts
    """Where it is listed."""
    status: int = 200
    headers: Sequence[tuple[str, str]] = ()
    time_ns: int | None = None
    facts: Mapping[str, object] = {}
    """What else the format knows of it (key, state, digest …), for ``archivefs find``."""


@runtime_checkable
class Sites(Protocol):
    """A tree that knows URLs offers this too."""

    def captures(self, url: str) -> Iterator[Capture]:
        """What is stored for *url*, newest first."""


def is_root(node: Node) -> bool:
    """Is it the root of the tree it belongs to?"""
    return node.ident == ROOT_IDENT and node.kind is Kind.DIRECTORY
