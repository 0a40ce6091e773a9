"""verify: every row, every body, the database itself, and what belongs to nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from archivefs.errors import UnreadableArchive
from archivefs.format import Finding, Level, Opening, VerifyRequest
from archivefs.formats.crystal import FORMAT
from tests.formats.crystal.projects import SITE, change, fingerprint, project
from tests.samples import crystal
from tests.samples.crystal import ProjectWriter, body_path, pack_path


def findings(path: Path, **request: object) -> list[Finding]:
    assert FORMAT.verify
    return list(FORMAT.verify(str(path), Opening(), VerifyRequest(**request)))  # type: ignore[arg-type]


def told(path: Path) -> set[tuple[str, str]]:
    return {(finding.code, finding.where) for finding in findings(path)}


@pytest.mark.parametrize("choices", [{}, {"major": 1, "release": "1.0"}, {"major": 3}])
def test_a_good_project_has_no_findings_and_is_left_alone(tmp_path: Path, choices: dict[str, object]) -> None:
    path = crystal.write(tmp_path / "p.crystalproj", **choices)
    before = fingerprint(path)
    assert findings(path) == []
    assert fingerprint(path) == before


def test_bodies_lost_damaged_and_of_nobody(tmp_path: Path) -> None:
    writer = ProjectWriter(major=3)
    for number in range(1, 34):
        writer.fetch(f"{SITE}/{number}", b"body %d\n" % number if number != 20 else None)
    writer.fail(f"{SITE}/failed")
    path = writer.write(tmp_path / "p.crystalproj")
    pack = writer.pack(path, 0)
    data = bytearray(pack.read_bytes())
    data[data.index(b"body 5\n")] ^= 1
    pack.write_bytes(data)
    writer.write_body(path, 34, b"an error has no body")
    writer.write_body(path, 4000, b"orphan")
    (pack.parent / "notes.txt").write_text("stray")
    (path / "revisions" / "stray").write_text("stray")
    folder = "revisions/000/000/000/000"
    assert told(path) == {
        ("lost-body", "revision 20"),
        ("damaged-body", f"{folder}/00_.zip#005"),
        ("orphan-body", f"{folder}/022"),
        ("orphan-body", f"{folder}/fa0"),
        ("stray-file", f"{folder}/notes.txt"),
        ("stray-file", "revisions/stray"),
    }
    levels = {finding.code: finding.level for finding in findings(path)}
    assert levels["lost-body"] is levels["damaged-body"] is Level.ERROR
    assert levels["orphan-body"] is levels["stray-file"] is Level.NOTICE


def test_a_pack_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = crystal.write(tmp_path / "p.crystalproj", major=3)
    pack_path(path, 0).write_bytes(b"no zip")
    assert told(path) == {("damaged-pack", "revisions/000/000/000/000/00_.zip")}


def test_orphans_of_a_flat_project(tmp_path: Path) -> None:
    path = crystal.write(tmp_path / "p.crystalproj", major=1)
    (path / "revisions" / "99").write_text("orphan")
    (path / "revisions" / "x").write_text("stray")
    assert told(path) == {("orphan-body", "revisions/99"), ("stray-file", "revisions/x")}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_body_that_may_not_be_read(tmp_path: Path) -> None:
    path = crystal.write(tmp_path / "p.crystalproj")
    body_path(path, 1, 2).chmod(0)
    assert ("damaged-body", "revisions/000/000/000/000/001") in told(path)


def test_rows_that_make_no_sense(tmp_path: Path) -> None:
    def fill(writer: ProjectWriter) -> None:
        writer.fetch(f"{SITE}/a", b"", metadata="{")
        writer.fetch(f"{SITE}/b", b"")
        writer.roots = [("Root", f"{SITE}/a")]
        writer.groups = [("Group", "x", "root_resource", 9, False), ("Odd", "x", "martian", 1, False)]

    path = project(tmp_path, fill, release="1.3", major=1)
    change(
        path,
        "insert into resource values (7, x'00')",
        "insert into resource_revision (id, resource_id, error, metadata) values (8, 77, '?', 'null')",
        "update root_resource set resource_id = 66",
    )
    assert told(path) == {
        ("bad-metadata", "revision 1"),
        ("bad-url", "resource 7"),
        ("no-resource", "revision 8"),
        ("bad-error", "revision 8"),
        ("no-resource", "root 1"),
        ("no-source", "group 1"),
        ("no-source", "group 2"),
    }


def test_damage_in_the_database_is_found(tmp_path: Path) -> None:
    """Rows of one page turned over: SQLite itself does not notice when it reads them."""

    def fill(writer: ProjectWriter) -> None:
        for number in range(300):
            writer.fetch(f"{SITE}/{number:04}", b"x")

    path = project(tmp_path, fill)
    database = path / "database.sqlite"
    data = bytearray(database.read_bytes())
    at = data.index(b"https://site.example/0123")
    data[at - 40 : at - 20] = bytes(20)
    database.write_bytes(data)
    assert "database" in {finding.code for finding in findings(path)}


def test_states_worth_knowing(tmp_path: Path) -> None:
    path = crystal.write(tmp_path / "p.crystalproj", major=1)
    (path / "revisions.inprogress").mkdir()
    change(path, "drop table root_resource")
    codes = {finding.code for finding in findings(path)}
    assert {"migration", "missing-table"} <= codes
    assert "lost-body" not in codes


def test_many_findings_of_one_kind_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archivefs.formats.crystal.verify.MAX_PER_CODE", 5)

    def fill(writer: ProjectWriter) -> None:
        for number in range(12):
            writer.fetch(f"{SITE}/{number}", None)

    found = findings(project(tmp_path, fill))
    assert len(found) == 6
    assert found[-1].message == "the same 7 times more"


def test_progress_is_told(tmp_path: Path) -> None:
    path = crystal.write(tmp_path / "p.crystalproj")
    told_progress: list[tuple[int, int]] = []
    findings(path, progress=lambda done, total: told_progress.append((done, total)), jobs=2)
    assert told_progress[-1] == (13, 13)


def test_what_is_no_project_cannot_be_checked(tmp_path: Path) -> None:
    with pytest.raises(UnreadableArchive):
        findings(tmp_path)
