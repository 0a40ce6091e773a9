"""The writing half of the driver: what a read-write mount can do besides.

A front-end asks for a node first, as for reading; here the node is changed.  One writer per inode is shared by all
handles, because the kernel's page cache is shared too: with a writer a handle, appending programs and databases
would overwrite each other.

``flush`` is not the end of a file: ``(cat a; cat b) > x`` flushes three times.  It makes bytes durable and
is where errors are told; the last ``release`` finishes the file.

Threading: every method may be called from any thread.  Opening for writing is one at a time.
"""

from __future__ import annotations

import stat

from archivefs.errors import (
    DirectoryExpected,
    FileExpected,
    NameNotAllowed,
    NotPermitted,
    NotSupported,
    TreeReadOnly,
)
from archivefs.fuse.driver import Driver, Opened
from archivefs.fuse.handles import OpenFile
from archivefs.tree import Changeable, Directory, Kind, Node, Symlink, WritableDirectory, WritableFile


class Changes:
    """Changes to the tree of a driver, and what is remembered of them until unmount."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    # -- files --

    def create(self, directory: Node, name: str, *, exclusive: bool, truncate: bool) -> tuple[Node, Opened]:
        """Make a file, or take the one that is there, and open it for writing."""
        parent = _writable(directory)
        _check_name(name)
        file = parent.create(name, exclusive=exclusive)
        return file, self.open(file, truncate=truncate)

    def open(self, node: Node, *, truncate: bool) -> Opened:
        """Open a file for writing; those who have it open get the same bytes."""
        if isinstance(node, Directory):
            raise FileExpected
        if not isinstance(node, WritableFile):
            raise TreeReadOnly
        driver = self._driver
        inode = driver.inode(node)
        files = driver.files
        with files.writing:
            handle = files.share_writer(inode)
            if handle is None:
                handle = files.open_written(inode, node, node.open_writer(truncate=truncate))
                truncate = False
        writer = files.get(handle).writer
        if truncate and writer is not None:
            writer.truncate(0)
        return Opened(handle, keep_cache=False, direct=False)

    def write(self, handle: int, offset: int, data: bytes) -> int:
        """Write to an open file."""
        file = self._driver.files.get(handle)
        if file.writer is None:
            raise TreeReadOnly
        file.writer.write_at(offset, data)
        return len(data)

    def flush(self, handle: int) -> None:
        """A descriptor was closed: what was written is durable when this returns, or the caller is told why not."""
        file = self._driver.files.get(handle)
        if file.writer is not None:
            file.writer.sync()

    def release(self, handle: int) -> OpenFile | None:
        """Give a handle back; with the last one the file is finished."""
        return self._driver.files.release(handle)

    def truncate(self, node: Node, size: int) -> None:
        """Cut a file off or grow it; it is opened for that if it is not open."""
        opened = self.open(node, truncate=size == 0)
        try:
            file = self._driver.files.get(opened.handle)
            if file.writer is not None:
                file.writer.truncate(size)
                if file.count == 1:
                    # Nobody else has it open, so no close will come that would tell of a failure.
                    file.writer.sync()
        finally:
            self.release(opened.handle)

    def allocate(self, handle: int, offset: int, length: int, *, keep_size: bool) -> None:
        """fallocate: grow the file; there is nothing to reserve."""
        file = self._driver.files.get(handle)
        if file.writer is None:
            raise TreeReadOnly
        if not keep_size and offset + length > file.writer.attributes().size:
            file.writer.truncate(offset + length)

    # -- names --

    def make_directory(self, directory: Node, name: str) -> Node:
        """mkdir."""
        _check_name(name)
        return _writable(directory).make_directory(name)

    def make_symlink(self, directory: Node, name: str, target: str) -> Symlink:
        """symlink."""
        _check_name(name)
        return _writable(directory).make_symlink(name, target)

    def make_node(self, directory: Node, name: str, mode: int) -> Node:
        """mknod: a regular file and nothing else."""
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise NotPermitted("the format has no devices, pipes or sockets", member=name)
        node, opened = self.create(directory, name, exclusive=True, truncate=False)
        try:
            self.flush(opened.handle)
        finally:
            self.release(opened.handle)
        return node

    def remove(self, directory: Node, name: str, *, kind: Kind) -> None:
        """unlink (FILE) and rmdir (DIRECTORY)."""
        _writable(directory).remove(name, kind=kind)

    def rename(self, directory: Node, name: str, to: Node, to_name: str, *, replace: bool) -> None:
        """rename; *replace* is False for RENAME_NOREPLACE."""
        _check_name(to_name)
        if not isinstance(to, Directory):
            raise DirectoryExpected(member=to_name)
        _writable(to)
        _writable(directory).rename(name, to, to_name, replace=replace)

    # -- attributes --

    def set_mode(self, node: Node, mode: int) -> None:
        """chmod: kept until unmount; set-user-id and the like are never shown."""
        _changeable(node)
        self._driver.set_mode(node, mode & 0o777)

    def set_times(self, node: Node, mtime_ns: int) -> None:
        """utimens: the format keeps it if it can, and the mount until its end."""
        file = self._driver.files.by_inode(self._driver.inode(node))
        if file is not None and file.writer is not None:
            file.writer.set_times(mtime_ns=mtime_ns)
        else:
            _changeable(node).set_times(mtime_ns=mtime_ns)

    def set_owner(self, uid: int | None, gid: int | None) -> None:
        """chown: to whom it belongs already, or not at all."""
        options = self._driver.options
        if uid not in (None, options.uid) or gid not in (None, options.gid):
            raise NotPermitted("the owner of an archive's files cannot be changed")

    def set_xattr(self, node: Node, name: str, value: bytes | None) -> None:
        """Set an attribute, or remove it where *value* is None."""
        if not name.startswith("user."):
            raise NotSupported
        _changeable(node).set_xattr(name, value)

    def sync_directory(self, node: Node) -> None:
        """fsync of a directory: every change of names so far is durable when this returns."""
        node.tree.sync()


def _writable(node: Node) -> WritableDirectory:
    if not isinstance(node, Directory):
        raise DirectoryExpected
    if not isinstance(node, WritableDirectory):
        raise TreeReadOnly
    return node


def _changeable(node: Node) -> Changeable:
    if not isinstance(node, Changeable):
        raise TreeReadOnly
    return node


def _check_name(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise NameNotAllowed(member=name.encode("utf-8", "surrogateescape")) from None
