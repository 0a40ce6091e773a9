"""Scratch: what editors put beside a file while they save it; in memory, bounded (specification 4.3).

Also the directories that hold no record yet.  Threading: one lock guards all of it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from archivefs.errors import OutOfSpace
from archivefs.options import MEBIBYTE

LIMIT = 16 * MEBIBYTE

Place = tuple[str, str]
"""Where a directory is: its domain ("" for the root, "^raw" for the raw files) and its prefix."""


@dataclass(eq=False)
class Scratch:
    """A file in memory."""

    data: bytearray = field(default_factory=bytearray)
    mtime_ns: int = field(default_factory=time.time_ns)
    origin: tuple[str, ...] | None = None
    """The key of the record that was renamed to this, and is only hidden as long as this is there."""
    changes: int = 0


class ScratchFiles:
    """All scratch files and memory directories of a mount."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.lock = threading.RLock()
        self.version = 0
        self._limit = limit
        self._used = 0
        self._files: dict[Place, dict[str, Scratch]] = {}
        self._directories: set[Place] = set()

    # -- files --

    def find(self, place: Place, name: str) -> Scratch | None:
        """The scratch file of that name."""
        return self._files.get(place, {}).get(name)

    def names(self, place: Place) -> list[str]:
        """The scratch files in a directory."""
        with self.lock:
            return list(self._files.get(place, ()))

    def add(self, place: Place, name: str, scratch: Scratch) -> None:
        """Put it there, in the place of another."""
        with self.lock:
            old = self.find(place, name)
            self.reserve(len(scratch.data) - (len(old.data) if old else 0))
            self._files.setdefault(place, {})[name] = scratch
            self.version += 1

    def remove(self, place: Place, name: str) -> Scratch | None:
        """Take it away."""
        with self.lock:
            scratch = self._files.get(place, {}).pop(name, None)
            if scratch is not None:
                self._used -= len(scratch.data)
                self.version += 1
            return scratch

    def move(self, place: Place, name: str, to: Place, to_name: str) -> None:
        """Another name for it."""
        with self.lock:
            scratch = self.remove(place, name)
            if scratch is not None:
                self.add(to, to_name, scratch)

    def reserve(self, size: int) -> None:
        """Count bytes; raises OutOfSpace."""
        with self.lock:
            if self._used + size > self._limit:
                raise OutOfSpace(f"temporary files on this mount may take {self._limit >> 20} MiB together")
            self._used += size

    # -- directories --

    def add_directory(self, place: Place) -> None:
        """A directory that holds no record yet."""
        with self.lock:
            self._directories.add(place)
            self.version += 1

    def has_directory(self, place: Place) -> bool:
        """Is there one, or one below?"""
        domain, prefix = place
        with self.lock:
            return any(known == domain and below.startswith(prefix) for known, below in self._directories)

    def directories(self, place: Place) -> set[str]:
        """The prefixes of those directly in a directory."""
        domain, prefix = place
        with self.lock:
            inside = [below for known, below in self._directories if known == domain and below != prefix]
        return {below[: below.index("/", len(prefix)) + 1] for below in inside if below.startswith(prefix)}

    def remove_directory(self, place: Place) -> None:
        """Take it away."""
        with self.lock:
            self._directories.discard(place)
            self.version += 1

    def move_directory(self, domain: str, prefix: str, to: str) -> None:
        """Another name for a directory, and for all in it."""
        with self.lock:
            for place in [place for place in self._directories if place[0] == domain and place[1].startswith(prefix)]:
                self._directories.discard(place)
                self._directories.add((domain, to + place[1][len(prefix) :]))
            for place in [place for place in self._files if place[0] == domain and place[1].startswith(prefix)]:
                self._files[domain, to + place[1][len(prefix) :]] = self._files.pop(place)
            self.version += 1
