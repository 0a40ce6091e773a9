"""Telling the kernel that a living tree has changed.

A thread of its own asks the tree for its generation once a second.  When that has grown, the kernel forgets what it
was told: all names at once where it can (INC_EPOCH), otherwise those that are kept in our table; and the attributes
of what has no name to be looked up again (the root, open files).  Names that are not kept expire within a second.

Nobody asks a tree that nobody looks at: once everything the kernel was told has expired, it rests until a request
comes.

A thread of its own, because the kernel may take locks that are held by a request we have not answered yet.
"""

from __future__ import annotations

import logging
import os
import threading

from archivefs.fuse.kernel import protocol
from archivefs.fuse.kernel.protocol import ONLY_ATTRIBUTES, ROOT_ID, entry_notification, inode_notification
from archivefs.fuse.kernel.requests import Requests

log = logging.getLogger("archivefs.fuse")

INTERVAL_S = 1.0
MOST_NAMES = 10_000
"""Told one by one; whatever is beyond that expires soon enough."""


class Notifier(threading.Thread):
    """Watches the generation of a tree."""

    def __init__(self, fd: int, requests: Requests) -> None:
        super().__init__(daemon=True, name="archivefs-notifier")
        self._fd = fd
        self._requests = requests
        self._tree = requests.driver.tree
        self._ending = threading.Event()
        self._generation: int | None = None
        """What it was when last asked for.  Not asked for here: that may take long, and nobody serves yet."""
        self._requests_seen = -1
        self._quiet_s = 0.0
        self.invalidations = 0

    def run(self) -> None:
        while True:
            try:
                if self.is_watched():
                    self.look()
            except Exception as error:
                self._requests.driver.explain("generation", error)
            if self._ending.wait(INTERVAL_S):
                return

    def stop(self) -> None:
        """End the thread; not waited for, since the kernel may make it wait."""
        self._ending.set()

    def is_watched(self) -> bool:
        """Has anybody asked for anything for as long as an answer may be kept?"""
        seen = sum(self._requests.driver.counts.copy().values())
        self._quiet_s = 0.0 if seen != self._requests_seen else self._quiet_s + INTERVAL_S
        self._requests_seen = seen
        return self._quiet_s <= self._requests.session.living_lifetime_s + INTERVAL_S

    def look(self) -> None:
        """Ask for the generation, and tell the kernel if it has grown."""
        before, self._generation = self._generation, self._tree.generation()
        if before is not None and before != self._generation:
            self.invalidate()

    def invalidate(self) -> None:
        """Make the kernel ask again."""
        self.invalidations += 1
        self._requests.inodes.drop_recent()
        if self._requests.session.epochs:
            self._send(protocol.OUT_HEADER.pack(protocol.OUT_SIZE, protocol.NOTIFY_INC_EPOCH, 0))
        else:
            for parent, name in self._requests.inodes.names(MOST_NAMES):
                self._send(entry_notification(parent, name))
        # No name leads to the root, and its listing would stay; an open file is asked by its number.
        self._send(inode_notification(ROOT_ID, 0))
        for inode in self._requests.driver.files.inodes():
            self._send(inode_notification(inode, ONLY_ATTRIBUTES))

    def _send(self, message: bytes) -> None:
        try:
            os.write(self._fd, message)
        except OSError as error:
            # ENOENT: the kernel does not have it any more.
            log.debug("notification: %s", error.strerror)
