"""Opening an archive for changing, and changing it, as tests do."""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from archivefs.errors import DirectoryExpected
from archivefs.format import Finding, Level, Opening, VerifyRequest, no_progress
from archivefs.formats.labrador import FORMAT
from archivefs.formats.labrador.editing import LabradorEditor
from archivefs.options import parse
from archivefs.staging.overlay import OverlayDirectory, OverlayFile
from archivefs.tree import Kind
from tests.staging.plain import content_of, put

__all__ = ["content_of", "no_progress", "put"]


def open_rw(path: Path, *options: str, **more: Any) -> LabradorEditor:
    """The archive at *path*, opened for changing."""
    tree = FORMAT.open(str(path), Opening(options=parse(options, FORMAT.options), read_write=True, **more))
    assert isinstance(tree, LabradorEditor)
    return tree


@contextlib.contextmanager
def edited(path: Path, *options: str, **more: Any) -> Iterator[LabradorEditor]:
    """The archive opened for changing, and committed at the end."""
    tree = open_rw(path, *options, **more)
    try:
        yield tree
        tree.commit(no_progress)
    finally:
        tree.close()


def site(path: Path, **more: Any) -> dict[str, Any]:
    """What a read-only mount shows, as a nested dict."""
    tree = FORMAT.open(str(path), Opening(**more))
    try:
        return content_of(tree.root())
    finally:
        tree.close()


def folder(tree: LabradorEditor, *parts: str) -> OverlayDirectory:
    node = tree.lookup(parts)
    if not isinstance(node, OverlayDirectory):
        raise DirectoryExpected(member="/".join(parts))
    return node


def file(tree: LabradorEditor, *parts: str) -> OverlayFile:
    node = tree.lookup(parts)
    assert isinstance(node, OverlayFile)
    return node


def write(tree: LabradorEditor, path: str, data: bytes) -> None:
    """Write a file whole; directories are made."""
    *directories, name = path.split("/")
    here = tree.root()
    for directory in directories:
        try:
            node = here.child(directory)
        except Exception:
            node = here.make_directory(directory)
        assert isinstance(node, OverlayDirectory)
        here = node
    put(here, name, data)


def remove(tree: LabradorEditor, path: str, kind: Kind = Kind.FILE) -> None:
    *directories, name = path.split("/")
    folder(tree, *directories).remove(name, kind=kind)


def move(tree: LabradorEditor, source: str, target: str) -> None:
    *from_parts, name = source.split("/")
    *to_parts, to_name = target.split("/")
    folder(tree, *from_parts).rename(name, folder(tree, *to_parts), to_name, replace=True)


def manifest(path: Path) -> dict[str, str]:
    """The records of the archive at *path*, by a reader that is not ours."""
    with zipfile.ZipFile(path) as archive:
        lines = archive.read("manifest").decode("ascii").splitlines()
    return dict(line.split(" ") for line in lines)


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {info.filename: archive.read(info) for info in archive.infolist()}


def packed(path: Path) -> dict[str, bytes]:
    """The compressed bytes of each member."""
    data = path.read_bytes()
    found = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            start = info.header_offset + 30 + len(info.filename) + len(data[info.header_offset + 28 :][:0])
            extra = int.from_bytes(data[info.header_offset + 28 : info.header_offset + 30], "little")
            found[info.filename] = data[start + extra : start + extra + info.compress_size]
    return found


def findings(path: Path) -> list[Finding]:
    """What ``verify`` has to say, notices left out."""
    assert FORMAT.verify is not None
    found = FORMAT.verify(str(path), Opening(), VerifyRequest())
    return [finding for finding in found if finding.level is Level.ERROR]
