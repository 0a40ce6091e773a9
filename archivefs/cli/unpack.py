"""``archivefs unpack``: a whole archive as a new folder."""

from __future__ import annotations

import os
import secrets
import shutil

import click

from archivefs.cli.copying import Copier
from archivefs.cli.paths import Place, located
from archivefs.cli.progress import Meter
from archivefs.cli.shared import OpenRequest, cli_command, opening_options, tell
from archivefs.cli.sources import opened
from archivefs.errors import AlreadyExists, ArchiveError, UsageError, told_as
from archivefs.tree import Parts, Tree


@cli_command("unpack", example="archivefs unpack site.lbz site\narchivefs unpack --external old.lbz update.lbz site")
@click.argument("source", metavar="ARCHIVE")
@click.argument("folder", metavar="DIR")
@opening_options
def command(source: str, folder: str, request: OpenRequest) -> int:
    """Copy all of an archive into a new folder.

    The folder appears when everything is there; it must not exist, or be empty.  Times are kept, and attributes
    where the file system takes them.  What cannot be copied is reported and left out; the exit code is then 1.
    """
    target = os.path.abspath(folder)
    _check_free(target, folder)
    with opened(source, request) as tree:
        return int(not _unpack(tree, source, target))


def _check_free(target: str, shown: str) -> None:
    if not os.path.isdir(os.path.dirname(target)):
        raise UsageError("no such folder", archive=os.path.dirname(target))
    if os.path.lexists(target) and not (
        os.path.isdir(target) and not os.path.islink(target) and not os.listdir(target)
    ):
        raise AlreadyExists("there is something of that name already", archive=shown)


def _unpack(tree: Tree, source: str, target: str) -> bool:
    """Copy into a folder of another name, which is given its own at the end; says whether everything was copied."""
    meter = Meter("unpacking")
    failures = 0

    def report(parts: Parts, error: ArchiveError | OSError) -> None:
        nonlocal failures
        failures += 1
        meter.clear()
        if isinstance(error, OSError):
            error = ArchiveError(f"cannot be written: {error.strerror or error}")
        tell(str(located(error, Place(source, parts))))

    def show(files: int, size: int) -> None:
        meter.show(f"{files:,} files, {size:,} bytes")

    parent, name = os.path.split(target)
    made = f".{name}.{secrets.token_hex(6)}.archivefs-new"
    fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with told_as(target, made):
            os.mkdir(made, dir_fd=fd)
            Copier(force=False, report=report, progress=show).copy(tree.root(), (), fd=fd, name=made)
            os.rename(made, name, src_dir_fd=fd, dst_dir_fd=fd)
    except BaseException:
        shutil.rmtree(os.path.join(parent, made), ignore_errors=True)
        raise
    finally:
        os.close(fd)
        meter.clear()
    return not failures
