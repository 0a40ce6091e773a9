"""``archivefs urldb``: add, remove, show, format and lint from the command line; ``check`` is in ``commands_check``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import click

from archivefs.errors import UsageError, quoted
from archivefs.formats.urldb import edits
from archivefs.formats.urldb.adding import record_for
from archivefs.formats.urldb.commands_check import check, dump_urls, site_options
from archivefs.formats.urldb.database import Database
from archivefs.formats.urldb.domainfile import DomainFile
from archivefs.formats.urldb.formatting import FormatRefused, formatted
from archivefs.formats.urldb.lint import ERROR
from archivefs.formats.urldb.normalising import TypedUrl, normalised
from archivefs.formats.urldb.records import SUFFIX, folded, is_domain_name
from archivefs.formats.urldb.sites import SiteRequest, open_site

EXIT_CODES = "Exit codes: 0 done, 1 findings or failure, 2 usage or a database that cannot be read."
EOLS = {"lf": b"\n", "crlf": b"\r\n", "native": os.linesep.encode()}

Function = Callable[..., Any]


@click.group(
    "urldb",
    epilog="\b\nExample:\n  archivefs urldb add --offline urls/ http://example.com/logo.png\n"
    f"  archivefs urldb lint urls/\n\n{EXIT_CODES}",
)
def urldb() -> None:
    """Keep a database of URLs that must go on working: a folder with one YAML file a domain."""


def _command(name: str, example: str) -> Callable[[Function], click.Command]:
    return urldb.command(name, epilog=f"\b\nExample:\n  archivefs urldb {example}\n\n{EXIT_CODES}")


_database = click.argument("database", metavar="DB")
_url = click.argument("url", metavar="URL")


# -- one record --


@_command("add", "add --static -c graphics urls/ http://example.com/logo.png")
@_database
@_url
@click.option("--static", is_flag=True, help="Follow redirects, and record length and digest of the content.")
@click.option("-c", "--category", "categories", multiple=True, metavar="C", help="A label; may be given again.")
@click.option("--create-domain", is_flag=True, help="Make a file for the domain if there is none.")
@click.option("--offline", is_flag=True, help="Ask nobody; record the path only.")
@site_options
def add(
    database: str,
    url: str,
    static: bool,
    categories: tuple[str, ...],
    create_domain: bool,
    offline: bool,
    asked: SiteRequest,
) -> int:
    """Ask for URL, and add it to the database as it answers."""
    if offline and (asked.is_set or static):
        raise UsageError("--offline asks nobody, so --static, --archive, --map and --connect make no sense with it")
    data = Database(os.path.abspath(database))
    typed = normalised(url)
    if not typed.had_scheme:
        _tell(f"{url} has no scheme, so it is taken for http://{url}")
    domain = _domain_for(data, typed.host, may_create=create_domain)
    path = typed.path if domain is None or domain.metadata.case_sensitive else folded(typed.path)
    if domain is not None and _find(domain, path) is not None:
        _tell(f"{domain.name}{path} is there already")
        return 0
    name = domain.name if domain is not None else typed.host
    with open_site(asked, single=True, online=not offline) as site:
        record = record_for(site, f"{typed.scheme}://{name}", path, static=static, categories=categories)
    if domain is None:
        data.create(name)
    data.change(name, lambda file: None if _find(file, path) is not None else edits.put(file, record))
    return 0


def _domain_for(database: Database, host: str, *, may_create: bool) -> DomainFile | None:
    domain = database.domain_of_host(host)
    if domain is None and not may_create:
        raise UsageError(f"{host} is no domain of this database", advice="--create-domain makes one")
    if domain is None and (database.find(host) is not None or not is_domain_name(host)):
        raise UsageError(f"{host} cannot be a domain of this database")
    return domain


def _find(domain: DomainFile, path: str) -> str | None:
    """A stored path that means the same."""
    if path in domain.by_path:
        return path
    if domain.metadata.case_sensitive:
        return None
    wanted = folded(path)
    return next((stored for stored in reversed(domain.sorted_paths) if folded(stored) == wanted), None)


@_command("rm", "rm urls/ http://example.com/logo.png")
@_database
@_url
def rm(database: str, url: str) -> int:
    """Remove the record of URL."""
    data = Database(os.path.abspath(database))
    domain, path = _record_of(data, url)
    if path is None:
        return _missing(url)
    found = path
    data.change(domain.name, lambda file: edits.remove(file, found) if found in file.by_path else None)
    return 0


@_command("show", "show urls/ http://example.com/logo.png")
@_database
@_url
def show(database: str, url: str) -> int:
    """Print the record of URL."""
    data = Database(os.path.abspath(database))
    domain, path = _record_of(data, url)
    if path is None:
        return _missing(url)
    click.echo(domain.text(domain.by_path[path]).decode("utf-8", "backslashreplace"), nl=False)
    return 0


def _record_of(database: Database, url: str) -> tuple[DomainFile, str | None]:
    """The stored path of a URL, as it is typed or as it would be stored; raises UsageError for an unknown host."""
    typed: TypedUrl = normalised(url)
    domain = database.domain_of_host(typed.host)
    if domain is None:
        raise UsageError(f"{typed.host} is no domain of this database")
    rest = url.split("://", 1)[-1]
    verbatim = "/" + rest.partition("/")[2] if "/" in rest else typed.path
    return domain, _find(domain, verbatim) or _find(domain, typed.path)


def _missing(url: str) -> int:
    _tell(f"{url} is not in this database")
    return 1


def _tell(message: str) -> None:
    click.echo(f"archivefs: {quoted(message)}", err=True)


# -- whole files --


@_command("lint", "lint urls/")
@_database
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def lint(database: str, as_json: bool) -> int:
    """Say everything that is wrong with the files of a database."""
    findings = list(Database(os.path.abspath(database)).lint())
    if as_json:
        rows = [{"file": f.file, "line": f.line, "level": f.level, "code": f.code, "text": f.text} for f in findings]
        click.echo(json.dumps({"findings": rows}, indent=2))
    else:
        for finding in findings:
            click.echo(str(finding))
    return int(any(finding.level == ERROR for finding in findings))


@_command("format", "format --check urls/")
@_database
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit with 1 if something would change.")
@click.option("--dedupe", is_flag=True, help="Of records with the same path keep the last.")
@click.option("--drop-comments", is_flag=True, help="Format files with comments too, and lose those.")
@click.option("--eol", type=click.Choice(list(EOLS)), help="Line ends; otherwise those that most lines have.")
def format_files(database: str, only_check: bool, dedupe: bool, drop_comments: bool, eol: str | None) -> int:
    """Write every file in canonical form: sorted, plain, without comments."""
    data = Database(os.path.abspath(database))
    exit_code = 0

    def edit(file: DomainFile) -> DomainFile | None:
        new = formatted(file, dedupe=dedupe, drop_comments=drop_comments, eol=EOLS[eol] if eol else b"")
        return DomainFile(file.name, new, limits=file.limits) if new != file.data else None

    for domain in data.domains():
        try:
            new = edit(domain)
            if new is None:
                continue
            click.echo(f"{domain.name}{SUFFIX}: {'would be' if only_check else 'was'} changed")
            exit_code = max(exit_code, int(only_check))
            if not only_check:
                data.change(domain.name, edit)
        except FormatRefused as error:
            _tell(str(error))
            exit_code = 1
    return exit_code


urldb.add_command(check)
urldb.add_command(dump_urls)

COMMANDS = (urldb,)
