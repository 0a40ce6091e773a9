"""INIT: what this kernel and this mount can do together.

``negotiate`` turns the kernel's first request into a reply and a :class:`Session`, which everything else asks.
Pure: no device is touched here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from archivefs.fuse.driver import LIVING_LIFETIME_S, Driver
from archivefs.fuse.kernel import protocol
from archivefs.fuse.kernel.protocol import Flag
from archivefs.fuse.transport import TransportUnavailable

MAX_PAGES = 256
"""Of 4 KiB: reads of up to 1 MiB at once."""
MAX_READAHEAD = 1 << 20
MAX_WRITE = 64 * 1024
"""On a read-only mount, where it only bounds how many FORGETs come at once."""
MAX_WRITE_READ_WRITE = 1 << 20
MAX_BACKGROUND = 32
"""Readahead requests the kernel may have under way.  Few enough that a stuck file does not take a thousand threads."""
WATCHED_LIFETIME_S = 60.0
"""For a living tree, where the kernel can be told to forget everything at once."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """What was agreed on."""

    minor: int
    flags: int
    no_open: bool = False
    """OPEN is answered ENOSYS: the kernel then does without."""
    no_opendir: bool = False
    """The same for OPENDIR, which came later."""
    passthrough: bool = False
    epochs: bool = False
    """The kernel can be told that every name it knows has to be looked up again."""
    max_write: int = MAX_WRITE

    @property
    def buffer_size(self) -> int:
        """How much one request may take."""
        return self.max_write + 4096

    @property
    def living_lifetime_s(self) -> float:
        """How long the kernel may keep names and attributes of a tree that can change."""
        return WATCHED_LIFETIME_S if self.epochs else LIVING_LIFETIME_S


def negotiate(driver: Driver, request: memoryview) -> tuple[bytes, Session]:
    """The reply to INIT and the session it begins; raises TransportUnavailable for a kernel that is too old."""
    major, minor, offered, max_readahead = _read_init(request)
    if major != protocol.MAJOR or minor < protocol.OLDEST_MINOR:
        wanted = f"{protocol.MAJOR}.{protocol.OLDEST_MINOR}"
        raise TransportUnavailable(f"the kernel speaks FUSE {major}.{minor}, and {wanted} or later is needed")
    minor = min(minor, protocol.NEWEST_MINOR)
    flags = int(_wanted(driver) & offered)
    session = Session(
        minor=minor,
        flags=flags,
        no_open=opens_not_needed(driver) and bool(flags & Flag.NO_OPEN_SUPPORT),
        no_opendir=opens_not_needed(driver) and bool(flags & Flag.NO_OPENDIR_SUPPORT),
        passthrough=bool(flags & Flag.PASSTHROUGH),
        epochs=minor >= protocol.INC_EPOCH_MINOR,
        max_write=MAX_WRITE_READ_WRITE if driver.options.read_write else MAX_WRITE,
    )
    _, _, unique, *_ = protocol.IN_HEADER.unpack_from(request)
    return _init_reply(unique, session, min(max_readahead, MAX_READAHEAD)), session


def opens_not_needed(driver: Driver) -> bool:
    """May the kernel open files without telling us?

    Then a warm ``grep -r`` never reaches Python.  It holds for the whole connection, so: nothing may change,
    nothing may be written, and the tree must not need the opens itself (passthrough, errors that belong to
    ``open``).  What is lost even so: a file that cannot be opened says so when it is read.
    """
    tree = driver.tree
    return tree.immutable and not driver.options.read_write and not tree.open_needed


def _read_init(request: memoryview) -> tuple[int, int, int, int]:
    at = protocol.IN_SIZE
    if len(request) < at + protocol.INIT_IN.size:
        raise TransportUnavailable("the kernel's first request is too short")
    major, minor, max_readahead, flags = protocol.INIT_IN.unpack_from(request, at)
    at += protocol.INIT_IN.size
    if flags & Flag.INIT_EXT and len(request) >= at + protocol.INIT_IN_FLAGS2.size:
        flags |= protocol.INIT_IN_FLAGS2.unpack_from(request, at)[0] << 32
    return major, minor, flags, max_readahead


def _wanted(driver: Driver) -> Flag:
    # READDIRPLUS always, never the kernel's "auto" mode: a walk of a million files takes 12 s instead of 46.
    flags = Flag.ASYNC_READ | Flag.ATOMIC_O_TRUNC | Flag.BIG_WRITES | Flag.DO_READDIRPLUS | Flag.PARALLEL_DIROPS
    flags |= Flag.MAX_PAGES | Flag.NO_OPEN_SUPPORT | Flag.NO_OPENDIR_SUPPORT | Flag.INIT_EXT
    if driver.tree.immutable:
        flags |= Flag.CACHE_SYMLINKS
    else:
        flags |= Flag.AUTO_INVAL_DATA
    if os.geteuid() == 0 and not opens_not_needed(driver) and not driver.options.read_write:
        # A file that is handed over cannot be opened for writing meanwhile.
        flags |= Flag.PASSTHROUGH
    return flags


def _init_reply(unique: int, session: Session, max_readahead: int) -> bytes:
    body = protocol.INIT_OUT.pack(
        protocol.MAJOR,
        session.minor,
        max_readahead,
        session.flags & 0xFFFFFFFF,
        MAX_BACKGROUND,
        MAX_BACKGROUND * 3 // 4,
        session.max_write,
        1,  # times in nanoseconds
        MAX_PAGES,
        0,
        session.flags >> 32,
        1 if session.passthrough else 0,  # how many file systems may lie on top of each other
        0,
    )
    return b"".join(protocol.data_reply(unique, body))
