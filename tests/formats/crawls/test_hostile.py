"""Hostile and damaged zips among crawls: an error of ours or exactly what is promised, in little memory."""

from __future__ import annotations

import json
import logging
import os
import random
import subprocess
import sys
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

from archivefs.errors import ArchiveError, CorruptMember, LimitExceeded
from archivefs.format import Opening
from archivefs.formats.crawls import archive as archive_module
from archivefs.formats.crawls.archive import CrawlArchive
from archivefs.formats.crawls.naming import parse_id
from archivefs.formats.crawls.storage import Storage
from archivefs.formats.crawls.tree import CrawlsTree
from archivefs.tree import File
from tests.hostile.corpus import CASES, GOOD
from tests.samples import crawls
from tests.samples.crawls import FILES_MAP, FIRST
from tests.shared import shared, shared_module
from tests.walking import content_of, walk
from tests.zips.forge import STORED, Forge

META = json.dumps(crawls.metadata(FIRST)).encode()


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


def forged(path: Path, forge: Forge) -> CrawlArchive:
    forge.add("crawl.json", META)
    path.write_bytes(forge.end())
    return CrawlArchive(str(path), parse_id(FIRST))


def read(archive: CrawlArchive, name: str) -> bytes:
    return b"".join(archive.pieces(archive.members[name]))


def looked_at(path: Path) -> dict[str, bytes]:
    """Every file of an archive that can be read, after a look at everything the tree shows of it."""
    found: dict[str, bytes] = {}
    with closing(CrawlsTree(str(path), Opening())) as tree:
        for parts, _, node, _ in walk(tree):
            if isinstance(node, File):
                try:
                    data = content_of(node)
                except ArchiveError as error:
                    assert str(error).isprintable()
                    continue
                if parts[0] == "crawls":
                    found["/".join(parts[2:])] = data
    return found


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_corpus_as_crawls(tmp_path: Path, name: str) -> None:
    case = CASES[name]()
    (tmp_path / "crawls").mkdir()
    (tmp_path / "crawls" / f"{FIRST}.zip").write_bytes(case.data)
    found = looked_at(tmp_path)
    # links are plain files here, however long what they hold
    assert sum(map(len, found.values())) <= (64 << 20 if name == "a_link_of_megabytes" else case.max_bytes)
    if case.mount == "ok" and "good.txt" in case.good:
        assert found.get("good.txt") == GOOD


def test_the_shared_corpus_as_crawls(tmp_path: Path) -> None:
    corpus = shared_module("faults", "badzips.py")
    for number, kind in enumerate(sorted(corpus.KINDS)):
        data, expected = corpus.build(kind)
        folder = tmp_path / str(number) / "crawls"
        folder.mkdir(parents=True)
        (folder / f"{FIRST}.zip").write_bytes(data)
        found = looked_at(folder.parent)
        most = 64 << 20 if kind == "symlink_bomb" else expected["limits"].get("bytes", 64 << 20)
        assert sum(map(len, found.values())) <= most, kind
        for name in expected["bad"]:
            assert name not in found, (kind, name)


def test_the_shared_samples(tmp_path: Path) -> None:
    program = shared("samples", "make_crawls.py")
    subprocess.run([sys.executable, program, tmp_path], check=True, capture_output=True, timeout=60)
    cases = json.loads((tmp_path / "bad" / "cases.json").read_bytes())
    unreadable = {
        "no-crawl-json", "invalid-json", "json-not-object", "json-not-utf8", "json-deep",
        "empty-file", "not-a-zip", "truncated", "tail-cut", "bit-flip",
    }  # fmt: skip
    storage = Storage(str(tmp_path / "bad"))
    snapshot = storage.snapshot()
    for item in snapshot.items:
        case = cases[item.name.file_name]
        assert (storage.facts(item).metadata is None) == (case in unreadable), case
        if case in ("encrypted", "lying-size", "overlap", "unknown-method", "bomb"):
            archive = storage.archive(item)
            assert [name for name, _ in archive.check_all()] != []
            assert all(name.endswith("_map.csv") for name, _ in archive.check_all())
    assert {cases[odd.file_name] for odd in snapshot.odd} == {"bad-name", "directory", "symlink"}
    assert len(snapshot.items) + len(snapshot.odd) == len(cases)
    storage.close()


# -- names --


def test_names_that_are_not_shown(tmp_path: Path) -> None:
    forge = Forge()
    bad = [
        b"../up_map.csv", b"/abs_map.csv", b"a//b_map.csv", b"a/./b_map.csv", b"a/../b_map.csv", b"back\\slash_map.csv",
        b"C:x_map.csv", b"nul\0_map.csv", b"esc\x1b_map.csv", b"c1\xc2\x85_map.csv", b"\xff_map.csv", b"x" * 256,
        b"d/" * 3000 + b"deep", b"data/", b"",
    ]  # fmt: skip
    for name in bad:
        forge.add(name, b"x", method=STORED)
    forge.add("žluť_map.csv".encode(), b"y", central={"flags": 0}, local={"flags": 0})
    forge.add("folder/", b"")
    archive = forged(tmp_path / "a.zip", forge)
    assert sorted(archive.members) == ["crawl.json", "žluť_map.csv"]
    assert archive.root["folder"] == {}
    assert len(archive.warnings) == len(bad)
    assert all(warning.isprintable() for warning in archive.warnings)
    archive.close()


def test_of_equal_names_the_last_counts(tmp_path: Path) -> None:
    forge = Forge()
    for data in (b"one", b"two", b"three"):
        forge.add(FILES_MAP, data)
    archive = forged(tmp_path / "a.zip", forge)
    assert read(archive, FILES_MAP) == b"three"
    assert len(archive.warnings) == 2
    archive.close()


@pytest.mark.parametrize("names", [("pet", "pet/cat"), ("pet/cat", "pet")])
def test_a_file_that_is_also_a_folder_is_dropped(tmp_path: Path, names: tuple[str, str]) -> None:
    forge = Forge()
    for name in names:
        forge.add(name, b"x")
    archive = forged(tmp_path / "a.zip", forge)
    assert sorted(archive.members) == ["crawl.json", "pet/cat"]
    assert len(archive.warnings) == 1
    archive.close()


# -- bytes --


def test_members_that_overlap_are_all_unreadable(tmp_path: Path) -> None:
    forge = Forge()
    forge.add("before_map.csv", b"fine")
    inner = Forge()
    inner.add("inner_map.csv", b"inside", method=STORED)
    body = bytes(inner.out)
    at = forge.add("outer_map.csv", body, method=STORED)
    start = at + 30 + len("outer_map.csv")
    forge.add("inner_map.csv", b"inside", method=STORED, central={"offset": start}, write=False)
    same = forge.add("same_map.csv", b"same", method=STORED)
    forge.add("twin_map.csv", b"same", method=STORED, central={"offset": same}, write=False)
    forge.add("after_map.csv", b"fine")
    archive = forged(tmp_path / "a.zip", forge)
    for name in ("outer", "inner", "same", "twin"):
        with pytest.raises(CorruptMember):
            read(archive, f"{name}_map.csv")
    assert read(archive, "before_map.csv") == read(archive, "after_map.csv") == b"fine"
    archive.close()


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "MAX_MEMBER_BYTES", 1000)
    forge = Forge()
    forge.add("big_map.csv", b"0" * 1001)
    forge.add("small_map.csv", b"0" * 1000)
    forge.add("liar_map.csv", b"0" * 100_000, central={"size": 999}, local={"size": 999})
    archive = forged(tmp_path / "a.zip", forge)
    with pytest.raises(LimitExceeded):
        read(archive, "big_map.csv")
    with pytest.raises(CorruptMember):
        read(archive, "liar_map.csv")
    assert len(read(archive, "small_map.csv")) == 1000
    archive.close()


def test_too_many_members_are_refused(tmp_path: Path) -> None:
    forge = Forge()
    for number in range(100_001):
        forge.add(f"{number}", b"", method=STORED, write=False, central={"offset": 0})
    path = tmp_path / f"{FIRST}.zip"
    path.write_bytes(forge.end(zip64=True))
    with pytest.raises(ArchiveError, match="100000"):
        CrawlArchive(str(path), parse_id(FIRST))


def test_a_large_map_file_is_rendered_in_little_memory(tmp_path: Path) -> None:
    row = b"x" * 90 + b",12\r\n"
    crawls.write(tmp_path, FIRST, {FILES_MAP: b"filename,file_size\r\n" + row * 200_000})
    with closing(CrawlsTree(str(tmp_path), Opening())) as tree:
        tracemalloc.start()
        size = tree.lookup(["views", FIRST, *f"{FILES_MAP}.json".split("/")]).attributes().size
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert size > 20_000_000
    assert peak < 24 << 20


# -- mutants --


def test_mutants_give_an_error_or_their_bytes(tmp_path: Path) -> None:
    chance = random.Random(7)
    whole = crawls.archive(FIRST, {FILES_MAP: crawls.table(crawls.FILES_COLUMNS, [crawls.item(n) for n in range(30)])})
    table = crawls.table(crawls.FILES_COLUMNS, [crawls.item(number) for number in range(30)])
    path = tmp_path / f"{FIRST}.zip"
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data[: chance.randrange(len(data))] if chance.random() < 0.2 else data)
        try:
            archive = CrawlArchive(str(path), parse_id(FIRST))
        except ArchiveError:
            continue
        try:
            archive.metadata()
            if FILES_MAP in archive.members:
                assert read(archive, FILES_MAP) == table
        except ArchiveError as error:
            assert str(error).isprintable()
        finally:
            archive.close()
    assert os.listdir(tmp_path) == [path.name]
