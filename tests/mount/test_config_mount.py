"""Mounts by their name in the configuration."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mount.harness import mount_points, run_archivefs
from tests.samples.zips import write_tree


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A configuration with a mount called ``island``, which is taken away at the end if it is still there."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    write_tree(tmp_path / "site.zip", {"folder": {"deep.txt": b"deep"}})
    path = tmp_path / "archivefs" / "config.yaml"
    path.parent.mkdir()
    path.write_text(
        "options: {umask: 077, fsname: sea}\n"
        "formats: {zip: {timeout: 7}}\n"
        "mounts:\n"
        "  island: {sources: ../site.zip, mountpoint: ../mnt, subdir: folder, options: {umask: 027}}\n"
    )
    yield path
    if str(tmp_path / "mnt") in mount_points():
        subprocess.run(["fusermount3", "-uz", str(tmp_path / "mnt")], check=False)


def test_mounting_by_name(config: Path, tmp_path: Path) -> None:
    done = run_archivefs("mount", "-o", "fsname=shore", "island", cwd=config.parent)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    point = tmp_path / "mnt"
    assert (point / "deep.txt").read_bytes() == b"deep"
    assert (point / "deep.txt").stat().st_mode & 0o777 == 0o440
    options = json.loads((point / ".archivefs" / "status.json").read_bytes())["options"]
    assert options == {"umask": "027", "fsname": "shore", "timeout": "7"}
    done = run_archivefs("umount", "island", cwd=config.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert str(point) not in mount_points()


def test_a_mistake_ends_a_mount_before_it_begins(config: Path, tmp_path: Path) -> None:
    config.write_text("options: {umaks: 077}\n")
    done = run_archivefs("mount", tmp_path / "site.zip", tmp_path / "mnt")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"archivefs: {config}:1: unknown option 'umaks'; did you mean umask?\n"
    assert not (tmp_path / "mnt").exists()
