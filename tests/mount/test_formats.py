"""The other formats through a real mount point: the contract of each, with the archives of their own tests."""

from __future__ import annotations

import os
from pathlib import Path

from tests.formats.labrador import test_tree as labrador_tests
from tests.mount.contract import MountContract
from tests.mount.harness import mounted
from tests.samples import crystal, labrador


class TestLabradorMounted(MountContract):
    expected = labrador_tests.TestContract.expected
    mount_options = "check,base_url=https://island.example/"

    def make_archive(self, tmp_path: Path) -> Path:
        return labrador.write(tmp_path / "island.lbz", labrador.SITE)


class TestCrystalMounted(MountContract):
    def make_archive(self, tmp_path: Path) -> Path:
        return crystal.write(tmp_path / "harbour.crystalproj")


def test_a_labrador_archive_brings_its_own_files_along(tmp_path: Path, transport: str) -> None:
    archive = labrador.write(tmp_path / "island.lbz", labrador.SITE)
    with mounted(archive, at=tmp_path / "mnt", transport=transport) as mount:
        assert {"status.json", "errors.log", "manifest"} <= set(os.listdir(mount.path / ".archivefs"))
        manifest = (mount.path / ".archivefs" / "manifest").read_text().splitlines()
        assert len(manifest) == len(labrador.SITE)
        url = os.getxattr(mount.path / "ferries" / "index.html", "user.xdg.origin.url")
        assert url == b"/ferries/"
