"""Names that file managers ask for in every folder, and that hardly any archive has.

Where a look-up is a query, a folder that is only shown would cost a dozen of them.  So that such a name is missing is
remembered, folder by folder, for as long as the tree has not changed.  Nothing is hidden: a name is remembered only
after the archive itself has said that there is none.
"""

from __future__ import annotations

import threading
import time
import weakref
from dataclasses import dataclass, field

from archivefs.tree import Directory, Tree

PROBES = frozenset(
    {
        ".Trash",
        ".hidden",
        ".directory",
        "autorun.inf",
        "desktop.ini",
        ".xdg-volume-info",
        ".DS_Store",
        "Thumbs.db",
        ".git",
        ".hg",
        ".svn",
        ".bzr",
    }
)
TRASH_OF_USER = ".Trash-"
"""Followed by the number of a user."""
KEPT = 10_000
"""So many of one tree at most; then it begins anew."""
TRUSTED_S = 1.0
"""How long a generation is not asked for again, as everywhere."""


def is_probe(name: str) -> bool:
    """Is that one of the names?"""
    return name in PROBES or name.startswith(TRASH_OF_USER)


@dataclass
class _Missing:
    """What is known of one tree."""

    generation: int
    asked_at: float
    names: set[tuple[int, str]] = field(default_factory=set)


class MissingProbes:
    """Which of the names are missing where; not for trees that are written, whose own changes are no new generation."""

    def __init__(self) -> None:
        self._trees: weakref.WeakKeyDictionary[Tree, _Missing] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def has(self, directory: Directory, name: str) -> bool:
        """Is *name* known to be missing in *directory*?"""
        with self._lock:
            known = self._trees.get(directory.tree)
        return known is not None and (directory.ident, name) in known.names and self._is_current(directory.tree, known)

    def generation(self, tree: Tree) -> int:
        """To be asked for before the archive is asked for a name: a change in between must not be missed."""
        return 0 if tree.immutable else tree.generation()

    def add(self, directory: Directory, name: str, *, generation: int) -> None:
        """The archive, asked after its *generation* was, has no *name* in *directory*."""
        now = time.monotonic()
        with self._lock:
            known = self._trees.get(directory.tree)
            if known is None or known.generation != generation or len(known.names) >= KEPT:
                known = self._trees[directory.tree] = _Missing(generation, now)
            known.names.add((directory.ident, name))

    def _is_current(self, tree: Tree, known: _Missing) -> bool:
        now = time.monotonic()
        if tree.immutable or now - known.asked_at < TRUSTED_S:
            return True
        if tree.generation() != known.generation:
            with self._lock:
                self._trees.pop(tree, None)
            return False
        known.asked_at = now
        return True
