"""What the tests of Crystal projects share: opening one, listing and reading parts of it."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from archivefs.format import Opening
from archivefs.formats.crystal import FORMAT
from archivefs.formats.crystal.tree import CrystalTree
from archivefs.options import parse
from archivefs.tree import Directory, File, Node, Symlink
from tests.samples.crystal import ProjectWriter
from tests.walking import as_dict, content_of, names_of

SITE = "https://site.example"


def opening(*options: str) -> Opening:
    """As ``-o`` gives it."""
    return Opening(options=parse(options, FORMAT.options))


@contextmanager
def opened(path: Path | str, *options: str) -> Iterator[CrystalTree]:
    """``with opened(path, "decode") as tree``."""
    tree = CrystalTree(str(path), opening(*options))
    try:
        yield tree
    finally:
        tree.close()


def node(tree: CrystalTree, path: str) -> Node:
    """What is at a path."""
    return tree.lookup(path.split("/"))


def directory(tree: CrystalTree, path: str) -> Directory:
    """The directory at a path."""
    found = node(tree, path)
    assert isinstance(found, Directory)
    return found


def file(tree: CrystalTree, path: str) -> File:
    """The file at a path."""
    found = node(tree, path)
    assert isinstance(found, File)
    return found


def names(tree: CrystalTree, path: str) -> list[str]:
    """What is listed there."""
    return names_of(directory(tree, path))


def read(tree: CrystalTree, path: str) -> bytes:
    """The content of a file."""
    found = content_of(file(tree, path))
    assert isinstance(found, bytes)
    return found


def target(tree: CrystalTree, path: str) -> str:
    """Where a link leads."""
    found = node(tree, path)
    assert isinstance(found, Symlink)
    return found.target()


def xattr(tree: CrystalTree, path: str, name: str) -> str | None:
    """An attribute of ours."""
    value = node(tree, path).xattrs().get(f"user.archivefs.{name}")
    return None if value is None else value.decode()


def shape(tree: CrystalTree, path: str) -> dict[str, object]:
    """A directory as a dict."""
    return as_dict(directory(tree, path))


def fingerprint(path: Path) -> dict[str, tuple[int, int, str]]:
    """Everything in a folder: names, sizes, times and bytes."""
    found = {}
    for folder, _, files in os.walk(path):
        for name in files:
            file_path = Path(folder, name)
            status = file_path.lstat()
            digest = hashlib.sha256(file_path.read_bytes()).hexdigest() if file_path.is_file() else ""
            found[str(file_path)] = (status.st_size, status.st_mtime_ns, digest)
        found[folder] = (0, os.stat(folder).st_mtime_ns, "")
    return found


def project(tmp_path: Path, fill: Callable[[ProjectWriter], object], **choices: object) -> Path:
    """A project filled by a function."""
    writer = ProjectWriter(**choices)  # type: ignore[arg-type]
    fill(writer)
    return writer.write(tmp_path / "p.crystalproj")


def change(path: Path, *statements: str) -> None:
    """Change the database of a project, as another program would."""
    database = sqlite3.connect(path / "database.sqlite", isolation_level=None)
    for statement in statements:
        database.execute(statement)
    database.close()
