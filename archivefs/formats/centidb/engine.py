"""What the rest of the format asks of an engine, whichever it is.  Specification §7.

Every method may be called from any thread.  Nothing ever asks for everything at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

FIRST_CHUNK = 16
CHUNK = 1024
"""A scan begins with a small question, since most are only about the first key, and then asks for more at a time."""


SMALL = 1 << 10
"""Values up to this size lie beside their keys in LMDB: having them along touches no other page, damaged perhaps."""


class Item(NamedTuple):
    """One physical entry, as a scan sees it."""

    key: bytes
    size: int
    value: bytes | None = None
    """Only if it was asked for, and is not too large."""


class Engine(ABC):
    """An ordered store of keys and values."""

    kind: str
    longest_key: int = 1 << 20

    @abstractmethod
    def get(self, key: bytes, limit: int) -> bytes | None:
        """The value of *key*, or None; raises LimitExceeded where it is larger than *limit*."""

    @abstractmethod
    def scan(self, start: bytes, within: bytes, count: int, value_limit: int = 0) -> tuple[list[Item], bool]:
        """Up to *count* entries from *start* on whose keys begin with *within*, and whether there may be more.

        With a *value_limit* the values up to that size come along.
        """

    def items(self, start: bytes, within: bytes, value_limit: int = 0, count: int = FIRST_CHUNK) -> Iterator[Item]:
        """All of them, chunk by chunk; nothing is held in between."""
        more = True
        while more:
            found, more = self.scan(start, within, count, value_limit)
            yield from found
            if found:
                start = found[-1].key + b"\x00"
            count = CHUNK

    def state(self) -> int:
        """Another number when somebody has changed the store."""
        return 0

    def transaction(self) -> AbstractContextManager[Changes]:
        """A change of several entries that happens whole or not at all, and is durable when it is over."""
        raise NotImplementedError

    @abstractmethod
    def close(self) -> None:
        """Give back what is held; may be called twice."""


class Changes(ABC):
    """Inside a transaction; the engine's own `get` and `scan` see the changes meanwhile, from the same thread."""

    @abstractmethod
    def put(self, key: bytes, value: bytes) -> None:
        """Set an entry."""

    @abstractmethod
    def delete(self, key: bytes) -> None:
        """Remove an entry, if it is there."""
