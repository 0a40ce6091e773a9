"""Every kind of request, asked over a socket pair."""

from __future__ import annotations

import errno
import os
import stat
import struct

import pytest

from archivefs.fuse.kernel import protocol
from archivefs.fuse.kernel.inodes import FIRST_SNAPSHOT
from archivefs.fuse.kernel.protocol import Opcode
from archivefs.memory import MemoryTree
from archivefs.tree import ROOT_IDENT, Kind, Tree
from tests.fuse.kernel.fake import (
    ATTR,
    OPEN_OUT,
    WITHOUT_NO_OPEN,
    Attr,
    FakeKernel,
    entry_of,
    lines_of,
    read_body,
    release_body,
)
from tests.fuse.kernel.trees import CONTENT, Bad, Changing, Forgetful, Hollow, Large, Named, Plain, Refusing

MTIME_NS = -1_500_000_000  # before 1970: seconds are rounded down, nanoseconds stay positive
DAY = 86400


@pytest.fixture(params=[MemoryTree, Forgetful], ids=["leads-back", "by-name"])
def tree(request: pytest.FixtureRequest) -> Tree:
    return request.param(CONTENT, mtime_ns=MTIME_NS, xattrs={"user.a": b"1", "user.bb": b"22"})


@pytest.fixture(params=[protocol.NEWEST_MINOR, 0], ids=["no-open", "with-open"])
def kernel(request: pytest.FixtureRequest, tree: Tree):
    more = {"minor": request.param} if request.param else {"flags": WITHOUT_NO_OPEN}
    with FakeKernel(tree, **more) as kernel:
        yield kernel


# -- looking --


def test_a_look_up_tells_all_about_a_node(kernel: FakeKernel, tree: Tree) -> None:
    found = kernel.look_up(1, "hello.txt")
    node = tree.lookup(("hello.txt",))
    assert (found.nodeid, found.generation) == (node.ident, 0)
    assert (found.entry_valid, found.attr_valid) == (DAY, DAY)
    attr = found.attr
    assert (attr.ino, attr.size, attr.blocks) == (node.ident, 5, 1)
    assert attr.mode == stat.S_IFREG | 0o444
    assert (attr.nlink, attr.uid, attr.gid, attr.blksize) == (1, 11, 22, 4096)
    assert (attr.mtime, attr.mtimensec) == (attr.atime, attr.atimensec) == (attr.ctime, attr.ctimensec)
    assert (attr.mtime, attr.mtimensec) == (-2, 500_000_000)


def test_look_ups_go_down(kernel: FakeKernel) -> None:
    assert kernel.walk("folder", "deeper", "leaf").attr.size == 5000
    assert kernel.look_up(1, "ünïcode \n").attr.size == 8
    assert kernel.look_up(1, "folder").attr.mode == stat.S_IFDIR | 0o555
    assert kernel.look_up(1, "link").attr.mode == stat.S_IFLNK | 0o777


def test_what_is_not_there_is_remembered(kernel: FakeKernel) -> None:
    answer = kernel.ask(Opcode.LOOKUP, 1, b"nothing\0")
    assert answer.error == 0
    found = entry_of(answer.body)
    assert (found.nodeid, found.entry_valid, found.attr_valid) == (0, DAY, 0)


@pytest.mark.parametrize("name", [b"\xff", b"\xed\xa0\x80", b"a\xc3", b"x" * 1020, b"x" * 4000])
def test_odd_names_are_not_there(kernel: FakeKernel, name: bytes) -> None:
    assert kernel.look_up(1, name).nodeid == 0


def test_a_name_in_what_is_no_directory(kernel: FakeKernel) -> None:
    file = kernel.look_up(1, "hello.txt")
    assert kernel.ask(Opcode.LOOKUP, file.nodeid, b"x\0").error == errno.ENOTDIR


def test_long_names_are_found() -> None:
    name = "ü" * 510
    with FakeKernel(MemoryTree({name: b"x"})) as kernel:
        assert kernel.look_up(1, name).attr.size == 1
        assert [line.name for line in kernel.listing(1)] == [name]


def test_attributes(kernel: FakeKernel) -> None:
    found = kernel.walk("folder", "inner.txt")
    answer = kernel.ask(Opcode.GETATTR, found.nodeid, protocol.GETATTR_IN.pack(0, 0, 0))
    valid, nanoseconds, _ = struct.unpack_from("=QII", answer.body)
    assert (answer.error, valid, nanoseconds) == (0, DAY, 0)
    assert Attr(*ATTR.unpack_from(answer.body, 16)) == found.attr


def test_the_root_has_attributes(kernel: FakeKernel) -> None:
    answer = kernel.ask(Opcode.GETATTR, 1, protocol.GETATTR_IN.pack(0, 0, 0))
    assert Attr(*ATTR.unpack_from(answer.body, 16)).mode == stat.S_IFDIR | 0o555


@pytest.mark.parametrize("nodeid", [999, 5 << 48 | 1, 2**64 - 1, 0])
def test_a_number_that_was_never_given_is_stale(kernel: FakeKernel, nodeid: int) -> None:
    assert kernel.ask(Opcode.GETATTR, nodeid, protocol.GETATTR_IN.pack(0, 0, 0)).error == errno.ESTALE
    assert kernel.ask(Opcode.LOOKUP, nodeid, b"x\0").error == errno.ESTALE
    assert kernel.ask(Opcode.READLINK, nodeid).error == errno.ESTALE


def test_symbolic_links(kernel: FakeKernel) -> None:
    assert kernel.ask(Opcode.READLINK, kernel.look_up(1, "link").nodeid).body == b"folder/inner.txt"
    assert kernel.ask(Opcode.READLINK, kernel.look_up(1, "hello.txt").nodeid).error == errno.EINVAL


def test_extended_attributes(kernel: FakeKernel) -> None:
    nodeid = kernel.look_up(1, "hello.txt").nodeid

    def get(name: bytes, size: int) -> tuple[int, bytes]:
        answer = kernel.ask(Opcode.GETXATTR, nodeid, protocol.GETXATTR_IN.pack(size, 0) + name + b"\0")
        return answer.error, answer.body

    def names(size: int) -> tuple[int, bytes]:
        answer = kernel.ask(Opcode.LISTXATTR, nodeid, protocol.GETXATTR_IN.pack(size, 0))
        return answer.error, answer.body

    assert get(b"user.bb", 100) == (0, b"22")
    assert get(b"user.bb", 2) == (0, b"22")
    assert get(b"user.bb", 0) == (0, struct.pack("=II", 2, 0))
    assert get(b"user.bb", 1) == (errno.ERANGE, b"")
    for name in (b"user.none", b"security.selinux", b"user.\xff", b"x"):
        assert get(name, 100) == (errno.ENODATA, b""), name
    assert names(100) == (0, b"user.a\0user.bb\0")
    assert names(0) == (0, struct.pack("=II", 15, 0))
    assert names(14) == (errno.ERANGE, b"")


def test_how_much_there_is(kernel: FakeKernel, tree: Tree) -> None:
    answer = kernel.ask(Opcode.STATFS)
    blocks, free, available, files, _, size, names, fragment = struct.unpack_from("=QQQQQIII", answer.body)
    assert len(answer.body) == 80
    assert blocks == -(-tree.usage().size // 4096)
    assert (free, available, files) == (0, 0, tree.usage().files)
    assert (size, fragment, names) == (4096, 4096, 1020)


# -- listings --


@pytest.mark.parametrize("size", [512, 4096, 1 << 17])
def test_a_listing_with_nodes(kernel: FakeKernel, tree: Tree, size: int) -> None:
    lines = kernel.listing(1, size=size)
    assert [line.name for line in lines] == sorted(CONTENT)
    for line in lines:
        node = tree.lookup((line.name,))
        assert line.found is not None
        assert (line.ino, line.kind) == (node.ident, node.kind)
        assert (line.found.nodeid, line.found.attr.ino) == (node.ident, node.ident)
        assert (line.found.attr.size, line.found.attr.mode >> 12) == (node.attributes().size, node.kind)
        assert (line.found.entry_valid, line.found.attr_valid) == (DAY, DAY)
        assert line.found.attr == kernel.look_up(1, line.name).attr


@pytest.mark.parametrize("size", [100, 4096])
def test_a_listing_of_names(kernel: FakeKernel, tree: Tree, size: int) -> None:
    lines = kernel.listing(1, size=size, plus=False)
    assert [(line.name, line.ino, line.kind) for line in lines] == [
        (name, tree.lookup((name,)).ident, tree.lookup((name,)).kind) for name in sorted(CONTENT)
    ]


def test_the_dots_are_never_handed_out(kernel: FakeKernel) -> None:
    answer = kernel.ask(Opcode.OPENDIR, 1, protocol.OPEN_IN.pack(0, 0))
    handle = OPEN_OUT.unpack(answer.body)[0] if not answer.error else 0
    lines = lines_of(kernel.ask(Opcode.READDIRPLUS, 1, read_body(handle, 0, 4096)).body, plus=True)
    assert [(line.name, line.kind) for line in lines[:2]] == [(".", Kind.DIRECTORY), ("..", Kind.DIRECTORY)]
    assert [line.found and line.found.nodeid for line in lines[:2]] == [0, 0]
    assert lines[0].ino == ROOT_IDENT


def test_a_large_directory_in_any_pieces(tree: Tree) -> None:
    names = [f"name-{number:05d}" for number in range(2500)]
    with FakeKernel(MemoryTree(dict.fromkeys(names, b""))) as kernel:
        for size in (300, 4096, 40_000):
            assert [line.name for line in kernel.listing(1, size=size)] == names
        # Two at once, and going back: each line says where the next begins.
        lines = kernel.listing(1, plus=False)
        for start in (0, 1, 999, 1000, 1001, 2498):
            answer = kernel.ask(Opcode.READDIR, 1, read_body(0, lines[start].offset, 4096))
            assert lines_of(answer.body, plus=False)[0].name == names[start + 1]


def test_two_clients_list_one_directory_at_once() -> None:
    names = [f"name-{number:05d}" for number in range(3000)]
    with FakeKernel(MemoryTree(dict.fromkeys(names, b""))) as kernel:
        seen: list[list[str]] = [[], []]
        offsets = [0, 0]
        while True:
            new = []
            for client in (0, 1):
                answer = kernel.ask(Opcode.READDIR, 1, read_body(0, offsets[client], 512 * (client + 1)))
                new = lines_of(answer.body, plus=False)
                seen[client] += [line.name for line in new]
                offsets[client] = new[-1].offset if new else offsets[client]
            if len(seen[0]) == len(names) + 2:
                break
        assert seen[0][2:] == names
        assert seen[1][2:] == names


def test_a_listing_of_a_file_is_refused(kernel: FakeKernel) -> None:
    nodeid = kernel.look_up(1, "hello.txt").nodeid
    answer = kernel.ask(Opcode.OPENDIR, nodeid, protocol.OPEN_IN.pack(0, 0))
    if answer.error == errno.ENOSYS:
        answer = kernel.ask(Opcode.READDIR, nodeid, read_body(0, 0, 4096))
    assert answer.error == errno.ENOTDIR


def test_one_bad_entry_does_not_hide_the_others() -> None:
    with FakeKernel(Named({"bad": Bad, "good": Plain})) as kernel:
        bad, good = kernel.listing(1)
        assert bad.found is not None and good.found is not None
        assert (bad.name, bad.found.nodeid) == ("bad", 0)
        assert (good.name, good.found.attr.size) == ("good", 5)


def test_a_directory_handle_is_released() -> None:
    with FakeKernel(MemoryTree(CONTENT), flags=WITHOUT_NO_OPEN) as kernel:
        answer = kernel.ask(Opcode.OPENDIR, 1, protocol.OPEN_IN.pack(0, 0))
        handle, flags, _ = OPEN_OUT.unpack(answer.body)
        assert flags == protocol.FOPEN_KEEP_CACHE | protocol.FOPEN_CACHE_DIR
        assert kernel.ask(Opcode.RELEASEDIR, 1, release_body(handle)).error == 0
        assert kernel.ask(Opcode.READDIR, 1, read_body(handle, 0, 4096)).error == errno.ESTALE


# -- files --


def test_reading_with_a_handle() -> None:
    tree = Named({"large": Large})
    with FakeKernel(tree, flags=WITHOUT_NO_OPEN) as kernel:
        nodeid = kernel.look_up(1, "large").nodeid
        handle, flags = kernel.open(nodeid)
        assert flags == protocol.FOPEN_KEEP_CACHE | protocol.FOPEN_NOFLUSH
        assert kernel.read(nodeid, handle, 0, 4096).body == Large.data[:4096]
        assert kernel.read(nodeid, handle, 1000, 131072).body == Large.data[1000 : 1000 + 131072]
        assert kernel.read(nodeid, handle, len(Large.data), 4096).body == b""
        second, _ = kernel.open(nodeid)
        assert (tree.open_readers, second != handle) == (1, True)
        for each in (handle, second):
            assert kernel.ask(Opcode.RELEASE, nodeid, release_body(each)).error == 0
        assert tree.open_readers == 0
        assert kernel.read(nodeid, handle, 0, 4096).error == errno.ESTALE


def test_opening_for_writing_is_refused(kernel: FakeKernel) -> None:
    nodeid = kernel.look_up(1, "hello.txt").nodeid
    for flags in (os.O_WRONLY, os.O_RDWR):
        assert kernel.ask(Opcode.OPEN, nodeid, protocol.OPEN_IN.pack(flags, 0)).error == errno.EROFS


def test_opening_a_directory_as_a_file_is_refused(kernel: FakeKernel) -> None:
    nodeid = kernel.look_up(1, "folder").nodeid
    answer = kernel.ask(Opcode.OPEN, nodeid, protocol.OPEN_IN.pack(0, 0))
    if answer.error == errno.ENOSYS:
        answer = kernel.read(nodeid, 0, 0, 4096)
    assert answer.error == errno.EISDIR


def test_reading_without_open_closes_what_was_read_whole() -> None:
    tree = Named({"large": Large, "plain": Plain})
    with FakeKernel(tree) as kernel:
        plain, large = kernel.look_up(1, "plain").nodeid, kernel.look_up(1, "large").nodeid
        assert kernel.ask(Opcode.OPEN, plain, protocol.OPEN_IN.pack(0, 0)).error == errno.ENOSYS
        assert kernel.read(plain, 0, 0, 4096).body == b"plain"
        assert (tree.opened, tree.open_readers) == (1, 0)
        for offset in range(0, len(Large.data), 65536):
            assert kernel.read(large, 0, offset, 65536).body == Large.data[offset : offset + 65536]
        assert (tree.opened, tree.open_readers) == (2, 1)


def test_readers_that_nobody_uses_are_few() -> None:
    tree = Named({f"large{number}": Large for number in range(100)})
    with FakeKernel(tree) as kernel:
        for number in range(100):
            nodeid = kernel.look_up(1, f"large{number}").nodeid
            assert kernel.read(nodeid, 0, 4096, 4096).body == Large.data[4096:8192]
        assert tree.opened == 100
        assert tree.open_readers == 32
        kernel.requests.readers.close_all()
        assert tree.open_readers == 0


def test_an_empty_file_that_cannot_be_opened_says_so_when_it_is_read(caplog: pytest.LogCaptureFixture) -> None:
    tree = Named({"hollow": Hollow, "refusing": Refusing})
    with FakeKernel(tree) as kernel:
        hollow, refusing = kernel.look_up(1, "hollow"), kernel.look_up(1, "refusing")
        # The kernel must ask again at each read, and it does so in the name of the read.
        assert (hollow.entry_valid, hollow.attr_valid, refusing.attr_valid) == (DAY, 0, 0)
        listed = [line.found and line.found.attr_valid for line in kernel.listing(1)]
        assert listed == [0, 0]

        def asked(nodeid: int, flags: int) -> tuple[int, int]:
            answer = kernel.ask(Opcode.GETATTR, nodeid, protocol.GETATTR_IN.pack(flags, 0, 0))
            return answer.error, struct.unpack_from("=Q", answer.body)[0] if not answer.error else 0

        assert asked(refusing.nodeid, 0) == (0, 0)
        assert asked(refusing.nodeid, protocol.GETATTR_FH) == (errno.EIO, 0)
        assert asked(hollow.nodeid, 0) == (0, 0)
        assert asked(hollow.nodeid, protocol.GETATTR_FH) == (0, DAY)
    assert "its size is a lie" in caplog.text


# -- what is made anew at each open --


def test_a_volatile_file_is_read_past_the_kernels_cache() -> None:
    with FakeKernel(Named({"status": Changing}), flags=WITHOUT_NO_OPEN) as kernel:
        found = kernel.look_up(1, "status")
        assert found.entry_valid == 0
        handle, flags = kernel.open(found.nodeid)
        assert flags == protocol.FOPEN_DIRECT_IO | protocol.FOPEN_NOFLUSH
        assert kernel.read(found.nodeid, handle, 0, 4096).body == b"x"


def test_without_open_a_volatile_file_is_another_at_each_look_up() -> None:
    tree = Named({"status": Changing})
    with FakeKernel(tree) as kernel:
        first, second = kernel.look_up(1, "status"), kernel.look_up(1, "status")
        assert first.nodeid != second.nodeid
        assert min(first.nodeid, second.nodeid) >= FIRST_SNAPSHOT
        assert first.attr.ino == second.attr.ino == tree.files["status"].ident
        assert (first.entry_valid, first.attr.size, second.attr.size) == (0, 1, 2)
        assert kernel.read(first.nodeid, 0, 0, 4096).body == b"x"
        assert kernel.read(second.nodeid, 0, 0, 4096).body == b"xx"
        assert kernel.read(first.nodeid, 0, 0, 4096).body == b"x"
        assert tree.open_readers == 2
        for found in (first, second):
            kernel.send(Opcode.FORGET, found.nodeid, protocol.FORGET_IN.pack(1))
        kernel.settle()
        assert tree.open_readers == 0
        assert kernel.read(first.nodeid, 0, 0, 4096).error == errno.ESTALE
        [line] = kernel.listing(1)
        assert line.found is not None and line.found.nodeid == 0


def test_the_files_of_the_driver_itself(kernel: FakeKernel) -> None:
    control = kernel.look_up(1, ".archivefs")
    assert control.attr.mode == stat.S_IFDIR | 0o555
    assert [line.name for line in kernel.listing(control.nodeid)] == ["errors.log", "status.json"]
    found = kernel.look_up(control.nodeid, "status.json")
    handle = 0 if kernel.session.no_open else kernel.open(found.nodeid)[0]
    assert b'"transport"' in kernel.read(found.nodeid, handle, 0, 65536).body
    assert ".archivefs" not in [line.name for line in kernel.listing(1)]


# -- all the rest --


@pytest.mark.parametrize("opcode", sorted(protocol.CHANGING))
def test_changes_are_refused(kernel: FakeKernel, opcode: Opcode) -> None:
    assert kernel.ask(opcode, 1, bytes(200)).error == errno.EROFS


READING = """LOOKUP FORGET BATCH_FORGET GETATTR READLINK OPEN READ RELEASE STATFS GETXATTR LISTXATTR
OPENDIR READDIR READDIRPLUS RELEASEDIR DESTROY INTERRUPT NOTIFY_REPLY"""
KNOWN = {Opcode[name] for name in READING.split()} | protocol.CHANGING


@pytest.mark.parametrize("opcode", [*sorted(set(Opcode) - KNOWN), 0, 7, 19, 54, 255, 4096, 2**32 - 1])
def test_what_is_not_known_is_not_there(kernel: FakeKernel, opcode: int) -> None:
    answer = kernel.ask(opcode, 1, bytes(200))
    assert (answer.error, answer.body) == (errno.ENOSYS, b"")


def test_destroy_is_acknowledged(kernel: FakeKernel) -> None:
    assert kernel.ask(Opcode.DESTROY, 0)[::2] == (0, b"")


def test_requests_are_counted(kernel: FakeKernel) -> None:
    kernel.look_up(1, "hello.txt")
    kernel.ask(Opcode.LOOKUP, 1, b"nothing\0")
    kernel.ask(4000)
    assert kernel.driver.counts["lookup"] == 2
    assert kernel.driver.counts["unknown"] == 1
