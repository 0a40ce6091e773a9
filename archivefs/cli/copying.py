"""Copying nodes out of a tree into a folder, without ever leaving that folder.

Everything below the destination is named relative to an open descriptor of its directory, and no symbolic link
that lies there is followed: neither the archive nor what was there before can lead a write elsewhere.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from archivefs.cli.paths import node_of
from archivefs.errors import AlreadyExists, ArchiveError, CorruptMember, NameNotAllowed, UnsupportedMember
from archivefs.tree import Directory, Entry, File, Node, Parts, Reader, Symlink

CHUNK = 1 << 20

Report = Callable[[Parts, "ArchiveError | OSError"], None]


class Copier:
    """Copies files, directories and links, and goes on past what cannot be copied.

    *report* is told what could not be copied and why; *progress* is called now and then.
    """

    def __init__(self, *, force: bool, report: Report, progress: Callable[[int, int], None]) -> None:
        self._force = force
        self._report = report
        self._progress = progress
        self._takes_xattrs = True
        self.files = 0
        self.size = 0

    def copy(self, node: Node, parts: Parts, *, fd: int, name: str) -> None:
        """Copy *node*, which is at *parts*, into the open directory *fd* as *name*."""
        levels: list[_Level] = []
        try:
            self._copy_one(node, parts, fd=fd, name=name, levels=levels)
            while levels:
                level = levels[-1]
                entry = self._next(level)
                if entry is None:
                    self._leave(levels.pop())
                else:
                    self._copy_entry(level, entry, levels)
        finally:
            for level in levels:
                os.close(level.fd)

    # -- one thing at a time --

    def _copy_entry(self, level: _Level, entry: Entry, levels: list[_Level]) -> None:
        parts = (*level.parts, entry.name)
        try:
            node = node_of(level.directory, entry)
        except ArchiveError as error:
            self._report(parts, error)
            return
        self._copy_one(node, parts, fd=level.fd, name=entry.name, levels=levels)

    def _copy_one(self, node: Node, parts: Parts, *, fd: int, name: str, levels: list[_Level]) -> None:
        try:
            _check_name(name)
            name = _in_this_locale(name)
            if isinstance(node, Directory):
                levels.append(_Level(node, parts, _enter(fd, name)))
            elif isinstance(node, Symlink):
                self._copy_link(node, fd=fd, name=name, depth=len(levels) - 1)
            elif isinstance(node, File):
                self._copy_file(node, fd=fd, name=name)
        except FileExistsError:
            self._report(parts, AlreadyExists("there is something of that name already", advice="see --force"))
        except (ArchiveError, OSError) as error:
            self._report(parts, error)

    def _next(self, level: _Level) -> Entry | None:
        try:
            return next(level.entries, None)
        except ArchiveError as error:
            self._report(level.parts, error)
            return None

    def _leave(self, level: _Level) -> None:
        """Last of all, because each file made in it gives a directory a new time."""
        try:
            self._dress(level.fd, level.directory)
        except (ArchiveError, OSError) as error:
            self._report(level.parts, error)
        finally:
            os.close(level.fd)

    # -- files and links --

    def _copy_file(self, node: File, *, fd: int, name: str) -> None:
        reader = node.open()
        try:
            made = self._name_to_make(name)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            out = os.open(made, flags, 0o666, dir_fd=fd)
            with _published(made, fd=fd, name=name), os.fdopen(out, "wb", buffering=0):
                self._fill(out, reader)
                self._dress(out, node)
        finally:
            reader.close()
        self.files += 1

    def _fill(self, out: int, reader: Reader) -> None:
        offset, size = 0, reader.attributes().size
        while offset < size:
            data = reader.read_at(offset, CHUNK)
            if not data:
                raise CorruptMember(f"it ends after {offset} of {size} bytes")
            offset += len(data)
            self.size += len(data)
            view = memoryview(data)
            while view:
                view = view[os.write(out, view) :]
            self._progress(self.files, self.size)

    def _copy_link(self, node: Symlink, *, fd: int, name: str, depth: int) -> None:
        target = node.target()
        if leads_out(target, depth=depth):
            raise UnsupportedMember(f"the link leads out of what is copied, to {target}")
        made = self._name_to_make(name)
        os.symlink(_in_this_locale(target), made, dir_fd=fd)
        with _published(made, fd=fd, name=name):
            time_ns = node.attributes().mtime_ns
            with suppress(OSError, OverflowError):
                os.utime(made, ns=(time_ns, time_ns), dir_fd=fd, follow_symlinks=False)
        self.files += 1

    def _name_to_make(self, name: str) -> str:
        """With --force another name than its own, so that what is there stays until the new one is whole."""
        return f".archivefs-{secrets.token_hex(8)}" if self._force else name

    def _dress(self, fd: int, node: Node) -> None:
        """Give it the node's attributes and its time, as far as the file system takes them."""
        for name, value in node.xattrs().items() if self._takes_xattrs else ():
            try:
                os.setxattr(fd, name, value)
            except OSError as error:
                # One that is too large is left out; a file system that takes none is not asked again.
                self._takes_xattrs = error.errno != errno.ENOTSUP
        time_ns = node.attributes().mtime_ns
        with suppress(OSError, OverflowError):
            os.utime(fd, ns=(time_ns, time_ns))


class _Level:
    """A directory that is being copied."""

    def __init__(self, directory: Directory, parts: Parts, fd: int) -> None:
        self.directory = directory
        self.parts = parts
        self.fd = fd
        self.entries: Iterator[Entry] = directory.entries()


def _enter(fd: int, name: str) -> int:
    """Make a directory, or take the one that is there, and open it."""
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=fd)
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise AlreadyExists("a file or link is where the directory should be") from error
        raise


@contextmanager
def _published(made: str, *, fd: int, name: str) -> Iterator[None]:
    """Give what was *made* its name when it is whole; take it away if it never gets there."""
    try:
        yield
        if made != name:
            os.replace(made, name, src_dir_fd=fd, dst_dir_fd=fd)
    except BaseException:
        with suppress(OSError):
            os.unlink(made, dir_fd=fd)
        raise


def _check_name(name: str) -> None:
    """The contract forbids these names; a format with a bug must not write elsewhere all the same."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise NameNotAllowed(f"{name!r} is no name for a file")


def _in_this_locale(name: str) -> str:
    """*name* so that it is UTF-8 on disk, as everywhere in an archive, also where the locale is not."""
    return os.fsdecode(name.encode("utf-8", "surrogateescape"))


def leads_out(target: str, *, depth: int) -> bool:
    """Does a link *depth* directories down lead above the topmost of them?"""
    if target.startswith("/"):
        return True
    for name in target.split("/"):
        if name == "..":
            depth -= 1
        elif name not in ("", "."):
            depth += 1
        if depth < 0:
            return True
    return False
