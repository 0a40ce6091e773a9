"""What is known of an archive, kept between mounts: flat tables in files of our own, below the cache folder.

Used by ``directory.py``, ``savedpoints.py`` and the formats that are zips.  An archive has one file for each *part*
of what is kept; a file has sections, each an array of numbers or a stretch of bytes.  The file is named for the
archive's device and inode, so that a changed archive replaces what was kept of it, and it says in its header what
it was made of: device, inode, size, time, and a digest of the archive's last bytes.

A file is believed only if it is ours alone (owner, mode, no link), of this version, whole, made of this very archive,
and if the checksum of every section is right.  Anything else is as if it were not there.  Nothing here ever raises:
what cannot be read or written is only slower.

Believed files are mapped, so that nothing is read before it is asked for and memory can be given back.  That is safe
because they are only ever made under another name and renamed or removed, never cut; an archive is not mapped.
"""

from __future__ import annotations

import contextlib
import json
import logging
import mmap
import os
import stat
import struct
import sys
import time
import zlib
from array import array
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple, Union, cast

from archivefs.errors import ArchiveError, quoted
from archivefs.zips.source import SourceFile

LOG = logging.getLogger(__name__)

AUTO, OFF = "auto", "off"
MIN_ENTRIES = 20_000
"""With ``auto`` smaller archives are left alone: they are parsed in less than 0.05 s."""
MAX_TOTAL = 1 << 30
"""All files of a folder together; those used longest ago go first."""
TAIL_BYTES = 64 << 10

_MAGIC = b"archivefs index\n"
_VERSION = 1
_HEAD = struct.Struct("<16sIIQ")
"""Magic, version, CRC-32 and length of the description that follows, which is JSON."""
_MAX_DESCRIPTION = 1 << 20
_PAGE = mmap.ALLOCATIONGRANULARITY
_CHECKED_AT_ONCE = 1 << 20
_SCRATCH = ".new-"
_SCRATCH_AGE_S = 3600
_SUFFIX = ".index"
_UNBELIEVABLE = (OSError, ValueError, KeyError, TypeError, OverflowError)
_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Bytes = bytes | mmap.mmap
"""A stretch of bytes, in memory or mapped: slices are ``bytes``, and both have ``find`` and ``rfind``."""
Saved = Union["array[int]", bytes, bytearray, mmap.mmap]


class IndexFolder:
    """A folder of kept tables; opened anew for each use, so nothing is held."""

    def __init__(self, path: str, *, min_entries: int = 0, max_total: int = MAX_TOTAL) -> None:
        self.path = path
        self.min_entries = min_entries
        self.max_total = max_total

    @classmethod
    def chosen(cls, option: str) -> IndexFolder | None:
        """What ``-o index=`` says: the folder in the user's cache, none, or the one at a path."""
        if option == OFF:
            return None
        if option == AUTO:
            return cls(default_path(), min_entries=MIN_ENTRIES)
        return cls(os.path.realpath(option))

    def of(self, source: SourceFile) -> ArchiveIndex | None:
        """What is kept of an archive; None if the archive cannot be told from others."""
        try:
            return ArchiveIndex(self, source)
        except (OSError, ArchiveError) as error:
            LOG.debug("%s: no index: %s", quoted(source.path), error)
            return None

    @contextlib.contextmanager
    def opened(self, *, create: bool = False) -> Iterator[int]:
        """A descriptor of the folder; raises OSError if it is not there or not ours alone."""
        if create:
            _make(self.path)
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _demand_ours(os.fstat(fd))
            yield fd
        finally:
            os.close(fd)

    def make_room(self, folder: int, size: int) -> None:
        """Remove what was used longest ago until *size* more bytes fit; raises OSError if they never do."""
        if size > self.max_total:
            raise OSError("it would be larger than all indexes may be together")
        kept = sorted(_kept_files(folder))
        total = sum(bytes_ for _, bytes_, _ in kept)
        for _, bytes_, name in kept:
            if total + size <= self.max_total:
                return
            os.unlink(name, dir_fd=folder)
            total -= bytes_


class ArchiveIndex:
    """What is kept of one archive."""

    def __init__(self, folder: IndexFolder, source: SourceFile) -> None:
        self.folder = folder
        status = os.fstat(source.fd)
        self._tail = source.pread(min(TAIL_BYTES, source.size), max(0, source.size - TAIL_BYTES))
        self._name = f"{status.st_dev:x}-{status.st_ino:x}"
        self._facts = [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]

    @cached_property
    def _key(self) -> list[int | str]:
        import hashlib  # it loads OpenSSL: three megabytes, for an archive of which nothing is kept

        return [*self._facts, hashlib.blake2b(self._tail, digest_size=32).hexdigest()]

    def worth(self, entries: int) -> bool:
        """Is an archive of so many entries to be kept at all?"""
        return entries >= self.folder.min_entries

    def load(self, part: str) -> Sections | None:
        """The sections of a part, if they can be believed."""
        fd = self._opened(part, _READING)
        try:
            return self._believed(fd, part) if fd is not None else None
        except _UNBELIEVABLE as error:
            self._not_used(part, error)
            return None
        finally:
            if fd is not None:
                os.close(fd)

    def _opened(self, part: str, flags: int) -> int | None:
        try:
            with self.folder.opened() as folder:
                return os.open(self._file(part), flags, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._not_used(part, error)
            return None

    def _not_used(self, part: str, error: Exception) -> None:
        LOG.debug("index %s not used: %s", self._file(part), error)

    def _believed(self, fd: int, part: str) -> Sections:
        """Raises OSError or ValueError if there is anything wrong with the file."""
        description, base = self._believed_header(fd, part)
        sections = Sections(fd, description["sections"], base=base, size=os.fstat(fd).st_size)
        _touch(fd)
        return sections

    def _believed_header(self, fd: int, part: str) -> tuple[dict[str, Any], int]:
        _demand_ours(os.fstat(fd), regular=True)
        description, base = _description(fd)
        if (description["key"], description["part"]) != (self._key, part):
            raise ValueError("made of another archive")
        return description, base

    def save(self, part: str, sections: Mapping[str, Saved]) -> None:
        """Keep the sections of a part in place of what was kept before; where that fails, nothing is lost."""
        try:
            with self.folder.opened(create=True) as folder, scratch_file(folder) as (fd, name):
                size, pieces = _laid_out(self._key, part, sections)
                self.folder.make_room(folder, size)
                for piece in pieces:
                    write_all(fd, piece)
                os.rename(name, self._file(part), src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            LOG.debug("index %s not kept: %s", self._file(part), error)

    # -- parts that grow --

    def writable(self) -> bool:
        """Can anything be kept, as far as one can see?"""
        try:
            with self.folder.opened(create=True) as folder:
                return os.access(".", os.W_OK, dir_fd=folder)
        except OSError:
            return False

    def open_grown(self, part: str, about: list[int]) -> Grown | None:
        """A part that ``create_grown`` has made, with the same *about*; None if it cannot be believed."""
        fd = self._opened(part, _READING | os.O_RDWR)
        if fd is None:
            return None
        try:
            description, base = self._believed_header(fd, part)
            if description["about"] != about:
                raise ValueError("made of another member")
            _touch(fd)
            return Grown(fd, base, zlib.crc32(_exactly(fd, base, 0)))
        except _UNBELIEVABLE as error:
            os.close(fd)
            self._not_used(part, error)
            return None

    def create_grown(self, part: str, about: list[int]) -> Grown:
        """A new part in place of what was kept before, with nothing but a header; raises OSError."""
        head = _header({"key": self._key, "part": part, "about": about})
        with self.folder.opened(create=True) as folder, scratch_file(folder) as (fd, name):
            write_all(fd, head)
            os.rename(name, self._file(part), src_dir_fd=folder, dst_dir_fd=folder)
            return Grown(os.dup(fd), len(head), zlib.crc32(head))

    def make_room(self, size: int) -> None:
        """For *size* more bytes in parts that grow; raises OSError."""
        with self.folder.opened() as folder:
            self.folder.make_room(folder, size)

    def remove(self, part: str) -> None:
        """Throw a part away."""
        with contextlib.suppress(OSError), self.folder.opened() as folder:
            os.unlink(self._file(part), dir_fd=folder)

    def _file(self, part: str) -> str:
        return f"{self._name}.{part}{_SUFFIX}"


class Grown(NamedTuple):
    """A part that grows: what follows its header is for whoever has made it to write and to check."""

    fd: int
    base: int
    """Where its content begins."""
    crc: int
    """Of the header."""


class Sections:
    """The sections of a file that was found right; what it gives stays good when the file is removed."""

    def __init__(self, fd: int, described: Mapping[str, list[Any]], *, base: int, size: int) -> None:
        """Raises ValueError if a section is not as described."""
        self._fd = -1
        self._base = base
        self._described = described
        end = 0
        for code, start, length, _ in described.values():
            if start != end or length % array(code).itemsize:
                raise ValueError("made on another kind of machine")
            end += _whole_pages(length)
        if base + end != size:
            raise ValueError("of another length than it should be")
        for _, start, length, crc in described.values():
            if checksum(fd, base + start, length) != crc:
                raise ValueError("damaged")
        self._fd = os.dup(fd)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def numbers(self, name: str, *, changeable: bool = False) -> array[int]:
        """An array as it was saved: to be indexed, sliced and searched.  Changes stay in memory."""
        code, start, length, _ = self._described[name]
        if not length:
            return array(code)
        access = mmap.ACCESS_COPY if changeable else mmap.ACCESS_READ
        mapped = mmap.mmap(self._fd, length, access=access, offset=self._base + start)
        return cast("array[int]", memoryview(mapped).cast(code))  # no array, but all that is asked of one here

    def bytes(self, name: str) -> Bytes:
        """A stretch of bytes."""
        _, start, length, _ = self._described[name]
        if not length:
            return b""
        return mmap.mmap(self._fd, length, access=mmap.ACCESS_READ, offset=self._base + start)


def default_path() -> str:
    """``archivefs/index`` in the user's cache folder (XDG Base Directory Specification)."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):  # the specification: a relative path is to be ignored
        cache = os.path.expanduser("~/.cache")
    return os.path.join(cache, "archivefs", "index")


@contextlib.contextmanager
def scratch_file(folder: int) -> Iterator[tuple[int, str]]:
    """Descriptor and name of a new file, which is gone afterwards unless it was renamed."""
    name = f"{_SCRATCH}{os.urandom(8).hex()}"
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        yield fd, name
    finally:
        os.close(fd)
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)


def checksum(fd: int, start: int, length: int) -> int:
    """CRC-32 of a stretch of a file, read through a small buffer; raises ValueError if it is cut."""
    buffer = memoryview(bytearray(min(_CHECKED_AT_ONCE, length)))
    crc = 0
    while length:
        got = os.preadv(fd, [buffer[: min(len(buffer), length)]], start)
        if not got:
            raise ValueError("cut off")
        crc = zlib.crc32(buffer[:got], crc)
        start += got
        length -= got
    return crc


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte; raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


# -- the folder --


def _make(path: str) -> None:
    """Make the folder; raises OSError, also where it would lie in a folder that is somebody else's."""
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    if missing and os.stat(path).st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user")
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)


def _touch(fd: int) -> None:
    """Used just now: the last to be thrown out."""
    with contextlib.suppress(OSError):
        os.utime(fd)


def _demand_ours(status: os.stat_result, *, regular: bool = False) -> None:
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise PermissionError("another user may change it")
    if regular and not stat.S_ISREG(status.st_mode):
        raise ValueError("not a regular file")


def _kept_files(folder: int) -> Iterator[tuple[int, int, str]]:
    """When it was used last, size and name of every kept file; scratch files that nobody finished are removed."""
    for name in os.listdir(folder):
        if not name.endswith(_SUFFIX) and not name.startswith(_SCRATCH):
            continue
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if name.endswith(_SUFFIX):
                yield status.st_mtime_ns, status.st_size, name
            elif status.st_mtime < time.time() - _SCRATCH_AGE_S:
                os.unlink(name, dir_fd=folder)


# -- a file --


def _description(fd: int) -> tuple[dict[str, Any], int]:
    """What the header says, and where it ends; raises ValueError or KeyError."""
    magic, version, crc, length = _HEAD.unpack(_exactly(fd, _HEAD.size, 0))
    if (magic, version) != (_MAGIC, _VERSION):
        raise ValueError("of another version")
    if length > _MAX_DESCRIPTION:
        raise ValueError("damaged")
    text = _exactly(fd, length, _HEAD.size)
    if zlib.crc32(text) != crc:
        raise ValueError("damaged")
    description: dict[str, Any] = json.loads(text)
    if description["byteorder"] != sys.byteorder:
        raise ValueError("made on another kind of machine")
    return description, _whole_pages(_HEAD.size + length)


def _exactly(fd: int, size: int, start: int) -> bytes:
    data = os.pread(fd, size, start)
    if len(data) != size:
        raise ValueError("cut off")
    return data


def _laid_out(key: list[Any], part: str, sections: Mapping[str, Saved]) -> tuple[int, list[memoryview]]:
    """How large the file becomes, and its pieces; where sections begin counts from the end of the header."""
    described: dict[str, list[Any]] = {}
    pieces: list[memoryview] = []
    at = 0
    for name, data in sections.items():
        view = memoryview(data).cast("B")
        described[name] = [getattr(data, "typecode", "B"), at, len(view), zlib.crc32(view)]
        pieces += [view, memoryview(bytes(-len(view) % _PAGE))]
        at += _whole_pages(len(view))
    head = _header({"key": key, "part": part, "sections": described})
    return len(head) + at, [memoryview(head), *pieces]


def _header(description: Mapping[str, Any]) -> bytes:
    text = json.dumps({**description, "byteorder": sys.byteorder}).encode()
    head = _HEAD.pack(_MAGIC, _VERSION, zlib.crc32(text), len(text)) + text
    return head.ljust(_whole_pages(len(head)), b"\0")


def _whole_pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE
