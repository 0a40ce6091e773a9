"""``archivefs bitsy``, which translates names by hand or by the million, and ``archivefs pack`` and ``complete``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import click

from archivefs.errors import AlreadyExists, ContentRefused, UnreadableArchive, UsageError, quoted
from archivefs.format import Progress, no_progress
from archivefs.formats.labrador import mediatypes
from archivefs.formats.labrador.bitsy import BitsyError, decode, encode
from archivefs.formats.labrador.extmime import MAX_BYTES
from archivefs.formats.labrador.newnames import INDEX_NAMES
from archivefs.formats.labrador.packing import Folder, write
from archivefs.formats.labrador.packing import complete as make_complete

Translate = Callable[[str], str]
MAX_TOLD = 20
"""How many things that cannot be packed are named."""
_EXIT_CODES = "Exit codes: 0 done (with --json-lines whenever the input could be read), 1 a name was refused, 2 usage."


@click.group(
    "bitsy",
    epilog="\b\nExample:\n  archivefs bitsy encode 'Hello World.TXT'\n  archivefs bitsy decode --json-lines <names\n\n"
    f"{_EXIT_CODES}",
)
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


_command("encode", encode, "The Bitsy name of each NAME.", "archivefs bitsy encode 'Hello World.TXT'")
_command("decode", decode, "The original name of each Bitsy NAME.", "archivefs bitsy decode xz--Rotfchse-jboqb.png")


# -- making archives --


@click.command(
    "pack",
    epilog="\b\nExamples:\n  archivefs pack site site.lbz\n  archivefs pack --base old.lbz site update.lbz\n\n"
    "Exit codes: 0 done, 1 something cannot be packed, 2 usage or a base that cannot be read.",
)
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@click.argument("out", metavar="OUT")
@click.option("--base", "bases", metavar="OLD", multiple=True, help="Leave out what this archive or folder has.")
@click.option("--extmime", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="The type declarations.")
@click.option("--index-names", metavar="EXT:EXT", default=":".join(INDEX_NAMES), show_default=True,
              help="index.EXT is the document of its directory.")  # fmt: skip
@click.option("--skip", is_flag=True, help="Leave out what cannot be packed: links, devices, strange names.")
@click.option("-f", "--force", is_flag=True, help="Replace OUT if it is there.")
def pack(
    folder: str, out: str, bases: tuple[str, ...], extmime: str | None, index_names: str, skip: bool, force: bool
) -> int:
    """Make a Labrador archive of a folder.

    The same files give the same bytes, wherever and whenever they are packed.  Types are those of a built-in table for
    the extensions there are, after those of --extmime.  With --base the archive is an update for somebody who has OLD;
    archivefs complete makes it whole there.
    """
    _check_out(out, force=force, apart_from=folder)
    declared = _declared(extmime)
    found = Folder(folder, tuple(index_names.split(":")))
    for path, error in found.refused[:MAX_TOLD]:
        _tell(str(type(error)(error.problem, archive=path)))
    if found.refused and not skip:
        more = len(found.refused) - MAX_TOLD
        _tell(f"nothing was packed{f', for these and {more} more' if more > 0 else ''}; --skip leaves such things out")
        return 1
    for base in bases:
        if not os.path.exists(base):
            raise UnreadableArchive("no such file or folder", archive=base)
    with _meter("reading") as progress:
        site = found.site(extmime=declared, bases=bases, progress=progress)
    with _meter("packing") as progress:
        write(site, out, progress)
    return 1 if found.refused else 0


@click.command(
    "complete",
    epilog="\b\nExample:\n  archivefs complete update.lbz whole.lbz --external old.lbz\n\n"
    "Exit codes: 0 done, 1 something is missing or damaged, 2 usage or an archive that cannot be read.",
)
@click.argument("archive", metavar="IN", type=click.Path(exists=True, dir_okay=False))
@click.argument("out", metavar="OUT")
@click.option("--external", "externals", metavar="OLD", multiple=True, help="An archive or folder; may be given again.")
@click.option("-f", "--force", is_flag=True, help="Replace OUT if it is there.")
def complete(archive: str, out: str, externals: tuple[str, ...], force: bool) -> None:
    """Make an archive whole that leaves out what its receiver has.

    OUT has the bytes that packing the whole site would have given.
    """
    _check_out(out, force=force)
    with _meter("completing") as progress:
        make_complete(archive, out, [os.path.abspath(path) for path in externals], progress)


def _check_out(out: str, *, force: bool, apart_from: str | None = None) -> None:
    if os.path.lexists(out) and not force:
        raise AlreadyExists("there is something of that name already", archive=out, advice="see --force")
    folder = os.path.realpath(os.path.dirname(os.path.abspath(out)))
    if not os.path.isdir(folder):
        raise UsageError("no such folder", archive=folder)
    if apart_from is not None:
        inside = os.path.realpath(apart_from)
        if folder == inside or folder.startswith(inside.rstrip("/") + "/"):
            raise UsageError("the archive would be in the folder that is packed", archive=out)


def _declared(extmime: str | None) -> bytes:
    if extmime is None:
        return b""
    with open(extmime, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    try:
        return mediatypes.checked(data[:MAX_BYTES])
    except ContentRefused as error:
        raise UsageError(error.problem, archive=extmime) from None


def _tell(message: str) -> None:
    click.echo(f"archivefs: {quoted(message)}", err=True)


@contextmanager
def _meter(label: str) -> Iterator[Progress]:
    """A progress line, if the front-end that called us has one."""
    running = click.get_current_context().find_root().obj
    make = getattr(running, "meter", None)
    meter = make(label) if make is not None else no_progress
    try:
        yield meter
    finally:
        if hasattr(meter, "clear"):
            meter.clear()


COMMANDS = (bitsy, pack, complete)
