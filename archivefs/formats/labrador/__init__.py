"""The format Labrador: a static website in one zip, with a manifest of names and digests.

This module has what is needed to recognise an archive; everything else is imported when it is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from archivefs.format import Finding, Format, Match, Opening, Probe, VerifyRequest
from archivefs.formats.labrador.detection import is_labrador
from archivefs.options import Option

if TYPE_CHECKING:
    from archivefs.tree import Tree

_BASE_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#][^\s?#]*")


def _match(probe: Probe) -> Match:
    return Match.YES if not probe.is_directory and is_labrador(probe) else Match.NO


def _open(path: str, opening: Opening) -> Tree:
    from archivefs.formats.labrador.tree import LabradorTree

    return LabradorTree(path, opening)


def _verify(path: str, opening: Opening, request: VerifyRequest) -> Iterable[Finding]:
    from archivefs.formats.labrador.verify import verify

    return verify(path, opening, request)


def _commands() -> Sequence[Any]:
    from archivefs.formats.labrador.commands import COMMANDS

    return COMMANDS


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
    ),
    verify=_verify,
    commands=_commands,
    command_names=("bitsy",),
    unreadable_code="zip-unreadable",
)
