"""ZipDirectory: an opened zip, its central directory parsed in one pass, no Python object per entry.

Used by ``members.py`` and by every format that is a zip.  What is kept are the directory's own bytes and a few
flat arrays; every question about an entry is answered from there.  The directory is what counts: local headers
are only asked where the data begin, and ``check`` (in ``places.py``) refuses a member whose data reach into
another member, into the directory or out of the file.

Any thread may ask anything.  Nothing changes after opening but two tables that are made when first needed,
each under the lock.  Where an index is kept (``index.py``), the arrays and the bytes may be mapped from there.
"""

from __future__ import annotations

import itertools
import struct
import threading
from array import array
from bisect import bisect_right
from typing import NamedTuple

from archivefs.errors import CorruptArchive, CorruptMember, UnreadableArchive
from archivefs.zips import extra as extra_fields
from archivefs.zips.ahead import Ahead
from archivefs.zips.endrecord import Layout, Problem, find_layout
from archivefs.zips.index import ArchiveIndex, Bytes, IndexFolder
from archivefs.zips.places import AES, FLAGS_ENCRYPTED, Place, Places
from archivefs.zips.source import SourceFile

__all__ = ["Place", "Problem", "ZipDirectory", "ZipLimits"]

RECORD_BYTES = 46
MAX_PROBLEMS = 100
MAX_SIZE = 2**63 - 1
"""The largest size a file system can tell; more is a lie."""

_CHAIN = struct.Struct("<I24xHHH8xI")
_CHAIN_SIGNATURE = 0x02014B50
_SIGNING_SIGNATURE = 0x05054B50
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_LENGTHS = struct.Struct("<HHH")
_SIZES = struct.Struct("<II")
_STATUS = struct.Struct("<II4xI2xH")
_ALL16, _ALL32 = 0xFFFF, 0xFFFFFFFF
_PART = "directory"
_LINK_TYPE = 0o12
_UNIX_HOSTS = (3, 19)

_owners = itertools.count(1)


class ZipLimits(NamedTuple):
    """What is too much."""

    max_entries: int = 20_000_000
    max_directory_bytes: int = 2 << 30


class ZipDirectory:
    """An opened zip."""

    def __init__(
        self, source: SourceFile, layout: Layout, limits: ZipLimits, index: ArchiveIndex | None = None
    ) -> None:
        self.source = source
        self.path = source.path
        self.fd = source.fd
        self.file_size = source.size
        self.start = layout.start
        self.comment = layout.comment
        self.problems: list[Problem] = layout.problems[:MAX_PROBLEMS]
        self.cache_owner = ("zip", next(_owners))
        """What the keys of its entries in the shared cache begin with."""
        self.index = index
        """Where tables of this archive are kept between mounts."""
        self.records: Bytes = b""
        """The central directory as it is in the file."""
        self.positions = array("I")
        """Where each entry's record begins in ``records``."""
        self._offsets = array("Q")
        self._lock = threading.Lock()
        self._by_name: array[int] | None = None
        self._verified: bytearray | None = None
        self._closed = False
        if not self._recall(layout, limits):
            self._parse(layout, limits)
        self._places = Places(self, self._offsets, layout.directory_start)
        self.ahead: Ahead | None = None
        """Told of every member that is opened, where a format knows what will come next."""

    @classmethod
    def open(
        cls,
        path: str,
        *,
        limits: ZipLimits = ZipLimits(),  # noqa: B008
        fd: int | None = None,
        index: IndexFolder | None = None,
    ) -> ZipDirectory:
        """Open the zip at *path*; raises UnreadableArchive (no zip, or the system says no) or CorruptArchive.

        *fd*, if given, is that file opened already; it is closed with the archive, or at once if this raises.
        *index* is where what was parsed is kept for the next time.
        """
        source = SourceFile(path, fd=fd)
        try:
            return cls(source, find_layout(source), limits, index.of(source) if index else None)
        except CorruptMember as error:
            source.release()
            raise CorruptArchive(error.problem, archive=path) from error
        except BaseException:
            source.release()
            raise

    def __len__(self) -> int:
        return len(self.positions)

    def close(self) -> None:
        """Let go of the file; open readers keep it until they are closed."""
        if not self._closed:
            self._closed = True
            self.source.release()

    def unchanged(self) -> None:
        """Raise SourceChanged when the open file is not as it was; looks at most once a second."""
        self.source.watch()

    # -- what the directory says of an entry --

    def name(self, i: int) -> bytes:
        """The name as it is in the central directory."""
        at = self.positions[i]
        return self.records[at + 46 : at + 46 + _U16.unpack_from(self.records, at + 28)[0]]

    def made_by(self, i: int) -> int:
        """The system it was made on (upper byte) and the version of the maker."""
        return int(_U16.unpack_from(self.records, self.positions[i] + 4)[0])

    def flags(self, i: int) -> int:
        """The general purpose flags."""
        return int(_U16.unpack_from(self.records, self.positions[i] + 8)[0])

    def method(self, i: int) -> int:
        """The compression method."""
        return int(_U16.unpack_from(self.records, self.positions[i] + 10)[0])

    def crc(self, i: int) -> int:
        """The CRC-32 of the content."""
        return int(_U32.unpack_from(self.records, self.positions[i] + 16)[0])

    def size(self, i: int) -> int:
        """The size of the content; a size no file can have is given as the largest one possible."""
        size = _U32.unpack_from(self.records, self.positions[i] + 24)[0]
        return int(size) if size != _ALL32 else min(self._zip64(i)[0], MAX_SIZE)

    def compressed_size(self, i: int) -> int:
        """How many bytes it takes in the archive."""
        size = _U32.unpack_from(self.records, self.positions[i] + 20)[0]
        return int(size) if size != _ALL32 else self._zip64(i)[1]

    def offset(self, i: int) -> int:
        """Where its local header begins in the file."""
        return self._offsets[i]

    def mtime_ns(self, i: int) -> int:
        """When it was last changed; never impossible."""
        dos = _U32.unpack_from(self.records, self.positions[i] + 12)[0]
        extra = self.extra(i)
        return extra_fields.mtime_ns(extra, dos) if extra else extra_fields.dos_time_ns(dos)

    def size_time_crc(self, i: int) -> tuple[int, int, int]:
        """``size``, ``mtime_ns`` and ``crc`` at once: asked for by the million."""
        dos, crc, size, extra = _STATUS.unpack_from(self.records, self.positions[i] + 12)
        if extra or size == _ALL32:
            return self.size(i), self.mtime_ns(i), crc
        return size, extra_fields.dos_time_ns(dos), crc

    def is_symlink(self, i: int) -> bool:
        """Was it a symbolic link on Unix?"""
        at = self.positions[i]
        return self.records[at + 41] >> 4 == _LINK_TYPE and self.records[at + 5] in _UNIX_HOSTS

    def unix_mode(self, i: int) -> int:
        """Type and permission bits; 0 if it was not made on Unix."""
        if self.made_by(i) >> 8 not in _UNIX_HOSTS:
            return 0
        return int(_U16.unpack_from(self.records, self.positions[i] + 40)[0])

    def extra(self, i: int) -> bytes:
        """The extra fields."""
        at = self.positions[i]
        name, extra, _ = _LENGTHS.unpack_from(self.records, at + 28)
        return self.records[at + 46 + name : at + 46 + name + extra] if extra else b""

    def comment_of(self, i: int) -> bytes:
        """The comment."""
        at = self.positions[i]
        name, extra, comment = _LENGTHS.unpack_from(self.records, at + 28)
        at += 46 + name + extra
        return self.records[at : at + comment]

    def encrypted(self, i: int) -> bool:
        """Is a password needed?"""
        return bool(self.flags(i) & FLAGS_ENCRYPTED) or self.method(i) == AES

    def find(self, raw_name: bytes) -> int | None:
        """The last entry of exactly that name, or None."""
        table = self._name_table()
        key = _name_key(raw_name)
        at = bisect_right(table, key | _ALL32) - 1
        while at >= 0 and table[at] >= key:
            i = table[at] & _ALL32
            if self.name(i) == raw_name:
                return i
            at -= 1
        return None

    def _name_table(self) -> array[int]:
        """Hash of the name and number of the entry, in order.  Python's own hash: nobody can aim at it."""
        with self._lock:
            if self._by_name is None:
                name = self.name
                self._by_name = array("Q", sorted(_name_key(name(i)) | i for i in range(len(self))))
            return self._by_name

    # -- can it be read? --

    def check(self, i: int) -> None:
        """Raise EncryptedMember, UnsupportedMember or CorruptMember if the member cannot be read."""
        self._places.locate(i)

    def locate(self, i: int) -> Place:
        """Where the data of a member lie; raises as ``check`` does."""
        return self._places.locate(i)

    def corrupt(self, i: int, problem: str, code: str = "zip-header") -> CorruptMember:
        """The error for a damaged member."""
        return CorruptMember(problem, archive=self.path, member=self.name(i), code=code)

    # -- zip64 --

    def has_zip64_sizes(self, i: int) -> bool:
        """Are the values there that the record leaves to the zip64 field?"""
        return self._zip64_values(i) is not None

    def _zip64_values(self, i: int) -> tuple[int, ...] | None:
        packed, size = _SIZES.unpack_from(self.records, self.positions[i] + 20)
        offset = _U32.unpack_from(self.records, self.positions[i] + 42)[0]
        return extra_fields.zip64_values(self.extra(i), (packed, size, offset).count(_ALL32))

    def _zip64(self, i: int) -> tuple[int, int, int]:
        """Size, compressed size and offset where any of them is in the zip64 field (in this order, APPNOTE 4.5.3)."""
        packed, size = _SIZES.unpack_from(self.records, self.positions[i] + 20)
        offset = _U32.unpack_from(self.records, self.positions[i] + 42)[0]
        values = iter(self._zip64_values(i) or ())
        size = next(values, size) if size == _ALL32 else size
        packed = next(values, packed) if packed == _ALL32 else packed
        offset = next(values, offset) if offset == _ALL32 else offset
        return size, packed, offset

    # -- remembering what was found right --

    def verified(self, i: int) -> bool:
        """Was the CRC of the whole member found right since the archive was opened?"""
        marks = self._verified
        return marks is not None and bool(marks[i >> 3] & 1 << (i & 7))

    def mark_verified(self, i: int) -> None:
        """Remember that the member's CRC is right."""
        with self._lock:
            if self._verified is None:
                self._verified = bytearray((len(self) + 7) // 8)
            self._verified[i >> 3] |= 1 << (i & 7)

    # -- parsing --

    def _recall(self, layout: Layout, limits: ZipLimits) -> bool:
        """Take what an earlier mount has kept, if there is anything."""
        kept = self.index.load(_PART) if self.index else None
        if kept is None:
            return False
        records, positions, offsets = kept.bytes("records"), kept.numbers("positions"), kept.numbers("offsets")
        length = layout.directory_end - layout.directory_start
        if len(records) != length or length > limits.max_directory_bytes or len(positions) > limits.max_entries:
            return False
        self.records, self.positions, self._offsets = records, positions, offsets
        self._note_count(layout)
        return True

    def _keep(self) -> None:
        if self.index and self.index.worth(len(self)):
            self.index.save(_PART, {"records": self.records, "positions": self.positions, "offsets": self._offsets})

    def _parse(self, layout: Layout, limits: ZipLimits) -> None:
        length = layout.directory_end - layout.directory_start
        if length > limits.max_directory_bytes:
            raise UnreadableArchive(f"its directory of {length} bytes is larger than the limit", archive=self.path)
        self.records = self.source.pread(length, layout.directory_start)
        used = self._chain(limits.max_entries)
        if used not in (length, layout.directory_size):
            problem = f"record {len(self) + 1} of the central directory is damaged"
            raise CorruptArchive(problem, archive=self.path, advice="mend it with zip -FF")
        self._note_count(layout)
        self._place_offsets(layout.start)
        self._keep()

    def _chain(self, max_entries: int) -> int:
        """Walk from record to record; gives how many bytes belong to records."""
        records, unpack, at = self.records, _CHAIN.unpack_from, 0
        add_position, add_offset = self.positions.append, self._offsets.append
        last = len(records) - RECORD_BYTES
        while at <= last:
            signature, name, extra, comment, offset = unpack(records, at)
            if signature != _CHAIN_SIGNATURE:
                break
            following = at + RECORD_BYTES + name + extra + comment
            add_position(at)
            add_offset(offset)
            at = following
        if len(self.positions) > max_entries:
            raise UnreadableArchive(f"it has more than the {max_entries} entries allowed", archive=self.path)
        if at + 6 <= len(records) and _U32.unpack_from(records, at)[0] == _SIGNING_SIGNATURE:
            at += 6 + _U16.unpack_from(records, at + 4)[0]
        return at

    def _note_count(self, layout: Layout) -> None:
        mask = -1 if layout.exact_count else _ALL16
        if len(self) & mask != layout.entries:
            message = f"the end record counts {layout.entries} entries, there are {len(self)}"
            self.problems.append(Problem("zip-structure", "", message))

    def _place_offsets(self, start: int) -> None:
        """Put in the zip64 offsets and add where the archive starts."""
        offsets, at = self._offsets, 0
        for _ in range(offsets.count(_ALL32)):
            at = offsets.index(_ALL32, at)
            offsets[at] = min(self._zip64(at)[2], MAX_SIZE)
            at += 1
        if start:
            self._offsets = array("Q", [offset + start for offset in offsets])


def _name_key(name: bytes) -> int:
    return (hash(name) & _ALL32) << 32
