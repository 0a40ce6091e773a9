"""The pages of one site of a project, for making another archive of them.

Used by ``archivefs convert`` through ``CrystalTree.pages``.  What is shown in ``web/`` is taken along, under the names
listed there.  Answers that are no pages (redirects, 4xx and 5xx) and bodies that are lost are named with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from archivefs.errors import NotFound, UsageError
from archivefs.format import Page
from archivefs.formats.crystal.nodes import BodyFile
from archivefs.formats.crystal.records import first
from archivefs.tree import Directory, Parts
from archivefs.urlnames import directory_path

if TYPE_CHECKING:
    from archivefs.formats.crystal.tree import CrystalTree


def site_pages(tree: CrystalTree, site: str | None) -> tuple[str, Iterator[Page]]:
    """The URL of the site and its pages; raises UsageError."""
    folder = tree.project.place.folder
    site = site or tree.project.edition().properties.get("default_url_prefix")
    if not site:
        raise UsageError("it does not say which site is meant", archive=folder, advice="name one with --site URL")
    prefix = site if site.endswith("/") else f"{site}/"
    parts = directory_path(prefix)
    try:
        top = tree.lookup(("web", *parts)) if parts else None
    except NotFound:
        top = None
    if not isinstance(top, Directory):
        raise UsageError(f"nothing of {prefix} is stored", archive=folder, advice="archivefs ls ARCHIVE:/web/https")
    return prefix, _pages(top, ())


def _pages(directory: Directory, above: Parts) -> Iterator[Page]:
    waiting = [(directory, above)]
    while waiting:
        directory, above = waiting.pop()
        for entry in directory.entries():
            node = directory.child(entry.name)
            if isinstance(node, Directory):
                waiting.append((node, (*above, entry.name)))
            elif isinstance(node, BodyFile) and node.shown.revision is not None:
                yield _page(node, (*above, entry.name))


def _page(node: BodyFile, parts: Parts) -> Page:
    attributes, shown = node.attributes(), node.shown
    assert shown.revision is not None
    status = shown.revision.status
    problem = ""
    if node.tree.find_body(shown.revision.id) is None:
        problem = "its body is lost"
    elif status is not None and status // 100 != 2:
        problem = f"an answer with status {status} is no page"
    return Page(
        url=shown.url_text,
        parts=parts,
        open=node.open,
        size=attributes.size,
        time_ns=attributes.mtime_ns,
        content_type=first(shown.headers, "content-type"),
        problem=problem,
    )
