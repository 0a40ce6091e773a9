"""How far a long command has got: one line on a terminal, drawn over again and again."""

from __future__ import annotations

import sys
import threading
import time

BAR_WIDTH = 30
INTERVAL_S = 0.1


class Meter:
    """A progress line on stderr, if that is a terminal; otherwise it does nothing.

    Called as a ``Progress``, from any thread.
    """

    def __init__(self, label: str, *, delay_s: float = 0.0) -> None:
        """With *delay_s* nothing is shown of what takes less long."""
        self._label = label
        self._shown = sys.stderr is not None and sys.stderr.isatty()
        self._lock = threading.Lock()
        self._next = time.monotonic() + delay_s if delay_s else 0.0
        self._width = 0

    def __call__(self, done: int, total: int) -> None:
        """Show that *done* of *total* is done; 0 of all means nobody knows."""
        if self._shown and time.monotonic() >= self._next:
            self.show(bar(done, total))

    def show(self, text: str) -> None:
        """Draw the line, at most ten times a second."""
        if not self._shown:
            return
        with self._lock:
            if time.monotonic() < self._next:
                return
            self._next = time.monotonic() + INTERVAL_S
            line = f"{self._label}: {text}"
            sys.stderr.write("\r" + line.ljust(self._width))
            sys.stderr.flush()
            self._width = len(line)

    def clear(self) -> None:
        """Take the line away, so that something else can be printed."""
        with self._lock:
            if self._width:
                sys.stderr.write("\r" + " " * self._width + "\r")
                sys.stderr.flush()
                self._width = 0


def bar(done: int, total: int) -> str:
    """``[#####-----]  50 %``, or a count where the total is not known."""
    if total <= 0:
        return f"{done:,}"
    share = min(max(done / total, 0.0), 1.0)
    full = int(share * BAR_WIDTH)
    return f"[{'#' * full}{'-' * (BAR_WIDTH - full)}] {share:4.0%}"
