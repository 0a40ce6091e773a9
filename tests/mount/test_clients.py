"""Many clients at once, and in any order; ``make torture`` runs the same for long."""

from __future__ import annotations

import os
import subprocess
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mount.clients import RandomClient, at_once, digests_of, read_for, sealed, walk_for
from tests.mount.harness import Mount, mounted, tool, wait_until
from tests.samples.zips import CONTENT, write_tree

OPERATIONS = int(os.environ.get("ARCHIVEFS_TORTURE_OPERATIONS", "10000"))
SECONDS = float(os.environ.get("ARCHIVEFS_TORTURE_SECONDS", "3"))

pytestmark = pytest.mark.timeout(120 + 20 * SECONDS + OPERATIONS / 50)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample archive, unpacked by somebody else."""
    folder = tmp_path_factory.mktemp("plain")
    write_tree(folder / "archive.zip", CONTENT)
    subprocess.run(
        [tool("unzip"), "-q", folder / "archive.zip", "-d", folder / "unzipped"],
        env={**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        check=True,
    )
    return folder / "unzipped"


@pytest.fixture(scope="module")
def mount(plain: Path, tmp_path_factory: pytest.TempPathFactory, transport: str) -> Iterator[Mount]:
    point = tmp_path_factory.mktemp("clients") / "mnt"
    archive = plain.with_name("archive.zip")
    with mounted(archive, at=point, transport=transport, options="cache_size=1M", env={"TZ": "UTC"}) as mount:
        yield mount


def test_any_order_of_operations_gives_what_a_plain_folder_gives(mount: Mount, plain: Path) -> None:
    assert RandomClient(mount.path, plain, seed=1).run(OPERATIONS) == []
    assert mount.said() == ""


def test_eight_clients_in_any_order_at_once(mount: Mount, plain: Path) -> None:
    assert at_once(lambda number: RandomClient(mount.path, plain, seed=number).run(OPERATIONS // 8)) == []


def test_eight_readers_at_once(mount: Mount, plain: Path) -> None:
    digests = digests_of(plain)
    assert at_once(lambda number: read_for(mount.path, digests, seconds=SECONDS, seed=number)) == []
    assert mount.said() == ""


def test_eight_clients_while_archives_come_and_go(tmp_path: Path, transport: str) -> None:
    folder = tmp_path / "archives"
    folder.mkdir()
    stop = threading.Event()

    def change() -> None:
        for number in range(10**9):
            name = f"{number % 5}.zip"
            write_sealed(tmp_path / "new", number)  # not in the folder, where it would be seen half-written
            os.rename(tmp_path / "new", folder / name)
            if number % 3 == 2:
                os.unlink(folder / name)
            if stop.wait(0.2):
                return

    changer = threading.Thread(target=change)
    write_sealed(folder / "fixed.zip", 7)
    with mounted(folder, at=tmp_path / "mnt", transport=transport) as mount:
        changer.start()
        try:
            problems = at_once(lambda _number: walk_for(mount.path, seconds=SECONDS))
        finally:
            stop.set()
            changer.join()
        assert problems == []
        expected = sorted(os.listdir(folder))
        assert wait_until(lambda: sorted(os.listdir(mount.path)) == expected), "the last change was not noticed"
        time.sleep(1)  # as long as the kernel may keep an answer of a living tree
        assert walk_for(mount.path, seconds=0.1) == []


def write_sealed(path: Path, number: int) -> None:
    """A zip whose files tell whether they are whole; no two numbers give the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in range(10):
            archive.writestr(f"{file}.bin", sealed(f"{number} {file} ".encode() * 2000))
