"""What to answer: one function per kind of request.

Each takes the :class:`Call` it answers and returns the reply, or raises; ``workers.py`` sends every one of them
through the driver's table of errors.  Changes are in ``changing.py``, and EROFS on a read-only mount; what is not
known is ENOSYS, which the kernel remembers and then does without.

Threading: called from all workers at once.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from typing import NamedTuple

from archivefs.errors import DirectoryExpected, FileExpected, NotFound, OperationTimedOut, StaleNode, TreeReadOnly
from archivefs.fuse.driver import Driver
from archivefs.fuse.handles import DirectoryHandle, OpenFile
from archivefs.fuse.kernel import protocol
from archivefs.fuse.kernel.calls import Buffer, Call, MalformedRequest, Reply
from archivefs.fuse.kernel.changing import ChangingRequests
from archivefs.fuse.kernel.inodes import FIRST_SNAPSHOT, Inodes
from archivefs.fuse.kernel.negotiation import Session
from archivefs.fuse.kernel.passthrough import Passthrough
from archivefs.fuse.kernel.protocol import IN_SIZE, OUT_HEADER, OUT_SIZE, Opcode, data_reply, error_reply
from archivefs.fuse.kernel.replies import BLOCK, Replies
from archivefs.fuse.unopened import Listings, Readers
from archivefs.tree import Attributes, Directory, Extent, File, Node

NAME_MAX = 1020
SMALLEST_EXTENT = 64 * 1024
"""Below that a copy costs less than asking."""

Lines = Callable[[DirectoryHandle, int, int, int, "list[int]"], "tuple[list[bytes], int]"]


class Handler(NamedTuple):
    """How a kind of request is answered."""

    answer: Callable[[Call], Reply]
    smallest: int
    """Shorter ones are refused without a look."""
    name: str
    """What the counters and the log call it."""


class Requests:
    """Answers requests out of a driver."""

    def __init__(self, driver: Driver, session: Session, passthrough: Passthrough) -> None:
        self.driver = driver
        self.session = session
        self.inodes = Inodes(driver, snapshots=session.no_open)
        self.replies = Replies(driver, session, self.inodes)
        self.readers = Readers()
        self.listings = Listings()
        self.stuck: set[int] = set()
        """Nodes with a read or an open that hangs: others fail at once, since the kernel asks twice."""
        self.interrupted: dict[int, float] = {}
        """Requests whose caller has got a signal, and when."""
        self.forget_attributes: Callable[[int], None] = _ignore
        """Makes the kernel forget the attributes of a node; set by who can speak to it."""
        self._passthrough = passthrough
        self._changing = ChangingRequests(self) if driver.options.read_write else None
        self._handlers = self._table()
        self._unknown = Handler(self._refuse_unknown, IN_SIZE, "unknown")

    def handler(self, opcode: int) -> Handler:
        """How to answer *opcode*."""
        return self._handlers.get(opcode, self._unknown)

    def _table(self) -> dict[int, Handler]:
        answers: dict[Opcode, tuple[Callable[[Call], Reply], int]] = {
            Opcode.LOOKUP: (self.lookup, 2),
            Opcode.FORGET: (self.forget, protocol.FORGET_IN.size),
            Opcode.BATCH_FORGET: (self.batch_forget, protocol.BATCH_FORGET_IN.size),
            Opcode.GETATTR: (self.getattr, protocol.GETATTR_IN.size),
            Opcode.READLINK: (self.readlink, 0),
            Opcode.OPEN: (self.open, protocol.OPEN_IN.size),
            Opcode.READ: (self.read_by_node if self.session.no_open else self.read, protocol.READ_IN_SIZE),
            Opcode.RELEASE: (self.release, protocol.RELEASE_IN_SIZE),
            Opcode.STATFS: (self.statfs, 0),
            Opcode.GETXATTR: (self.getxattr, protocol.GETXATTR_IN.size + 2),
            Opcode.LISTXATTR: (self.listxattr, protocol.GETXATTR_IN.size),
            Opcode.OPENDIR: (self.opendir, protocol.OPEN_IN.size),
            Opcode.READDIR: (self.readdir, protocol.READ_IN_SIZE),
            Opcode.READDIRPLUS: (self.readdirplus, protocol.READ_IN_SIZE),
            Opcode.RELEASEDIR: (self.releasedir, protocol.RELEASE_IN_SIZE),
            Opcode.DESTROY: (self.destroy, 0),
            Opcode.INTERRUPT: (self.interrupt, protocol.INTERRUPT_IN.size),
            Opcode.NOTIFY_REPLY: (_nothing, 0),
            **(
                self._changing.table() if self._changing else dict.fromkeys(protocol.CHANGING, (self._refuse_change, 0))
            ),
        }
        return {op: Handler(answer, IN_SIZE + size, op.name.lower()) for op, (answer, size) in answers.items()}

    def take_back(self, call: Call) -> None:
        """The reply was not taken: what it handed out is nobody's."""
        for nodeid in call.given:
            self.inodes.forget(nodeid, 1)
        if call.handle:
            if call.opcode == Opcode.OPENDIR:
                self.driver.directories.release(call.handle)
            else:
                self._release(call.handle)

    # -- looking --

    def lookup(self, call: Call) -> Reply:
        """LOOKUP: the node of a name; also that there is none, for as long as that stays true."""
        parent = self.inodes.node(call.nodeid)
        try:
            name = call.name().decode()
            node = self.driver.lookup(parent, name)
        except StaleNode:
            raise
        except (NotFound, UnicodeDecodeError):
            # No tree has names that are not UTF-8.
            return self.replies.no_entry(call.unique, parent) or error_reply(call.unique, errno.ENOENT)
        nodeid = self.inodes.hand_out(node, call.nodeid, name)
        call.given.append(nodeid)
        shown = node if nodeid < FIRST_SNAPSHOT else self.inodes.snapshot(nodeid)
        return self.replies.entry(call.unique, parent, nodeid, shown)

    def forget(self, call: Call) -> Reply:
        """FORGET: the kernel gives back one node."""
        self.inodes.forget(call.nodeid, protocol.FORGET_IN.unpack_from(call.buffer, IN_SIZE)[0])
        return None

    def batch_forget(self, call: Call) -> Reply:
        """BATCH_FORGET: the kernel gives back many."""
        start = IN_SIZE + protocol.BATCH_FORGET_IN.size
        count, _ = protocol.BATCH_FORGET_IN.unpack_from(call.buffer, IN_SIZE)
        one = protocol.FORGET_ONE
        if start + count * one.size > call.length:
            raise MalformedRequest("fewer nodes than announced")
        if self.inodes.empty:
            return None
        for nodeid, times in one.iter_unpack(call.buffer[start : start + count * one.size]):
            self.inodes.forget(nodeid, times)
        return None

    def getattr(self, call: Call) -> Reply:
        """GETATTR: what stat shows."""
        node, attributes, lasting = self._attributes(call.nodeid)
        checked = False
        if not attributes.size and self.session.no_open and isinstance(node, File):
            flags, _, _ = protocol.GETATTR_IN.unpack_from(call.buffer, IN_SIZE)
            if flags & protocol.GETATTR_FH:
                # Somebody reads an empty file, which the kernel opened without a word: can it be opened?
                self._refuse_stuck(call.nodeid)
                node.open().close()
                checked = True
        return self.replies.attributes(call.unique, node, attributes, checked=checked, lasting=lasting)

    def _attributes(self, nodeid: int) -> tuple[Node, Attributes, bool]:
        """A node, its attributes (those of the open file where the node itself is gone), and whether they last."""
        try:
            node = self.inodes.node(nodeid)
            return node, *self.driver.attributes(node)
        except NotFound:
            file = self.driver.files.by_inode(nodeid)
            if file is None:
                raise StaleNode from None
            return file.node, file.shown() or file.reader.attributes(), False

    def readlink(self, call: Call) -> Reply:
        """READLINK: where a symbolic link leads."""
        return data_reply(call.unique, self.driver.readlink(self.inodes.node(call.nodeid)))

    def statfs(self, call: Call) -> Reply:
        """STATFS: how much there is."""
        usage = self.driver.usage()
        blocks = -(-(usage.size + usage.free) // BLOCK)
        free = usage.free // BLOCK
        return protocol.STATFS_REPLY.pack(
            protocol.STATFS_REPLY.size, 0, call.unique, blocks, free, free, usage.files, 0, BLOCK, NAME_MAX, BLOCK
        )

    def getxattr(self, call: Call) -> Reply:
        """GETXATTR: one extended attribute."""
        name = call.name(IN_SIZE + protocol.GETXATTR_IN.size)
        if not name.startswith(b"user."):
            # One `ls -l` asks for such names twice per entry: no look-up for those.
            return error_reply(call.unique, errno.ENODATA)
        value = self.driver.xattr(self.inodes.node(call.nodeid), name.decode("utf-8", "replace"))
        return self._attribute_bytes(call, value)

    def listxattr(self, call: Call) -> Reply:
        """LISTXATTR: the names of all extended attributes."""
        return self._attribute_bytes(call, self.driver.xattr_names(self.inodes.node(call.nodeid)))

    def _attribute_bytes(self, call: Call, value: bytes) -> Reply:
        """The length when that is all they ask for, ERANGE when it does not fit."""
        size, _ = protocol.GETXATTR_IN.unpack_from(call.buffer, IN_SIZE)
        if not size:
            reply = protocol.GETXATTR_REPLY
            return reply.pack(reply.size, 0, call.unique, len(value), 0)
        if len(value) > size:
            return error_reply(call.unique, errno.ERANGE)
        return data_reply(call.unique, value)

    # -- files --

    def open(self, call: Call) -> Reply:
        """OPEN: a handle, and what the kernel may keep or do by itself."""
        flags, _ = protocol.OPEN_IN.unpack_from(call.buffer, IN_SIZE)
        if flags & (os.O_ACCMODE | os.O_TRUNC) != os.O_RDONLY:
            return self._open_for_writing(call, flags)
        if self.session.no_open:
            return error_reply(call.unique, errno.ENOSYS)
        self._refuse_stuck(call.nodeid)
        opened = self.driver.open(self.inodes.node(call.nodeid))
        call.handle = opened.handle
        backing = self._passthrough.backing_of(self.driver.files.get(opened.handle)) if not opened.direct else 0
        if backing:
            answer = protocol.FOPEN_PASSTHROUGH
        elif opened.direct:
            answer = protocol.FOPEN_DIRECT_IO
        elif opened.keep_cache:
            answer = protocol.FOPEN_KEEP_CACHE
        else:
            # The size the kernel has may be that of an earlier version; it asks again before it reads.
            answer = 0
            self.forget_attributes(call.nodeid)
        if self._changing is None:
            # Another may open the same file for writing, and its bytes must be saved at close.
            answer |= protocol.FOPEN_NOFLUSH
        return protocol.OPEN_REPLY.pack(protocol.OPEN_REPLY.size, 0, call.unique, opened.handle, answer, backing)

    def _open_for_writing(self, call: Call, flags: int) -> Reply:
        if self._changing is None:
            raise TreeReadOnly
        self._refuse_stuck(call.nodeid)
        handle = self._changing.open(call, flags)
        return protocol.OPEN_REPLY.pack(protocol.OPEN_REPLY.size, 0, call.unique, handle, 0, 0)

    def read(self, call: Call) -> Reply:
        """READ with a handle."""
        handle, offset, size = protocol.READ_IN.unpack_from(call.buffer, IN_SIZE)
        file = self.driver.files.get(handle)
        return self._read(call, file, offset, size)

    def read_by_node(self, call: Call) -> Reply:
        """READ of a file that was opened without a word."""
        _, offset, size = protocol.READ_IN.unpack_from(call.buffer, IN_SIZE)
        self._refuse_stuck(call.nodeid)
        file = self.readers.borrow(call.nodeid, self._file)
        done = False
        try:
            reply = self._read(call, file, offset, size)
            # A short read from the start was the whole file, and the kernel now has it.
            done = not offset and sum(map(len, reply)) - OUT_SIZE < size
            return reply
        finally:
            self.readers.give_back(file, done=done)

    def _read(self, call: Call, file: OpenFile, offset: int, size: int) -> tuple[bytes, Buffer]:
        if file.stuck:
            raise OperationTimedOut(f"a read of inode {file.inode} is still waiting")
        call.file = file
        extent = file.reader.extent() if size >= SMALLEST_EXTENT else None
        data: Buffer | None = _from_extent(call, extent, offset, size) if extent is not None else None
        if data is None:
            data = file.reader.read_at(offset, size)
        return OUT_HEADER.pack(OUT_SIZE + len(data), 0, call.unique), data

    def _file(self, nodeid: int) -> File:
        node = self.inodes.node(nodeid)
        if not isinstance(node, File):
            raise FileExpected
        return node

    def _refuse_stuck(self, nodeid: int) -> None:
        if nodeid in self.stuck:
            raise OperationTimedOut(f"an operation on inode {nodeid} is still waiting")

    def release(self, call: Call) -> Reply:
        """RELEASE: the kernel gives a handle back."""
        self._release(protocol.RELEASE_IN.unpack_from(call.buffer, IN_SIZE)[0])
        return error_reply(call.unique, 0)

    def _release(self, handle: int) -> None:
        closed = self.driver.files.release(handle)
        if closed is not None:
            self._passthrough.close(closed)

    # -- directories --

    def opendir(self, call: Call) -> Reply:
        """OPENDIR: a handle; a listing that cannot change may be kept."""
        if self.session.no_opendir:
            return error_reply(call.unique, errno.ENOSYS)
        node = self.inodes.node(call.nodeid)
        call.handle = self.driver.opendir(node)
        flags = protocol.FOPEN_KEEP_CACHE | protocol.FOPEN_CACHE_DIR if node.tree.immutable else 0
        return protocol.OPEN_REPLY.pack(protocol.OPEN_REPLY.size, 0, call.unique, call.handle, flags, 0)

    def readdir(self, call: Call) -> Reply:
        """READDIR: names, kinds and inodes."""
        return self._list(call, self.replies.names)

    def readdirplus(self, call: Call) -> Reply:
        """READDIRPLUS: names and, where they cost nothing, nodes."""
        return self._list(call, self.replies.names_and_nodes)

    def _list(self, call: Call, lines: Lines) -> Reply:
        handle_number, offset, size = protocol.READ_IN.unpack_from(call.buffer, IN_SIZE)
        if self.session.no_opendir:
            handle = self.listings.take(call.nodeid, offset, self._directory)
        else:
            handle = self.driver.directories.get(handle_number)
        with handle.lock:
            pieces, following = lines(handle, call.nodeid, offset, size, call.given)
        if self.session.no_opendir and pieces:
            self.listings.keep(call.nodeid, following, handle)
        return data_reply(call.unique, b"".join(pieces))

    def _directory(self, nodeid: int) -> Directory:
        node = self.inodes.node(nodeid)
        if not isinstance(node, Directory):
            raise DirectoryExpected
        return node

    def releasedir(self, call: Call) -> Reply:
        """RELEASEDIR: the kernel gives a handle back."""
        self.driver.directories.release(protocol.RELEASE_IN.unpack_from(call.buffer, IN_SIZE)[0])
        return error_reply(call.unique, 0)

    # -- the rest --

    def destroy(self, call: Call) -> Reply:
        """DESTROY: the last request."""
        return error_reply(call.unique, 0)

    def interrupt(self, call: Call) -> Reply:
        """INTERRUPT: the caller of another request has got a signal; the watchdog sees to it."""
        self.interrupted[protocol.INTERRUPT_IN.unpack_from(call.buffer, IN_SIZE)[0]] = time.monotonic()
        return None

    def _refuse_change(self, call: Call) -> Reply:
        raise TreeReadOnly

    def _refuse_unknown(self, call: Call) -> Reply:
        return error_reply(call.unique, errno.ENOSYS)


def _ignore(nodeid: int) -> None:
    """Where nobody can be told."""


def _nothing(call: Call) -> Reply:
    return None


def _from_extent(call: Call, extent: Extent, offset: int, size: int) -> Buffer | None:
    """The bytes from the file itself, through a buffer that is used again; None where it is shorter than it was."""
    size = min(size, extent.length - offset)
    if size <= 0:
        return b""
    data = call.data(size)
    return data if os.preadv(extent.fd, [data], extent.start + offset) == size else None
