"""A Labrador archive whose manifest is kept between mounts: the same site, not read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from archivefs.format import Opening
from archivefs.formats.labrador.container import Container
from archivefs.formats.labrador.tree import LabradorTree
from tests.samples.labrador import write_many
from tests.walking import as_dict


def shown(archive: Path, index: object) -> tuple[dict[str, object], bytes]:
    tree = LabradorTree(str(archive), Opening(index=str(index)))
    try:
        reader = tree.extras()["manifest"]()
        return as_dict(tree.root()), reader.read_at(0, 1 << 20)
    finally:
        tree.close()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    return write_many(tmp_path / "site" / "site.zip", 300)


def test_the_second_tree_is_the_same(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = shown(archive, "off")
    assert shown(archive, tmp_path / "index") == expected
    monkeypatch.delattr(Container, "manifest")  # now nobody can read it
    assert shown(archive, tmp_path / "index") == expected
    assert [path.name for path in archive.parent.iterdir()] == ["site.zip"]


@pytest.mark.parametrize("at", [0, 20, 300, 5000, -1, -5000, -20_000])
def test_a_damaged_index_is_not_used(archive: Path, tmp_path: Path, at: int) -> None:
    expected = shown(archive, tmp_path / "index")
    (kept,) = (tmp_path / "index").glob("*.manifest.index")
    data = bytearray(kept.read_bytes())
    data[at] ^= 0x10
    kept.write_bytes(data)
    assert shown(archive, tmp_path / "index") == expected
