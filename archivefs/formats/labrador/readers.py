"""Readers of the files of a site: with the archive's time, and on request with a check of the digest.

Any thread may use any reader.
"""

from __future__ import annotations

import hashlib
import threading

from archivefs.errors import CorruptMember
from archivefs.tree import Attributes, Extent, Reader

_CATCH_UP_BYTES = 1 << 20


class SiteReader(Reader):
    """Another reader under the attributes that its file has."""

    def __init__(self, inner: Reader, attributes: Attributes) -> None:
        self._inner = inner
        self._attributes = attributes

    def read_at(self, offset: int, size: int) -> bytes:
        return self._inner.read_at(offset, size)

    def attributes(self) -> Attributes:
        return self._attributes

    def extent(self) -> Extent | None:
        return self._inner.extent()

    def close(self) -> None:
        self._inner.close()


class CheckedReader(SiteReader):
    """A reader that hands out the last byte only after the digest of all was found right (``-o check``).

    The kernel never reads beyond the size, so the last byte is the last chance.  The lock guards the running digest.
    """

    def __init__(self, inner: Reader, attributes: Attributes, *, digest: str, member: str) -> None:
        super().__init__(inner, attributes)
        self._expected = digest
        self._member = member
        self._lock = threading.Lock()
        self._digest = hashlib.sha256()
        self._position = 0
        self._right = False
        if attributes.size == 0:
            self._judge()

    def read_at(self, offset: int, size: int) -> bytes:
        data = self._inner.read_at(offset, size)
        if self._right or not data:
            return data
        with self._lock:
            self._take(offset, data)
            if offset + len(data) >= self._attributes.size:
                self._catch_up()
                self._judge()
        return data

    def extent(self) -> Extent | None:
        return self._inner.extent() if self._right else None

    def _take(self, offset: int, data: bytes) -> None:
        """Into the running digest, if it goes on just here."""
        if offset <= self._position < offset + len(data):
            self._digest.update(memoryview(data)[self._position - offset :])
            self._position = offset + len(data)

    def _catch_up(self) -> None:
        total = self._attributes.size
        while self._position < total:
            piece = self._inner.read_at(self._position, min(_CATCH_UP_BYTES, total - self._position))
            if not piece:
                break
            self._take(self._position, piece)

    def _judge(self) -> None:
        """Raise CorruptMember if the digest of all that was read is not the one promised."""
        digest = self._digest.hexdigest()
        self._right = digest == self._expected
        if not self._right:
            raise CorruptMember(f"its digest is {digest}, the manifest has another", member=self._member)
