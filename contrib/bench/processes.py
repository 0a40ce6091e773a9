"""Programs with a time limit, mounts that are taken down whatever happens, caches, memory.

Every program runs in a session of its own: Ctrl-C reaches the benchmark alone, which then ends what it started.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from archivefs.errors import MountRefused
from archivefs.fuse.unmount import mounted_at, mounts, unmount

CLIENT = Path(__file__).with_name("client.py")
END_S = 15.0
"""How long a driver may take to end once its mount is gone."""

STOPPING = (signal.SIGINT, signal.SIGTERM)
"""The signals that end a run; __main__ makes both a KeyboardInterrupt."""

_CACHES = "/proc/sys/vm/drop_caches"


class TooSlow(Exception):
    """It did not end within the limit."""


class Failed(Exception):
    """It ended, but badly; the message is one line."""


class Timing(NamedTuple):
    """What client.py says."""

    seconds: float
    check: object


# -- clients --


def run_client(operation: Sequence[str], *, limit_s: float) -> Timing:
    """Let client.py do *operation*; raises TooSlow or Failed."""
    running: subprocess.Popen[str] | None = None
    try:
        with uninterrupted():
            running = _start_client(operation)
        said, complaint = running.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise TooSlow from None
    finally:
        if running is not None:
            with uninterrupted():
                _end_group(running)
    if running.returncode:
        raise Failed(_last_line(complaint) or f"exit code {running.returncode}")
    return Timing(**json.loads(said))


def _start_client(operation: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(CLIENT), *operation],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _end_group(running: subprocess.Popen[str]) -> None:
    """End a client and what it started.  One that waits for a dead mount ends when the driver does."""
    if running.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            running.wait(1)
    for pipe in (running.stdout, running.stderr):
        if pipe is not None:
            pipe.close()


# -- mounts --


class Mounted:
    """A driver in the foreground, with its mount; ``seconds`` passed until the first name could be listed."""

    def __init__(self, command: Sequence[str], mountpoint: Path, environment: Mapping[str, str]) -> None:
        self.root = mountpoint
        self.seconds = 0.0
        self._messages = tempfile.TemporaryFile()
        self._start = perf_counter()
        self._driver = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._messages,
            stderr=self._messages,
            env={**os.environ, **environment},
            start_new_session=True,
        )

    def wait(self, limit_s: float) -> None:
        """Return when the mount can be used; raises TooSlow or Failed."""
        table = os.open("/proc/self/mountinfo", os.O_RDONLY)
        try:
            poll = select.poll()
            poll.register(table, select.POLLPRI)  # the kernel says so when the table has changed
            while mounted_at(str(self.root)) is None:
                self._check(limit_s)
                poll.poll(20)
        finally:
            os.close(table)
        self._list(limit_s)
        self.seconds = perf_counter() - self._start

    def _list(self, limit_s: float) -> None:
        """In a thread: it can't be interrupted, but it ends with the driver."""
        problem: list[str] = []

        def first_name() -> None:
            try:
                with os.scandir(self.root) as entries:
                    next(entries, None)
            except OSError as error:
                problem.append(f"its root cannot be listed: {error.strerror}")

        thread = threading.Thread(target=first_name, daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(0.2)
            if thread.is_alive():
                self._check(limit_s)
        if problem:
            raise Failed(problem[0])

    def _check(self, limit_s: float) -> None:
        if self._driver.poll() is not None:
            said = _last_line(self.said())
            raise Failed(said or f"ended with exit code {self._driver.returncode} before anything was mounted")
        if perf_counter() - self._start > limit_s:
            raise TooSlow

    def said(self) -> str:
        """What the driver has printed so far, on either stream."""
        descriptor = self._messages.fileno()  # shared with the driver: its position is not ours to move
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")

    def peak(self) -> int:
        """The most memory the driver has had so far, in bytes; that of its children too."""
        return sum(memory(process, "VmHWM") for process in family(self._driver.pid))

    def close(self, *, kill: bool, end_s: float = END_S) -> None:
        """Unmount and wait for the driver's end; *kill* where it may be stuck."""
        with uninterrupted():
            if kill:
                self._driver.kill()
            clear(self.root)
            try:
                self._driver.wait(end_s)
            except subprocess.TimeoutExpired:
                self._driver.kill()
                self._driver.wait()
            clear(self.root)
            self._messages.close()


@contextmanager
def mounted(
    command: Sequence[str],
    mountpoint: Path,
    *,
    environment: Mapping[str, str],
    limit_s: float,
    end_s: float = END_S,
) -> Iterator[Mounted]:
    """Start a driver, wait until its mount can be used, and take both down again; it may take *end_s* to end."""
    mountpoint.mkdir(parents=True, exist_ok=True)
    clear(mountpoint)
    mount, kill = None, True
    try:
        with uninterrupted():
            mount = Mounted(command, mountpoint, environment)
        mount.wait(limit_s)
        yield mount
        kill = False
    finally:
        if mount is not None:
            mount.close(kill=kill, end_s=end_s)


def clear(mountpoint: Path) -> None:
    """Unmount what is at *mountpoint*, gently first."""
    for lazy in (False, True):
        with suppress(MountRefused):
            while mounted_at(str(mountpoint)) is not None:
                unmount(str(mountpoint), lazy=lazy)


def clear_below(folder: Path) -> None:
    """Unmount what an earlier run that was killed has left below *folder*."""
    for mount in reversed(mounts()):
        if mount.mountpoint.startswith(f"{folder}/"):
            clear(Path(mount.mountpoint))


# -- the machine --


def memory(process: int, field: str) -> int:
    """One of the memory figures of a process, in bytes; 0 when it is gone."""
    with suppress(OSError), open(f"/proc/{process}/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def family(process: int) -> list[int]:
    """A process and all that descend from it."""
    found = [process]
    for parent in found:  # grows while it is read
        for path in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, path.read_text().split())
    return found


def can_drop_caches() -> bool:
    """May this process empty the kernel's caches?"""
    return os.access(_CACHES, os.W_OK)


def drop_caches() -> None:
    """Empty the kernel's caches, where that is allowed."""
    if can_drop_caches():
        os.sync()
        with suppress(OSError), open(_CACHES, "w") as file:
            file.write("3\n")


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the block is done: starting and cleaning up must not stop half way."""
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            raise KeyboardInterrupt


def _last_line(said: str) -> str:
    return next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")[:200]
