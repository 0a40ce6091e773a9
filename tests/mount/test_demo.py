"""``make demo`` works, and cleans up after itself also when a step of it fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mount.harness import mount_points, wait_until

DEMO = Path(__file__).parents[2] / "contrib" / "demo" / "run.sh"


class Demo:
    """The demo with a temporary folder of its own, so that one can see what is left in it."""

    def __init__(self, folder: Path) -> None:
        self.temporary = folder / "with space"
        self.temporary.mkdir()
        self.programs = folder / "programs"
        self.programs.mkdir()
        path = f"{self.programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {**os.environ, "TMPDIR": str(self.temporary), "PATH": path}

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(DEMO)],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def replace(self, program: str, script: str) -> None:
        (self.programs / program).write_text(f"#!/bin/sh\n{script}\n")
        (self.programs / program).chmod(0o755)

    def left(self) -> list[str]:
        return sorted(os.listdir(self.temporary)) + [p for p in mount_points() if p.startswith(f"{self.temporary}/")]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    demo = Demo(tmp_path)
    yield demo
    for point in mount_points():
        if point.startswith(f"{tmp_path}/"):
            subprocess.run(["fusermount3", "-uz", point], check=False)


def test_the_demo_shows_every_step(demo: Demo) -> None:
    process = demo.start()
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    for words in ("archivefs mount", "find ", "grep -r", "getfattr -d", "rsync -aX", "the copy is the same"):
        assert words in said
    assert said.rstrip().endswith("== Done")
    assert demo.left() == []


def test_a_step_that_fails_leaves_nothing_behind(demo: Demo) -> None:
    demo.replace("getfattr", "echo broken; exit 1")
    process = demo.start()
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert said.rstrip().endswith("broken"), "it should stop where a step fails"
    assert demo.left() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_stopped_leaves_nothing_behind(demo: Demo, number: signal.Signals, tmp_path: Path) -> None:
    reached = tmp_path / "reached"
    demo.replace("getfattr", f"touch '{reached}'; sleep 30")
    process = demo.start()
    assert wait_until(reached.exists, 30)
    os.killpg(process.pid, number)  # as a terminal does; the group holds what this test started and nothing else
    process.communicate(timeout=20)
    assert process.returncode != 0
    assert demo.left() == []
