"""How things are printed: names, kinds, times, JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone

from archivefs.errors import quoted
from archivefs.tree import Kind, Node, Symlink

KIND_NAMES = {Kind.DIRECTORY: "directory", Kind.FILE: "file", Kind.SYMLINK: "symlink"}
KIND_LETTERS = {Kind.DIRECTORY: "d", Kind.FILE: "-", Kind.SYMLINK: "l"}


def write(text: str) -> None:
    """A line on stdout.  Not click.echo, which would empty the buffer after each of a million lines."""
    sys.stdout.write(text + "\n")


def write_list(items: Iterable[str]) -> None:
    """A JSON list of *items*, which are JSON already, one to a line and none kept."""
    before = "["
    for item in items:
        sys.stdout.write(f"{before}{item}")
        before = ",\n "
    write("[]" if before == "[" else "]")


def name_of(name: str, node: Node | None = None) -> str:
    """A name for people: what is not printable is escaped; a link shows where it leads."""
    if isinstance(node, Symlink):
        return f"{quoted(name)} -> {quoted(node.target())}"
    return quoted(name)


def described(name: str, node: Node) -> dict[str, object]:
    """A node as JSON shows it."""
    attributes = node.attributes()
    answer: dict[str, object] = {"name": name, "kind": KIND_NAMES[node.kind]}
    if node.kind is not Kind.DIRECTORY:
        answer["size"] = attributes.size
    answer["mtime"] = utc_time(attributes.mtime_ns)
    if isinstance(node, Symlink):
        answer["target"] = node.target()
    return answer


def utc_time(time_ns: int) -> str | None:
    """``2024-05-01T12:00:00Z``, with a fraction where there is one; None for a year no calendar has."""
    seconds, rest = divmod(time_ns, 10**9)
    try:
        text = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return None
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    return f"{text}{fraction}Z"


def local_time(time_ns: int) -> str:
    """``2024-05-01 12:00:00`` where the user is."""
    try:
        return datetime.fromtimestamp(time_ns // 10**9).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{'?':19}"


def json_text(value: object, *, indent: int | None = None) -> str:
    """JSON in ASCII, so that nothing in it can upset a terminal; what JSON lacks is shown as text."""
    return json.dumps(value, indent=indent, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset, tuple)):
        return sorted(value, key=str)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def as_text(value: object) -> str:
    """A fact as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, bytes):
        return quoted(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(as_text(item) for item in value) or "-"
    return quoted(str(value))


def fact_lines(facts: Mapping[str, object], *, indent: str = "") -> list[str]:
    """Facts as lines with their names in a column; a fact that has facts of its own has them below it."""
    width = max((len(name) for name, value in facts.items() if not isinstance(value, Mapping)), default=0)
    lines = []
    for name, value in facts.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{quoted(name)}", *fact_lines(value, indent=indent + "  ")]
        else:
            lines.append(f"{indent}{quoted(name):{width}}  {as_text(value)}")
    return lines
