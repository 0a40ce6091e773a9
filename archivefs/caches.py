"""The LRU cache in front of the readers: bounded in bytes, counted, safe from any thread.

One cache serves a whole mount, so ``-o cache_size`` is a bound on all archives together.  Keys are tuples
that begin with the id of their owner; an owner that closes takes its entries with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from cachetools import LRUCache

from archivefs.options import DEFAULT_CACHE_SIZE

ENTRY_OVERHEAD = 200
"""What an entry costs beside its bytes: key, node of the list, bytes header (measured with sys.getsizeof)."""


class CacheStatus(NamedTuple):
    """What ``status.json`` shows."""

    limit: int
    size: int
    entries: int
    hits: int
    misses: int


class ByteCache:
    """An LRU cache whose entries are weighed in bytes.

    Thread-safe: one lock guards the table and is never held while an entry is made.  Two threads that miss
    the same key at once both make it; the second one's result is kept.
    """

    def __init__(self, limit: int = DEFAULT_CACHE_SIZE) -> None:
        self._lock = threading.Lock()
        self._table: LRUCache[Hashable, tuple[Any, int]] = LRUCache(max(1, limit), getsizeof=_weight)
        self._limit = limit
        self._hits = 0
        self._misses = 0

    @property
    def limit(self) -> int:
        """The bound in bytes."""
        return self._limit

    def get(self, key: Hashable) -> Any | None:
        """What is kept under *key*, or None; counted."""
        with self._lock:
            found = self._table.get(key)
            if found is None:
                self._misses += 1
                return None
            self._hits += 1
            return found[0]

    def put(self, key: Hashable, value: object, size: int) -> None:
        """Keep *value*, which weighs *size* bytes; what is too large for the cache is not kept."""
        with self._lock:
            if size + ENTRY_OVERHEAD <= self._limit:
                self._table[key] = (value, size + ENTRY_OVERHEAD)

    def bytes_for(self, key: Hashable, load: Callable[[], bytes]) -> bytes:
        """The bytes kept under *key*, made by *load* if they are not there."""
        found = self.get(key)
        if found is None:
            found = load()
            self.put(key, found, len(found))
        data: bytes = found
        return data

    def forget(self, owner: Hashable) -> None:
        """Drop every entry whose key begins with *owner*."""
        with self._lock:
            for key in [key for key in self._table if isinstance(key, tuple) and key and key[0] == owner]:
                del self._table[key]

    def status(self) -> CacheStatus:
        """How it is used."""
        with self._lock:
            return CacheStatus(self._limit, int(self._table.currsize), len(self._table), self._hits, self._misses)


def _weight(value: tuple[Any, int]) -> int:
    return value[1]
