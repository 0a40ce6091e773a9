"""``archivefs discard``: throw changes away."""

from __future__ import annotations

import sys

import click

from archivefs.cli.pending import mounted_at_or_none, opened_for_changing
from archivefs.cli.shared import OpenRequest, cli_command, opening_options


@cli_command("discard", example="archivefs discard /mnt/site\narchivefs discard --yes site.lbz")
@click.argument("place", metavar="MOUNTPOINT|ARCHIVE")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@opening_options
def command(place: str, yes: bool, request: OpenRequest) -> None:
    """Throw away what was changed on a read-write mount, or left by one, and is not in the archive yet.

    Nobody has it afterwards.  On a terminal the command asks first.
    """
    if not yes and sys.stdin is not None and sys.stdin.isatty():
        click.confirm(f"Throw away the changes to {click.format_filename(place)}?", abort=True, err=True)
    mount = mounted_at_or_none(place)
    if mount is not None:
        mount.discard()
        return
    with opened_for_changing(place, request, ignore_pending=True) as tree:
        tree.discard_changes()
