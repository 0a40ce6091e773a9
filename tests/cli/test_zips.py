"""The commands on real zips, compared with what the standard library reads."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from archivefs.cli.shown import utc_time
from tests.cli.conftest import Run
from tests.cli.test_cp import as_dict

MEMBERS = {
    "index.html": b"<h1>hi</h1>",
    "docs/a.html": b"<p>" + b"a" * 100_000,
    "docs/deep/b.bin": os.urandom(300_000),
    "empty": b"",
    "Übersicht ✓.txt": "ü".encode(),
}


@pytest.fixture
def fake_format() -> None:
    """The formats that are installed."""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in MEMBERS.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 5, 1, 12, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return path


def expected() -> dict[str, object]:
    tree: dict[str, object] = {}
    for name, data in MEMBERS.items():
        *above, last = name.split("/")
        folder = tree
        for part in above:
            folder = folder.setdefault(part, {})  # type: ignore[assignment]
        folder[last] = data
    return tree


def test_listing(run: Run, site: Path) -> None:
    assert sorted(run("ls", site).lines) == sorted(expected())
    objects = {item["name"]: item for item in run("ls", "--json", f"{site}:/docs").json}
    assert objects["a.html"]["size"] == len(MEMBERS["docs/a.html"])
    assert objects["a.html"]["mtime"].startswith("2020-0")
    assert run("tree", site).lines[-1] == "2 directories, 5 files"


def test_printing(run: Run, site: Path) -> None:
    for name, data in MEMBERS.items():
        assert run("cat", f"{site}:/{name}").out == data


def test_copying_is_unpacking(run: Run, site: Path, tmp_path: Path) -> None:
    assert run("cp", "-r", site, tmp_path / "out") == (0, b"", "")
    assert as_dict(tmp_path / "out") == expected()
    with zipfile.ZipFile(site) as archive:
        archive.extractall(tmp_path / "theirs")
    assert as_dict(tmp_path / "out") == as_dict(tmp_path / "theirs")
    shown = run("info", "--json", f"{site}:/index.html").json["mtime"]
    assert utc_time((tmp_path / "out" / "index.html").stat().st_mtime_ns) == shown


def test_checking(run: Run, site: Path, tmp_path: Path) -> None:
    assert run("verify", "--json", site).json == {"archive": str(site), "ok": True, "findings": []}
    data = bytearray(site.read_bytes())
    with zipfile.ZipFile(site) as archive:
        member = archive.getinfo("docs/deep/b.bin")
    data[member.header_offset + 1000] ^= 0xFF
    (tmp_path / "bad.zip").write_bytes(data)
    outcome = run("verify", "--json", tmp_path / "bad.zip")
    assert outcome.code == 1
    assert outcome.json["ok"] is False
    assert [finding["where"] for finding in outcome.json["findings"]] == ["docs/deep/b.bin"]
    copied = run("cp", "-r", tmp_path / "bad.zip", tmp_path / "out")
    assert copied.code == 1
    assert copied.err.startswith(f"archivefs: {tmp_path}/bad.zip: docs/deep/b.bin: ")
    assert set(os.listdir(tmp_path / "out")) == set(expected())
    assert os.listdir(tmp_path / "out" / "docs" / "deep") == []


def test_no_zip_at_all(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "not.zip"
    path.write_bytes(b"just text")
    for args in (["ls", path], ["info", path], ["cat", f"{path}:/x"], ["cp", f"{path}:/x", tmp_path / "out"]):
        outcome = run(*args)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, b"", 1)
        assert str(path) in outcome.err
    assert run("verify", "--json", path).json["findings"][0]["code"] == "unreadable"


def test_a_folder_of_zips(run: Run, site: Path) -> None:
    (site.parent / "notes.txt").write_text("no archive")
    assert run("ls", site.parent).lines == ["site.zip"]
    assert run("cat", f"{site.parent}:/site.zip/index.html").out == MEMBERS["index.html"]
