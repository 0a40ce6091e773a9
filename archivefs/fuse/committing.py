"""Committing a mounted archive: when asked, after a while without changes, and at the end.

A commit may take long, so it runs in a thread of its own; ``status.json`` says how far it is.  While it runs, requests
that have to wait for it are not counted as hanging.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from archivefs.errors import ArchiveError, NotSupported, quoted, reason
from archivefs.tree import Tree

log = logging.getLogger("archivefs.fuse")

IDLE_CHECK_S = 0.5


class Committer:
    """Commits one tree; thread-safe."""

    def __init__(self, tree: Tree, sync_files: Callable[[], None]) -> None:
        self._tree = tree
        self._sync_files = sync_files
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self.on_changed: Callable[[], None] = lambda: None
        """Called when names lead to something else all at once: who keeps answers should forget them."""
        self.running = False
        self.state = "none"
        """none, running, done, or failed."""
        self.error = ""
        self.done = 0
        self.total = 0

    def status(self) -> dict[str, object]:
        """For ``status.json``."""
        return {"state": self.state, "done": self.done, "total": self.total, "error": self.error}

    def command(self, text: str) -> None:
        """What was written to ``.archivefs/control``: ``commit`` or ``discard``."""
        if text == "commit":
            self.state = "running"
            threading.Thread(target=self._quietly, daemon=True, name="archivefs-commit").start()
        elif text == "discard":
            with self._lock:
                try:
                    self._tree.discard_changes()
                finally:
                    self.on_changed()
        else:
            raise NotSupported(f"unknown command {text!r}", advice="write commit or discard")

    def commit(self) -> None:
        """Commit now; raises what goes wrong, and then everything is still pending."""
        with self._lock:
            self.running, self.state, self.error, self.done = True, "running", "", 0
            try:
                self._sync_files()
                self._tree.commit(self._progress)
                self.state = "done"
                self.on_changed()
            except Exception as error:
                self.state, self.error = "failed", reason(error)
                raise
            finally:
                self.running = False

    def watch(self) -> None:
        """Commit whenever nothing has changed for as long as the tree says; until ``stop``."""
        if self._tree.commit_idle_s is not None:
            threading.Thread(target=self._watch, daemon=True, name="archivefs-idle").start()

    def stop(self) -> None:
        """No more commits by itself."""
        self._stopped.set()

    def _watch(self) -> None:
        limit_s = self._tree.commit_idle_s or 0.0
        while not self._stopped.wait(IDLE_CHECK_S):
            if self._tree.idle_s() >= limit_s and next(self._tree.pending(), None) is not None:
                self._quietly()

    def _quietly(self) -> None:
        try:
            self.commit()
        except Exception as error:
            known = isinstance(error, (ArchiveError, OSError))
            log.error("%s", quoted(f"commit: {reason(error)}" if known else f"commit: {error!r} (a bug in archivefs)"))

    def _progress(self, done: int, total: int) -> None:
        self.done, self.total = done, total
