"""The format Labrador: a static website in one zip, with a manifest of names and digests.

This module has what is needed to recognise an archive; everything else is imported when it is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from archivefs.format import Builder, Finding, Format, Match, Opening, Page, Probe, VerifyRequest
from archivefs.formats.labrador.detection import is_labrador
from archivefs.options import Option, one_of, seconds
from archivefs.options import path as whole_path

if TYPE_CHECKING:
    from archivefs.tree import Tree

_BASE_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#][^\s?#]*")


def _match(probe: Probe) -> Match:
    return Match.YES if not probe.is_directory and is_labrador(probe) else Match.NO


def _open(path: str, opening: Opening) -> Tree:
    from archivefs.formats.labrador.editing import mention_pending, open_editor
    from archivefs.formats.labrador.tree import LabradorTree

    if opening.read_write:
        return open_editor(path, opening)
    mention_pending(path, opening)
    return LabradorTree(path, opening)


def _verify(path: str, opening: Opening, request: VerifyRequest) -> Iterable[Finding]:
    from archivefs.formats.labrador.verify import verify

    return verify(path, opening, request)


def _commands() -> Sequence[Any]:
    from archivefs.formats.labrador.commands import COMMANDS

    return COMMANDS


def _create(path: str) -> None:
    from archivefs.formats.labrador.packing import create

    create(path)


def _build(path: str, site: str, pages: Iterable[Page]) -> None:
    from archivefs.formats.labrador.building import build

    build(path, site, pages)


def _extensions(text: str) -> tuple[str, ...]:
    extensions = tuple(word for word in text.split(":") if word)
    if not all(re.fullmatch(r"[a-z0-9_.-]{1,40}", extension) for extension in extensions):
        raise ValueError("extensions with colons between are expected, such as html:htm")
    return extensions


def _base_url(text: str) -> str:
    if not _BASE_URL.fullmatch(text):
        raise ValueError("a URL such as https://example.org/ is expected")
    return text


FORMAT = Format(
    name="labrador",
    summary="Labrador website archive",
    match=_match,
    open=_open,
    options=(
        Option(name="check", help="Check the digest of a file before its last byte is handed out.", default=False),
        Option(
            name="base_url",
            help="The URL of the site's root; then user.xdg.origin.url is a whole URL.",
            parse=_base_url,
            metavar="URL",
        ),
        Option(
            name="staging",
            help="Read-write: the folder for changes that are not committed, instead of one beside the archive.",
            parse=whole_path,
            metavar="DIR",
        ),
        Option(
            name="index_names",
            help="Read-write: a new file index.EXT with one of these becomes its directory's document.",
            parse=_extensions,
            default=("html", "htm", "xhtml"),
            metavar="EXT:EXT",
        ),
        Option(
            name="extmime",
            help="Read-write: keep the type declarations as they are, or add those of new extensions.",
            parse=one_of("add", "keep"),
            default="add",
            metavar="add|keep",
        ),
        Option(
            name="commit_idle",
            help="Read-write: commit after so many seconds without a change.",
            parse=seconds,
            metavar="SECONDS",
        ),
    ),
    can_write=True,
    create=_create,
    builder=Builder(build=_build),
    verify=_verify,
    commands=_commands,
    command_names=("bitsy", "complete", "pack"),
    unreadable_code="zip-unreadable",
)
