"""``archivefs bitsy``: translate names between Unicode and Bitsy, by hand or by the million."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable

import click

from archivefs.errors import UsageError, quoted
from archivefs.formats.labrador.bitsy import BitsyError, decode, encode

Translate = Callable[[str], str]


@click.group("bitsy")
def bitsy() -> None:
    """Translate file names to Bitsy, which Labrador archives use, and back."""


def _command(name: str, translate: Translate, help_text: str, example: str) -> click.Command:
    @bitsy.command(name, help=help_text, epilog=f"\b\nExample:\n  {example}\n\n{_EXIT_CODES}")
    @click.argument("names", metavar="NAME...", nargs=-1)
    @click.option("--json-lines", is_flag=True, help="Read a JSON string per line, write a JSON object per line.")
    def command(names: tuple[str, ...], json_lines: bool) -> int:
        if bool(names) == json_lines:
            raise UsageError("names are expected, or --json-lines and no names")
        return _translate_lines(translate) if json_lines else _translate_names(translate, names)

    return command


def _translate_names(translate: Translate, names: Iterable[str]) -> int:
    exit_code = 0
    for name in names:
        try:
            click.echo(quoted(translate(name)))
        except BitsyError as error:
            click.echo(f"archivefs: {quoted(str(error))}", err=True)
            exit_code = 1
    return exit_code


def _translate_lines(translate: Translate) -> int:
    """Read to the end; a line that is wrong is answered like a name that is."""
    for line in sys.stdin.buffer:
        sys.stdout.write(json.dumps(_answer(translate, line)) + "\n")
    return 0


def _answer(translate: Translate, line: bytes) -> dict[str, str]:
    try:
        name = json.loads(line)
    except (ValueError, RecursionError):
        return {"error": "not a line of JSON"}
    if not isinstance(name, str):
        return {"error": "not a JSON string"}
    try:
        return {"name": translate(name)}
    except BitsyError as error:
        return {"error": error.problem}


_EXIT_CODES = "Exit codes: 0 done (with --json-lines whenever the input could be read), 1 a name was refused, 2 usage."

_command("encode", encode, "The Bitsy name of each NAME.", "archivefs bitsy encode 'Hello World.TXT'")
_command("decode", decode, "The original name of each Bitsy NAME.", "archivefs bitsy decode xz--Rotfchse-jboqb.png")

COMMANDS = (bitsy,)
