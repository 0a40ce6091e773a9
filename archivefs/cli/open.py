"""``archivefs open``: what a click in a file manager does.

The mount itself is made by ``archivefs mount``, in a process of its own.  Meanwhile the folder of the mounts is locked,
so that two clicks make one mount.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import click

from archivefs.cli.shared import OpenRequest, debugging, opening_options
from archivefs.cli.shown import write
from archivefs.cli.sources import plan
from archivefs.cli.window import has_display, show_folder, show_message
from archivefs.compose.archives import shown_name
from archivefs.errors import ArchiveError, quoted
from archivefs.fuse.stale import ASK_S, DEAD, OUR_TYPE, asked, clean_at
from archivefs.fuse.unmount import mounts

MOUNTS = "~/archivefs"
"""Not hidden and not elsewhere: of the mounts of a user, GIO lists those in the home folder."""

FEW_DESCRIPTORS = 256
"""More than this command has open."""


@click.command(
    "open",
    epilog="\b\nExamples:\n  archivefs open site.zip\n  archivefs open 'harbour.crystalproj/OPEN ME.crystalopen'\n\n"
    "Exit codes: 0 mounted and shown, 1 it cannot be mounted or shown, 2 usage or an archive that cannot be read.",
)
@click.argument("archive", metavar="ARCHIVE")
@opening_options
@click.option("--under", metavar="FOLDER", default=MOUNTS, help=f"Mount it in this folder instead of {MOUNTS}.")
@click.option("--no-window", is_flag=True, help="Only mount it and say where.")
def command(archive: str, request: OpenRequest, under: str, no_window: bool) -> int:
    """Mount an archive and show it in the file manager.

    It is mounted as a new folder of its own name in ~/archivefs, which is removed when it is unmounted. An archive
    that is mounted already is only shown. Without a terminal, what goes wrong is told in a window.
    """
    try:
        path = _whole(archive, request.format)
        with _locked(os.path.expanduser(under)) as folder:
            found = _mounted(path)
            at = found or _free_folder(folder, shown_name(path).lstrip(".") or "archive")
            code = 0 if found else _mount(path, at, request)
        if code:
            return code
        write(quoted(f"mounted {'already ' if found else ''}at {at}"))
        sys.stdout.flush()
        if not no_window and has_display() and not show_folder(at):
            raise ArchiveError(f"it is mounted at {at}, but nothing could show it", advice="install xdg-utils")
    except ArchiveError as error:
        _complain(str(error))
        raise
    return 0


def _whole(archive: str, format: str | None) -> str:
    """The real path of the archive, also where a file inside it was named; raises UnreadableArchive."""
    (source,) = plan([archive], OpenRequest(format=format)).sources
    whole = source.format.whole if source.format else None
    return os.path.realpath(whole(source.path) if whole else source.path)


@contextmanager
def _locked(folder: str) -> Iterator[str]:
    """The absolute path of *folder*, which is made if it is missing, while nobody else picks a name in it."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield os.path.realpath(folder)
    finally:
        os.close(descriptor)


def _mounted(path: str) -> str | None:
    """Where the archive is mounted already, and its driver answers; one that has died is taken away."""
    for mount in reversed(mounts()):
        if mount.type == OUR_TYPE and mount.source == path:
            answer = asked(mount.mountpoint, limit_s=ASK_S)
            if answer == 0:
                return mount.mountpoint
            if answer in DEAD:
                with suppress(ArchiveError):
                    clean_at(mount.mountpoint)
    return None


def _free_folder(folder: str, name: str) -> str:
    """*name* in *folder*, or where that is taken ``NAME~2`` and so on."""
    for number in itertools.count(1):
        path = os.path.join(folder, name if number == 1 else f"{name}~{number}")
        if _is_free(path):
            return path
    raise AssertionError("numbers do not end")


def _is_free(path: str) -> bool:
    """Is nothing there?  The empty folder that a driver left when it was killed is removed."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _mount(path: str, at: str, request: OpenRequest) -> int:
    """The exit code of ``archivefs mount``, which has told what was wrong."""
    words = ["mount", *(["--debug"] if debugging() else [])]
    words += ["--format", request.format] if request.format else []
    words += [word for text in request.option_texts for word in ("-o", text)]
    words += [word for external in request.externals for word in ("--external", external)]
    with tempfile.TemporaryFile() as said:
        code = _run([*words, "--", path, at], None if sys.stderr.isatty() else said.fileno())
        said.seek(0)
        text = said.read().decode("utf-8", "replace")
    click.echo(text, err=True, nl=False)
    if code:
        _complain(text.strip().removeprefix("archivefs: "))
    return code


def _run(words: Sequence[str], stderr: int | None) -> int:
    """Run archivefs with these words in a child, which inherits no lock: the driver would keep it."""
    from archivefs.cli import main

    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        if stderr is not None:
            os.dup2(stderr, 2)
        os.closerange(3, FEW_DESCRIPTORS)
        os._exit(main(words))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _complain(message: str) -> None:
    """Show what is wrong to who started us without a terminal."""
    if has_display() and not sys.stderr.isatty():
        show_message(message)
