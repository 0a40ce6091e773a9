"""``archivefs cp``: copy files and directories out of an archive."""

from __future__ import annotations

import os
from contextlib import ExitStack

import click

from archivefs.cli.copying import Copier
from archivefs.cli.paths import Place, located, look_up, parse_place
from archivefs.cli.progress import Meter
from archivefs.cli.shared import OpenRequest, cli_command, opening_options, tell
from archivefs.cli.sources import opened
from archivefs.compose import shown_name
from archivefs.errors import ArchiveError, FileExpected, UsageError
from archivefs.tree import Directory, Parts, Tree


@cli_command("cp", example="archivefs cp site.zip:/index.html .\narchivefs cp -r site.zip:/docs /tmp/docs")
@click.argument("places", metavar="SRC[:/PATH]...", nargs=-1, required=True)
@click.argument("destination", metavar="DEST")
@click.option("-r", "--recursive", is_flag=True, help="Copy directories and what is in them.")
@click.option("-f", "--force", is_flag=True, help="Replace files that are there already.")
@opening_options
def command(places: tuple[str, ...], destination: str, recursive: bool, force: bool, request: OpenRequest) -> int:
    """Copy files out of an archive.

    Times are kept, and extended attributes where the file system takes them.  What cannot be copied is
    reported and the rest is copied; the exit code is then 1.  A link that would lead out of what is copied is left out.
    """
    wanted = [parse_place(place) for place in places]
    if len(wanted) > 1 and not os.path.isdir(destination):
        raise UsageError("no folder, so it cannot take several files", archive=destination)
    job = CopyJob(destination, recursive=recursive, force=force)
    with ExitStack() as stack:
        trees: dict[str, Tree] = {}
        for place in wanted:
            if place.source not in trees:
                trees[place.source] = stack.enter_context(opened(place.source, request))
            job.copy(trees[place.source], place)
    return int(job.failed)


class CopyJob:
    """One call of the command."""

    def __init__(self, destination: str, *, recursive: bool, force: bool) -> None:
        self._destination = destination
        self._recursive = recursive
        self._meter = Meter("copying")
        self._place = Place("", ())
        self._copier = Copier(force=force, report=self._report, progress=self._show)
        self.failed = False

    def copy(self, tree: Tree, place: Place) -> None:
        """Copy what is at *place*; a problem with one of several is reported, and the others are copied."""
        self._place = place
        try:
            self._copy(tree, place)
        except (ArchiveError, OSError) as error:
            self._report(place.parts, error)
        self._meter.clear()

    def _copy(self, tree: Tree, place: Place) -> None:
        node = look_up(tree, place).node
        if isinstance(node, Directory) and not self._recursive:
            raise FileExpected("a directory", advice="copy it with -r")
        folder, name = self._target(place)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._copier.copy(node, place.parts, fd=fd, name=name)
        finally:
            os.close(fd)

    def _target(self, place: Place) -> tuple[str, str]:
        """The folder to copy into, and the name to give it there."""
        if os.path.isdir(self._destination):
            return self._destination, place.parts[-1] if place.parts else shown_name(place.source)
        folder, name = os.path.split(self._destination)
        if not name:
            raise UsageError("no such folder", archive=self._destination)
        return folder or ".", name

    def _report(self, parts: Parts, error: ArchiveError | OSError) -> None:
        self.failed = True
        self._meter.clear()
        if isinstance(error, OSError):
            error = ArchiveError(f"cannot be written: {error.strerror or error}")
        tell(str(located(error, Place(self._place.source, parts))))

    def _show(self, files: int, size: int) -> None:
        self._meter.show(f"{files:,} files, {size:,} bytes")
