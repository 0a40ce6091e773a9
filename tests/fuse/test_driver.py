"""The driver with in-memory trees: identity, the hidden folder, errors.  No mount."""

from __future__ import annotations

import errno
import json
import logging
import stat

import pytest

from archivefs import errors
from archivefs.caches import ByteCache
from archivefs.compose import MountTree, SubTree
from archivefs.fuse.driver import ROOT_INODE, Driver
from archivefs.fuse.options import MountOptions
from archivefs.memory import MemoryTree


def driver_of(tree, **options) -> Driver:
    return Driver(tree, MountOptions(**options), ByteCache(1 << 20))


def read_all(driver: Driver, node) -> bytes:
    opened = driver.open(node)
    try:
        return driver.read(opened.handle, 0, 1 << 20)
    finally:
        driver.files.release(opened.handle)


def test_two_archives_in_one_mount_never_share_an_inode() -> None:
    one, two = MemoryTree({"x": b"1"}), MemoryTree({"x": b"2"})
    driver = driver_of(MountTree([("one", one), ("two", two)]))
    inodes = [driver.inode(driver.resolve(parts)) for parts in ((), ("one",), ("two",), ("one", "x"), ("two", "x"))]
    assert len(set(inodes)) == 5
    assert inodes[0] == ROOT_INODE
    for inode in inodes:
        assert driver.inode(driver.node_of(inode)) == inode


def test_the_root_of_a_sub_tree_is_the_root_of_the_mount() -> None:
    driver = driver_of(SubTree(MemoryTree({"a": {"b": {"c": b"deep"}}}), ("a", "b")))
    assert driver.inode(driver.root) == ROOT_INODE
    assert read_all(driver, driver.resolve(("c",))) == b"deep"


def test_what_is_gone_is_stale() -> None:
    driver = driver_of(MemoryTree({}))
    for inode in (99, 7 << 48 | 1):
        with pytest.raises(errors.StaleNode):
            driver.node_of(inode)


def test_modes_are_options_and_never_more() -> None:
    driver = driver_of(MemoryTree({"d": {}, "f": b"", "l": "f"}), fmask=0o027, dmask=0o007)
    modes = [driver.stat(driver.resolve((name,))).mode for name in "dfl"]
    assert modes == [stat.S_IFDIR | 0o550, stat.S_IFREG | 0o440, stat.S_IFLNK | 0o777]


def test_the_hidden_folder_is_not_listed_but_there() -> None:
    driver = driver_of(MemoryTree({"a": b""}, extras={"manifest": b"m"}), source="s.zip", format="memory")
    assert [entry.name for entry in driver.root.entries()] == ["a"]
    control = driver.resolve((".archivefs",))
    assert [entry.name for entry in control.entries()] == ["errors.log", "manifest", "status.json"]
    status = json.loads(read_all(driver, driver.resolve((".archivefs", "status.json"))))
    assert status["format"] == "memory"
    assert status["source"] == "s.zip"
    assert status["cache"]["limit"] == 1 << 20
    assert read_all(driver, driver.resolve((".archivefs", "manifest"))) == b"m"
    with pytest.raises(errors.NotFound):
        driver.resolve((".archivefs", ".archivefs"))


def test_each_archive_of_several_has_what_its_format_adds_and_nothing_else() -> None:
    trees = [("one", MemoryTree({}, extras={"manifest": b"1"})), ("two", MemoryTree({"d": {}}))]
    driver = driver_of(MountTree(trees))
    assert [entry.name for entry in driver.resolve(("one", ".archivefs")).entries()] == ["manifest"]
    for parts in (("two", ".archivefs"), ("two", "d", ".archivefs")):
        with pytest.raises(errors.NotFound):
            driver.resolve(parts)
    assert "status.json" in [entry.name for entry in driver.resolve((".archivefs",)).entries()]


def test_ordinary_answers_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    driver = driver_of(MemoryTree({"f": b""}))
    for operation, number in (
        (lambda: driver.resolve(("none",)), errno.ENOENT),
        (lambda: driver.resolve(("f", "x")), errno.ENOTDIR),
        (lambda: driver.open(driver.root), errno.EISDIR),
        (lambda: driver.readlink(driver.root), errno.EINVAL),
        (lambda: driver.xattr(driver.root, "user.none"), errno.ENODATA),
        (lambda: driver.xattr(driver.root, "security.capability"), errno.ENODATA),
    ):
        with pytest.raises(OSError) as caught:
            driver.answer("test", operation)
        assert caught.value.errno == number
    assert not caplog.records


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (ZeroDivisionError("a\nb"), errno.EIO),
        (OSError("without errno"), errno.EIO),
        (OSError(errno.ENOENT, "a body file"), errno.EIO),
        (OSError(errno.ENOSPC, "full"), errno.ENOSPC),
        (MemoryError(), errno.ENOMEM),
        (errors.CorruptMember("bad", member="x\ny"), errno.EIO),
        (errors.EncryptedMember(), errno.EACCES),
        (RecursionError(), errno.EIO),
    ],
)
def test_every_error_becomes_an_errno_and_one_line(error, number, caplog: pytest.LogCaptureFixture) -> None:
    driver = driver_of(MemoryTree({}))

    def fail() -> None:
        raise error

    caplog.set_level(logging.ERROR)
    for _ in range(3):
        with pytest.raises(OSError) as caught:
            driver.answer("read", fail)
        assert caught.value.errno == number
    assert len(caplog.records) == 1
    assert "\n" not in caplog.records[0].getMessage()


def test_a_stuck_file_fails_at_once_and_recovers() -> None:
    driver = driver_of(MemoryTree({"f": b"abc"}))
    opened = driver.open(driver.resolve(("f",)))
    driver.mark_stuck(opened.handle)
    with pytest.raises(errors.OperationTimedOut):
        driver.read(opened.handle, 0, 3)
    driver.files.get(opened.handle).stuck = False
    assert driver.read(opened.handle, 0, 3) == b"abc"
