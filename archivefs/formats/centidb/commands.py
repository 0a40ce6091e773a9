"""``archivefs centidb key``: keys of a store to readable names and back, by hand or by the million."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from archivefs.errors import CorruptMember, UsageError, quoted
from archivefs.formats.centidb import keyjson, keynames, keys
from archivefs.formats.centidb.dialects import BY_NAME, Dialect

Answer = Callable[[Any, Dialect], dict[str, object]]
Lines = Callable[[str, Dialect], Iterator[str]]
_EXIT_CODES = "Exit codes: 0 done (with --json-lines whenever the input could be read), 1 a key was refused, 2 usage."


_GROUP_EPILOG = (
    "\b\nExample:\n  archivefs centidb key decode 32badcecd71015f275\n"
    f"  archivefs centidb key encode Tuser,Pc613\n\n{_EXIT_CODES}"
)


@click.group("centidb", epilog=_GROUP_EPILOG)
def centidb() -> None:
    """Work with what centidb stores are made of."""


@centidb.group("key", epilog=_GROUP_EPILOG)
def key() -> None:
    """Read and write the keys of centidb stores."""


def _command(name: str, *, lines: Lines, answer: Answer, help_text: str, example: str) -> None:
    @key.command(name, help=help_text, epilog=f"\b\nExample:\n  {example}\n\n{_EXIT_CODES}")
    @click.argument("texts", metavar="[KEY]...", nargs=-1)
    @click.option("--dialect", type=click.Choice(sorted(BY_NAME)), default="centidb", help="Which generation wrote it.")
    @click.option("--json-lines", is_flag=True, help="Read a JSON value per line, write a JSON object per line.")
    def command(texts: tuple[str, ...], dialect: str, json_lines: bool) -> int:
        if bool(texts) == json_lines:
            raise UsageError("keys are expected, or --json-lines and no keys")
        if json_lines:
            return _answer_lines(answer, BY_NAME[dialect])
        return max(_print(lines, text, BY_NAME[dialect]) for text in texts)


def _print(lines: Lines, text: str, dialect: Dialect) -> int:
    try:
        for line in lines(text, dialect):
            click.echo(line)
    except (ValueError, OverflowError, CorruptMember) as error:
        problem = error.problem if isinstance(error, CorruptMember) else str(error)
        click.echo(f"archivefs: {quoted(text)}: {quoted(problem)}", err=True)
        return 1
    return 0


def _decoded_lines(text: str, dialect: Dialect) -> Iterator[str]:
    if not re.fullmatch("(?:[0-9a-fA-F]{2})*", text):
        raise ValueError("hex digits are expected")
    for found in keys.decode_key(bytes.fromhex(text), dialect):
        yield f"{keynames.flat_name(found)}\t{quoted(keyjson.tuple_text(found.values))}"


def _encoded_lines(text: str, dialect: Dialect) -> Iterator[str]:
    data = keynames.parse_flat(text, dialect)
    if not isinstance(data, bytes):
        raise ValueError("it is not the readable name of a key")
    yield data.hex()


def _answer_lines(answer: Answer, dialect: Dialect) -> int:
    """Read to the end; a line that is wrong is answered too, and each before the next one is waited for."""
    for line in sys.stdin.buffer:
        sys.stdout.write(json.dumps(_answer_line(answer, line, dialect)) + "\n")
        sys.stdout.flush()
    return 0


def _answer_line(answer: Answer, line: bytes, dialect: Dialect) -> dict[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {"error": "not a line of JSON"}
    try:
        return answer(value, dialect)
    except CorruptMember as error:
        return {"error": error.problem}
    except (ValueError, OverflowError) as error:
        return {"error": str(error)}


_command(
    "decode",
    lines=_decoded_lines,
    answer=keyjson.decoded,
    help_text="The tuples of each KEY, given in hex without the collection's number, one line a tuple.",
    example="archivefs centidb key decode 32badcecd71015f275",
)
_command(
    "encode",
    lines=_encoded_lines,
    answer=keyjson.encoded,
    help_text="The hex of each KEY, given by its readable name.",
    example="archivefs centidb key encode Tuser,Pc613",
)

COMMANDS = (centidb,)
