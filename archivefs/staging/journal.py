"""The journal: records with checksums, appended to one file.

A record is a JSON object and, where small content travels with it, the bytes themselves:

    "AJ" length-of-json:u32 length-of-payload:u64 crc32-of-both:u32  json  payload        (little endian)

A record cut off or damaged ends the journal: it was never acknowledged, since ``append`` with ``sync`` returns only
when the bytes are on disk.  Threading: the owner guards it.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from archivefs.errors import CorruptArchive, LimitExceeded
from archivefs.staging import durable
from archivefs.tree import Extent

HEADER = struct.Struct("<2sIQI")
MAGIC = b"AJ"
MAX_JSON = 1 << 20
MAX_PAYLOAD = 1 << 20
MAX_FIRST = 4096
"""The first record, which is durable before any other, is never larger."""


class Record(NamedTuple):
    """One record, and where its payload lies in the journal."""

    fields: Mapping[str, Any]
    payload: Extent


class Journal:
    """An append-only file of records."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._end = 0
        self._synced = 0
        """Up to here the bytes are on disk."""
        self._doubtful = False
        """A sync has failed.  The kernel may have dropped what it could not write, and would not try it again."""
        self.damaged_bytes = 0

    def records(self) -> Iterator[Record]:
        """Every whole record from the beginning; what follows the last one is cut off afterwards."""
        size = os.fstat(self._fd).st_size
        at = 0
        while (record := self._record_at(at, size)) is not None:
            at = record.payload.start + record.payload.length
            yield record
        if not at and size > MAX_FIRST:
            # Not one that was being begun when its process died: this held changes.
            raise CorruptArchive("the beginning of the journal is damaged", archive=self.path)
        self._end = self._synced = at
        self.damaged_bytes = size - at
        if self.damaged_bytes:
            os.ftruncate(self._fd, at)

    def append(self, fields: Mapping[str, Any], payload: bytes = b"", *, sync: bool = True) -> Extent:
        """Add a record; with *sync* it, and every one before it, is on disk when this returns."""
        text = json.dumps(fields, separators=(",", ":")).encode()
        if len(text) > MAX_JSON or len(payload) > MAX_PAYLOAD:
            # It could not be read back, so it must not be acknowledged.
            raise LimitExceeded("the change is too large to be written down", archive=self.path)
        crc = zlib.crc32(payload, zlib.crc32(text))
        start = self._end
        try:
            durable.write_all(self._fd, HEADER.pack(MAGIC, len(text), len(payload), crc) + text + payload, start)
        except OSError:
            # Half a record must not stay in the way of the next one.
            os.ftruncate(self._fd, start)
            raise
        self._end = start + HEADER.size + len(text) + len(payload)
        if sync:
            self.sync()
        return Extent(self._fd, self._end - len(payload), len(payload))

    def sync(self) -> None:
        """Everything appended is on disk when this returns."""
        if self._synced == self._end:
            return
        if self._doubtful:
            durable.write_all(self._fd, os.pread(self._fd, self._end - self._synced, self._synced), self._synced)
        self._doubtful = True
        durable.sync_file(self._fd)
        self._synced, self._doubtful = self._end, False

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _record_at(self, at: int, size: int) -> Record | None:
        header = os.pread(self._fd, HEADER.size, at)
        if len(header) < HEADER.size:
            return None
        magic, text_length, payload_length, crc = HEADER.unpack(header)
        start = at + HEADER.size + text_length
        fits = text_length <= MAX_JSON and payload_length <= MAX_PAYLOAD and start + payload_length <= size
        if magic != MAGIC or not fits:
            return None
        text = os.pread(self._fd, text_length, at + HEADER.size)
        payload = os.pread(self._fd, payload_length, start)
        if zlib.crc32(payload, zlib.crc32(text)) != crc:
            return None
        return Record(json.loads(text), Extent(self._fd, start, payload_length))
