"""The names a directory shows, and which child has which.

Children are numbered in the order they are listed: directories first, then files.  A child is shown under its
decoded name, an index document under its own; where two would be the same, one gives way.

A Names never changes once it is made, so any thread may ask it.  It keeps eight bytes per child and the names
of those that had to give way; all other names follow from the manifest.
"""

from __future__ import annotations

from collections.abc import Iterator

from archivefs.formats.labrador.flattable import FlatTable
from archivefs.formats.labrador.keys import decoded_name, is_index
from archivefs.formats.labrador.manifest import Manifest


class Names:
    """The names in one directory."""

    __slots__ = ("_directories", "_files", "_manifest", "_renamed", "_table", "indexes")

    def __init__(self, manifest: Manifest, directory: int) -> None:
        self._manifest = manifest
        self._directories = manifest.places(directory)
        self._files = manifest.files(directory)
        encoded = [self._encoded(child) for child in range(len(self._directories))]
        encoded += map(manifest.name, self._files)
        names = list(map(decoded_name, encoded))
        self._renamed: dict[int, str] = {}
        if len(set(names)) < len(names):
            self._renamed = self._give_way()
            for child, name in self._renamed.items():
                names[child] = name
        self._table = FlatTable(names)
        first_file = len(self._directories)
        self.indexes = tuple(child for child in range(first_file, len(encoded)) if is_index(encoded[child]))
        """The directory's documents; there should be one at most."""

    def __len__(self) -> int:
        return len(self._directories) + len(self._files)

    def directory(self, child: int) -> int | None:
        """The number of the directory that a child is, or None."""
        if child < len(self._directories):
            return self._manifest.at_place(self._directories[child])
        return None

    def record(self, child: int) -> int:
        """The record of a child that is a file."""
        return self._files[child - len(self._directories)]

    def child_of(self, record: int) -> int:
        """The child that a record is."""
        return record - self._files.start + len(self._directories)

    def shown(self, child: int) -> str:
        """The name a child is listed under."""
        return self._renamed.get(child) or self._natural(child)

    def find(self, name: str) -> int | None:
        """The child listed under *name*."""
        for child in self._table.candidates(name):
            if self.shown(child) == name:
                return child
        return None

    def meant(self, name: str) -> Iterator[int]:
        """The children whose decoded name is *name*, under whatever name they are listed; no index documents."""
        child = self.find(name)
        candidates = [*([] if child is None else [child]), *self._renamed]
        for candidate in sorted(set(candidates)):
            if self._natural(candidate) == name and not self.is_index(candidate):
                yield candidate

    def is_index(self, child: int) -> bool:
        """Is the child the directory's document?"""
        return child >= len(self._directories) and is_index(self._manifest.name(self.record(child)))

    def _encoded(self, child: int) -> str:
        number = self.directory(child)
        return self._manifest.name(self.record(child)) if number is None else self._manifest.directory_name(number)

    def _natural(self, child: int) -> str:
        """The name of a child that is alone with it; an index document's is no different from its encoded one."""
        return decoded_name(self._encoded(child))

    def _give_way(self) -> dict[int, str]:
        """Names in order of precedence: index documents, directories, files, each by encoded name."""
        taken: set[str] = set()
        renamed: dict[int, str] = {}
        last_numbers: dict[str, int] = {}
        for child in sorted(range(len(self)), key=self._precedence):
            natural = name = self._natural(child)
            if name in taken:
                name = self._encoded(child)
            if name in taken:
                name = _numbered(name, taken, last_numbers)
            taken.add(name)
            if name != natural:
                renamed[child] = name
        return renamed

    def _precedence(self, child: int) -> tuple[int, str, int]:
        is_file = child >= len(self._directories)
        return 0 if self.is_index(child) else 1 + is_file, self._encoded(child), child


def _numbered(name: str, taken: set[str], last_numbers: dict[str, int]) -> str:
    """The first of ``name~2``, ``name~3`` … that is free; names never become free again, so go on from the last."""
    number = last_numbers.get(name, 1) + 1
    while f"{name}~{number}" in taken:
        number += 1
    last_numbers[name] = number
    return f"{name}~{number}"
