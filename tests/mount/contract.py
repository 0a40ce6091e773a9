"""MountContract: the contract suite of a format, through a real mount point on every transport.

    class TestZipMounted(ZipCase, MountContract):
        pass

where ``ZipCase`` has the ``expected`` and the ``make_archive()`` that the tests on the tree itself use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from archivefs.format import Opening
from archivefs.registry import open_tree
from archivefs.tree import Tree
from tests.contract import TreeContract
from tests.mount.harness import Mount
from tests.mount.mounted import MountedTree
from tests.walking import as_dict, mkdir


class MountContract(TreeContract):
    """The same promises, seen by a program that knows nothing of archivefs."""

    mount_options = ""
    transport = "auto"
    mounted_archive: Path | None = None

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _choose_transport(cls, transport: str) -> None:
        cls.transport = transport

    @pytest.fixture(scope="class")
    @classmethod
    def tree(cls, tmp_path_factory: pytest.TempPathFactory, _choose_transport: None) -> Iterator[Tree]:
        """One mount for all tests that only look."""
        case = cls()
        tree = case.make_tree(tmp_path_factory.mktemp("mounted"))
        cls.mounted_archive = case.made
        yield tree
        tree.close()

    def test_the_tree_is_as_expected(self, tree: Tree) -> None:
        """What is expected, or else what is seen without a mount."""
        expected = self.expected
        if expected is None:
            with closing(open_tree(str(self.mounted_archive), Opening())) as unmounted:
                expected = as_dict(unmounted.root())
        assert as_dict(tree.root()) == expected

    def open_archive(self, path: Path) -> Tree:
        """Mount it; closing the tree unmounts, and the driver must end well."""
        point = path.parent.parent / f"{path.parent.name}.mnt"
        mount = Mount(path, at=point, transport=self.transport, options=self.mount_options).wait_ready()

        def unmount() -> None:
            try:
                code = mount.unmount()
            finally:
                mount.end()
            assert code == 0, mount.said()
            assert mount.said() == ""

        return MountedTree(point, unmount)

    def make_tree(self, tmp_path: Path) -> Tree:
        """As ever, in a folder of its own: the mount point is made beside it."""
        return super().make_tree(mkdir(tmp_path / "archive"))
