"""``-o idle=N``: a mount that nobody has used for N seconds is unmounted.

Used is what the kernel asks about, or has open.  It asks rarely where it may keep answers for long, so with this option
it may keep them for half of that time only (``Driver.kept_s``).  What it does not ask about at all, an open file or the
folder somebody stands in, makes the unmount fail: it is never a lazy one, and is tried again after the same time.

Nothing is done per request: the counters that are there anyway are compared now and then, by a thread of its own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter

from archivefs.errors import MountRefused, quoted
from archivefs.fuse.unmount import mounted_at, unmount_unused

log = logging.getLogger("archivefs.fuse")

NO_USE = frozenset({"init", "destroy", "forget", "batch_forget", "interrupt", "statfs"})
"""What the kernel does by itself; and statfs, by which monitors ask every mount how full it is.

df(1) looks at the mount point as well, and that is a use."""
LOOKS = 10
"""In the time that is allowed."""
LONGEST_PAUSE_S = 10.0


class IdleWatch(threading.Thread):
    """Unmounts *mountpoint* when the operations counted in *counts* have stayed the same for *limit_s*."""

    def __init__(self, counts: Counter[str], mountpoint: str, limit_s: float) -> None:
        super().__init__(daemon=True, name="archivefs-idle-watch")
        self.unmounting = False
        """Set before it is tried, so that who sees the mount gone knows why."""
        self._counts = counts
        self._mountpoint = mountpoint
        self._limit_s = limit_s
        self._ending = threading.Event()
        self._seen = -1
        self._since = 0.0

    def run(self) -> None:
        mount = mounted_at(self._mountpoint)
        while not self._ending.wait(min(self._limit_s / LOOKS, LONGEST_PAUSE_S)):
            if self.is_due(time.monotonic()):
                if mount is None or mounted_at(self._mountpoint) != mount:
                    return  # something lies above it, and that is not ours to take away
                self._try(mount.mountpoint)

    def stop(self) -> None:
        """End the thread; not waited for."""
        self._ending.set()

    def is_due(self, now: float) -> bool:
        """Has nothing been asked for as long as is allowed?"""
        seen = sum(count for name, count in self._counts.copy().items() if name not in NO_USE)
        if seen != self._seen:
            self._seen, self._since = seen, now
        return now - self._since >= self._limit_s

    def _try(self, mountpoint: str) -> None:
        self.unmounting = True
        try:
            if unmount_unused(mountpoint):
                self.stop()
                return
            log.debug("%s: not asked for anything, but still in use", quoted(mountpoint))
        except MountRefused as error:
            log.warning("%s", error)
        self.unmounting = False
        self._since = time.monotonic()
