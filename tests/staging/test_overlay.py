"""An overlay against a plain dict: random changes, remounts and commits in between."""

from __future__ import annotations

import contextlib
import copy
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from archivefs.errors import (
    AlreadyExists,
    ArchiveError,
    CorruptArchive,
    DirectoryExpected,
    DirectoryNotEmpty,
    FileExpected,
    NameNotHeld,
    NotFound,
    NotPermitted,
)
from archivefs.memory import MemoryTree
from archivefs.staging.area import INLINE
from archivefs.tree import Kind
from tests.contract import TreeContract
from tests.staging.plain import PlainOverlay, content_of, put

BASE: dict[str, Any] = {
    "a": {"one": b"1", "two": b"2" * 50, "deep": {"x": b"x", "y": b"y" * (INLINE + 5)}},
    "b": {},
    "file": b"at the root",
}
NAMES = st.sampled_from(["a", "b", "file", "one", "two", "deep", "x", "new", "file~", "bad*"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(tuple)
DATA = st.one_of(st.binary(max_size=40), st.integers(1, 3).map(lambda n: bytes([n]) * (INLINE * n)))


class Model:
    """What a plain folder would do."""

    def __init__(self) -> None:
        self.root = copy.deepcopy(BASE)

    def folder(self, parts):
        node: Any = self.root
        for name in parts:
            if not isinstance(node, dict):
                raise DirectoryExpected
            if name not in node:
                raise NotFound
            node = node[name]
        if not isinstance(node, dict):
            raise DirectoryExpected
        return node

    def put(self, path, data) -> None:
        folder = self.folder(path[:-1])
        if isinstance(folder.get(path[-1]), dict):
            raise FileExpected
        if path[-1] not in folder and "*" in path[-1]:
            raise NameNotHeld
        folder[path[-1]] = data

    def change(self, path, offset, data) -> None:
        folder = self.folder(path[:-1])
        old = folder.get(path[-1])
        if not isinstance(old, bytes):
            raise NotFound
        if data:  # writing nothing does not make a file longer
            old = old.ljust(offset, b"\0")
        folder[path[-1]] = old[:offset] + data + old[offset + len(data) :]

    def mkdir(self, path) -> None:
        folder = self.folder(path[:-1])
        if path[-1] in folder:
            raise AlreadyExists
        if "*" in path[-1]:
            raise NameNotHeld
        folder[path[-1]] = {}

    def remove(self, path, kind) -> None:
        folder = self.folder(path[:-1])
        if path[-1] not in folder:
            raise NotFound
        node = folder[path[-1]]
        if kind is Kind.DIRECTORY:
            if not isinstance(node, dict):
                raise DirectoryExpected
            if node:
                raise DirectoryNotEmpty
        elif isinstance(node, dict):
            raise FileExpected
        del folder[path[-1]]

    def rename(self, path, to, replace) -> None:
        source, target = self.folder(path[:-1]), self.folder(to[:-1])
        if path[-1] not in source:
            raise NotFound
        node = source[path[-1]]
        if path == to:
            return
        if to[: len(path)] == path:
            raise NotPermitted
        if to[-1] not in target:
            if "*" in to[-1]:
                raise NameNotHeld
        else:
            old = target[to[-1]]
            if not replace:
                raise AlreadyExists
            if isinstance(old, dict):
                if not isinstance(node, dict):
                    raise FileExpected
                if old:
                    raise DirectoryNotEmpty
            elif isinstance(node, dict):
                raise DirectoryExpected
        del source[path[-1]]
        target[to[-1]] = node


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="archivefs-test-"))
        self.base = MemoryTree(copy.deepcopy(BASE))
        self.tree = PlainOverlay(self.base, self.folder / "staging")
        self.model = Model()

    def teardown(self) -> None:
        self.tree.close()
        shutil.rmtree(self.folder)

    def directory(self, parts):
        node = self.tree.lookup(parts)
        if node.kind is not Kind.DIRECTORY:
            raise DirectoryExpected
        return node

    def both(self, ours, model) -> None:
        """Do the same to both; they agree, also on what is wrong."""
        outcome = []
        for action in (ours, model):
            try:
                action()
                outcome.append(None)
            except ArchiveError as error:
                outcome.append(type(error))
        assert outcome[0] == outcome[1]

    @rule(path=PATHS, data=DATA)
    def put(self, path, data) -> None:
        self.both(lambda: put(self.directory(path[:-1]), path[-1], data), lambda: self.model.put(path, data))

    @rule(path=PATHS, offset=st.integers(0, 2 * INLINE), data=DATA)
    def change(self, path, offset, data) -> None:
        def ours() -> None:
            node = self.directory(path[:-1]).child(path[-1])
            if node.kind is not Kind.FILE:
                raise NotFound
            writer = node.open_writer(truncate=False)
            writer.write_at(offset, data)
            assert node.attributes().size == writer.attributes().size
            writer.finish()
            writer.close()

        self.both(ours, lambda: self.model.change(path, offset, data))

    @rule(path=PATHS)
    def mkdir(self, path) -> None:
        self.both(lambda: self.directory(path[:-1]).make_directory(path[-1]), lambda: self.model.mkdir(path))

    @rule(path=PATHS, kind=st.sampled_from([Kind.FILE, Kind.DIRECTORY]))
    def remove(self, path, kind) -> None:
        self.both(
            lambda: self.directory(path[:-1]).remove(path[-1], kind=kind),
            lambda: self.model.remove(path, kind),
        )

    @rule(path=PATHS, to=PATHS, replace=st.booleans())
    def rename(self, path, to, replace) -> None:
        def ours() -> None:
            source, target = self.directory(path[:-1]), self.directory(to[:-1])
            source.rename(path[-1], target, to[-1], replace=replace)

        self.both(ours, lambda: self.model.rename(path, to, replace))

    @rule()
    def die_and_come_back(self) -> None:
        self.tree = PlainOverlay(self.base, self.folder / "staging")
        self.tree.replay()

    @rule()
    def commit(self) -> None:
        self.base = self.tree.commit()
        assert not list(self.tree.pending())

    @rule()
    def commit_and_die_half_way(self) -> None:
        self.base = self.tree.commit(die_before_rebase=True)
        self.tree = PlainOverlay(self.base, self.folder / "staging")
        assert self.tree.replay() == 0
        assert not self.tree.area.exists

    @invariant()
    def the_same(self) -> None:
        assert content_of(self.tree.root()) == _sorted(self.model.root)
        changed = {path for _, path in self.tree.pending()}
        before, now = dict(_flat(content_of(self.base.root()))), dict(_flat(self.model.root))
        assert {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)} <= changed


def _sorted(content):
    return {name: _sorted(node) if isinstance(node, dict) else node for name, node in sorted(content.items())}


def _flat(content, here=()):
    for name, node in content.items():
        if isinstance(node, dict):
            yield from _flat(node, (*here, name))
        else:
            yield (*here, name), node


NO_SHRINKING = [phase for phase in Phase if phase is not Phase.shrink]
"""Each step syncs files: shrinking would take minutes."""

TestOverlayMachine = Machine.TestCase
TestOverlayMachine.settings = settings(max_examples=60, stateful_step_count=25, deadline=None, phases=NO_SHRINKING)


class TestOverlayContract(TreeContract):
    expected = BASE

    def make_tree(self, tmp_path):
        return PlainOverlay(MemoryTree(copy.deepcopy(BASE)), tmp_path / "staging")


@pytest.fixture
def tree(tmp_path: Path):
    tree = PlainOverlay(MemoryTree(copy.deepcopy(BASE)), tmp_path / "staging")
    yield tree
    tree.close()


def test_nothing_is_written_before_the_first_change(tree: PlainOverlay) -> None:
    content_of(tree.root())
    assert not tree.area.exists


def test_flushing_is_not_the_end(tree: PlainOverlay) -> None:
    """(cat a; cat b) > x flushes three times, once before any byte."""
    writer = tree.root().create("x", exclusive=False).open_writer(truncate=True)
    writer.sync()
    writer.write_at(0, b"a")
    writer.sync()
    writer.write_at(1, b"b")
    writer.sync()
    writer.finish()
    writer.close()
    assert content_of(tree.root())["x"] == b"ab"


def test_a_removed_file_that_is_open_stays_readable_and_is_not_revived(tree: PlainOverlay, tmp_path: Path) -> None:
    writer = tree.root().create("x", exclusive=True).open_writer(truncate=False)
    writer.write_at(0, b"z" * (2 * INLINE))
    writer.sync()
    tree.root().remove("x", kind=Kind.FILE)
    writer.write_at(0, b"y")
    assert writer.read_at(0, 2) == b"yz"
    writer.finish()
    writer.close()
    assert "x" not in content_of(tree.root())
    again = PlainOverlay(tree.base, tmp_path / "staging")
    again.replay()
    assert "x" not in content_of(again.root())
    assert list((tmp_path / "staging" / "bodies").iterdir()) == []


def test_a_rename_before_the_release_goes_with_the_file(tree: PlainOverlay) -> None:
    root = tree.root()
    writer = root.create("tmp", exclusive=True).open_writer(truncate=False)
    writer.write_at(0, b"new")
    writer.sync()
    root.rename("tmp", root, "file", replace=True)
    writer.write_at(3, b"er")
    writer.finish()
    writer.close()
    assert content_of(root)["file"] == b"newer"
    assert "tmp" not in content_of(root)


def test_a_file_that_is_moved_while_open_is_saved_before_what_it_replaces_goes(tree, tmp_path: Path) -> None:
    root = tree.root()
    put(root, "file", b"o" * (2 * INLINE))
    writer = root.create("tmp", exclusive=True).open_writer(truncate=False)
    writer.write_at(0, b"n" * (2 * INLINE))
    root.rename("tmp", root, "file", replace=True)
    again = PlainOverlay(tree.base, tmp_path / "staging")
    again.replay()
    assert content_of(again.root())["file"] == b"n" * (2 * INLINE)
    writer.close()


def test_a_file_removed_before_it_was_saved_does_not_stop_the_replay(tree, tmp_path: Path) -> None:
    writer = tree.root().create("gone", exclusive=True).open_writer(truncate=False)
    tree.root().remove("gone", kind=Kind.FILE)
    writer.close()
    put(tree.root(), "after", b"1")
    again = PlainOverlay(tree.base, tmp_path / "staging")
    again.replay()
    assert content_of(again.root())["after"] == b"1"


def test_what_was_not_synced_may_be_lost_and_what_was_is_there(tree: PlainOverlay, tmp_path: Path) -> None:
    root = tree.root()
    put(root, "safe", b"safe")
    writer = root.create("file", exclusive=False).open_writer(truncate=True)
    writer.write_at(0, b"never synced")
    again = PlainOverlay(tree.base, tmp_path / "staging")
    again.replay()
    found = content_of(again.root())
    assert found["safe"] == b"safe"
    assert found["file"] == BASE["file"]
    writer.close()


def test_changes_to_another_state_of_the_archive_are_refused_and_kept(tree: PlainOverlay, tmp_path: Path) -> None:
    put(tree.root(), "x", b"x")
    tree.close()
    other = PlainOverlay(MemoryTree({"other": b""}), tmp_path / "staging")
    with pytest.raises(CorruptArchive):
        other.replay()
    assert other.area.exists


def test_idents_are_the_same_at_every_look(tree: PlainOverlay) -> None:
    first = tree.lookup(("a", "one")).ident
    assert tree.lookup(("a", "one")).ident == first
    listed = {entry.name: entry.ident for entry in tree.lookup(("a",)).entries()}
    assert listed["one"] == first


def test_a_commit_while_a_file_is_being_written_loses_nothing(tree: PlainOverlay, tmp_path: Path) -> None:
    writer = tree.root().create("big", exclusive=True).open_writer(truncate=False)
    writer.write_at(0, b"1" * (2 * INLINE))
    writer.sync()
    base = tree.commit()
    writer.write_at(0, b"2")
    writer.sync()
    writer.finish()
    writer.close()
    again = PlainOverlay(base, tmp_path / "staging")
    again.replay()
    with contextlib.closing(again.lookup(("big",)).open()) as reader:
        assert reader.read_at(0, 3) == b"211"
