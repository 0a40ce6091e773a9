"""``archivefs cat``: print files of an archive, byte for byte."""

from __future__ import annotations

import sys
from contextlib import ExitStack

import click

from archivefs.cli.paths import Place, located, look_up, parse_place
from archivefs.cli.shared import OpenRequest, cli_command, opening_options, tell
from archivefs.cli.sources import opened
from archivefs.errors import ArchiveError, FileExpected
from archivefs.tree import Directory, File, Tree

CHUNK = 1 << 18


@cli_command("cat", example="archivefs cat site.zip:/index.html")
@click.argument("places", metavar="SRC:/PATH...", nargs=-1, required=True)
@opening_options
def command(places: tuple[str, ...], request: OpenRequest) -> int:
    """Print files of an archive.

    A damaged file is printed as far as it can be read; the others are printed all the same.
    """
    damaged = False
    trees: dict[str, Tree] = {}
    with ExitStack() as stack:
        for where in [parse_place(place) for place in places]:
            if where.source not in trees:
                trees[where.source] = stack.enter_context(opened(where.source, request))
            try:
                _print(trees[where.source], where)
            except ArchiveError as error:
                damaged = True
                sys.stdout.flush()
                tell(str(located(error, where)))
    return int(damaged)


def _print(tree: Tree, place: Place) -> None:
    node = look_up(tree, place).node
    if not isinstance(node, File):
        problem = "a directory, not a file" if isinstance(node, Directory) else ""
        raise FileExpected(problem)
    output = sys.stdout.buffer
    reader = node.open()
    try:
        offset = 0
        while data := reader.read_at(offset, CHUNK):
            output.write(data)
            offset += len(data)
    finally:
        reader.close()
