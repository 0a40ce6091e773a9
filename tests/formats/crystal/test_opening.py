"""Opening: every state a database can be left in, nothing changed beside it, and refusals that say why."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from archivefs.errors import UnreadableArchive
from archivefs.format import Match, Probe
from archivefs.formats.crystal import FORMAT
from archivefs.formats.crystal.recipe import Way, look_at
from tests.formats.crystal.projects import SITE, change, fingerprint, names, opened, project, read
from tests.samples import crystal
from tests.samples.crystal import ProjectWriter
from tests.walking import walk


def small(tmp_path: Path) -> Path:
    return project(tmp_path, lambda writer: writer.fetch(f"{SITE}/a", b"a"))


def killed_writer(path: Path, *statements: str) -> None:
    """A program that is killed in the middle of its work."""
    code = "import os, sqlite3, sys\nc = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    code += "".join(f"c.execute({statement!r})\n" for statement in statements)
    code += "os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code, str(path / "database.sqlite")], check=False)


def way_of(path: Path) -> Way:
    database = path / "database.sqlite"
    with open(database, "rb") as file:
        return look_at(file.fileno(), str(database)).way


ADD = "insert into resource values (50, 'https://site.example/new')"
ADD_REVISION = "insert into resource_revision (id, resource_id, error, metadata) values (51, 50, 'null', 'null')"


def rollback(path: Path) -> None:
    change(path, ADD, ADD_REVISION)


def killed_with_a_log(path: Path) -> None:
    killed_writer(path, "pragma journal_mode=wal", ADD, ADD_REVISION)


def log_without_shared_memory(path: Path) -> None:
    killed_with_a_log(path)
    (path / "database.sqlite-shm").unlink()


def shared_memory_of_rubbish(path: Path) -> None:
    killed_with_a_log(path)
    (path / "database.sqlite-shm").write_bytes(os.urandom(32768))


def log_header_alone(path: Path) -> None:
    rollback(path)
    change(path, "pragma journal_mode=wal")


def log_header_with_shared_memory_alone(path: Path) -> None:
    log_header_alone(path)
    (path / "database.sqlite-shm").write_bytes(bytes(32768))


def empty_log(path: Path) -> None:
    log_header_alone(path)
    (path / "database.sqlite-wal").touch()


def hot_journal(path: Path) -> None:
    rollback(path)
    killed_writer(
        path,
        "pragma cache_size=1",
        "create table if not exists pad (x)",
        "insert into pad select hex(randomblob(500)) from (select 1 union select 2), resource",
        "pragma cache_spill=1",
        "begin immediate",
        "update resource set url = url || '-half-written'",
        "insert into pad select hex(randomblob(3000)) from pad, pad, pad",
    )
    assert (path / "database.sqlite-journal").stat().st_size


@pytest.mark.parametrize(
    ("leave", "way"),
    [
        (rollback, Way.PLAIN),
        (killed_with_a_log, Way.SHARED_LOG),
        (log_without_shared_memory, Way.COPY),
        (shared_memory_of_rubbish, Way.SHARED_LOG),
        (log_header_alone, Way.IMMUTABLE),
        (log_header_with_shared_memory_alone, Way.IMMUTABLE),
        (empty_log, Way.IMMUTABLE),
        (hot_journal, Way.PLAIN),
    ],
)
def test_every_row_is_seen_and_nothing_is_changed(tmp_path: Path, leave: object, way: Way) -> None:
    path = small(tmp_path)
    leave(path)  # type: ignore[operator]
    before = fingerprint(path)
    assert way_of(path) is way
    with opened(path) as tree:
        assert names(tree, "web/https/site.example") == ["a", "new"]
        for found in walk(tree):
            found.node.xattrs()
    time.sleep(0.1)
    assert fingerprint(path) == before


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    path = small(tmp_path)
    log_without_shared_memory(path)
    with opened(path) as tree:
        assert names(tree, "web/https/site.example") == ["a", "new"]
        (private,) = temporary.iterdir()
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert list(temporary.iterdir()) == []


def test_a_copy_that_does_not_fit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = small(tmp_path)
    log_without_shared_memory(path)
    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: usage)
    with pytest.raises(Exception, match="name a larger folder in TMPDIR"), opened(path):
        pass


# -- what a project is --


def test_a_project_is_its_folder_its_database_or_its_opener(tmp_path: Path) -> None:
    path = small(tmp_path)
    other = tmp_path / "renamed"
    for name in (path, path / "database.sqlite", path / "OPEN ME.crystalopen"):
        assert FORMAT.match(Probe(str(name))) is Match.YES
        with opened(name) as tree:
            assert read(tree, "web/https/site.example/a") == b"a"
    path.rename(other)
    assert FORMAT.match(Probe(str(other))) is Match.YES
    with opened(f"{other}/") as tree:
        assert read(tree, "web/https/site.example/a") == b"a"


def test_what_is_no_project_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    assert FORMAT.match(Probe(str(tmp_path))) is Match.NO
    assert FORMAT.match(Probe(str(tmp_path / "notes.txt"))) is Match.NO


def partial(path: Path) -> Path:
    return path.rename(path.with_suffix(".crystalproj-partial"))


def no_database(path: Path) -> None:
    (path / "database.sqlite").unlink()


def empty_database(path: Path) -> None:
    (path / "database.sqlite").write_bytes(b"")


def foreign_database(path: Path) -> None:
    (path / "database.sqlite").write_bytes(b"not a database\n" * 100)


def cut_database(path: Path) -> None:
    os.truncate(path / "database.sqlite", 5000)


def link_for_a_database(path: Path) -> None:
    (path / "database.sqlite").rename(path / "elsewhere.sqlite")
    (path / "database.sqlite").symlink_to("elsewhere.sqlite")


def fifo_for_a_database(path: Path) -> None:
    no_database(path)
    os.mkfifo(path / "database.sqlite")


def link_for_a_log(path: Path) -> None:
    (path / "database.sqlite-wal").symlink_to("/etc/passwd")


def too_new(path: Path) -> None:
    change(path, "update project_property set value = '4' where name = 'major_version'")


def version_zero(path: Path) -> None:
    change(path, "update project_property set value = '0' where name = 'major_version'")


def version_word(path: Path) -> None:
    change(path, "update project_property set value = 'two' where name = 'major_version'")


def no_resources(path: Path) -> None:
    change(path, "drop table resource")


def no_metadata(path: Path) -> None:
    change(path, "drop table resource_revision", "create table resource_revision (id integer primary key, x, error)")


def sixteen_bits(path: Path) -> None:
    no_database(path)
    change(path, "pragma encoding='UTF-16'", "create table resource (id integer primary key, url text unique)")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (partial, "unfinished copy"),
        (no_database, "there is no database.sqlite in it"),
        (empty_database, "database.sqlite is empty"),
        (foreign_database, "not a SQLite database"),
        (cut_database, "malformed"),
        (link_for_a_database, "not a regular file"),
        (fifo_for_a_database, "not a regular file"),
        (link_for_a_log, "not a regular file"),
        (too_new, "its version is 4, and only 1 to 3 are known"),
        (version_zero, "not a number"),
        (version_word, "'two', not a number"),
        (no_resources, "has no table resource"),
        (no_metadata, "has no column metadata"),
        (sixteen_bits, "not UTF-8"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(tmp_path: Path, spoil: object, reason: str) -> None:
    path = small(tmp_path)
    path = spoil(path) or path  # type: ignore[operator]
    with pytest.raises(UnreadableArchive, match=reason) as caught, opened(path):
        pass
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableArchive, match="No such file"), opened(tmp_path / "none.crystalproj"):
        pass
    (tmp_path / "x.txt").write_text("x")
    with pytest.raises(UnreadableArchive, match="neither a Crystal project"), opened(tmp_path / "x.txt"):
        pass


# -- what is missing is done without --


def test_side_tables_may_be_missing(tmp_path: Path) -> None:
    path = crystal.write(tmp_path / "p.crystalproj")
    change(path, "drop table resource_group", "drop table root_resource", "drop table alias")
    with opened(path) as tree:
        assert [entry.name for entry in tree.root().entries()] == [
            "web",
            "history",
            "by-id",
            "errors",
            "site",
            "project.json",
        ]
        assert tree.facts()["missing_tables"] == ["root_resource", "resource_group", "alias"]


def test_without_properties_it_is_version_1(tmp_path: Path) -> None:
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/a", b"a"), major=1)
    change(path, "drop table project_property")
    with opened(path) as tree:
        assert read(tree, "web/https/site.example/a") == b"a"


def test_the_tables_may_be_named_in_capitals_and_have_more_columns(tmp_path: Path) -> None:
    path = small(tmp_path)
    change(
        path,
        "alter table resource rename to RESOURCE_",
        "alter table RESOURCE_ rename to RESOURCE",
        "alter table RESOURCE add column extra",
        "alter table resource_revision add column more default 5",
    )
    with opened(path) as tree:
        assert read(tree, "web/https/site.example/a") == b"a"


def test_an_index_of_a_known_name_that_is_another_one_is_not_used(tmp_path: Path) -> None:
    """``indexed by`` would fail: the index says nothing about errors."""

    def fill(writer: ProjectWriter) -> None:
        writer.fetch(f"{SITE}/a", b"a")
        writer.fail(f"{SITE}/a")

    path = project(tmp_path, fill)
    change(
        path,
        "drop index resource_revision__error_not_null",
        "create index resource_revision__error_not_null on resource_revision (metadata)",
        "drop index resource_revision__status_code",
        "create index resource_revision__status_code on resource_revision (error) where id > 7",
    )
    with opened(path) as tree:
        assert tree.project.edition().schema.indexes == {"resource_revision__request_cookie_not_null"}
        assert read(tree, "web/https/site.example/a") == b"a"
        assert names(tree, "errors/fetch") == ["2.json"]
        assert names(tree, "errors/status") == []


def test_a_url_index_in_another_order_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = small(tmp_path)
    (path / "database.sqlite").unlink()
    database = sqlite3.connect(path / "database.sqlite")
    database.executescript(
        "create table resource (id integer primary key, url text unique collate nocase);"
        "create table resource_revision (id integer primary key, resource_id, error, metadata);"
        "insert into resource values (1, 'https://site.example/B'), (2, 'https://site.example/a');"
        "insert into resource_revision values (1, 1, 'null', 'null'), (2, 2, 'null', 'null');"
    )
    database.close()
    with opened(path) as tree:
        assert names(tree, "web/https/site.example") == ["B", "a"]
    assert "lacks an index" in caplog.text
