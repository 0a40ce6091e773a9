"""The plainest overlay: over an in-memory tree; a commit puts a new in-memory tree under it."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archivefs.errors import NameNotHeld
from archivefs.memory import MemoryTree
from archivefs.staging.area import StagingArea
from archivefs.staging.overlay import OverlayDirectory, OverlayTree
from archivefs.tree import Directory, Kind, Tree


class PlainOverlay(OverlayTree):
    """Holds any name but those with a star in them."""

    def __init__(self, base: Tree, folder: Path) -> None:
        super().__init__(base, StagingArea(str(folder)))

    def identity(self) -> Mapping[str, Any]:
        return identity_of(self.base)

    def check_name(self, directory: OverlayDirectory, name: str, kind: Kind) -> None:
        if "*" in name:
            raise NameNotHeld(member=name)

    def commit(self, progress=None, *, die_before_rebase: bool = False) -> Tree:  # type: ignore[override]
        with self.lock:
            new = MemoryTree(content_of(self.root()))
            identity = identity_of(new)
            self.area.begin({"op": "base", "identity": self.identity()})
            self.area.append({"op": "committing", "identity": identity}, sync=True)
            if not die_before_rebase:
                self.rebase(new)
            return new


def content_of(directory: Directory) -> dict[str, Any]:
    """A tree as a nested dict."""
    found: dict[str, Any] = {}
    for entry in directory.entries():
        node = directory.child(entry.name)
        if isinstance(node, Directory):
            found[entry.name] = content_of(node)
        else:
            with contextlib.closing(node.open()) as reader:
                found[entry.name] = reader.read_at(0, 1 << 30)
    return dict(sorted(found.items()))


def identity_of(tree: Tree) -> dict[str, str]:
    """Another one for every content."""
    return {"content": hashlib.sha256(repr(content_of(tree.root())).encode()).hexdigest()}


def put(directory: OverlayDirectory, name: str, data: bytes) -> None:
    """Write a file whole, as ``cp`` does."""
    writer = directory.create(name, exclusive=False).open_writer(truncate=True)
    writer.write_at(0, data)
    writer.sync()
    writer.finish()
    writer.close()
