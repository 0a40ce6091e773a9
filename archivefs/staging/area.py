"""The staging area: a private folder with a journal and numbered bodies, found again after a crash.

Content up to ``INLINE`` bytes travels in the journal, one fsync for both; larger content is a file named by its
number, made durable before the record that names it.  Nothing from an archive is ever part of a path here.

Threading: one lock guards the journal and the numbers; it is not held while a body is written.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import threading
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from archivefs.errors import BadOption, CorruptArchive, NotPermitted
from archivefs.staging import durable
from archivefs.staging.journal import Journal, Record

INLINE = 32 << 10
JOURNAL = "journal"
BODIES = "bodies"


class StagingArea:
    """A staging folder, created when the first change is made and removed when nothing is pending."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._journal: Journal | None = None
        self._last_body = 0

    @property
    def exists(self) -> bool:
        """Is there anything on disk?"""
        return os.path.lexists(self.folder)

    # -- reading what is there --

    def replay(self) -> Iterator[Record]:
        """The records an earlier mount has left; nothing when there is no area."""
        if not self.exists:
            return
        _check_private(self.folder)
        with self._lock:
            self._last_body = max((int(name) for name in self._bodies_on_disk()), default=0)
            journal = self._open_journal()
        yield from journal.records()

    @property
    def damaged_bytes(self) -> int:
        """How much of the journal's end could not be read: a record that was being written when the power went."""
        return self._journal.damaged_bytes if self._journal else 0

    # -- writing --

    def begin(self, fields: Mapping[str, Any]) -> bool:
        """Make the area, with *fields* as the first record, if there is none; says whether it was made."""
        with self._lock:
            if self._journal is not None:
                return False
            self._make_folders()
            _check_private(self.folder)
            try:
                self._open_journal().append(fields)
                durable.sync_folder(self.folder)
                durable.sync_folder(os.path.dirname(self.folder))
            except BaseException:
                # A journal without its first record must not be gone on with.
                self._close_journal()
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.folder, JOURNAL))
                raise
            return True

    def append(self, fields: Mapping[str, Any], payload: bytes = b"", *, sync: bool) -> tuple[int, int]:
        """Add a record; gives where its payload lies in the journal (start, length)."""
        with self._lock:
            if self._journal is None:
                raise CorruptArchive("the staging area was not begun", archive=self.folder)
            extent = self._journal.append(fields, payload, sync=sync)
            return extent.start, extent.length

    def sync(self) -> None:
        """Every record so far is on disk when this returns."""
        with self._lock:
            if self._journal is not None:
                self._journal.sync()

    def new_body(self) -> tuple[int, int]:
        """A new empty body: its number, and a descriptor the caller closes.  Gone names need no fsync: see ``keep``."""
        self._make_folders()
        with self._lock:
            self._last_body += 1
            number = self._last_body
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        return number, os.open(self._body_path(number), flags, 0o600)

    def open_body(self, number: int) -> int:
        """A descriptor for a body, for reading and writing."""
        return os.open(self._body_path(number), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)

    def open_journal_for_reading(self) -> int:
        """A descriptor of its own on the journal, for content that travels in it."""
        return os.open(os.path.join(self.folder, JOURNAL), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)

    def keep_body(self, fd: int) -> None:
        """Make a body's bytes and its name durable, before a record names it."""
        durable.sync_file(fd)
        durable.sync_folder(os.path.join(self.folder, BODIES))

    def drop_body(self, number: int) -> None:
        """Remove a body that nothing names any more."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._body_path(number))

    # -- the end --

    def discard(self, keep: Collection[int] = ()) -> None:
        """Throw everything away but the bodies numbered *keep*, which somebody still writes.

        The journal goes first, so that a crash on the way leaves nothing to replay.
        """
        with self._lock:
            self._close_journal()
            if not self.exists:
                return
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.folder, JOURNAL))
            durable.sync_folder(self.folder)
            for name in self._bodies_on_disk():
                if int(name) not in keep:
                    os.unlink(os.path.join(self.folder, BODIES, name))
            if not keep:
                shutil.rmtree(self.folder, ignore_errors=True)

    def close(self) -> None:
        """Close the journal; what is pending stays on disk."""
        with self._lock:
            if self._journal is not None:
                self._journal.sync()
            self._close_journal()

    def _make_folders(self) -> None:
        """Nothing is made above the folder that was named for it: another disk may belong there."""
        for folder in (os.path.dirname(self.folder), self.folder, os.path.join(self.folder, BODIES)):
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700)

    def _close_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _open_journal(self) -> Journal:
        if self._journal is None:
            self._journal = Journal(os.path.join(self.folder, JOURNAL))
        return self._journal

    def _body_path(self, number: int) -> str:
        return os.path.join(self.folder, BODIES, str(number))

    def _bodies_on_disk(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return [name for name in os.listdir(os.path.join(self.folder, BODIES)) if name.isdecimal()]
        return []


def _check_private(folder: str) -> None:
    """Raises NotPermitted for a folder that is somebody else's or a link: it could lead anywhere."""
    state = os.lstat(folder)
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid():
        raise NotPermitted(
            "the staging area is not a folder of yours", archive=folder, advice="name another: -o staging=DIR"
        )
    if state.st_mode & 0o077:
        os.chmod(folder, 0o700)


def area_of(archive: str, staging: str | None) -> StagingArea:
    """The staging area of *archive*, made when it is needed; raises BadOption if it could not be made in *staging*."""
    if staging is not None:
        _check_place(os.path.abspath(staging))
    return StagingArea(default_folder(archive, staging))


def _check_place(staging: str) -> None:
    found = staging if os.path.lexists(staging) else os.path.dirname(staging)
    if not os.path.isdir(found):
        problem = "it is no folder" if os.path.lexists(found) else "there is no such folder"
        raise BadOption(f"option 'staging' makes no sense: {problem}", archive=found)
    if not os.access(found, os.W_OK | os.X_OK):
        raise BadOption("option 'staging' makes no sense: you may not write there", archive=found)


def default_folder(archive: str, staging: str | None) -> str:
    """Where the staging area of *archive* is: in *staging*, a folder for each archive, or hidden beside it."""
    folder, name = os.path.split(os.path.realpath(archive))
    if staging is None:
        return os.path.join(folder, f".{name}.archivefs-staging")
    place = os.path.realpath(archive).encode("utf-8", "surrogateescape")
    return os.path.join(os.path.abspath(staging), f"{name}.{hashlib.sha256(place).hexdigest()[:12]}")
