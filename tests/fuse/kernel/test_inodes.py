"""How often the kernel was told of a node, and how often it has given it back."""

from __future__ import annotations

import errno
import random
import struct

import pytest

from archivefs.errors import StaleNode
from archivefs.fuse.kernel import protocol
from archivefs.fuse.kernel.protocol import Opcode
from archivefs.memory import MemoryTree
from archivefs.tree import Directory, Node
from tests.fuse.kernel.fake import FakeKernel
from tests.fuse.kernel.trees import CONTENT, Forgetful


def forget(kernel: FakeKernel, nodeid: int, count: int) -> None:
    kernel.send(Opcode.FORGET, nodeid, protocol.FORGET_IN.pack(count))


def forget_many(kernel: FakeKernel, *pairs: tuple[int, int]) -> None:
    body = protocol.BATCH_FORGET_IN.pack(len(pairs), 0)
    kernel.send(Opcode.BATCH_FORGET, 0, body + b"".join(protocol.FORGET_ONE.pack(*pair) for pair in pairs))


def is_known(kernel: FakeKernel, nodeid: int) -> bool:
    answer = kernel.ask(Opcode.GETATTR, nodeid, protocol.GETATTR_IN.pack(0, 0, 0))
    assert answer.error in (0, errno.ESTALE)
    return answer.error == 0


def test_a_tree_that_leads_back_needs_no_table() -> None:
    with FakeKernel(MemoryTree(CONTENT)) as kernel:
        found = kernel.walk("folder", "deeper", "leaf")
        kernel.listing(1)
        assert len(kernel.requests.inodes) == 0
        forget(kernel, found.nodeid, 1)
        assert is_known(kernel, found.nodeid)


def test_each_look_up_counts_once() -> None:
    with FakeKernel(Forgetful(CONTENT)) as kernel:
        nodeid = kernel.look_up(1, "hello.txt").nodeid
        kernel.look_up(1, "hello.txt")
        kernel.look_up(1, "nothing")
        assert len(kernel.requests.inodes) == 1
        forget(kernel, nodeid, 1)
        assert is_known(kernel, nodeid)
        forget(kernel, nodeid, 1)
        assert not is_known(kernel, nodeid)
        assert len(kernel.requests.inodes) == 0


def test_each_line_with_a_node_counts_once() -> None:
    with FakeKernel(Forgetful(CONTENT)) as kernel:
        lines = kernel.listing(1)
        assert len(kernel.requests.inodes) == len(CONTENT)
        kernel.listing(1)
        forget_many(kernel, *((line.found.nodeid, 1) for line in lines if line.found))
        kernel.settle()
        assert len(kernel.requests.inodes) == len(CONTENT)
        forget_many(kernel, *((line.found.nodeid, 1) for line in lines if line.found))
        kernel.settle()
        assert len(kernel.requests.inodes) == 0


def test_a_listing_of_names_counts_nothing() -> None:
    with FakeKernel(Forgetful(CONTENT)) as kernel:
        kernel.listing(1, plus=False)
        assert len(kernel.requests.inodes) == 0


def test_a_child_outlives_its_parent() -> None:
    """The kernel gives children back first, but a table must not depend on it."""
    with FakeKernel(Forgetful(CONTENT)) as kernel:
        folder, deeper = kernel.walk("folder"), kernel.walk("folder", "deeper")
        leaf = kernel.look_up(deeper.nodeid, "leaf")
        forget_many(kernel, (folder.nodeid, 2), (deeper.nodeid, 1))
        kernel.requests.inodes.drop_recent()
        assert not is_known(kernel, folder.nodeid)
        assert is_known(kernel, leaf.nodeid)
        assert len(kernel.requests.inodes) == 1
        forget(kernel, leaf.nodeid, 1)
        assert not is_known(kernel, leaf.nodeid)


def test_more_than_was_given_does_no_harm() -> None:
    with FakeKernel(Forgetful(CONTENT)) as kernel:
        nodeid = kernel.look_up(1, "hello.txt").nodeid
        forget(kernel, nodeid, 2**63)
        forget(kernel, nodeid, 1)
        forget(kernel, 12345, 1)
        forget_many(kernel)
        assert not is_known(kernel, nodeid)
        assert kernel.look_up(1, "hello.txt").nodeid == nodeid
        assert is_known(kernel, nodeid)


def test_a_batch_may_be_large() -> None:
    names = {f"{number:05d}": b"" for number in range(3000)}
    with FakeKernel(Forgetful(names)) as kernel:
        lines = kernel.listing(1, size=65536)
        assert len(kernel.requests.inodes) == 3000
        forget_many(kernel, *((line.found.nodeid, 1) for line in lines if line.found))
        kernel.settle()
        assert len(kernel.requests.inodes) == 0


@pytest.mark.parametrize("seed", range(3))
def test_counts_agree_after_any_sequence(seed: int) -> None:
    """A model of the kernel's own counts, against what is kept here."""
    chance = random.Random(seed)
    counts: dict[int, int] = {}
    with FakeKernel(Forgetful(CONTENT)) as kernel:
        for _ in range(400):
            parents = [1, *(nodeid for nodeid in counts if nodeid in directories(kernel))]
            what = chance.randrange(4)
            if what == 0:
                found = kernel.look_up(
                    chance.choice(parents), chance.choice(["folder", "deeper", "leaf", "empty", "no"])
                )
                if found.nodeid:
                    counts[found.nodeid] = counts.get(found.nodeid, 0) + 1
            elif what == 1:
                for line in kernel.listing(chance.choice(parents), size=chance.choice([512, 4096])):
                    assert line.found is not None
                    counts[line.found.nodeid] = counts.get(line.found.nodeid, 0) + 1
            elif counts:
                nodeid = chance.choice(list(counts))
                times = chance.randint(1, counts[nodeid])
                counts[nodeid] -= times
                if not counts[nodeid]:
                    del counts[nodeid]
                chance.choice([forget, lambda k, n, t: forget_many(k, (n, t))])(kernel, nodeid, times)
            kernel.settle()
            assert len(kernel.requests.inodes) == len(counts)


def directories(kernel: FakeKernel) -> set[int]:
    tree = kernel.driver.tree
    return {tree.lookup(parts).ident for parts in (("folder",), ("folder", "deeper"))}


def test_a_path_of_any_depth_is_found_again() -> None:
    content: dict = {"leaf": b"here"}
    for _ in range(3000):
        content = {"d": content}

    class Deep(Forgetful):
        """Not through MemoryTree's constructor, which goes down by calling itself."""

        def __init__(self) -> None:
            super().__init__({})
            self._chain = content

        def root(self) -> Directory:
            return _Deep(self, 1)

    class _Deep(Directory):
        def __init__(self, tree: Deep, depth: int) -> None:
            self.tree: Deep = tree
            self.ident = depth

        def attributes(self):
            return self.tree._root.attributes()

        def child(self, name: str) -> Node:
            return _Deep(self.tree, self.ident + 1)

        def entries(self, after=None):
            yield from ()

    with FakeKernel(Deep()) as kernel:
        nodeid = 1
        for _ in range(3000):
            nodeid = kernel.look_up(nodeid, "d").nodeid
        kernel.requests.inodes.drop_recent()
        assert is_known(kernel, nodeid)


def test_a_name_that_leads_elsewhere_is_stale() -> None:
    tree = Forgetful({"a": {"x": b"1"}, "b": {"x": b"2"}})
    with FakeKernel(tree) as kernel:
        found = kernel.walk("a", "x")
        known = kernel.requests.inodes._known[found.nodeid]
        known.parent = kernel.walk("b").nodeid
        kernel.requests.inodes.drop_recent()
        with pytest.raises(StaleNode):
            kernel.requests.inodes.node(found.nodeid)


def test_a_batch_shorter_than_it_says_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    with FakeKernel(Forgetful(CONTENT)) as kernel:
        nodeid = kernel.look_up(1, "hello.txt").nodeid
        kernel.send(Opcode.BATCH_FORGET, 0, struct.pack("=IIQQ", 2, 0, nodeid, 1))
        kernel.settle()
        assert is_known(kernel, nodeid)
    assert "fewer nodes than announced" in caplog.text
