"""Databases made by strangers: what they hold is limited, never run, and never stops the rest."""

from __future__ import annotations

import json
import logging
import random
import resource
import sqlite3
import sys
import time
from pathlib import Path

import pytest

from archivefs.errors import ArchiveError, CorruptArchive, OperationTimedOut, UnreadableArchive
from archivefs.format import VerifyRequest
from archivefs.formats.crystal import FORMAT
from archivefs.formats.crystal import connection as connection_module
from archivefs.formats.crystal.connection import Page, forward
from archivefs.formats.crystal.tree import CrystalTree
from archivefs.tree import File, Symlink
from tests.formats.crystal.projects import (
    SITE,
    change,
    directory,
    fingerprint,
    names,
    node,
    opened,
    opening,
    project,
    read,
    xattr,
)
from tests.samples import crystal
from tests.samples.crystal import ProjectWriter
from tests.shared import shared_module
from tests.walking import content_of, walk

WEB = "web/https/site.example"


@pytest.fixture(autouse=True)
def _log_is_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    """Warnings are expected here."""
    caplog.set_level(logging.WARNING)


def probe(tree: CrystalTree) -> dict[str, int]:
    """Walk everything, ask everything, follow every ident; how many files could be read or not."""
    counts = {"read": 0, "failed": 0, "other": 0}
    for _, _, found, _ in walk(tree):
        assert tree.node(found.ident).kind is found.kind
        found.attributes()
        found.xattrs()
        if isinstance(found, Symlink):
            found.target()
        if not isinstance(found, File):
            counts["other"] += 1
            continue
        try:
            content_of(found)
            counts["read"] += 1
        except ArchiveError:
            counts["failed"] += 1
    return counts


def test_the_given_databases(tmp_path: Path) -> None:
    """All of badsqlite.py: mounted or refused as its manifest says, unchanged, quick and small."""
    module = shared_module("faults", "badsqlite.py")
    module.main([str(tmp_path)])
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert len(manifest) >= 14
    for case in manifest:
        path = tmp_path / case["file"]
        before, start = fingerprint(path.parent), time.monotonic()
        try:
            with opened(path) as tree:
                probe(tree)
                outcome = "ok"
                ids = tree.facts()["largest_ids"]
                if case["kind"] == "wal_uncheckpointed":
                    assert ids["resource"] == case["rows"]  # type: ignore[index]
        except UnreadableArchive as error:
            outcome = "refuse"
            assert str(path.parent) in str(error)
        assert case["mount"] in (outcome, "either"), case
        assert fingerprint(path.parent) == before, case
        assert time.monotonic() - start < 20, case
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 600 * 1024


def test_a_view_posing_as_a_table_is_never_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/a", b"a"))
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n)"
    change(
        path,
        "drop table resource",
        f"create view resource as {endless} select i as id, 'https://site.example/' || i as url from n",
        "drop table resource_group",
        f"create view resource_group as {endless} select i as id, 'x' as name, 'y' as url_pattern from n",
    )
    with opened(path) as tree:
        assert names(tree, "web") == []
        assert "groups" not in [entry.name for entry in tree.root().entries()]
        assert read(tree, "by-id/1") == b"a"
        probe(tree)
    assert "resource is no table; it counts as empty" in caplog.text


def test_a_virtual_table_posing_as_a_table_is_never_asked(tmp_path: Path) -> None:
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/a", b"a"))
    try:
        change(path, "drop table resource_revision", "create virtual table resource_revision using fts5(id, error)")
    except sqlite3.OperationalError as error:
        pytest.skip(str(error))
    with opened(path, "unfetched") as tree:
        assert read(tree, f"{WEB}/a") == b""
        probe(tree)


def test_generated_columns_and_triggers_do_nothing(tmp_path: Path) -> None:
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/a", b"a"))
    change(
        path,
        "alter table resource add column g text generated always as (hex(zeroblob(id * 100000000))) virtual",
        "create trigger t after update on resource begin delete from resource_revision; end",
    )
    with opened(path) as tree:
        assert probe(tree)["failed"] == 0


def test_a_generated_column_cannot_pose_as_a_url(tmp_path: Path) -> None:
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/a", b"a"))
    change(
        path,
        "drop table resource",
        "create table resource (id integer primary key, url text generated always as (hex(id)) virtual)",
    )
    with pytest.raises(UnreadableArchive, match="has no column url"), opened(path):
        pass


def test_only_our_own_functions_run(tmp_path: Path) -> None:
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/a", b"a"))
    with opened(path) as tree:
        ask = tree.project.database.rows
        for sql in (
            "select randomblob(10)",
            "select load_extension('x')",
            "select zeroblob(10)",
            "attach 'x.db' as x",
            "delete from resource",
            "create table x (y)",
            "create temp table x (y)",
            "vacuum into 'x.db'",
        ):
            with pytest.raises(ArchiveError):
                ask(sql)
        assert ask("select count(*) from resource") == [(1,)]
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="SQLite's limits can be set since Python 3.11")
def test_texts_longer_than_the_limit_hide_only_themselves(tmp_path: Path) -> None:
    too_long = connection_module.MAX_VALUE_BYTES + 1

    def fill(writer: ProjectWriter) -> None:
        writer.fetch(f"{SITE}/a", b"a")
        writer.fetch(f"{SITE}/" + "u" * too_long, b"u")
        writer.fetch(f"{SITE}/d/x", b"x")
        writer.fetch(f"{SITE}/d/" + "v" * too_long, b"v")
        writer.fetch(f"{SITE}/m", b"m", metadata=json.dumps({"status_code": 404, "headers": [], "x": "m" * too_long}))
        writer.fetch(f"{SITE}/z", b"z", status=404)
        writer.fail(f"{SITE}/e", "x" * too_long)
        writer.roots = [("r" * too_long, f"{SITE}/a"), ("Good", f"{SITE}/z")]
        writer.groups = [("Good", f"{SITE}/**", None, None, False), ("g" * too_long, "x", None, None, False)]
        writer.properties["hibernated_state"] = "h" * too_long

    for release in ("1.3", "2.2"):
        path = project(tmp_path / release, fill, release=release)
        with opened(path) as tree:
            assert names(tree, WEB) == ["a", "d", "m", "z"]
            assert names(tree, f"{WEB}/d") == ["x"]
            assert read(tree, f"{WEB}/m") == b"m"
            assert xattr(tree, f"{WEB}/m", "error") == "the metadata cannot be read"
            assert names(tree, "roots") == ["Good"]
            assert names(tree, "groups") == ["Good", "Good.json"]
            assert names(tree, "errors/status/404") == (["5", "6"] if release == "2.2" else ["6"])
            assert node(tree, "errors/fetch/7.json").attributes().size
            probe(tree)


def test_a_page_of_long_texts_takes_bounded_memory(tmp_path: Path) -> None:
    """Two hundred URLs of a megabyte: never more than a few of them at once."""

    def fill(writer: ProjectWriter) -> None:
        for number in range(200):
            writer.fetch(f"{SITE}/{number:03}?" + "q" * 1_000_000, None)

    path = project(tmp_path, fill)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with opened(path) as tree:
        found = names(tree, WEB)
        assert len(found) == 200
        assert all(len(name) <= 255 for name in found)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 120 * 1024


def test_urls_that_are_no_texts_are_left_out(tmp_path: Path) -> None:
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/a", b"a"))
    change(
        path,
        "insert into resource values (2, x'68747470733a2f2f736974652e6578616d706c652f62')",
        "insert into resource_revision (id, resource_id, error, metadata) values (2, 2, 'null', 'null')",
    )
    with opened(path) as tree:
        assert names(tree, WEB) == ["a"]
        assert names(tree, "web") == ["https"]
        probe(tree)


def test_odd_ids_lead_back_too(tmp_path: Path) -> None:
    def fill(writer: ProjectWriter) -> None:
        for key in (-7, 0, 2**33, 2**53, 2**62):
            writer.fetch(f"{SITE}/{key}", None, key=key)

    path = project(tmp_path, fill)
    change(
        path, "update resource set id = -5 where id = 2", "update resource_revision set resource_id = -5 where id = 0"
    )
    change(path, "update resource set id = 1 << 50 where id = 3")
    change(path, "update resource_revision set resource_id = 1 << 50 where resource_id = 3")
    with opened(path) as tree:
        assert len(names(tree, WEB)) == 5
        probe(tree)


def test_deep_urls_lead_back(tmp_path: Path) -> None:
    deep = "/".join("d" for _ in range(5000))
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/{deep}", b"deep"))
    with opened(path) as tree:
        found = tree.lookup(("web", "https", "site.example", *deep.split("/")[:-1]))
        again = tree.node(found.ident)
        assert [entry.name for entry in again.entries()] == ["d"]  # type: ignore[attr-defined]


def test_links_too_long_for_the_kernel_go_by_id(tmp_path: Path) -> None:
    deep = "/".join("x" * 200 for _ in range(30))

    def fill(writer: ProjectWriter) -> None:
        writer.fetch(f"{SITE}/{deep}", b"far", status=404)
        writer.roots = [("Far", f"{SITE}/{deep}")]

    with opened(project(tmp_path, fill)) as tree:
        root, error = node(tree, "roots/Far"), node(tree, "errors/status/404/1")
        assert isinstance(root, Symlink)
        assert isinstance(error, Symlink)
        assert root.target() == "../by-id/1"
        assert error.target() == "../../../by-id/1"


def test_a_query_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/a", b"a"))
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
    with opened(path) as tree:
        start = time.monotonic()
        with pytest.raises(OperationTimedOut):
            tree.project.database.rows(endless, budget_s=0.2)
        assert time.monotonic() - start < 5
        assert names(tree, WEB) == ["a"]


def test_more_roots_than_anyone_has_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("archivefs.formats.crystal.side_tables.MAX_ROWS", 50)

    def fill(writer: ProjectWriter) -> None:
        for number in range(80):
            writer.fetch(f"{SITE}/{number}", b"")
            writer.roots.append((f"Root {number}", f"{SITE}/{number}"))

    with opened(project(tmp_path, fill)) as tree:
        assert len(names(tree, "roots")) == 50
    assert "too many roots" in caplog.text


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_database_gives_errors_of_ours_only(tmp_path: Path, seed: int) -> None:
    """Bits turned over, bytes overwritten, pages exchanged, the end cut off, the header spoilt."""
    path = crystal.write(tmp_path / "p.crystalproj")
    database = path / "database.sqlite"
    good = database.read_bytes()
    outcomes = set()
    for number in range(25):
        database.write_bytes(damaged(good, random.Random(seed * 1000 + number)))
        try:
            with opened(path) as tree:
                probe(tree)
            outcomes.add("read")
        except ArchiveError as error:
            assert "\n" not in str(error)
            outcomes.add("error")
        try:
            list(FORMAT.verify(str(path), opening(), VerifyRequest(jobs=1)))  # type: ignore[misc]
        except UnreadableArchive:
            outcomes.add("refused")
    assert len(outcomes) > 1


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The same with some damage."""
    spoilt = bytearray(data)
    kind = chance.randrange(5)
    if kind == 0:
        for _ in range(chance.randrange(1, 20)):
            spoilt[chance.randrange(len(spoilt))] ^= 1 << chance.randrange(8)
    elif kind == 1:
        at = chance.randrange(len(spoilt) - 400)
        spoilt[at : at + 400] = chance.randbytes(400)
    elif kind == 2:
        del spoilt[chance.randrange(len(spoilt)) :]
    elif kind == 3:
        for _ in range(5):
            spoilt[chance.randrange(100)] = chance.randrange(256)
    else:
        one, two = (4096 * chance.randrange(len(spoilt) // 4096) for _ in range(2))
        spoilt[one : one + 4096], spoilt[two : two + 4096] = spoilt[two : two + 4096], spoilt[one : one + 4096]
    return bytes(spoilt)


def test_a_name_that_is_no_text_in_a_damaged_schema_is_refused(tmp_path: Path) -> None:
    """SQLite quotes it in its message, of which Python cannot make text: found by damaging databases at random."""
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/a", b"a"))
    database = path / "database.sqlite"
    spoilt = database.read_bytes().replace(
        b"CREATE INDEX resource_revision__resource_id", b"CREATE INDEX \xef" + b"x" * 29
    )
    spoilt = spoilt.replace(b"create index resource_revision__resource_id", b"create index \xef" + b"x (" + b"y" * 27)
    assert spoilt != database.read_bytes()
    database.write_bytes(spoilt)
    with pytest.raises(UnreadableArchive, match="malformed"), opened(path):
        pass


def test_rows_out_of_order_end_a_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged tree of SQLite's gives keys that do not grow: a loop by keys once went on for ever."""

    def fill(writer: ProjectWriter) -> None:
        for number in range(40):
            writer.fetch(f"{SITE}/{number:02}", b"x", status=404)
            writer.fail(f"{SITE}/{number:02}")

    path = project(tmp_path, fill)
    with opened(path) as tree:
        ask = tree.project.database.page

        def backwards(sql: str, parameters: tuple[object, ...] = (), **more: float) -> Page:
            """Whatever page is asked for, the first one comes, as often as there are rows in a page."""
            low = tuple(b"" if isinstance(value, bytes) else value for value in parameters[:1])
            found = ask(sql, (*low, *parameters[1:]), **more)
            return found._replace(cut=True) if len(found.rows) > 1 else found

        listing = directory(tree, WEB)
        monkeypatch.setattr(tree.project.database, "page", backwards)
        with pytest.raises(CorruptArchive, match="out of order"):
            list(listing.entries())


def test_a_key_must_grow() -> None:
    assert forward(1, 2) == 2
    assert forward(b"a", b"a\0") == b"a\0"
    assert forward((1, 5), (2, 0)) == (2, 0)
    for before, after in ((2, 2), (2, 1)):
        with pytest.raises(CorruptArchive):
            forward(before, after)
