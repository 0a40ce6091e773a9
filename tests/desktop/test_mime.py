"""contrib/mime says what kind of file an archive is; asked by the tools that desktops use."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from archivefs.formats.crawls.naming import MODES, SCOPES
from tests.mount.harness import tool
from tests.samples.site import write_all

TYPES = Path(__file__).parents[2] / "contrib" / "mime" / "archivefs.xml"
CRAWLS = [f"2026-01-05_10-00-00_[D1]_crawl_{scope}_{mode}.zip" for scope in SCOPES for mode in MODES]
LATER_CRAWL = "2026-01-05_10-00-00_D1_files_full.zip"
"""As later revisions of the format write it."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of desktop data with our types in it."""
    data = tmp_path_factory.mktemp("data")
    packages = data / "mime" / "packages"
    packages.mkdir(parents=True)
    (packages / "archivefs.xml").write_bytes(TYPES.read_bytes())
    done = subprocess.run(
        [tool("update-mime-database"), data / "mime"],
        env={**os.environ, "XDG_DATA_HOME": str(data)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    return data


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    write_all(folder)
    (folder / "no-suffix").write_bytes((folder / "island.lbz").read_bytes())
    for name in (*CRAWLS, LATER_CRAWL):
        (folder / name).write_bytes((folder / "site.zip").read_bytes())
    (folder / "OPEN ME.crystalopen").write_bytes(b"CrOp")
    (folder / "opener").write_bytes(b"CrOp")
    return folder


def content_type(path: Path, data: Path) -> str:
    """What GIO takes *path* for."""
    done = subprocess.run(
        [tool("gio"), "info", "-a", "standard::content-type", path],
        env={**os.environ, "XDG_DATA_HOME": str(data), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return done.stdout.split("standard::content-type: ")[1].split("\n")[0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("island.lbz", "application/x-labrador"),
        ("no-suffix", "application/x-labrador"),
        ("site.zip", "application/zip"),
        *((name, "application/x-crawl-archive+zip") for name in (*CRAWLS, LATER_CRAWL)),
        ("OPEN ME.crystalopen", "application/vnd.crystal-opener"),
        ("opener", "application/vnd.crystal-opener"),
    ],
)
def test_what_an_archive_is_taken_for(samples: Path, data: Path, name: str, expected: str) -> None:
    assert content_type(samples / name, data) == expected


def test_the_file_is_sound() -> None:
    subprocess.run([tool("xmllint"), "--noout", TYPES], check=True, timeout=30)
