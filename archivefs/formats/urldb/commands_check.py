"""``archivefs urldb check`` and ``dump-urls``: the URLs of a database, chosen by filters, printed or asked for."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import click

from archivefs.errors import UsageError, quoted
from archivefs.formats.urldb.answers import ArchiveSite, NotInArchive, Site
from archivefs.formats.urldb.checking import Broken
from archivefs.formats.urldb.checking import check as check_record
from archivefs.formats.urldb.content import candidates
from archivefs.formats.urldb.database import Database
from archivefs.formats.urldb.domainfile import DomainFile
from archivefs.formats.urldb.records import categories_of
from archivefs.formats.urldb.sites import SiteRequest, open_site
from archivefs.formats.urldb.values import Mapping

CHUNK = 1000
DEFAULT_JOBS = 4
EXIT_CODES = "Exit codes: 0 all is well, 1 some URLs are broken, 2 usage or a database that cannot be read."

Function = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Filters:
    """Which records are meant."""

    category: str | None = None
    domain: str | None = None
    path_prefix: str = ""
    deprecated_too: bool = False


class Chosen(NamedTuple):
    """A record that is meant."""

    domain: DomainFile
    path: str
    record: Mapping

    @property
    def url(self) -> str:
        """Its URL, as it is stored."""
        return f"{self.domain.metadata.scheme}://{self.domain.name}{self.path}"


def site_options(function: Function) -> Function:
    """Give a command --archive, --map and --connect, as one SiteRequest called ``asked``."""

    @functools.wraps(function)
    def with_request(*args: Any, archive: str | None, hosts: Any, connect: str | None, **more: Any) -> Any:
        return function(*args, asked=SiteRequest(archive=archive, hosts=tuple(hosts), connect=connect), **more)

    for decorate in (
        click.option("--connect", metavar="HOST:PORT", help="Send every request there, in plain HTTP."),
        click.option("--map", "hosts", metavar="HOST=OTHER", multiple=True, help="Ask OTHER[:PORT] instead of HOST."),
        click.option("--archive", metavar="ARCHIVE", help="Ask an archive instead of the network."),
    ):
        with_request = decorate(with_request)
    return with_request


def filter_options(function: Function) -> Function:
    """Give a command the filters, as one Filters called ``filters``."""

    @functools.wraps(function)
    def with_filters(
        *args: Any, category: str | None, domain: str | None, path_prefix: str, everything: bool, **more: Any
    ) -> Any:
        filters = Filters(category=category, domain=domain, path_prefix=path_prefix, deprecated_too=everything)
        return function(*args, filters=filters, **more)

    for decorate in (
        click.option("--all", "everything", is_flag=True, help="Deprecated ones too."),
        click.option("--path-prefix", metavar="P", default="", help="Only paths that begin so."),
        click.option("-d", "--domain", metavar="DOMAIN", help="Only of this domain."),
        click.option("-c", "--category", metavar="C", help="Only with this label."),
    ):
        with_filters = decorate(with_filters)
    return with_filters


def chosen(database: Database, filters: Filters) -> Iterator[Chosen]:
    """The records that are meant, by domain and path."""
    for domain in _domains(database, filters):
        for path in domain.sorted_paths:
            if not path.startswith(filters.path_prefix):
                continue
            record = domain.record(domain.by_path[path])
            labels = categories_of(record)
            if filters.category is not None and filters.category not in labels:
                continue
            if filters.deprecated_too or "deprecated" not in labels:
                yield Chosen(domain, path, record)


def _domains(database: Database, filters: Filters) -> list[DomainFile]:
    if filters.domain is None:
        return database.domains()
    domain = database.domain_of_host(filters.domain)
    if domain is None:
        raise UsageError(f"{filters.domain} is no domain of this database")
    return [domain]


# -- dump-urls --


@click.command("dump-urls", epilog=f"\b\nExample:\n  archivefs urldb dump-urls -c frontend urls/\n\n{EXIT_CODES}")
@click.argument("database", metavar="DB")
@filter_options
def dump_urls(database: str, filters: Filters) -> int:
    """Print the URLs of a database, one a line."""
    for one in chosen(Database(os.path.abspath(database)), filters):
        click.echo(quoted(one.url))
    return 0


# -- check --


@click.command(
    "check",
    epilog="\b\nExamples:\n  archivefs urldb check urls/\n"
    f"  archivefs urldb check --archive Site.crystalproj -d example.com urls/\n\n{EXIT_CODES}",
)
@click.argument("database", metavar="DB")
@filter_options
@site_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-j", "--jobs", type=click.IntRange(1, 64), default=DEFAULT_JOBS, metavar="N", help="Requests at a time.")
def check(database: str, filters: Filters, asked: SiteRequest, as_json: bool, jobs: int) -> int:
    """Ask for every URL, and say which do not answer as recorded."""
    data = Database(os.path.abspath(database))
    records = list(chosen(data, filters))
    broken: list[tuple[Chosen, Broken]] = []
    single = len(_domains(data, filters)) == 1
    with open_site(asked, single=single) as site:
        assert site is not None
        for one, problem in _checked(site, records, jobs, quiet=as_json):
            if problem is not None:
                broken.append((one, problem))
    if as_json:
        click.echo(json.dumps({"total": len(records), "broken": [_described(*found) for found in broken]}, indent=2))
    elif broken:
        click.echo(f"found {len(broken)} broken URLs out of {len(records)}")
    else:
        click.echo(f"success: {len(records)} URLs validated")
    return int(bool(broken))


def _checked(site: Site, records: list[Chosen], jobs: int, *, quiet: bool) -> Iterator[tuple[Chosen, Broken | None]]:
    """Each record and what is wrong with it, in order, while a bar on a terminal shows how far it is."""
    hidden = not sys.stderr.isatty()
    left = iter(records)
    with (
        ThreadPoolExecutor(max_workers=jobs) as pool,
        click.progressbar(length=len(records), label="checking", file=sys.stderr, hidden=hidden) as bar,
    ):
        while chunk := list(islice(left, CHUNK)):
            for one, problem in zip(chunk, pool.map(lambda one: _check(site, one), chunk), strict=True):
                if not quiet:
                    what = "ok" if problem is None else f"error: {problem.text}"
                    click.echo(f"{quoted(one.url)} ... {quoted(what)}")
                bar.update(1)
                yield one, problem


def _check(site: Site, one: Chosen) -> Broken | None:
    if not isinstance(site, ArchiveSite):
        return check_record(site, one.url, one.record)
    for url in candidates(one.domain, one.path):
        try:
            site.ask(url).close()
        except NotInArchive:
            continue
        return check_record(site, url, one.record)
    return Broken("not-in-archive", "not in archive")


def _described(one: Chosen, problem: Broken) -> dict[str, str]:
    return {
        "domain": one.domain.name,
        "path": one.path,
        "url": one.url,
        "code": problem.code,
        "text": problem.text,
    }
