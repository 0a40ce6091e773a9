"""What a read-write mount allows: archives deleted, and new ones copied into ``archives/``.

A new archive is written to a hidden file.  Closing it checks it: its name, the zip and every member, the metadata.
If that is sound it gets its name at once, durably; if not, the one who closes is told, but the bytes are kept until
the last close, for more may follow.  What is then not sound is thrown away.

One lock guards the table of files in the making; each of those has its own writer, which the driver shares.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Sequence

from archivefs.errors import AlreadyExists, ArchiveError, ContentRefused, NotFound, NotPermitted, StaleNode, quoted
from archivefs.formats.crawls import publishing
from archivefs.formats.crawls.archive import CrawlArchive
from archivefs.formats.crawls.idents import KnownTree
from archivefs.formats.crawls.naming import SUFFIX, CrawlName, parse_file_name, why_not
from archivefs.formats.crawls.nodes import KeptFile, ListDirectory, WholeFile
from archivefs.formats.crawls.storage import Item, State, Storage, one_line, state_of
from archivefs.readers import pread_exactly
from archivefs.staging import durable
from archivefs.staging.access import require_writable
from archivefs.staging.locks import WriterLock
from archivefs.tree import Attributes, Entry, Kind, Node, Reader, WritableFile, Writer

LOG = logging.getLogger(__name__)


class Staging:
    """What a read-write mount holds: the lock on the folder, and the files in the making."""

    def __init__(self, storage: Storage) -> None:
        """Raises SourceBusy, and NotPermitted where nothing can be written."""
        self._storage = storage
        self.folder = storage.new_folder
        require_writable(storage.path, self.folder)
        os.makedirs(self.folder, exist_ok=True)
        self._writers = WriterLock(self.folder)
        for name in publishing.remove_leftovers(self.folder):
            LOG.warning("%s: removed what a writer that died has left: %s", quoted(self.folder), name)
        self.lock = threading.Lock()
        self.making: dict[str, NewArchive] = {}
        """Files that are open for writing, by name."""
        self.published: dict[str, tuple[State, NewArchive]] = {}
        """Archives that were made through this mount: they keep their idents."""

    def delete(self, item: Item) -> None:
        """Delete an archive; raises NotPermitted for those of later revisions."""
        if item.name.later:
            raise NotPermitted("archives of later revisions are never deleted", archive=item.path)
        publishing.remove(item.path)
        self._storage.changed()

    def close(self) -> None:
        """Let go."""
        self._writers.close()


class ArchivesDirectory(ListDirectory):
    """``archives/``: the zips, byte for byte."""

    __slots__ = ("_staging", "_storage")
    inner = Kind.FILE

    def __init__(self, tree: KnownTree, storage: Storage, staging: Staging | None, mtime_ns: int) -> None:
        super().__init__(tree, ("archives",), mtime_ns)
        self._storage = storage
        self._staging = staging

    def names(self) -> Sequence[str]:
        listed = {item.name.file_name for item in self._storage.snapshot().items}
        return sorted({*listed, *(self._staging.making if self._staging else ())}, key=_stem, reverse=True)

    def _follows(self, name: str, after: str) -> bool:
        return _stem(name) < _stem(after)

    def entry(self, name: str) -> Entry:
        return Entry(name, Kind.FILE)

    def child(self, name: str) -> Node:
        staging = self._staging
        making = staging.making.get(name) if staging else None
        if making is not None:
            return making
        item = self._item(name)
        try:
            state = state_of(os.lstat(item.path))
        except OSError:
            raise NotFound(member=name) from None
        if staging is not None and name in staging.published:
            known, archive = staging.published[name]
            if known == state:
                return archive
        return ArchiveFile(self.tree, (*self.key, name), item.path, state)

    def create(self, name: str, *, exclusive: bool) -> WritableFile:
        staging = self._staging
        if staging is None:
            self.refuse()
        with staging.lock:
            found = staging.making.get(name)
            if found is None and not os.path.lexists(os.path.join(staging.folder, name)) and not self._is_there(name):
                found = NewArchive(self.tree, staging, self._storage, name)
                found.open_writer(truncate=True)  # what fails here must not leave a name behind
                staging.making[name] = found
                return found
        if found is None or exclusive:
            raise AlreadyExists(member=name)
        return found

    def remove(self, name: str, *, kind: Kind) -> None:
        staging = self._staging
        making = staging.making.get(name) if staging else None
        if making is not None and kind is Kind.FILE:
            making.removed()
            return
        item = self._item(name)
        if staging is None or kind is not Kind.FILE:
            self.refuse()
        staging.delete(item)

    def _item(self, name: str) -> Item:
        if not name.endswith(SUFFIX):
            raise NotFound(member=name)
        return self._storage.item(_stem(name))

    def _is_there(self, name: str) -> bool:
        return _stem(name) in self._storage.snapshot().by_id


def _stem(name: str) -> str:
    return name[: -len(SUFFIX)] if name.endswith(SUFFIX) else name


class ArchiveFile(WholeFile):
    """An archive: to write to it is to put another in its place, which is never done."""

    __slots__ = ()

    def open_writer(self, *, truncate: bool) -> Writer:
        if self.tree.writable:
            raise AlreadyExists(archive=self.path)
        self.refuse()


class NewArchive(KeptFile):
    """An archive that was made through this mount: in the making, and afterwards."""

    __slots__ = ("_staging", "_storage", "name", "path", "writer")

    def __init__(self, tree: KnownTree, staging: Staging, storage: Storage, name: str) -> None:
        super().__init__(tree, ("new", name, time.monotonic_ns()), time.time_ns())
        self._staging = staging
        self._storage = storage
        self.name = name
        self.path = os.path.join(staging.folder, name)
        self.writer: NewArchiveWriter | None = None

    def attributes(self) -> Attributes:
        writer = self.writer
        if writer is not None:
            return writer.attributes()
        if self.name not in self._staging.published:
            return Attributes(0, self.mtime_ns)
        try:
            status = os.lstat(self.path)
        except OSError:
            raise StaleNode(member=self.name) from None
        return Attributes(status.st_size, status.st_mtime_ns, status.st_ino)

    def open(self) -> Reader:
        state = state_of(os.lstat(self.path))
        return WholeFile(self.tree, self.key, self.path, state).open()

    def open_writer(self, *, truncate: bool) -> Writer:
        if self.name in self._staging.published:
            raise AlreadyExists(member=self.name)
        if self.writer is None:
            self.writer = NewArchiveWriter(self, self._staging.folder)
        return self.writer

    def set_times(self, *, mtime_ns: int) -> None:
        """The time of a new archive is kept beyond the mount."""
        if self.name not in self._staging.published:
            super().set_times(mtime_ns=mtime_ns)
            return
        os.utime(self.path, ns=(mtime_ns, mtime_ns))
        self.keep_published()

    def removed(self) -> None:
        """Somebody removed it while it is being written."""
        self._staging.making.pop(self.name, None)
        if self.writer is not None:
            self.writer.give_up()
        self._storage.changed()

    def appeared(self) -> None:
        """It has its name."""
        self._storage.changed()

    def finished(self, *, published: bool) -> None:
        """The last handle is gone."""
        self.writer = None
        if published:
            self.keep_published()
        self._staging.making.pop(self.name, None)
        self._storage.changed()

    def keep_published(self) -> None:
        """From now on the file of that name is this one."""
        with contextlib.suppress(OSError):
            self._staging.published[self.name] = (state_of(os.lstat(self.path)), self)
        self._storage.changed()


class NewArchiveWriter(Writer):
    """The bytes of a new archive, in a hidden file."""

    def __init__(self, archive: NewArchive, folder: str) -> None:
        self._archive = archive
        self._lock = threading.RLock()
        self._fd, self._temporary = publishing.new_temporary(folder)
        self._mtime_ns = time.time_ns()
        self._time_was_set = False
        self._touched = False
        """Was anything ever written?  A file that is merely open is not yet wrong."""
        self._checked = False
        self._problem: ArchiveError | None = None
        """What was found wrong with what is there now, once that was checked."""
        self._published = False
        self._given_up = False

    # -- reading --

    def read_at(self, offset: int, size: int) -> bytes:
        with self._lock:
            size = min(size, os.fstat(self._fd).st_size - offset)
            return pread_exactly(self._fd, size, offset) if size > 0 else b""

    def attributes(self) -> Attributes:
        with self._lock:
            return Attributes(os.fstat(self._fd).st_size, self._mtime_ns, 0)

    # -- changing --

    def write_at(self, offset: int, data: bytes) -> None:
        with self._lock:
            self._begin_change()
            durable.write_all(self._fd, data, offset)

    def truncate(self, size: int) -> None:
        with self._lock:
            if size != os.fstat(self._fd).st_size:
                self._begin_change()
                os.ftruncate(self._fd, size)

    def set_times(self, *, mtime_ns: int) -> None:
        with self._lock:
            self._mtime_ns = mtime_ns
            self._time_was_set = True
            if self._published:
                os.utime(self._fd, ns=(mtime_ns, mtime_ns))

    def _begin_change(self) -> None:
        """An archive that was closed in a sound state and is written to again is taken back first."""
        if self._published:
            self._take_back()
        self._mtime_ns, self._time_was_set = time.time_ns(), False
        self._touched, self._checked, self._problem = True, False, None

    def _take_back(self) -> None:
        self._published = False
        if os.path.lexists(self._temporary):
            os.unlink(self._archive.path)
        else:  # it was renamed, where there are no hard links
            os.rename(self._archive.path, self._temporary)

    # -- the end --

    def sync(self) -> None:
        with self._lock:
            if self._touched and not self._published and not self._given_up:
                self._settle()

    def finish(self) -> None:
        with self._lock:
            told = self._checked or not self._touched
            try:
                self.sync()
            except ArchiveError:
                if not told:
                    raise
            finally:
                publishing.discard(self._temporary)
                self._archive.finished(published=self._published)

    def _settle(self) -> None:
        """Check it, once, and give it its name; raises ContentRefused or AlreadyExists, each time."""
        if not self._checked:
            try:
                self._check()
                self._publish()
            except ArchiveError as error:
                self._problem = error
            self._checked = True
        if self._problem is not None:
            raise self._problem

    def close(self) -> None:
        os.close(self._fd)

    def give_up(self) -> None:
        """It was removed: what is written is not kept."""
        with self._lock:
            self._given_up = True
            if self._published:
                self._published = False
                publishing.remove(self._archive.path)

    def _check(self) -> None:
        """Raises ContentRefused with the first thing that is wrong."""
        name = parse_file_name(self._archive.name)
        if name is None or name.later:
            raise ContentRefused(why_not(self._archive.name), member=self._archive.name)
        problem = _problem_in(self._temporary, name)
        if problem:
            raise ContentRefused(f"not a sound crawl archive: {problem}", member=self._archive.name)

    def _publish(self) -> None:
        if self._time_was_set:
            os.utime(self._fd, ns=(self._mtime_ns, self._mtime_ns))
        try:
            publishing.publish(self._fd, self._temporary, self._archive.path)
        except FileExistsError:
            raise AlreadyExists(member=self._archive.name) from None
        self._published = True
        self._archive.appeared()


def _problem_in(path: str, name: CrawlName) -> str:
    """What is wrong with an archive, or nothing."""
    try:
        archive = CrawlArchive(path, name)
    except ArchiveError as error:
        return one_line(error)
    try:
        archive.metadata()
        for member, problem in archive.check_all():
            return f"{quoted(member)}: {problem.problem}"
        return ""
    except ArchiveError as error:
        return one_line(error)
    finally:
        archive.close()
