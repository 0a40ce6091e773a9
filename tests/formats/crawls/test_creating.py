"""Creating archives: what goes in, names that are taken, and writers that die."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from archivefs.errors import ArchiveError, OutOfSpace
from archivefs.formats.crawls import (
    PERSISTENT_STORAGE_PATH_CRAWLS_SUBFOLDER,
    create_crawl_archive,
    generate_crawl_id,
    publishing,
)
from archivefs.formats.crawls.archive import CrawlArchive
from archivefs.formats.crawls.naming import parse_id
from archivefs.formats.crawls.storage import Storage
from archivefs.staging import durable
from tests.samples import crawls

NOW = datetime(2025, 4, 1, 12, 0, 0, tzinfo=timezone.utc)
TIMES = ("2025-04-01T11:50:00.000000Z", "2025-04-01T11:59:59.000000Z")


def create(storage: Path, **more: Any) -> str | None:
    given: dict[str, Any] = {
        "domain_id": "WIKI",
        "action": "crawl",
        "scope": "all",
        "mode": "full",
        "source_id": None,
        "job_id": "jb_42",
        "started_utc": TIMES[0],
        "finished_utc": TIMES[1],
        "ok": True,
        "error": "",
        "sources": [],
        "now": NOW,
        **more,
    }
    return create_crawl_archive(**given, storage=storage)


def members_of(storage: Path, crawl_id: str | None) -> dict[str, bytes]:
    with zipfile.ZipFile(storage / "crawls" / f"{crawl_id}.zip") as archive:
        assert archive.testzip() is None
        return {info.filename: archive.read(info) for info in archive.infolist()}


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    return crawls.write_live(tmp_path)


def test_everything_of_the_scope_goes_in(storage: Path) -> None:
    crawl_id = create(storage)
    assert crawl_id == "2025-04-01_12-00-00_[WIKI]_crawl_all_full"
    members = members_of(storage, crawl_id)
    assert list(members) == [
        "crawl.json",
        "01_files/handbook/files_failed_map.csv",
        "01_files/handbook/files_map.csv",
        "01_files/handbook/sharepoint_map.csv",
        "01_files/other source/sharepoint_map.csv",
        "02_lists/contacts/vectorstore_map.csv",
        "03_sitepages/handbook/files_map.csv",
    ]
    for name in list(members)[1:]:
        assert members[name] == (storage / "crawler" / "WIKI" / name).read_bytes()
    data = json.loads(members["crawl.json"])
    assert list(data) == list(crawls.metadata(crawls.FIRST))
    assert (data["crawl_id"], data["job_id"], data["started_utc"]) == (crawl_id, "jb_42", TIMES[0])
    assert [(s["source_type"], s["source_id"], s["items_total"], len(s["map_files"])) for s in data["sources"]] == [
        ("file_sources", "handbook", 2, 3),
        ("file_sources", "other source", 1, 1),
        ("list_sources", "contacts", 0, 1),
        ("sitepage_sources", "handbook", 0, 1),
    ]
    assert data["sources"][1]["map_files"] == [
        {
            "path": "01_files/other source/sharepoint_map.csv",
            "url": "/v2/crawler/crawls/get?crawl_id=2025-04-01_12-00-00_[WIKI]_crawl_all_full"
            "&file=01_files/other%20source/sharepoint_map.csv",
        }
    ]


def test_the_original_call_works(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERSISTENT_STORAGE_PATH", str(storage))
    crawl_id = create_crawl_archive("WIKI", "crawl", "files", "full", None, None, *TIMES, True, "", [])
    assert crawl_id is not None
    assert (storage / PERSISTENT_STORAGE_PATH_CRAWLS_SUBFOLDER / f"{crawl_id}.zip").is_file()
    monkeypatch.delenv("PERSISTENT_STORAGE_PATH")
    with pytest.raises(ValueError, match="PERSISTENT_STORAGE_PATH"):
        create_crawl_archive("WIKI", "crawl", "files", "full", None, None, *TIMES, True, "", [])


def test_what_the_caller_says_of_sources_is_kept(storage: Path) -> None:
    told = {**crawls.source("handbook", 99, 7), "note": "more"}
    missing = {"source_type": "list_sources", "source_id": "gone"}
    crawl_id = create(storage, scope="files", sources=[told, missing])
    sources = json.loads(members_of(storage, crawl_id)["crawl.json"])["sources"]
    assert (sources[0]["items_total"], sources[0]["note"], len(sources[0]["map_files"])) == (99, "more", 3)
    assert (sources[1]["source_id"], sources[1]["items_failed"], sources[1]["map_files"]) == ("gone", 0, [])
    assert [source["source_id"] for source in sources] == ["handbook", "gone", "other source"]


@pytest.mark.parametrize(
    ("scope", "source_id", "folders"),
    [
        ("files", None, {"01_files/handbook", "01_files/other source"}),
        ("lists", None, {"02_lists/contacts"}),
        ("all", "handbook", {"01_files/handbook", "03_sitepages/handbook"}),
        ("files", "other source", {"01_files/other source"}),
        ("lists", "handbook", set()),
        ("files", "hand", set()),
    ],
)
def test_scopes_and_sources(storage: Path, scope: str, source_id: str | None, folders: set[str]) -> None:
    members = members_of(storage, create(storage, scope=scope, source_id=source_id))
    assert {name.rpartition("/")[0] for name in members} - {""} == folders
    assert json.loads(members["crawl.json"])["source_id"] == source_id


def test_links_and_odd_things_are_left_out(storage: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = storage / "crawler" / "WIKI" / "02_lists" / "contacts"
    os.symlink(storage / "secret", source / "link_map.csv")
    (storage / "secret").write_bytes(b"secret")
    os.symlink(source, source.parent / "linked source")
    (source / "folder_map.csv").mkdir()
    os.mkfifo(source / "fifo_map.csv")
    (source / "back\\slash_map.csv").write_bytes(b"")
    assert list(members_of(storage, create(storage, scope="lists"))) == [
        "crawl.json",
        "02_lists/contacts/vectorstore_map.csv",
    ]
    assert "slash_map.csv is left out" in caplog.text


def test_a_failed_crawl_is_archived(storage: Path) -> None:
    data = json.loads(members_of(storage, create(storage, ok=False, error="it broke"))["crawl.json"])
    assert (data["ok"], data["error"]) == (False, "it broke")


def test_without_map_files_there_is_only_crawl_json(tmp_path: Path) -> None:
    assert list(members_of(tmp_path, create(tmp_path))) == ["crawl.json"]


def test_what_was_made_can_be_read(storage: Path) -> None:
    crawl_id = create(storage)
    found = Storage(str(storage))
    assert found.facts(found.item(str(crawl_id))).metadata is not None
    archive = CrawlArchive(str(storage / "crawls" / f"{crawl_id}.zip"), parse_id(str(crawl_id)))
    assert (archive.warnings, archive.metadata().warnings, list(archive.check_all())) == ([], [], [])
    archive.close()
    assert os.listdir(storage / "crawls") == [f"{crawl_id}.zip"]


def test_a_new_archive_has_the_mode_of_any_new_file(storage: Path) -> None:
    before = os.umask(0o027)
    try:
        crawl_id = create(storage)
    finally:
        os.umask(before)
    assert (storage / "crawls" / f"{crawl_id}.zip").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "wrong",
    [
        {"domain_id": "a b"},
        {"domain_id": "../x"},
        {"domain_id": ""},
        {"domain_id": "a]"},
        {"action": "CRAWL"},
        {"scope": "pages"},
        {"mode": ""},
        {"source_id": "a/b"},
        {"source_id": ".."},
        {"source_id": ""},
        {"sources": {}},
        {"sources": ["x"]},
        {"sources": [{"x": float("nan")}]},
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_what_cannot_be_is_refused_and_nothing_written(storage: Path, wrong: dict[str, Any], dry_run: bool) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        create(storage, **wrong, dry_run=dry_run)
    assert not (storage / "crawls").exists()


def test_a_dry_run_writes_nothing(storage: Path) -> None:
    assert create(storage, dry_run=True) is None
    assert not (storage / "crawls").exists()


def test_ids() -> None:
    assert generate_crawl_id("D", "embed_data", "lists", "full", now=NOW) == "2025-04-01_12-00-00_[D]_embed_lists_full"
    assert generate_crawl_id("D", "crawl", "all", "full", now=datetime(2025, 1, 2)).startswith("2025-01-02_00-00-00_")
    assert parse_id(generate_crawl_id("D", "crawl", "all", "full")) is not None
    with pytest.raises(ValueError, match="domain_id"):
        generate_crawl_id("[", "crawl", "all", "full")


# -- names that are taken --


def test_the_next_free_second_is_taken(storage: Path) -> None:
    ids = [create(storage) for _ in range(3)]
    assert ids == [f"2025-04-01_12-00-0{second}_[WIKI]_crawl_all_full" for second in range(3)]
    for crawl_id in ids:
        data = json.loads(members_of(storage, crawl_id)["crawl.json"])
        assert data["crawl_id"] == crawl_id
        assert str(crawl_id) in data["sources"][0]["map_files"][0]["url"]


def test_when_all_names_are_taken_it_says_so(storage: Path, caplog: pytest.LogCaptureFixture) -> None:
    (storage / "crawls").mkdir()
    for second in range(120):
        name = f"2025-04-01_12-0{second // 60}-{second % 60:02}_[WIKI]_crawl_all_full.zip"
        (storage / "crawls" / name).write_bytes(b"taken")
    with pytest.raises(ArchiveError, match="archive error"):
        create(storage)
    assert len(os.listdir(storage / "crawls")) == 120
    assert "archive error" in caplog.text


def test_many_at_once_never_meet(storage: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: create(storage), range(24)))
    assert len(set(ids)) == 24
    assert sorted(os.listdir(storage / "crawls")) == sorted(f"{crawl_id}.zip" for crawl_id in ids)
    assert all(json.loads(members_of(storage, crawl_id)["crawl.json"])["crawl_id"] == crawl_id for crawl_id in ids)


def test_a_name_taken_at_the_last_moment_is_left_alone(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = storage / "crawls" / "2025-04-01_12-00-00_[WIKI]_crawl_all_full.zip"
    real = durable.sync_file

    def sync_and_be_late(fd: int) -> None:
        real(fd)
        if not first.exists():
            first.write_bytes(b"somebody else's")

    monkeypatch.setattr(durable, "sync_file", sync_and_be_late)
    assert str(create(storage)).startswith("2025-04-01_12-00-01")
    assert first.read_bytes() == b"somebody else's"


def test_without_hard_links_it_works_too(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", no_links)
    assert [str(create(storage))[:19] for _ in range(2)] == ["2025-04-01_12-00-00", "2025-04-01_12-00-01"]
    assert all(zipfile.is_zipfile(path) for path in (storage / "crawls").iterdir())


# -- durability --


def test_the_order_of_what_makes_it_durable(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    real_sync, real_folder, real_link = durable.sync_file, durable.sync_folder, os.link
    (storage / "crawls").mkdir()
    monkeypatch.setattr(durable, "sync_file", lambda fd: (done.append("file"), real_sync(fd)))
    monkeypatch.setattr(durable, "sync_folder", lambda path: (done.append("folder"), real_folder(path)))
    monkeypatch.setattr(os, "link", lambda old, new: (done.append("link"), real_link(old, new)))
    create(storage)
    assert done == ["file", "link", "folder"]


@pytest.mark.parametrize("call", ["open", "link", "sync_file", "sync_folder"])
def test_a_disk_that_fails_leaves_no_archive(
    storage: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    (storage / "crawls").mkdir()

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if call == "open":
        monkeypatch.setattr(publishing, "new_temporary", fail)
    elif call == "link":
        monkeypatch.setattr(os, "link", fail)
    else:
        monkeypatch.setattr(durable, call, fail)
    with pytest.raises(OutOfSpace, match="archive error"):
        create(storage)
    left = os.listdir(storage / "crawls")
    assert all(zipfile.is_zipfile(storage / "crawls" / name) for name in left)  # whole, if at all
    assert bool(left) == (call == "sync_folder")
    assert "archive error" in caplog.text


def test_leftovers_are_removed_unless_somebody_writes_them(tmp_path: Path) -> None:
    fd, mine = publishing.new_temporary(str(tmp_path))
    stale = tmp_path / ".crawl-0123.archivefs-new"
    stale.write_bytes(b"half")
    (tmp_path / "other").write_bytes(b"")
    assert publishing.remove_leftovers(str(tmp_path)) == [stale.name]
    assert sorted(os.listdir(tmp_path)) == sorted([Path(mine).name, "other"])
    os.close(fd)
    assert publishing.remove_leftovers(str(tmp_path)) == [Path(mine).name]


CREATOR = """
import sys
from archivefs.formats.crawls import create_crawl_archive
print("go", flush=True)
while True:
    create_crawl_archive("WIKI", "crawl", "all", "full", None, None, "a", "b", True, "", [], storage=sys.argv[1])
"""


def test_killed_creators_leave_whole_archives_or_none(storage: Path) -> None:
    rows = [crawls.item(number) for number in range(3000)]
    big = storage / "crawler" / "WIKI" / "01_files" / "handbook" / "files_map.csv"
    big.write_bytes(crawls.table(crawls.FILES_COLUMNS, rows))
    for round_number in range(6):
        process = subprocess.Popen([sys.executable, "-c", CREATOR, str(storage)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"go\n"
        time.sleep(0.05 + 0.07 * round_number)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        process.stdout.close()
    for path in (storage / "crawls").glob("*.zip"):
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            assert json.loads(archive.read("crawl.json"))["crawl_id"] == path.stem
    create(storage)
    assert [name for name in os.listdir(storage / "crawls") if not name.endswith(".zip")] == []
