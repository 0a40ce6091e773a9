"""Trees made of other trees: many archives, a folder of archives, and a directory shown as the root."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from archivefs.compose import FolderTree, MountTree, SubTree, shown_names
from archivefs.compose import folder as folder_module
from archivefs.errors import CorruptArchive, DirectoryExpected, NotFound, SourceChanged, StaleNode
from archivefs.format import Opening
from archivefs.memory import MemoryTree
from archivefs.tree import ROOT_IDENT, Directory, Tree, Usage
from tests.contract import TreeContract
from tests.fakes import MTIME_NS, OPENED, FakeTree, at_once, write_fake
from tests.walking import as_dict, names_of

CONTENT = {"a": {"b": {"up": "../hello", "hello": b"deep"}, "hello": b"hello"}, "top": b"top"}


class ChangingTree(MemoryTree):
    """A tree whose generation the test sets."""

    immutable = False
    now = 0

    def generation(self) -> int:
        return self.now


class FailingTree(MemoryTree):
    """A tree that cannot be closed."""

    def close(self) -> None:
        raise OSError("stuck")


# -- many archives --


class TestMountTree(TreeContract):
    expected = {"one": CONTENT, "two": {"x": b"x"}}

    def make_tree(self, tmp_path: Path) -> Tree:
        return MountTree([("two", MemoryTree({"x": b"x"})), ("one", MemoryTree(CONTENT))])


def test_the_archives_own_nodes_are_handed_out() -> None:
    inner = MemoryTree(CONTENT, mtime_ns=5)
    tree = MountTree([("one", inner)])
    assert tree.root().child("one") is inner.root()
    assert next(tree.root().entries()).node is inner.root()
    assert tree.root().attributes().mtime_ns == 5
    assert tree.node(ROOT_IDENT) is tree.root()


def test_a_mount_tree_is_as_lasting_as_its_archives() -> None:
    living = ChangingTree({})
    tree = MountTree([("a", MemoryTree({})), ("b", living)])
    assert not tree.immutable
    assert MountTree([("a", MemoryTree({}))]).immutable
    before = tree.generation()
    living.now += 1
    assert tree.generation() > before


def test_usage_is_that_of_all() -> None:
    tree = MountTree([("a", MemoryTree({"x": b"12"})), ("b", MemoryTree({"y": b"345"}))])
    assert tree.usage() == Usage(size=5, files=4)


def test_all_are_closed_though_one_fails(tmp_path: Path) -> None:
    last = FakeTree(str(write_fake(tmp_path / "a", {})), Opening())
    with pytest.raises(OSError, match="stuck"):
        MountTree([("a", FailingTree({})), ("b", last)]).close()
    assert last.closed == 1


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/x/a.zip", "/y/b.zip/"], ["a.zip", "b.zip"]),
        (["/x/a", "/y/a", "/z/a"], ["a", "a~2", "a~3"]),
        (["/x/a", "/x/a~2", "/y/a"], ["a", "a~2", "a~3"]),
        (["/x/a~2", "/x/a", "/y/a"], ["a~2", "a", "a~3"]),
        (["/"], ["root"]),
        (["/x/.archivefs"], ["^2Earchivefs"]),
        (["/x/\udcff\udc80.zip", "/x/ä.zip"], ["^FF^80.zip", "ä.zip"]),
    ],
)
def test_names_archives_are_shown_by(paths: list[str], names: list[str]) -> None:
    assert shown_names(paths) == names


# -- a directory as the root --


class TestSubTree(TreeContract):
    expected = CONTENT["a"]

    def make_tree(self, tmp_path: Path) -> Tree:
        return SubTree(MemoryTree(CONTENT), ["a"])


def test_the_root_of_a_sub_tree_is_the_inner_node() -> None:
    inner = MemoryTree(CONTENT, extras={"extra": b"!"})
    tree = SubTree(inner, ("a", "b"))
    assert tree.root() is inner.lookup(("a", "b"))
    assert inner.top == ("a", "b")
    assert list(tree.extras()) == ["extra"]
    assert (tree.immutable, tree.leads_back, tree.usage()) == (True, True, inner.usage())


def test_a_sub_tree_of_a_sub_tree() -> None:
    inner = MemoryTree(CONTENT)
    assert as_dict(SubTree(SubTree(inner, ["a"]), ["b"]).root()) == CONTENT["a"]["b"]
    assert inner.top == ("a", "b")


def test_a_sub_tree_of_one_archive_among_many() -> None:
    inner = MemoryTree(CONTENT)
    many = MountTree([("one", inner), ("two", MemoryTree({}))])
    assert SubTree(many, ["one", "a", "b"]).root() is inner.lookup(("a", "b"))
    assert (inner.top, many.top) == (("a", "b"), ())


def test_a_sub_tree_passes_changes_on() -> None:
    inner = ChangingTree({"a": {}})
    tree = SubTree(inner, ["a"])
    inner.now = 7
    assert (tree.immutable, tree.generation()) == (False, 7)


@pytest.mark.parametrize(("parts", "error"), [(["no"], NotFound), (["top"], DirectoryExpected)])
def test_a_sub_tree_must_be_a_directory(parts: list[str], error: type[Exception]) -> None:
    with pytest.raises(error):
        SubTree(MemoryTree(CONTENT), parts)


# -- a folder of archives --


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], None]]:
    """A clock that goes only when the test says so."""
    now = [1000.0]
    monkeypatch.setattr(folder_module, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def go(seconds: float) -> None:
        now[0] += seconds

    yield go


def recognise(path: str) -> folder_module.Opener | None:
    """Fake archives, and folders that end in .dir."""
    if os.path.isdir(path):
        return (lambda: ChangingTree({"in": b"folder"})) if path.endswith(".dir") else None
    with open(path, "rb") as file:
        if file.read(4) != b"FAKE":
            return None
    return lambda: FakeTree(path, Opening(options={"colour": "grey"}))


def open_folder(path: Path, **more: int) -> FolderTree:
    OPENED.clear()
    return FolderTree(str(path), recognise, **more)


class TestFolderTree(TreeContract):
    expected = {"one.fake": CONTENT, "two.fake": {"x": b"x"}}

    def make_archive(self, tmp_path: Path) -> Path:
        folder = tmp_path / "folder"
        folder.mkdir()
        write_fake(folder / "one.fake", CONTENT)
        write_fake(folder / "two.fake", {"x": b"x"})
        (folder / "notes.txt").write_text("no archive")
        (folder / "plain").mkdir()
        os.mkfifo(folder / "fifo")
        (folder / "nowhere").symlink_to("gone")
        return folder

    def open_archive(self, path: Path) -> Tree:
        return open_folder(path)


def test_an_archive_is_opened_only_when_looked_into(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_fake(tmp_path / name, CONTENT)
    os.utime(tmp_path / "a", ns=(5, 5))
    tree = open_folder(tmp_path)
    assert names_of(tree.root()) == ["a", "b"]
    assert tree.lookup(["a"]).attributes().mtime_ns == 5
    assert OPENED == []
    assert tree.lookup(["a", "top"]).tree is OPENED[0]
    assert tree.lookup(["a", "a"]).tree is OPENED[0]
    assert len(OPENED) == 1
    assert tree.usage().size == sum(os.path.getsize(tmp_path / name) for name in ("a", "b"))


def test_eight_threads_open_an_archive_once(tmp_path: Path) -> None:
    write_fake(tmp_path / "a", CONTENT)
    tree = open_folder(tmp_path)
    assert at_once(8, lambda: tree.lookup(["a", "top"])) == []
    assert len(OPENED) == 1


def test_new_changed_and_removed_archives_are_noticed(tmp_path: Path, clock: Callable[[float], None]) -> None:
    write_fake(tmp_path / "a", {"old": b""})
    tree = open_folder(tmp_path)
    before = tree.generation()
    kept = tree.lookup(["a", "old"])
    write_fake(tmp_path / "b", {})
    assert names_of(tree.root()) == ["a"], "looked at again within a second"
    clock(1.1)
    assert names_of(tree.root()) == ["a", "b"]
    after_new = tree.generation()
    assert after_new > before

    write_fake(tmp_path / "a", {"new": b"is longer"})
    (tmp_path / "b").unlink()
    clock(1.1)
    assert tree.generation() > after_new
    assert as_dict(tree.root()) == {"a": {"new": b"is longer"}}
    assert kept.attributes().size == 0, "a node that is out goes on"
    unchanged = tree.generation()
    clock(1.1)
    assert tree.generation() == unchanged


def test_an_archive_that_is_still_being_copied_appears_when_it_is_whole(
    tmp_path: Path, clock: Callable[[float], None]
) -> None:
    (tmp_path / "a").write_bytes(b"FA")
    tree = open_folder(tmp_path)
    assert names_of(tree.root()) == []
    write_fake(tmp_path / "a", {})  # which the folder's own time does not show
    clock(1.1)
    assert names_of(tree.root()) == ["a"]


def test_a_folder_that_is_an_archive_stays_open_and_tells_of_its_changes(
    tmp_path: Path, clock: Callable[[float], None]
) -> None:
    (tmp_path / "x.dir").mkdir()
    tree = open_folder(tmp_path)
    inner = tree.lookup(["x.dir", "in"]).tree
    before = tree.generation()
    (tmp_path / "x.dir" / "more").touch()
    clock(1.1)
    assert tree.generation() == before
    assert tree.lookup(["x.dir", "in"]).tree is inner
    inner.now = 3  # type: ignore[attr-defined]
    assert tree.generation() == before + 1
    assert tree.generation() == before + 1


def test_a_damaged_archive_is_listed_and_says_what_is_wrong(tmp_path: Path, clock: Callable[[float], None]) -> None:
    (tmp_path / "bad").write_bytes(b"FAKE {{{")
    write_fake(tmp_path / "good", {"x": b"x"})
    tree = open_folder(tmp_path)
    assert names_of(tree.root()) == ["bad", "good"]
    bad = tree.lookup(["bad"])
    assert isinstance(bad, Directory)
    for _ in range(2):
        with pytest.raises(CorruptArchive, match="bad: nobody could read this"):
            list(bad.entries())
        with pytest.raises(CorruptArchive):
            bad.child("x")
    assert as_dict(tree.lookup(["good"])) == {"x": b"x"}
    write_fake(tmp_path / "bad", {"mended": b""})
    clock(1.1)
    assert names_of(tree.lookup(["bad"])) == ["mended"]


def test_a_failure_is_tried_again_after_a_while(tmp_path: Path, clock: Callable[[float], None]) -> None:
    (tmp_path / "a").write_bytes(b"FAKE")
    tries = []

    def opener() -> Tree:
        tries.append(1)
        if len(tries) < 2:
            raise CorruptArchive
        return MemoryTree({"x": b""})

    tree = FolderTree(str(tmp_path), lambda path: opener)
    for _ in range(3):
        with pytest.raises(CorruptArchive) as caught:
            tree.lookup(["a", "x"])
    assert caught.value.archive == str(tmp_path / "a")
    assert len(tries) == 1
    clock(5.1)
    tree.lookup(["a", "x"])


def test_few_archives_are_kept_open_and_none_is_closed_in_use(tmp_path: Path) -> None:
    for number in range(12):
        write_fake(tmp_path / f"{number:02}", {"x": b"%d" % number})
    tree = open_folder(tmp_path, max_open=3)
    used = tree.lookup(["00", "x"])
    for number in range(12):
        tree.lookup([f"{number:02}", "x"])
    opened = list(OPENED)
    OPENED.clear()
    assert [one.closed for one in opened] == [0] * 12, "somebody still refers to them"
    first = opened[0]
    del opened
    gc.collect()
    tree.generation()
    assert first.closed == 0
    assert used.tree is tree.lookup(["00", "x"]).tree is first
    tree.close()
    assert first.closed == 1


def test_an_archive_nobody_uses_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    class Counted(MemoryTree):
        def close(self) -> None:
            closed.append(self.path)  # type: ignore[attr-defined]

    def opener(path: str) -> folder_module.Opener:
        def open_counted() -> Tree:
            tree = Counted({"x": b"x"})
            tree.path = os.path.basename(path)  # type: ignore[attr-defined]
            return tree

        return open_counted

    for number in range(40):
        (tmp_path / f"{number:02}").touch()
    tree = FolderTree(str(tmp_path), opener, max_open=3)
    for number in range(40):
        tree.lookup([f"{number:02}", "x"])
    assert len(closed) > 25, "the collector is called when many are waiting for it"
    assert len(set(closed)) == len(closed)
    open_now = {f"{number:02}" for number in range(40)} - set(closed)
    closed.clear()
    tree.close()
    assert set(closed) == open_now


def test_nodes_lead_back_though_the_archive_was_opened_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_fake(tmp_path / name, CONTENT)
    tree = open_folder(tmp_path, max_open=1)
    node = tree.lookup(["a", "top"])
    known_as, ident = node.tree.known_as, node.ident
    assert known_as is tree.lookup(["a"]).tree
    del node
    tree.lookup(["b", "top"])
    OPENED.clear()
    gc.collect()
    again = known_as.node(ident)
    assert len(OPENED) == 1
    assert (again.ident, again.tree.known_as) == (ident, known_as)
    assert known_as.node(ROOT_IDENT) is tree.lookup(["a"])


def test_what_a_format_adds_is_reached_through_the_folder(tmp_path: Path) -> None:
    write_fake(tmp_path / "a", CONTENT)
    tree = open_folder(tmp_path)
    archive = tree.lookup(["a"]).tree
    extras = archive.extras()
    assert extras["options"]().read_at(0, 10) == b"none"
    assert archive.usage().files == 7
    assert archive.facts()["colour"] == "grey"
    assert tree.facts() == {"archives": 1}


def test_a_sub_tree_in_an_archive_of_a_folder(tmp_path: Path) -> None:
    write_fake(tmp_path / "a", CONTENT)
    tree = SubTree(open_folder(tmp_path, max_open=1), ["a", "a", "b"])
    assert as_dict(tree.root()) == CONTENT["a"]["b"]
    assert tree.root().tree.top == ("a", "b")
    whole = SubTree(open_folder(tmp_path), ["a"])
    assert as_dict(whole.root()) == CONTENT


def test_a_folder_that_is_gone_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    tree = open_folder(folder)
    folder.rmdir()
    with pytest.raises(SourceChanged, match="f: the folder cannot be read: No such file"):
        list(tree.root().entries())


def test_nothing_is_opened_after_the_end(tmp_path: Path) -> None:
    write_fake(tmp_path / "a", CONTENT)
    tree = open_folder(tmp_path)
    archive = tree.lookup(["a"])
    tree.close()
    with pytest.raises(StaleNode):
        archive.child("top")
    assert OPENED == []


def test_a_large_folder_is_looked_at_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def slow(path: str) -> None:
        now[0] += 2.0

    monkeypatch.setattr(folder_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    (tmp_path / "a").touch()
    tree = FolderTree(str(tmp_path), slow)
    tree.archives()
    (tmp_path / "b").touch()
    now[0] += 19.0
    tree.archives()
    assert now[0] == 21.0
    now[0] += 2.0
    tree.archives()
    assert now[0] == 25.0


def test_times_are_those_of_the_archives(tmp_path: Path) -> None:
    write_fake(tmp_path / "a", CONTENT)
    tree = open_folder(tmp_path)
    assert tree.root().attributes().mtime_ns == os.stat(tmp_path).st_mtime_ns
    assert tree.lookup(["a", "top"]).attributes().mtime_ns == MTIME_NS
    assert time.time_ns() > tree.root().attributes().mtime_ns
