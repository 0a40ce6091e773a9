"""A URL database joined with a Crystal project, mounted."""

from __future__ import annotations

import os
from pathlib import Path

from tests.formats.urldb.test_commands import HOST, write_project
from tests.formats.urldb.test_content import SHOWN
from tests.mount.harness import mounted, run_archivefs
from tests.samples.urldb import HARBOUR, LOGO, MINIMAL, write


def test_a_database_as_a_site(tmp_path: Path, transport: str) -> None:
    project = write_project(tmp_path)
    database = write(tmp_path / "db", {HOST: HARBOUR, "minimal.example": MINIMAL})
    options = f"view=content,join={project}"
    with mounted(database, at=tmp_path / "m", transport=transport, options=options) as mount:
        root = mount.path
        assert sorted(os.listdir(root)) == sorted(SHOWN)
        assert (root / f"www.{HOST}" / "about" / "index.html").read_bytes() == b"<p>about"
        assert (root / HOST / "logo.png").read_bytes() == LOGO
        assert (root / HOST / "about" / "index.html").stat().st_size == len(b"<p>about")
        assert os.getxattr(root / HOST / "logo.png", "user.xdg.origin.url") == f"http://{HOST}/logo.png".encode()
        assert "/wreck" in (root / HOST / "^missing.txt").read_text()


def test_it_cannot_be_mounted_for_writing(tmp_path: Path) -> None:
    project = write_project(tmp_path)
    database = write(tmp_path / "db")
    (tmp_path / "m").mkdir()
    done = run_archivefs("mount", "-f", "-o", f"rw,view=content,join={project}", database, tmp_path / "m")
    assert done.returncode == 2
    assert "view=content cannot be written" in done.stderr
