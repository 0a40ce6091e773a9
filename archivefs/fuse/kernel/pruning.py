"""Keeping the table of names small: the kernel is asked to forget those it was told first.

The kernel keeps every name it has looked up for as long as it has memory, and of a tree that does not lead back each is
kept here too; a walk of ten million records would fill this process instead of the machine.

A thread of its own, because the kernel may take locks that are held by a request we have not answered yet.
"""

from __future__ import annotations

import logging
import os
import threading

from archivefs.fuse.kernel.protocol import entry_notification
from archivefs.fuse.kernel.requests import Requests

log = logging.getLogger("archivefs.fuse")

PAUSE_S = 0.05
"""Between two rounds: what was asked for comes back as FORGET requests, and names in use do not come back at all."""
ROUND = 20_000


class Pruner(threading.Thread):
    """Waits until there are too many names."""

    def __init__(self, fd: int, requests: Requests) -> None:
        super().__init__(daemon=True, name="archivefs-pruner")
        self._fd = fd
        self._inodes = requests.inodes
        self._files = requests.driver.files
        self._ending = threading.Event()

    def run(self) -> None:
        while not self._ending.is_set():
            self._inodes.crowded.wait()
            self._inodes.crowded.clear()
            if not self._ending.is_set():
                self.prune()
                self._ending.wait(PAUSE_S)

    def stop(self) -> None:
        """End the thread; not waited for, since the kernel may make it wait."""
        self._ending.set()
        self._inodes.crowded.set()

    def prune(self) -> None:
        """Ask the kernel to forget as many names as there are beyond half of the bound."""
        many = max(0, min(ROUND, len(self._inodes) - self._inodes.limit // 2))
        for parent, name in self._inodes.oldest(many, but=self._files.inodes()):
            if self._ending.is_set():
                return
            try:
                os.write(self._fd, entry_notification(parent, name))
            except OSError as error:
                log.debug("forgetting a name: %s", error.strerror)  # ENOENT: the kernel does not have it any more
