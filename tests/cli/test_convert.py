"""``archivefs convert``: folders and Labrador archives to Crystal projects, and back for one site."""

from __future__ import annotations

import os
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.formats.crystal.rewriting import check_project, pages, revisions
from tests.samples import crystal
from tests.samples.crystal import ProjectWriter

BASE = "https://new.example"
FILES = {
    "index.html": b"<h1>home",
    "a b.txt": b"a space",
    "é.css": b"h1{}",
    "d/index.html": b"<h1>d",
    "d/data.json": b"{}",
    "d/copy.json": b"{}",
    "empty": b"",
}
URLS = {
    "/": b"<h1>home",
    "/a%20b.txt": b"a space",
    "/%C3%A9.css": b"h1{}",
    "/d/": b"<h1>d",
    "/d/data.json": b"{}",
    "/d/copy.json": b"{}",
    "/empty": b"",
}


@pytest.fixture
def fake_format() -> None:
    """The formats that are installed."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path / "site"


def expected() -> dict[str, bytes]:
    return {BASE + path: data for path, data in URLS.items()}


def test_a_folder_becomes_a_project(folder: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "out.crystalproj"
    assert run("convert", "--base-url", BASE + "/", folder, out) == (0, b"", "")
    assert pages(out) == expected()
    check_project(out)
    types = {stored.url.removeprefix(BASE): stored.headers.get("Content-Type") for stored in revisions(out)}
    assert (types["/d/data.json"], types["/empty"]) == ("application/json", None)
    with closing(sqlite3.connect(out / "database.sqlite")) as database:
        assert ("default_url_prefix", BASE) in database.execute("select * from project_property").fetchall()
        assert database.execute("select count(*) from root_resource").fetchone() == (1,)
    assert run("verify", out).code == 0
    assert run("cat", f"{out}:/site/d/index.html").out == b"<h1>d"


def test_a_labrador_archive_becomes_a_project_and_comes_back(folder: Path, tmp_path: Path, run: Run) -> None:
    archive, out, back = tmp_path / "a.lbz", tmp_path / "out.crystalproj", tmp_path / "b.lbz"
    assert run("pack", folder, archive).code == 0
    assert run("convert", "--base-url", BASE, archive, out) == (0, b"", "")
    assert pages(out) == expected()
    check_project(out)
    assert run("convert", out, back) == (0, b"", "")
    assert run("verify", back).code == 0
    assert back.read_bytes() == archive.read_bytes()  # the same site gives the same bytes, wherever it comes from


def test_one_site_of_a_project(tmp_path: Path, run: Run) -> None:
    source, out = crystal.write(tmp_path / "h.crystalproj"), tmp_path / "h.lbz"
    found = run("convert", source, out)
    assert found.code == 1
    assert found.err.splitlines() == [
        "archivefs: https://harbour.example/lost: left out: an answer with status 404 is no page",
        "archivefs: https://harbour.example/old: left out: an answer with status 301 is no page",
    ]
    listed = run("tree", out).text
    assert "index.html" in listed
    assert run("cat", f"{out}:/news/storm").out == b"<p>It took two boats.\n"
    assert run("cat", f"{out}:/tides?day=1").out == b"low 04:10, high 10:20\n"
    with zipfile.ZipFile(out) as archive:
        assert archive.testzip() is None
    assert run("verify", out).code == 0


def test_the_site_can_be_named(tmp_path: Path, run: Run) -> None:
    writer = ProjectWriter()
    writer.fetch("https://one.example/x", b"1")
    writer.fetch("https://two.example/x", b"2")
    writer.fetch("https://two.example/deep/y%20z", b"3")
    source = writer.write(tmp_path / "p.crystalproj")
    assert run("convert", source, tmp_path / "o.lbz").code == 2
    assert run("convert", "--site", "https://three.example/", source, tmp_path / "o.lbz").code == 2
    assert run("convert", "--site", "two.example", source, tmp_path / "o.lbz").code == 2
    assert os.listdir(tmp_path) == ["p.crystalproj"]
    assert run("convert", "--site", "https://two.example", source, tmp_path / "o.lbz").code == 0
    assert run("cat", f"{tmp_path / 'o.lbz'}:/deep/y z").out == b"3"
    assert run("convert", "--site", "https://two.example/deep/", source, tmp_path / "d.lbz").code == 0
    assert run("ls", tmp_path / "d.lbz").lines == ["y z"]


def test_the_page_of_a_directory_is_its_document(tmp_path: Path, run: Run) -> None:
    writer = ProjectWriter()
    writer.fetch("https://one.example/", b"untyped", headers=[])
    writer.fetch("https://one.example/j/", b"{}", headers=[("Content-Type", "application/json")])
    writer.fetch("https://one.example/d/", b"of d")
    writer.fetch("https://one.example/d/index.html", b"in d")
    source, out, back = writer.write(tmp_path / "p.crystalproj"), tmp_path / "o.lbz", tmp_path / "b.crystalproj"
    assert run("convert", "--site", "https://one.example", source, out) == (0, b"", "")
    assert run("verify", out).code == 0
    assert run("convert", "--base-url", "https://one.example", out, back) == (0, b"", "")
    assert pages(back) == pages(source)


def test_nothing_half_made(folder: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that cannot be read stops it, and nothing is left, under no name."""
    assert run("convert", folder, tmp_path / "out.crystalproj").code == 2  # which URL?
    opened = []

    def fails_at_third(path: str) -> object:
        opened.append(path)
        if len(opened) == 3:
            raise OSError(5, "broken")
        return original(path)

    from archivefs.cli import convert

    original = convert._open
    monkeypatch.setattr(convert, "_open", fails_at_third)
    for name in ("out.crystalproj", "out.lbz"):
        opened.clear()
        assert run("convert", "--base-url", BASE, folder, tmp_path / name).code != 0
        assert len(opened) == 3
        assert os.listdir(tmp_path) == ["site"]


def test_what_is_there_is_left_alone(folder: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "out.crystalproj"
    out.mkdir()
    assert run("convert", "--base-url", BASE, folder, out).code == 1
    assert os.listdir(out) == []


def test_links_in_a_folder_are_left_out(folder: Path, tmp_path: Path, run: Run) -> None:
    (folder / "link").symlink_to("/etc/passwd")
    out = tmp_path / "out.crystalproj"
    found = run("convert", "--base-url", BASE, folder, out)
    assert (found.code, found.err) == (1, "archivefs: /link: left out: neither a file nor a folder\n")
    assert pages(out) == expected()
