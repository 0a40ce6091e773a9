"""Archives on a file system that is mounted read-only: what cannot be done there is refused in one line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from archivefs.errors import NotPermitted
from archivefs.staging.access import require_writable
from tests.mount.harness import mount_points, run_archivefs
from tests.samples import centidb, crawls, crystal, labrador, urldb

ADVICE = "leave out rw, or copy it to where it can be written"
ARCHIVES: dict[str, Callable[[Path], object]] = {
    "site.lbz": lambda path: labrador.write(path, labrador.SITE),
    "p.crystalproj": crystal.write,
    "database": urldb.write,
    "storage": crawls.write_storage,
    "lmdb": lambda path: centidb.write_lmdb(path, centidb.library().entries),
    "one.mdb": lambda path: centidb.write_lmdb(path, centidb.library().entries, subdir=False),
    "leveldb": lambda path: centidb.write_leveldb(path, centidb.library().entries),
}


@pytest.fixture
def medium(tmp_path: Path) -> Iterator[Path]:
    """A folder to be filled and then made read-only by ``protect``."""
    folder = tmp_path / "medium"
    folder.mkdir()
    yield folder
    if str(folder) in mount_points():
        subprocess.run(["umount", str(folder)], check=True, timeout=10)


def protect(folder: Path) -> None:
    for words in (["--bind", folder, folder], ["-o", "remount,bind,ro", folder]):
        if subprocess.run(["mount", *map(str, words)], capture_output=True, timeout=10, check=False).returncode:
            pytest.skip("this process may not mount")


def test_every_format_refuses_rw_in_the_same_way(medium: Path, tmp_path: Path) -> None:
    for name, write in ARCHIVES.items():
        write(medium / name)
    protect(medium)
    for name in ARCHIVES:
        path = medium / name
        done = run_archivefs("mount", "-o", "rw", path, tmp_path / "point")
        where = f"{path}/crawls" if name == "storage" else "it"
        expected = f"archivefs: {path}: cannot be written: {where} lies on a read-only file system; {ADVICE}\n"
        assert (done.returncode, done.stderr) == (1, expected)
        assert not (tmp_path / "point").exists()


def test_what_cannot_be_made_there_is_called_by_its_name(medium: Path, tmp_path: Path) -> None:
    archive = labrador.write(tmp_path / "site.lbz", labrador.SITE)
    protect(medium)
    for target, command in (
        (medium / "new.lbz", ("create", "labrador")),
        (medium / "new.crystalproj", ("create", "crystal")),
        (medium / "unpacked", ("unpack", archive)),
        (medium / "packed.zip", ("convert", archive)),
    ):
        done = run_archivefs(*command, target)
        assert (done.returncode, done.stderr) == (1, f"archivefs: {target}: Read-only file system\n")


@pytest.mark.parametrize("missing", ["", "deep/er"])
def test_what_somebody_else_owns_is_write_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    require_writable(str(tmp_path), str(tmp_path / missing))
    monkeypatch.setattr(os, "access", lambda _path, mode: not mode & os.W_OK)
    with pytest.raises(NotPermitted) as caught:
        require_writable(str(tmp_path), str(tmp_path / missing))
    assert str(caught.value) == f"{tmp_path}: cannot be written: it is write-protected; {ADVICE}"
    assert caught.value.exit_code == 1
