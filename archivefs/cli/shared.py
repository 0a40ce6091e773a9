"""What the commands have in common: how they are declared, --debug, and the options for opening an archive."""

from __future__ import annotations

import functools
import logging
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from archivefs.errors import ArchiveError, quoted, reason
from archivefs.format import Progress
from archivefs.tree import Tree

EXIT_CODES = "Exit codes: 0 done, 1 findings or failure, 2 usage or an archive that cannot be read."

Function = Callable[..., Any]

SEVERITIES = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


@dataclass
class Running:
    """What is known of the command that runs."""

    debug: bool = False

    def open_archive(self, path: str) -> Tree:
        """For commands of formats that need another archive beside their own."""
        from archivefs.cli.sources import open_archive

        return open_archive(path)

    def meter(self, label: str) -> Progress:
        """For the commands of formats, which cannot import it: a progress line with this label."""
        from archivefs.cli.progress import Meter

        return Meter(label)


@dataclass(frozen=True, kw_only=True)
class OpenRequest:
    """What ``--format``, ``-o`` and ``--external`` said."""

    format: str | None = None
    option_texts: tuple[str, ...] = ()
    externals: tuple[str, ...] = ()
    sloppy: bool = False
    """Options that nobody knows are told of, and left out."""


def cli_command(name: str, *, example: str) -> Callable[[Function], click.Command]:
    """Declare a command; *example*, a line or more, and the exit codes end its help."""
    lines = "\n".join(f"  {line}" for line in example.splitlines())
    return click.command(name, epilog=f"\b\nExample:\n{lines}\n\n{EXIT_CODES}")


def opening_options(function: Function) -> Function:
    """Give a command the options for opening an archive, as one OpenRequest called ``request``."""

    @functools.wraps(function)
    def with_request(*args: Any, format: str | None, option_texts: Any, externals: Any, **more: Any) -> Any:
        request = OpenRequest(format=format, option_texts=tuple(option_texts), externals=tuple(externals))
        return function(*args, request=request, **more)

    for decorate in reversed(_OPENING_OPTIONS):
        with_request = decorate(with_request)
    return with_request


_OPENING_OPTIONS = (
    click.option("--format", metavar="NAME", help="Take it for this format instead of looking what it is."),
    click.option(
        "-o",
        "option_texts",
        metavar="NAME=VALUE",
        multiple=True,
        help="An option of the format, or several with commas between; archivefs formats lists them.",
    ),
    click.option(
        "--external",
        "externals",
        metavar="PATH",
        multiple=True,
        help="An archive or folder that holds what this one leaves out; may be given again.",
    ),
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


# -- debugging --


def add_debug_option(command: click.Command) -> click.Command:
    """Give *command*, and the commands in it, ``-d`` and ``--debug``, unless it has them."""
    if not any("--debug" in parameter.opts for parameter in command.params):
        taken = {name for parameter in command.params for name in parameter.opts}
        names = ["--debug"] if "-d" in taken else ["-d", "--debug"]
        command.params.append(
            click.Option(
                names,
                is_flag=True,
                expose_value=False,
                is_eager=True,
                callback=_start_debugging,
                help="Show details and tracebacks.",
            )
        )
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            add_debug_option(inner)
    return command


def _start_debugging(ctx: click.Context, _parameter: click.Parameter, on: bool) -> None:
    running = ctx.find_root().obj
    if not on or not isinstance(running, Running):
        return
    running.debug = True
    log_from(logging.DEBUG)


def debugging() -> bool:
    """Was ``--debug`` given to the command that runs?"""
    ctx = click.get_current_context(silent=True)
    running = ctx.find_root().obj if ctx else None
    return isinstance(running, Running) and running.debug


# -- messages --


def log_from(level: int) -> None:
    """Show log lines from this level on, and not only warnings."""
    logger = logging.getLogger("archivefs")
    logger.setLevel(level)
    for handler in logger.handlers:
        if isinstance(handler, StderrHandler):
            handler.setLevel(level)


def tell(message: str, level: int = logging.ERROR) -> None:
    """A message on stderr: one line, with our name in front, or in the journal with how grave it is."""
    mark = f"<{severity(level)}>" if _goes_to_the_journal() else "archivefs: "
    click.echo(f"{mark}{quoted(message)}", err=True)


def severity(level: int) -> int:
    """How grave a log level is in the numbers of syslog."""
    return SEVERITIES.get(level, 3)


def _goes_to_the_journal() -> bool:
    """Has the service manager made the journal our stderr, and is it still?"""
    named = os.environ.get("JOURNAL_STREAM")
    if not named:
        return False
    try:
        stream = os.fstat(2)
    except OSError:
        return False
    return named == f"{stream.st_dev}:{stream.st_ino}"


def explained(error: Exception) -> str:
    """What *error* is, in one line for the user."""
    if isinstance(error, ArchiveError):
        return str(error)
    if isinstance(error, OSError):
        return quoted(reason(error))
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    name = type(error).__name__
    return quoted(f"this is a bug in archivefs: {name}: {error}; --debug shows where") or name


def one_line(text: str) -> str:
    """*text* with every stretch of white space as one space."""
    return " ".join(text.split())


class StderrHandler(logging.Handler):
    """Log lines on stderr, as it is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        tell(record.getMessage(), record.levelno)
        if record.exc_info and self.level <= logging.DEBUG:
            traceback.print_exception(*record.exc_info)
