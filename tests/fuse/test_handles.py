"""Open files and directory cursors, without a mount."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archivefs.errors import StaleNode
from archivefs.fuse.handles import PAGE, Directories, DirectoryHandle, OpenFiles
from archivefs.memory import MemoryTree
from archivefs.tree import Attributes, Directory, Entry, Kind


class Counting(Directory):
    """So many names, and a record of how many were fetched."""

    ident = 1

    def __init__(self, count: int) -> None:
        self.count = count
        self.fetched = 0
        self.began: list[str | None] = []

    def attributes(self) -> Attributes:
        return Attributes()

    def child(self, name: str):
        raise AssertionError

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        self.began.append(after)
        for number in range(0 if after is None else int(after) + 1, self.count):
            self.fetched += 1
            yield Entry(f"{number:07d}", Kind.FILE)


def names(handle: DirectoryHandle, offset: int, limit: int) -> list[str]:
    found = []
    for _, entry in handle.entries(offset):
        found.append(entry.name)
        if len(found) == limit:
            break
    return found


@pytest.mark.parametrize("count", [0, 1, 7, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 2 * PAGE + 5])
@pytest.mark.parametrize("step", [1, 3, 100, PAGE, 5 * PAGE])
def test_reading_on_in_steps_gives_every_name_once(count: int, step: int) -> None:
    handle = DirectoryHandle(Counting(count))
    found: list[str] = []
    while batch := names(handle, len(found), step):
        found += batch
    assert found == [f"{number:07d}" for number in range(count)]


def test_an_entry_that_was_refused_is_not_fetched_twice() -> None:
    directory = Counting(500)
    handle = DirectoryHandle(directory)
    for offset in range(0, 500, 10):
        names(handle, offset, 20)
    assert directory.fetched <= 500
    assert directory.began == [None]


def test_a_large_directory_is_not_read_to_its_end_for_the_first_names() -> None:
    directory = Counting(1_000_000)
    assert names(DirectoryHandle(directory), 0, 50)[0] == "0000000"
    assert directory.fetched <= PAGE


def test_seeking_back_begins_at_the_nearest_page() -> None:
    directory = Counting(10 * PAGE)
    handle = DirectoryHandle(directory)
    names(handle, 0, 10 * PAGE)
    assert names(handle, 7 * PAGE + 3, 2) == [f"{7 * PAGE + 3:07d}", f"{7 * PAGE + 4:07d}"]
    assert directory.began[-1] == f"{7 * PAGE - 1:07d}"


def test_rewinding_lists_anew() -> None:
    directory = Counting(5)
    handle = DirectoryHandle(directory)
    assert len(names(handle, 0, 100)) == 5
    directory.count = 7
    assert len(names(handle, 0, 100)) == 7


@given(count=st.integers(0, 3 * PAGE), jumps=st.lists(st.integers(0, 3 * PAGE + 10), max_size=8))
def test_any_offset_yields_the_tail(count: int, jumps: list[int]) -> None:
    handle = DirectoryHandle(Counting(count))
    for offset in jumps:
        expected = [f"{number:07d}" for number in range(offset, min(count, offset + 3))]
        assert names(handle, offset, 3) == expected


def test_directory_handles_are_given_back() -> None:
    directories = Directories()
    handle = directories.open(Counting(1))
    assert directories.get(handle).directory.ident == 1
    directories.release(handle)
    with pytest.raises(StaleNode):
        directories.get(handle)


def test_one_reader_per_inode_closed_with_the_last_handle() -> None:
    files = OpenFiles()
    node = MemoryTree({"a": b"abc"}).lookup(("a",))
    first, second = files.open(7, node), files.open(7, node)
    assert files.get(first).reader is files.get(second).reader
    files.release(first)
    assert files.get(second).reader.read_at(0, 9) == b"abc"
    files.release(second)
    files.release(second)
    assert len(files) == 0
    with pytest.raises(StaleNode):
        files.get(second)


def test_ten_thousand_opens_leave_nothing() -> None:
    files = OpenFiles()
    node = MemoryTree({"a": b"abc"}).lookup(("a",))
    for _ in range(10_000):
        files.release(files.open(7, node))
    assert len(files) == 0
    assert not files._by_inode
