"""Zips of any names and contents: read_at is a slice, a listing goes on anywhere, everything is shown once."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archivefs.caches import ByteCache
from archivefs.format import Opening
from archivefs.formats.zip.tree import ZipTree
from archivefs.readers import WindowReader
from archivefs.tree import File
from archivefs.zips import members
from archivefs.zips.members import open_member
from tests.walking import content_of, directories, names_of, walk
from tests.zips.forge import BZIP2, DEFLATED, DOS, LZMA, STORED, Forge, opened

NAME_PIECES = st.sampled_from(
    [b"a", b"b", b"a~2", b"", b".", b"..", b"^2E", b"^empty", b"\xff", "é".encode(), b"\\", b".archivefs"]
)
NAMES = st.one_of(st.lists(NAME_PIECES, min_size=1, max_size=4).map(b"/".join), st.binary(max_size=12))
MEMBERS = st.lists(st.tuples(NAMES, st.booleans()), max_size=12)


def tree_of(folder: str, named: list[tuple[bytes, bool]]) -> ZipTree:
    forge = Forge()
    for number, (name, dos) in enumerate(named):
        forge.add(name, b"%d" % number, central={"made": DOS} if dos else {})
    path = Path(folder) / "any.zip"
    path.write_bytes(forge.end())
    return ZipTree(str(path), Opening(options={"encoding": "utf-8"}))


@settings(deadline=None, max_examples=200)
@given(MEMBERS)
def test_every_member_is_shown_once_under_a_name_of_its_own(named: list[tuple[bytes, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree = tree_of(folder, named)
        contents = Counter(content_of(node) for _, _, node, _ in walk(tree) if isinstance(node, File))
        assert contents == Counter(b"%d" % number for number in range(len(named)))
        for directory, names in directories(tree):
            assert len(set(names)) == len(names)
            assert names == sorted(names)
            for at, name in enumerate(names):
                assert names_of(directory, after=name) == names[at + 1 :]
            assert names_of(directory, after="a~") == [name for name in names if name > "a~"]
        assert ".archivefs" not in names_of(tree.root())
        tree.close()


@settings(deadline=None, max_examples=100)
@given(MEMBERS)
def test_names_do_not_depend_on_what_was_looked_at_first(named: list[tuple[bytes, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one, two = tree_of(folder, named), tree_of(folder, named)
        paths = [(parts, node.ident) for parts, _, node, _ in walk(one)]
        for parts, ident in reversed(paths):
            assert two.lookup(parts).ident == ident
            assert two.node(ident).kind is one.node(ident).kind
        one.close()
        two.close()


SIZE = 300_000
DATA = b"".join(b"%d " % (number * number) for number in range(SIZE // 8))[:SIZE]
READS = st.lists(st.tuples(st.integers(0, SIZE + 10), st.integers(0, 70_000)), min_size=1, max_size=12)


@pytest.mark.parametrize("method", [STORED, DEFLATED, BZIP2, LZMA])
@settings(deadline=None, max_examples=40)
@given(reads=READS, cache_size=st.sampled_from([0, 100_000, 1 << 24]))
def test_read_at_is_a_slice_in_any_order(method: int, reads: list[tuple[int, int]], cache_size: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        # so that a small member takes the way of a large one
        patch.setattr(members, "SMALL_MEMBER", 1000)
        patch.setattr(members, "SMALL_STORED", 1000)
        patch.setattr("archivefs.zips.checkpoints.MIN_SPACING", 50_000)
        patch.setattr(members, "WindowReader", partial(WindowReader, window=20_000))
        patch.setattr("archivefs.readers.PIECE_BYTES", 7000)
        forge = Forge()
        forge.add("x", DATA, method=method)
        directory = opened(Path(folder), forge.end())
        cache = ByteCache(cache_size)
        reader = open_member(directory, 0, cache)
        for offset, size in reads:
            assert reader.read_at(offset, size) == DATA[offset : offset + size]
        reader.close()
        again = open_member(directory, 0, cache)
        offset, size = random.Random(len(reads)).choice(reads)
        assert again.read_at(offset, size) == DATA[offset : offset + size]
        again.close()
        directory.close()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.binary(min_size=1, max_size=6), min_size=1, max_size=30), st.binary(max_size=8))
def test_find_gives_the_last_of_a_name(names: list[bytes], other: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        forge = Forge()
        for name in names:
            forge.add(name, b"x")
        directory = opened(Path(folder), forge.end())
        last = {name: number for number, name in enumerate(names)}
        assert {name: directory.find(name) for name in names} == last
        assert directory.find(other) == last.get(other)
        directory.close()
