"""Trees for tests of the kernel transport: by name only, hanging, broken, living."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

from archivefs.errors import CorruptMember, NotFound
from archivefs.memory import MemoryTree
from archivefs.readers import BytesReader
from archivefs.tree import ROOT_IDENT, Attributes, Directory, Entry, File, Kind, Node, Reader, Tree

CONTENT = {
    "folder": {"inner.txt": b"inner", "deeper": {"leaf": b"l" * 5000}},
    "hello.txt": b"hello",
    "empty": b"",
    "link": "folder/inner.txt",
    "ünïcode \n": b"odd name",
}


class Forgetful(MemoryTree):
    """The same, but no ident leads back."""

    leads_back = False

    def node(self, ident: int) -> Node:
        raise NotFound


class Named(Tree):
    """A directory of files, each made by a function; entries bring their nodes.  Counts what is open."""

    leads_back = True

    def __init__(self, files: Mapping[str, Callable[[Named, int], File]], *, immutable: bool = True) -> None:
        self.immutable = immutable
        self.open_readers = 0
        self.opened = 0
        self.number = 0
        self.files: dict[str, File] = {}
        for ident, name in enumerate(sorted(files), ROOT_IDENT + 1):
            self.files[name] = files[name](self, ident)
        self._root = _NamedDirectory(self)

    def root(self) -> Directory:
        return self._root

    def node(self, ident: int) -> Node:
        if ident == ROOT_IDENT:
            return self._root
        for file in self.files.values():
            if file.ident == ident:
                return file
        raise NotFound

    def generation(self) -> int:
        return self.number

    def close(self) -> None:
        pass


class _NamedDirectory(Directory):
    ident = ROOT_IDENT

    def __init__(self, tree: Named) -> None:
        self.tree: Named = tree

    def attributes(self) -> Attributes:
        return Attributes()

    def child(self, name: str) -> Node:
        try:
            return self.tree.files[name]
        except KeyError:
            raise NotFound from None

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        for name in sorted(self.tree.files):
            if after is None or name > after:
                file = self.tree.files[name]
                yield Entry(name, Kind.FILE, file.ident, file)


class Counted(BytesReader):
    """A reader that its tree counts."""

    def __init__(self, tree: Named, data: bytes) -> None:
        super().__init__(data)
        self._tree = tree
        tree.open_readers += 1
        tree.opened += 1

    def close(self) -> None:
        self._tree.open_readers -= 1


class Plain(File):
    """A file with some bytes."""

    data = b"plain"

    def __init__(self, tree: Named, ident: int) -> None:
        self.tree: Named = tree
        self.ident = ident

    def attributes(self) -> Attributes:
        return Attributes(len(self.data))

    def open(self) -> Reader:
        return Counted(self.tree, self.data)


class Large(Plain):
    """One that takes several reads."""

    data = bytes(range(256)) * 1024


class Refusing(Plain):
    """Listed as empty, but it cannot be opened."""

    data = b""

    def open(self) -> Reader:
        raise CorruptMember("its size is a lie", member="refusing")


class Hollow(Plain):
    """Empty, and it can be opened."""

    data = b""


class Bad(Plain):
    """Not even its attributes can be had."""

    def attributes(self) -> Attributes:
        raise CorruptMember("no attributes", member="bad")


class Changing(Plain):
    """Made anew at each open."""

    volatile = True

    def attributes(self) -> Attributes:
        return Attributes(len(self._text()))

    def open(self) -> Reader:
        self.tree.number += 1
        return Counted(self.tree, self._text())

    def _text(self) -> bytes:
        return b"x" * self.tree.number


class Gate:
    """Holds whoever passes until it is opened."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.waiting = 0

    def pass_through(self) -> None:
        self.waiting += 1
        assert self._event.wait(30), "the test forgot to open the gate"
        self.waiting -= 1

    def open(self) -> None:
        self._event.set()


def hanging_at_read(gate: Gate) -> Callable[[Named, int], File]:
    """A file whose reads wait at *gate*."""

    class Reading(Counted):
        def read_at(self, offset: int, size: int) -> bytes:
            gate.pass_through()
            return super().read_at(offset, size)

    class Hanging(Plain):
        def open(self) -> Reader:
            return Reading(self.tree, self.data)

    return Hanging


def hanging_at_open(gate: Gate) -> Callable[[Named, int], File]:
    """A file whose open waits at *gate*."""

    class Hanging(Plain):
        def open(self) -> Reader:
            gate.pass_through()
            return Counted(self.tree, self.data)

    return Hanging
