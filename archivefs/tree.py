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

from archivefs.errors import DirectoryExpected, NotFound

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
    top: Parts = ()
    """Where a sub-tree begins that is shown instead of the root: no symbolic link may lead above it."""

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

    @abstractmethod
    def close(self) -> None:
        """Close what is open.  Nothing may be called afterwards, except ``close`` again."""


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
