"""``mount.archivefs SOURCE MOUNTPOINT [-sfnv] [-N namespace] [-o options] [-t type]``: how mount(8) calls us.

mount(8) hands its helpers ``rw`` unless ``ro`` was asked for, so ``rw`` alone still mounts read-only here, and
``write`` asks for writing; it does not keep the order of the two, so ``ro`` wins.  The exit codes are mount(8)'s.

No configuration file is read unless ``config=PATH`` is among the options: who calls mount(8) may be root, or the
system at boot, and a line of ``/etc/fstab`` must mean the same to everybody.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence

import click

from archivefs import options as option_words
from archivefs.cli import Interrupted, group, run
from archivefs.cli.shared import log_from
from archivefs.errors import ArchiveError, BadOption, MissingLibrary, MountRefused, UnreadableArchive, UsageError
from archivefs.format import LEAVE_OUT_RW

WRONG_CALL, SYSTEM_ERROR, BUG, INTERRUPTED, MOUNT_FAILED = 1, 2, 4, 8, 32

OURS = ("fuse.archivefs", "archivefs")
"""The types we are called for; a format may follow, after a dot."""
OPTIONS_OF_THE_COMMAND = ("format", "external", "subdir")
"""What ``archivefs mount`` takes as ``--NAME``, and a line of /etc/fstab has no other place for."""

EPILOG = """\b
Examples:
  mount -t archivefs /srv/site.zip /mnt/site
  mount -t archivefs.labrador -o write,umask=022 /srv/site.lbz /mnt/site
A line of /etc/fstab:
  /srv/site.zip  /mnt/site  archivefs  noauto,user,nofail  0  0

Beside the options of archivefs mount, -o takes write, format=NAME, external=PATH and subdir=PATH.

Exit codes, which are those of mount(8): 0 mounted, 1 wrong call or not permitted, 2 system error, 4 a bug, 8
interrupted, 32 it cannot be mounted.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the helper, whatever name it was called by; gives the exit code."""
    return run(command, arguments, name="mount.archivefs", exit_code=exit_code)


@click.command("mount.archivefs", epilog=EPILOG)
@click.argument("source", nargs=-1, required=True, metavar="SOURCE")
@click.argument("mountpoint", metavar="MOUNTPOINT")
@click.option("-f", "fake", is_flag=True, help="Check source, options and mount point, and mount nothing.")
@click.option("-n", "_no_mtab", is_flag=True, help="Write no mtab; none is ever written.")
@click.option("-s", "sloppy", is_flag=True, help="Say which options are not known, and go on without them.")
@click.option("-v", "verbose", is_flag=True, help="Say what is done.")
@click.option("-N", "namespace", metavar="NAMESPACE", help="Do all of it in this mount namespace: a process or a file.")
@click.option("-o", "texts", multiple=True, metavar="OPTIONS", help="Options, with commas between.")
@click.option("-t", "kind", default=OURS[0], metavar="TYPE", help="archivefs, or archivefs.FORMAT to name the format.")
@click.pass_obj
def command(
    running: object,
    source: Sequence[str],
    mountpoint: str,
    fake: bool,
    _no_mtab: bool,
    sloppy: bool,
    verbose: bool,
    namespace: str | None,
    texts: Sequence[str],
    kind: str,
) -> None:
    """Mount an archive as a folder, on behalf of mount(8)."""
    words = [word for text in texts for word in _words(text)]
    flags = [*_format_of(kind), *(["--dry-run"] if fake else []), *(["--sloppy"] if sloppy else [])]
    places = [os.path.abspath(place) for place in (*source, mountpoint)]
    if verbose:
        log_from(logging.INFO)
    if namespace is not None:
        from archivefs.fuse.namespace import enter

        enter(namespace)
    call = ["mount", *flags, *translated(words), "--", *places]
    try:
        group.main(call, prog_name="mount.archivefs", standalone_mode=False, obj=running)
    except ArchiveError as error:
        error.advice = _reworded(error.advice)
        raise


def _reworded(advice: str) -> str:
    """What the advice of ``archivefs mount`` comes to in words that are understood here."""
    advice = advice.replace(LEAVE_OUT_RW, "leave out write")
    return re.sub(rf"--({'|'.join(OPTIONS_OF_THE_COMMAND)}) ", r"-o \1=", advice)


def exit_code(error: Exception) -> int:
    """What mount(8) would end with."""
    if isinstance(error, Interrupted):
        return INTERRUPTED
    if isinstance(error, PermissionError) or isinstance(error.__cause__, PermissionError):
        return WRONG_CALL
    if isinstance(error, (MissingLibrary, OSError, MemoryError)):
        return SYSTEM_ERROR
    if isinstance(error, (UnreadableArchive, MountRefused)):
        return MOUNT_FAILED
    if isinstance(error, (UsageError, click.ClickException)):
        return WRONG_CALL
    return MOUNT_FAILED if isinstance(error, ArchiveError) else BUG


def translated(words: Sequence[str]) -> list[str]:
    """The options of ``archivefs mount`` for the words that mount(8) has after ``-o``."""
    told = any(word.startswith("config=") for word in words)
    return [text for word in (*words, *([] if told else ["config=off"])) for text in _translated(word)]


def _translated(word: str) -> Iterator[str]:
    name, _, value = word.partition("=")
    if word == "remount":
        raise UsageError("what is mounted cannot be changed", advice="unmount it and mount it again")
    if name in OPTIONS_OF_THE_COMMAND:
        yield f"--{name}={value}"
    elif word != "rw":
        yield from ("-o", "rw" if word == "write" else word.replace(",", "\\,"))


def _words(text: str) -> list[str]:
    """The words of *text*; mount(8) lets a value with commas in it stand in double quotes."""
    return option_words.split(re.sub('"([^"]*)"', lambda match: re.sub(r"(?<!\\),", r"\\,", match[1]), text))


def _format_of(kind: str) -> list[str]:
    for ours in OURS:
        if kind == ours:
            return []
        if kind.startswith(f"{ours}."):
            return [f"--format={kind[len(ours) + 1 :]}"]
    raise BadOption(f"-t {kind}: that is not a type of archivefs", advice=f"write {OURS[1]} or {OURS[0]}")
