"""``archivefs ls``: list a directory of an archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click

from archivefs.cli.paths import Place, located, look_up, node_of, parse_place
from archivefs.cli.shared import OpenRequest, cli_command, json_option, opening_options, tell
from archivefs.cli.shown import KIND_LETTERS, described, json_text, local_time, name_of, write, write_list
from archivefs.cli.sources import opened
from archivefs.errors import ArchiveError
from archivefs.tree import Directory, Entry, Node


@cli_command("ls", example="archivefs ls -l site.zip:/docs")
@click.argument("place", metavar="SRC[:/PATH]")
@click.option("-l", "--long", "in_full", is_flag=True, help="Show kind, size and time too.")
@json_option
@opening_options
def command(place: str, in_full: bool, as_json: bool, request: OpenRequest) -> int:
    """List a directory of an archive.

    Names are printed one to a line, and what is not printable in them is escaped.
    """
    where = parse_place(place)
    with opened(where.source, request) as tree:
        listing = Listing(where, look_up(tree, where, follow=not in_full).node)
        if as_json:
            write_list(listing.lines(_as_json))
        else:
            for line in listing.lines(_in_full) if in_full else listing.names():
                write(line)
        return int(listing.damaged)


class Listing:
    """A directory's entries, or the one file that was named; what cannot be looked at is told and left out."""

    def __init__(self, place: Place, node: Node) -> None:
        self._place = place
        self._node = node
        self.damaged = False

    def names(self) -> Iterator[str]:
        """Names alone, for which nothing is looked up."""
        for entry in self._entries():
            yield name_of(entry.name)

    def lines(self, describe: Callable[[str, Node], str]) -> Iterator[str]:
        """What *describe* makes of each name and node."""
        for entry in self._entries():
            try:
                yield describe(entry.name, self._node_of(entry))
            except ArchiveError as error:
                self._tell(error, entry.name)

    def _entries(self) -> Iterator[Entry]:
        node = self._node
        if not isinstance(node, Directory):
            yield Entry(self._place.parts[-1], node.kind, node.ident, node)
            return
        try:
            yield from node.entries()
        except ArchiveError as error:
            self._tell(error)

    def _node_of(self, entry: Entry) -> Node:
        return node_of(self._node, entry) if isinstance(self._node, Directory) else self._node

    def _tell(self, error: ArchiveError, *name: str) -> None:
        self.damaged = True
        tell(str(located(error, Place(self._place.source, (*self._place.parts, *name)))))


def _in_full(name: str, node: Node) -> str:
    attributes = node.attributes()
    when = local_time(attributes.mtime_ns)
    return f"{KIND_LETTERS[node.kind]} {attributes.size:>15,} {when} {name_of(name, node)}"


def _as_json(name: str, node: Node) -> str:
    return json_text(described(name, node))
