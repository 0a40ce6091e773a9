"""Mounts for tests: started with a time limit, always unmounted, and failing with what the driver said.

``mounted(...)`` is for a test that wants a mount; ``Mount`` itself for one that plays with its life cycle.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

TRANSPORTS = ("fusepy", "kernel")
READY_S = 30.0
GONE_S = 10.0
LIVE: list[Mount] = []
"""Every mount that was started and not ended: a test that fails half-way leaves it to the end of the session."""


def require_transport(name: str) -> None:
    """Skip where archivefs has no such transport."""
    from archivefs.fuse.mount import TRANSPORTS as known

    if name not in known:
        pytest.skip(f"there is no transport {name!r} yet")


class Mount:
    """A driver in the foreground, as a process of its own."""

    def __init__(
        self,
        *sources: Path | str,
        at: Path | str,
        transport: str = "auto",
        options: str = "",
        arguments: Sequence[str] = (),
        python: str = sys.executable,
        env: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        self.path = Path(at)
        self._stderr = tempfile.TemporaryFile()  # not a pipe, which could fill up and stop the driver
        self._said = ""
        ready, told = os.pipe()
        words = ",".join(word for word in (f"transport={transport}", options) if word)
        command = [python, "-m", "archivefs", "mount", "-f", "--ready-fd", str(told), "-o", words, *arguments]
        try:
            self.process = subprocess.Popen(
                [*command, *map(str, sources), str(at)],
                stdout=self._stderr,
                stderr=self._stderr,
                pass_fds=[told],
                env={**os.environ, **(env or {})},
                **{"stdin": subprocess.DEVNULL, **more},
            )
        finally:
            os.close(told)
        self._ready = ready
        LIVE.append(self)

    def wait_ready(self, timeout_s: float = READY_S) -> Mount:
        """Return when the mount can be used; fail with the driver's own words if it does not come to that."""
        readable, _, _ = select.select([self._ready], [], [], timeout_s)
        told = os.read(self._ready, 1) if readable else b""
        os.close(self._ready)
        if not told:
            what = "ended" if readable else f"was not ready within {timeout_s:g} s"
            self.end()
            pytest.fail(f"the driver {what} (exit code {self.process.returncode}): {self.said()}")
        return self

    def said(self) -> str:
        """What the driver has written so far."""
        if not self._stderr.closed:
            self._stderr.seek(0)
            self._said = self._stderr.read().decode("utf-8", "backslashreplace")
        return self._said

    def is_mounted(self) -> bool:
        """Is there a mount at the mount point?"""
        return str(self.path.absolute()) in mount_points()

    def unmount(self) -> int:
        """Unmount as a person would, and return the driver's exit code."""
        subprocess.run(["fusermount3", "-u", str(self.path)], capture_output=True, timeout=GONE_S, check=True)
        return self.wait_gone()

    def wait_gone(self, timeout_s: float = GONE_S) -> int:
        """The driver's exit code, once it has ended."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.end()
            pytest.fail(f"the driver was still there {timeout_s:g} s after the end: {self.said()}")

    def end(self) -> None:
        """Leave nothing behind, whatever happened: ask, then insist, then kill."""
        for words in (["-u"], ["-uz"]):
            if self.is_mounted():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    subprocess.run(["fusermount3", *words, str(self.path)], capture_output=True, timeout=5, check=False)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5 if not self.is_mounted() else 0.1)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.is_mounted():
            subprocess.run(["fusermount3", "-uz", str(self.path)], capture_output=True, timeout=5, check=False)
        self.said()
        self._stderr.close()
        if self in LIVE:
            LIVE.remove(self)


@contextlib.contextmanager
def mounted(*sources: Path | str, at: Path | str, **more) -> Iterator[Mount]:
    """A mount that is usable inside the ``with`` and gone after it; the driver must end with 0 and say nothing."""
    mount = Mount(*sources, at=at, **more).wait_ready()
    try:
        yield mount
    except BaseException:
        mount.end()
        sys.stderr.write(f"the driver said: {mount.said()}\n")
        raise
    try:
        if mount.process.poll() is None and mount.is_mounted():
            mount.unmount()
        assert mount.wait_gone() == 0, mount.said()
    finally:
        mount.end()


def mount_points() -> set[str]:
    """Where something is mounted, as this process sees it."""
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as lines:
        return {line.split(" ")[1].replace("\\040", " ") for line in lines}


def run_archivefs(*arguments: Path | str, timeout_s: float = 60, **more) -> subprocess.CompletedProcess[str]:
    """Run the command and return what it did."""
    return subprocess.run(
        [sys.executable, "-m", "archivefs", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
        check=False,
        **more,
    )


def wait_until(true, timeout_s: float = GONE_S) -> bool:
    """Wait for something to become true; say whether it did."""
    end = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def tool(name: str) -> str:
    """The path of a program the set-up installs; a missing one is a failure of the set-up, not a reason to skip."""
    path = shutil.which(name)
    assert path, f"{name} is missing: `make test` installs it"
    return path
