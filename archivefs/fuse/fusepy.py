"""The transport over fusepy and libfuse 2: all contact with that library is here.

fusepy asks by path, from as many threads as libfuse starts.  Its methods are overridden one by one, because those it
has refuse names that are not UTF-8 with EINVAL and cannot resume a listing.  ``import fuse`` fails where
libfuse is missing, so it happens only when a mount is made this way.
"""

from __future__ import annotations

import ctypes
import errno
import os
import time
from collections.abc import Callable
from itertools import islice
from typing import Any, TypeVar

from archivefs.errors import MissingLibrary, MountRefused, NotFound
from archivefs.fuse.changes import Changes
from archivefs.fuse.deadlines import Deadlines
from archivefs.fuse.driver import IMMUTABLE_LIFETIME_S, LIVING_LIFETIME_S, Driver, Opened
from archivefs.fuse.fusepy_changes import OFFERED, ChangingOperations, HiddenFiles
from archivefs.fuse.transport import Transport
from archivefs.fuse.unmount import unmount
from archivefs.tree import Directory, Entry, Kind, Node

R = TypeVar("R")

BLOCK = 4096
DIRECTORIES_KEPT = 1000
ONE_TO_ONE = "latin-1"
"""fusepy encodes what it hands to libfuse; this way every byte of a path arrives, UTF-8 or not."""


class FusepyTransport(Transport):
    """Serves a driver through libfuse's path interface."""

    name = "fusepy"

    def __init__(self, driver: Driver, mountpoint: str) -> None:
        super().__init__(driver, mountpoint)
        self.deadlines = Deadlines(driver.options.timeout_s, lambda: driver.busy)

    def serve(self, ready: Callable[[], None]) -> None:
        try:
            import fuse  # noqa: F401
        except OSError as error:
            raise MissingLibrary(f"fusepy cannot be used: {error}", advice="install libfuse2") from None
        operations = _operations_class()(self, ready)
        try:
            operations.run(self.mountpoint, self._arguments())
        except RuntimeError as error:
            raise MountRefused(f"libfuse would not mount (code {error})", archive=self.mountpoint) from None

    def stop(self) -> None:
        self.driver.leaving = True
        self.deadlines.close()
        try:
            unmount(self.mountpoint)
        except MountRefused:
            unmount(self.mountpoint, lazy=True)

    def _arguments(self) -> dict[str, Any]:
        options = self.driver.options
        lifetime = min(IMMUTABLE_LIFETIME_S if self.driver.tree.immutable else LIVING_LIFETIME_S, self.driver.kept_s)
        return {
            "foreground": True,
            # A comma ends an option for libfuse, and a backslash keeps it.
            "fsname": options.fsname.replace("\\", "\\\\").replace(",", "\\,"),
            "subtype": options.subtype,
            "ro": not options.read_write,
            "nosuid": True,
            "nodev": True,
            "noexec": options.no_exec,
            "allow_other": options.allow_other,
            "allow_root": options.allow_root and not options.allow_other,
            "default_permissions": options.default_permissions,
            "use_ino": True,
            # So that a file about to be overwritten is never empty on disk: the new content replaces the old whole.
            "atomic_o_trunc": options.read_write,
            "big_writes": options.read_write,
            "entry_timeout": lifetime,
            "attr_timeout": lifetime,
            "negative_timeout": lifetime if self.driver.tree.immutable else 0,
        }


class _Offered:
    """What is offered to libfuse; it looks at the names only."""

    use_ns = True
    getattr = readlink = open = read = release = True
    opendir = readdir = releasedir = True
    getxattr = listxattr = statfs = init = True

    def __init__(self, *, writing: bool) -> None:
        for name in OFFERED if writing else ():
            setattr(self, name, True)


class Paths(HiddenFiles):
    """From a path to a node, with the directories met last kept at hand.

    Kept answers of a living tree are good for as long as the kernel's own.
    """

    def __init__(self, driver: Driver) -> None:
        super().__init__()
        self._driver = driver
        self._kept: dict[bytes, tuple[Directory, float]] = {}
        self._lifetime_s = IMMUTABLE_LIFETIME_S if driver.tree.immutable else LIVING_LIFETIME_S

    def node(self, path: bytes) -> Node:
        """The node at *path*; raises NotFound, also for what is not UTF-8, since no tree has such a name."""
        if path == b"/":
            return self._driver.root
        hidden = self.hidden(path)
        if hidden is not None:
            return hidden
        folder, _, name = path.rpartition(b"/")
        try:
            return self._driver.lookup(self.directory(folder or b"/"), name.decode())
        except UnicodeDecodeError:
            raise NotFound from None

    def forget(self) -> None:
        """Names have changed."""
        self._kept.clear()

    def directory(self, path: bytes) -> Node:
        """The directory at *path*, or whatever is there."""
        kept = self._kept.get(path)
        if kept is not None and kept[1] > time.monotonic():
            return kept[0]
        node = self._driver.resolve([name.decode() for name in path.split(b"/") if name])
        if isinstance(node, Directory):
            if len(self._kept) >= DIRECTORIES_KEPT:
                self._kept.clear()
            self._kept[path] = (node, time.monotonic() + self._lifetime_s)
        return node


def _operations_class() -> type[Any]:
    """The subclass of fusepy's FUSE; made here because its base can only be imported where libfuse is."""
    import fuse

    class Operations(ChangingOperations, fuse.FUSE):  # type: ignore[misc, unused-ignore]
        """libfuse's callbacks: each finds a node, asks the driver and fills in libfuse's structures."""

        def __init__(self, transport: FusepyTransport, ready: Callable[[], None]) -> None:
            # The base class mounts in its constructor, so that is called from run().
            self._driver = transport.driver
            self._deadlines = transport.deadlines
            self._ready = ready
            self._paths = Paths(transport.driver)
            self._driver.committer.on_changed = self._paths.forget
            self._changes = Changes(transport.driver)

        def run(self, mountpoint: str, arguments: dict[str, Any]) -> None:
            """Mount, serve, and return when unmounted."""
            words = {name: _one_to_one(word) if isinstance(word, str) else word for name, word in arguments.items()}
            offered = _Offered(writing=self._driver.options.read_write)
            super().__init__(offered, _one_to_one(mountpoint), encoding=ONE_TO_ONE, **words)

        def _answer(self, name: str, operation: Callable[[], R], undo: Callable[[R], object] | None = None) -> R:
            return self._driver.answer(name, lambda: self._deadlines.run(operation, undo))

        def init(self, conn: Any) -> None:
            self._ready()

        # -- looking --

        def getattr(self, path: bytes, buf: Any) -> int:
            stat = self._answer("getattr", lambda: self._driver.stat(self._paths.node(path)))
            ctypes.memset(buf, 0, ctypes.sizeof(fuse.c_stat))
            self._fill(buf.contents, stat.inode, stat.mode, stat.size, stat.mtime_ns)
            return 0

        def _fill(self, st: Any, inode: int, mode: int, size: int, mtime_ns: int) -> None:
            options = self._driver.options
            st.st_ino, st.st_mode, st.st_nlink = inode, mode, 1
            st.st_uid, st.st_gid = options.uid, options.gid
            st.st_size, st.st_blocks, st.st_blksize = size, (size + 511) // 512, BLOCK
            times = dict.fromkeys(("st_atime", "st_mtime", "st_ctime"), mtime_ns)
            fuse.set_st_attrs(st, times, use_ns=True)

        def readlink(self, path: bytes, buf: Any, size: int) -> int:
            target = self._answer("readlink", lambda: self._driver.readlink(self._paths.node(path)))
            data = ctypes.create_string_buffer(target[: size - 1])
            ctypes.memmove(buf, data, len(data))
            return 0

        def getxattr(self, path: bytes, name: bytes, value: Any, size: int, *_rest: Any) -> int:
            if not name.startswith(b"user."):
                # One `ls -l` asks for such names twice per entry: no worker, no look-up for those.
                self._driver.counts["getxattr"] += 1
                return -errno.ENODATA
            text = name.decode("utf-8", "replace")
            data = self._answer("getxattr", lambda: self._driver.xattr(self._paths.node(path), text))
            return _hand_over(data, value, size)

        def listxattr(self, path: bytes, value: Any, size: int) -> int:
            names = self._answer("listxattr", lambda: self._driver.xattr_names(self._paths.node(path)))
            return _hand_over(names, value, size)

        def statfs(self, path: bytes, buf: Any) -> int:
            usage = self._answer("statfs", self._driver.usage)
            st = buf.contents
            st.f_bsize = st.f_frsize = BLOCK
            st.f_blocks = -(-(usage.size + usage.free) // BLOCK)
            st.f_bfree = st.f_bavail = usage.free // BLOCK
            st.f_files, st.f_namemax = usage.files, 1020
            return 0

        # -- files --

        def open(self, path: bytes, fip: Any) -> int:
            info = fip.contents
            writing, truncate = info.flags & os.O_ACCMODE != os.O_RDONLY, bool(info.flags & os.O_TRUNC)

            def open_it() -> Opened:
                node = self._paths.node(path)
                if writing or truncate:
                    return self._changes.open(node, truncate=truncate)
                return self._driver.open(node)

            opened = self._answer("open", open_it, lambda late: self._driver.files.release(late.handle))
            # libfuse cannot make the kernel forget a size, so a file that has just changed is read past its pages.
            stale = not opened.settled and not self._driver.options.read_write
            info.fh, info.keep_cache, info.direct_io = opened.handle, opened.keep_cache, opened.direct or stale
            return 0

        def read(self, path: bytes, buf: Any, size: int, offset: int, fip: Any) -> int:
            handle = fip.contents.fh
            try:
                data = self._answer("read", lambda: self._driver.read(handle, offset, size))
            except OSError as error:
                if error.errno == errno.ETIMEDOUT:
                    self._driver.mark_stuck(handle)
                raise
            ctypes.memmove(buf, data, len(data))
            return len(data)

        def release(self, path: bytes, fip: Any) -> int:
            handle = fip.contents.fh
            self._answer("release", lambda: self._driver.files.release(handle))
            return 0

        # -- directories --

        def opendir(self, path: bytes, fip: Any) -> int:
            fip.contents.fh = self._answer(
                "opendir",
                lambda: self._driver.opendir(self._paths.node(path)),
                self._driver.directories.release,
            )
            return 0

        def readdir(self, path: bytes, buf: Any, filler: Any, offset: int, fip: Any) -> int:
            """Offset n is where entry n begins: "." is 0, ".." is 1, the first name is 2."""
            handle = fip.contents.fh
            st = fuse.c_stat()
            for number, name in enumerate((b".", b"..")):
                if offset <= number:
                    st.st_ino, st.st_mode = 1, Kind.DIRECTORY << 12
                    if filler(buf, name, st, number + 1):
                        return 0
            listing = self._answer("readdir", lambda: _Listing(self._driver, handle, max(0, offset - 2)))
            with listing:
                while batch := self._answer("readdir", listing.batch):
                    for inode, following, entry in batch:
                        st.st_ino, st.st_mode = inode, entry.kind << 12
                        if filler(buf, entry.name.encode(), st, following + 2):
                            return 0
            return 0

        def releasedir(self, path: bytes, fip: Any) -> int:
            self._driver.directories.release(fip.contents.fh)
            return 0

    return Operations


class _Listing:
    """Part of a directory for one readdir request, fetched in batches so that the time limit costs little."""

    BATCH = 100

    def __init__(self, driver: Driver, handle: int, offset: int) -> None:
        self._driver = driver
        self._handle = driver.directories.get(handle)
        self._entries = self._handle.entries(offset)

    def __enter__(self) -> None:
        self._handle.lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._handle.lock.release()

    def batch(self) -> list[tuple[int, int, Entry]]:
        """(inode, offset of the next, entry), up to BATCH of them."""
        directory = self._handle.directory
        return [
            (self._driver.entry_inode(directory, entry), following, entry)
            for following, entry in islice(self._entries, self.BATCH)
        ]


def _one_to_one(text: str) -> str:
    return os.fsencode(text).decode(ONE_TO_ONE)


def _hand_over(data: bytes, value: Any, size: int) -> int:
    """Answer getxattr or listxattr: the length when that is all they ask for, ERANGE when it does not fit."""
    if size == 0 or not value:
        return len(data)
    if len(data) > size:
        raise OSError(errno.ERANGE, "attribute")
    ctypes.memmove(value, data, len(data))
    return len(data)
