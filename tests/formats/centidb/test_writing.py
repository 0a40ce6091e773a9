"""Writing to stores: what is stored is checked in the engine itself, byte for byte."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from archivefs.errors import (
    AlreadyExists,
    BadOption,
    DirectoryExpected,
    NameNotHeld,
    NameTooLong,
    NotFound,
    NotPermitted,
    OtherTree,
    SourceBusy,
    TreeReadOnly,
)
from archivefs.tree import Directory, Kind, Tree, WritableDirectory
from tests.formats.centidb.opening import open_tree, opened, shown
from tests.samples import centidb as sample
from tests.samples.centidb import StoreMaker, number, write_dump, write_leveldb, write_lmdb
from tests.walking import content_of, names_of


def stored(path: Path) -> dict[bytes, bytes]:
    """All entries, read with the engine's own library."""
    if (path / "data.mdb").exists():
        import lmdb

        with lmdb.open(str(path), readonly=True, lock=False) as environment, environment.begin() as transaction:
            return {bytes(physical): bytes(value) for physical, value in transaction.cursor()}
    import plyvel

    database = plyvel.DB(str(path))
    try:
        return dict(database)
    finally:
        database.close()


def transactions(path: Path) -> int:
    import lmdb

    with lmdb.open(str(path), readonly=True, lock=False) as environment:
        return environment.info()["last_txnid"]


def directory(tree: Tree, *parts: str) -> WritableDirectory:
    found = tree.lookup(parts)
    assert isinstance(found, WritableDirectory)
    return found


def write(where: WritableDirectory, name: str, data: bytes) -> None:
    """As a program does: create, write, close."""
    writer = where.create(name, exclusive=False).open_writer(truncate=True)
    writer.write_at(0, data)
    writer.sync()
    writer.finish()
    writer.close()


@pytest.fixture(params=["lmdb", "leveldb"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    put = write_lmdb if request.param == "lmdb" else write_leveldb
    return put(tmp_path / "store", sample.overlapping().entries)


@pytest.fixture
def tree(path: Path) -> Iterator[Tree]:
    with opened(path, read_write=True) as tree:
        yield tree


PARTS = ("collections", "overlap", "records")


def test_a_new_record(path: Path, tree: Tree) -> None:
    before = sample.overlapping().entries
    records = directory(tree, *PARTS)
    write(records, "Tnew,Pb10", b"content")
    assert content_of(records.child("Tnew,Pb10")) == b"content"
    assert "Tnew,Pb10" in names_of(records)
    tree.close()
    assert stored(path) == before | {b"\x0a" + sample.key("new", 10): b"\x03content"}


def test_a_record_is_there_before_it_is_stored(path: Path, tree: Tree) -> None:
    records = directory(tree, *PARTS)
    writer = records.create("Tnew", exclusive=True).open_writer(truncate=False)
    assert names_of(records)[-1] == "Tnew"
    assert content_of(records.child("Tnew")) == b""
    with pytest.raises(AlreadyExists):
        records.create("Tnew", exclusive=True)
    writer.sync()
    writer.finish()
    writer.close()
    tree.close()
    assert stored(path)[b"\x0a" + sample.key("new")] == b"\x03"


def test_one_transaction_for_each_close(tmp_path: Path) -> None:
    path = write_lmdb(tmp_path / "store", sample.overlapping().entries)
    with opened(path, read_write=True) as tree:
        before = transactions(path)
        records = directory(tree, *PARTS)
        writer = records.create("Pa2", exclusive=False).open_writer(truncate=False)
        for at in range(20):
            writer.write_at(at * 100, b"x" * 100)
        assert transactions(path) == before
        writer.sync()
        writer.finish()
        writer.close()
        assert transactions(path) == before + 1
        records.remove("Pa2", kind=Kind.FILE)
        assert transactions(path) == before + 2
        directory(tree, "collections").make_directory("another")
        assert transactions(path) == before + 3


def test_every_record_can_be_replaced(path: Path, tree: Tree) -> None:
    records = directory(tree, *PARTS)
    expected = dict(sample.OVERLAPPING)
    for name in sample.OVERLAPPING:
        write(records, name, b"new " + name.encode())
        expected[name] = b"new " + name.encode()
        assert shown(tree, *PARTS) == expected
    tree.close()
    with opened(path) as again:
        assert shown(again, *PARTS) == expected


def test_every_record_can_be_removed(path: Path, tree: Tree) -> None:
    records = directory(tree, *PARTS)
    expected = dict(sample.OVERLAPPING)
    for name in sorted(sample.OVERLAPPING, key=lambda name: name[::-1]):
        records.remove(name, kind=Kind.FILE)
        del expected[name]
        assert shown(tree, *PARTS) == expected
        with pytest.raises(NotFound):
            records.child(name)
    tree.close()
    assert [physical for physical in stored(path) if physical[0] == 10] == []


def test_a_batch_keeps_its_other_members_and_its_packer(tmp_path: Path) -> None:
    made = StoreMaker()
    idx = made.collection(b"c")
    made.batch(idx, [((at,), b"%d" % at * 50) for at in range(4)], 4)
    path = write_lmdb(tmp_path / "store", made.entries)
    with opened(path, read_write=True) as tree:
        records = directory(tree, "collections", "c", "records")
        write(records, "Pa2", b"two")
        records.remove("Pa3", kind=Kind.FILE)
    found = {physical: value for physical, value in stored(path).items() if physical[0] == idx}
    batch = b"\x0a" + sample.key(1) + b"\x66" + sample.key(0)
    assert set(found) == {batch, b"\x0a" + sample.key(2)}
    assert found[batch][:4] == bytes([2, 50, 50, 4])
    assert zlib.decompress(found[batch][4:]) == b"0" * 50 + b"1" * 50
    two = found[b"\x0a" + sample.key(2)]
    assert (two[0], zlib.decompress(two[1:])) == (4, b"two")


@pytest.mark.parametrize("bare", [False, True])
def test_acid_stays_acid(tmp_path: Path, bare: bool) -> None:
    path = write_lmdb(tmp_path / "store", sample.acid(bare=bare).entries)
    with opened(path, read_write=True) as tree:
        pages = directory(tree, "collections", "pages", "records")
        expected = shown(tree, "collections", "pages", "records")
        for name in ("Ta,Pa3", "Ta,Pa0", "Tb,Pa2"):
            pages.remove(name, kind=Kind.FILE)
            del expected[name]
        write(pages, "Tb,Pa1", b"[]")
        expected["Tb,Pa1"] = b"[]"
        assert shown(tree, "collections", "pages", "records") == expected
        directory(tree, "collections").make_directory("more")
        write(directory(tree, "collections", "more", "records"), "Mb40", b"x")
    with opened(path) as tree:
        assert tree.facts()["dialect"] == ("acid-bare" if bare else "acid-prefixed")
        assert shown(tree, "collections", "pages", "records") == expected
        assert shown(tree, "collections", "more", "records") == {"Mb40": b"x"}
        assert shown(tree, "unknown") == {}
    assert (b"\x0e" + sample.key(-40, acid=True), b"x" if bare else b"\x03x") in stored(path).items()


def test_a_new_collection(path: Path, tree: Tree) -> None:
    made = directory(tree, "collections").make_directory("caf%C3%A9".replace("%C3%A9", "é") + "%2F")
    assert isinstance(made, Directory)
    assert names_of(made) == ["decoded", "indices", "info.yaml", "physical", "records"]
    with pytest.raises(AlreadyExists):
        directory(tree, "collections").make_directory("overlap")
    tree.close()
    name = "café/".encode()
    found = stored(path)
    assert found[b"\x00" + sample.key(name)] == b"\x03" + sample.key(name, 11, None)
    assert found[b"\x01" + sample.key(b"\x00collections_idx")] == b"\x03" + sample.key(b"\x00collections_idx", 12)


def test_an_empty_store_can_be_begun(tmp_path: Path) -> None:
    path = write_lmdb(tmp_path / "store", {})
    with opened(path, read_write=True) as tree:
        directory(tree, "collections").make_directory("first")
        write(directory(tree, "collections", "first", "records"), "Pa1", b"1")
    expected = StoreMaker()
    expected.record(expected.collection(b"first"), (1,), b"1")
    assert stored(path) == expected.entries


def test_the_store_grows(tmp_path: Path) -> None:
    path = write_lmdb(tmp_path / "store", sample.overlapping().entries)
    data = bytes(range(256)) * 4096 * 30
    with opened(path, read_write=True) as tree:
        for name in ("Pa1", "Tbig", "Tbigger"):
            write(directory(tree, *PARTS), name, data)
        assert content_of(tree.lookup((*PARTS, "Tbigger"))) == data


def test_what_is_removed_is_not_revived(path: Path, tree: Tree) -> None:
    records = directory(tree, *PARTS)
    for name in ("Pa1", "Tnew"):
        writer = records.create(name, exclusive=False).open_writer(truncate=False)
        writer.write_at(0, b"late")
        records.remove(name, kind=Kind.FILE)
        writer.sync()
        writer.finish()
        assert writer.read_at(0, 4) == b"late"
        writer.close()
        with pytest.raises(NotFound):
            records.child(name)


# -- what is refused --


def test_refusals(tree: Tree) -> None:
    records = directory(tree, *PARTS)
    for name, error in (
        ("note.txt", NameNotHeld),
        ("Pa05", NameNotHeld),
        ("x-15f100", NotPermitted),
        ("T" + "x" * 199 + "~~" + "0" * 32, NameNotHeld),
        ("T" + "x" * 260, NameTooLong),
    ):
        with pytest.raises(error):
            records.create(name, exclusive=False)
    with pytest.raises(NotPermitted):
        records.make_directory("Pa1,")
    with pytest.raises(DirectoryExpected):
        records.remove("Pa1", kind=Kind.DIRECTORY)
    with pytest.raises(NotFound):
        records.remove("Pa4", kind=Kind.FILE)
    with pytest.raises(OtherTree):
        records.rename("Pa1", records, "Pa4", replace=True)
    collections = directory(tree, "collections")
    for name, error in (("a/b", NameNotHeld), ("%00x", NotPermitted), ("%2f", NameNotHeld)):
        with pytest.raises(error):
            collections.make_directory(name)
    with pytest.raises(NotPermitted):
        collections.create("file", exclusive=False)
    with pytest.raises(NotPermitted):
        collections.remove("overlap", kind=Kind.DIRECTORY)
    assert not isinstance(tree.lookup(("counters",)), WritableDirectory)
    assert shown(tree, *PARTS) == sample.OVERLAPPING


def test_collections_with_an_index_are_left_alone_unless_told_otherwise(tmp_path: Path) -> None:
    path = write_lmdb(tmp_path / "store", sample.library().entries)
    with opened(path, read_write=True) as tree:
        people = directory(tree, "collections", "people", "records")
        with pytest.raises(NotPermitted, match="index"):
            people.create("Pa9", exclusive=True)
        with pytest.raises(NotPermitted, match="index"):
            people.remove("Pa1", kind=Kind.FILE)
        with pytest.raises(NotPermitted, match="index"):
            people.create("Pa1", exclusive=False)
    with opened(path, "stale_indices=ok", read_write=True) as tree:
        write(directory(tree, "collections", "people", "records"), "Pa9", b"x")
        directory(tree, "collections", "people", "records").remove("Pa1", kind=Kind.FILE)


def test_opaque_packers_and_long_keys(tmp_path: Path) -> None:
    path = write_lmdb(tmp_path / "store", sample.library().entries)
    with opened(path, read_write=True) as tree:
        odd = directory(tree, "collections", "odd packers", "records")
        with pytest.raises(NotPermitted, match="packed by number 11"):
            write(odd, "Pa1", b"x")
        with pytest.raises(NotPermitted, match="packed by number 11"):
            odd.remove("Pa1", kind=Kind.FILE)
        long = ",".join(["R" + "x" * 100, "R" + "y" * 100, "R" + "z" * 45])
        with pytest.raises(NameTooLong):
            tree.writer.check(tree.store.metadata.collections[10 + 5], b"\x28" + b"\xff" * 600)
        assert len(long) < 255
        write(odd, long, b"fits")
        assert content_of(odd.child(long)) == b"fits"


def test_damaged_batches_are_not_written_anew(tmp_path: Path) -> None:
    made = StoreMaker()
    idx = made.collection(b"c")
    made.put(number(idx) + sample.key(2) + b"\x66" + sample.key(1), b"\x02\x01\x01\x63xy")
    made.put(number(idx) + sample.key(5), b"\x63damaged")
    path = write_lmdb(tmp_path / "store", made.entries)
    with opened(path, read_write=True) as tree:
        records = directory(tree, "collections", "c", "records")
        with pytest.raises(NotPermitted):
            records.remove("Pa1", kind=Kind.FILE)
        write(records, "Pa5", b"mended")
    assert stored(path)[number(idx) + sample.key(5)] == b"\x03mended"


def test_one_writer_a_store(tmp_path: Path, path: Path, tree: Tree) -> None:
    with pytest.raises(SourceBusy):
        open_tree(path, read_write=True)


def test_dumps_and_nested_trees_are_only_read(tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "dump", sample.overlapping().entries)
    with pytest.raises(TreeReadOnly):
        open_tree(dump, read_write=True)
    with pytest.raises(BadOption):
        open_tree(write_lmdb(tmp_path / "store", {}), "layout=nested", read_write=True)
