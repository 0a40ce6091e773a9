"""Real shells in a terminal of their own, into which a test types."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

PROMPT = "ready>"
END = "end-of-line"
LIMIT_S = 20.0


class Shell:
    """An interactive shell whose prompt is PROMPT; it is killed at the end, whatever happens."""

    def __init__(self, command: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        self.pid, self._terminal = pty.fork()
        if not self.pid:
            os.chdir(folder)
            os.execvpe(command[0], list(command), dict(env))
        self._said = ""

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, _type: type | None, _value: BaseException | None, _trace: TracebackType | None) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)

    def type(self, text: str) -> None:
        """As if it were typed."""
        os.write(self._terminal, text.encode())

    def until(self, text: str) -> str:
        """What is shown before *text*, which must come."""
        end = time.monotonic() + LIMIT_S
        while text not in self._said:
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{text!r} does not come after {self._said!r}"
            self._said += os.read(self._terminal, 65536).decode("utf-8", "replace")
        before, _, self._said = self._said.partition(text)
        return before

    def run(self, line: str) -> str:
        """What the shell shows from the line that is typed on, until it has done it."""
        self.type(f"{line}\necho {END[0]}\\{END[1:]}\n")
        return self.until(f"\n{END}")
