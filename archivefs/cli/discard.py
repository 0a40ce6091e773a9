"""``archivefs discard``: throw changes away."""

from __future__ import annotations

import click

from archivefs.cli.pending import mounted_at_or_none, opened_for_changing, plan_for_changing
from archivefs.cli.shared import OpenRequest, cli_command, opening_options


@cli_command("discard", example="archivefs discard /mnt/site\narchivefs discard --yes site.lbz")
@click.argument("place", metavar="MOUNTPOINT|ARCHIVE")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@opening_options
def command(place: str, yes: bool, request: OpenRequest) -> None:
    """Throw away what was changed on a read-write mount, or left by one, and is not in the archive yet.

    Nobody has it afterwards.  The command asks first, unless told --yes; whatever is no yes is a no.
    """
    mount = mounted_at_or_none(place)
    if mount is not None:
        mount.check_writable()
        _ask(place, yes)
        mount.discard()
        return
    planned = plan_for_changing(place, request)
    _ask(place, yes)  # not later: a tree that is closed with nothing picked up may throw away what was left
    with opened_for_changing(planned, ignore_pending=True) as tree:
        tree.discard_changes()


def _ask(place: str, yes: bool) -> None:
    if not yes:
        click.confirm(f"Throw away the changes to {click.format_filename(place)}?", abort=True, err=True)
