"""A format for tests that need archives on disk but none in particular.

A fake archive is a file that begins with ``FAKE`` and goes on with a tree in MemoryTree's notation.  Bytes that
begin with ``!damaged`` are a file whose second half cannot be read; a name that begins with ``!lost`` is listed,
but cannot be looked up.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from archivefs import registry
from archivefs.errors import CorruptArchive, CorruptMember
from archivefs.format import Finding, Format, Level, Match, Opening, PluginBroken, Probe, VerifyRequest
from archivefs.memory import MemoryTree
from archivefs.options import Option, whole_number
from archivefs.readers import BytesReader
from archivefs.tree import Capture, Directory, Entry, File, Node, Reader

MTIME_NS = 1_600_000_000_123_456_789
MAGIC = b"FAKE"


def write_fake(path: Path, content: Mapping[str, object]) -> Path:
    """Write a fake archive of that tree."""
    path.write_bytes(MAGIC + repr(content).encode("utf-8", "surrogatepass"))
    return path


class FakeTree(MemoryTree):
    """An opened fake archive, which knows what it was opened with."""

    def __init__(self, path: str, opening: Opening) -> None:
        try:
            content = ast.literal_eval(Path(path).read_bytes()[len(MAGIC) :].decode("utf-8", "surrogatepass"))
        except (SyntaxError, ValueError):
            raise CorruptArchive("nobody could read this", archive=path) from None
        super().__init__(content, mtime_ns=MTIME_NS, xattrs={"user.fake": b"yes"}, extras={"options": b"none"})
        self.opening = opening
        self.closed = 0
        OPENED.append(self)
        for node in self._nodes:
            _damage(node)

    def facts(self) -> Mapping[str, object]:
        return {"colour": self.opening.options["colour"], "states": {"stored": 3}}

    def captures(self, url: str) -> Iterator[Capture]:
        for name in ("index.html", "older.html") if url == "/" else ():
            facts = {"key": name, "state": "stored", "digest": "00ff"}
            yield Capture(self.lookup((name,)), (name,), facts=facts)

    def close(self) -> None:
        self.closed += 1


OPENED: list[FakeTree] = []
"""Every tree that was opened since the test began."""


def _damage(node: Node) -> None:
    if isinstance(node, File) and node.open().read_at(0, 8) == b"!damaged":
        reader = DamagedReader(node.open())
        node.open = lambda: reader  # type: ignore[method-assign]
    if isinstance(node, Directory) and any(entry.name.startswith("!lost") for entry in node.entries()):
        _lose(node)


def _lose(directory: Directory) -> None:
    child, entries = directory.child, list(directory.entries())

    def look_up(name: str) -> Node:
        if name.startswith("!lost"):
            raise CorruptMember("its record is damaged", member=name)
        return child(name)

    def listing(after: str | None = None) -> Iterator[Entry]:
        return (Entry(name, kind) for name, kind, _, _ in entries if after is None or name > after)

    directory.child = look_up  # type: ignore[method-assign]
    directory.entries = listing  # type: ignore[method-assign]


class DamagedReader(BytesReader):
    """Gives the first half and then an error."""

    def __init__(self, whole: Reader) -> None:
        super().__init__(whole.read_at(0, 1 << 20))

    def read_at(self, offset: int, size: int) -> bytes:
        half = self.attributes().size // 2
        if offset >= half:
            raise CorruptMember("its checksum is wrong")
        return super().read_at(offset, min(size, half - offset))


def match(probe: Probe) -> Match:
    return Match.YES if probe.head.startswith(MAGIC) else Match.NO


def verify(path: str, opening: Opening, request: VerifyRequest) -> Iterable[Finding]:
    """Damaged files are errors; left out, a notice, or with --complete an error too."""
    tree = FakeTree(path, opening)
    level = Level.ERROR if request.complete else Level.NOTICE
    for number, node in enumerate(tree._nodes):
        request.progress(number, len(tree._nodes))
        if isinstance(node, File) and isinstance(node.open(), DamagedReader):
            yield Finding("bad-crc", Level.ERROR, f"file {number}", "its checksum is wrong")
        elif isinstance(node, File) and node.attributes().size == 0:
            yield Finding("left-out", level, f"file {number}", f"not here\n({request.jobs} jobs)")


@click.command("fakery")
@click.argument("code", type=int)
def fakery(code: int) -> int:
    """A command of the fake format."""
    if code == 99:
        raise RuntimeError("a bug\nof two lines")
    click.echo(f"fakery {code}")
    return code


def fake(name: str = "fake", **more: Any) -> Format:
    """The format, under any name."""
    offered = {
        "name": name,
        "summary": f"The {name} format",
        "match": match,
        "open": FakeTree,
        "options": (
            Option(name="colour", help="what it looks like", parse=str, default="grey"),
            Option(name="depth", help="how deep", parse=whole_number, metavar="N"),
            Option(name="loud", help="make a noise"),
        ),
        "verify": verify,
    }
    return Format(**{**offered, **more})


def register(monkeypatch: Any, formats: Sequence[Format], broken: Sequence[PluginBroken] = ()) -> None:
    """Have the registry know these formats and no others, until the test ends."""
    OPENED.clear()
    table = registry._Loaded({format.name: format for format in formats}, list(broken))
    monkeypatch.setattr(registry, "_loaded", table)


def at_once(count: int, action: Any) -> list[Exception]:
    """Call *action* from that many threads, and give what they raised."""
    problems: list[Exception] = []

    def call() -> None:
        try:
            action()
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=call) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems
