"""Changing a storage through a writable tree, without a mount."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from archivefs.errors import AlreadyExists, ContentRefused, NotFound, NotPermitted, SourceBusy, UsageError
from archivefs.format import Opening
from archivefs.formats.crawls import FORMAT
from archivefs.formats.crawls.tree import CrawlsTree
from archivefs.tree import Directory, File, Kind, WritableDirectory, WritableFile, Writer
from tests.samples import crawls
from tests.samples.crawls import FIRST, SECOND
from tests.walking import content_of, names_of, walk

NEW = "2025-03-05_06-00-00_[WIKI]_crawl_all_full"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return crawls.write_storage(tmp_path)


@pytest.fixture
def tree(root: Path) -> Iterator[CrawlsTree]:
    with closing(CrawlsTree(str(root), Opening(read_write=True))) as tree:
        yield tree


def directory(tree: CrawlsTree, name: str) -> WritableDirectory:
    found = tree.lookup([name])
    assert isinstance(found, WritableDirectory)
    return found


def begin(tree: CrawlsTree, name: str) -> Writer:
    file = directory(tree, "archives").create(name, exclusive=True)
    return file.open_writer(truncate=True)


def end(writer: Writer) -> None:
    writer.finish()
    writer.close()


def test_a_new_archive_appears_when_it_is_closed(root: Path, tree: CrawlsTree) -> None:
    data = crawls.archive(NEW, {"01_files/s/files_map.csv": b"a\r\n1\r\n"})
    before = tree.generation()
    file = directory(tree, "archives").create(f"{NEW}.zip", exclusive=True)
    writer = file.open_writer(truncate=True)
    writer.sync()  # the shell's flush before any byte
    writer.write_at(100, data[100:])
    writer.write_at(0, data[:100])
    assert writer.read_at(0, 1 << 20) == data
    assert f"{NEW}.zip" in names_of(directory(tree, "archives"))
    assert NEW not in names_of(tree.lookup(["crawls"]))
    writer.set_times(mtime_ns=10**18)
    writer.sync()
    assert (root / "crawls" / f"{NEW}.zip").read_bytes() == data  # durable from here on
    end(writer)
    assert NEW in names_of(tree.lookup(["crawls"]))
    again = tree.lookup(["archives", f"{NEW}.zip"])
    assert (again.ident, content_of(again)) == (file.ident, data)
    assert (root / "crawls" / f"{NEW}.zip").stat().st_mtime_ns == 10**18
    assert again.attributes().mtime_ns == 10**18
    assert sorted(os.listdir(root / "crawls")) == sorted(f"{name}.zip" for name in (NEW, *crawls.IDS))
    assert tree.generation() > before  # for it stands under many names, of which the writer knows one


def test_a_file_in_two_parts_is_told_and_kept(root: Path, tree: CrawlsTree) -> None:
    data = crawls.archive(NEW)
    writer = begin(tree, f"{NEW}.zip")
    writer.write_at(0, data[:50])
    for _ in range(2):
        with pytest.raises(ContentRefused):
            writer.sync()
    writer.write_at(50, data[50:])
    writer.sync()
    end(writer)
    assert (root / "crawls" / f"{NEW}.zip").read_bytes() == data


def test_what_is_written_after_a_sound_close_counts(root: Path, tree: CrawlsTree) -> None:
    data = crawls.archive(NEW)
    writer = begin(tree, f"{NEW}.zip")
    writer.write_at(0, data)
    writer.sync()
    writer.write_at(0, b"no")
    assert not (root / "crawls" / f"{NEW}.zip").exists()
    with pytest.raises(ContentRefused):
        writer.sync()
    writer.write_at(0, data)
    end(writer)
    assert (root / "crawls" / f"{NEW}.zip").read_bytes() == data


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (f"{NEW}.zip", b"not a zip"),
        (f"{NEW}.zip", crawls.zipped({"a": b""})),
        (f"{NEW}.zip", crawls.zipped({"crawl.json": b"[]"})),
        (f"{NEW}.zip", crawls.archive(NEW)[:-30]),
        ("notes.zip", crawls.archive(NEW)),
        ("2025-02-01_00-00-00_D_all_full.zip", crawls.archive(NEW)),
        (f"{NEW}.txt", crawls.archive(NEW)),
    ],
)
def test_what_is_not_sound_is_thrown_away(root: Path, tree: CrawlsTree, name: str, data: bytes) -> None:
    writer = begin(tree, name)
    writer.write_at(0, data)
    with pytest.raises(ContentRefused):
        writer.sync()
    end(writer)
    assert len(os.listdir(root / "crawls")) == 4
    with pytest.raises(NotFound):
        tree.lookup(["archives", name])


def test_a_damaged_member_is_not_sound(tree: CrawlsTree) -> None:
    stored = crawls.zipped({"crawl.json": b"{}", "a_map.csv": b"0123456789"}, method=0)
    writer = begin(tree, f"{NEW}.zip")
    writer.write_at(0, stored.replace(b"0123456789", b"0123456780"))
    with pytest.raises(ContentRefused, match=r"a_map\.csv"):
        writer.sync()
    end(writer)


def test_an_empty_file_is_nothing(root: Path, tree: CrawlsTree) -> None:
    writer = begin(tree, f"{NEW}.zip")
    writer.sync()
    end(writer)
    assert len(os.listdir(root / "crawls")) == 4


def test_an_archive_is_never_replaced(root: Path, tree: CrawlsTree) -> None:
    archives = directory(tree, "archives")
    for exclusive in (True, False):
        with pytest.raises(AlreadyExists):
            archives.create(f"{FIRST}.zip", exclusive=exclusive)
    file = archives.child(f"{FIRST}.zip")
    assert isinstance(file, WritableFile)
    with pytest.raises(AlreadyExists):
        file.open_writer(truncate=True)
    writer = begin(tree, f"{NEW}.zip")
    writer.write_at(0, crawls.archive(NEW))
    (root / "crawls" / f"{NEW}.zip").write_bytes(b"somebody was quicker")
    with pytest.raises(AlreadyExists):
        writer.sync()
    end(writer)
    assert (root / "crawls" / f"{NEW}.zip").read_bytes() == b"somebody was quicker"


def test_a_file_removed_while_it_is_written_stays_away(root: Path, tree: CrawlsTree) -> None:
    writer = begin(tree, f"{NEW}.zip")
    writer.write_at(0, crawls.archive(NEW))
    writer.sync()
    directory(tree, "archives").remove(f"{NEW}.zip", kind=Kind.FILE)
    writer.write_at(0, crawls.archive(NEW))
    writer.sync()
    end(writer)
    assert len(os.listdir(root / "crawls")) == 4


# -- deleting --


def test_deleting(root: Path, tree: CrawlsTree) -> None:
    directory(tree, "archives").remove(f"{FIRST}.zip", kind=Kind.FILE)
    directory(tree, "crawls").remove(SECOND, kind=Kind.DIRECTORY)
    assert FIRST not in names_of(tree.lookup(["crawls"]))
    assert sorted(os.listdir(root / "crawls")) == sorted(f"{name}.zip" for name in crawls.IDS[:2])
    for name in (FIRST, SECOND):
        with pytest.raises(NotFound):
            directory(tree, "archives").remove(f"{name}.zip", kind=Kind.FILE)


def test_deleting_what_is_broken(root: Path, tree: CrawlsTree) -> None:
    (root / "crawls" / f"{NEW}.zip").write_bytes(b"bad")
    (root / "crawls" / "notes.zip").write_bytes(b"bad")
    (root / "crawls" / "folder.zip").mkdir()
    tree.storage.refresh()
    broken = directory(tree, "broken")
    for name in (f"{NEW}.zip", "notes.zip"):
        with pytest.raises(NotPermitted):
            broken.remove(f"{name}.why", kind=Kind.FILE)
        broken.remove(name, kind=Kind.FILE)
        assert not (root / "crawls" / name).exists()
    with pytest.raises(NotPermitted):
        broken.remove("folder.zip.why", kind=Kind.FILE)
    assert names_of(broken) == ["folder.zip.why"]


def test_later_revisions_are_never_deleted(tmp_path: Path) -> None:
    name = "2025-02-01_00-00-00_D_all_full"
    (tmp_path / "crawls").mkdir()
    (tmp_path / "crawls" / f"{name}.zip").write_bytes(crawls.zipped({"crawl.json": b"{}"}))
    with closing(CrawlsTree(str(tmp_path), Opening(read_write=True))) as tree:
        with pytest.raises(NotPermitted):
            directory(tree, "archives").remove(f"{name}.zip", kind=Kind.FILE)
        with pytest.raises(NotPermitted):
            directory(tree, "crawls").remove(name, kind=Kind.DIRECTORY)


def test_everything_else_is_not_permitted(tree: CrawlsTree) -> None:
    archives = directory(tree, "archives")
    with pytest.raises(NotPermitted):
        archives.rename(f"{FIRST}.zip", archives, f"{NEW}.zip", replace=True)
    for parts, _, node, _ in walk(tree):
        if isinstance(node, Directory):
            assert isinstance(node, WritableDirectory)
            if parts != ("archives",):
                with pytest.raises(NotPermitted):
                    node.create("x", exclusive=True)
            with pytest.raises(NotPermitted):
                node.make_directory("x")
            with pytest.raises(NotPermitted):
                node.make_symlink("x", "y")
            for name in names_of(node)[:2]:
                if parts not in (("archives",), ("crawls",)):
                    with pytest.raises(NotPermitted):
                        node.remove(name, kind=Kind.FILE)
        elif isinstance(node, File) and parts[0] != "archives":
            assert isinstance(node, WritableFile)
            with pytest.raises(NotPermitted):
                node.open_writer(truncate=True)


def test_times_are_kept_until_unmount(tree: CrawlsTree, root: Path) -> None:
    before = (root / "crawls" / f"{FIRST}.zip").stat().st_mtime_ns
    for parts in (["crawls", FIRST], ["archives", f"{FIRST}.zip"], ["index.csv"], ["domains", "WIKI", "latest"]):
        tree.lookup(parts).set_times(mtime_ns=123)
        assert tree.lookup(parts).attributes().mtime_ns == 123
    assert (root / "crawls" / f"{FIRST}.zip").stat().st_mtime_ns == before


# -- opening --


def test_one_writer_a_folder(root: Path, tree: CrawlsTree) -> None:
    with pytest.raises(SourceBusy, match=str(os.getpid())):
        CrawlsTree(str(root / "crawls"), Opening(read_write=True))
    CrawlsTree(str(root), Opening()).close()


def test_leftovers_are_removed_and_told(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    (root / "crawls" / ".crawl-77.archivefs-new").write_bytes(b"half")
    CrawlsTree(str(root), Opening(read_write=True)).close()
    assert len(os.listdir(root / "crawls")) == 4
    assert ".crawl-77.archivefs-new" in caplog.text


def test_one_crawl_alone_cannot_be_written(root: Path) -> None:
    with pytest.raises(UsageError):
        FORMAT.open(str(root / "crawls" / f"{FIRST}.zip"), Opening(read_write=True))
