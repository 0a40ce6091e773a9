"""``archivefs status``: what was changed and is not in the archive yet."""

from __future__ import annotations

import click

from archivefs.cli.pending import mounted_at_or_none, opened_for_changing, plan_for_changing
from archivefs.cli.shared import OpenRequest, cli_command, json_option, opening_options
from archivefs.cli.shown import json_text, write
from archivefs.errors import quoted


@cli_command("status", example="archivefs status /mnt/site\narchivefs status site.lbz")
@click.argument("place", metavar="MOUNTPOINT|ARCHIVE")
@json_option
@opening_options
def command(place: str, as_json: bool, request: OpenRequest) -> None:
    """Say what was changed on a read-write mount, or left by one, and is not in the archive yet."""
    mount = mounted_at_or_none(place)
    if mount is not None:
        lines = mount.pending()
    else:
        with opened_for_changing(plan_for_changing(place, request)) as tree:
            lines = [quoted(f"{what} {'/'.join(parts)}") for what, parts in tree.pending()]
    if as_json:
        pairs = [line.split(maxsplit=1) for line in lines]
        write(json_text([{"change": what, "path": path} for what, path in pairs], indent=2))
    elif lines:
        write("\n".join(lines))
    else:
        write("nothing is pending")
