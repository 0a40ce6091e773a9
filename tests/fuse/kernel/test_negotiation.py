"""INIT: what is asked of which kernel, and what a kernel that is too old gets."""

from __future__ import annotations

import os
import socket
import struct
import threading

import pytest

from archivefs.caches import ByteCache
from archivefs.errors import MountRefused
from archivefs.fuse.driver import Driver
from archivefs.fuse.kernel import protocol
from archivefs.fuse.kernel.negotiation import MAX_READAHEAD, Session, negotiate
from archivefs.fuse.kernel.protocol import Flag, Opcode
from archivefs.fuse.kernel.transport import agree
from archivefs.fuse.options import MountOptions
from archivefs.fuse.transport import TransportUnavailable
from archivefs.memory import MemoryTree
from tests.fuse.kernel.fake import ALL_FLAGS, init_body, request

INIT_OUT = struct.Struct("=IIIIHHIIHHIIH")
LIVING = type("Living", (MemoryTree,), {"immutable": False})
OPENED = type("Opened", (MemoryTree,), {"open_needed": True})


def driver_of(cls: type[MemoryTree] = MemoryTree, **options: object) -> Driver:
    return Driver(cls({}), MountOptions(**options), ByteCache())  # type: ignore[arg-type]


def agreed(driver: Driver, body: bytes) -> tuple[tuple[int, ...], Session]:
    reply, session = negotiate(driver, memoryview(request(Opcode.INIT, 5, 0, body)))
    length, error, unique = protocol.OUT_HEADER.unpack_from(reply)
    assert (length, error, unique) == (len(reply), 0, 5)
    assert len(reply) == 16 + 64
    return INIT_OUT.unpack_from(reply, 16), session


def test_a_new_kernel() -> None:
    answer, session = agreed(driver_of(), init_body(45, ALL_FLAGS))
    major, minor, readahead, flags, background, congestion, max_write, granularity, pages, _, flags2, depth, _ = answer
    assert (major, minor, session.minor) == (7, 45, 45)
    assert readahead == MAX_READAHEAD
    assert (pages, granularity) == (256, 1)
    assert congestion < background
    assert max_write >= 4096
    assert session.buffer_size >= max_write + 4096
    wanted = Flag.ASYNC_READ | Flag.DO_READDIRPLUS | Flag.PARALLEL_DIROPS | Flag.MAX_PAGES | Flag.INIT_EXT
    assert flags & wanted == wanted
    assert flags | flags2 << 32 == session.flags
    assert not flags & 1 << 14  # the kernel's "auto" mode of READDIRPLUS is slower
    assert (session.no_open, session.no_opendir, session.epochs, session.passthrough, depth) == (
        True,
        True,
        True,
        False,
        0,
    )


def test_the_newer_of_two_gives_way() -> None:
    assert agreed(driver_of(), init_body(60, ALL_FLAGS))[1].minor == protocol.NEWEST_MINOR
    assert agreed(driver_of(), init_body(31, ALL_FLAGS))[1].minor == 31


def test_nothing_is_asked_for_that_was_not_offered() -> None:
    for offered in (0, int(Flag.ASYNC_READ), int(Flag.DO_READDIRPLUS | Flag.INIT_EXT)):
        answer, session = agreed(driver_of(), init_body(38, offered))
        assert answer[3] | answer[10] << 32 == session.flags
        assert session.flags & ~offered == 0
        assert (session.no_open, session.no_opendir) == (False, False)


def test_an_older_kernel_sends_less() -> None:
    """Until 7.35 the request has 16 bytes, and no second word of flags."""
    body = struct.pack("=IIII", 7, 23, 65536, int(Flag.ASYNC_READ | Flag.NO_OPEN_SUPPORT))
    answer, session = agreed(driver_of(), body)
    assert (answer[1], answer[2], answer[10]) == (23, 65536, 0)
    assert (session.no_open, session.no_opendir, session.epochs) == (True, False, False)
    assert session.living_lifetime_s == 1.0


@pytest.mark.parametrize(("major", "minor"), [(7, 22), (7, 8), (6, 99), (8, 0)])
def test_a_kernel_that_is_too_old_is_left_to_fusepy(major: int, minor: int) -> None:
    with pytest.raises(TransportUnavailable, match=f"FUSE {major}.{minor}, and 7.23 or later is needed"):
        agreed(driver_of(), init_body(minor, ALL_FLAGS, major=major))


@pytest.mark.parametrize("size", range(16))
def test_a_first_request_that_is_cut_short(size: int) -> None:
    with pytest.raises(TransportUnavailable):
        agreed(driver_of(), init_body(38, 0)[:size])


@pytest.mark.parametrize(
    ("driver", "needed"),
    [
        (driver_of(), False),
        (driver_of(LIVING), True),
        (driver_of(OPENED), True),
        (driver_of(read_write=True), True),
    ],
    ids=["immutable", "living", "tree-wants-it", "read-write"],
)
def test_opens_are_done_without_only_where_nothing_is_lost(driver: Driver, needed: bool) -> None:
    session = agreed(driver, init_body(45, ALL_FLAGS))[1]
    assert session.no_open is session.no_opendir is not needed
    # The kernel reads plain files by itself only where it opens them.
    assert session.passthrough is (needed and os.geteuid() == 0 and not driver.options.read_write)


def test_living_trees_are_watched_where_the_kernel_can_be_told() -> None:
    assert agreed(driver_of(LIVING), init_body(44, ALL_FLAGS))[1].living_lifetime_s == 60.0
    assert agreed(driver_of(LIVING), init_body(43, ALL_FLAGS))[1].living_lifetime_s == 1.0
    flags = agreed(driver_of(LIVING), init_body(45, ALL_FLAGS))[1].flags
    assert flags & Flag.AUTO_INVAL_DATA and not flags & Flag.CACHE_SYMLINKS
    flags = agreed(driver_of(), init_body(45, ALL_FLAGS))[1].flags
    assert flags & Flag.CACHE_SYMLINKS and not flags & Flag.AUTO_INVAL_DATA


# -- over a socket --


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def test_the_first_request_is_answered(pair) -> None:
    ours, theirs = pair
    ours.send(request(Opcode.INIT, 9, 0, init_body(40, ALL_FLAGS)))
    assert agree(theirs.fileno(), driver_of()).minor == 40
    assert len(ours.recv(4096)) == 80


def test_anything_but_init_first_is_refused(pair) -> None:
    ours, theirs = pair
    ours.send(request(Opcode.STATFS, 9, 1, b""))
    with pytest.raises(MountRefused, match="did not begin with INIT"):
        agree(theirs.fileno(), driver_of())


def test_an_end_before_the_beginning_is_refused(pair) -> None:
    ours, theirs = pair
    threading.Timer(0.05, ours.shutdown, [socket.SHUT_RDWR]).start()
    with pytest.raises(MountRefused):
        agree(theirs.fileno(), driver_of())
