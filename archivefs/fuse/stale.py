"""Mounts of ours that no longer answer: their driver has died, or hangs.

A mount whose driver died stays in the mount table, and whoever touches it gets "Transport endpoint is not connected".
Asking a driver that hangs blocks beyond the reach of SIGKILL, so it is a child process that asks: ours goes on
after a moment, and the child ends when its answer comes.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from archivefs.errors import MountRefused
from archivefs.fuse.unmount import Mount, mounted_at, mounts, unmount

DEAD = frozenset({errno.ENOTCONN, errno.ECONNABORTED})
"""What a mount whose driver has died answers."""
OUR_TYPE = "fuse.archivefs"
ASK_S = 3.0
"""How long a driver may take to answer a question that costs it nothing."""

# statvfs, since the kernel answers stat from what it remembers, also for the dead.
_QUESTION = "import os, sys\ntry: os.statvfs(sys.argv[1])\nexcept OSError as error: os._exit(error.errno)"


class StaleMount(NamedTuple):
    """A mount that does not answer."""

    mount: Mount
    dead: bool
    """Its driver is gone, so that nothing is lost by unmounting; otherwise the driver may only be slow."""

    @property
    def mountpoint(self) -> str:
        """Where it is mounted."""
        return self.mount.mountpoint

    @property
    def message(self) -> str:
        """What is wrong with it."""
        if self.dead:
            return f"the driver of the mount at {self.mountpoint} has died"
        return f"the driver of the mount at {self.mountpoint} does not answer"

    @property
    def mend(self) -> str:
        """The command that takes it away."""
        return f"archivefs umount {'' if self.dead else '--lazy '}{self.mountpoint}"


def stale_mounts(*, limit_s: float = ASK_S) -> Iterator[StaleMount]:
    """Every mount of ours that does not answer within *limit_s*.

    Only the topmost mount of a place can be asked.  One made with ``-o subtype`` is not known for ours, and one of
    another user that does not let us look is taken to be well.
    """
    topmost = {mount.mountpoint: mount for mount in mounts()}
    for mount in topmost.values():
        if mount.type == OUR_TYPE:
            answer = asked(mount.mountpoint, limit_s=limit_s)
            if answer is None or answer in DEAD:
                yield StaleMount(mount, dead=answer is not None)


def is_dead(mountpoint: str, *, limit_s: float = ASK_S) -> bool:
    """Is the topmost mount at *mountpoint* one of FUSE whose driver has died?"""
    mount = mounted_at(mountpoint)
    return mount is not None and mount.type.startswith("fuse") and asked(mountpoint, limit_s=limit_s) in DEAD


def clean(stale: StaleMount) -> None:
    """Unmount it, lazily, since somebody may still stand in it; raises MountRefused, also for one that may live."""
    if not stale.dead:
        raise MountRefused("its driver may only be slow", archive=stale.mountpoint, advice=f"run: {stale.mend}")
    found = mounted_at(stale.mountpoint)
    # Somebody may have been quicker, and have mounted something there again.
    if found is not None and found.number == stale.mount.number:
        unmount(stale.mountpoint, lazy=True)


def clean_at(mountpoint: str) -> bool:
    """Take away a dead mount at *mountpoint*, if there is one; says whether there was."""
    mount = mounted_at(mountpoint)
    if mount is None or not is_dead(mountpoint):
        return False
    clean(StaleMount(mount, dead=True))
    return True


def asked(mountpoint: str, *, limit_s: float) -> int | None:
    """0 when the mount answers, the errno when it refuses, None when nothing comes within *limit_s*."""
    command = [sys.executable, "-I", "-S", "-c", _QUESTION, mountpoint]
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        # Not one of our streams: somebody may wait for their end, and this child may stay for long.
        streams = [(os.POSIX_SPAWN_DUP2, null, number) for number in (0, 1, 2)]
        child = os.posix_spawn(sys.executable, command, os.environ, file_actions=streams)
    finally:
        os.close(null)
    return _exit_code(child, limit_s)


def _exit_code(child: int, limit_s: float) -> int | None:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    with suppress(OSError):
        os.kill(child, signal.SIGKILL)
    return None
