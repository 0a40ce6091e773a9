"""The log of a mount: kept in memory for ``.archivefs/errors.log``, bounded, one line a problem."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque

KEPT = 1000


class ProblemLog(logging.Handler):
    """The last thousand problems.  Thread-safe."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: deque[str] = deque(maxlen=KEPT)
        self._guard = threading.Lock()
        self.total = 0

    def emit(self, record: logging.LogRecord) -> None:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        line = f"{when} {record.levelname.lower()} {record.getMessage()}"
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
