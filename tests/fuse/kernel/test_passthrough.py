"""Which files are handed over to the kernel, and that each is taken back."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from archivefs.fuse.handles import OpenFile
from archivefs.fuse.kernel import protocol
from archivefs.fuse.kernel.passthrough import Passthrough
from archivefs.memory import MemoryTree
from archivefs.readers import BytesReader, ExtentReader
from archivefs.tree import Extent, File, Reader


class Ioctls:
    """Stands for the kernel: numbers the files it is handed."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.asked = 0
        self.refusal = 0

    def __call__(self, _fd: int, code: int, data: bytes | bytearray) -> int:
        if code == protocol.IOC_BACKING_CLOSE:
            self.open.remove(protocol.BACKING_ID.unpack(data)[0])
            return 0
        assert code == protocol.IOC_BACKING_OPEN
        assert isinstance(data, bytearray), "only then does Python give the return value"
        self.asked += 1
        if self.refusal:
            raise OSError(self.refusal, os.strerror(self.refusal))
        os.fstat(protocol.BACKING_MAP.unpack(data)[0])
        self.open.add(self.asked)
        return self.asked


@pytest.fixture
def ioctls(monkeypatch: pytest.MonkeyPatch) -> Ioctls:
    ioctls = Ioctls()
    monkeypatch.setattr(fcntl, "ioctl", ioctls)
    return ioctls


def open_file(reader: Reader) -> OpenFile:
    node = MemoryTree({"a": b""}).lookup(("a",))
    assert isinstance(node, File)
    return OpenFile(2, node, reader)


@pytest.fixture
def whole(tmp_path: Path):
    (tmp_path / "body").write_bytes(b"0123456789")
    fd = os.open(tmp_path / "body", os.O_RDONLY)
    yield fd
    os.close(fd)


def test_a_whole_file_is_handed_over_once_and_taken_back(ioctls: Ioctls, whole: int) -> None:
    passthrough = Passthrough(-1, enabled=True)
    file = open_file(ExtentReader(Extent(whole, 0, 10)))
    assert passthrough.backing_of(file) == passthrough.backing_of(file) == 1
    assert ioctls.open == {1}
    passthrough.close(file)
    passthrough.close(file)
    assert ioctls.open == set()


@pytest.mark.parametrize(("start", "length"), [(0, 9), (1, 9), (0, 11)])
def test_a_part_of_a_file_is_not(ioctls: Ioctls, whole: int, start: int, length: int) -> None:
    """The kernel knows no offset, and would read beyond the end of the member."""
    assert Passthrough(-1, enabled=True).backing_of(open_file(ExtentReader(Extent(whole, start, length)))) == 0
    assert ioctls.asked == 0


def test_what_is_no_file_at_all_is_not(ioctls: Ioctls) -> None:
    assert Passthrough(-1, enabled=True).backing_of(open_file(BytesReader(b"x"))) == 0
    fd = os.open(os.devnull, os.O_RDONLY)
    try:
        assert Passthrough(-1, enabled=True).backing_of(open_file(ExtentReader(Extent(fd, 0, 0)))) == 0
    finally:
        os.close(fd)
    assert ioctls.asked == 0


def test_where_it_is_not_negotiated_nothing_is(ioctls: Ioctls, whole: int) -> None:
    assert Passthrough(-1, enabled=False).backing_of(open_file(ExtentReader(Extent(whole, 0, 10)))) == 0
    assert ioctls.asked == 0


def test_a_refusal_for_good_is_not_asked_for_again(ioctls: Ioctls, whole: int) -> None:
    passthrough = Passthrough(-1, enabled=True)
    ioctls.refusal = errno.EPERM
    for _ in range(3):
        assert passthrough.backing_of(open_file(ExtentReader(Extent(whole, 0, 10)))) == 0
    assert ioctls.asked == 1


def test_a_refusal_of_one_file_is_only_that(ioctls: Ioctls, whole: int) -> None:
    """ELOOP: the file lies on a file system that is itself stacked on another."""
    passthrough = Passthrough(-1, enabled=True)
    ioctls.refusal = errno.ELOOP
    file = open_file(ExtentReader(Extent(whole, 0, 10)))
    assert passthrough.backing_of(file) == 0
    ioctls.refusal = 0
    # All handles of one inode must be of one kind, so that one stays as it is.
    assert passthrough.backing_of(file) == 0
    assert passthrough.backing_of(open_file(ExtentReader(Extent(whole, 0, 10)))) == 2
