"""The judge sees what it is there to see."""

from __future__ import annotations

from archivefs.memory import MemoryTree
from archivefs.tree import Attributes, Directory, Entry, File, Reader
from tests.hostile.judge import judge


class BadReader(Reader):
    def __init__(self, give: bytes) -> None:
        self._give = give

    def read_at(self, offset: int, size: int) -> bytes:
        return self._give[offset : offset + size]

    def attributes(self) -> Attributes:
        return Attributes(len(self._give))

    def close(self) -> None:
        """Nothing is held."""


class BadFile(File):
    ident = 2

    def __init__(self, tree: MemoryTree, give: bytes) -> None:
        self.tree, self._give = tree, give

    def attributes(self) -> Attributes:
        return Attributes(10, 0, 0)

    def open(self) -> Reader:
        return BadReader(self._give)


class BadRoot(Directory):
    ident = 1

    def __init__(self, tree: MemoryTree, *names: str, give: bytes = bytes(10)) -> None:
        self.tree, self._names, self._give = tree, names, give

    def attributes(self) -> Attributes:
        return Attributes()

    def child(self, name: str) -> File:
        return BadFile(self.tree, self._give)

    def entries(self, after: str | None = None):
        for name in self._names:
            yield Entry(name, BadFile.kind, 2)


def faults(*names: str, give: bytes = bytes(10), **bounds: int) -> list[str]:
    tree = MemoryTree({})
    root = BadRoot(tree, *names, give=give)
    tree.root = lambda: root  # type: ignore[method-assign]
    return judge(tree, **bounds).faults


def test_what_it_finds() -> None:
    assert any("impossible name" in fault for fault in faults(".."))
    assert any("impossible name" in fault for fault in faults("twice", "twice"))
    assert any("too long" in fault for fault in faults("x" * 256))
    assert any("5 bytes at 0 of 10" in fault for fault in faults("short", give=bytes(5)))
    assert any("11 bytes at 0 of 10" in fault for fault in faults("long", give=bytes(11)))
    assert any("another CRC" in fault for fault in faults("wrong", give=b"0123456789"))
    assert any("too much" in fault for fault in faults("a", "b", "c", max_entries=2))
    assert any("leads out" in fault for fault in judge(MemoryTree({"l": "../x"})).faults)


def test_what_it_lets_pass() -> None:
    verdict = judge(MemoryTree({"empty": b"", "d": {"l": "../x"}}))
    assert verdict.faults == []
    assert verdict.entries == 3
