"""Random edits of real archives on a mount and of a plain folder, and drivers killed on the way.

``make torture`` runs both for long: ARCHIVEFS_TORTURE_OPERATIONS steps, ARCHIVEFS_TORTURE_ROUNDS kills.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.mount.harness import Mount, mounted, run_archivefs
from tests.mount.test_writing import Beside, snapshot

STEPS = max(90, int(os.environ.get("ARCHIVEFS_TORTURE_OPERATIONS", "0")) // 100)
ROUNDS = int(os.environ.get("ARCHIVEFS_TORTURE_ROUNDS", "4"))
HOST = Path("web/https/pages.example")


def new_archive(folder: Path, kind: str) -> Path:
    path = folder / {"labrador": "site.lbz", "crystal": "site.crystalproj"}[kind]
    done = run_archivefs("create", kind, path)
    assert done.returncode == 0, done.stderr
    return path


def prune(folder: Path) -> None:
    """A Labrador archive has no empty directories."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_labrador_archive_is_edited_as_a_folder_is(tmp_path: Path, transport: str, seed: int) -> None:
    archive, plain = new_archive(tmp_path, "labrador"), tmp_path / "plain"
    plain.mkdir()
    for round_number in range(3):
        with mounted(archive, at=tmp_path / "m", transport=transport, options="rw") as mount:
            assert snapshot(mount.path) == snapshot(plain)
            beside = Beside(mount.path, plain, seed * 100 + round_number)
            for _ in range(STEPS // 3):
                beside.step()
            beside.same()
        prune(plain)
    assert run_archivefs("verify", archive).returncode == 0


class Pages(Beside):
    """What a Crystal project allows: pages are made and changed, and not removed or renamed."""

    def path(self) -> Path:
        folder = self.random.choice([".", "news", "news/old", "a"])
        return Path(folder) / self.random.choice(["x.txt", "y.html", "z.css"])

    def step(self) -> None:
        self.random.choice([self.write, self.write, self.patch, self.append, self.truncate])()


def test_a_crystal_project_is_edited_as_a_folder_is(tmp_path: Path, transport: str) -> None:
    archive, plain = new_archive(tmp_path, "crystal"), tmp_path / "plain"
    for folder in ("news/old", "a"):
        (plain / folder).mkdir(parents=True)
    for round_number in range(3):
        with mounted(archive, at=tmp_path / "m", transport=transport, options="rw") as mount:
            root = mount.path / HOST
            for folder in ("news/old", "a"):
                (root / folder).mkdir(parents=True, exist_ok=True)
            beside = Pages(root, plain, round_number)
            for _ in range(STEPS // 3):
                beside.step()
            beside.same()
    assert run_archivefs("verify", archive).returncode == 0


# -- killed on the way --


def keep_writing(root: Path, rng: random.Random, acknowledged: dict[str, bytes], stop: threading.Event) -> None:
    """Write files until the driver is gone; what close() has acknowledged is written down."""
    number = len(acknowledged)
    while not stop.is_set():
        name = f"f{number}.txt"
        data = rng.randbytes(rng.choice([1, 500, 20_000, 80_000]))
        try:
            (root / name).write_bytes(data)
        except OSError:
            return
        acknowledged[name] = data
        number += 1


@pytest.mark.parametrize("kind", ["labrador", "crystal"])
def test_what_close_has_acknowledged_survives_the_driver(tmp_path: Path, transport: str, kind: str) -> None:
    archive, rng = new_archive(tmp_path, kind), random.Random(7)
    inside = Path() if kind == "labrador" else HOST
    acknowledged: dict[str, bytes] = {}
    for _ in range(ROUNDS):
        at = tmp_path / "m"
        mount = Mount(archive, at=at, transport=transport, options="rw").wait_ready()
        try:
            (at / inside).mkdir(parents=True, exist_ok=True)
            check(at / inside, acknowledged)
            _write_and_kill(mount, at / inside, rng, acknowledged, commits=kind == "labrador")
        finally:
            mount.end()
            shutil.rmtree(at, ignore_errors=True)
    with mounted(archive, at=tmp_path / "m", transport=transport, options="rw") as last:
        check(last.path / inside, acknowledged)
    assert run_archivefs("verify", archive).returncode == 0
    assert acknowledged


def _write_and_kill(
    mount: Mount, root: Path, rng: random.Random, acknowledged: dict[str, bytes], *, commits: bool
) -> None:
    stop = threading.Event()
    writer = threading.Thread(target=keep_writing, args=(root, rng, acknowledged, stop))
    writer.start()
    time.sleep(rng.uniform(0.05, 0.5))
    if commits and rng.random() < 0.6:
        with contextlib.suppress(OSError):
            (mount.path / ".archivefs" / "control").write_text("commit")
        time.sleep(rng.uniform(0, 0.1))
    mount.process.send_signal(signal.SIGKILL)
    mount.process.wait(10)
    stop.set()
    writer.join(20)
    assert not writer.is_alive(), "a client hangs on a dead mount"


def check(root: Path, acknowledged: dict[str, bytes]) -> None:
    for name, data in acknowledged.items():
        assert (root / name).read_bytes() == data, f"{name} was lost or torn"
