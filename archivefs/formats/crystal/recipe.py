"""How a project's database is opened without changing a byte beside it, whatever Crystal left there.

Used by ``database.py`` at every open and reopen:

====================================  =======================================================================
found                                 opened as
====================================  =======================================================================
a journal with bytes in it            ``mode=ro``; if SQLite then wants to roll back, a private copy that it may
rollback header                       ``mode=ro``
WAL header, ``-shm`` and ``-wal``     ``mode=ro&readonly_shm=1``: every committed row, and nothing is written
WAL header, no log or an empty one    ``mode=ro&immutable=1``
WAL header, a full log, no ``-shm``   a private copy of database and log
====================================  =======================================================================

(``readonly_shm`` without a ``-wal`` would make one; ``immutable`` over a full log or a hot journal would show what
is not true.)  Pure but for the copy; any thread may call.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import logging
import os
import shutil
import sqlite3
import stat
import tempfile
from typing import BinaryIO, NamedTuple
from urllib.parse import quote

from archivefs.errors import OutOfSpace, SourceChanged, UnreadableArchive, quoted
from archivefs.formats.crystal.location import COMPANIONS

LOG = logging.getLogger("archivefs.crystal")

MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100
LOG_HEADER_BYTES = 32
LARGE_COPY = 1 << 30
"""Above this a copy says how far it is."""
_FICLONE = 0x40049409
_COPY_BYTES = 8 << 20
_WAL = 2


class Way(enum.Enum):
    """How to open a database."""

    PLAIN = "mode=ro"
    SHARED_LOG = "mode=ro&readonly_shm=1"
    IMMUTABLE = "mode=ro&immutable=1"
    COPY = "copy"
    WRITE = "mode=rw"
    """By the one who has the project for himself (``held.py``)."""


class State(NamedTuple):
    """What tells one moment of a database from the next, without asking SQLite."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    header: bytes
    """Bytes 18-19 (journal mode) and 24-27 (change counter)."""
    log: tuple[int, int, bytes] | None
    """Size, time and first bytes of ``-wal``; each commit in WAL mode moves one of them."""
    shared: bool
    """Is there a ``-shm``?"""
    journal: tuple[int, int] | None

    @property
    def way(self) -> Way:
        """How a database in this state is opened."""
        logging_mode = self.header[0] == _WAL or self.header[1] == _WAL
        if self.journal and self.journal[0]:
            return Way.COPY if logging_mode else Way.PLAIN
        if not logging_mode:
            return Way.PLAIN
        if self.log is None:
            return Way.IMMUTABLE
        if self.shared:
            return Way.SHARED_LOG
        return Way.COPY if self.log[0] else Way.IMMUTABLE


def look_at(fd: int, path: str) -> State:
    """The state of the database at *path*, which is open as *fd*.

    The descriptor is the caller's and stays open: closing one of a database's descriptors drops every lock that
    SQLite holds on it in this process (fcntl(2)).
    """
    status = os.fstat(fd)
    header = os.pread(fd, HEADER_BYTES, 0)
    return State(
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        header[18:20].ljust(2, b"\0") + header[24:28],
        _log_state(path + "-wal"),
        os.path.lexists(path + "-shm"),
        _size_and_time(path + "-journal"),
    )


def uri_of(path: str, way: Way) -> str:
    """The URI under which SQLite opens *path* that way."""
    return f"file:{quote(os.fsencode(path))}?{way.value}"


def check_header(fd: int, path: str) -> None:
    """Raise UnreadableArchive unless it is a SQLite database in UTF-8."""
    header = os.pread(fd, HEADER_BYTES, 0)
    if not header:
        raise UnreadableArchive("database.sqlite is empty", archive=path, advice="restore it from a copy")
    if not header.startswith(MAGIC) or len(header) < HEADER_BYTES:
        raise UnreadableArchive("database.sqlite is not a SQLite database", archive=path)
    if int.from_bytes(header[56:60], "big") not in (0, 1):
        raise UnreadableArchive("the text in database.sqlite is not UTF-8, as Crystal writes it", archive=path)


def _size_and_time(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _log_state(path: str) -> tuple[int, int, bytes] | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        return status.st_size, status.st_mtime_ns, os.pread(fd, LOG_HEADER_BYTES, 0)
    finally:
        os.close(fd)  # SQLite keeps no locks on the log itself


# -- a private copy --


class PrivateCopy:
    """A database copied where nobody else sees it, put right by SQLite, and removed with ``close``."""

    def __init__(self, path: str, state: State) -> None:
        self.state = state
        """What the original looked like."""
        self._folder = tempfile.mkdtemp(prefix="archivefs-crystal-")
        self.path = os.path.join(self._folder, "database.sqlite")
        try:
            _require_space(path, self._folder)
            _copy_all(path, self.path)
            _put_right(self.path)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove it."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _require_space(path: str, folder: str) -> None:
    need = sum(found[0] for suffix in ("", *COMPANIONS) if (found := _size_and_time(path + suffix)))
    free = shutil.disk_usage(folder).free
    if need > free:
        raise OutOfSpace(
            f"its database was left half written and must be put right in a copy of {need} bytes; {folder} has {free}",
            archive=path,
            advice="let Crystal open and close the project, or name a larger folder in TMPDIR",
        )


def _copy_all(path: str, target: str) -> None:
    """Copy the database with its journal and log; not ``-shm``, which SQLite makes anew."""
    for _ in range(3):
        before = _sizes_and_times(path)
        for suffix in ("", "-journal", "-wal"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(target + suffix)
            with contextlib.suppress(FileNotFoundError):
                _copy_file(path + suffix, target + suffix)
        if _sizes_and_times(path) == before:
            return
    raise SourceChanged("its database changes faster than it can be copied", archive=path, advice="try again")


def _sizes_and_times(path: str) -> list[tuple[int, int] | None]:
    return [_size_and_time(path + suffix) for suffix in ("", "-journal", "-wal")]


def _copy_file(source: str, target: str) -> None:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with open(os.open(source, flags), "rb") as reader:
        status = os.fstat(reader.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableArchive("not a regular file", archive=source)
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as writer:
            try:
                fcntl.ioctl(writer.fileno(), _FICLONE, reader.fileno())
            except OSError:  # another file system, or one that cannot share blocks
                _copy_bytes(reader, writer, size=status.st_size, name=source)


def _copy_bytes(reader: BinaryIO, writer: BinaryIO, *, size: int, name: str) -> None:
    done = 0
    while data := reader.read(_COPY_BYTES):
        writer.write(data)
        before, done = done, done + len(data)
        if size > LARGE_COPY and done * 10 // size > before * 10 // size:
            LOG.warning("%s: copying, %d%% of %d bytes", quoted(name), done * 100 // size, size)


def _put_right(path: str) -> None:
    """Let SQLite roll back the journal or take in the log, and leave one file that needs neither."""
    connection = sqlite3.connect(path, timeout=5, isolation_level=None)
    try:
        connection.execute("pragma journal_mode=delete").fetchall()
        connection.execute("select count(*) from sqlite_master").fetchall()
    except sqlite3.DatabaseError as error:
        problem = f"its database was left half written and cannot be put right: {error}"
        raise UnreadableArchive(problem) from error
    finally:
        connection.close()
