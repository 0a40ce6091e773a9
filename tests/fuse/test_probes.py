"""What file managers ask for in every folder is answered from memory, and never hides what is there."""

from __future__ import annotations

from collections import Counter

import pytest

from archivefs.caches import ByteCache
from archivefs.errors import NotFound
from archivefs.fuse import probes
from archivefs.fuse.driver import Driver
from archivefs.fuse.options import MountOptions
from archivefs.memory import MemoryTree

NAMES = [
    *["autorun.inf", "desktop.ini", "Thumbs.db", ".Trash", ".Trash-1000", ".hidden", ".directory", ".DS_Store", ".git"],
    ".xdg-volume-info",
]


class Living(MemoryTree):
    """A tree that changes when the test says so."""

    immutable = False
    number = 1

    def generation(self) -> int:
        return self.number


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the archive was asked for which name."""
    counts: Counter[str] = Counter()
    kind = type(MemoryTree({}).root())
    real = kind.child

    def child(self, name):
        counts[name] += 1
        return real(self, name)

    monkeypatch.setattr(kind, "child", child)
    return counts


def driver_of(tree, **options) -> Driver:
    return Driver(tree, MountOptions(**options), ByteCache(1 << 20))


def misses(driver: Driver, name: str, directory=None) -> bool:
    try:
        driver.lookup(directory or driver.root, name)
    except NotFound:
        return True
    return False


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [MemoryTree, Living])
def test_the_archive_is_asked_once(asked: Counter[str], name: str, kind) -> None:
    driver = driver_of(kind({"d": {}}))
    assert all(misses(driver, name) for _ in range(5))
    assert asked[name] == 1
    assert misses(driver, name, driver.lookup(driver.root, "d"))
    assert asked[name] == 2


def test_other_names_are_asked_for_each_time(asked: Counter[str]) -> None:
    driver = driver_of(MemoryTree({}))
    assert misses(driver, "page.html") and misses(driver, "page.html")
    assert asked["page.html"] == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_that_name_is_there(name: str) -> None:
    driver = driver_of(MemoryTree({name: b"real", "d": {}}))
    assert misses(driver, name, driver.lookup(driver.root, "d"))
    for _ in range(3):
        assert driver.lookup(driver.root, name).attributes().size == 4


def test_a_new_generation_is_asked_again(asked: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "TRUSTED_S", 0.0)
    tree = Living({})
    driver = driver_of(tree)
    assert misses(driver, ".hidden") and misses(driver, ".hidden")
    tree.number += 1
    assert misses(driver, ".hidden")
    assert asked[".hidden"] == 2


def test_nothing_is_remembered_where_it_can_be_written(asked: Counter[str]) -> None:
    driver = driver_of(MemoryTree({}), read_write=True)
    assert misses(driver, ".hidden") and misses(driver, ".hidden")
    assert asked[".hidden"] == 2


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "KEPT", 8)
    tree = MemoryTree({})
    missing = probes.MissingProbes()
    for number in range(100):
        missing.add(tree.root(), f".Trash-{number}", generation=0)
        assert missing.has(tree.root(), f".Trash-{number}")
    assert sum(missing.has(tree.root(), f".Trash-{number}") for number in range(100)) <= 8
