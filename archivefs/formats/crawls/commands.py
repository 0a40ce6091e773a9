"""``archivefs crawls …``: list, get, delete, create, diff and verify; ``serve`` is hung in beside them.

With ``--json`` every command prints what the HTTP interface would answer.  Exit codes: 0 ok, 1 ``ok=false``, 2 usage.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from archivefs.errors import ArchiveError, UsageError, quoted
from archivefs.formats.crawls import create_crawl_archive, rendering
from archivefs.formats.crawls.api import Api, ApiError, envelope
from archivefs.formats.crawls.comparing import Comparer, Comparison
from archivefs.formats.crawls.products import Product, Products, made
from archivefs.formats.crawls.storage import Storage, one_line
from archivefs.formats.crawls.terminal import difference_lines, list_lines, metadata_lines, row_lines

EXIT_CODES = "Exit codes: 0 done, 1 refused or failed (ok is false), 2 usage."

Function = Callable[..., Any]
_PARAMETER = re.compile(r"'(crawl_id|domain_id|older_than|action|scope|limit|file)'(?: param(?:eter)?\b)?")
storage_argument = click.argument("storage", metavar="STORAGE")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, as the HTTP interface would answer.")


@click.group(
    "crawls",
    epilog="\b\nExample:\n  archivefs crawls list storage --domain-id TEST01\n  archivefs crawls verify storage\n\n"
    f"{EXIT_CODES}",
)
def crawls() -> None:
    """Crawl archives: what was crawled, what failed, what has changed.

    STORAGE is the folder that has crawls/ in it, or that folder itself.
    """


def _command(name: str, *, example: str) -> Callable[[Function], click.Command]:
    return crawls.command(name, epilog=f"\b\nExample:\n  {example}\n\n{EXIT_CODES}")


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Storage]:
    storage = Storage(os.path.abspath(path))
    try:
        yield storage
    finally:
        storage.close()


def _print_json(data: object) -> None:
    click.echo(json.dumps(data, indent=2))


def _failed(error: ApiError, as_json: bool) -> int:
    if as_json:
        _print_json({"ok": False, "error": error.message, "data": error.data})
    else:
        click.echo(f"archivefs: {quoted(_typed(error.message))}", err=True)
    return 1


def _typed(message: str) -> str:
    """A message of the HTTP interface with its parameters as the command line calls them."""
    return _PARAMETER.sub(lambda match: f"--{match[1].replace('_', '-')}", message)


def _given(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


def _copy(product: Product) -> None:
    """A product on stdout, byte for byte."""
    sys.stdout.flush()
    for piece in product.pieces():
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


# -- list, get, delete --


@_command("list", example="archivefs crawls list storage --domain-id TEST01")
@storage_argument
@click.option("--domain-id", required=True, metavar="D", help="The domain.")
@click.option("--action", metavar="A", help="download, process, embed or crawl.")
@click.option("--scope", metavar="S", help="all, files, lists or sitepages.")
@click.option("--limit", metavar="N", help="How many at most, 1 to 10000; 50 if not given.")
@click.option("--format", "format_", type=click.Choice(["json", "html"]), help="Print JSON or a page.")
@json_option
def list_command(storage: str, format_: str | None, as_json: bool, **options: str | None) -> int:
    """The crawls of a domain, newest first."""
    with _opened(storage) as opened:
        try:
            data = Api(opened).list(_given(**options))
        except ApiError as error:
            return _failed(error, as_json or format_ == "json")
        if as_json or format_ == "json":
            _print_json(json.loads(envelope(data)))
        elif format_ == "html":
            _copy(made(lambda product: rendering.write_list_page(data, product)))
        else:
            click.echo("\n".join(list_lines(data)))
    return 0


@_command("get", example="archivefs crawls get storage --crawl-id '2025-01-15_14-25-00_[TEST01]_crawl_all_full'")
@storage_argument
@click.option("--crawl-id", required=True, metavar="ID", help="The crawl.")
@click.option("--file", metavar="PATH", help="One of its map files.")
@click.option("--format", "format_", type=click.Choice(["json", "csv", "html"]), help="Print JSON, CSV or a page.")
@json_option
def get_command(storage: str, crawl_id: str, file: str | None, format_: str | None, as_json: bool) -> int:
    """What is known of a crawl, or one of its map files."""
    chosen = "json" if as_json else format_
    with _opened(storage) as opened:
        api, parameters = Api(opened), _given(crawl_id=crawl_id, file=file)
        try:
            product = api.get(parameters, chosen or "json")
        except ApiError as error:
            return _failed(error, as_json or format_ == "json")
        if chosen is not None:
            _copy(product)
            if chosen == "json":
                click.echo()
        else:
            data = json.loads(product.whole())["data"]
            click.echo("\n".join(row_lines(data["rows"]) if "rows" in data and file else metadata_lines(data)))
    return 0


@_command("delete", example="archivefs crawls delete storage --domain-id TEST01 --older-than 30 --dry-run")
@storage_argument
@click.option("--crawl-id", metavar="ID", help="Delete this crawl.")
@click.option("--domain-id", metavar="D", help="Delete crawls of this domain …")
@click.option("--older-than", metavar="DAYS", help="… that are older than so many days.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def delete_command(storage: str, dry_run: bool, yes: bool, as_json: bool, **options: str | None) -> int:
    """Delete one crawl, or the old ones of a domain.  Asks, unless told --yes."""
    with _opened(storage) as opened:
        api, parameters = Api(opened), _given(**options)
        try:
            data = api.delete({**parameters, "dry_run": "true"})
            if not dry_run and data["total"]:
                if not yes:
                    for crawl_id in data["deleted"]:
                        click.echo(quoted(crawl_id), err=True)
                    click.confirm(f"Delete {_counted(data['total'])}?", abort=True, err=True)
                data = api.delete(parameters)
        except ApiError as error:
            return _failed(error, as_json)
        if as_json:
            _print_json(json.loads(envelope(data)))
        else:
            said = "would be deleted" if dry_run else "deleted"
            click.echo("\n".join([*map(quoted, data["deleted"]), f"{_counted(data['total'])} {said}"]))
    return 0


def _counted(number: int) -> str:
    return f"{number} crawl{'' if number == 1 else 's'}"


# -- create --


@_command(
    "create",
    example="archivefs crawls create storage --domain-id TEST01 --action crawl --scope all --mode full \\\n"
    "    --started-utc 2025-01-15T14:20:00.000000Z --finished-utc 2025-01-15T14:25:00.000000Z",
)
@storage_argument
@click.option("--domain-id", required=True, metavar="D", help="The domain.")
@click.option("--action", required=True, metavar="A", help="download, process, embed or crawl.")
@click.option("--scope", required=True, metavar="S", help="all, files, lists or sitepages.")
@click.option("--mode", required=True, metavar="M", help="full or incremental.")
@click.option("--started-utc", required=True, metavar="T", help="When it began.")
@click.option("--finished-utc", required=True, metavar="T", help="When it ended.")
@click.option("--source-id", metavar="S", help="Only this source.")
@click.option("--job-id", metavar="J", help="The job it was done by.")
@click.option("--error", default="", metavar="TEXT", help="Why the crawl failed, if it did.")
@click.option("--sources", "sources_file", metavar="FILE", help="A JSON file with a list of what is known of sources.")
@click.option("--dry-run", is_flag=True, help="Check what is given, and write nothing.")
@json_option
def create_command(
    storage: str, sources_file: str | None, error: str, dry_run: bool, as_json: bool, **options: Any
) -> int:
    """Put the map files of a crawl into a new archive."""
    sources = _read_sources(sources_file) if sources_file else []
    try:
        crawl_id = create_crawl_archive(
            **options, ok=not error, error=error, sources=sources, storage=storage, dry_run=dry_run
        )
    except ValueError as problem:
        return _failed(ApiError(400, str(problem)), as_json)
    except ArchiveError as problem:
        return _failed(ApiError(500, one_line(problem)), as_json)
    if as_json:
        _print_json({"ok": True, "error": "", "data": {"crawl_id": crawl_id}})
    else:
        click.echo(crawl_id or "nothing was written: this is a dry run")
    return 0


def _read_sources(path: str) -> Any:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return json.load(file)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", archive=path) from None
    except (ValueError, RecursionError):
        raise UsageError("it is not JSON", archive=path) from None


# -- diff --


@_command("diff", example="archivefs crawls diff storage ID-OF-THE-OLDER ID-OF-THE-NEWER")
@storage_argument
@click.argument("old", metavar="A")
@click.argument("new", metavar="B")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
@click.option("--html", "as_html", is_flag=True, help="Print a page.")
@click.option("--safe-csv", is_flag=True, help="Put ' before cells that a spreadsheet would take for formulas.")
def diff_command(storage: str, old: str, new: str, as_json: bool, as_html: bool, safe_csv: bool) -> int:
    """What has changed from crawl A, the baseline, to crawl B."""
    with _opened(storage) as opened:
        comparer = Comparer(opened, Products(), safe_csv=safe_csv)
        try:
            comparison = _comparison(opened, comparer, old, new)
            if as_json:
                _print_json({"ok": True, "error": "", "data": comparer.summary(comparison)})
            elif as_html:
                _copy(made(lambda product: _write_page(comparer, comparison, old, new, product)))
            else:
                for line in difference_lines(comparer, comparison, old, new):
                    click.echo(line)
        except ApiError as error:
            return _failed(error, as_json)
        except ArchiveError as problem:
            return _failed(ApiError(500, one_line(problem)), as_json)
    return 0


def _comparison(storage: Storage, comparer: Comparer, old: str, new: str) -> Comparison:
    api = Api(storage)
    items = [api.item(crawl_id) for crawl_id in (old, new)]
    for item in items:
        api.metadata(item.crawl_id)
    return comparer.between(*items)


def _write_page(comparer: Comparer, comparison: Comparison, old: str, new: str, product: Product) -> None:
    pairs = {pair.member: pair for pair in comparison.pairs}
    summary: Mapping[str, Any] = comparer.summary(comparison)
    rendering.write_diff_page(
        summary,
        lambda member: comparer.difference(pairs[member]).lines(),
        product,
        title=f"What changed in {new}",
        subtitle=f"since {old}",
    )


# -- verify --


@_command("verify", example="archivefs crawls verify storage")
@storage_argument
@json_option
@click.pass_context
def verify_command(ctx: click.Context, storage: str, as_json: bool) -> Any:
    """Check every archive of the storage: archivefs verify --format crawls."""
    root = ctx.find_root()
    assert isinstance(root.command, click.Group)
    command = root.command.get_command(root, "verify")
    assert command is not None
    words = ["--format", "crawls", *(["--json"] if as_json else []), "--", storage]
    with command.make_context("verify", words, parent=root) as inner:
        return command.invoke(inner)


COMMANDS = (crawls,)
