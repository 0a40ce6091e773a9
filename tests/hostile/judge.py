"""Walks a tree that somebody made to do harm, and says what must never be seen.

No recursion, and a bound on everything, so that the judge itself cannot be made to hang.  What a tree may do is
listed in its contract; here only what an archive could try to bring about is looked for.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from archivefs.errors import ArchiveError
from archivefs.tree import Directory, File, Node, Parts, Symlink, Tree
from tests.walking import stays_inside

STEP = 1 << 17


@dataclass
class Verdict:
    """What was seen."""

    faults: list[str] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    """SHA-256 of every file that could be read, by path."""
    refused: dict[str, str] = field(default_factory=dict)
    """The error of every file that could not."""
    entries: int = 0
    bytes: int = 0


def judge(tree: Tree, *, max_bytes: int = 256 << 20, max_entries: int = 200_000, seconds: float = 60) -> Verdict:
    """Look at everything in *tree*; faults are what should not be."""
    verdict = Verdict()
    end = time.monotonic() + seconds
    for parts, node in _everything(tree, verdict):
        where = "/".join(parts)
        verdict.entries += 1
        if verdict.entries > max_entries or verdict.bytes > max_bytes or time.monotonic() > end:
            verdict.faults.append(f"{where}: too much")
            break
        if isinstance(node, Symlink):
            if not stays_inside(node.target(), depth=len(parts) - 1):
                verdict.faults.append(f"{where}: leads out, to {node.target()!r}")
        elif isinstance(node, File):
            _read(where, node, verdict, max_bytes)
    return verdict


def _everything(tree: Tree, verdict: Verdict) -> Iterator[tuple[Parts, Node]]:
    waiting: list[tuple[Parts, Directory]] = [((), tree.root())]
    while waiting:
        parts, directory = waiting.pop()
        names: set[str] = set()
        for entry in directory.entries():
            here = (*parts, entry.name)
            if entry.name in ("", ".", "..") or "/" in entry.name or "\0" in entry.name or entry.name in names:
                verdict.faults.append(f"{'/'.join(here)!r}: impossible name")
            if len(entry.name.encode()) > 255:
                verdict.faults.append(f"{'/'.join(here)!r}: too long")
            names.add(entry.name)
            node = directory.child(entry.name)
            if (node.ident, node.kind) != (entry.ident or node.ident, entry.kind):
                verdict.faults.append(f"{'/'.join(here)!r}: listed as something else")
            if isinstance(node, Directory):
                waiting.append((here, node))
            yield here, node


def _read(where: str, node: File, verdict: Verdict, max_bytes: int) -> None:
    size, _, version = node.attributes()
    digest, crc, got, first = hashlib.sha256(), 0, 0, b""
    try:
        reader = node.open()
    except ArchiveError as error:
        verdict.refused[where] = _one_line(where, error, verdict)
        return
    try:
        while got < size and verdict.bytes <= max_bytes:
            piece = reader.read_at(got, STEP)
            if len(piece) != min(STEP, size - got):
                verdict.faults.append(f"{where}: {len(piece)} bytes at {got} of {size}")
                return
            first = first or piece
            digest.update(piece)
            crc = zlib.crc32(piece, crc)
            got += len(piece)
            verdict.bytes += len(piece)
        if reader.read_at(0, STEP) != first or reader.read_at(size, 10) != b"":
            verdict.faults.append(f"{where}: another content when read again")
        if got == size and crc != version:
            verdict.faults.append(f"{where}: its content has another CRC than promised")
        verdict.digests[where] = digest.hexdigest()
    except ArchiveError as error:
        verdict.refused[where] = _one_line(where, error, verdict)
    finally:
        reader.close()


def _one_line(where: str, error: ArchiveError, verdict: Verdict) -> str:
    if not str(error).isprintable():
        verdict.faults.append(f"{where!r}: the message is not one clean line: {str(error)!r}")
    return type(error).__name__
