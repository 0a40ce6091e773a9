"""``archivefs verify`` for a zip: structure, names, and the content of every member, in the archive's order.

Codes of findings (an error unless it says notice):

=================  ==========================================================================================
zip-structure      the end records and the directory contradict each other; what is there was read all the same
zip-trailing       notice: bytes follow the end of the archive, or its comment is cut
zip-comment        notice: the comment holds what could be the end of another zip
zip-prefix         notice: something stands before the archive, such as a program that unpacks it
zip-ratio          notice: the members unpack to more than 1000 times the size of the file
zip-header         a member is not where the directory says, or reaches out of the archive
zip-overlap        a member shares bytes with another
zip-size           a member has more or fewer bytes than declared
zip-data           a member's compressed data are damaged
zip-crc            a member's content is not what it was
zip-limit          a member asks for more memory to unpack than allowed
zip-method         a member is compressed in a way that is not known here, or lies in another part of a split zip
zip-encrypted      notice: a member is encrypted, so its content cannot be checked; an error with ``--complete``
zip-name           notice: a name is not shown as it is
zip-duplicate      notice: a name is there more than once
=================  ==========================================================================================

Members are read in threads (the decompressors let others run meanwhile), many small ones at a time.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet

from archivefs.errors import (
    ArchiveError,
    CorruptMember,
    EncryptedMember,
    LimitExceeded,
    SourceChanged,
    UnsupportedMember,
)
from archivefs.format import Finding, Level, Opening, VerifyRequest
from archivefs.formats.zip.folders import Folders
from archivefs.zips.directory import ZipDirectory
from archivefs.zips.members import stream_member

SUSPICIOUS_RATIO = 1000
BATCH_MEMBERS = 256
BATCH_BYTES = 4 << 20
PROGRESS_INTERVAL_S = 0.2

_NOTICES = frozenset({"zip-trailing", "zip-comment"})


def verify_zip(path: str, opening: Opening, request: VerifyRequest) -> Iterator[Finding]:
    """Findings as they are met; raises UnreadableArchive, CorruptArchive or SourceChanged."""
    directory = ZipDirectory.open(path)
    try:
        folders = Folders(directory, opening.options.get("encoding") or "utf-8")
        yield from _structure(directory)
        with _Checker(directory, folders, request) as checker:
            yield from checker.findings()
    finally:
        directory.close()


def _structure(directory: ZipDirectory) -> Iterator[Finding]:
    for problem in directory.problems:
        level = Level.NOTICE if problem.code in _NOTICES else Level.ERROR
        yield Finding(problem.code, level, problem.where, problem.message)
    if directory.start:
        yield Finding("zip-prefix", Level.NOTICE, "", f"{directory.start} bytes stand before the archive")
    total = sum(map(directory.size, range(len(directory))))
    if total > SUSPICIOUS_RATIO * directory.file_size:
        message = f"its members unpack to {total} bytes, the file has {directory.file_size}"
        yield Finding("zip-ratio", Level.NOTICE, "", message)


class _Checker:
    """Reads all members, in batches, a few batches at a time."""

    def __init__(self, directory: ZipDirectory, folders: Folders, request: VerifyRequest) -> None:
        self._directory = directory
        self._folders = folders
        self._request = request
        self._jobs = request.jobs or len(os.sched_getaffinity(0))
        self._pool = ThreadPoolExecutor(self._jobs, thread_name_prefix="verify")
        self._lock = threading.Lock()
        self._done = 0
        self._total = sum(self._cost(entry) for entry in range(len(directory)))
        self._stop = False

    def __enter__(self) -> _Checker:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop = True
        self._pool.shutdown(cancel_futures=True)

    def findings(self) -> Iterator[Finding]:
        """Those of all members, in order."""
        waiting: deque[Future[list[Finding]]] = deque()
        for batch in self._batches():
            waiting.append(self._pool.submit(self._check_batch, batch))
            if len(waiting) > 2 * self._jobs:
                yield from self._result(waiting.popleft())
        while waiting:
            yield from self._result(waiting.popleft())
        self._request.progress(self._total, self._total)

    def _batches(self) -> Iterator[range]:
        start = cost = 0
        for entry in range(len(self._directory)):
            cost += self._cost(entry)
            if cost >= BATCH_BYTES or entry - start >= BATCH_MEMBERS:
                yield range(start, entry + 1)
                start, cost = entry + 1, 0
        if start < len(self._directory):
            yield range(start, len(self._directory))

    def _cost(self, entry: int) -> int:
        """What a member counts for in the progress: bytes of the file, and a little for itself."""
        return min(self._directory.compressed_size(entry), self._directory.file_size) + 64

    def _result(self, future: Future[list[Finding]]) -> list[Finding]:
        while True:
            self._request.progress(min(self._done, self._total), self._total)
            try:
                return future.result(PROGRESS_INTERVAL_S)
            except NotYet:
                if future.done():
                    raise

    def _check_batch(self, batch: range) -> list[Finding]:
        findings: list[Finding] = []
        for entry in batch:
            findings += self._check_name(entry)
            findings += self._check_content(entry)
            with self._lock:
                self._done += self._cost(entry)
        return findings

    def _check_name(self, entry: int) -> Iterator[Finding]:
        folder = self._folders.folder_of(entry)
        if folder is None:
            return
        raw = self._directory.name(entry)
        ident = 2 * entry + 2
        shown = "/".join([*self._folders.parts_of(folder), self._folders.settled_name(folder, ident)])
        if shown.encode() == raw:
            return
        code = "zip-duplicate" if self._folders.is_made_up(ident) else "zip-name"
        yield Finding(code, Level.NOTICE, self._where(entry), f"shown as {shown}")

    def _check_content(self, entry: int) -> Iterator[Finding]:
        try:
            for _ in stream_member(self._directory, entry):
                if self._stop:
                    return
        except SourceChanged:
            raise
        except ArchiveError as error:
            code, level = self._judged(error)
            yield Finding(code, level, self._where(entry), error.problem)

    def _judged(self, error: ArchiveError) -> tuple[str, Level]:
        if isinstance(error, EncryptedMember):
            return "zip-encrypted", Level.ERROR if self._request.complete else Level.NOTICE
        if isinstance(error, UnsupportedMember):
            return "zip-method", Level.ERROR
        if isinstance(error, LimitExceeded):
            return "zip-limit", Level.ERROR
        code = error.code if isinstance(error, CorruptMember) else ""
        return code or "zip-data", Level.ERROR

    def _where(self, entry: int) -> str:
        return self._directory.name(entry).decode("utf-8", "backslashreplace")
