"""What the tests of writing to projects share: opening one for writing, writing a file, and checking by SQL.

``check_project`` follows the format's description and uses nothing of archivefs.
"""

from __future__ import annotations

import io
import json
import os
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from archivefs.formats.crystal import open_crystal
from archivefs.formats.crystal.rwtree import RwTree
from archivefs.tree import File, Node, WritableDirectory, WritableFile
from tests.formats.crystal.projects import opening
from tests.samples.crystal import body_path, pack_path


@contextmanager
def writable(path: Path, *options: str) -> Iterator[RwTree]:
    """``with writable(path, "delete") as tree``; unmounted as the driver does it."""
    tree = open_crystal(str(path), replace(opening(*options), read_write=True))
    try:
        assert isinstance(tree, RwTree)
        yield tree
        tree.commit()
    finally:
        tree.close()


def split(tree: RwTree, path: str) -> tuple[WritableDirectory, str]:
    """The directory of a path below ``web/``, and the name in it."""
    *folders, name = path.split("/")
    directory = tree.lookup(("web", *folders))
    assert isinstance(directory, WritableDirectory)
    return directory, name


def put(tree: RwTree, path: str, data: bytes) -> None:
    """Write a file whole, as ``cp`` does."""
    directory, name = split(tree, path)
    write(directory.create(name, exclusive=False), data)


def write(file: WritableFile, data: bytes) -> None:
    """The same for a file that is at hand."""
    writer = file.open_writer(truncate=True)
    try:
        writer.write_at(0, data)
        writer.sync()
        writer.finish()
    finally:
        writer.close()


def make_directories(tree: RwTree, path: str) -> None:
    """``mkdir -p``."""
    node: Node = tree.lookup(("web",))
    for name in path.split("/"):
        assert isinstance(node, WritableDirectory)
        names = [entry.name for entry in node.entries()]
        node = node.child(name) if name in names else node.make_directory(name)


def read(tree: RwTree, path: str) -> bytes:
    """The content of a file."""
    node = tree.lookup(path.split("/"))
    assert isinstance(node, File)
    with closing(node.open()) as reader:
        return reader.read_at(0, 1 << 30)


class Stored(NamedTuple):
    """A revision as the rows and the files have it."""

    id: int
    url: str
    metadata: dict[str, object] | None
    body: bytes | None

    @property
    def headers(self) -> dict[str, str]:
        """By name; the last of equal ones."""
        found = (self.metadata or {}).get("headers")
        assert isinstance(found, list)
        return dict(found)


def revisions(path: Path) -> list[Stored]:
    """Every revision that is no error, by id, read with SQL."""
    with closing(sqlite3.connect(path / "database.sqlite")) as database:
        properties = dict(database.execute("select name, value from project_property"))
        rows = database.execute(
            "select v.id, r.url, v.error, v.metadata from resource_revision v join resource r on r.id = v.resource_id"
            " order by v.id"
        ).fetchall()
    major = int(properties.get("major_version", "1"))
    return [
        Stored(key, url, json.loads(metadata), body_of(path, key, major))
        for key, url, error, metadata in rows
        if error == "null"
    ]


def body_of(path: Path, key: int, major: int) -> bytes | None:
    """The body of a revision: in version 3 in its pack, else a file of its own."""
    if major == 3 and pack_path(path, key).exists():
        with zipfile.ZipFile(io.BytesIO(pack_path(path, key).read_bytes())) as pack:
            name = f"{key % 4096:03x}"
            if name in pack.namelist():
                return pack.read(name)
    place = body_path(path, key, major)
    return place.read_bytes() if place.is_file() else None


def pages(path: Path) -> dict[str, bytes | None]:
    """The body of the newest revision of every URL."""
    return {stored.url: stored.body for stored in revisions(path)}


def check_project(path: Path) -> None:
    """What Crystal finds at its next opening: one sound file, and never a row without a body."""
    assert sorted(name for name in os.listdir(path) if name.startswith("database")) == ["database.sqlite"]
    assert (path / "database.sqlite").read_bytes()[18:20] == b"\x01\x01"
    with closing(sqlite3.connect(path / "database.sqlite")) as database:
        assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
        duplicates = "select count(*) from resource_revision v left join resource r on r.id = v.resource_id"
        assert database.execute(duplicates + " where r.id is null").fetchone() == (0,)
    lost = [stored.id for stored in revisions(path) if stored.body is None]
    assert lost == []
