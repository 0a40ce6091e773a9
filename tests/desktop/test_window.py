"""A real file manager on a screen that nobody sees: contrib/desktop/look.sh."""

from __future__ import annotations

import os
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from tests.mount.harness import mount_points, tool

LOOK = Path(__file__).parents[2] / "contrib" / "desktop" / "look.sh"
TOWER_RED = b"\xcc\x11\x11"
"""Of images/lighthouse.png in the samples, and of nothing else on the screen."""
pytestmark = pytest.mark.fuse


def look(folder: Path, *pictures: str, **env: str) -> subprocess.CompletedProcess[str]:
    for name in ("Xvfb", "xdotool", "pcmanfm"):
        tool(name)
    return subprocess.run(
        [LOOK, *pictures],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), **env},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def pixels(path: Path) -> list[bytes]:
    """The rows of a PNG as look.sh makes them: one chunk, no filters."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    width, height = struct.unpack(">II", data[16:24])
    start = data.index(b"IDAT") + 4
    rows = zlib.decompress(data[start : start + struct.unpack(">I", data[start - 8 : start - 4])[0]])
    assert len(rows) == height * (3 * width + 1)
    return [rows[place + 1 : place + 3 * width + 1] for place in range(0, len(rows), 3 * width + 1)]


def test_mounts_are_shown_with_their_pictures_and_cost_no_problem(tmp_path: Path) -> None:
    done = look(tmp_path, "first.png", "second.png")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for line, name in zip(lines, ("images", "island.lbz", "a click.lbz"), strict=True):
        assert line.startswith(f"{name}: shown; ")
        assert line.endswith(" operations, no problem")
    first = pixels(tmp_path / "first.png")
    assert sum(TOWER_RED * 10 in row for row in first) >= 10, "the picture in the archive has no thumbnail"
    assert first != pixels(tmp_path / "second.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.png", "second.png"]


def test_it_fails_where_no_window_comes_and_leaves_nothing(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "pcmanfm").write_text("#!/bin/sh\necho no window today\n")
    (programs / "pcmanfm").chmod(0o755)
    done = look(tmp_path, "first.png", LOOK_S="1", PATH=f"{programs}:{os.environ['PATH']}")
    assert done.returncode == 1
    assert done.stderr == "look: no window is called images: no window today\n"
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]
    assert [point for point in mount_points() if point.startswith(str(tmp_path))] == []
