"""Checkpoints of a compressed member: copies of its stream, kept in the shared cache.

Used by ``members.py``.  Being in the cache, they are bounded with everything else by ``-o cache_size`` and are
still there when the member is opened again; one that was pushed out only makes a later read start further back.
Any thread may use it: what is kept is never read from, only copied.
"""

from __future__ import annotations

from collections.abc import Hashable

from archivefs.caches import ByteCache
from archivefs.readers import Stream

MIN_SPACING = 1 << 20
MAX_POINTS = 256
"""A deflate state takes about 76 KiB, so this is 19 MiB for the largest member."""
CACHE_SHARE = 3
"""One member may take this part of the cache for its checkpoints."""
POINT_BYTES = 76 << 10


class Checkpoints:
    """The checkpoints of one member, at most one in each stretch of ``spacing`` bytes."""

    def __init__(self, cache: ByteCache, key: tuple[Hashable, ...], size: int) -> None:
        self._cache = cache
        self._key = key
        points = max(1, min(MAX_POINTS, cache.limit // CACHE_SHARE // POINT_BYTES))
        self.spacing = max(MIN_SPACING, -(-size // points))
        self._places: dict[int, int] = cache.get((*key, "places")) or {}

    def keep(self, stream: Stream) -> None:
        """Keep a copy of *stream* if its stretch has none yet."""
        stretch = stream.position // self.spacing
        if not stretch or stretch in self._places:
            return
        twin = stream.copy()
        if twin is not None:
            self._places[stretch] = stream.position
            self._cache.put((*self._key, stretch), twin, twin.weight)
            self._cache.put((*self._key, "places"), self._places, 100 * len(self._places))

    def nearest(self, offset: int) -> Stream | None:
        """A stream that stands at *offset* or as little before it as can be; None: begin at the beginning."""
        for stretch in range(offset // self.spacing, 0, -1):
            if self._places.get(stretch, offset + 1) <= offset:
                kept: Stream | None = self._cache.get((*self._key, stretch))
                if kept is not None:
                    return kept.copy()
                self._places.pop(stretch, None)
        return None
