"""``archivefs convert``: an archive of one format from one of another, between those that can hold URLs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from urllib.parse import quote

import click

from archivefs import registry
from archivefs.cli.progress import Meter, bar
from archivefs.cli.shared import OpenRequest, cli_command, opening_options, tell
from archivefs.cli.sources import Source, plan, plan_sources
from archivefs.errors import AlreadyExists, ArchiveError, UsageError
from archivefs.format import Builder, Format, Page, Pages
from archivefs.readers import ExtentReader
from archivefs.tree import Directory, Extent, File, Parts, Reader, Tree

INDEX_NAMES = ("index.html", "index.htm", "index.xhtml")
MAX_TOLD = 20
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#]+(/[^\s?#]*)?")
_KEPT = "/!$&'()*+,;=:@~"
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@cli_command(
    "convert",
    example="archivefs convert --base-url https://example.org/ site.lbz site.crystalproj\n"
    "archivefs convert --site https://example.org/ old.crystalproj site.lbz",
)
@click.argument("source", metavar="SRC")
@click.argument("out", metavar="OUT")
@click.option("--base-url", metavar="URL", help="The URL of the root of SRC, where SRC does not know it.")
@click.option("--site", metavar="URL", help="Take this site, where SRC has several.")
@opening_options
def command(source: str, out: str, base_url: str | None, site: str | None, request: OpenRequest) -> int:
    """Make the archive OUT of the archive or folder SRC.

    OUT NAME.crystalproj becomes a Crystal project, any other name a Labrador archive.  OUT appears when it is whole.
    What cannot be taken along is told and left out; the exit code is then 1.
    """
    for url in (base_url, site):
        if url is not None and not _URL.fullmatch(url):
            raise UsageError(f"{url!r} is not a URL such as https://example.org/")
    target = os.path.abspath(out)
    if os.path.lexists(target):
        raise AlreadyExists("there is something of that name already", archive=out)
    maker = _maker(target)
    assert maker.builder is not None
    registry.check_available(maker)
    origin = plan([source], request).sources[0]
    if origin.format is None:
        return _make(maker.builder, target, base_url, _folder_pages(origin.path))
    with closing(plan_sources([origin], request).open()) as tree:
        return _from_archive(maker.builder, target, origin, tree, base_url=base_url, site=site)


def _maker(target: str) -> Format:
    """The format that OUT is meant for, by its name."""
    able = [format for format in registry.formats().values() if format.builder is not None]
    for format in able:
        if format.builder and format.builder.suffix and target.endswith(format.builder.suffix):
            return format
    for format in able:
        if format.builder and not format.builder.suffix:
            return format
    raise UsageError("no format can be made of another")


def _from_archive(
    builder: Builder, target: str, origin: Source, tree: Tree, *, base_url: str | None, site: str | None
) -> int:
    if isinstance(tree, Pages):
        url, pages = tree.pages(site)
        return _make(builder, target, base_url or url, pages)
    if site is not None:
        raise UsageError("it has one site only", archive=origin.path, advice="leave out --site")
    return _make(builder, target, base_url, _tree_pages(tree))


def _make(builder: Builder, target: str, base_url: str | None, pages: Iterable[Page]) -> int:
    """Build it; says whether something was left out."""
    if base_url is None and builder.needs_urls:
        raise UsageError("the URL of its root is not known", advice="name it with --base-url URL")
    root = (base_url or "").rstrip("/")
    left_out: list[Page] = []
    meter = Meter("converting")

    def taken() -> Iterator[Page]:
        wanted: list[Page] = []
        for page in pages:
            (left_out if page.problem else wanted).append(page)
        for done, page in enumerate(wanted):
            meter.show(f"{bar(done, len(wanted))} {done:,} of {len(wanted):,} pages")
            yield page._replace(url=root + page.url) if page.url.startswith("/") else page

    try:
        builder.build(target, f"{root}/", taken())
    finally:
        meter.clear()
    for page in left_out[:MAX_TOLD]:
        tell(str(ArchiveError(f"left out: {page.problem}", archive=page.url)))
    if len(left_out) > MAX_TOLD:
        tell(f"and {len(left_out) - MAX_TOLD} more were left out")
    return int(bool(left_out))


# -- where pages come from --


def _tree_pages(tree: Tree) -> Iterator[Page]:
    """Every file of an archive that is one site."""
    waiting: list[tuple[Directory, Parts]] = [(tree.root(), ())]
    while waiting:
        directory, above = waiting.pop()
        for entry in directory.entries():
            node, parts = directory.child(entry.name), (*above, entry.name)
            if isinstance(node, Directory):
                waiting.append((node, parts))
            elif isinstance(node, File):
                yield _page_of(node, parts)


def _page_of(node: File, parts: Parts) -> Page:
    attributes, xattrs = node.attributes(), node.xattrs()
    known = xattrs.get("user.xdg.origin.url", b"").decode("utf-8", "surrogateescape")
    url = quote(known, safe=_KEPT) if known.startswith("/") else known
    kind = xattrs.get("user.mime_type")
    return Page(
        url=url or _url_of(parts, document=False),
        parts=parts,
        open=node.open,
        size=attributes.size,
        time_ns=attributes.mtime_ns,
        content_type=kind.decode("utf-8", "replace") if kind else None,
    )


def _folder_pages(path: str) -> Iterator[Page]:
    """Every file below a plain folder; ``index.html`` is the page of its folder."""
    for folder, folders, names in os.walk(path):
        folders.sort()
        above = tuple(name for name in os.path.relpath(folder, path).split(os.sep) if name != ".")
        document = next((name for name in INDEX_NAMES if name in names), None)
        for name in sorted(names):
            place, parts = os.path.join(folder, name), (*above, name)
            url = _url_of(parts, document=name == document)
            if not os.path.isfile(place) or os.path.islink(place):
                yield Page(url, parts, partial(_open, place), 0, problem="neither a file nor a folder")
                continue
            status = os.stat(place)
            yield Page(url, parts, partial(_open, place), status.st_size, status.st_mtime_ns)


def _open(path: str) -> Reader:
    try:
        fd = os.open(path, _FLAGS)
    except OSError as error:
        raise ArchiveError(f"cannot be opened: {error.strerror}", archive=path) from error
    return ExtentReader(Extent(fd, 0, os.fstat(fd).st_size), owned=True)


def _url_of(parts: Parts, *, document: bool) -> str:
    names = [quote(name, safe=_KEPT.replace("/", ""), errors="surrogateescape") for name in parts]
    return "/" + "/".join([*names[:-1], ""] if document else names)
