"""Large projects: nothing is read that need not be, and memory stays flat."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from archivefs.caches import ByteCache
from archivefs.format import Opening
from archivefs.formats.crystal.idents import MAX_ODD, Idents, Meaning, Sort
from archivefs.formats.crystal.tree import CrystalTree
from archivefs.tree import MAX_IDENT
from tests.formats.crystal.projects import directory, names, opened, project
from tests.samples.crystal import ProjectWriter
from tests.walking import walk

PAGES = 60_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wide directory, many small ones, many hosts never fetched; rows only, written at once."""
    path = ProjectWriter().write(tmp_path_factory.mktemp("large") / "large.crystalproj")
    database = sqlite3.connect(path / "database.sqlite")
    database.execute("pragma synchronous=off")

    def urls() -> Iterator[str]:
        for number in range(PAGES):
            yield f"https://wide.example/flat/{number * 7919 % PAGES:06}"
        for number in range(5000):
            yield f"https://wide.example/dirs/{number:04}/a"
            yield f"https://wide.example/dirs/{number:04}/b/c"
        for number in range(3000):
            yield f"https://seen{number:04}.example/x"

    database.executemany("insert into resource values (?, ?)", enumerate(urls(), 1))
    metadata = '{"status_code": 200, "headers": [["Content-Type", "text/html"]]}'
    rows = ((key, key, "null", metadata) for key in range(1, PAGES + 10_001))
    database.executemany("insert into resource_revision (id, resource_id, error, metadata) values (?, ?, ?, ?)", rows)
    database.commit()
    database.close()
    return path


def resident_kib() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * (os.sysconf("SC_PAGE_SIZE") // 1024)


@pytest.mark.parametrize("release", ["1.0", "1.3", "1.6", "2.2"])
def test_no_statement_reads_a_whole_table(tmp_path: Path, release: str) -> None:
    """Every search is by an index or a key; what is scanned is a bounded sub-query or one row."""
    path = project(tmp_path, lambda writer: writer.fetch("https://a.example/", b""), release=release)
    with opened(path) as tree:
        sql = tree.project.edition().sql
        for field in dataclasses.fields(sql):
            statement = getattr(sql, field.name)
            if not statement:
                continue
            plan = tree.project.database.rows(f"explain query plan {statement}", [1] * statement.count("?"))
            steps = [row[3].decode() for row in plan]
            scans = [step for step in steps if step.startswith("SCAN") and not _bounded(step)]
            assert scans == [], (field.name, steps)
            assert not [step for step in steps if "TEMP B-TREE" in step], (field.name, steps)


def _bounded(step: str) -> bool:
    """A sub-query with a limit, one row, or an index that holds nothing but what is asked for."""
    return "CONSTANT ROW" in step or "(subquery" in step or step == "SCAN r" or "request_cookie_not_null" in step


def test_opening_reads_next_to_nothing(large: Path) -> None:
    start = time.process_time()
    with opened(large) as tree:
        tree.root().child("web")
        tree.facts()
    assert time.process_time() - start < 0.2


def test_the_first_names_come_at_once_and_all_of_them_in_order(large: Path) -> None:
    with opened(large) as tree:
        wide = directory(tree, "web/https/wide.example/flat")
        start = time.process_time()
        listing = wide.entries()
        first = [next(listing).name for _ in range(100)]
        assert time.process_time() - start < 0.1
        assert first == [f"{number:06}" for number in range(100)]
        assert [entry.name for entry in wide.entries()] == [f"{number:06}" for number in range(PAGES)]
        assert [entry.name for entry in wide.entries("059997")] == ["059998", "059999"]


def test_hosts_never_fetched_are_hidden_and_small_directories_shown(large: Path) -> None:
    with opened(large) as tree:
        assert names(tree, "web/https") == ["wide.example"]
        assert len(names(tree, "web/https/wide.example/dirs")) == 5000


def test_queries_of_a_listing_are_few(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(large) as tree:
        asked = []
        ask = tree.project.database.page
        monkeypatch.setattr(tree.project.database, "page", lambda *args, **more: asked.append(1) or ask(*args, **more))
        list(directory(tree, "web/https/wide.example/flat").entries())
        assert len(asked) < PAGES / 300
        asked.clear()
        directory(tree, "web/https/wide.example/flat").child("000123").attributes()
        assert len(asked) <= 12  # five names on the way, each with one to three


def test_memory_stays_flat_however_much_is_walked(large: Path) -> None:
    tree = CrystalTree(str(large), Opening(cache=ByteCache(4 << 20)))
    try:
        for entry in directory(tree, "web/https/wide.example/dirs").entries():
            tree.node(entry.ident).attributes()
        before = resident_kib()
        for number, entry in enumerate(directory(tree, "web/https/wide.example/flat").entries()):
            if number % 4 == 0:
                tree.node(entry.ident).attributes()
        for _ in zip(walk(tree), range(8000), strict=False):
            pass
        assert resident_kib() - before < 12 * 1024
    finally:
        tree.close()


# -- idents --


def test_idents_are_put_together_and_taken_apart() -> None:
    idents = Idents()
    for meaning in (
        Meaning(Sort.WEB, 1),
        Meaning(Sort.WEB_DIR, 2**32 - 1, 4095),
        Meaning(Sort.MEMBER, 0, 1),
        Meaning(Sort.NO_COOKIE, 12345),
    ):
        ident = idents.of(*meaning)
        assert 1 <= ident <= MAX_IDENT
        assert idents.meaning(ident) == meaning
        assert Idents().meaning(ident) == meaning  # no table is needed


def test_what_does_not_fit_is_remembered_up_to_a_limit() -> None:
    idents = Idents()
    first = idents.of(Sort.WEB, 2**40)
    assert idents.meaning(first) == Meaning(Sort.WEB, 2**40)
    assert idents.of(Sort.WEB, 2**40) == first
    numbers = {idents.of(Sort.WEB, -key) for key in range(1, MAX_ODD + 1)}
    assert len(numbers) == MAX_ODD
    assert first not in numbers
    with pytest.raises(Exception, match="no such file"):
        idents.meaning(first)  # pushed out
    assert idents.of(Sort.WEB, 2**40) not in (first, *numbers)
