"""``archivefs NAME serve``: the command for the HTTP interface that a format offers (``Format.web``)."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from archivefs.cli.shared import cli_command
from archivefs.errors import MissingLibrary
from archivefs.format import Format


def serve_command(format: Format) -> click.Command:
    """The command, with the format's own options."""
    assert format.web is not None
    offer = format.web()
    example = f"archivefs {format.name} serve storage --port 8080"

    @cli_command("serve", example=example)
    @click.argument("storage", metavar="STORAGE")
    @click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port; 0 lets the system choose one.")
    def serve(storage: str, port: int, **options: Any) -> int:
        try:
            from archivefs.web.server import serve as run
        except ModuleNotFoundError as error:
            raise MissingLibrary(f"{error.name} is missing", advice="pip install 'archivefs[web]'") from None
        handle, close = offer.open(os.path.abspath(storage), **options)
        try:
            run(handle, port=port, announce=_announce)
        finally:
            close()
        return 0

    serve.help = f"{offer.help}\n\nThe first line printed is its URL; it ends on Ctrl-C or SIGTERM."
    serve.params += offer.options
    return serve


def _announce(url: str) -> None:
    sys.stdout.write(url + "\n")
    sys.stdout.flush()
