"""FakeKernel: the other end of the FUSE device, as a socket pair.

It asks what the kernel would ask and takes the answers apart again.  Like the kernel it refuses with ENOENT an answer
to a request that nobody waits for.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import threading
from typing import NamedTuple

from archivefs.caches import ByteCache
from archivefs.fuse.driver import Driver
from archivefs.fuse.kernel import protocol
from archivefs.fuse.kernel.calls import Reply
from archivefs.fuse.kernel.negotiation import negotiate
from archivefs.fuse.kernel.passthrough import Passthrough
from archivefs.fuse.kernel.protocol import Flag, Opcode
from archivefs.fuse.kernel.requests import Requests
from archivefs.fuse.kernel.workers import Crew
from archivefs.fuse.options import MountOptions
from archivefs.tree import Tree

ALL_FLAGS = (1 << 43) - 1
WITHOUT_NO_OPEN = ALL_FLAGS & ~Flag.NO_OPEN_SUPPORT & ~Flag.NO_OPENDIR_SUPPORT
FIRST_UNIQUE = 2
NEVER_S = 5.0

ATTR = struct.Struct("=QQQqqqIIIIIIIIII")
ENTRY = struct.Struct("=QQQQII")
DIRENT = struct.Struct("=QQII")
OPEN_OUT = struct.Struct("=QIi")


class Answer(NamedTuple):
    """A reply: a positive errno or 0, the request it belongs to, and what follows."""

    error: int
    unique: int
    body: bytes


class Attr(NamedTuple):
    """struct fuse_attr."""

    ino: int
    size: int
    blocks: int
    atime: int
    mtime: int
    ctime: int
    atimensec: int
    mtimensec: int
    ctimensec: int
    mode: int
    nlink: int
    uid: int
    gid: int
    rdev: int
    blksize: int
    flags: int


class Found(NamedTuple):
    """struct fuse_entry_out."""

    nodeid: int
    generation: int
    entry_valid: int
    attr_valid: int
    attr: Attr


class Line(NamedTuple):
    """A line of a listing; *found* only in READDIRPLUS."""

    name: str
    ino: int
    offset: int
    kind: int
    found: Found | None = None


def request(opcode: int, unique: int, nodeid: int, body: bytes) -> bytes:
    """A request as the kernel writes it."""
    return protocol.IN_HEADER.pack(protocol.IN_SIZE + len(body), opcode, unique, nodeid, 0, 0, 1, 0, 0) + body


def init_body(minor: int, flags: int, *, major: int = 7, max_readahead: int = 1 << 20) -> bytes:
    """struct fuse_init_in of a new kernel."""
    return struct.pack("=IIIII44x", major, minor, max_readahead, flags & 0xFFFFFFFF, flags >> 32)


class FakeKernel:
    """A tree behind a socket pair.  Use it in ``with``."""

    def __init__(
        self,
        tree: Tree,
        *,
        minor: int = protocol.NEWEST_MINOR,
        flags: int = ALL_FLAGS,
        timeout_s: float = 30.0,
        workers: int = 2,
    ) -> None:
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._theirs = theirs
        for end in (self.ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        self.driver = Driver(tree, MountOptions(uid=11, gid=22, timeout_s=timeout_s), ByteCache())
        first = request(Opcode.INIT, 1, 0, init_body(minor, flags))
        _, self.session = negotiate(self.driver, memoryview(first))
        self.requests = Requests(self.driver, self.session, Passthrough(theirs.fileno(), enabled=False))
        self.crew = Crew(theirs.fileno(), self.requests, workers=workers)
        self.crew.send = self._send  # type: ignore[method-assign]
        self.refused: list[int] = []
        """Requests that were answered although nobody waited."""
        self.told: list[bytes] = []
        """Notifications."""
        self._pending: set[int] = set()
        self._guard = threading.Lock()
        self._last = 0

    def _send(self, reply: Reply) -> None:
        pieces = [reply] if isinstance(reply, bytes) else list(reply or ())
        unique = protocol.OUT_HEADER.unpack_from(bytes(pieces[0]))[2]
        if not unique:
            self.told.append(b"".join(pieces))
            return
        with self._guard:
            if unique not in self._pending:
                self.refused.append(unique)
                raise OSError(errno.ENOENT, "nobody waits")
            self._pending.discard(unique)
        os.writev(self._theirs.fileno(), pieces)

    def __enter__(self) -> FakeKernel:
        self.crew.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.ours.shutdown(socket.SHUT_RDWR)
        assert self.crew.gone.wait(NEVER_S), "the workers did not notice the end"
        self.crew.join(0.2)
        self.ours.close()
        self._theirs.close()

    # -- asking --

    def send(self, opcode: int, nodeid: int = 1, body: bytes = b"") -> int:
        """Send a request; its number."""
        self._last += 2
        with self._guard:
            self._pending.add(self._last)
        self.ours.send(request(opcode, self._last, nodeid, body))
        return self._last

    def send_raw(self, data: bytes) -> None:
        """Send anything."""
        self.ours.send(data)

    def expect(self, unique: int) -> None:
        """From now on an answer to *unique* is taken."""
        with self._guard:
            self._pending.add(unique)

    def receive(self, timeout_s: float = NEVER_S) -> Answer | None:
        """The next answer, or None when there is none in that time."""
        readable, _, _ = select.select([self.ours], [], [], timeout_s)
        if not readable:
            return None
        data = self.ours.recv(1 << 21)
        length, error, unique = protocol.OUT_HEADER.unpack_from(data)
        assert length == len(data), "the length in the header is wrong"
        return Answer(-error, unique, data[protocol.OUT_SIZE :])

    def ask(self, opcode: int, nodeid: int = 1, body: bytes = b"") -> Answer:
        """Send a request and return its answer, which must be the next one."""
        unique = self.send(opcode, nodeid, body)
        answer = self.receive()
        assert answer is not None, "there was no answer"
        assert answer.unique == unique
        return answer

    def settle(self) -> None:
        """Return when everything sent before has been dealt with, also what is not answered."""
        assert self.ask(Opcode.STATFS).error == 0

    # -- in the words of the kernel --

    def look_up(self, parent: int, name: str | bytes) -> Found:
        """LOOKUP that must succeed."""
        answer = self.ask(Opcode.LOOKUP, parent, _encoded(name) + b"\0")
        assert answer.error == 0
        return entry_of(answer.body)

    def walk(self, *names: str) -> Found:
        """LOOKUP of one name after the other, from the root."""
        found = None
        for name in names:
            found = self.look_up(found.nodeid if found else 1, name)
        assert found is not None
        return found

    def open(self, nodeid: int, flags: int = os.O_RDONLY) -> tuple[int, int]:
        """OPEN that must succeed: the handle and the flags."""
        answer = self.ask(Opcode.OPEN, nodeid, protocol.OPEN_IN.pack(flags, 0))
        assert answer.error == 0
        handle, flags, _ = OPEN_OUT.unpack(answer.body)
        return handle, flags

    def read(self, nodeid: int, handle: int, offset: int, size: int) -> Answer:
        """READ."""
        return self.ask(Opcode.READ, nodeid, read_body(handle, offset, size))

    def listing(self, nodeid: int, *, size: int = 4096, plus: bool = True, handle: int | None = None) -> list[Line]:
        """All lines of a directory, read as the kernel reads them, without the dots."""
        if handle is None:
            answer = self.ask(Opcode.OPENDIR, nodeid, protocol.OPEN_IN.pack(0, 0))
            handle = 0 if answer.error == errno.ENOSYS else OPEN_OUT.unpack(answer.body)[0]
        opcode = Opcode.READDIRPLUS if plus else Opcode.READDIR
        lines: list[Line] = []
        offset = 0
        while True:
            answer = self.ask(opcode, nodeid, read_body(handle, offset, size))
            assert answer.error == 0
            new = lines_of(answer.body, plus=plus)
            if not new:
                break
            lines += new
            offset = new[-1].offset
        assert [line.name for line in lines[:2]] == [".", ".."]
        return lines[2:]


def read_body(handle: int, offset: int, size: int) -> bytes:
    """struct fuse_read_in."""
    return struct.pack("=QQIIQII", handle, offset, size, 0, 0, 0, 0)


def release_body(handle: int) -> bytes:
    """struct fuse_release_in."""
    return struct.pack("=QIIQ", handle, 0, 0, 0)


def entry_of(body: bytes) -> Found:
    """Take a struct fuse_entry_out apart."""
    assert len(body) == ENTRY.size + ATTR.size
    nodeid, generation, entry_valid, attr_valid, *_ = ENTRY.unpack_from(body)
    return Found(nodeid, generation, entry_valid, attr_valid, Attr(*ATTR.unpack_from(body, ENTRY.size)))


def lines_of(body: bytes, *, plus: bool) -> list[Line]:
    """Take the answer to READDIR or READDIRPLUS apart."""
    lines = []
    at = 0
    while at < len(body):
        found = None
        if plus:
            found = entry_of(body[at : at + 128])
            at += 128
        ino, offset, length, kind = DIRENT.unpack_from(body, at)
        start = at + DIRENT.size
        lines.append(Line(body[start : start + length].decode(), ino, offset, kind, found))
        at = start + length + 7 & ~7
    assert at == len(body), "the last line is cut"
    return lines


def _encoded(name: str | bytes) -> bytes:
    return name.encode() if isinstance(name, str) else name
