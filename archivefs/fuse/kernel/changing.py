"""What to answer to requests that change something, on a read-write mount.

The same shape as ``requests.py``, which has those that only look: a function a kind of request, which returns the
reply or raises.  COPY_FILE_RANGE and TMPFILE are answered ENOSYS: the kernel then copies by reading and writing.

Threading: called from all workers at once.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Mapping
from struct import Struct
from typing import TYPE_CHECKING

from archivefs.errors import AlreadyExists, AttributeMissing, NameNotAllowed, NotPermitted, NotSupported
from archivefs.fuse.changes import Changes
from archivefs.fuse.kernel.calls import Call, MalformedRequest, Reply
from archivefs.fuse.kernel.protocol import IN_SIZE, OUT_HEADER, OUT_SIZE, Opcode, error_reply
from archivefs.tree import Kind, Node

if TYPE_CHECKING:
    from archivefs.fuse.kernel.requests import Requests

SETATTR_IN = Struct("=I4xQQ8xQQQIIIIIIII")
"""valid, fh, size, atime, mtime, ctime, their nanoseconds, mode, unused, uid, gid, unused."""
MKNOD_IN = Struct("=IIII")
MKDIR_IN = Struct("=II")
RENAME_IN = Struct("=Q")
RENAME2_IN = Struct("=QI4x")
LINK_IN = Struct("=Q")
WRITE_IN = Struct("=QQII16x")
"""fh, offset, size, flags."""
WRITE_REPLY = Struct("=IiQ II")
FLUSH_IN = Struct("=Q16x")
FSYNC_IN = Struct("=QI4x")
SETXATTR_IN = Struct("=II")
CREATE_IN = Struct("=IIII")
"""flags, mode, umask, open flags."""
OPEN_OUT = Struct("=QIi")
FALLOCATE_IN = Struct("=QQQI4x")
LSEEK_IN = Struct("=QQI4x")
LSEEK_REPLY = Struct("=IiQ Q")

FATTR_MODE, FATTR_UID, FATTR_GID, FATTR_SIZE, FATTR_MTIME = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 5
FATTR_FH, FATTR_MTIME_NOW = 1 << 6, 1 << 8
RENAME_NOREPLACE = 1
FALLOC_KEEP_SIZE = 1

Answers = Mapping[Opcode, tuple[Callable[[Call], Reply], int]]


class ChangingRequests:
    """Answers requests that change something out of a driver."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._driver = requests.driver
        self._inodes = requests.inodes
        self.changes = Changes(requests.driver)

    def table(self) -> Answers:
        """Every kind answered here, with the least it must bring."""
        return {
            Opcode.SETATTR: (self.setattr, SETATTR_IN.size),
            Opcode.SYMLINK: (self.symlink, 4),
            Opcode.MKNOD: (self.mknod, MKNOD_IN.size + 2),
            Opcode.MKDIR: (self.mkdir, MKDIR_IN.size + 2),
            Opcode.UNLINK: (self.unlink, 2),
            Opcode.RMDIR: (self.rmdir, 2),
            Opcode.RENAME: (self.rename, RENAME_IN.size + 4),
            Opcode.RENAME2: (self.rename2, RENAME2_IN.size + 4),
            Opcode.LINK: (self.link, LINK_IN.size + 2),
            Opcode.WRITE: (self.write, WRITE_IN.size),
            Opcode.FLUSH: (self.flush, FLUSH_IN.size),
            Opcode.FSYNC: (self.fsync, FSYNC_IN.size),
            Opcode.FSYNCDIR: (self.fsyncdir, FSYNC_IN.size),
            Opcode.SETXATTR: (self.setxattr, SETXATTR_IN.size + 2),
            Opcode.REMOVEXATTR: (self.removexattr, 2),
            Opcode.CREATE: (self.create, CREATE_IN.size + 2),
            Opcode.FALLOCATE: (self.fallocate, FALLOCATE_IN.size),
            Opcode.LSEEK: (self.lseek, LSEEK_IN.size),
        }

    # -- files --

    def open(self, call: Call, flags: int) -> int:
        """OPEN for writing; gives the handle."""
        opened = self.changes.open(self._inodes.node(call.nodeid), truncate=bool(flags & os.O_TRUNC))
        call.handle = opened.handle
        return opened.handle

    def create(self, call: Call) -> Reply:
        """CREATE: a new file, opened."""
        flags, mode, _, _ = CREATE_IN.unpack_from(call.buffer, IN_SIZE)
        parent, name = self._inodes.node(call.nodeid), _name(call, IN_SIZE + CREATE_IN.size)
        exclusive, truncate = bool(flags & os.O_EXCL), bool(flags & os.O_TRUNC)
        node, opened = self.changes.create(parent, name, exclusive=exclusive, truncate=truncate)
        call.handle = opened.handle
        self.changes.set_mode(node, mode)
        entry = self._entry(call, parent, node, name)
        body = entry[OUT_SIZE:] + OPEN_OUT.pack(opened.handle, 0, 0)
        return OUT_HEADER.pack(OUT_SIZE + len(body), 0, call.unique) + body

    def write(self, call: Call) -> Reply:
        """WRITE."""
        handle, offset, size, _ = WRITE_IN.unpack_from(call.buffer, IN_SIZE)
        start = IN_SIZE + WRITE_IN.size
        if start + size > call.length:
            raise MalformedRequest("fewer bytes than announced")
        written = self.changes.write(handle, offset, bytes(call.buffer[start : start + size]))
        return WRITE_REPLY.pack(WRITE_REPLY.size, 0, call.unique, written, 0)

    def flush(self, call: Call) -> Reply:
        """FLUSH: a descriptor was closed."""
        self.changes.flush(FLUSH_IN.unpack_from(call.buffer, IN_SIZE)[0])
        return error_reply(call.unique, 0)

    def fsync(self, call: Call) -> Reply:
        """FSYNC."""
        self.changes.flush(FSYNC_IN.unpack_from(call.buffer, IN_SIZE)[0])
        return error_reply(call.unique, 0)

    def fallocate(self, call: Call) -> Reply:
        """FALLOCATE: growing, nothing else."""
        handle, offset, length, mode = FALLOCATE_IN.unpack_from(call.buffer, IN_SIZE)
        if mode & ~FALLOC_KEEP_SIZE:
            raise NotSupported
        self.changes.allocate(handle, offset, length, keep_size=bool(mode & FALLOC_KEEP_SIZE))
        return error_reply(call.unique, 0)

    def lseek(self, call: Call) -> Reply:
        """LSEEK for SEEK_DATA and SEEK_HOLE: all is data, and the hole is at the end."""
        handle, offset, whence = LSEEK_IN.unpack_from(call.buffer, IN_SIZE)
        size = self._driver.files.get(handle).reader.attributes().size
        if offset >= size:
            return error_reply(call.unique, errno.ENXIO)
        found = offset if whence == os.SEEK_DATA else size
        return LSEEK_REPLY.pack(LSEEK_REPLY.size, 0, call.unique, found)

    # -- names --

    def mknod(self, call: Call) -> Reply:
        """MKNOD: a file without opening it."""
        mode, *_ = MKNOD_IN.unpack_from(call.buffer, IN_SIZE)
        parent, name = self._inodes.node(call.nodeid), _name(call, IN_SIZE + MKNOD_IN.size)
        node = self.changes.make_node(parent, name, mode)
        self.changes.set_mode(node, mode)
        return self._entry(call, parent, node, name)

    def mkdir(self, call: Call) -> Reply:
        """MKDIR."""
        mode, _ = MKDIR_IN.unpack_from(call.buffer, IN_SIZE)
        parent, name = self._inodes.node(call.nodeid), _name(call, IN_SIZE + MKDIR_IN.size)
        node = self.changes.make_directory(parent, name)
        self.changes.set_mode(node, mode)
        return self._entry(call, parent, node, name)

    def symlink(self, call: Call) -> Reply:
        """SYMLINK."""
        name = _name(call, IN_SIZE)
        target = _name(call, IN_SIZE + len(name.encode()) + 1)
        parent = self._inodes.node(call.nodeid)
        return self._entry(call, parent, self.changes.make_symlink(parent, name, target), name)

    def link(self, call: Call) -> Reply:
        """LINK: no format has hard links."""
        raise NotPermitted("the format has no hard links")

    def unlink(self, call: Call) -> Reply:
        """UNLINK."""
        self.changes.remove(self._inodes.node(call.nodeid), _name(call, IN_SIZE), kind=Kind.FILE)
        return error_reply(call.unique, 0)

    def rmdir(self, call: Call) -> Reply:
        """RMDIR."""
        self.changes.remove(self._inodes.node(call.nodeid), _name(call, IN_SIZE), kind=Kind.DIRECTORY)
        return error_reply(call.unique, 0)

    def rename(self, call: Call) -> Reply:
        """RENAME."""
        (to,) = RENAME_IN.unpack_from(call.buffer, IN_SIZE)
        return self._rename(call, to, IN_SIZE + RENAME_IN.size, replace=True)

    def rename2(self, call: Call) -> Reply:
        """RENAME2: with flags, of which not replacing is understood; exchanging is not."""
        to, flags = RENAME2_IN.unpack_from(call.buffer, IN_SIZE)
        if flags & ~RENAME_NOREPLACE:
            # What any file system says that lacks one: callers then do without.
            return error_reply(call.unique, errno.EINVAL)
        return self._rename(call, to, IN_SIZE + RENAME2_IN.size, replace=not flags)

    def _rename(self, call: Call, to: int, start: int, *, replace: bool) -> Reply:
        name = _name(call, start)
        to_name = _name(call, start + len(name.encode()) + 1)
        parent, target = self._inodes.node(call.nodeid), self._inodes.node(to)
        self.changes.rename(parent, name, target, to_name, replace=replace)
        return error_reply(call.unique, 0)

    def _entry(self, call: Call, parent: Node, node: Node, name: str) -> bytes:
        nodeid = self._inodes.hand_out(node, call.nodeid, name)
        call.given.append(nodeid)
        return self._requests.replies.entry(call.unique, parent, nodeid, node)

    # -- attributes --

    def setattr(self, call: Call) -> Reply:
        """SETATTR: chmod, chown, truncate and utimens in one."""
        # fmt: off
        valid, handle, size, _, mtime, _, _, mtime_rest, _, mode, _, uid, gid, _ = \
            SETATTR_IN.unpack_from(call.buffer, IN_SIZE)
        # fmt: on
        node = self._driver.files.get(handle).node if valid & FATTR_FH else self._inodes.node(call.nodeid)
        self.changes.set_owner(uid if valid & FATTR_UID else None, gid if valid & FATTR_GID else None)
        if valid & FATTR_MODE:
            self.changes.set_mode(node, mode)
        if valid & FATTR_SIZE:
            self.changes.truncate(node, size)
        if valid & FATTR_MTIME:
            now = valid & FATTR_MTIME_NOW
            self.changes.set_times(node, time.time_ns() if now else _signed(mtime) * 10**9 + mtime_rest)
        return self._requests.replies.attributes(call.unique, node, node.attributes())

    def setxattr(self, call: Call) -> Reply:
        """SETXATTR."""
        size, flags = SETXATTR_IN.unpack_from(call.buffer, IN_SIZE)
        raw = call.name(IN_SIZE + SETXATTR_IN.size)
        start = IN_SIZE + SETXATTR_IN.size + len(raw) + 1
        if start + size > call.length:
            raise MalformedRequest("fewer bytes than announced")
        node, name = self._inodes.node(call.nodeid), raw.decode("utf-8", "replace")
        there = flags and name in node.xattrs()
        if flags & os.XATTR_CREATE and there:
            raise AlreadyExists(member=name)
        if flags & os.XATTR_REPLACE and not there:
            raise AttributeMissing(member=name)
        self.changes.set_xattr(node, name, bytes(call.buffer[start : start + size]))
        return error_reply(call.unique, 0)

    def removexattr(self, call: Call) -> Reply:
        """REMOVEXATTR."""
        name = call.name(IN_SIZE).decode("utf-8", "replace")
        self.changes.set_xattr(self._inodes.node(call.nodeid), name, None)
        return error_reply(call.unique, 0)

    def fsyncdir(self, call: Call) -> Reply:
        """FSYNCDIR."""
        self.changes.sync_directory(self._inodes.node(call.nodeid))
        return error_reply(call.unique, 0)


def _name(call: Call, start: int) -> str:
    """A new or old name; what is not UTF-8 is refused on its way in."""
    raw = call.name(start)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise NameNotAllowed(member=raw) from None


def _signed(number: int) -> int:
    """Seconds before 1970 travel as large numbers."""
    return number - (1 << 64) if number >> 63 else number
