"""``archivefs info``: what an archive is, or what one path in it is."""

from __future__ import annotations

import os

import click

from archivefs.cli.paths import Place, look_up, parse_place
from archivefs.cli.shared import OpenRequest, cli_command, json_option, opening_options
from archivefs.cli.shown import described, fact_lines, json_text, write
from archivefs.cli.sources import Source, plan
from archivefs.tree import Sites, Tree


@cli_command("info", example="archivefs info site.zip\narchivefs info --json site.zip:/index.html")
@click.argument("place", metavar="SRC[:/PATH]")
@json_option
@opening_options
def command(place: str, as_json: bool, request: OpenRequest) -> None:
    """Say what an archive is and what is in it.

    With a path, say what is known of that file or directory instead.
    """
    where = parse_place(place)
    planned = plan([where.source], request)
    tree = planned.open()
    try:
        known = _of_path(tree, where) if where.parts else _of_archive(tree, planned.sources[0])
    finally:
        tree.close()
    if as_json:
        write(json_text(known, indent=2))
    else:
        facts = known.pop("facts", None) or known.pop("xattrs", None)
        write("\n".join(fact_lines({**known, **(facts if isinstance(facts, dict) else {})})))


def _of_archive(tree: Tree, source: Source) -> dict[str, object]:
    return {
        "source": source.path,
        "format": source.format_name,
        "size": tree.usage().size if os.path.isdir(source.path) else os.path.getsize(source.path),
        "sites": isinstance(tree, Sites),
        "facts": dict(tree.facts()),
    }


def _of_path(tree: Tree, place: Place) -> dict[str, object]:
    node = look_up(tree, place, follow=False).node
    xattrs = {name: value.decode("utf-8", "backslashreplace") for name, value in sorted(node.xattrs().items())}
    return {"path": "/".join(place.parts), **described(place.parts[-1], node), "xattrs": xattrs}
