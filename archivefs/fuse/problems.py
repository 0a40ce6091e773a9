"""The problems of a mount: each is told once a minute, and the last are kept for ``.archivefs/errors.log``."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque

KEPT = 1000
AGAIN_S = 60.0
MOST_AT_ONCE = 10
OFTEN = 10
"""Fewer times are not worth a line of their own: for one failed read the kernel asks twice."""


def stamp(record: logging.LogRecord) -> str:
    """When that was, as all our logs say it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))


class Repeats:
    """Which problems were told a moment ago, and how often they came since.  Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._told: dict[str, tuple[float, int]] = {}

    def met(self, text: str) -> int | None:
        """How often it came since it was told last; None while that is less than a minute ago."""
        now = time.monotonic()
        with self._guard:
            when, count = self._told.get(text, (-AGAIN_S, 0))
            if now - when < AGAIN_S:
                self._told[text] = (when, count + 1)
                return None
            if len(self._told) >= KEPT:
                self._told.clear()
            self._told[text] = (now, 0)
        return count

    def untold(self) -> list[str]:
        """What has come often without having been told since: a line for each of the most frequent, and one more."""
        with self._guard:
            counts = Counter({text: count for text, (_, count) in self._told.items() if count >= OFTEN})
        lines = [f"{text}{again(count)}" for text, count in counts.most_common(MOST_AT_ONCE)]
        left = len(counts) - len(lines)
        return [*lines, f"{left:,} other problems came often as well"] if left else lines


def again(times: int) -> str:
    """What is added to a problem that has come again without being told."""
    return f" ({times:,} more like this)" if times else ""


class ProblemLog(logging.Handler):
    """The last thousand problems.  Thread-safe."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: deque[str] = deque(maxlen=KEPT)
        self._guard = threading.Lock()
        self.total = 0

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{stamp(record)} {record.levelname.lower()} {record.getMessage()}"
        with self._guard:
            self._lines.append(line)
            self.total += 1

    def text(self) -> bytes:
        """All lines kept; the first says so when some were dropped."""
        with self._guard:
            lines = list(self._lines)
            dropped = self.total - len(lines)
        if dropped:
            lines.insert(0, f"({dropped} earlier lines dropped)")
        return "".join(line + "\n" for line in lines).encode("utf-8", "backslashreplace")
