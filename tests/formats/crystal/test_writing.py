"""Writing to projects: what becomes a revision, what is refused, and what a crash leaves."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from archivefs.errors import (
    AlreadyExists,
    ArchiveError,
    DirectoryNotEmpty,
    FileExpected,
    NotFound,
    NotPermitted,
    SourceBusy,
    UsageError,
)
from archivefs.formats.crystal import FORMAT, open_crystal
from archivefs.formats.crystal.media import Medium
from archivefs.formats.crystal.newurls import is_scratch, new_url
from archivefs.formats.crystal.tree import CrystalTree
from archivefs.formats.crystal.urls import Alias
from archivefs.tree import Kind, Symlink, Tree, WritableDirectory, WritableFile
from tests.formats.crystal.projects import SITE, opened, opening, project
from tests.formats.crystal.rewriting import (
    body_of,
    check_project,
    make_directories,
    pages,
    put,
    read,
    revisions,
    split,
    writable,
    write,
)
from tests.formats.crystal.test_tree import Contract
from tests.samples import crystal
from tests.samples.crystal import RELEASES, ProjectWriter, body_path, pack_path
from tests.walking import stays_inside, walk

HOST = "https/site.example"


@pytest.fixture(autouse=True)
def _log_is_looked_at(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Each opening for writing says that Crystal is shut out."""
    return caplog


def small(writer: ProjectWriter) -> None:
    writer.fetch(f"{SITE}/", b"<h1>home</h1>")
    writer.fetch(f"{SITE}/page", b"one", headers=[("Content-Type", "text/x-special; charset=utf-8")])
    writer.fetch(f"{SITE}/page", b"two", headers=[("Content-Type", "text/x-special; charset=utf-8")])
    writer.fetch(f"{SITE}/d/x.css", b"x{}", headers=[("Content-Type", "text/css")])
    writer.resource(f"{SITE}/seen")


class TestReadWriteContract(Contract):
    """What holds of a project that is read holds of one that can be written."""

    def open_archive(self, path: Path) -> Tree:
        return open_crystal(str(path), replace(opening(), read_write=True))

    def test_symbolic_links_stay_inside(self, tree: Tree) -> None:
        """Those of the tree that only reads lead to what is in the place of its own ``web/``."""
        for parts, _, node, _ in walk(tree):
            if isinstance(node, Symlink):
                assert stays_inside(node.target(), depth=len(parts) - 1), parts


# -- a revision --


@pytest.mark.parametrize("major", [None, 1, 2, 3])
@pytest.mark.parametrize("release", RELEASES)
def test_a_written_file_is_a_new_revision(tmp_path: Path, major: int | None, release: str) -> None:
    path = project(tmp_path, small, major=major, release=release)
    before = revisions(path)
    with writable(path) as tree:
        put(tree, f"{HOST}/page", b"three")
        put(tree, f"{HOST}/new.html", b"<p>new")
        put(tree, f"{HOST}/seen", b"at last")
        assert read(tree, f"web/{HOST}/page") == b"three"
        assert read(tree, f"history/{HOST}/page^revs/2") == b"one"
        assert read(tree, f"by-id/{before[-1].id + 1}") == b"three"
    after = revisions(path)
    assert after[: len(before)] == before
    assert [(stored.id, stored.url, stored.body) for stored in after[len(before) :]] == [
        (5, f"{SITE}/page", b"three"),
        (6, f"{SITE}/new.html", b"<p>new"),
        (7, f"{SITE}/seen", b"at last"),
    ]
    check_project(path)
    assert os.listdir(path / "tmp") == []
    assert os.listdir(tmp_path) == ["p.crystalproj"]


def test_what_the_row_says(tmp_path: Path) -> None:
    path = project(tmp_path, small)
    with writable(path) as tree:
        put(tree, f"{HOST}/page", b"three")
        put(tree, f"{HOST}/new.html", b"<p>new")
        put(tree, f"{HOST}/unknown", b"?")
    kept, new, unknown = revisions(path)[-3:]
    assert kept.headers["Content-Type"] == "text/x-special; charset=utf-8"
    assert new.headers["Content-Type"] == "text/html"
    assert "Content-Type" not in unknown.headers
    for stored in (kept, new, unknown):
        assert stored.headers["X-Archivefs"] == "written"
        assert stored.metadata is not None
        assert (stored.metadata["status_code"], stored.metadata["http_version"]) == (200, 11)
        assert stored.headers["Date"].endswith(" GMT")
    with closing(sqlite3.connect(path / "database.sqlite")) as database:
        cookies = database.execute("select count(*) from resource_revision where request_cookie is not null")
        assert cookies.fetchone() == (0,)


def test_one_revision_at_the_last_close(tmp_path: Path) -> None:
    path = project(tmp_path, small)
    with writable(path) as tree:
        directory, name = split(tree, f"{HOST}/page")
        file = directory.child(name)
        assert isinstance(file, WritableFile)
        writer = file.open_writer(truncate=False)
        writer.write_at(3, b" and more")
        writer.sync()
        writer.sync()
        writer.truncate(7)
        assert len(revisions_held(tree)) == 4
        assert list(tree.pending()) == [("changed", ("web", "https", "site.example", "page"))]
        writer.finish()
        assert list(tree.pending()) == []
        assert file.attributes().size == 7
        writer.write_at(0, b"T")  # somebody has opened it again before it was closed
        writer.finish()
        writer.finish()
        writer.close()
    assert [stored.body for stored in revisions(path)[-2:]] == [b"two and", b"Two and"]


def revisions_held(tree) -> list[object]:
    """The rows as the one who holds the database sees them."""
    return tree.base.project.database.rows("select id from resource_revision")


def test_opening_without_writing_changes_nothing(tmp_path: Path) -> None:
    path = project(tmp_path, small)
    before = (path / "database.sqlite").read_bytes()
    with writable(path) as tree:
        file = tree.lookup(("web", "https", "site.example", "page"))
        assert isinstance(file, WritableFile)
        writer = file.open_writer(truncate=False)
        writer.sync()
        writer.finish()
        writer.close()
    assert (path / "database.sqlite").read_bytes() == before


def test_large_content_is_never_changed_where_it_is_stored(tmp_path: Path) -> None:
    path = project(tmp_path, small)
    data = os.urandom(200_000)
    with writable(path) as tree:
        put(tree, f"{HOST}/big.bin", data)
        file = tree.lookup(("web", "https", "site.example", "big.bin"))
        assert isinstance(file, WritableFile)
        writer = file.open_writer(truncate=False)
        writer.write_at(5, b"changed")
        writer.finish()
        writer.write_at(100_000, b"again")
        writer.finish()
        writer.close()
    first, second, third = (stored.body for stored in revisions(path)[-3:])
    changed = data[:5] + b"changed" + data[12:]
    assert (first, second) == (data, changed)
    assert third == changed[:100_000] + b"again" + changed[100_005:]
    check_project(path)


@pytest.mark.parametrize("major", [1, 2, 3])
def test_a_body_without_a_row_is_never_taken_for_a_new_one(tmp_path: Path, major: int) -> None:
    path = project(tmp_path, small, major=major)
    stale = body_path(path, 5, major)
    stale.write_bytes(b"stale")
    with writable(path) as tree:
        put(tree, f"{HOST}/page", b"three")
    assert revisions(path)[-1].id == 6
    assert stale.read_bytes() == b"stale"


def test_an_entry_of_a_pack_without_a_row_is_passed_over(tmp_path: Path) -> None:
    path = packed(tmp_path)
    with closing(sqlite3.connect(path / "database.sqlite")) as database:
        database.execute("delete from resource_revision where id >= 30")
        database.commit()
    with writable(path) as tree:
        put(tree, f"{HOST}/n1", b"new")
    assert revisions(path)[-1].id == 36  # 30 and 31 are in the pack, 32 to 35 lie there as files
    assert body_of(path, 31, 3) == b"body 31"


def packed(tmp_path: Path) -> Path:
    """A project of version 3 with thirty-five revisions, of which sixteen are in a pack."""
    writer = ProjectWriter(major=3)
    for number in range(1, 36):
        writer.fetch(f"{SITE}/n{number}", f"body {number}".encode())
    path = writer.write(tmp_path / "p.crystalproj")
    writer.pack(path, 16)
    return path


# -- names --


@pytest.mark.parametrize(
    "name",
    [
        ".page.swp",
        ".x.swo",
        "4913",
        "page~",
        ".#page",
        "._page",
        ".DS_Store",
        ".goutputstream-AB12",
        ".page.Ab3x9Z",
        "sedAb3x9Z",
    ],
)
def test_scratch_names_are_never_stored(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert is_scratch(name)
    path = project(tmp_path, small)
    before = revisions(path)
    with writable(path) as tree:
        put(tree, f"{HOST}/{name}", b"scratch")
        assert read(tree, f"web/{HOST}/{name}") == b"scratch"
        directory, _ = split(tree, f"{HOST}/{name}")
        assert name in [entry.name for entry in directory.entries()]
        directory.remove(name, kind=Kind.FILE)
        put(tree, f"{HOST}/{name}", b"left")
    assert revisions(path) == before
    assert f"not stored, since editors name their scratch files so: {name}" in caplog.text


@pytest.mark.parametrize("name", ["page", "index.html", "page.swp", "sed.html", "a.b.c", ".well-known", "x.abcdef"])
def test_other_names_are_no_scratch(name: str) -> None:
    assert not is_scratch(name)


def test_a_scratch_file_renamed_is_written_there(tmp_path: Path) -> None:
    path = project(tmp_path, small)
    with writable(path) as tree:
        directory, _ = split(tree, f"{HOST}/x")
        for data, name in ((b"small", "page"), (b"large" * 50_000, "fresh.txt")):
            put(tree, f"{HOST}/.{name}.Ab3x9Z", data)
            directory.rename(f".{name}.Ab3x9Z", directory, name, replace=True)
            assert read(tree, f"web/{HOST}/{name}") == data
            assert f".{name}.Ab3x9Z" not in [entry.name for entry in directory.entries()]
    assert pages(path)[f"{SITE}/page"] == b"small"
    assert pages(path)[f"{SITE}/fresh.txt"] == b"large" * 50_000
    check_project(path)


def test_an_editor_moves_a_page_aside_and_writes_it_anew(tmp_path: Path) -> None:
    """As vim does: page to page~, a new page, page~ removed."""
    path = project(tmp_path, small)
    with writable(path) as tree:
        directory, _ = split(tree, f"{HOST}/page")
        directory.rename("page", directory, "page~", replace=True)
        assert "page" not in [entry.name for entry in directory.entries()]
        assert read(tree, f"web/{HOST}/page~") == b"two"
        put(tree, f"{HOST}/page", b"three")
        directory.remove("page~", kind=Kind.FILE)
        assert read(tree, f"web/{HOST}/page") == b"three"
    assert [stored.body for stored in revisions(path) if stored.url == f"{SITE}/page"] == [b"one", b"two", b"three"]


def test_what_was_moved_aside_comes_back(tmp_path: Path) -> None:
    path = project(tmp_path, small)
    before = revisions(path)
    with writable(path) as tree:
        directory, _ = split(tree, f"{HOST}/page")
        directory.rename("page", directory, "page~", replace=True)
        with pytest.raises(NotPermitted):
            directory.remove("page~", kind=Kind.FILE)
        directory.rename("page~", directory, "page", replace=True)
        assert read(tree, f"web/{HOST}/page") == b"two"
        directory.rename("page", directory, "page~", replace=True)  # and an editor that dies now
    assert revisions(path) == before


@pytest.mark.parametrize("name", ["a b", "é", "a%2Fb%zz", "a%41", "x#f", "^5Eb", "a^b", "a^file"])
def test_names_that_are_no_normal_form_are_refused(tmp_path: Path, name: str) -> None:
    path = project(tmp_path, small)
    with writable(path) as tree:
        directory, _ = split(tree, f"{HOST}/x")
        with pytest.raises(NotPermitted):
            directory.create(name, exclusive=True)
        with pytest.raises(NotPermitted):
            directory.make_directory(name)


@pytest.mark.parametrize(
    ("name", "url"), [("a%20b", "/a%20b"), ("q?x=1&u=^2Fb", "/q?x=1&u=/b"), ("^index", "/"), ("e#", "/e#")]
)
def test_names_become_the_urls_they_stand_for(name: str, url: str) -> None:
    assert new_url(b"https://h.example/", name, []) == f"https://h.example{url}".encode()


def test_what_an_alias_would_catch_is_refused(tmp_path: Path) -> None:
    aliases = [Alias(1, "https://www.example/", "https://h.example/", False)]
    with pytest.raises(NotPermitted, match="alias"):
        new_url(b"https://www.example/", "x", aliases)
    path = project(tmp_path, small)
    with writable(path) as tree:
        web = tree.lookup(("web",))
        assert isinstance(web, WritableDirectory)
        for name in ("crystal", "HTTP", "^noscheme", "mailto:", "no scheme"):
            with pytest.raises(NotPermitted):
                web.make_directory(name)


def test_directories_live_in_memory_until_something_is_in_them(tmp_path: Path) -> None:
    path = project(tmp_path, small)
    with writable(path) as tree:
        make_directories(tree, "ftp/files.example/a/b")
        make_directories(tree, f"{HOST}/empty")
        put(tree, "ftp/files.example/a/b/x.txt", b"x")
        directory, _ = split(tree, f"{HOST}/empty")
        with pytest.raises(AlreadyExists):
            directory.make_directory("empty")
        with pytest.raises(AlreadyExists):
            directory.make_directory("page")
        with pytest.raises(FileExpected):
            directory.create("empty", exclusive=False)
        with pytest.raises(DirectoryNotEmpty):
            directory.remove("d", kind=Kind.DIRECTORY)
        directory.rename("empty", directory, "moved", replace=False)
        directory.remove("moved", kind=Kind.DIRECTORY)
        with pytest.raises(NotFound):
            directory.child("moved")
    assert pages(path)["ftp://files.example/a/b/x.txt"] == b"x"
    with opened(path) as tree:
        assert "empty" not in [entry.name for entry in tree.lookup(("web", "https", "site.example")).entries()]  # type: ignore[attr-defined]


# -- renaming and removing --


def test_a_stored_page_keeps_its_url_unless_asked(tmp_path: Path) -> None:
    path = project(tmp_path, small)
    with writable(path) as tree:
        directory, _ = split(tree, f"{HOST}/page")
        with pytest.raises(NotPermitted):
            directory.rename("page", directory, "other", replace=True)
    with writable(path, "rename") as tree:
        directory, _ = split(tree, f"{HOST}/page")
        with pytest.raises(NotPermitted):
            directory.rename("page", directory, "seen", replace=True)  # the URL is known, though never fetched
        directory.rename("page", directory, "other", replace=True)
        assert read(tree, f"web/{HOST}/other") == b"two"
        with pytest.raises(NotFound):
            directory.child("page")
    assert pages(path)[f"{SITE}/other"] == b"two"
    check_project(path)


def test_nothing_is_removed_unless_asked(tmp_path: Path) -> None:
    path = project(tmp_path, small)
    before = revisions(path)
    with writable(path) as tree:
        directory, _ = split(tree, f"{HOST}/page")
        with pytest.raises(NotPermitted, match="-o delete"):
            directory.remove("page", kind=Kind.FILE)
        assert not isinstance(tree.lookup(("history", "https", "site.example", "page^revs")), WritableDirectory)
    assert revisions(path) == before


@pytest.mark.parametrize("major", [1, 2])
def test_removing(tmp_path: Path, major: int) -> None:
    path = project(tmp_path, small, major=major)
    with writable(path, "delete") as tree:
        history = tree.lookup(("history", "https", "site.example", "page^revs"))
        assert isinstance(history, WritableDirectory)
        history.remove("3", kind=Kind.FILE)
        assert read(tree, f"web/{HOST}/page") == b"one"
        directory, _ = split(tree, f"{HOST}/d/x.css")
        directory.remove("x.css", kind=Kind.FILE)
        assert list(directory.entries()) == []  # and it stays, so that rm -r can remove it
        split(tree, f"{HOST}/d")[0].remove("d", kind=Kind.DIRECTORY)
    assert [stored.id for stored in revisions(path)] == [1, 2]
    assert [body_of(path, key, major) is not None for key in (1, 2, 3, 4)] == [True, True, False, False]
    with closing(sqlite3.connect(path / "database.sqlite")) as database:
        assert database.execute("select count(*) from resource").fetchone() == (4,)
    check_project(path)


def test_version_3_never_loses_a_pack(tmp_path: Path) -> None:
    path = packed(tmp_path)
    with writable(path, "delete") as tree:
        directory, _ = split(tree, f"{HOST}/x")
        with pytest.raises(SourceBusy):
            directory.remove("n35", kind=Kind.FILE)
        directory.remove("n20", kind=Kind.FILE)
        directory.remove("n34", kind=Kind.FILE)
        assert read(tree, f"web/{HOST}/n21") == b"body 21"
    found = {stored.id: stored.body for stored in revisions(path)}
    assert found == {n: f"body {n}".encode() for n in range(1, 36) if n not in (20, 34)}
    assert body_of(path, 20, 3) is None
    check_project(path)
    with writable(path, "delete") as tree:
        directory, _ = split(tree, f"{HOST}/x")
        for number in (*range(16, 20), *range(21, 32)):
            directory.remove(f"n{number}", kind=Kind.FILE)
    assert not pack_path(path, 16).exists()
    assert os.listdir(path / "tmp") == []


# -- who may --


def hold(path: Path, statements: str) -> subprocess.Popen[bytes]:
    """Another program that has the database open."""
    code = (
        "import sqlite3, sys\n"
        f"c = sqlite3.connect({str(path / 'database.sqlite')!r}, isolation_level=None)\n"
        f"for s in {statements!r}.split(';'): c.execute(s).fetchall()\n"
        "print('held', flush=True); sys.stdin.read()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


@pytest.mark.parametrize("statements", ["pragma journal_mode=wal;select * from resource", "begin exclusive"])
def test_read_only_while_crystal_has_it(tmp_path: Path, statements: str, caplog: pytest.LogCaptureFixture) -> None:
    path = project(tmp_path, small)
    process = hold(path, statements)
    try:
        if statements.startswith("pragma"):
            tree = open_crystal(str(path), replace(opening(), read_write=True))
            with closing(tree):
                assert type(tree) is CrystalTree
                assert not tree.writable
            assert "read-only for now" in caplog.text
        else:
            with pytest.raises(ArchiveError):
                open_crystal(str(path), replace(opening(), read_write=True))
    finally:
        process.communicate()
    with writable(path) as held:  # the log that was left is folded in
        put(held, f"{HOST}/page", b"three")
    check_project(path)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = project(tmp_path, small)
    with writable(path), pytest.raises(SourceBusy, match=str(os.getpid())), writable(path):
        pass
    with writable(path):
        pass


def test_nobody_else_gets_in(tmp_path: Path) -> None:
    path = project(tmp_path, small)
    with writable(path) as tree:
        put(tree, f"{HOST}/page", b"three")
        other = sqlite3.connect(path / "database.sqlite", timeout=0.1)
        with closing(other), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("select * from resource").fetchall()
        put(tree, f"{HOST}/page", b"four")
    assert pages(path)[f"{SITE}/page"] == b"four"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: (path / "revisions.inprogress").mkdir(), "has not ended"),
        (lambda path: change(path, "insert into project_property values ('major_version_old', '2')"), "has not ended"),
        (
            lambda path: change(path, "create trigger t after insert on resource begin delete from resource; end"),
            "triggers",
        ),
        (lambda path: change(path, "drop index resource_revision__resource_id"), "lacks an index"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path: Path, spoil, message: str) -> None:
    path = project(tmp_path, small, major=3)
    spoil(path)
    before = (path / "database.sqlite").read_bytes()
    with pytest.raises(UsageError, match=message), writable(path):
        pass
    assert (path / "database.sqlite").read_bytes() == before
    with opened(path):
        pass


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path / "database.sqlite")) as database:
        database.execute(statement)
        database.commit()


def test_network_file_systems_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project(tmp_path, small)
    for kind in ("nfs4", "cifs", "fuse.sshfs"):
        monkeypatch.setattr("archivefs.formats.crystal.writing.medium_of", lambda _, kind=kind: Medium(kind, False))
        with pytest.raises(UsageError, match=kind), writable(path):
            pass
    with writable(path, "network") as tree:
        put(tree, f"{HOST}/page", b"three")
    assert pages(path)[f"{SITE}/page"] == b"three"


# -- a new project --


def test_a_new_project(tmp_path: Path) -> None:
    path = tmp_path / "new.crystalproj"
    assert FORMAT.create is not None
    FORMAT.create(str(path))
    assert sorted(os.listdir(path)) == ["OPEN ME.crystalopen", "README.txt", "database.sqlite", "revisions", "tmp"]
    assert (path / "OPEN ME.crystalopen").read_bytes() == b"CrOp"
    with closing(sqlite3.connect(path / "database.sqlite")) as database:
        names = {row[0] for row in database.execute("select name from sqlite_master where type in ('table')")}
        indexes = [row[0] for row in database.execute("select name from sqlite_master where sql like 'create index%'")]
        assert database.execute("select * from project_property").fetchall() == [("major_version", "2")]
    assert names == {"project_property", "resource", "root_resource", "resource_group", "resource_revision", "alias"}
    assert len(indexes) == 4
    with writable(path) as tree:
        make_directories(tree, "https/new.example")
        put(tree, "https/new.example/^index", b"<p>hello")
    assert pages(path) == {"https://new.example/": b"<p>hello"}
    check_project(path)
    with pytest.raises(AlreadyExists):
        FORMAT.create(str(path))
    with pytest.raises(UsageError):
        FORMAT.create(str(tmp_path / "new"))
    assert sorted(os.listdir(tmp_path)) == ["new.crystalproj"]


def test_unfinished_projects(tmp_path: Path) -> None:
    """One of ours that was killed is in nobody's way; one of Crystal's is left alone."""
    assert FORMAT.create is not None
    partial = tmp_path / "new.crystalproj-partial"
    partial.mkdir()
    (partial / "database.sqlite").write_bytes(b"by Crystal")
    with pytest.raises(AlreadyExists, match="unfinished"):
        FORMAT.create(str(tmp_path / "new.crystalproj"))
    assert os.listdir(partial) == ["database.sqlite"]
    (partial / ".archivefs-making").touch()
    FORMAT.create(str(tmp_path / "new.crystalproj"))
    assert os.listdir(tmp_path) == ["new.crystalproj"]


def test_a_sample_of_every_version_passes_verify(tmp_path: Path) -> None:
    for major in (1, 2, 3):
        path = crystal.write(tmp_path / f"h{major}.crystalproj", major=major)
        with writable(path) as tree:
            put(tree, "https/harbour.example/style.css", b"h1 {}")
            write_json(tree)
        check_project(path)
        shutil.rmtree(path)


def write_json(tree) -> None:
    directory, _ = split(tree, "https/harbour.example/x")
    file = directory.create("data.json", exclusive=True)
    write(file, json.dumps({"a": 1}).encode())
    assert file.xattrs()["user.mime_type"] == b"application/json"
