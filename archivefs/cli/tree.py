"""``archivefs tree``: show an archive, or a directory of it, as a tree.

A stack of listings instead of recursion, since an archive may be nested more deeply than Python allows; only
the names on the way to the present one are kept.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import click

from archivefs.cli.paths import Place, located, look_up, node_of, parse_place
from archivefs.cli.shared import OpenRequest, cli_command, json_option, opening_options, tell
from archivefs.cli.shown import described, json_text, name_of, write
from archivefs.cli.sources import opened
from archivefs.errors import ArchiveError
from archivefs.tree import Directory, Kind, Node, Parts


@cli_command("tree", example="archivefs tree -L 2 site.zip")
@click.argument("place", metavar="SRC[:/PATH]")
@click.option("-L", "--level", "depth", type=click.IntRange(min=1), metavar="N", help="Go down N levels only.")
@json_option
@opening_options
def command(place: str, depth: int | None, as_json: bool, request: OpenRequest) -> int:
    """Show an archive as a tree."""
    where = parse_place(place)
    with opened(where.source, request) as tree:
        walk = Walk(where, depth)
        node = look_up(tree, where).node
        if as_json:
            _print_json(walk, node)
        else:
            _print_text(walk, node)
        return int(walk.damaged)


class Step(NamedTuple):
    """A thing met on the walk."""

    name: str
    node: Node
    last: bool
    """Nothing comes after it in its directory."""
    entered: bool
    """What is in it comes next."""


class Walk:
    """What is below a place, in order; what cannot be looked at is told and left out."""

    def __init__(self, place: Place, depth: int | None) -> None:
        self.name = place.parts[-1] if place.parts else place.source
        self.damaged = False
        self._place = place
        self._depth = sys.maxsize if depth is None else depth

    def steps(self, node: Node) -> Iterator[Step | None]:
        """Each thing as it is met, *node* first, and None where a directory that was entered is left."""
        yield Step(self.name, node, last=True, entered=isinstance(node, Directory))
        levels = [_Level(self.children(node, self._place.parts))] if isinstance(node, Directory) else []
        parts = self._place.parts
        while levels:
            met = levels[-1].take()
            if met is None:
                levels.pop()
                parts = parts[:-1]
                yield None
                continue
            name, below = met
            enter = isinstance(below, Directory) and len(levels) < self._depth
            yield Step(name, below, last=levels[-1].at_end, entered=enter)
            if isinstance(below, Directory) and enter:
                parts = (*parts, name)
                levels.append(_Level(self.children(below, parts)))

    def children(self, directory: Directory, parts: Parts) -> Iterator[tuple[str, Node]]:
        """The names and nodes in a directory."""
        try:
            for entry in directory.entries():
                try:
                    yield entry.name, node_of(directory, entry)
                except ArchiveError as error:
                    self.tell(error, (*parts, entry.name))
        except ArchiveError as error:
            self.tell(error, parts)

    def tell(self, error: ArchiveError, parts: Parts) -> None:
        """Report what cannot be looked at."""
        self.damaged = True
        tell(str(located(error, Place(self._place.source, parts))))


class _Level:
    """A listing that knows when it has come to its end."""

    def __init__(self, children: Iterator[tuple[str, Node]]) -> None:
        self._children = children
        self._ahead = next(children, None)

    @property
    def at_end(self) -> bool:
        return self._ahead is None

    def take(self) -> tuple[str, Node] | None:
        taken = self._ahead
        if taken is not None:
            self._ahead = next(self._children, None)
        return taken


def _print_text(walk: Walk, top: Node) -> None:
    margins: list[str] = []  # one for each directory entered below the top
    counts: Counter[Kind] = Counter()
    level = 0
    for step in walk.steps(top):
        if step is None:
            level -= 1
            del margins[max(level - 1, 0) :]
            continue
        corner = ("└── " if step.last else "├── ") if level else ""
        write("".join(margins) + corner + name_of(step.name, step.node))
        counts[step.node.kind] += bool(level)
        if step.entered:
            margins += ["    " if step.last else "│   "] if level else []
            level += 1
    links = f", {counts[Kind.SYMLINK]} links" if counts[Kind.SYMLINK] else ""
    write(f"\n{counts[Kind.DIRECTORY]} directories, {counts[Kind.FILE]} files{links}")


def _print_json(walk: Walk, top: Node) -> None:
    """Written as it is met: the whole may be larger than memory, and deeper than json.dumps can go."""
    comma = ""
    for step in walk.steps(top):
        if step is None:
            sys.stdout.write("]}")
            comma = ","
            continue
        text = json_text(described(step.name, step.node))
        sys.stdout.write(comma + (text[:-1] + ', "children": [' if step.entered else text))
        comma = "" if step.entered else ",\n"
    write("")
