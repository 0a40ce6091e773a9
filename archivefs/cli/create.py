"""``archivefs create``: a new, empty archive."""

from __future__ import annotations

import os

import click

from archivefs import registry
from archivefs.cli.shared import cli_command
from archivefs.errors import AlreadyExists, UsageError


@cli_command("create", example="archivefs create labrador site.lbz\narchivefs mount -o rw site.lbz /mnt/site")
@click.argument("format_name", metavar="FORMAT")
@click.argument("path", metavar="PATH")
def command(format_name: str, path: str) -> None:
    """Make a new, empty archive, to be mounted read-write and filled."""
    format = registry.format_named(format_name)
    if format.create is None:
        able = ", ".join(name for name, other in registry.formats().items() if other.create)
        raise UsageError(f"archives of the format {format.name} cannot be made", advice=f"these can: {able}")
    registry.check_available(format)
    if os.path.lexists(path):
        raise AlreadyExists("there is something of that name already", archive=path)
    format.create(os.path.abspath(path))
