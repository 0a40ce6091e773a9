"""The benchmark's own project, small: it is a good one, and its bare walk sees what the tree lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from archivefs.format import Level, Opening, VerifyRequest
from archivefs.formats.crystal import FORMAT
from contrib.bench import crystal, crystal_project
from tests.formats.crystal.projects import directory, opened, read


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crystal_project, "LARGE_BYTES", 1 << 20)
        return crystal_project.written(tmp_path_factory.mktemp("bench") / "b.crystalproj", revisions=2000, texts=50)


def test_the_bare_walk_sees_the_names_of_the_listing(path: Path) -> None:
    with opened(path, "unfetched") as tree:
        listed = list(directory(tree, "/".join(crystal_project.WIDEST)).entries())
        assert len(listed) == crystal._bare_walk(path, crystal._KEYS) > 300


def test_its_texts_have_bodies_and_nothing_else_is_wrong(path: Path) -> None:
    with opened(path) as tree:
        assert read(tree, "web/https/text.example/000/000007.html") == crystal_project.text_body(7)
    assert FORMAT.verify
    found = list(FORMAT.verify(str(path), Opening(), VerifyRequest()))
    assert {finding.code for finding in found if finding.level is Level.ERROR} == {"lost-body"}
