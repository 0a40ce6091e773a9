"""TreeContract: every promise of ``archivefs/tree.py``, once.

A format inherits it and says how one of its archives is made and opened::

    class TestZip(TreeContract):
        expected = {"a": {"hello.txt": b"hello"}}

        def make_archive(self, tmp_path):
            return write_zip(tmp_path / "a.zip", self.expected)

        def open_archive(self, path):
            return ZipTree(str(path), Opening())

or, where there is no archive on disk, writes ``make_tree()`` alone.  ``tests/mount`` runs the same tests
through a real mount point.  A tree that knows URLs (``Sites``) inherits SitesContract instead.
The archive should be a small one without damage, with at least one file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from archivefs.errors import DirectoryExpected, NameNotAllowed, NotFound
from archivefs.tree import (
    MAX_IDENT,
    ROOT_IDENT,
    Attributes,
    Capture,
    Directory,
    File,
    Kind,
    Parts,
    Reader,
    Sites,
    Symlink,
    Tree,
    Usage,
)
from tests.walking import (
    MANY,
    THREADS,
    as_dict,
    content_of,
    directories,
    files,
    mkdir,
    names_of,
    open_descriptors,
    opened,
    problems_of,
    shares,
    state_of,
    stays_inside,
    stretches,
    walk,
)

CLASSES = {Kind.DIRECTORY: Directory, Kind.FILE: File, Kind.SYMLINK: Symlink}
MAX_NAME_BYTES = 1020  # what the kernel's FUSE takes is 1024
MAX_XATTR_NAME_BYTES, MAX_XATTR_BYTES = 255, 65536  # XATTR_NAME_MAX and XATTR_SIZE_MAX of Linux


class TreeContract:
    """What every tree promises.  Not collected itself: its name does not begin with ``Test``."""

    expected: Mapping[str, object] | None = None
    """The whole tree as a nested dict: a dict is a directory, bytes a file, str a symbolic link."""
    made: Path | None = None

    # -- what a format writes --

    def make_archive(self, tmp_path: Path) -> Path | str:
        """Write the archive and say where it is; a tree without one overrides make_tree instead."""
        raise NotImplementedError

    def open_archive(self, path: Path) -> Tree:
        """Open it."""
        raise NotImplementedError

    def make_tree(self, tmp_path: Path) -> Tree:
        """A fresh opened tree; whoever calls this closes it."""
        self.made = Path(self.make_archive(tmp_path))
        return self.open_archive(self.made)

    def archive_paths(self) -> Sequence[Path | str]:
        """The files and folders that reading must not touch; known once make_tree() was called."""
        return [self.made] if self.made else []

    @pytest.fixture
    def tree(self, tmp_path: Path) -> Iterator[Tree]:
        tree = self.make_tree(tmp_path)
        yield tree
        tree.close()

    # -- looking things up --

    def test_the_root_is_a_directory_with_the_ident_1(self, tree: Tree) -> None:
        root = tree.root()
        assert root.kind is Kind.DIRECTORY
        assert isinstance(root, Directory)
        assert tree.lookup(()).ident == root.ident
        if root.tree is tree:  # a sub-tree shows another tree's directory as its root
            assert root.ident == ROOT_IDENT

    def test_what_is_listed_can_be_looked_up(self, tree: Tree) -> None:
        for parts, entry, node, _ in walk(tree):
            assert isinstance(entry.kind, Kind), parts
            assert node.kind is entry.kind, parts
            assert isinstance(node, CLASSES[node.kind]), parts
            assert entry.ident in (0, node.ident), parts
            again = tree.lookup(parts)
            assert (again.kind, again.ident, again.tree) == (node.kind, node.ident, node.tree), parts

    def test_an_entry_that_brings_its_node_brings_the_right_one(self, tree: Tree) -> None:
        for parts, entry, node, _ in walk(tree):
            if entry.node is not None:
                assert entry.node.kind is node.kind, parts
                assert (entry.node.ident, entry.node.tree) == (node.ident, node.tree), parts
                assert entry.node.attributes() == node.attributes(), parts

    def test_what_is_not_there_is_not_found(self, tree: Tree) -> None:
        for directory, names in directories(tree):
            wrong = ["no such name", "no such name \u2603", *(name + " no such name" for name in names[:MANY])]
            for name in wrong:
                with pytest.raises(NotFound):
                    directory.child(name)

    def test_names_that_no_listing_may_have_are_not_found(self, tree: Tree) -> None:
        joined = ["/".join(found.parts) for found in walk(tree) if len(found.parts) > 1]
        wrong = ["", ".", "..", "/", "a\0b", "\0", "\udcff", "a\udc80", "../..", *joined[:MANY]]
        for directory, names in directories(tree):
            for name in [*wrong, *(f"./{name}" for name in names[:2]), *(f"{name}/" for name in names[:2])]:
                with pytest.raises(NotFound):
                    directory.child(name)

    def test_a_name_too_long_is_refused_or_not_found(self, tree: Tree) -> None:
        for length in (256, 1020, 1025, 5000):
            with pytest.raises((NotFound, NameNotAllowed)):
                tree.root().child("x" * length)

    def test_nothing_is_below_what_is_no_directory(self, tree: Tree) -> None:
        leaves = [found for found in walk(tree) if found.node.kind is Kind.FILE]
        assert leaves, "the contract needs an archive with a file in it"
        for found in leaves[:MANY]:
            with pytest.raises(DirectoryExpected):
                tree.lookup((*found.parts, "x"))

    def test_a_path_through_a_missing_directory_is_not_found(self, tree: Tree) -> None:
        with pytest.raises(NotFound):
            tree.lookup(("no such name", "x"))

    def test_the_tree_is_as_expected(self, tree: Tree) -> None:
        if self.expected is None:
            pytest.skip("nothing is expected of this one")
        assert as_dict(tree.root()) == self.expected

    # -- listing --

    def test_names_are_legal_and_unique(self, tree: Tree) -> None:
        for directory, names in directories(tree):
            assert len(set(names)) == len(names), directory
            for name in names:
                assert name not in ("", ".", ".."), name
                assert "/" not in name, name
                assert "\0" not in name, name
                assert len(name.encode("utf-8")) <= MAX_NAME_BYTES, name  # also fails on a lone surrogate

    def test_listing_twice_gives_the_same_order(self, tree: Tree) -> None:
        for directory, names in directories(tree):
            assert names_of(directory) == names
            assert [a.name for a, _ in zip(directory.entries(), directory.entries(), strict=True)] == names

    def test_a_listing_goes_on_after_any_name(self, tree: Tree) -> None:
        for directory, names in directories(tree):
            for position in shares(range(len(names))):
                assert names_of(directory, after=names[position]) == names[position + 1 :]

    def test_a_listing_given_up_half_way_does_no_harm(self, tree: Tree) -> None:
        for directory, names in directories(tree):
            listing = directory.entries()
            first = next(listing, None)
            assert (first.name if first else None) == (names[0] if names else None)
            del listing
            assert names_of(directory) == names

    # -- identity --

    def test_idents_are_unique_and_in_range(self, tree: Tree) -> None:
        seen: dict[tuple[int, int], Parts] = {(id(tree.root().tree), tree.root().ident): ()}
        for parts, _, node, _ in walk(tree):
            assert ROOT_IDENT <= node.ident <= MAX_IDENT, parts
            key = (id(node.tree), node.ident)
            assert key not in seen, f"{parts} has the ident of {seen[key]}"
            seen[key] = parts

    def test_an_ident_leads_back(self, tree: Tree) -> None:
        for parts, _, node, _ in walk(tree):
            if node.tree.leads_back:
                again = node.tree.node(node.ident)
                assert (again.kind, again.ident) == (node.kind, node.ident), parts
                assert again.attributes() == node.attributes(), parts
                assert content_of(again) == content_of(node), parts

    def test_an_ident_that_was_never_given_leads_nowhere(self, tree: Tree) -> None:
        for ident in (0, MAX_IDENT, MAX_IDENT + 1, 2**64 - 1):
            with pytest.raises(NotFound):
                tree.node(ident)

    # -- attributes --

    def test_attributes_are_whole_and_stay_the_same(self, tree: Tree) -> None:
        for parts, _, node, _ in walk(tree):
            attributes = node.attributes()
            assert isinstance(attributes, Attributes), parts
            assert attributes.size >= 0, parts
            assert all(isinstance(value, int) for value in attributes), parts
            assert tree.lookup(parts).attributes() == attributes, parts

    def test_sizes_are_exact(self, tree: Tree) -> None:
        for parts, node in files(tree):
            with opened(node) as reader:
                size = reader.attributes().size
                data = reader.read_at(0, size + 4096)
                assert len(data) == size, parts
            if not node.volatile:
                assert node.attributes().size == size, parts

    def test_extended_attributes_are_ones_the_kernel_takes(self, tree: Tree) -> None:
        for parts, _, node, _ in walk(tree):
            for name, value in node.xattrs().items():
                assert name.startswith("user."), (parts, name)
                assert len(name) > len("user."), parts
                assert "\0" not in name, parts
                assert len(name.encode("utf-8")) <= MAX_XATTR_NAME_BYTES, (parts, name)
                assert isinstance(value, bytes), (parts, name)
                assert len(value) <= MAX_XATTR_BYTES, (parts, name)

    def test_symbolic_links_stay_inside(self, tree: Tree) -> None:
        for parts, _, node, depth in walk(tree):
            if isinstance(node, Symlink):
                target = node.target()
                assert stays_inside(target, depth=depth), (parts, target)
                assert node.attributes().size == len(target.encode("utf-8")), parts

    # -- reading --

    def test_reads_are_slices(self, tree: Tree) -> None:
        for parts, node in files(tree):
            data = content_of(node)
            with opened(node) as reader:
                for offset, size in stretches(len(data), seed=len(parts)):
                    assert reader.read_at(offset, size) == data[offset : offset + size], (parts, offset, size)

    def test_nothing_is_read_beyond_the_end(self, tree: Tree) -> None:
        for parts, node in files(tree):
            size = len(content_of(node))
            with opened(node) as reader:
                for offset in (size, size + 1, size + 4096, size + 2**40):
                    assert reader.read_at(offset, 10) == b"", (parts, offset)
                assert reader.read_at(0, 0) == b"", parts

    def test_reading_backwards_gives_the_same_bytes(self, tree: Tree) -> None:
        for parts, node in files(tree):
            data = content_of(node)
            step = max(1, len(data) // 16)
            with opened(node) as reader:
                pieces = [reader.read_at(offset, step) for offset in reversed(range(0, len(data), step))]
            assert b"".join(reversed(pieces)) == data, parts

    def test_two_readers_of_one_file_do_not_meet(self, tree: Tree) -> None:
        for parts, node in files(tree):
            data = content_of(node)
            with opened(node) as one:
                with opened(node) as two:
                    assert two.read_at(1, 7) == data[1:8], parts
                assert one.read_at(0, len(data)) == data, parts

    def test_eight_threads_read_the_same_bytes(self, tree: Tree) -> None:
        largest = sorted(files(tree), key=lambda found: -found[1].attributes().size)
        for parts, node in [*largest[:3], *largest[-1:]]:
            data = content_of(node)
            with opened(node) as shared:

                def read_all(number: int, node: File = node, shared: Reader = shared, data: bytes = data) -> None:
                    with opened(node) as own:
                        for offset, size in stretches(len(data), seed=number):
                            assert shared.read_at(offset, size) == data[offset : offset + size]
                            assert own.read_at(offset, size) == data[offset : offset + size]

                assert problems_of(read_all) == [], parts

    def test_eight_threads_see_the_same_tree(self, tree: Tree) -> None:
        seen: list[list[tuple[Parts, Kind, int, Attributes]]] = []

        def look(_number: int) -> None:
            seen.append([(parts, node.kind, node.ident, node.attributes()) for parts, _, node, _ in walk(tree)])

        assert problems_of(look) == []
        assert len(seen) == THREADS
        assert all(one == seen[0] for one in seen)

    def test_an_extent_is_what_is_read(self, tree: Tree) -> None:
        for parts, node in files(tree):
            data = content_of(node)
            with opened(node) as reader:
                extent = reader.extent()
                if extent is not None:
                    assert extent.length == len(data), parts
                    assert os.pread(extent.fd, extent.length, extent.start) == data, parts

    # -- the tree as a whole --

    def test_generation_and_usage_make_sense(self, tree: Tree) -> None:
        before = tree.generation()
        usage = tree.usage()
        assert isinstance(usage, Usage)
        assert all(isinstance(number, int) and number >= 0 for number in usage)
        list(walk(tree))
        after = tree.generation()
        assert after >= before >= 0
        if tree.immutable:
            assert after == before

    def test_what_it_tells_of_itself_can_be_shown(self, tree: Tree) -> None:
        facts = tree.facts()
        assert all(isinstance(name, str) for name in facts)
        json.dumps(dict(facts))
        for name, open_extra in tree.extras().items():
            assert name not in ("", ".", "..", "status.json", "errors.log"), name
            assert "/" not in name, name
            reader = open_extra()
            size = reader.attributes().size
            assert len(reader.read_at(0, size + 1)) == size, name
            reader.close()

    def test_a_tree_that_knows_urls_is_tested_for_them(self, tree: Tree) -> None:
        assert isinstance(tree, Sites) == isinstance(self, SitesContract)

    def test_closing_twice_is_fine(self, tmp_path: Path) -> None:
        tree = self.make_tree(tmp_path)
        tree.close()
        tree.close()

    def test_closing_gives_every_descriptor_back(self, tmp_path: Path) -> None:
        self.make_tree(mkdir(tmp_path / "first")).close()  # imports and the like are not to be counted
        before = open_descriptors()
        with closing(self.make_tree(mkdir(tmp_path / "second"))) as tree:
            for _, node in files(tree):
                content_of(node)
        assert open_descriptors() - before == set()

    def test_reading_leaves_the_archive_as_it_was(self, tmp_path: Path) -> None:
        tree, before = self._opened_and_before(tmp_path)
        with closing(tree):
            as_dict(tree.root())
            for _, _, node, _ in walk(tree):
                node.xattrs()
            for open_extra in tree.extras().values():
                open_extra().close()
            dict(tree.facts())
        assert self._state() == before

    def _opened_and_before(self, tmp_path: Path) -> tuple[Tree, dict[str, object]]:
        """An opened tree, and how its archive was before it was opened (or, without make_archive, just after)."""
        if type(self).make_archive is TreeContract.make_archive:
            tree = self.make_tree(tmp_path)
            return tree, self._state()
        self.made = Path(self.make_archive(tmp_path))
        before = self._state()
        return self.open_archive(self.made), before

    def _state(self) -> dict[str, object]:
        state: dict[str, object] = {}
        for path in self.archive_paths():
            state.update(state_of(Path(path)))
            state[f"beside {path}"] = sorted(os.listdir(Path(path).parent))
        return state


class SitesContract(TreeContract):
    """What a tree that knows URLs promises beside."""

    def test_captures_lead_to_files_of_the_tree(self, tree: Tree) -> None:
        assert isinstance(tree, Sites)
        found = 0
        for parts, node in files(tree):
            url = node.xattrs().get("user.xdg.origin.url")
            if url is not None:
                captures = list(tree.captures(url.decode("utf-8")))
                assert all(isinstance(capture, Capture) for capture in captures), parts
                assert node.ident in [capture.node.ident for capture in captures], parts
                found += 1
        assert found, "no file says which URL it holds"

    def test_where_a_capture_is_listed_it_can_be_looked_up(self, tree: Tree) -> None:
        assert isinstance(tree, Sites)
        for _, node in files(tree):
            url = node.xattrs().get("user.xdg.origin.url", b"")
            for capture in tree.captures(url.decode("utf-8")) if url else ():
                assert tree.lookup(capture.parts).ident == capture.node.ident, capture.parts

    def test_a_url_that_is_not_stored_has_no_captures(self, tree: Tree) -> None:
        assert isinstance(tree, Sites)
        for url in ("no-such-scheme://no.such.host/", "", "\udcff", "http://[", "x" * 70000):
            assert list(tree.captures(url)) == []
