"""Files of the read-write tree, and the writer of one.

A file stands for a URL, or for nothing yet while its name is an editor's.  What is written lies in a draft; at the
last close the draft becomes a revision.  Nothing that is stored is ever changed: a file that is opened without
truncation is copied before its first byte is written.

Threading: a writer has a lock of its own, taken before the tree's and never after it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from archivefs.errors import FileExpected, StaleNode
from archivefs.formats.crystal.drafts import NANO, Draft
from archivefs.formats.crystal.nodes import BodyFile
from archivefs.readers import BytesReader
from archivefs.staging import durable
from archivefs.staging.area import INLINE
from archivefs.tree import Attributes, Reader, WritableFile, Writer

if TYPE_CHECKING:
    from archivefs.formats.crystal.rwtree import RwTree

_CHUNK = 1 << 20

Spot = tuple[bytes, str]
"""Where something is listed: the prefix of its directory, and its name."""


class RwFile(WritableFile):
    """A file that can be written."""

    def __init__(self, tree: RwTree, ident: int, url: bytes | None, base: BodyFile | None) -> None:
        self.tree: RwTree = tree
        self.ident = ident
        self.url = url
        """None: its name is an editor's, and it is never stored."""
        self.base = base
        """What is stored of it."""
        self.draft: Draft | None = None
        """What is to become its next revision, or all there is of a scratch file."""
        self.spot: Spot | None = None
        """Where it is listed, as long as the project does not list it."""
        self.aside: Spot | None = None
        """Where it belongs: an editor has moved a stored page out of the way."""
        self.removed = False
        self.mtime_ns: int | None = None if base is not None else _now()
        self.writer: DraftWriter | None = None

    def attributes(self) -> Attributes:
        writer = self.writer
        if writer is not None:
            return writer.attributes()
        return self.kept_attributes()

    def kept_attributes(self) -> Attributes:
        """As they are without what an open writer has not kept."""
        draft, mtime_ns = self.draft, self.mtime_ns
        if draft is not None:
            return Attributes(draft.size, draft.time_s * NANO if mtime_ns is None else mtime_ns, hash(draft))
        if self.base is None:
            return Attributes(0, mtime_ns or 0)
        found = self.base.attributes()
        return found if mtime_ns is None else found._replace(mtime_ns=mtime_ns)

    def xattrs(self) -> Mapping[str, bytes]:
        if self.base is not None and self.draft is None:
            return self.base.xattrs()
        if self.url is None:
            return {}
        return {"user.xdg.origin.url": self.url, "user.archivefs.url": self.url, "user.archivefs.state": b"pending"}

    def set_times(self, *, mtime_ns: int) -> None:
        self.mtime_ns = mtime_ns
        self.tree.keep_until_unmount(self)

    def open(self) -> Reader:
        self._check_alive()
        return self.open_kept()

    def open_kept(self) -> Reader:
        """Read what is there without what an open writer has not kept."""
        if self.draft is not None:
            return self.tree.drafts.open(self.draft)
        return self.base.open() if self.base is not None else BytesReader(b"")

    def open_writer(self, *, truncate: bool) -> Writer:
        self._check_alive()
        with self.tree.lock:
            if self.writer is not None:
                raise FileExpected("it is being written already")
            self.writer = DraftWriter(self, truncate=truncate or self.is_new)
            return self.writer

    @property
    def is_new(self) -> bool:
        """Is nothing of it kept anywhere?"""
        return self.base is None and self.draft is None

    @property
    def bodies_in_use(self) -> set[int]:
        """The bodies of the staging area that it needs."""
        writer = self.writer
        return {self.draft.body if self.draft else 0, writer.body if writer else 0} - {0}

    @contextlib.contextmanager
    def at_rest(self) -> Iterator[None]:
        """Nobody writes meanwhile, and what was written is in the draft."""
        writer = self.writer
        if writer is None:
            yield
            return
        with writer.lock:
            writer.gather()
            yield

    def took(self, draft: Draft) -> None:
        """This is its content from now on; the draft before it is not wanted any more."""
        old, self.draft = self.draft, draft
        if old is not None and old.serial != draft.serial:
            self.tree.drafts.done(old._replace(body=0 if old.body == draft.body else old.body))

    def _check_alive(self) -> None:
        if self.removed:
            raise StaleNode


class DraftWriter(Writer):
    """The one open writer of a file."""

    def __init__(self, file: RwFile, *, truncate: bool) -> None:
        self.lock = threading.RLock()
        self.body = 0
        """The body of the staging area it writes to, or 0."""
        self._file = file
        self._drafts = file.tree.drafts
        self._dirty = self._unkept = truncate
        self._size = 0 if truncate else file.kept_attributes().size
        self._mtime_ns = _now() if truncate else file.kept_attributes().mtime_ns
        self._source: Reader | None = None if truncate else file.open_kept()
        """The old content, until the first change."""
        self._buffer: bytearray | None = bytearray() if truncate else None
        self._fd = -1
        if truncate:
            file.mtime_ns = None

    # -- reading --

    def read_at(self, offset: int, size: int) -> bytes:
        with self.lock:
            if self._source is not None:
                return self._source.read_at(offset, size)
            if self._buffer is not None:
                return bytes(self._buffer[offset : offset + size])
            return os.pread(self._fd, max(0, min(size, self._size - offset)), offset)

    def attributes(self) -> Attributes:
        mtime_ns = self._file.mtime_ns
        return Attributes(self._size, self._mtime_ns if mtime_ns is None else mtime_ns)

    # -- changing --

    def write_at(self, offset: int, data: bytes) -> None:
        if not data:
            return
        with self.lock:
            end = offset + len(data)
            self._begin(room_for=end)
            if self._buffer is not None:
                self._buffer.extend(bytes(max(0, offset - len(self._buffer))))
                self._buffer[offset:end] = data
            else:
                durable.write_all(self._fd, data, offset)
            self._changed(max(self._size, end))

    def truncate(self, size: int) -> None:
        with self.lock:
            self._begin(room_for=size)
            if self._buffer is not None:
                del self._buffer[size:]
                self._buffer.extend(bytes(size - len(self._buffer)))
            else:
                os.ftruncate(self._fd, size)
            self._changed(size)

    def set_times(self, *, mtime_ns: int) -> None:
        self._file.set_times(mtime_ns=mtime_ns)

    def _changed(self, size: int) -> None:
        self._size, self._dirty, self._unkept = size, True, True
        self._mtime_ns, self._file.mtime_ns = _now(), None
        self._file.tree.last_change = time.monotonic()

    def _begin(self, *, room_for: int) -> None:
        """Before a change: a copy of the old content to work on, and a body for what is too large for memory."""
        source = self._source
        if source is not None and max(self._size, room_for) <= INLINE:
            self._buffer = bytearray(source.read_at(0, self._size))
        elif source is not None or (self._buffer is not None and room_for > INLINE):
            self._spill(source)
        if source is not None:
            self._source = None
            source.close()

    def _spill(self, source: Reader | None) -> None:
        self._drafts.begin()
        number, fd = self._drafts.area.new_body()
        try:
            if source is not None:
                for offset in range(0, self._size, _CHUNK):
                    durable.write_all(fd, source.read_at(offset, _CHUNK), offset)
            else:
                durable.write_all(fd, bytes(self._buffer or b""), 0)
        except BaseException:
            os.close(fd)
            self._drafts.area.drop_body(number)
            raise
        self.body, self._fd, self._buffer = number, fd, None

    # -- keeping --

    def gather(self) -> None:
        """Put what was written into the file's draft.  Hold the lock."""
        if self._dirty and not self._file.removed:
            self._begin(room_for=0)
            data = None if self._buffer is None else bytes(self._buffer)
            draft = Draft(self._size, self._mtime_ns // NANO, data, self.body)
            if self._file.url is not None:
                draft = self._drafts.keep(self._file.url, draft)
            self._file.took(draft)
            self._dirty = False

    def sync(self) -> None:
        with self.lock:
            self.gather()

    def finish(self) -> None:
        with self.lock:
            self.gather()
            if self._unkept and self._file.url is not None and not self._file.removed:
                try:
                    self._file.tree.store(self._file)
                    self._unkept = False
                finally:
                    self.rest()

    def stored(self) -> None:
        """What was written is a revision now, by a rename.  Hold the lock."""
        self._unkept = False
        self.rest()

    def rest(self) -> None:
        """What was written may be a revision now, which nobody may change: go on with a copy of it when need be."""
        with self.lock:
            self._let_go()
            self._dirty = False
            self._buffer, self.body = None, 0
            self._source = self._file.open_kept()

    def close(self) -> None:
        with self.lock:
            self._file.writer = None
            self._let_go()
            draft = self._file.draft
            if self.body and (draft is None or draft.body != self.body):
                self._drafts.area.drop_body(self.body)

    def _let_go(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _now() -> int:
    """In whole seconds, as the header ``Date`` will have it."""
    return int(time.time()) * NANO
