"""``archivefs find``: where a URL is kept in an archive."""

from __future__ import annotations

import click

from archivefs.cli.shared import OpenRequest, cli_command, json_option, opening_options
from archivefs.cli.shown import fact_lines, json_text, utc_time, write
from archivefs.cli.sources import plan
from archivefs.errors import NotFound, UsageError, quoted
from archivefs.tree import Capture, Sites


@cli_command("find", example="archivefs find site.zip /docs/")
@click.argument("source", metavar="SRC")
@click.argument("url", metavar="URL")
@json_option
@opening_options
def command(source: str, url: str, as_json: bool, request: OpenRequest) -> None:
    """Say where a URL is kept in an archive.

    Prints the path in the tree and what the format knows of it, the newest first where there are several.
    The exit code is 1 if the URL is not there.
    """
    planned = plan([source], request)
    tree = planned.open()
    try:
        if not isinstance(tree, Sites):
            raise UsageError(f"the format {planned.format_name} knows no URLs", archive=source)
        found = [_described(capture) for capture in tree.captures(url)]
    finally:
        tree.close()
    if not found:
        raise NotFound("no such URL in this archive", archive=source, member=url)
    if as_json:
        write(json_text({**found[0], "older": found[1:]} if len(found) > 1 else found[0], indent=2))
        return
    for facts in found:
        write(quoted(str(facts.pop("path"))))
        for line in fact_lines(facts, indent="  "):
            write(line)


def _described(capture: Capture) -> dict[str, object]:
    """A format without times or headers keeps no status either: 200 would be made up."""
    facts: dict[str, object] = {"path": "/".join(capture.parts)}
    if capture.time_ns is not None or capture.headers:
        facts["status"] = capture.status
    if capture.time_ns is not None:
        facts["time"] = utc_time(capture.time_ns)
    return {**facts, **capture.facts}
