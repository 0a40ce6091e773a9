"""Crawls as a tree: what is where, what opens what, and what happens when the storage changes."""

from __future__ import annotations

import csv
import io
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from archivefs.errors import (
    CorruptMember,
    NotFound,
    StaleNode,
    TreeReadOnly,
    UnreadableArchive,
)
from archivefs.format import Match, Opening, Probe
from archivefs.formats.crawls import FORMAT
from archivefs.formats.crawls import storage as storage_module
from archivefs.formats.crawls.tree import CrawlsTree, CrawlTree
from archivefs.tree import Directory, File, Kind, Tree
from tests.contract import TreeContract
from tests.samples import crawls
from tests.samples.crawls import FAILED, FILES_MAP, FIRST, IDS, LISTS_MAP, SECOND, SHOP
from tests.walking import content_of, names_of, walk

TOP = ["crawls", "archives", "domains", "dates", "actions", "views", "diffs", "index.csv", "index.json", "broken"]


class TestStorage(TreeContract):
    def make_archive(self, tmp_path: Path) -> Path:
        return crawls.write_storage(tmp_path / "storage")

    def open_archive(self, path: Path) -> Tree:
        return FORMAT.open(str(path), Opening())


class TestOneCrawl(TreeContract):
    expected = {
        "01_files": {"s": {"files_map.csv": b"filename\r\na\r\n"}},
        "crawl.json": json.dumps(crawls.metadata(FIRST), indent=2).encode(),
        "notes.txt": b"x" * 2_000_000,
    }

    def make_archive(self, tmp_path: Path) -> Path:
        members = {"01_files/s/files_map.csv": b"filename\r\na\r\n", "notes.txt": b"x" * 2_000_000}
        return crawls.write(tmp_path, FIRST, members)

    def open_archive(self, path: Path) -> Tree:
        return FORMAT.open(str(path), Opening())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return crawls.write_storage(tmp_path)


@pytest.fixture
def tree(root: Path) -> Iterator[CrawlsTree]:
    with closing(CrawlsTree(str(root), Opening())) as tree:
        yield tree


def at(tree: Tree, path: str) -> object:
    """The content of what is at a path."""
    return content_of(tree.lookup(path.split("/") if path else ()))


# -- what is where --


def test_the_top(tree: CrawlsTree) -> None:
    assert at(tree, "") == TOP
    assert at(tree, "crawls") == list(IDS)
    assert at(tree, "archives") == [f"{crawl_id}.zip" for crawl_id in IDS]
    assert at(tree, "views") == list(IDS)
    assert at(tree, "domains") == ["SHOP_eu-1", "WIKI"]
    assert at(tree, "diffs") == ["SHOP_eu-1", "WIKI"]
    assert at(tree, "dates") == ["2025-03-03", "2025-03-02", "2025-03-01"]
    assert sorted(at(tree, "actions")) == ["crawl", "download", "embed"]
    assert at(tree, "broken") == []


def test_an_empty_storage_has_its_top_directories(tmp_path: Path) -> None:
    (tmp_path / "crawls").mkdir()
    with closing(CrawlsTree(str(tmp_path), Opening())) as tree:
        assert at(tree, "") == TOP
        assert all(at(tree, name) == [] for name in TOP if "." not in name)
        assert at(tree, "index.json") == b"[]\n"


def test_members_and_archives_are_byte_for_byte(root: Path, tree: CrawlsTree) -> None:
    data = (root / "crawls" / f"{FIRST}.zip").read_bytes()
    assert at(tree, f"archives/{FIRST}.zip") == data
    assert names_of(tree.lookup(["crawls", FIRST])) == ["01_files", "02_lists", "crawl.json"]
    assert json.loads(at(tree, f"crawls/{FIRST}/crawl.json"))["crawl_id"] == FIRST


def test_times(root: Path, tree: CrawlsTree) -> None:
    at_time = 1740808800 * 10**9
    assert tree.lookup(["crawls", FIRST]).attributes().mtime_ns == at_time
    assert tree.lookup(["crawls", FIRST, "crawl.json"]).attributes().mtime_ns == at_time
    real = (root / "crawls" / f"{FIRST}.zip").stat().st_mtime_ns
    assert tree.lookup(["archives", f"{FIRST}.zip"]).attributes().mtime_ns == real


def test_links(tree: CrawlsTree) -> None:
    assert at(tree, "domains/WIKI") == [FAILED, SECOND, FIRST, "latest", "latest-ok"]
    assert at(tree, "domains/WIKI/latest") == f"../../crawls/{FAILED}"
    assert at(tree, "domains/WIKI/latest-ok") == f"../../crawls/{SECOND}"
    assert at(tree, f"dates/2025-03-02/{SHOP}") == f"../../crawls/{SHOP}"
    assert at(tree, "dates/2025-03-02") == [SHOP, SECOND]
    assert at(tree, "actions/crawl") == [SECOND, FIRST]


def test_without_a_good_crawl_there_is_no_latest_ok(tmp_path: Path) -> None:
    crawls.write(tmp_path / "crawls", FIRST, ok=False, error="no")
    (tmp_path / "crawls" / f"{SECOND}.zip").write_bytes(b"not a zip")
    with closing(CrawlsTree(str(tmp_path), Opening())) as tree:
        assert at(tree, "domains/WIKI") == [SECOND, FIRST, "latest"]
        with pytest.raises(NotFound):
            tree.lookup(["domains", "WIKI", "latest-ok"])


def test_the_index(root: Path, tree: CrawlsTree) -> None:
    rows = json.loads(at(tree, "index.json"))
    assert [row["crawl_id"] for row in rows] == list(IDS)
    assert rows[0] == {
        "crawl_id": FAILED,
        "action": "download",
        "scope": "files",
        "mode": "incremental",
        "started_utc": "2025-03-03T05:55:00.000000Z",
        "duration_seconds": 300,
        "ok": False,
        "domain_id": "WIKI",
        "source_id": None,
        "job_id": None,
        "error": 'SharePoint said "no"',
        "file_size": (root / "crawls" / f"{FAILED}.zip").stat().st_size,
    }
    table = list(csv.DictReader(io.StringIO(at(tree, "index.csv").decode(), newline="")))
    assert [row["crawl_id"] for row in table] == list(IDS)
    assert list(table[0]) == list(rows[0])
    assert (table[0]["ok"], table[0]["job_id"], table[1]["ok"]) == ("false", "", "true")


def test_views(tree: CrawlsTree) -> None:
    found = ["/".join(parts[2:]) for parts, *_ in walk(tree) if parts[:2] == ("views", FIRST) and "." in parts[-1]]
    assert sorted(found) == sorted(
        ["crawl.html"]
        + [f"01_files/handbook/{name}_map.csv.{end}" for name in ("files", "sharepoint") for end in ("json", "html")]
        + [f"{LISTS_MAP}.json", f"{LISTS_MAP}.html"]
    )
    rows = json.loads(at(tree, f"views/{FIRST}/{FILES_MAP}.json"))
    assert [row["filename"] for row in rows][1:3] == ['Plan "B", draft.docx', "two\nlines.docx"]
    assert (rows[0]["file_size"], rows[0]["sharepoint_error"]) == (1001, "")
    page = at(tree, f"views/{FAILED}/{FILES_MAP}.html").decode()
    assert "HTTP 503 &lt;b&gt;retry&lt;/b&gt;" in page
    assert "<b>" not in page


# -- what opens what --


@pytest.fixture
def opened_archives(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The archives that are opened from now on."""
    opened: list[str] = []
    real = storage_module.open_regular

    def recording(path: str) -> int:
        opened.append(Path(path).stem)
        return real(path)

    monkeypatch.setattr(storage_module, "open_regular", recording)
    return opened


@pytest.mark.parametrize("path", ["", "crawls", "archives", "domains", "dates", "actions", "views", "diffs"])
def test_listing_opens_nothing(tree: CrawlsTree, opened_archives: list[str], path: str) -> None:
    directory = tree.lookup(path.split("/") if path else ())
    assert isinstance(directory, Directory)
    for entry in directory.entries():
        if entry.kind is Kind.DIRECTORY:
            directory.child(entry.name).attributes()
    assert opened_archives == []


def test_looking_at_the_latest_opens_nothing(tree: CrawlsTree, opened_archives: list[str]) -> None:
    at(tree, "domains/WIKI/latest")
    at(tree, "dates/2025-03-02")
    tree.lookup(["archives", f"{FIRST}.zip"]).attributes()
    assert opened_archives == []


def test_the_index_opens_each_archive_once(tree: CrawlsTree, opened_archives: list[str]) -> None:
    for _ in range(3):
        at(tree, "index.json")
        at(tree, "index.csv")
        at(tree, "broken")
    assert sorted(opened_archives) == sorted(IDS)


def test_a_listing_of_differences_does_not_work_them_out(tree: CrawlsTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree.comparer, "difference", lambda pair: pytest.fail("a difference was worked out"))
    assert at(tree, "diffs/WIKI") == [FAILED]
    assert at(tree, f"diffs/WIKI/{FAILED}/01_files/handbook") == ["files_map.csv.diff", "files_map.csv.diff.csv"]


# -- what changes --


def within_a_second(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.01)
    return False


def test_new_and_deleted_archives_are_noticed(root: Path, tree: CrawlsTree) -> None:
    before = tree.generation()
    third = "2025-03-04_06-00-00_[WIKI]_crawl_all_full"
    assert third not in at(tree, "crawls")
    crawls.write(root / "crawls", third)
    assert within_a_second(lambda: third in at(tree, "crawls"))
    assert at(tree, "domains/WIKI/latest").endswith(third)
    assert len(json.loads(at(tree, "index.json"))) == 5
    assert tree.generation() > before
    (root / "crawls" / f"{third}.zip").unlink()
    assert within_a_second(lambda: third not in at(tree, "crawls"))
    with pytest.raises(NotFound):
        tree.lookup(["crawls", third])


def test_an_archive_rewritten_in_place_is_noticed(root: Path, tree: CrawlsTree) -> None:
    before = tree.generation()
    assert json.loads(at(tree, f"crawls/{SHOP}/crawl.json"))["ok"] is True
    (root / "crawls" / f"{SHOP}.zip").write_bytes(crawls.archive(SHOP, ok=False, error="now it is bad"))
    assert within_a_second(lambda: json.loads(at(tree, f"crawls/{SHOP}/crawl.json"))["ok"] is False)
    assert within_a_second(lambda: tree.generation() > before)
    assert [row["error"] for row in json.loads(at(tree, "index.json"))][1] == "now it is bad"


def test_nothing_changes_when_nothing_does(tree: CrawlsTree) -> None:
    before = tree.generation()
    list(walk(tree))
    time.sleep(1.2)
    assert tree.generation() == before


def test_an_open_file_keeps_its_bytes(root: Path, tree: CrawlsTree) -> None:
    path = root / "crawls" / f"{SHOP}.zip"
    data = path.read_bytes()
    file, member = tree.lookup(["archives", path.name]), tree.lookup(["crawls", SHOP, "crawl.json"])
    assert isinstance(file, File)
    assert isinstance(member, File)
    with closing(file.open()) as reader, closing(member.open()) as inner:
        (root / "new").write_bytes(crawls.archive(SHOP, ok=False))
        os.replace(root / "new", path)
        tree.storage.refresh()
        assert reader.read_at(0, len(data)) == data
        assert json.loads(inner.read_at(0, 10_000))["ok"] is True
    with pytest.raises(StaleNode):
        member.open()
    assert tree.lookup(["archives", path.name]).ident != file.ident


def test_a_folder_that_appears_later_is_seen(tmp_path: Path) -> None:
    (tmp_path / "crawl_results").mkdir()
    with closing(CrawlsTree(str(tmp_path), Opening())) as tree:
        assert at(tree, "crawls") == []
        crawls.write(tmp_path / "crawls", FIRST)
        assert at(tree, "crawls") == [FIRST]


# -- what is wrong --


def test_broken_archives_have_their_reason_and_hurt_nothing(root: Path) -> None:
    folder = root / "crawls"
    bad = "2025-03-09_00-00-00_[WIKI]_crawl_all_full"
    (folder / f"{bad}.zip").write_bytes(b"not a zip")
    (folder / "notes.zip").write_bytes(b"notes")
    (folder / "notes.zip.why").write_bytes(b"a file of that name")
    (folder / ".crawl-0123.archivefs-new").write_bytes(b"half written")
    (folder / "folder.zip").mkdir()
    (folder / "plain folder").mkdir()
    os.symlink(f"{FIRST}.zip", folder / "2025-03-08_00-00-00_[WIKI]_crawl_all_full.zip")
    (folder / os.fsdecode(b"\xff.zip")).write_bytes(b"odd")
    with closing(CrawlsTree(str(root), Opening())) as tree:
        assert at(tree, "broken") == sorted(
            [
                f"{bad}.zip",
                f"{bad}.zip.why",
                "notes.zip",
                "notes.zip.why",
                "notes.zip.why~2",
                "notes.zip.why.why",
                "folder.zip.why",
                "2025-03-08_00-00-00_[WIKI]_crawl_all_full.zip.why",
                "^FF.zip",
                "^FF.zip.why",
            ]
        )
        assert at(tree, f"broken/{bad}.zip") == b"not a zip"
        assert at(tree, f"broken/{bad}.zip.why") == b"not a zip: there is no end record\n"
        assert b"folder" in at(tree, "broken/folder.zip.why")
        assert b"symbolic link" in at(tree, "broken/2025-03-08_00-00-00_[WIKI]_crawl_all_full.zip.why")
        assert at(tree, "crawls") == [bad, *IDS]
        assert at(tree, f"crawls/{bad}") == []
        assert at(tree, f"diffs/WIKI/{bad}") == []
        assert at(tree, f"archives/{bad}.zip") == b"not a zip"
        assert at(tree, "domains/WIKI/latest") == f"../../crawls/{bad}"
        assert [row["crawl_id"] for row in json.loads(at(tree, "index.json"))] == list(IDS)


def test_an_archive_without_metadata_still_shows_its_members(tmp_path: Path) -> None:
    (tmp_path / "crawls").mkdir()
    (tmp_path / "crawls" / f"{FIRST}.zip").write_bytes(crawls.zipped({FILES_MAP: b"a\r\n1\r\n"}))
    with closing(CrawlsTree(str(tmp_path), Opening())) as tree:
        assert at(tree, f"crawls/{FIRST}/{FILES_MAP}") == b"a\r\n1\r\n"
        assert at(tree, f"broken/{FIRST}.zip.why") == b"it has no crawl.json\n"
        assert at(tree, f"views/{FIRST}") == ["01_files"]


def test_a_damaged_map_file_hurts_only_itself(tmp_path: Path) -> None:
    data = bytearray(crawls.zipped({FILES_MAP: b"a\r\n" + bytes(range(48, 58)) * 50}, method=0))
    data[60:65] = b"XXXXX"
    whole = crawls.metadata(FIRST)
    (tmp_path / "crawls").mkdir()
    path = tmp_path / "crawls" / f"{FIRST}.zip"
    path.write_bytes(crawls.zipped({"crawl.json": json.dumps(whole).encode(), FILES_MAP: b"0123456789" * 50}, method=0))
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"0123456789")] ^= 1
    path.write_bytes(raw)
    with closing(CrawlsTree(str(tmp_path), Opening())) as tree:
        assert at(tree, "broken") == []
        assert json.loads(at(tree, f"crawls/{FIRST}/crawl.json")) == whole
        with pytest.raises(CorruptMember):
            at(tree, f"crawls/{FIRST}/{FILES_MAP}")
        with pytest.raises(CorruptMember):
            at(tree, f"views/{FIRST}/{FILES_MAP}.json")
        assert at(tree, f"diffs/WIKI/{FIRST}") == ["summary.json"]


# -- other revisions --


def test_later_revisions_are_read(tmp_path: Path) -> None:
    stem = "2026-01-03_12-01-30_My_Domain_all_full"
    rows = {FILES_MAP: b"filename\r\na\r\n"}
    two = {"crawl_result_id": stem, "domain_id": "My_Domain", "ok": True}
    three = {"report_id": f"crawls/{stem}", "title": "Crawl", "ok": False, "files": [], "data": {}}
    (tmp_path / "crawl_results").mkdir()
    (tmp_path / "reports" / "crawls").mkdir(parents=True)
    reports = tmp_path / "reports" / "crawls"
    (reports / f"{stem}.zip").write_bytes(crawls.zipped({**rows, "report.json": json.dumps(three).encode()}))
    other = stem.replace("12-01-30", "12-01-31")
    three["report_id"] = f"crawls/{other}"
    (reports / f"{other}.zip").write_bytes(crawls.zipped({**rows, "report.json": json.dumps(three).encode()}))
    second = tmp_path / "crawl_results" / f"{stem}.zip"
    second.write_bytes(crawls.zipped({**rows, "crawl.json": json.dumps(two).encode()}))
    with closing(CrawlsTree(str(tmp_path), Opening())) as tree:
        assert at(tree, "crawls") == [other, stem]
        assert at(tree, "broken") == []
        assert at(tree, "domains/My_Domain/latest-ok") == f"../../crawls/{stem}"
        assert json.loads(at(tree, f"crawls/{other}/report.json")) == three
        assert [(row["action"], row["domain_id"], row["ok"]) for row in json.loads(at(tree, "index.json"))] == [
            ("crawl", "My_Domain", False),
            ("crawl", "My_Domain", True),
        ]
        assert at(tree, f"archives/{stem}.zip") == second.read_bytes()  # of equal ids the first folder's counts


# -- opening --


def test_what_is_recognised(root: Path, tmp_path: Path) -> None:
    def match(path: Path) -> Match:
        return FORMAT.match(Probe(str(path)))

    assert match(root) is Match.YES
    assert match(root / "crawls") is Match.YES
    assert match(root / "crawls" / f"{FIRST}.zip") is Match.YES
    (root / "else").mkdir()
    assert match(root / "else") is Match.NO
    crawls.write(root / "else", FIRST)
    assert match(root / "else") is Match.YES
    (root / "else" / "notes.zip").write_bytes(b"")
    assert match(root / "else") is Match.NO
    (root / "new" / "crawls").mkdir(parents=True)
    assert match(root / "new") is Match.MAYBE
    assert match(root / "new" / "crawls") is Match.MAYBE
    plain = root / "plain.zip"
    plain.write_bytes(crawls.archive(FIRST))
    assert match(plain) is Match.NO
    bare = root / f"{SHOP}.zip"
    bare.write_bytes(crawls.zipped({FILES_MAP: b""}))
    assert match(bare) is Match.NO


def test_a_folder_of_archives_is_opened_itself(root: Path) -> None:
    with closing(FORMAT.open(str(root / "crawls"), Opening())) as tree:
        assert at(tree, "crawls") == list(IDS)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableArchive):
        FORMAT.open(str(tmp_path / "nothing"), Opening())


def test_one_crawl_says_what_it_is(root: Path) -> None:
    with closing(FORMAT.open(str(root / "crawls" / f"{FAILED}.zip"), Opening())) as tree:
        assert isinstance(tree, CrawlTree)
        assert tree.facts()["error"] == 'SharePoint said "no"'


def test_ten_thousand_archives_are_listed_at_once(tmp_path: Path, opened_archives: list[str]) -> None:
    folder = tmp_path / "crawls"
    folder.mkdir()
    for number in range(10_000):
        clock = f"{number // 3600:02}-{number // 60 % 60:02}-{number % 60:02}"
        (folder / f"2025-03-01_{clock}_[D{number % 7}]_crawl_all_full.zip").touch()
    with closing(CrawlsTree(str(tmp_path), Opening())) as tree:
        begun = time.process_time()  # the machine may be busy with something else
        assert len(names_of(tree.lookup(["crawls"]))) == 10_000
        assert time.process_time() - begun < 1
        assert len(names_of(tree.lookup(["archives"]))) == 10_000
    assert opened_archives == []


def test_a_read_only_tree_refuses_changes(tree: CrawlsTree) -> None:
    directory = tree.lookup(["archives"])
    with pytest.raises(TreeReadOnly):
        directory.create("x.zip", exclusive=True)
    with pytest.raises(TreeReadOnly):
        directory.remove(f"{FIRST}.zip", kind=Kind.FILE)
    with pytest.raises(TreeReadOnly):
        tree.lookup(["crawls"]).remove(FIRST, kind=Kind.DIRECTORY)
    with pytest.raises(TreeReadOnly):
        directory.set_times(mtime_ns=1)
