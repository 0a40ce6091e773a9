"""Format ``urldb``: a URL database, a folder with one YAML file a domain that lists URLs which must go on working.

This module has what is needed to recognise one; everything else is imported when it is used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from archivefs.format import HEAD_BYTES, Finding, Format, Match, Opening, Probe, VerifyRequest
from archivefs.formats.urldb.limits import OPTIONS
from archivefs.options import Option, one_of

if TYPE_CHECKING:
    from archivefs.tree import Tree

_FILE = re.compile(r"[a-z0-9._-]+(?::[0-9]+)?\.yaml")
_FIRST_LINE = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t]*(?:#[^\r\n]*)?[\r\n]|%[^\r\n]*[\r\n])*---")


def match(probe: Probe) -> Match:
    """A folder with a domain's file in it that begins as YAML documents do."""
    names = sorted(name for name in probe.names if _FILE.fullmatch(name) and not name.startswith("."))
    return Match.YES if any(_begins_well(os.path.join(probe.path, name)) for name in names) else Match.NO


def _begins_well(path: str) -> bool:
    try:
        if not os.path.isfile(path):  # a FIFO would hang whoever opens it
            return False
        with open(path, "rb") as file:
            return _FIRST_LINE.match(file.read(HEAD_BYTES)) is not None
    except OSError:
        return False


def _open(path: str, opening: Opening) -> Tree:
    if opening.options.get("view") == "content":
        from archivefs.formats.urldb.content import open_content

        return open_content(path, opening)
    from archivefs.formats.urldb.tree import UrldbTree

    return UrldbTree(path, opening)


def _verify(path: str, opening: Opening, request: VerifyRequest) -> Iterable[Finding]:
    from archivefs.formats.urldb.verify import verify

    return verify(path, opening, request)


def _commands() -> Sequence[Any]:
    from archivefs.formats.urldb.commands import COMMANDS

    return COMMANDS


FORMAT = Format(
    name="urldb",
    summary="URL database: a folder with one YAML file a domain",
    match=match,
    open=_open,
    options=(
        Option(
            name="view",
            help="show the records themselves, or what an archive holds for their URLs",
            parse=one_of("records", "content"),
            default="records",
            metavar="records|content",
        ),
        Option(name="join", help="the archive for view=content", parse=str, metavar="ARCHIVE"),
        *OPTIONS,
    ),
    verify=_verify,
    commands=_commands,
    command_names=("urldb",),
    can_write=True,
)
