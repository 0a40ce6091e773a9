"""A project against the sqlite3 shell and the files of its bodies: two readers that share no code."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from archivefs.formats.crystal.tree import CrystalTree
from archivefs.tree import File
from tests.formats.crystal.projects import opened
from tests.mount.harness import mounted
from tests.samples.crystal import HTML, TEXT, ProjectWriter, body_path
from tests.shared import SHARED
from tests.walking import content_of, walk

pytestmark = pytest.mark.skipif(shutil.which("sqlite3") is None, reason="the sqlite3 shell is not installed")

NEWEST_GOOD = """
    select hex(r.url), v.id, hex(coalesce(json_extract(v.metadata, '$.status_code'), ''))
    from resource r join resource_revision v on v.id =
        (select max(id) from resource_revision w where w.resource_id = r.id and w.error = 'null')
"""
ALL_GOOD = """
    select hex(r.url), v.id, '' from resource_revision v join resource r on r.id = v.resource_id where v.error = 'null'
"""


class Row(NamedTuple):
    """What the shell says of a page."""

    revision: int
    status: str


def shell(path: Path, sql: str) -> list[list[str]]:
    """What the sqlite3 shell answers."""
    command = ["sqlite3", "-readonly", "-batch", "-separator", "|", path / "database.sqlite", sql]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.split("|") for line in done.stdout.splitlines()]


def pages(path: Path) -> dict[bytes, Row]:
    """Every URL with its newest answer."""
    found = {}
    for url, revision, status in shell(path, NEWEST_GOOD):
        found[bytes.fromhex(url)] = Row(int(revision), bytes.fromhex(status).decode())
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few thousand pages with random URLs, fates and bodies."""
    chance = random.Random(5)
    writer = ProjectWriter()
    words = ["a", "b", "news", "index.html", "x.png", "c d", "\u00fc", "%41", "..", "", "^file"]
    for _ in range(1500):
        depth = chance.randrange(1, 5)
        url = f"https://h{chance.randrange(4)}.example/" + "/".join(chance.choice(words) for _ in range(depth))
        url += chance.choice(["", "", f"?q={chance.randrange(50)}", "/"])
        fate = chance.random()
        if fate < 0.1:
            writer.resource(url)
        elif fate < 0.2:
            writer.fail(url)
        else:
            status = chance.choice([200, 200, 200, 404, 301, 500])
            writer.fetch(
                url, chance.randbytes(chance.randrange(300)), status=status, headers=[chance.choice([HTML, TEXT])]
            )
    return writer.write(tmp_path_factory.mktemp("made") / "made.crystalproj")


def _shown(tree: CrystalTree) -> dict[bytes, File]:
    found = {}
    for parts, _, node, _ in walk(tree):
        if parts[0] == "web" and isinstance(node, File):
            url = node.xattrs()["user.xdg.origin.url"]
            assert url not in found
            found[url] = node
    return found


def test_web_is_what_the_shell_says(made: Path) -> None:
    expected = pages(made)
    assert len(expected) > 500
    with opened(made) as tree:
        shown = _shown(tree)
        assert shown.keys() == expected.keys()
        for url, row in expected.items():
            xattrs = shown[url].xattrs()
            assert int(xattrs["user.archivefs.revision"]) == row.revision
            assert xattrs["user.archivefs.status"].decode() == row.status
            assert content_of(shown[url]) == body_path(made, row.revision, 2).read_bytes()


def test_a_mounted_project_is_what_the_shell_says(made: Path, tmp_path: Path) -> None:
    expected = pages(made)
    with mounted(made, at=tmp_path / "m") as mount:
        for folder, _, files in os.walk(mount.path / "web"):
            for name in files:
                page = os.path.join(folder, name)
                row = expected.pop(os.getxattr(page, "user.xdg.origin.url"))
                assert os.getxattr(page, "user.archivefs.status").decode() == row.status
                assert Path(page).read_bytes() == body_path(made, row.revision, 2).read_bytes()
                assert os.getxattr(page, "user.archivefs.body").decode() == _where(made, row.revision)
    assert expected == {}


def _where(path: Path, revision: int) -> str:
    return str(body_path(path, revision, 2).relative_to(path))


def test_history_is_what_the_shell_says(made: Path) -> None:
    expected = {int(revision): bytes.fromhex(url) for url, revision, _ in shell(made, ALL_GOOD)}
    with opened(made) as tree:
        found = {}
        for parts, _, node, _ in walk(tree):
            if parts[0] == "history" and isinstance(node, File):
                found[int(parts[-1])] = node.xattrs()["user.xdg.origin.url"]
        assert found == expected


def test_errors_are_what_the_shell_says(made: Path) -> None:
    failed = {row[0] for row in shell(made, "select id from resource_revision where error != 'null'")}
    status = "json_extract(metadata, '$.status_code')"
    counted = shell(made, f"select {status}, count(*) from resource_revision where {status} != 200 group by 1")
    with opened(made) as tree:
        errors = tree.lookup(("errors", "fetch"))
        assert {entry.name.removesuffix(".json") for entry in errors.entries()} == failed  # type: ignore[attr-defined]
        statuses = tree.lookup(("errors", "status"))
        found = [[entry.name, str(len(list(entry.node.entries())))] for entry in statuses.entries()]  # type: ignore[attr-defined, union-attr]
        assert found == sorted(counted)


@pytest.mark.parametrize("name", ["v2-basic", "v1-flat", "old-schema", "url-zoo"])
def test_given_samples_are_what_the_shell_says(tmp_path: Path, name: str) -> None:
    maker = SHARED / "samples" / "make_crystal.py"
    if not maker.exists():
        pytest.skip("the samples are not beside the project")
    subprocess.run([sys.executable, maker, tmp_path, "--only", name], check=True, capture_output=True)
    path = tmp_path / f"{name}.crystalproj"
    expected = {url: row.revision for url, row in pages(path).items()}
    with opened(path) as tree:
        shown = {url: int(node.xattrs()["user.archivefs.revision"]) for url, node in _shown(tree).items()}
        assert shown == expected
