"""A format for tests, as a plug-in: trees that hang, fail, are huge or change.

It is seen by a process that has this folder on its PYTHONPATH.  An archive is a text file:
``archivefs-odd KIND`` on the first line, where KIND names one of the functions below; what follows is for that kind.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from archivefs.errors import CorruptMember, NameNotHeld, NotFound
from archivefs.format import Format, Match, Opening, Probe
from archivefs.memory import MemoryTree
from archivefs.readers import BytesReader, ExtentReader
from archivefs.staging.area import StagingArea
from archivefs.staging.overlay import OverlayDirectory, OverlayTree
from archivefs.tree import ROOT_IDENT, Attributes, Directory, Entry, Extent, File, Kind, Node, Reader, Tree

MAGIC = b"archivefs-odd "


class Never(Reader):
    """A reader that never answers."""

    def read_at(self, offset: int, size: int) -> bytes:
        threading.Event().wait()
        raise AssertionError

    def attributes(self) -> Attributes:
        return Attributes(4096)

    def close(self) -> None:
        pass


class Bug(Reader):
    def read_at(self, offset: int, size: int) -> bytes:
        raise ZeroDivisionError("a bug\nin two lines")

    def attributes(self) -> Attributes:
        return Attributes(4096)

    def close(self) -> None:
        pass


class OddFile(File):
    """A file whose size is known and whose content is whatever *make* opens."""

    def __init__(self, tree: OddTree, ident: int, size: int, make) -> None:
        self.tree, self.ident, self._size, self._make = tree, ident, size, make

    def attributes(self) -> Attributes:
        return Attributes(self._size)

    def open(self) -> Reader:
        return self._make()


class SureFile(OddFile):
    """One that is known to open."""

    sure = True


class BadStat(OddFile):
    def attributes(self) -> Attributes:
        raise OSError("without an errno")


class OddDirectory(Directory):
    def __init__(self, tree: OddTree, ident: int, children: dict[str, Node]) -> None:
        self.tree, self.ident, self._children = tree, ident, children

    def attributes(self) -> Attributes:
        return Attributes()

    def child(self, name: str) -> Node:
        if name not in self._children:
            raise NotFound
        return self._children[name]

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        for name in sorted(self._children):
            if after is None or name > after:
                yield Entry(name, self._children[name].kind, self._children[name].ident)


class HangingDirectory(OddDirectory):
    def entries(self, after: str | None = None) -> Iterator[Entry]:
        threading.Event().wait()
        yield from ()


class BuggyDirectory(OddDirectory):
    def entries(self, after: str | None = None) -> Iterator[Entry]:
        yield Entry("first", Kind.FILE)
        raise KeyError("in a listing")


class OddTree(Tree):
    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as file:
            kind = file.readline()[len(MAGIC) :].strip().decode()
        self._root = getattr(self, kind)()

    def root(self) -> Directory:
        return self._root

    def close(self) -> None:
        pass

    def _file(self, ident: int, data: bytes) -> OddFile:
        return OddFile(self, ident, len(data), lambda: BytesReader(data))

    def hang(self) -> Directory:
        """Sixteen files that never answer, one that does, a directory that never lists."""
        children: dict[str, Node] = {f"hang{i}": OddFile(self, 10 + i, 4096, Never) for i in range(16)}
        children["ok.txt"] = self._file(2, b"still here\n")
        children["other.txt"] = self._file(3, b"this too\n")
        children["never"] = HangingDirectory(self, 4, {})
        return OddDirectory(self, ROOT_IDENT, children)

    def bugs(self) -> Directory:
        """Files and directories with a bug in every method."""
        children: dict[str, Node] = {
            "ok.txt": self._file(2, b"still here\n"),
            "read": OddFile(self, 3, 4096, Bug),
            "open": OddFile(self, 4, 10, lambda: 1 // 0),
            "stat": BadStat(self, 5, 10, Bug),
            "list": BuggyDirectory(self, 6, {}),
        }
        return OddDirectory(self, ROOT_IDENT, children)

    def empties(self) -> Directory:
        """Two files listed as empty, of which one cannot be opened."""
        broken = OddFile(self, 3, 0, lambda: self._damaged())
        return OddDirectory(self, ROOT_IDENT, {"fine": self._file(2, b""), "broken": broken})

    def _damaged(self) -> Reader:
        raise CorruptMember("its size is a lie", archive=self.path, member="broken")

    def whole(self) -> Directory:
        """The archive file itself, as one extent that is a whole file."""

        def open_self() -> Reader:
            fd = os.open(self.path, os.O_RDONLY)
            return ExtentReader(Extent(fd, 0, os.fstat(fd).st_size), owned=True)

        self.open_needed = True
        return OddDirectory(self, ROOT_IDENT, {"self": OddFile(self, 2, os.stat(self.path).st_size, open_self)})

    def opening(self) -> Directory:
        """Opening never ends: a system call that nobody answers."""
        _never_again(self.path)
        raise AssertionError

    def stuck(self) -> Directory:
        """It opens, and then hangs as soon as the transport asks for anything."""
        type(self).immutable = property(_unless_transport)  # type: ignore[assignment]
        return OddDirectory(self, ROOT_IDENT, {})

    def million(self) -> Directory:
        return CountingDirectory(self, 1_000_000)

    def node(self, ident: int) -> Node:
        if isinstance(self._root, CountingDirectory):
            return self._root if ident == ROOT_IDENT else self._root.at(ident - 2)
        raise NotFound

    def living(self) -> Directory:
        self.immutable = False
        return LivingDirectory(self)

    def generation(self) -> int:
        return 0 if self.immutable else os.stat(self.path).st_mtime_ns


def _unless_transport(tree: OddTree) -> bool:
    if threading.current_thread().name == "archivefs-transport":
        _never_again(tree.path)
    return True


def _never_again(path: str) -> None:
    """Say who hangs, in PATH.hangs, and hang."""
    with open(f"{path}.new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"{path}.new", f"{path}.hangs")
    os.read(os.pipe()[0], 1)


class CountingDirectory(Directory):
    """So many empty files, made when they are asked for."""

    ident = ROOT_IDENT

    def __init__(self, tree: OddTree, count: int) -> None:
        self.tree, self._count = tree, count
        tree.leads_back = True

    def at(self, number: int) -> Node:
        return SureFile(self.tree, number + 2, 0, lambda: BytesReader(b""))

    def attributes(self) -> Attributes:
        return Attributes()

    def child(self, name: str) -> Node:
        if len(name) != 7 or not name.isdecimal() or int(name) >= self._count:
            raise NotFound
        return self.at(int(name))

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        for number in range(0 if after is None else int(after) + 1, self._count):
            yield Entry(f"{number:07d}", Kind.FILE, number + 2, self.at(number))


class LivingDirectory(Directory):
    """Its files are the lines of the archive: ``name content``; another process may rewrite them."""

    ident = ROOT_IDENT

    def __init__(self, tree: OddTree) -> None:
        self.tree = tree

    def attributes(self) -> Attributes:
        return Attributes(0, os.stat(self.tree.path).st_mtime_ns)

    def _lines(self) -> dict[str, bytes]:
        with open(self.tree.path, "rb") as file:
            file.readline()
            pairs = [line.rstrip(b"\n").partition(b" ") for line in file]
        return {name.decode(): content for name, _, content in pairs}

    def child(self, name: str) -> Node:
        lines = self._lines()
        if name not in lines:
            raise NotFound
        return LivingFile(self.tree, name, lines[name])

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        for name in sorted(self._lines()):
            if after is None or name > after:
                yield Entry(name, Kind.FILE)


class LivingFile(File):
    def __init__(self, tree: OddTree, name: str, data: bytes) -> None:
        self.tree, self._data = tree, data
        self.ident = 2 + int.from_bytes(name.encode()[:5], "big")

    def attributes(self) -> Attributes:
        return Attributes(len(self._data), os.stat(self.tree.path).st_mtime_ns, hash(self._data) & 0xFFFFFFFF)

    def open(self) -> Reader:
        return BytesReader(self._data)


class ScratchOverlay(OverlayTree):
    """A writable tree over a few files; nothing is ever committed."""

    def __init__(self, path: str) -> None:
        base = MemoryTree({"base.txt": b"base\n", "dir": {"in": b"in\n", "big": b"b" * 100_000}}, mtime_ns=10**18)
        super().__init__(base, StagingArea(path + ".staging"))

    def identity(self) -> Mapping[str, Any]:
        return {"scratch": 1}

    def check_name(self, directory: OverlayDirectory, name: str, kind: Kind) -> None:
        if "*" in name:
            raise NameNotHeld(member=name)


def match(probe: Probe) -> Match:
    return Match.YES if probe.head.startswith(MAGIC) else Match.NO


def open_odd(path: str, opening: Opening) -> Tree:
    with open(path, "rb") as file:
        scratch = file.readline() == MAGIC + b"scratch\n"
    if not scratch:
        return OddTree(path)
    tree = ScratchOverlay(path)
    tree.replay()
    return tree


FORMAT = Format(name="odd", summary="trees for tests", match=match, open=open_odd, can_write=True)
