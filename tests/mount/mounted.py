"""MountedTree: a mounted folder as a Tree, so that the contract suite runs through a real mount point.

It asks with the system calls a program would use and turns errnos back into our errors.  The inode number is
taken apart as the driver puts it together: the ident, and above it the number of the archive.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from archivefs import errors
from archivefs.tree import MAX_IDENT, Attributes, Directory, Entry, File, Kind, Node, Reader, Symlink, Tree, Usage

ERRORS: dict[int, type[errors.ArchiveError]] = {
    errno.ENOENT: errors.NotFound,
    errno.ESTALE: errors.StaleNode,
    errno.ENOTDIR: errors.DirectoryExpected,
    errno.EISDIR: errors.FileExpected,
    errno.ENODATA: errors.AttributeMissing,
    errno.ENAMETOOLONG: errors.NameTooLong,
    errno.EROFS: errors.TreeReadOnly,
    errno.EACCES: errors.EncryptedMember,
    errno.EOPNOTSUPP: errors.UnsupportedMember,
    errno.EIO: errors.DamagedContent,
}
NOT_NAMES = ("", ".", "..")  # the system gives these a meaning of its own, so they never reach the mount


class MountedTree(Tree):
    """What lies under a mount point; *unmount* is called once, by close()."""

    def __init__(self, path: Path | str, unmount: Callable[[], None]) -> None:
        self.path = os.fspath(path)
        self._unmount: Callable[[], None] | None = unmount
        self._trees: dict[int, Tree] = {0: self}

    def root(self) -> Directory:
        node = self.at(self.path)
        assert isinstance(node, Directory)
        return node

    def at(self, path: str) -> Node:
        """The node at a path of the system."""
        status = ask(os.lstat, path)
        return NODES[stat.S_IFMT(status.st_mode) >> 12](
            self.numbered(status.st_ino >> 48), path, status.st_ino & MAX_IDENT
        )

    def numbered(self, number: int) -> Tree:
        """What stands for the archive with that number; the one mounted at the root is this tree."""
        return self._trees.setdefault(number, InnerTree(self))

    def usage(self) -> Usage:
        status = ask(os.statvfs, self.path)
        return Usage(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize, status.f_files)

    def close(self) -> None:
        unmount, self._unmount = self._unmount, None
        if unmount:
            unmount()


class InnerTree(Tree):
    """One of several archives under one mount point: only there to be told from the others."""

    def __init__(self, mounted: MountedTree) -> None:
        self.mounted = mounted

    def root(self) -> Directory:
        raise NotImplementedError

    def at(self, path: str) -> Node:
        """The node at a path of the system."""
        return self.mounted.at(path)

    def close(self) -> None:
        """The mount is closed as a whole."""


def ask(call: Callable, *args: object, **more: object):
    """The result of a system call; its OSError as one of our errors."""
    try:
        return call(*args, **more)
    except OSError as error:
        if error.errno not in ERRORS:
            raise
        raise ERRORS[error.errno](error.strerror) from error


class _Mounted:
    def __init__(self, tree: MountedTree, path: str, ident: int) -> None:
        self.tree = tree
        self.path = path
        self.ident = ident

    def attributes(self) -> Attributes:
        status = ask(os.lstat, self.path)
        return Attributes(status.st_size, status.st_mtime_ns)

    def xattrs(self) -> Mapping[str, bytes]:
        names = ask(os.listxattr, self.path, follow_symlinks=False)
        return {name: ask(os.getxattr, self.path, name, follow_symlinks=False) for name in names}


class MountedDirectory(_Mounted, Directory):
    """A folder under the mount point."""

    def child(self, name: str) -> Node:
        if name in NOT_NAMES or "/" in name or "\0" in name:
            raise errors.NotFound(member=name)
        return self.tree.at(f"{self.path}/{name}")

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        with ask(os.scandir, self.path) as listing:
            lines = [(entry.name, entry.inode(), entry_kind(entry)) for entry in listing]
        names = [name for name, _, _ in lines]
        start = 0 if after is None else names.index(after) + 1
        for name, inode, kind in lines[start:]:
            yield Entry(name, kind, 0 if inode == 0xFFFFFFFF else inode & MAX_IDENT)


def entry_kind(entry: os.DirEntry[str]) -> Kind:
    """The kind as the listing itself gives it (d_type)."""
    if entry.is_symlink():
        return Kind.SYMLINK
    return Kind.DIRECTORY if entry.is_dir(follow_symlinks=False) else Kind.FILE


class MountedFile(_Mounted, File):
    """A file under the mount point."""

    def open(self) -> Reader:
        return MountedReader(ask(os.open, self.path, os.O_RDONLY | os.O_CLOEXEC))


class MountedReader(Reader):
    """An open file under the mount point."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read_at(self, offset: int, size: int) -> bytes:
        return ask(os.pread, self._fd, size, offset)

    def attributes(self) -> Attributes:
        status = ask(os.fstat, self._fd)
        return Attributes(status.st_size, status.st_mtime_ns)

    def close(self) -> None:
        os.close(self._fd)


class MountedSymlink(_Mounted, Symlink):
    """A link under the mount point."""

    def target(self) -> str:
        return ask(os.readlink, self.path)


NODES = {Kind.DIRECTORY: MountedDirectory, Kind.FILE: MountedFile, Kind.SYMLINK: MountedSymlink}
