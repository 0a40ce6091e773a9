"""The writing half of the transport over fusepy: libfuse's callbacks that change something.

libfuse hides a file that is removed while it is open by renaming it to ``.fuse_hidden…``.  That rename is taken as the
removal, and the hidden path leads to the open file from then on.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from archivefs.errors import AlreadyExists, AttributeMissing, NameNotAllowed, NotFound, NotPermitted
from archivefs.fuse.changes import Changes
from archivefs.tree import Directory, Kind, Node

if TYPE_CHECKING:
    from archivefs.fuse.driver import Driver
    from archivefs.fuse.fusepy import Paths

R = TypeVar("R")

HIDDEN = b".fuse_hidden"
UTIME_NOW, UTIME_OMIT = (1 << 30) - 1, (1 << 30) - 2
OFFERED = (
    "create",
    "mknod",
    "mkdir",
    "unlink",
    "rmdir",
    "symlink",
    "rename",
    "link",
    "chmod",
    "chown",
    "truncate",
    "utimens",
    "write",
    "flush",
    "fsync",
    "fsyncdir",
    "setxattr",
    "removexattr",
)
"""The names by which libfuse is told of them, on a read-write mount."""


class ChangingOperations:
    """Callbacks of libfuse; a base of the class that has the reading ones."""

    _driver: Driver
    _paths: Paths
    _changes: Changes
    _answer: Callable[..., Any]
    _fill: Callable[..., None]
    getattr: Callable[[bytes, Any], int]
    """These are in the reading half."""

    # -- files --

    def create(self, path: bytes, mode: int, fip: Any) -> int:
        info = fip.contents

        def make() -> Any:
            folder, name = self._split(path)
            exclusive, truncate = bool(info.flags & os.O_EXCL), bool(info.flags & os.O_TRUNC)
            node, opened = self._changes.create(folder, name, exclusive=exclusive, truncate=truncate)
            self._changes.set_mode(node, mode)
            return opened

        opened = self._answer("create", make, lambda late: self._driver.files.release(late.handle))
        info.fh, info.keep_cache, info.direct_io = opened.handle, False, False
        return 0

    def write(self, path: bytes, buf: Any, size: int, offset: int, fip: Any) -> int:
        handle, data = fip.contents.fh, ctypes.string_at(buf, size)
        written: int = self._answer("write", lambda: self._changes.write(handle, offset, data))
        return written

    def flush(self, path: bytes, fip: Any) -> int:
        handle = fip.contents.fh
        self._answer("flush", lambda: self._changes.flush(handle))
        return 0

    def fsync(self, path: bytes, datasync: int, fip: Any) -> int:
        handle = fip.contents.fh
        self._answer("fsync", lambda: self._changes.flush(handle))
        return 0

    def truncate(self, path: bytes, size: int) -> int:
        self._answer("truncate", lambda: self._changes.truncate(self._paths.node(path), size))
        return 0

    def ftruncate(self, path: bytes, size: int, fip: Any) -> int:
        handle = fip.contents.fh
        self._answer("truncate", lambda: self._changes.truncate(self._driver.files.get(handle).node, size))
        return 0

    def fgetattr(self, path: bytes, buf: Any, fip: Any) -> int:
        handle = fip.contents.fh if fip else 0
        if not handle:
            return self.getattr(path, buf)
        stat = self._answer("getattr", lambda: self._driver.stat(self._driver.files.get(handle).node))
        self._fill(buf.contents, stat.inode, stat.mode, stat.size, stat.mtime_ns)
        return 0

    # -- names --

    def mknod(self, path: bytes, mode: int, dev: int) -> int:
        self._answer("mknod", lambda: self._changes.make_node(*self._split(path), mode))
        return 0

    def mkdir(self, path: bytes, mode: int) -> int:
        def make() -> None:
            self._changes.set_mode(self._changes.make_directory(*self._split(path)), mode)

        self._answer("mkdir", make)
        return 0

    def unlink(self, path: bytes) -> int:
        if self._paths.forget_hidden(path) is None:
            self._answer("unlink", lambda: self._changes.remove(*self._split(path), kind=Kind.FILE))
        return 0

    def rmdir(self, path: bytes) -> int:
        self._answer("rmdir", lambda: self._changes.remove(*self._split(path), kind=Kind.DIRECTORY))
        self._paths.forget()
        return 0

    def symlink(self, target: bytes, path: bytes) -> int:
        def make() -> None:
            self._changes.make_symlink(*self._split(path), os.fsdecode(target))

        self._answer("symlink", make)
        return 0

    def link(self, source: bytes, target: bytes) -> int:
        self._answer("link", _refuse_link)
        return 0

    def rename(self, old: bytes, new: bytes) -> int:
        def move() -> None:
            folder, name = self._split(old)
            if new.rpartition(b"/")[2].startswith(HIDDEN):
                self._paths.hide(new, self._driver.lookup(folder, name))
                self._changes.remove(folder, name, kind=Kind.FILE)
            else:
                self._changes.rename(folder, name, *self._split(new), replace=True)

        self._answer("rename", move)
        self._paths.forget()
        return 0

    def _split(self, path: bytes) -> tuple[Node, str]:
        folder, _, name = path.rpartition(b"/")
        try:
            return self._paths.directory(folder or b"/"), name.decode()
        except UnicodeDecodeError:
            raise NameNotAllowed(member=path) from None

    # -- attributes --

    def chmod(self, path: bytes, mode: int) -> int:
        self._answer("chmod", lambda: self._changes.set_mode(self._paths.node(path), mode))
        return 0

    def chown(self, path: bytes, uid: int, gid: int) -> int:
        owner, group = (None if number == 0xFFFFFFFF or number == -1 else number for number in (uid, gid))
        self._answer("chown", lambda: self._changes.set_owner(owner, group))
        return 0

    def utimens(self, path: bytes, buf: Any) -> int:
        modified = buf.contents.modtime
        if modified.tv_nsec == UTIME_OMIT:
            return 0
        now = modified.tv_nsec == UTIME_NOW
        mtime_ns = time.time_ns() if now else modified.tv_sec * 10**9 + modified.tv_nsec
        self._answer("utimens", lambda: self._changes.set_times(self._paths.node(path), mtime_ns))
        return 0

    def setxattr(self, path: bytes, name: bytes, value: Any, size: int, flags: int, *_rest: Any) -> int:
        data, text = ctypes.string_at(value, size), name.decode("utf-8", "replace")

        def set_it() -> None:
            node = self._paths.node(path)
            there = text in node.xattrs()
            if flags & os.XATTR_CREATE and there:
                raise AlreadyExists(member=text)
            if flags & os.XATTR_REPLACE and not there:
                raise AttributeMissing(member=text)
            self._changes.set_xattr(node, text, data)

        self._answer("setxattr", set_it)
        return 0

    def removexattr(self, path: bytes, name: bytes) -> int:
        text = name.decode("utf-8", "replace")
        self._answer("removexattr", lambda: self._changes.set_xattr(self._paths.node(path), text, None))
        return 0

    def fsyncdir(self, path: bytes, datasync: int, fip: Any) -> int:
        self._answer("fsyncdir", lambda: self._changes.sync_directory(self._paths.node(path)))
        return 0


class HiddenFiles:
    """Files that were removed while open, by the path libfuse has hidden them under."""

    def __init__(self) -> None:
        self._nodes: dict[bytes, Node] = {}

    def hide(self, path: bytes, node: Node) -> None:
        """*path* means *node* from now on."""
        if isinstance(node, Directory):
            raise NotFound
        self._nodes[path] = node

    def forget_hidden(self, path: bytes) -> Node | None:
        """Nobody has it open any more."""
        return self._nodes.pop(path, None)

    def hidden(self, path: bytes) -> Node | None:
        """The file behind a hidden path, if it is one."""
        return self._nodes.get(path) if HIDDEN in path else None


def _refuse_link() -> None:
    raise NotPermitted("the format has no hard links")
