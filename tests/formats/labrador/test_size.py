"""Large archives: quick to open, without a Python object per record, and looked up without a scan."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from archivefs.formats.labrador.tree import LabradorTree
from tests.formats.labrador.opening import opened_archive
from tests.samples.labrador import many_pages, write_many
from tests.walking import content_of

COUNT = 20_000


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_many(tmp_path_factory.mktemp("large") / "large.lbz", COUNT)


def test_opening_is_quick_and_keeps_no_object_per_record(archive: Path) -> None:
    with opened_archive(archive):  # imports and the like are not to be counted
        pass
    started = time.monotonic()
    before = sys.getallocatedblocks()
    with opened_archive(archive) as tree:
        assert sys.getallocatedblocks() - before < COUNT / 10
        assert time.monotonic() - started < 1  # 200,000 may take two seconds
        assert tree.manifest.shown == COUNT


def test_every_page_is_where_it_should_be(archive: Path) -> None:
    with opened_archive(archive) as tree:
        for number, (url, data) in enumerate(many_pages(COUNT)):
            if number % 97 == 0 or number % 1000 == 999:
                node = tree.lookup(url.split("/")[1:])
                assert content_of(node) == data
                state = b"duplicate" if number % 1000 == 999 else b"stored"
                assert node.xattrs()["user.archivefs.state"] == state
        facts = tree.facts()
        assert facts["files"] == COUNT
        assert facts["states"] == {"stored": COUNT - COUNT // 1000, "duplicate": COUNT // 1000}


def test_looking_up_does_not_depend_on_the_size(archive: Path, tmp_path: Path) -> None:
    pages = [url.split("/")[1:] for url, _ in many_pages(1000)]
    with opened_archive(write_many(tmp_path / "small.lbz", 1000)) as small, opened_archive(archive) as large:
        assert look_up_all(large, pages) < 5 * look_up_all(small, pages) + 0.2


def look_up_all(tree: LabradorTree, pages: list[list[str]]) -> float:
    tree.lookup(pages[0]).attributes()
    started = time.monotonic()
    for parts in pages:
        tree.lookup(parts).attributes()
    return time.monotonic() - started
