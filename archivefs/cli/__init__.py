"""The command line: the group, what becomes of errors, and the exit codes.

Every command is a module of its own with a click command called ``command``.  The group imports one only when
it is called, by the table below, so that ``archivefs --help`` and ``archivefs mount`` load little; commands that a
format brings along are found through the registry.

Exit codes: 0 done, 1 findings or failure, 2 usage or an archive that cannot be read; beyond these, as for
any other program, 130 after Ctrl-C and 141 when nobody reads the output any more.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence

import click

from archivefs import __version__
from archivefs.cli.shared import EXIT_CODES, Running, StderrHandler, add_debug_option, explained, one_line, tell
from archivefs.errors import ESCAPED, ArchiveError
from archivefs.format import Format

COMMANDS = {
    "mount": "Show one or more archives as a folder",
    "open": "Mount an archive and show it in the file manager",
    "umount": "Take a mounted archive away again",
    "info": "Say what an archive is and what is in it",
    "ls": "List a directory of an archive",
    "tree": "Show an archive as a tree",
    "cat": "Print files of an archive",
    "cp": "Copy files out of an archive",
    "unpack": "Copy a whole archive into a new folder",
    "create": "Make a new, empty archive",
    "convert": "Make an archive of one format from one of another",
    "status": "Say what was changed and is not in the archive yet",
    "commit": "Put changes into the archive",
    "discard": "Throw changes away",
    "find": "Say where a URL is kept in an archive",
    "verify": "Check archives for damage",
    "formats": "List the formats and their options",
    "config": "Show and check the configuration file",
    "doctor": "Check whether mounting works on this machine",
}
"""Our own commands and what --help says of each; the module of each is ``archivefs.cli.NAME``."""

NO_WORDS: tuple[type[Exception], ...] = tuple(
    filter(None, [getattr(click.exceptions, "NoArgsIsHelpError", None)])  # an older click shows the help by itself
)
INTERRUPTED = 130
OUTPUT_CLOSED = 141


class Interrupted(Exception):
    """Ctrl-C.  Not KeyboardInterrupt, after which click would print an empty line."""


class OutputClosed(Exception):
    """Nobody reads our output any more.  Not BrokenPipeError, which click turns into exit code 1."""


class CommandTable(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *_commands_of_formats()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            command: click.Command = importlib.import_module(f"archivefs.cli.{cmd_name}").command
        else:
            found = _command_of_format(cmd_name)
            if found is None:
                return None
            command = found
        return add_debug_option(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List them without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
        of_formats = _commands_of_formats()
        if of_formats:
            with formatter.section("Commands of formats"):
                formatter.write_dl([(name, format.summary) for name, format in of_formats.items()])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None
        except BrokenPipeError:
            raise OutputClosed from None


def _commands_of_formats() -> dict[str, Format]:
    from archivefs import registry

    offered = {name: format for format in registry.formats().values() for name in format.command_names}
    return {name: offered[name] for name in sorted(offered) if name not in COMMANDS}


def _command_of_format(name: str) -> click.Command | None:
    format = _commands_of_formats().get(name)
    if format is None or format.commands is None:
        return None
    offered: dict[str | None, click.Command] = {command.name: command for command in format.commands()}
    found = offered.get(name)
    if format.web is not None and name == format.name and isinstance(found, click.Group):
        from archivefs.cli.serving import serve_command

        found.add_command(serve_command(format))
    return found


@click.group(
    "archivefs",
    cls=CommandTable,
    invoke_without_command=True,
    epilog=f"archivefs COMMAND --help says more about a command and gives an example.\n\n{EXIT_CODES}",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def group(ctx: click.Context) -> None:
    """Archives of websites as ordinary folders."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


add_debug_option(group)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line *args*, or that of the process; gives the exit code."""
    return run(group, args, name="archivefs", exit_code=exit_code)


def run(command: click.Command, args: Sequence[str] | None, *, name: str, exit_code: Callable[[Exception], int]) -> int:
    """Run *command* with *args*, or those of the process; gives the exit code, for an error that of *exit_code*."""
    running = Running()
    _open_missing_streams()
    _set_up_output()
    try:
        result = _called(command, args, name, running)
        sys.stdout.flush()
        return result if type(result) is int else 0
    except Exception as error:
        if running.debug and not isinstance(error, (Interrupted, OutputClosed)):
            traceback.print_exc()
        _explain(error)
        try:
            sys.stdout.flush()
        except OSError:  # told already, or less than what was
            _forget_stdout()
        return exit_code(error)


def _called(command: click.Command, args: Sequence[str] | None, name: str, running: Running) -> object:
    """What *command* gives; a group of commands that is given no word shows its help, as ours does."""
    try:
        return command.main(args, prog_name=name, standalone_mode=False, obj=running)
    except NO_WORDS as error:
        click.echo(str(error))
        return 0


def _open_missing_streams() -> None:
    """Where stdin, stdout or stderr is closed, put something there: the next file opened would be taken for it.

    What is written to a closed stdout still fails, since it is lost; messages are not worth a failure.
    """
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            fd = os.open(os.devnull, flags)
            os.dup2(fd, number)
            if fd != number:
                os.close(fd)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)


def _set_up_output() -> None:
    """Names that the terminal's encoding lacks are escaped, and log lines look like our other messages."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=ESCAPED)
    logger = logging.getLogger("archivefs")
    if not any(isinstance(handler, StderrHandler) for handler in logger.handlers):
        logger.addHandler(StderrHandler(logging.WARNING))


def exit_code(error: Exception) -> int:
    """The exit code for *error*.  Total: there is no error it does not know."""
    if isinstance(error, (OutputClosed, BrokenPipeError)):
        return OUTPUT_CLOSED
    if isinstance(error, Interrupted):
        return INTERRUPTED
    return error.exit_code if isinstance(error, (ArchiveError, click.ClickException)) else 1


def _explain(error: Exception) -> None:
    """Tell the user in one line, unless nobody reads the output any more."""
    if isinstance(error, (OutputClosed, BrokenPipeError)):
        _forget_stdout()
    elif isinstance(error, Interrupted):
        tell("interrupted")
    elif isinstance(error, click.Abort):
        tell("given up")
    elif isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx else "archivefs"
        tell(f"{one_line(error.format_message())} See {where} --help")
    elif isinstance(error, click.ClickException):
        tell(one_line(error.format_message()))
    else:
        tell(explained(error))


def _forget_stdout() -> None:
    """Keep Python from complaining at exit that the rest of the output could not be written."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(devnull, sys.stdout.fileno())
    except (OSError, ValueError):  # a test's stdout has no number
        pass
    finally:
        os.close(devnull)
