"""A file that changes while it is open: every reader gets the bytes of one version, and a size that fits them."""

from __future__ import annotations

import struct

import pytest

from archivefs.caches import ByteCache
from archivefs.errors import NotFound
from archivefs.fuse.driver import Driver
from archivefs.fuse.kernel import protocol
from archivefs.fuse.kernel.protocol import Opcode
from archivefs.fuse.options import MountOptions
from archivefs.readers import BytesReader
from archivefs.tree import ROOT_IDENT, Attributes, Directory, Entry, File, Kind, Node, Reader, Tree
from tests.fuse.kernel.fake import FakeKernel


class Living(Tree):
    """One file whose content the test sets; "" means that it is gone."""

    immutable = False
    leads_back = True

    def __init__(self) -> None:
        self.data = b"one"
        self.version = 1

    def set(self, data: bytes) -> None:
        self.data = data
        self.version += 1

    def root(self) -> Directory:
        return Root(self)

    def node(self, ident: int) -> Node:
        return self.root() if ident == ROOT_IDENT else self.root().child("file")

    def close(self) -> None:
        pass


class Root(Directory):
    ident = ROOT_IDENT

    def __init__(self, tree: Living) -> None:
        self.tree: Living = tree

    def attributes(self) -> Attributes:
        return Attributes()

    def child(self, name: str) -> Node:
        if name != "file" or not self.tree.data:
            raise NotFound
        return Content(self.tree)

    def entries(self, after: str | None = None):
        if after is None and self.tree.data:
            yield Entry("file", Kind.FILE, 2, Content(self.tree))


class Content(File):
    ident = 2

    def __init__(self, tree: Living) -> None:
        self.tree: Living = tree

    def attributes(self) -> Attributes:
        return Attributes(len(self.tree.data), self.tree.version * 10**9, self.tree.version)

    def open(self) -> Reader:
        return BytesReader(self.tree.data)


@pytest.fixture
def tree() -> Living:
    return Living()


@pytest.fixture
def driver(tree: Living) -> Driver:
    return Driver(tree, MountOptions(), ByteCache())


def file_of(driver: Driver) -> Node:
    return driver.lookup(driver.root, "file")


def test_two_who_open_the_same_version_share_it(driver: Driver) -> None:
    one, two = driver.open(file_of(driver)), driver.open(file_of(driver))
    assert not one.direct and not two.direct
    assert driver.files.get(one.handle) is driver.files.get(two.handle)


def test_two_versions_are_open_at_once(driver: Driver, tree: Living) -> None:
    old = driver.open(file_of(driver))
    tree.set(b"another")
    new = driver.open(file_of(driver))
    assert driver.read(old.handle, 0, 100) == b"one"
    assert driver.read(new.handle, 0, 100) == b"another"
    # The kernel has one set of pages for both, and those are the first one's.
    assert (old.direct, new.direct) == (False, True)


def test_its_size_fits_its_bytes_while_it_is_open(driver: Driver, tree: Living) -> None:
    assert driver.attributes(file_of(driver)) == (Attributes(3, 10**9, 1), True)
    old = driver.open(file_of(driver))
    assert driver.attributes(file_of(driver)) == (Attributes(3, 10**9, 1), True)
    tree.set(b"another")
    assert driver.attributes(file_of(driver)) == (Attributes(3, 10**9, 1), False)
    assert driver.stat(file_of(driver)).size == 3
    driver.files.release(old.handle)
    assert driver.attributes(file_of(driver)) == (Attributes(7, 2 * 10**9, 2), True)


def test_newcomers_do_not_keep_an_old_version_alive(driver: Driver, tree: Living) -> None:
    old = driver.open(file_of(driver))
    tree.set(b"another")
    newcomers = [driver.open(file_of(driver)) for _ in range(3)]
    driver.files.release(old.handle)
    last = driver.open(file_of(driver))
    assert (last.direct, last.keep_cache) == (False, False)
    assert driver.read(last.handle, 0, 100) == b"another"
    for opened in [*newcomers, last]:
        driver.files.release(opened.handle)
    assert len(driver.files) == 0
    assert driver.files.inodes() == []


def test_pages_are_kept_while_the_version_is_the_same(driver: Driver, tree: Living) -> None:
    def keeps() -> bool:
        opened = driver.open(file_of(driver))
        driver.files.release(opened.handle)
        return opened.keep_cache

    assert [keeps(), keeps(), keeps()] == [False, True, True]
    tree.set(b"two")
    assert [keeps(), keeps()] == [False, True]


# -- over the kernel's protocol --


def size_and_lifetime(kernel: FakeKernel) -> tuple[int, int]:
    answer = kernel.ask(Opcode.GETATTR, 2, protocol.GETATTR_IN.pack(0, 0, 0))
    assert answer.error == 0
    return struct.unpack_from("=Q", answer.body, 24)[0], struct.unpack_from("=Q", answer.body)[0]


def test_the_kernel_asks_for_the_size_before_it_reads_another_version(tree: Living) -> None:
    with FakeKernel(tree) as kernel:
        handle, flags = kernel.open(2)
        assert not flags & protocol.FOPEN_KEEP_CACHE
        assert kernel.told == [protocol.inode_notification(2, protocol.ONLY_ATTRIBUTES)]
        kernel.open(2)
        assert len(kernel.told) == 1
        assert size_and_lifetime(kernel) == (3, 60)
        tree.set(b"another")
        # What it is told now must not be kept, because it ends with the last handle.
        assert size_and_lifetime(kernel) == (3, 0)
        [line] = kernel.listing(1)
        assert line.found is not None
        assert (line.found.attr.size, line.found.attr_valid, line.found.entry_valid) == (3, 0, 60)
        found = kernel.look_up(1, "file")
        assert (found.attr.size, found.attr_valid, found.entry_valid) == (3, 0, 60)
        _, flags = kernel.open(2)
        assert flags & protocol.FOPEN_DIRECT_IO
        assert kernel.read(2, handle, 0, 4096).body == b"one"


def test_an_open_file_that_is_gone_can_still_be_looked_at(tree: Living) -> None:
    with FakeKernel(tree) as kernel:
        handle, _ = kernel.open(2)
        tree.set(b"")
        assert kernel.look_up(1, "file").nodeid == 0
        assert size_and_lifetime(kernel) == (3, 0)
        assert kernel.read(2, handle, 0, 4096).body == b"one"
