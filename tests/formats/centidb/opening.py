"""Opening stores in tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from archivefs.errors import ArchiveError
from archivefs.format import Opening
from archivefs.formats.centidb import FORMAT
from archivefs.options import parse
from archivefs.tree import Directory, File, Symlink, Tree
from tests.walking import content_of


def open_tree(path: Path, options: str = "", *, read_write: bool = False) -> Tree:
    return FORMAT.open(str(path), Opening(options=parse([options], FORMAT.options), read_write=read_write))


@contextlib.contextmanager
def opened(path: Path, options: str = "", *, read_write: bool = False) -> Iterator[Tree]:
    tree = open_tree(path, options, read_write=read_write)
    try:
        yield tree
    finally:
        tree.close()


def shown(tree: Tree, *parts: str) -> dict[str, object]:
    """A directory as a dict: bytes, "-> target", "EIO" or a dict."""
    directory = tree.lookup(parts)
    assert isinstance(directory, Directory)
    found: dict[str, object] = {}
    for entry in directory.entries():
        node = directory.child(entry.name)
        if isinstance(node, Directory):
            found[entry.name] = shown(tree, *parts, entry.name)
        elif isinstance(node, Symlink):
            found[entry.name] = f"-> {node.target()}"
        else:
            assert isinstance(node, File)
            try:
                found[entry.name] = content_of(node)
            except ArchiveError:
                found[entry.name] = "EIO"
    return found
