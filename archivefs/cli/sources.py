"""From what the user wrote to an opened tree: sources, ``--format``, ``-o`` and ``--external`` put together.

``mount`` and every command that opens an archive go through :func:`plan`, which finds the formats and sorts
the options without opening anything, so that a mistake is told before a mount goes into the background.
"""

from __future__ import annotations

import functools
import logging
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from archivefs import options, registry
from archivefs.caches import ByteCache
from archivefs.cli.configuration import Configuration, Word, configuration_for, layered
from archivefs.cli.progress import Meter
from archivefs.cli.shared import OpenRequest
from archivefs.compose import FolderTree, MountTree, Opener, shown_names
from archivefs.errors import AmbiguousFormat, ArchiveError, UnknownFormat, UnreadableArchive, UsageError, quoted
from archivefs.format import LEAVE_OUT_RW, Format, Opening, no_progress
from archivefs.fuse.options import OPEN_OPTIONS
from archivefs.options import DEFAULT_CACHE_SIZE, Option
from archivefs.registry import Settings
from archivefs.tree import Tree

log = logging.getLogger("archivefs.cli")

PATIENCE_S = 0.5
"""Opening that takes longer shows how far it has got."""
FOLDER = "folder"
"""What a plain folder of archives is called where a format's name is expected."""


class Source(NamedTuple):
    """An archive, or a plain folder of archives."""

    path: str
    """Absolute."""
    format: Format | None
    """None for a plain folder."""

    @property
    def format_name(self) -> str:
        """The format's name, or ``folder``."""
        return self.format.name if self.format else FOLDER


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be opened, and how."""

    sources: Sequence[Source]
    settings: Settings
    """``settings.general`` has the values of the general options."""
    externals: Sequence[str]
    words: Sequence[str] = ()
    """Every option in effect that is no default, wherever it was set: ``name=value``."""
    configuration: Configuration = field(default_factory=Configuration)

    @property
    def format_name(self) -> str:
        """The format of all sources together, for ``status.json``."""
        return ", ".join(dict.fromkeys(source.format_name for source in self.sources))

    def opening(self, *, cache: ByteCache | None = None, read_write: bool = False) -> Opening:
        """What every format is handed, apart from its own options."""
        limit = self.settings.general.get("cache_size", DEFAULT_CACHE_SIZE)
        return Opening(
            cache=cache or ByteCache(limit),
            externals=self.externals,
            read_write=read_write,
            index=self.settings.general.get("index", "off"),
            open_other=lambda path: open_archive(path, self.configuration),
        )

    def check_writable(self) -> None:
        """Raises UsageError if one of the sources cannot be written."""
        for path, format in self.sources:
            if format is None or not format.can_write:
                what = f"the format {format.name}" if format else "a folder of archives"
                raise UsageError(f"{what} cannot be written", archive=path, advice=f"{LEAVE_OUT_RW}, or mount with ro")

    def open(self, *, cache: ByteCache | None = None, read_write: bool = False) -> Tree:
        """One source as it is, several as directories of one tree; raises what the formats raise."""
        if read_write:
            self.check_writable()
        meter = Meter("opening", delay_s=PATIENCE_S)
        opening = replace(self.opening(cache=cache, read_write=read_write), progress=meter)
        trees: list[Tree] = []
        try:
            for source in self.sources:
                trees.append(self._open(source, opening))
        except BaseException:
            for tree in trees:
                tree.close()
            raise
        finally:
            meter.clear()
        if len(trees) == 1:
            return trees[0]
        return MountTree(zip(shown_names([source.path for source in self.sources]), trees, strict=True))

    def _open(self, source: Source, opening: Opening) -> Tree:
        if source.format is None:
            later = replace(opening, progress=no_progress)  # when the terminal is somebody else's
            return FolderTree(source.path, lambda path: self._opener(path, later))
        return registry.open_as(source.format, source.path, self.settings.apply(opening, source.format))

    def _opener(self, path: str, opening: Opening) -> Opener | None:
        """How to open a file found in a folder, if it is an archive."""
        try:
            format = registry.detect(path)
        except AmbiguousFormat as error:
            return _failing(error)
        except UnreadableArchive:
            return None
        return lambda: registry.open_as(format, path, self.settings.apply(opening, format))


def plan(paths: Sequence[str], request: OpenRequest, *, general: Sequence[Option] = OPEN_OPTIONS) -> Plan:
    """Find the format of every source and sort the options; nothing is opened.

    *general* are the options the caller handles itself, whose values are in ``settings.general``.
    Raises UnreadableArchive and its kind, UnknownOption, BadOption.
    """
    return plan_sources([_source(path, request.format) for path in paths], request, general=general)


def plan_sources(
    sources: Sequence[Source],
    request: OpenRequest,
    *,
    general: Sequence[Option] = OPEN_OPTIONS,
    configuration: Configuration | None = None,
) -> Plan:
    """The same for sources whose formats are known; *configuration* is that of the request unless given."""
    if configuration is None:
        configuration = configuration_for(request.option_texts)
    chosen = {format.name: format for source in sources for format in _formats_in(source)}
    given = [Word(word) for text in request.option_texts for word in options.split(text)]
    defaults = {name: configuration.format_words(name, general) for name in chosen}
    words = layered(configuration.general_words([source.format_name for source in sources], general), given)
    settings = registry.settle(
        [word.text.replace(",", "\\,") for word in words],
        chosen=chosen.values(),
        general=general,
        defaults={name: [word.text for word in own] for name, own in defaults.items()},
        sloppy=request.sloppy,
    )
    _check_index(settings.general.get("index", "off"))
    own = [word for each in sources if each.format for word in layered(defaults[each.format.name], given)]
    return Plan(
        sources=sources,
        settings=settings,
        externals=[_existing(path) for path in request.externals],
        words=list(dict.fromkeys(word.text for word in (*own, *words))),
        configuration=configuration,
    )


@functools.cache
def _check_index(index: str) -> None:
    """Warn, once, if tables cannot be kept in the folder that was named for them."""
    if not os.path.isabs(index):
        return
    from archivefs.zips.index import IndexFolder  # only where a folder was named

    try:
        with IndexFolder(os.path.realpath(index)).opened(create=True):
            pass
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        log.warning("%s", quoted(f"index={index}: {why}, so nothing is kept between mounts"))


@contextmanager
def opened(path: str, request: OpenRequest) -> Iterator[Tree]:
    """The source at *path* as a tree that is closed afterwards."""
    tree = plan([path], request).open()
    try:
        yield tree
    finally:
        tree.close()


def open_archive(path: str, configuration: Configuration | None = None) -> Tree:
    """The archive at *path* with the options it has by default, read-only; raises what opening raises."""
    return plan_sources([archive_source(path, None)], OpenRequest(), configuration=configuration).open()


def archive_source(path: str, forced: str | None) -> Source:
    """The archive at *path*; a plain folder is none and raises UnknownFormat."""
    return Source(os.path.abspath(path), registry.detect(path, forced))


def _source(path: str, forced: str | None) -> Source:
    try:
        return archive_source(path, forced)
    except UnknownFormat:
        if forced is None and os.path.isdir(path):
            return Source(os.path.abspath(path), None)
        raise


def _formats_in(source: Source) -> Sequence[Format]:
    """In a folder of archives any format may turn up."""
    return [source.format] if source.format else list(registry.formats().values())


def _failing(error: ArchiveError) -> Opener:
    """For what is listed, but cannot be opened."""

    def fail() -> Tree:
        raise error

    return fail


def _existing(path: str) -> str:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise UnreadableArchive((error.strerror or str(error)).lower(), archive=path) from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise UnreadableArchive("neither a file nor a folder", archive=path)
    return os.path.abspath(path)
