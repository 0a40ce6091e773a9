"""Where a project lies: what nobody can write to never changes; what only we cannot write to may."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from archivefs.formats.crystal import media
from archivefs.formats.crystal.media import Medium, cannot_change, is_network, medium_of
from tests.formats.crystal.projects import opened, project


def lies_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: str, kind: str, whole: str) -> None:
    """As if *tmp_path* were on that file system."""
    device = tmp_path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    table = tmp_path / "mountinfo"
    other = "22 27 0:0 / /proc rw - proc proc rw\n"
    table.write_text(f"{other}30 27 {number} / /mnt {mounted},relatime shared:1 - {kind} /dev/x {whole},discard\n")
    monkeypatch.setattr(media, "_MOUNTS", str(table))


@pytest.mark.parametrize(
    ("mounted", "kind", "whole", "expected"),
    [
        ("ro", "iso9660", "ro", True),
        ("ro", "ext4", "ro", True),
        ("ro", "ext4", "rw", False),  # mount -o bind,ro: Crystal writes by another path
        ("rw", "ext4", "rw", False),
        ("ro", "nfs4", "ro", False),  # whoever exports it can write
        ("ro", "overlay", "ro", False),
        ("ro", "fuse.sshfs", "ro", False),
    ],
)
def test_only_what_nobody_can_write_to_is_taken_for_unchanging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: str, kind: str, whole: str, expected: bool
) -> None:
    lies_on(tmp_path, monkeypatch, mounted, kind, whole)
    assert medium_of(str(tmp_path)) == Medium(kind, whole == "ro")
    assert cannot_change(str(tmp_path)) is expected
    with opened(project(tmp_path, lambda writer: writer.fetch("https://site.example/", b"1"))) as tree:
        assert tree.immutable is expected


def test_a_file_system_may_have_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is mounted from "" has a table row with nothing between two spaces."""
    lies_on(tmp_path, monkeypatch, "ro", "tmpfs", "ro")
    table = tmp_path / "mountinfo"
    table.write_text(table.read_text().replace("/dev/x", ""))
    assert medium_of(str(tmp_path)) == Medium("tmpfs", True)


def test_network_file_systems() -> None:
    assert [is_network(Medium(kind, False)) for kind in ("nfs", "fuse.sshfs", "9p", "ext4")] == [
        True,
        True,
        True,
        False,
    ]


def test_what_cannot_be_known_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "_MOUNTS", str(tmp_path / "none"))
    assert medium_of(str(tmp_path)) is None
    assert not cannot_change(str(tmp_path))
