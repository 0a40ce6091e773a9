"""A project that Crystal has open: its commits are seen, and we are never in its way."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from archivefs.errors import ArchiveError, NotFound, SourceBusy, SourceChanged
from archivefs.formats.crystal import database as database_module
from archivefs.formats.crystal.tree import CrystalTree
from tests.formats.crystal.projects import SITE, change, names, node, opened, project, read
from tests.samples.crystal import ProjectWriter, body_path
from tests.walking import problems_of, walk

WEB = "web/https/site.example"


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the real times."""
    monkeypatch.setattr(database_module, "LOOK_INTERVAL_S", 0.1)
    monkeypatch.setattr(database_module, "IDLE_S", 0.1)


def small(tmp_path: Path) -> Path:
    return project(tmp_path, lambda writer: writer.fetch(f"{SITE}/1", b"1"))


def add(database: sqlite3.Connection, path: Path, number: int) -> None:
    """A new page, as Crystal adds it: row, commit, body."""
    database.execute("insert into resource values (?, ?)", (number, f"{SITE}/{number}"))
    row = (number, number, "null", '{"status_code": 200, "headers": []}')
    database.execute("insert into resource_revision (id, resource_id, error, metadata) values (?, ?, ?, ?)", row)
    database.commit()
    place = body_path(path, number, 2)
    place.parent.mkdir(parents=True, exist_ok=True)
    half = path / "tmp" / f"{number}.body"
    half.write_bytes(b"%d" % number)
    half.rename(place)


def wait_for(condition: object, seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_commit_is_a_new_generation(tmp_path: Path, mode: str) -> None:
    path = small(tmp_path)
    with opened(path) as tree:
        before = tree.generation()
        assert names(tree, WEB) == ["1"]
        database = sqlite3.connect(path / "database.sqlite")
        database.execute(f"pragma journal_mode={mode}")
        for number in (2, 3, 4):
            add(database, path, number)
            wait_for(lambda: tree.generation() > before)  # noqa: B023
            before = tree.generation()
            assert names(tree, WEB) == [str(i) for i in range(1, number + 1)]
            assert read(tree, f"{WEB}/{number}") == b"%d" % number
        database.close()
        assert tree.generation() >= before
        assert names(tree, WEB) == ["1", "2", "3", "4"]


def test_without_a_change_the_generation_stays(tmp_path: Path) -> None:
    with opened(small(tmp_path)) as tree:
        before = tree.generation()
        for _ in range(3):
            time.sleep(0.15)
            list(walk(tree))
        assert tree.generation() == before


def test_an_old_ident_leads_to_the_same_directory_when_it_grows(tmp_path: Path) -> None:
    path = small(tmp_path)
    with opened(path) as tree:
        ident = node(tree, WEB).ident
        change(path, "insert into resource values (9, 'https://site.example/0')")
        wait_for(lambda: node(tree, WEB).ident != ident)
        assert [entry.name for entry in tree.node(ident).entries()] == ["1"]  # type: ignore[attr-defined]


def test_what_is_deleted_is_stale(tmp_path: Path) -> None:
    path = small(tmp_path)
    with opened(path) as tree:
        ident = node(tree, f"{WEB}/1").ident
        before = tree.generation()
        change(path, "delete from resource_revision", "delete from resource")
        wait_for(lambda: tree.generation() > before)
        with pytest.raises(NotFound):
            tree.node(ident)
        assert names(tree, "web") == []


def test_crystal_opens_writes_and_closes_beside_us(tmp_path: Path) -> None:
    """Its open and close change the journal mode, which needs the database for itself."""
    path = small(tmp_path)
    with opened(path) as tree:
        assert names(tree, WEB) == ["1"]
        for number in (2, 3):
            wait_for(lambda: not tree.project.database._idle)
            database = sqlite3.connect(path / "database.sqlite", timeout=1)
            assert database.execute("pragma journal_mode=wal").fetchone() == ("wal",)
            add(database, path, number)
            wait_for(lambda: len(names(tree, WEB)) == number)  # noqa: B023
            wait_for(lambda: not tree.project.database._idle)
            assert database.execute("pragma journal_mode=delete").fetchone() == ("delete",)
            database.close()
            assert sorted(os.listdir(path)) == ["OPEN ME.crystalopen", "database.sqlite", "revisions", "tmp"]
        assert names(tree, WEB) == ["1", "2", "3"]


def test_no_connection_is_kept_while_idle(tmp_path: Path) -> None:
    path = small(tmp_path)
    with opened(path) as tree:
        listing = node(tree, WEB).entries()  # type: ignore[attr-defined]
        next(listing)  # a listing given up half-way holds nothing either
        database = str(path / "database.sqlite")

        def held() -> int:
            links = []
            for number in os.listdir("/proc/self/fd"):
                try:
                    links.append(os.readlink(f"/proc/self/fd/{number}"))
                except OSError:
                    continue
            return links.count(database)

        wait_for(lambda: held() == 1)  # the one that is only looked through


def test_crystal_adds_columns_and_indexes_under_us(tmp_path: Path) -> None:
    def fill(writer: ProjectWriter) -> None:
        writer.fetch(f"{SITE}/1", b"1", status=404)
        writer.fail(f"{SITE}/1")

    path = project(tmp_path, fill, release="1.0")
    with opened(path) as tree:
        assert names(tree, "errors/status") == ["404"]
        from tests.samples.crystal import UPGRADES

        for statements in UPGRADES.values():
            change(path, *(statement for statement in statements.split(";") if statement.strip()))
            assert names(tree, "errors/fetch") == ["2.json"]
            assert names(tree, "errors/status") == ["404"]
        wait_for(lambda: "aliases" in [entry.name for entry in tree.root().entries()])
        change(path, "drop index resource_revision__error_not_null")
        assert read(tree, f"{WEB}/1") == b"1"
        with pytest.raises(SourceChanged):
            tree.project.rows("errors_page", 0, 1)
        assert names(tree, "errors/fetch") == ["2.json"]


def test_a_locked_database_is_waited_for_but_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from archivefs.formats.crystal import connection

    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.2)
    path = small(tmp_path)
    with opened(path) as tree:
        database = sqlite3.connect(path / "database.sqlite", isolation_level=None)
        wait_for(lambda: not tree.project.database._idle)
        database.execute("begin exclusive")
        start = time.monotonic()
        with pytest.raises(SourceBusy, match="locked by another program"):
            names(tree, WEB)
        assert time.monotonic() - start < 3
        database.execute("rollback")
        database.close()
        assert names(tree, WEB) == ["1"]


def test_a_hot_journal_appears_and_goes(tmp_path: Path) -> None:
    """A writer dies in the middle of a transaction while we look; the next one rolls back."""
    path = small(tmp_path)
    with opened(path) as tree:
        assert names(tree, WEB) == ["1"]
        code = (
            "import os, sqlite3, sys\n"
            "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
            "c.execute('pragma cache_size=1'); c.execute('begin immediate')\n"
            "c.execute(\"update resource set url = url || '-half'\")\n"
            "c.execute('create table pad (x)')\n"
            "for _ in range(200): c.execute('insert into pad values (hex(randomblob(2000)))')\n"
            "os.kill(os.getpid(), 9)"
        )
        subprocess.run([sys.executable, "-c", code, str(path / "database.sqlite")], check=False)
        assert (path / "database.sqlite-journal").stat().st_size
        assert names(tree, WEB) == ["1"]
        database = sqlite3.connect(path / "database.sqlite")
        add(database, path, 2)  # rolls back first
        database.close()
        wait_for(lambda: names(tree, WEB) == ["1", "2"])


def test_the_database_is_replaced_by_another(tmp_path: Path) -> None:
    path = small(tmp_path)
    other = project(tmp_path / "other", lambda writer: writer.fetch(f"{SITE}/2", b"2"))
    with opened(path) as tree:
        assert names(tree, WEB) == ["1"]
        (other / "database.sqlite").replace(path / "database.sqlite")
        wait_for(lambda: names(tree, WEB) == ["2"])


def test_a_database_that_becomes_rubbish_is_an_error_and_heals(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = small(tmp_path)
    good = (path / "database.sqlite").read_bytes()
    with opened(path) as tree:
        assert names(tree, WEB) == ["1"]
        wait_for(lambda: not tree.project.database._idle)
        (path / "database.sqlite").write_bytes(good[:100] + b"rubbish!" * 2000)
        with pytest.raises(ArchiveError):
            names(tree, WEB)
        time.sleep(0.15)
        with pytest.raises(ArchiveError):
            names(tree, WEB)
        (path / "database.sqlite").write_bytes(good)
        time.sleep(0.15)
        assert names(tree, WEB) == ["1"]
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_eight_threads_walk_while_crystal_writes(tmp_path: Path, mode: str) -> None:
    """Whatever is listed can be read, and every page that was there stays there."""
    path = project(tmp_path, lambda writer: [writer.fetch(f"{SITE}/{i}", b"%d" % i) for i in range(1, 51)])
    stop = threading.Event()
    written = [50]

    def write() -> None:
        database = sqlite3.connect(path / "database.sqlite", timeout=60)
        database.execute(f"pragma journal_mode={mode}")
        while not stop.is_set() and written[0] < 300:
            add(database, path, written[0] + 1)
            written[0] += 1
            time.sleep(0.002)
        database.close()

    with opened(path) as tree:

        def look(_number: int) -> None:
            end = time.monotonic() + 60
            while written[0] < 120 and time.monotonic() < end:
                _look_around(tree, written[0])

        writer = threading.Thread(target=write)
        writer.start()
        try:
            assert problems_of(look) == []
        finally:
            stop.set()
            writer.join()
        assert written[0] >= 120
        tree.project.database.look()
        assert len(names(tree, WEB)) == written[0]


def _look_around(tree: CrystalTree, at_least: int) -> None:
    found = names(tree, WEB)
    assert len(found) == len(set(found))
    assert {str(number) for number in range(1, 51)} <= set(found)
    for name in found[:: max(1, len(found) // 20)]:
        try:
            assert read(tree, f"{WEB}/{name}") == name.encode()
        except ArchiveError as error:
            assert "lost" in str(error)  # the row is there, its body comes a moment later
            assert int(name) >= at_least
