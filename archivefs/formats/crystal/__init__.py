"""Format ``crystal``: projects of the website archiver Crystal, ``NAME.crystalproj``.

Specification: the format description that comes with Crystal, and what its releases 1.0 to 2.3 write.
"""

from __future__ import annotations

from collections.abc import Iterable

from archivefs.format import Builder, Finding, Format, Match, Opening, Page, Probe, VerifyRequest
from archivefs.formats.crystal.location import DATABASE, OPENER_SUFFIX, PARTIAL_SUFFIX, PROJECT_SUFFIX
from archivefs.options import Option, one_of
from archivefs.options import path as whole_path
from archivefs.tree import Tree


def match(probe: Probe) -> Match:
    """A folder that is called a project or has a database in it, that database, or the opener beside it."""
    if probe.is_directory:
        named = probe.name.endswith((PROJECT_SUFFIX, PARTIAL_SUFFIX))
        return Match.YES if named or DATABASE in probe.names else Match.NO
    return Match.YES if probe.name == DATABASE or probe.name.endswith(OPENER_SUFFIX) else Match.NO


def open_crystal(path: str, opening: Opening) -> Tree:
    """Open it; raises UnreadableArchive."""
    from archivefs.formats.crystal.tree import CrystalTree
    from archivefs.formats.crystal.writing import mention_pending, open_for_writing

    if opening.read_write:
        return open_for_writing(path, opening)
    mention_pending(path, opening)
    return CrystalTree(path, opening)


def whole(path: str) -> str:
    """The folder of the project, also by its database or its opener; raises UnreadableArchive."""
    from archivefs.formats.crystal.location import find_project

    return find_project(path).folder


def verify(path: str, opening: Opening, request: VerifyRequest) -> Iterable[Finding]:
    """The database, every row and every body; raises UnreadableArchive."""
    from archivefs.formats.crystal.verify import verify_crystal

    return verify_crystal(path, opening, request)


def create(path: str) -> None:
    """A new, empty project."""
    from archivefs.formats.crystal.creating import create as make

    make(path)


def build(path: str, site: str, pages: Iterable[Page]) -> None:
    """A new project of these pages."""
    from archivefs.formats.crystal.building import build as make

    make(path, site, pages)


FORMAT = Format(
    name="crystal",
    summary="Crystal project (.crystalproj)",
    match=match,
    open=open_crystal,
    whole=whole,
    options=(
        Option(name="unfetched", help="list pages that were seen but never fetched, as empty files", default=False),
        Option(
            name="prefer",
            help="what to show where the newest fetch failed: the last content, or nothing as Crystal does",
            parse=one_of("content", "crystal"),
            default="content",
            metavar="content|crystal",
        ),
        Option(
            name="redirects",
            help="show a redirect as its body, or as a link to its target where that is stored",
            parse=one_of("file", "symlink"),
            default="file",
            metavar="file|symlink",
        ),
        Option(name="decode", help="undo gzip and deflate content codings", default=False),
        Option(
            name="mtime",
            help="the time of a page: when it was fetched, or when it was last modified",
            parse=one_of("fetched", "last-modified"),
            default="fetched",
            metavar="fetched|last-modified",
        ),
        Option(
            name="delete", help="read-write: allow to remove pages and revisions; there is no way back", default=False
        ),
        Option(name="rename", help="read-write: allow to give a stored page another URL", default=False),
        Option(
            name="network", help="read-write: also on a network file system, where locks may not hold", default=False
        ),
        Option(
            name="staging",
            help="read-write: the folder for what is not stored yet, instead of one beside the project",
            parse=whole_path,
            metavar="DIR",
        ),
    ),
    can_write=True,
    create=create,
    builder=Builder(build=build, suffix=PROJECT_SUFFIX, needs_urls=True),
    verify=verify,
)
