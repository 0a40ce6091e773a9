"""Who is asked about URLs: the network, another server in its place, or an archive, as the command line says."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import click

from archivefs.errors import UsageError
from archivefs.format import OpensArchives
from archivefs.formats.urldb.answers import ArchiveSite, Site
from archivefs.formats.urldb.live import LiveSite, parse_address, parse_map


@dataclass(frozen=True, kw_only=True)
class SiteRequest:
    """What ``--archive``, ``--map`` and ``--connect`` said."""

    archive: str | None = None
    hosts: tuple[str, ...] = ()
    connect: str | None = None

    @property
    def is_set(self) -> bool:
        """Was any of them given?"""
        return bool(self.archive or self.hosts or self.connect)


@contextlib.contextmanager
def open_site(asked: SiteRequest, *, single: bool, online: bool = True) -> Iterator[Site | None]:
    """The site to ask; None where nobody may be asked.  *single*: all URLs are of one domain."""
    if sum((bool(asked.archive), bool(asked.hosts), bool(asked.connect))) > 1:
        raise UsageError("only one of --archive, --map and --connect can be given")
    if not online:
        yield None
    elif asked.archive is not None:
        opener = click.get_current_context().find_root().obj
        if not isinstance(opener, OpensArchives):
            raise UsageError("no archive can be opened here")
        site = ArchiveSite(opener.open_archive(asked.archive), bare_paths=single)
        try:
            yield site
        finally:
            site.tree.close()
    else:
        connect = parse_address(asked.connect) if asked.connect else None
        yield LiveSite(hosts=parse_map(asked.hosts), connect=connect)
