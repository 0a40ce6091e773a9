"""CrawlArchive: one opened crawl zip, its members by name.

Used by the storage.  Names are taken as they are or not at all: what could lead out of a folder, or could not stand in
one, is left out and noted.  Members that share bytes are all unreadable.  Sizes are counted on what is unpacked.

Any thread may ask; the one table that is made when first needed is under a lock.
"""

from __future__ import annotations

import re
import struct
import threading
from collections.abc import Iterator
from typing import Union

from archivefs.caches import ByteCache
from archivefs.errors import ArchiveError, CorruptArchive, CorruptMember, EncryptedMember, LimitExceeded, NotFound
from archivefs.formats.crawls import metadata
from archivefs.formats.crawls.maps import MAP_SUFFIX, MAX_MEMBER_BYTES
from archivefs.formats.crawls.metadata import CRAWL_JSON, REPORT_JSON, Metadata
from archivefs.formats.crawls.naming import CrawlName
from archivefs.tree import Reader
from archivefs.zips.directory import ZipDirectory, ZipLimits
from archivefs.zips.members import open_member, stream_member

MAX_MEMBERS = 100_000
MAX_DIRECTORY_BYTES = 64 << 20
MAX_PATH_BYTES = 4096
"""A longer one could not be opened by anybody."""
MAX_DEPTH = 200
MAX_FOLDERS = 200_000
MAX_NAME_BYTES = 255
MAX_WARNINGS = 100

_LIMITS = ZipLimits(max_entries=MAX_MEMBERS, max_directory_bytes=MAX_DIRECTORY_BYTES)
_LOCAL = struct.Struct("<4s22xHH")
_LOCAL_SIGNATURE = b"PK\3\4"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DRIVE = re.compile(r"[A-Za-z]:")

Folder = dict[str, Union[int, "Folder"]]
"""A folder inside the archive: a member's number, or another folder, by name."""


class CrawlArchive:
    """An opened archive; ``close`` lets go of the file, but for readers that are still open."""

    def __init__(self, path: str, name: CrawlName | None, *, fd: int | None = None) -> None:
        """Raises UnreadableArchive or CorruptArchive: a bad zip directory."""
        self.name = name
        self.directory = ZipDirectory.open(path, limits=_LIMITS, fd=fd)
        self.warnings: list[str] = []
        self.root: Folder = {}
        self.members: dict[str, int] = {}
        """Every member that is shown, by its whole name."""
        self._lock = threading.Lock()
        self._overlapping: frozenset[int] | None = None
        try:
            self._fill()
        except BaseException:
            self.directory.close()
            raise

    @property
    def weight(self) -> int:
        """What it takes in memory, about."""
        return len(self.directory.records) + 400 * len(self.directory)

    def close(self) -> None:
        """Let go."""
        self.directory.close()

    # -- reading --

    def map_files(self) -> list[str]:
        """The members that are map files, sorted."""
        return sorted(name for name in self.members if name.endswith(MAP_SUFFIX))

    def metadata(self) -> Metadata:
        """The crawl's metadata; raises CorruptArchive, for without them the archive is unreadable."""
        name = self.metadata_member()
        try:
            if self.directory.size(self.members[name]) > metadata.MAX_BYTES:
                raise LimitExceeded(f"more than the {metadata.MAX_BYTES} bytes allowed")
            return metadata.parse(b"".join(self.pieces(self.members[name])), self.name)
        except ArchiveError as error:
            what = "encrypted" if isinstance(error, EncryptedMember) else error.problem
            raise CorruptArchive(f"{name}: {what}", archive=self.directory.path) from error

    def metadata_member(self) -> str:
        """``crawl.json``, or in the last revision ``report.json``; raises CorruptArchive where there is none."""
        if CRAWL_JSON in self.members:
            return CRAWL_JSON
        if REPORT_JSON in self.members and (self.name is None or self.name.later):
            return REPORT_JSON
        raise CorruptArchive(f"it has no {CRAWL_JSON}", archive=self.directory.path)

    def pieces(self, member: int) -> Iterator[bytes]:
        """The content of a member, checked; raises CorruptMember and its kind at the latest before the last piece."""
        self._check(member)
        return stream_member(self.directory, member)

    def map_pieces(self, name: str) -> Iterator[bytes]:
        """The content of a map file; raises NotFound."""
        member = self.members.get(name) if name.endswith(MAP_SUFFIX) else None
        if member is None:
            raise NotFound(member=name)
        return self.pieces(member)

    def open_member(self, member: int, cache: ByteCache) -> Reader:
        """Open a member at any place."""
        self._check(member)
        return open_member(self.directory, member, cache)

    def check_all(self) -> Iterator[tuple[str, ArchiveError]]:
        """Read everything; gives the members that cannot be read and why."""
        for name, member in self.members.items():
            try:
                for _ in self.pieces(member):
                    pass
            except ArchiveError as error:
                yield name, error

    def _check(self, member: int) -> None:
        directory = self.directory
        if directory.size(member) > MAX_MEMBER_BYTES:
            problem = f"{directory.size(member)} bytes are more than the {MAX_MEMBER_BYTES} allowed"
            raise LimitExceeded(problem, archive=directory.path, member=directory.name(member))
        directory.check(member)
        if member in self._overlaps():
            raise directory.corrupt(member, "its bytes overlap another member's", "zip-overlap")

    # -- names --

    def _fill(self) -> None:
        directory = self.directory
        folders = 0
        for member in range(len(directory)):
            raw = directory.name(member)
            parts = self._parts(raw, directory.size(member))
            if parts is None:
                continue
            folders += self._place(parts, member, raw, MAX_FOLDERS - folders)
        self.members = dict(_files(self.root))

    def _parts(self, raw: bytes, size: int) -> list[str] | None:
        """The names that lead to a member (the last is empty for a folder); None if it is not shown."""
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            self._skip(raw, "its name is not UTF-8")
            return None
        parts = name.split("/")
        within = parts[:-1] if len(parts) > 1 and not parts[-1] and not size else parts
        problem = _problem_with(name, within)
        if problem:
            self._skip(raw, problem)
            return None
        return parts

    def _place(self, parts: list[str], member: int, raw: bytes, spare: int) -> int:
        """Put a member in its folder; gives how many folders that took."""
        folder, made = self.root, 0
        for part in parts[:-1]:
            inner = folder.get(part)
            if isinstance(inner, int):
                self._skip(raw, f"{part!r} is a file and a folder; the file is not shown")
            if not isinstance(inner, dict):
                if made == spare:
                    self._skip(raw, "its name asks for too many folders")
                    return made
                inner = folder[part] = {}
                made += 1
            folder = inner
        last = parts[-1]
        if last and isinstance(folder.get(last), dict):
            self._skip(raw, "it is a file and a folder; the file is not shown")
        elif last:
            if last in folder:
                self._skip(raw, "it is there more than once; the last counts")
            folder[last] = member
        return made

    def _skip(self, raw: bytes, problem: str) -> None:
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(str(CorruptMember(problem, member=raw)))

    # -- bombs --

    def _overlaps(self) -> frozenset[int]:
        """The members whose bytes, from local header to the end of the data, are also another's."""
        with self._lock:
            if self._overlapping is None:
                self._overlapping = frozenset(self._find_overlaps())
            return self._overlapping

    def _find_overlaps(self) -> Iterator[int]:
        directory = self.directory
        holder, reach = -1, -1
        for member in sorted(range(len(directory)), key=directory.offset):
            start = directory.offset(member)
            if start + _LOCAL.size > directory.file_size:
                continue
            signature, name, extra = _LOCAL.unpack(directory.source.pread(_LOCAL.size, start))
            if signature != _LOCAL_SIGNATURE:
                continue  # no member begins there, so there are no bytes of one
            if start < reach:
                yield member
                yield holder
            end = start + _LOCAL.size + name + extra + directory.compressed_size(member)
            if end > reach:
                holder, reach = member, end


def _problem_with(name: str, parts: list[str]) -> str:
    """Why a member of that name is not shown; empty if it is."""
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or _DRIVE.match(name):
        return "its name could lead out of the archive"
    if _CONTROL.search(name):
        return "its name has control characters"
    if (
        len(parts) > MAX_DEPTH
        or len(name.encode()) > MAX_PATH_BYTES
        or any(len(part.encode()) > MAX_NAME_BYTES for part in parts)
    ):
        return "its name is too long"
    return ""


def _files(root: Folder) -> Iterator[tuple[str, int]]:
    """Every member by its whole name.  Not recursive: folders may be a thousand deep."""
    waiting: list[tuple[str, Folder]] = [("", root)]
    while waiting:
        above, folder = waiting.pop()
        for name, inner in folder.items():
            if isinstance(inner, dict):
                waiting.append((f"{above}{name}/", inner))
            else:
                yield above + name, inner
