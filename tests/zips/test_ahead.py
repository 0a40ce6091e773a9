"""Reading ahead: what the kernel is asked to fetch, and when nothing is."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from archivefs.caches import ByteCache
from archivefs.format import Opening
from archivefs.formats.zip.tree import LOOKED_AHEAD, ZipTree
from archivefs.tree import Entry, File, Kind
from archivefs.zips.ahead import BEGINS_AFTER, COUNT, HEADER_BYTES, LARGEST
from tests.zips.forge import DEFLATED, STORED, Forge

FILES = 100
SIZE = 700


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The pieces the kernel is asked for, as offset and size."""
    pieces: list[tuple[int, int]] = []

    def advise(fd: int, offset: int, size: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_WILLNEED
        os.pread(fd, 1, offset)
        pieces.append((offset, size))

    monkeypatch.setattr(os, "posix_fadvise", advise)
    return pieces


def tree_of(folder: Path, names: list[str], size: int = SIZE, **more) -> ZipTree:
    forge = Forge()
    for name in names:
        forge.add(name, name.encode().ljust(size, b"."), method=STORED, **more)
    path = folder / "it.zip"
    path.write_bytes(forge.end())
    return ZipTree(str(path), Opening(cache=ByteCache()))


def names_of(count: int = FILES) -> list[str]:
    return [f"page{number:04}.html" for number in range(count)]


def mixed(names: list[str]) -> list[str]:
    return random.Random(1).sample(names, len(names))


@pytest.fixture
def shuffled(tmp_path: Path) -> Iterator[ZipTree]:
    """A folder of files that lie in the archive in another order than they are listed in."""
    tree = tree_of(tmp_path, mixed(names_of()))
    yield tree
    tree.close()


def read(entry: Entry) -> None:
    assert isinstance(entry.node, File)
    reader = entry.node.open()
    assert reader.read_at(0, 1 << 20).rstrip(b".") == entry.name.encode()
    reader.close()


def listed(tree: ZipTree) -> list[Entry]:
    return list(tree.root().entries())


def places_of(tree: ZipTree, entries: list[Entry]) -> list[int]:
    return [tree.directory.offset((entry.ident >> 1) - 1) for entry in entries]


def test_what_is_listed_next_is_asked_for_once_and_before_it_is_read(
    shuffled: ZipTree, asked: list[tuple[int, int]]
) -> None:
    entries = listed(shuffled)
    for number, entry in enumerate(entries):
        if number > BEGINS_AFTER:
            assert places_of(shuffled, [entry])[0] in dict(asked)
        read(entry)
        assert len(asked) <= number + 2 * COUNT
    assert [offset for offset, _ in asked] == places_of(shuffled, entries[BEGINS_AFTER + 1 :])
    assert {size for _, size in asked} == {SIZE + HEADER_BYTES}


def test_nothing_is_asked_for_where_the_archive_has_the_same_order(
    tmp_path: Path, asked: list[tuple[int, int]]
) -> None:
    tree = tree_of(tmp_path, names_of())
    for entry in listed(tree):
        read(entry)
    assert asked == []
    tree.close()


def test_nothing_is_asked_for_when_files_are_read_here_and_there(
    shuffled: ZipTree, asked: list[tuple[int, int]]
) -> None:
    entries = listed(shuffled)
    for entry in [*entries[::2], *reversed(entries)]:
        read(entry)
    assert asked == []


def test_it_stops_when_the_order_breaks_and_begins_again_with_the_next(
    shuffled: ZipTree, asked: list[tuple[int, int]]
) -> None:
    entries = listed(shuffled)
    for entry in entries[:5]:
        read(entry)
    before = len(asked)
    assert 0 < before <= 2 * COUNT
    read(entries[60])
    read(entries[5])
    read(entries[6])
    assert len(asked) == before
    for entry in entries[7:10]:
        read(entry)
    assert len(asked) > before


def test_an_order_is_found_among_many_reads_in_none(shuffled: ZipTree, asked: list[tuple[int, int]]) -> None:
    entries = listed(shuffled)
    for entry in [*entries[::-2], *entries[::-2]]:
        read(entry)
    assert asked == []
    for entry in entries[:40]:
        read(entry)
    assert asked


def test_of_a_large_member_only_the_beginning(tmp_path: Path, asked: list[tuple[int, int]]) -> None:
    tree = tree_of(tmp_path, mixed(names_of(8)), size=2 * LARGEST)
    for entry in listed(tree):
        read(entry)
    assert {size for _, size in asked} == {LARGEST + HEADER_BYTES}
    tree.close()


def test_places_that_no_file_has_do_no_harm(tmp_path: Path) -> None:
    names, forge = names_of(12), Forge()
    for number, name in enumerate(mixed(names)):
        lie = {"offset": 0xFFFFFFFE} if name > "page0008" and number % 2 else {}
        forge.add(name, name.encode(), method=DEFLATED, central=lie)
    (tmp_path / "it.zip").write_bytes(forge.end())
    tree = ZipTree(str(tmp_path / "it.zip"), Opening(cache=ByteCache()))
    for entry in listed(tree)[:9]:
        read(entry)
    tree.close()


def test_a_folder_of_many_folders_is_not_gone_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tree_of(tmp_path, ["a", "b", *(f"d{number:04}/inner" for number in range(4 * LOOKED_AHEAD))])
    listing, seen = tree.folders.listing, []

    def counted(folder: int, after: str | None = None) -> Iterator[tuple[int, str]]:
        for item in listing(folder, after):
            seen.append(item)
            yield item

    monkeypatch.setattr(tree.folders, "listing", counted)
    read(Entry("b", Kind.FILE, tree.root().child("b").ident, tree.root().child("b")))
    assert 0 < len(seen) <= LOOKED_AHEAD
    tree.close()
