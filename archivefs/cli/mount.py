"""``archivefs mount``: from the words of the command line to a mount."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from archivefs import options as option_words
from archivefs.caches import ByteCache
from archivefs.cli.configuration import Word, configuration_for, layered
from archivefs.cli.shared import OpenRequest, debugging, explained, log_from, opening_options
from archivefs.cli.sources import Plan, plan
from archivefs.compose import SubTree
from archivefs.errors import BadOption, MountRefused, quoted
from archivefs.fuse.options import MOUNT8_PREFIXES, MOUNT8_WORDS, MOUNT_OPTIONS, OPEN_OPTIONS, MountOptions
from archivefs.options import Option
from archivefs.tree import Tree

if TYPE_CHECKING:
    from archivefs.cli.notifying import ServiceManager

log = logging.getLogger("archivefs.cli")

GENERAL = (*MOUNT_OPTIONS, *OPEN_OPTIONS)


def _epilog() -> str:
    rows = "\n".join(f"  {_shown(option):<34}{option.help}" for option in GENERAL)
    return (
        f"\b\nOptions of a mount (-o), beside those that archivefs formats lists:\n{rows}\n\n"
        "\b\nExamples:\n  archivefs mount site.zip /mnt/site\n"
        "  archivefs mount -o umask=077 monday.zip tuesday.zip /mnt/both\n"
        "  archivefs mount island\n  archivefs umount /mnt/site\n\n"
        "Exit codes: 0 mounted and usable, 1 it cannot be mounted there, 2 usage or an archive that cannot be read."
    )


def _shown(option: Option) -> str:
    return option.name if option.parse is None else f"{option.name}={option.metavar}"


@click.command("mount", epilog=_epilog())
@click.argument("places", nargs=-1, required=True, metavar="ARCHIVE... MOUNTPOINT | NAME")
@opening_options
@click.option("-f", "--foreground", is_flag=True, help="Stay in the foreground; Ctrl-C unmounts.")
@click.option("--ready-fd", type=int, metavar="N", help="Write a byte to this descriptor when the mount is usable.")
@click.option("--subdir", metavar="PATH", help="Show this folder of the archive as the root.")
@click.option("--dry-run", is_flag=True, help="Check the archive, the options and the mount point; mount nothing.")
@click.option("--sloppy", is_flag=True, help="Go on without options that are not known.")
@click.option("-v", "--verbose", is_flag=True, help="Say what is done.")
@click.option("--log-file", metavar="PATH", help="Append what --verbose shows, and problems, to this file.")
def command(
    places: Sequence[str],
    request: OpenRequest,
    foreground: bool,
    ready_fd: int | None,
    subdir: str | None,
    dry_run: bool,
    sloppy: bool,
    verbose: bool,
    log_file: str | None,
) -> None:
    """Mount an archive as a folder.

    The folder is created if it is missing, and removed again at the end. Several archives become a folder
    each; a folder of archives shows every archive in it. The command returns when the mount can be used.

    A single NAME is a mount that the configuration file names: archivefs config show lists them.

    Problems that are met later go to the system's log, or with --foreground to stderr.
    """
    from archivefs.cli.notifying import ServiceManager
    from archivefs.fuse.mount import check_mountpoint, refuse_inside
    from archivefs.fuse.unmount import real_mountpoint

    manager = ServiceManager.of_environment()
    if verbose and not debugging():
        log_from(logging.INFO)
    if log_file is not None:
        escaped = log_file.replace(",", "\\,")
        request = replace(request, option_texts=(*request.option_texts, f"log_file={escaped}"))
    *sources, mountpoint = places
    if not all(places):
        raise BadOption(f"the name of the {'archive' if mountpoint else 'mount point'} is empty")
    if not sources:
        sources, mountpoint, request, subdir = _named(mountpoint, request, subdir)
    at = os.path.abspath(mountpoint)
    words, no_exec = without_mount8_words(request.option_texts)
    planned = plan(sources, replace(request, option_texts=tuple(words), sloppy=sloppy), general=GENERAL)
    refuse_inside(at, [source.path for source in planned.sources])
    options = _mount_options(planned, no_exec=no_exec)
    at = os.path.realpath(at) if os.path.isdir(at) else real_mountpoint(at)
    _refuse_without_folder(at)
    if dry_run:
        check_mountpoint(at, clean_stale=options.clean_stale)
        _open(planned, ByteCache(0), replace(options, read_write=False), subdir).close()
        return
    _leave(_run(planned, options, at, subdir, _kept(ready_fd), manager, foreground=foreground))


def _run(
    planned: Plan,
    options: MountOptions,
    at: str,
    subdir: str | None,
    told: int | None,
    manager: ServiceManager,
    *,
    foreground: bool,
) -> int:
    """Mount and serve, in a process of its own unless *foreground*; gives the exit code."""
    from archivefs.cli.logs import MountLog
    from archivefs.fuse.detaching import detach
    from archivefs.fuse.mount import Mounting

    if options.log_file is not None:
        _refuse_log_inside(options.log_file, planned)
    written = MountLog(options.log_file)
    detached = None if foreground else detach()

    def ready() -> None:
        if detached is not None:
            written.leave_terminal()
        what = f"{options.source} mounted on {at}"
        log.info("%s", quoted(what))
        # Before the process that was called ends, so that the manager knows which one it is now.
        manager.tell(what, READY=1, MAINPID=os.getpid())
        if detached is not None:
            detached()
        _tell(told)

    mounting = Mounting(
        open_tree=lambda cache: _open(planned, cache, options, subdir),
        cache=ByteCache(planned.settings.general["cache_size"]),
        mountpoint=at,
        options=options,
        on_ready=ready,
        on_leaving=lambda: manager.tell(f"{options.source} is being unmounted from {at}", STOPPING=1),
    )
    try:
        return mounting.run()
    except Exception as error:
        written.tell(explained(error))
        manager.tell(explained(error))
        raise
    finally:
        written.close()


def _refuse_without_folder(at: str) -> None:
    """Raises MountRefused if the folder that the mount point would be made in is missing."""
    folder = os.path.dirname(at)
    try:
        os.stat(folder)
    except FileNotFoundError:
        raise MountRefused(f"the mount point cannot be created: {folder} is missing", archive=at) from None
    except OSError:  # mounting says what is wrong with it
        pass


def _refuse_log_inside(path: str, planned: Plan) -> None:
    """Raises BadOption if the log would be written into an archive."""
    real = os.path.realpath(path)
    for place in map(os.path.realpath, (*(source.path for source in planned.sources), *planned.externals)):
        if real == place or real.startswith(place.rstrip("/") + "/"):
            raise BadOption("the log file lies inside the archive", archive=path, advice="name another file")


def _named(name: str, request: OpenRequest, subdir: str | None) -> tuple[list[str], str, OpenRequest, str | None]:
    """Sources, mount point, request and subdir of a mount of the configuration; the command line goes before it."""
    mount = configuration_for(request.option_texts).named(name)
    given = [Word(word) for text in request.option_texts for word in option_words.split(text)]
    words = tuple(word.text.replace(",", "\\,") for word in layered(mount.words, given))
    merged = OpenRequest(
        format=request.format or mount.format,
        option_texts=words,
        externals=request.externals or mount.externals,
    )
    return list(mount.sources), mount.mountpoint, merged, subdir or mount.subdir


def without_mount8_words(texts: Sequence[str]) -> tuple[list[str], bool]:
    """The option words less those that only mount(8) needs; and whether ``noexec`` was the last of its kind."""
    kept: list[str] = []
    no_exec = False
    for word in (word for text in texts for word in option_words.split(text)):
        if word in ("exec", "noexec"):
            no_exec = word == "noexec"
        elif word not in MOUNT8_WORDS and not word.startswith(MOUNT8_PREFIXES):
            kept.append(word.replace(",", "\\,"))
    return kept, no_exec


def _mount_options(planned: Plan, *, no_exec: bool) -> MountOptions:
    values = dict(planned.settings.general)
    source = ", ".join(source.path for source in planned.sources)
    pairs = (word.partition("=") for word in planned.words)
    options = MountOptions.from_values(
        values,
        fsname=values.get("fsname") or source,
        source=source,
        format=planned.format_name,
        no_exec=no_exec,
        shown={name: value if equals else True for name, equals, value in pairs},
    )
    if options.read_write:
        planned.check_writable()
    return options


def _open(planned: Plan, cache: ByteCache, options: MountOptions, subdir: str | None) -> Tree:
    tree = planned.open(cache=cache, read_write=options.read_write)
    if not subdir:
        return tree
    try:
        return SubTree(tree, [name for name in subdir.split("/") if name])
    except BaseException:
        tree.close()
        raise


def _kept(ready_fd: int | None) -> int | None:
    """The descriptor to tell on, under a number that detaching leaves alone."""
    if ready_fd is None:
        return None
    try:
        kept = os.dup(ready_fd)
    except (OSError, OverflowError):
        advice = "open one for it: --ready-fd 3 3>FILE"
        raise BadOption(f"--ready-fd {ready_fd}: there is no such descriptor", advice=advice) from None
    if ready_fd > 2:
        os.close(ready_fd)
    return kept


def _tell(ready_fd: int | None) -> None:
    if ready_fd is not None:
        with suppress(OSError):
            os.write(ready_fd, b"\n")
        os.close(ready_fd)


def _leave(code: int) -> None:
    """End the process at once: an operation that hangs in its thread must not keep it."""
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
