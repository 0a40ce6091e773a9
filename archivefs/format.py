"""What a format offers, as data: its name, how it is recognised and opened, its options, commands and checks.

A format's package has one ``FORMAT`` of this kind, named by an entry point of the group
``archivefs.formats``.  ``registry.py`` finds them; the front-ends hang in what is offered here and never
name a format.  A format's ``__init__.py`` imports only what is needed to recognise an archive; the functions
it puts here import the rest when they are called, so that ``archivefs --help`` stays quick.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, BinaryIO, NamedTuple, Protocol, runtime_checkable

from archivefs.caches import ByteCache
from archivefs.errors import ArchiveError
from archivefs.options import Option
from archivefs.tree import Parts, Reader, Tree

HEAD_BYTES = 4096
MAX_PROBED_NAMES = 1000


class Match(enum.IntEnum):
    """How sure a format is."""

    NO = 0
    MAYBE = 1
    """It could be read, but something more specific may know better."""
    YES = 2


class Probe:
    """What all formats look at to recognise an archive; each part is read once, when first asked for."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = os.path.basename(path.rstrip("/"))

    @cached_property
    def is_directory(self) -> bool:
        """Is the source a folder?"""
        return os.path.isdir(self.path)

    @cached_property
    def head(self) -> bytes:
        """The first 4096 bytes of a file; nothing for a folder."""
        if self.is_directory:
            return b""
        with self._opened() as file:
            return file.read(HEAD_BYTES) or b""

    @cached_property
    def tail(self) -> bytes:
        """The last 66 KiB of a file, where a zip has its end record."""
        if self.is_directory:
            return b""
        with self._opened() as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 65557))
            return file.read(65557) or b""

    @cached_property
    def names(self) -> frozenset[str]:
        """The first thousand names in a folder; nothing for a file."""
        if not self.is_directory:
            return frozenset()
        found = []
        with os.scandir(self.path) as entries:
            for entry in entries:
                found.append(entry.name)
                if len(found) == MAX_PROBED_NAMES:
                    break
        return frozenset(found)

    def _opened(self) -> BinaryIO:
        """The file; reading it does not wait for a writer, if it is something else than it seems."""
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        return open(self.path, "rb", opener=lambda path, _: os.open(path, flags))


class Level(enum.Enum):
    """Whether a finding counts."""

    ERROR = "error"
    NOTICE = "notice"


class Finding(NamedTuple):
    """One thing ``verify`` has to say."""

    code: str
    level: Level
    where: str
    message: str


Progress = Callable[[int, int], None]
"""Told ``(done, total)`` from time to time during long work, in whatever unit suits; total 0 means unknown."""


def no_progress(_done: int, _total: int) -> None:
    """For callers who do not show any."""


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What a format is handed when it opens an archive."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """The format's own options, parsed, with the defaults of those not given."""
    cache: ByteCache = field(default_factory=ByteCache)
    """The one cache of the mount or command, shared by all archives in it."""
    externals: Sequence[str] = ()
    """Archives or folders that hold what this one leaves out (``--external``)."""
    read_write: bool = False
    ignore_pending: bool = False
    """Leave alone what an earlier mount has left in a staging area; for throwing that away, whatever it is."""
    index: str = "off"
    """What ``-o index=`` says: ``auto``, ``off``, or the folder for tables that are kept between mounts."""
    progress: Progress = no_progress
    """For what takes long while the archive is opened; not to be called afterwards."""
    open_other: Callable[[str], Tree] | None = None
    """Opens another archive, of whatever format, read-only: for a format that is joined with one.  Who calls closes."""


class Page(NamedTuple):
    """A page on its way from one archive into another."""

    url: str
    """Whole, or the path below the root of a site that has no URL of its own, beginning with "/"."""
    parts: Parts
    """Where it is listed below the site's root; no two pages share it."""
    open: Callable[[], Reader]
    size: int
    time_ns: int | None = None
    content_type: str | None = None
    """As the header says it."""
    problem: str = ""
    """Why it cannot be taken along."""


@runtime_checkable
class Pages(Protocol):
    """A tree that holds more than one site offers this too: the pages of one."""

    def pages(self, site: str | None) -> tuple[str, Iterator[Page]]:
        """The URL of the site, and what is shown of it; raises UsageError if there is none or none is named."""


LEAVE_OUT_RW = "leave out rw"
"""What errors advise where an archive cannot be written; a front-end where nobody writes ``rw`` rewords it."""


@dataclass(frozen=True, kw_only=True)
class Builder:
    """How a format makes an archive of pages."""

    build: Callable[[str, str, Iterable[Page]], None]
    """Makes the archive at a path, whole or not at all, of the site with a URL; the pages are asked for once."""
    suffix: str = ""
    """How the names of its archives end; nothing: it takes those that no other format claims."""
    needs_urls: bool = False
    """Can it hold nothing but whole URLs?"""


@runtime_checkable
class OpensArchives(Protocol):
    """What a front-end leaves in click's context for the commands of formats."""

    def open_archive(self, path: str) -> Tree:
        """Open an archive of whatever format, read-only; raises what opening raises."""


class WebRequest(NamedTuple):
    """A request to a format's own HTTP interface."""

    method: str
    path: str
    """Decoded once."""
    query: str
    """As it came, without the question mark."""
    headers: Mapping[str, str]
    """By name in lower case; of those given twice the last."""


class WebAnswer(NamedTuple):
    """What is sent back; a front-end adds nothing but the length."""

    status: int
    headers: Mapping[str, str]
    pieces: Iterable[bytes]
    length: int


WebHandler = Callable[[WebRequest], WebAnswer]


@dataclass(frozen=True, kw_only=True)
class WebOffer:
    """An HTTP interface that a format brings along; ``archivefs NAME serve`` runs it."""

    open: Callable[..., tuple[WebHandler, Callable[[], None]]]
    """Gives the handler, which may be called from any thread, and how to close it; called with the path and the
    values of ``options``."""
    options: Sequence[Any] = ()
    """Options of its own, for click."""
    help: str = ""


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format as the front-ends see it."""

    name: str
    summary: str
    match: Callable[[Probe], Match]
    open: Callable[[str, Opening], Tree]
    """Opens the archive at an absolute path; raises UnreadableArchive or CorruptArchive."""
    whole: Callable[[str], str] | None = None
    """Gives the path of the whole archive, where a file inside it may stand for it; raises UnreadableArchive."""
    options: Sequence[Option] = ()
    verify: Callable[[str, Opening, VerifyRequest], Iterable[Finding]] | None = None
    """Yields findings as they are met; raises UnreadableArchive when it cannot even begin."""
    commands: Callable[[], Sequence[Any]] | None = None
    """Gives click commands of its own, each to be hung in under its name; called only for them or for ``--help``."""
    command_names: Sequence[str] = ()
    """Their names, so that nothing need be imported to know them."""
    web: Callable[[], WebOffer] | None = None
    """Gives its HTTP interface; hung in as ``serve`` under the command of the format's own name."""
    can_write: bool = False
    create: Callable[[str], None] | None = None
    """Makes a new, empty archive at an absolute path where nothing is."""
    builder: Builder | None = None
    """Makes a new archive of another one's pages."""
    unreadable_code: str = "unreadable"
    """The code under which ``verify`` reports that the archive could not be opened."""
    unavailable: Callable[[], str | None] | None = None
    """A sentence that says what to install when the format cannot work here, or None."""


@dataclass(frozen=True, kw_only=True)
class VerifyRequest:
    """How ``verify`` was asked."""

    complete: bool = False
    """Demand that nothing is left out."""
    jobs: int = 0
    """How many threads; 0 means as many as there are cores."""
    progress: Progress = no_progress


class PluginBroken(NamedTuple):
    """A format that could not be loaded: reported, never fatal."""

    name: str
    error: Exception

    def __str__(self) -> str:
        reason = str(self.error)
        if not isinstance(self.error, ArchiveError):
            reason = f"{type(self.error).__name__}: {reason}"
        return f"format {self.name} cannot be loaded: {reason}"
