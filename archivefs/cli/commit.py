"""``archivefs commit``: put changes into the archive."""

from __future__ import annotations

import click

from archivefs.cli.pending import mounted_at_or_none, opened_for_changing, plan_for_changing
from archivefs.cli.progress import Meter
from archivefs.cli.shared import OpenRequest, cli_command, opening_options


@cli_command("commit", example="archivefs commit /mnt/site\narchivefs commit site.lbz")
@click.argument("place", metavar="MOUNTPOINT|ARCHIVE")
@opening_options
def command(place: str, request: OpenRequest) -> None:
    """Put into the archive what was changed on a read-write mount, or left by one.

    The archive is replaced whole or not at all; what cannot be put into it stays pending.
    """
    meter = Meter("saving changes")
    mount = mounted_at_or_none(place)
    try:
        if mount is not None:
            mount.commit(meter)
        else:
            with opened_for_changing(plan_for_changing(place, request)) as tree:
                tree.commit(meter)
    finally:
        meter.clear()
