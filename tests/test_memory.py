"""MemoryTree keeps the contract, so whatever is tested with it is tested with an honest tree."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import archivefs.memory
from archivefs.errors import NotFound
from archivefs.memory import MemoryTree
from archivefs.tree import Tree
from tests.contract import TreeContract

CONTENT = {
    "empty": {},
    "a": {"hello.txt": b"hello", "deep": {"er": {"x": b""}, "up": "../hello.txt"}},
    "large.bin": bytes(range(256)) * 2000,
    "link": "a/hello.txt",
    "Ünïcode \u2603": b"names may be any UTF-8",
    "many": {f"{number:03}": str(number).encode() for number in range(200)},
}


class TestMemoryTree(TreeContract):
    expected = CONTENT

    def make_tree(self, tmp_path: Path) -> Tree:
        return MemoryTree(CONTENT, mtime_ns=10**18, xattrs={"user.origin": b"memory"}, extras={"more.txt": b"more"})


def test_a_listing_goes_on_after_a_name_that_is_gone() -> None:
    root = MemoryTree({"a": b"", "c": b""}).root()
    assert [entry.name for entry in root.entries("b")] == ["c"]


def test_idents_beyond_the_last_are_not_found() -> None:
    tree = MemoryTree({"a": b"1"})
    assert tree.node(2).attributes().size == 1
    with pytest.raises(NotFound):
        tree.node(3)


def test_the_example_in_the_docstring_works() -> None:
    assert doctest.testmod(archivefs.memory).failed == 0
