"""What is wrong with a store, as far as it was met: one line each, no line twice, never too many.  Thread-safe."""

from __future__ import annotations

import threading

from archivefs.errors import quoted

MAX_PROBLEMS = 10_000


class Problems:
    """For ``errors.txt``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[str, None] = {}
        self._more = 0

    def note(self, where: str, problem: str) -> None:
        """Keep one."""
        line = quoted(f"{where}: {problem}" if where else problem)
        with self._lock:
            if line in self._lines:
                return
            if len(self._lines) < MAX_PROBLEMS:
                self._lines[line] = None
            else:
                self._more += 1

    def __len__(self) -> int:
        with self._lock:
            return len(self._lines) + self._more

    def text(self) -> str:
        """All lines."""
        with self._lock:
            more = [f"... and {self._more} more"] if self._more else []
            return "".join(f"{line}\n" for line in [*self._lines, *more])
