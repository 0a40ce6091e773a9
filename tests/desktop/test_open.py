"""``archivefs open`` and the entries of contrib/desktop that call it, with a file manager that only takes notes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mount.harness import mount_points, run_archivefs, tool
from tests.samples.site import write_all

DESKTOP = Path(__file__).parents[2] / "contrib" / "desktop"
pytestmark = pytest.mark.fuse


class Desk:
    """A home folder, sample archives, and programs of a desktop that write down how they were called."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.log = folder / "log"
        self.bin = folder / "bin"
        self.home.mkdir()
        self.bin.mkdir()
        for name in ("xdg-open", "notify-send"):
            (self.bin / name).write_text(f'#!/bin/sh\necho "{name} $*" >> "{self.log}"\n')
            (self.bin / name).chmod(0o755)
        write_all(self.home)

    def open(self, *words: Path | str) -> subprocess.CompletedProcess[str]:
        path = f"{self.bin}:{os.environ['PATH']}"
        return run_archivefs("open", *words, env={**os.environ, "HOME": str(self.home), "DISPLAY": ":99", "PATH": path})

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    yield Desk(tmp_path)
    for point in mount_points():
        if point.startswith(f"{tmp_path}/"):
            subprocess.run(["fusermount3", "-uz", point], timeout=10, check=False)


def test_an_archive_is_mounted_at_home_and_shown_and_the_next_time_only_shown(desk: Desk) -> None:
    at = desk.home / "archivefs" / "site.zip"
    first = desk.open(desk.home / "site.zip")
    assert (first.returncode, first.stdout, first.stderr) == (0, f"mounted at {at}\n", "")
    assert (at / "style.css").is_file()
    second = desk.open(desk.home / "site.zip")
    assert (second.returncode, second.stdout) == (0, f"mounted already at {at}\n")
    assert desk.calls() == [f"xdg-open {at}"] * 2


def test_the_place_has_a_readable_name(desk: Desk) -> None:
    at = desk.home / "archivefs" / "site.zip"
    assert desk.open("--no-window", desk.home / "site.zip").returncode == 0
    env = {**os.environ, "HOME": str(desk.home), "GIO_USE_VOLUME_MONITOR": "unix", "LC_ALL": "C.UTF-8"}
    places = subprocess.run(
        [tool("gio"), "mount", "-l"], env=env, capture_output=True, text=True, timeout=30, check=True
    )
    assert f"site.zip -> file://{at}" in places.stdout
    assert desk.calls() == []


def test_the_opener_of_a_project_opens_the_project_and_another_archive_of_that_name_gets_a_number(desk: Desk) -> None:
    project = desk.home / "harbour.crystalproj"
    (project / "OPEN ME.crystalopen").write_bytes(b"CrOp")
    other = desk.home / "other"
    other.mkdir()
    (other / "harbour.crystalproj").write_bytes((desk.home / "site.zip").read_bytes())
    mounts = desk.home / "archivefs"
    assert desk.open(project / "OPEN ME.crystalopen").stdout == f"mounted at {mounts}/harbour.crystalproj\n"
    assert desk.open(project).stdout == f"mounted already at {mounts}/harbour.crystalproj\n"
    assert desk.open(other / "harbour.crystalproj").stdout == f"mounted at {mounts}/harbour.crystalproj~2\n"


def test_what_is_wrong_is_told_in_a_window(desk: Desk) -> None:
    missing = desk.home / "no <such> file.zip"
    done = desk.open(missing)
    assert (done.returncode, done.stderr) == (2, f"archivefs: {missing}: no such file or folder\n")
    shown = f"{desk.home}/no &lt;such&gt; file.zip: no such file or folder"
    refused = desk.open("-o", "umask=no", desk.home / "site.zip")
    assert refused.returncode == 2
    first, second = desk.calls()
    assert first == f"notify-send --icon=dialog-error archivefs {shown}"
    assert refused.stderr.startswith("archivefs: ")
    assert second.endswith(refused.stderr.strip().removeprefix("archivefs: "))
    assert not (desk.home / "archivefs" / "site.zip").exists()


def validated(name: str) -> list[str]:
    """What desktop-file-validate has against an entry."""
    done = subprocess.run([tool("desktop-file-validate"), DESKTOP / name], capture_output=True, text=True, timeout=30)
    return done.stdout.splitlines()


def test_the_entry_is_sound() -> None:
    assert validated("archivefs.desktop") == []


def test_the_service_menu_is_sound_but_for_what_dolphin_wants() -> None:
    problems = validated("archivefs-servicemenu.desktop")
    assert [line for line in problems if "MimeType" not in line and '"Actions"' not in line] == []
