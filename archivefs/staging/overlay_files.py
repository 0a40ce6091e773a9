"""Files of an overlay, and the writer of one.

Content being changed lies in memory while it is small and in a numbered body otherwise.  A file that is opened without
truncation is copied when the first byte is written, so what the journal names is never changed half-way by a
second session: a crash leaves the old content or the new.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from archivefs.errors import FileExpected, StaleNode
from archivefs.readers import BytesReader, ExtentReader
from archivefs.staging import durable
from archivefs.staging.area import INLINE
from archivefs.staging.journal import Record
from archivefs.tree import Attributes, Extent, File, Parts, Reader, WritableFile, Writer

if TYPE_CHECKING:
    from archivefs.staging.overlay import OverlayDirectory, OverlayTree

COPY_CHUNK = 1 << 20


class Staged(NamedTuple):
    """Content in the staging area: a body, or a stretch of the journal where ``body`` is 0."""

    size: int
    body: int = 0
    start: int = 0

    @classmethod
    def from_record(cls, record: Record) -> Staged:
        """As a ``put`` record says."""
        fields, payload = record
        return cls(fields["size"], fields.get("body", 0), payload.start)


class OverlayFile(WritableFile):
    """A file: the base's, until it is written."""

    def __init__(self, tree: OverlayTree, parent: OverlayDirectory, name: str, base: File | None) -> None:
        self.tree: OverlayTree = tree
        self.parent = parent
        self.name = name
        self.base = base
        self.ident = tree.new_ident(parent, name)
        self.staged: Staged | None = None
        self.removed = False
        self.marks: dict[str, bytes | None] = {}
        """Attributes that were set, for the format to make sense of."""
        self._mtime_ns: int | None = None if base is not None else time.time_ns()
        self._writer: OverlayWriter | None = None
        tree.remember(self)

    def parts(self) -> Parts:
        """Where it is now."""
        return (*self.parent.parts(), self.name)

    def attributes(self) -> Attributes:
        writer = self._writer
        if writer is not None:
            return writer.attributes()
        return self.stored_attributes()

    def stored_attributes(self) -> Attributes:
        """As they are without what an open writer has not finished."""
        mtime_ns = self._mtime_ns
        if self.staged is not None:
            return Attributes(self.staged.size, mtime_ns or 0, hash(self.staged))
        if self.base is None:
            return Attributes(0, mtime_ns or 0)
        found = self.base.attributes()
        return found if mtime_ns is None else found._replace(mtime_ns=mtime_ns)

    def xattrs(self) -> Mapping[str, bytes]:
        return self.tree.file_xattrs(self)

    def set_xattr(self, name: str, value: bytes | None) -> None:
        # The journal must know the file before it can say more of it; saved before the lock, which saving takes too.
        self.save()
        with self.tree.lock:
            self.tree.set_file_xattr(self, name, value)
            self.parent.keep(self)
            shown = None if value is None else value.hex()
            self.tree.record({"op": "xattr", "path": list(self.parts()), "name": name, "value": shown}, sync=True)

    def set_times(self, *, mtime_ns: int) -> None:
        self._mtime_ns = mtime_ns
        with self.tree.lock:
            self.tree.keep_until_unmount(self)

    def open(self) -> Reader:
        self._check_alive()
        if self.staged is not None:
            return self._open_staged(self.staged)
        return self.base.open() if self.base is not None else BytesReader(b"")

    def _open_staged(self, staged: Staged) -> Reader:
        mtime_ns = self._mtime_ns or 0
        if staged.body:
            fd = self.tree.area.open_body(staged.body)
            return ExtentReader(Extent(fd, 0, staged.size), mtime_ns=mtime_ns, owned=True)
        fd = self.tree.area.open_journal_for_reading()
        try:
            return BytesReader(os.pread(fd, staged.size, staged.start), mtime_ns=mtime_ns)
        finally:
            os.close(fd)

    def open_writer(self, *, truncate: bool) -> Writer:
        self._check_alive()
        with self.tree.lock:
            if self._writer is not None:
                raise FileExpected("it is being written already", member=self.name)
            fresh = self.base is None and self.staged is None
            self._writer = OverlayWriter(self, truncate=truncate, dirty=truncate or fresh)
            return self._writer

    def _check_alive(self) -> None:
        """One that is removed can be used by those who have it open, and not be opened again."""
        if self.removed:
            raise StaleNode(member=self.name)

    # -- for the writer and the tree --

    def save(self) -> None:
        """Make durable what an open writer has; do not hold the tree's lock."""
        writer = self._writer
        if writer is not None:
            writer.sync()

    def take(self, staged: Staged, mtime_ns: int | None = None) -> None:
        """From now on this is its content."""
        with self.tree.lock:
            self.staged = staged
            self._mtime_ns = mtime_ns if mtime_ns is not None else (self._mtime_ns or time.time_ns())
            self.parent.keep(self)

    def writer_closed(self) -> None:
        """The writer is done."""
        with self.tree.lock:
            self._writer = None

    @property
    def staged_body(self) -> int:
        """The number of the body its content is in, or 0."""
        return self.staged.body if self.staged is not None else 0

    @property
    def is_new(self) -> bool:
        """Was nothing of it ever saved?"""
        return self.base is None and self.staged is None

    @property
    def body_in_use(self) -> int:
        """The number of the body an open writer works on, or 0."""
        return self._writer.body if self._writer is not None else 0

    def rebase(self, base: File | None) -> None:
        """*base* has this content now."""
        self.base = base
        self.marks.clear()
        if base is not None:
            self.staged = None


class OverlayWriter(Writer):
    """The one open writer of a file.  A lock of its own guards its bytes."""

    def __init__(self, file: OverlayFile, *, truncate: bool, dirty: bool) -> None:
        self._file = file
        self._area = file.tree.area
        self._lock = threading.RLock()
        self._dirty = dirty
        self._size = 0 if truncate else file.stored_attributes().size
        self._mtime_ns = time.time_ns() if dirty else file.stored_attributes().mtime_ns
        self._source: Reader | None = None if truncate else file.open()
        """The old content, until the first change."""
        self._buffer: bytearray | None = bytearray() if truncate else None
        self._fd = -1
        self._named = False
        self._doubtful = False
        """The last attempt to make the body durable has failed."""
        self.body = 0

    # -- reading --

    def read_at(self, offset: int, size: int) -> bytes:
        with self._lock:
            if self._source is not None:
                return self._source.read_at(offset, size)
            if self._buffer is not None:
                return bytes(self._buffer[offset : offset + size])
            return os.pread(self._fd, max(0, min(size, self._size - offset)), offset)

    def attributes(self) -> Attributes:
        return Attributes(self._size, self._mtime_ns)

    # -- changing --

    def write_at(self, offset: int, data: bytes) -> None:
        if not data:
            return
        with self._lock:
            self._begin()
            end = offset + len(data)
            if self._buffer is not None and end > INLINE:
                self._spill()
            if self._buffer is not None:
                if len(self._buffer) < offset:
                    self._buffer.extend(bytes(offset - len(self._buffer)))
                self._buffer[offset:end] = data
            else:
                durable.write_all(self._fd, data, offset)
            self._size = max(self._size, end)
            self._changed()

    def truncate(self, size: int) -> None:
        with self._lock:
            self._begin()
            if self._buffer is not None and size > INLINE:
                self._spill()
            if self._buffer is not None:
                del self._buffer[size:]
                self._buffer.extend(bytes(size - len(self._buffer)))
            else:
                os.ftruncate(self._fd, size)
            self._size = size
            self._changed()

    def set_times(self, *, mtime_ns: int) -> None:
        self._mtime_ns = mtime_ns
        self._file.set_times(mtime_ns=mtime_ns)

    def _changed(self) -> None:
        self._dirty = True
        self._mtime_ns = time.time_ns()
        self._file.tree.last_change = time.monotonic()

    def _begin(self) -> None:
        """Before the first change: a copy of the old content to work on."""
        source = self._source
        if source is None:
            return
        size = source.attributes().size
        if size <= INLINE:
            self._buffer = bytearray(source.read_at(0, size))
        else:
            self._fill_body(lambda fd: _copy(source, fd, size))
        self._source = None
        source.close()

    def _spill(self) -> None:
        """From memory to a body."""
        data = self._buffer
        assert data is not None
        self._fill_body(lambda fd: durable.write_all(fd, bytes(data), 0))
        self._buffer = None

    def _fill_body(self, fill: Callable[[int], None]) -> None:
        """A new body to work on, filled; what fails leaves none."""
        tree = self._file.tree
        # Under the lock: a commit that empties the area must know at once that the body is in use.
        with tree.lock:
            tree.begin()
            number, fd = self._area.new_body()
            before, self.body = self.body, number
        try:
            fill(fd)
        except BaseException:
            self.body = before
            os.close(fd)
            self._area.drop_body(number)
            raise
        self._fd = fd

    # -- making it last --

    def sync(self) -> None:
        with self._lock:
            if not self._dirty or self._file.removed:
                return
            if self._source is not None:
                # Nothing was written, but the file is new or was emptied: its record is what makes it last.
                self._begin()
            if self._buffer is None:
                self._keep_body()
            # From the record to the file that knows of it nobody may commit, or the record would be thrown away.
            with self._file.tree.lock:
                if self._file.removed:
                    return
                staged = self._stage()
                old = self._file.staged
                self._file.take(staged, self._mtime_ns)
            self._dirty = False
            if old is not None and old.body and old.body != staged.body:
                self._area.drop_body(old.body)

    def _keep_body(self) -> None:
        """Make the body durable; after a failure by another one, since the kernel may have dropped what it could not
        write and would not try it again."""
        if self._doubtful:
            old, size, number = self._fd, self._size, self.body
            self._fill_body(lambda fd: _copy_fd(old, fd, size))
            os.close(old)
            if not self._named:
                self._area.drop_body(number)
        self._doubtful = True
        self._area.keep_body(self._fd)
        self._doubtful = False

    def _stage(self) -> Staged:
        """Write the record; a body it names is durable already."""
        tree, parts = self._file.tree, list(self._file.parts())
        fields = {"op": "put", "path": parts, "size": self._size, **tree.put_fields(self._file)}
        if self._buffer is not None:
            start, _ = tree.record(fields, bytes(self._buffer), sync=True)
            return Staged(self._size, 0, start)
        # From here on the body may be named on disk, even if the call that follows says it failed.
        self._named = True
        tree.record({**fields, "body": self.body}, sync=True)
        return Staged(self._size, self.body)

    def finish(self) -> None:
        self.sync()

    def close(self) -> None:
        with self._lock:
            self._file.writer_closed()
            if self._source is not None:
                self._source.close()
                self._source = None
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
            if self.body and (not self._named or self._file.removed):
                self._area.drop_body(self.body)


def _copy(source: Reader, fd: int, size: int) -> None:
    offset = 0
    while offset < size:
        data = source.read_at(offset, min(COPY_CHUNK, size - offset))
        durable.write_all(fd, data, offset)
        offset += len(data)


def _copy_fd(source: int, fd: int, size: int) -> None:
    offset = 0
    while offset < size:
        data = os.pread(source, min(COPY_CHUNK, size - offset), offset)
        if not data:
            return
        durable.write_all(fd, data, offset)
        offset += len(data)
