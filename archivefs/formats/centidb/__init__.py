"""The format centidb: stores of the Python library of that name, later called acid, in LMDB, LevelDB or a dump.

This module has what is needed to recognise a store; everything else is imported when it is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from archivefs.format import Finding, Format, Match, Opening, Probe, VerifyRequest
from archivefs.options import Option, one_of, size, whole_number

if TYPE_CHECKING:
    from archivefs.tree import Tree


def _match(probe: Probe) -> Match:
    from archivefs.formats.centidb.recognition import kind_of

    return Match.YES if kind_of(probe) else Match.NO


def _open(path: str, opening: Opening) -> Tree:
    from archivefs.formats.centidb.tree import CentidbTree

    return CentidbTree(path, opening)


def _verify(path: str, opening: Opening, request: VerifyRequest) -> Iterable[Finding]:
    from archivefs.formats.centidb.verify import verify

    return verify(path, opening, request)


def _commands() -> Sequence[Any]:
    from archivefs.formats.centidb.commands import COMMANDS

    return COMMANDS


def _hex(text: str) -> bytes:
    if not re.fullmatch("(?:[0-9a-fA-F]{2})*", text):
        raise ValueError("hex digits are expected")
    return bytes.fromhex(text)


FORMAT = Format(
    name="centidb",
    summary="centidb or acid store (LMDB, LevelDB, mdb_dump)",
    match=_match,
    open=_open,
    options=(
        Option(
            name="dialect",
            help="Which generation of the library wrote it: auto, centidb or acid.",
            parse=one_of("auto", "centidb", "acid"),
            default="auto",
            metavar="NAME",
        ),
        Option(name="prefix", help="What all keys of the store begin with.", parse=_hex, default=b"", metavar="HEX"),
        Option(name="db", help="The named database in an LMDB environment.", parse=str, default="", metavar="NAME"),
        Option(
            name="names",
            help="How keys are shown: readable, or hex, which sorts as stored.",
            parse=one_of("readable", "hex"),
            default="readable",
            metavar="HOW",
        ),
        Option(
            name="layout",
            help="flat, or nested: every element of a key but the last is a folder.",
            parse=one_of("flat", "nested"),
            default="flat",
            metavar="HOW",
        ),
        Option(name="consistent", help="Show an LMDB store as it was when it was opened.", default=False),
        Option(
            name="stale_indices",
            help="ok: write to collections that have an index, which then no longer fits; refuse: do not.",
            parse=one_of("ok", "refuse"),
            default="refuse",
            metavar="HOW",
        ),
        Option(name="walk", help="Keys looked at in search of a batch.", parse=whole_number, default=4096, metavar="N"),
        Option(name="max_value", help="The largest value to unpack.", parse=size, default=256 << 20, metavar="SIZE"),
        Option(
            name="max_rendering", help="The largest value in decoded/.", parse=size, default=4 << 20, metavar="SIZE"
        ),
    ),
    verify=_verify,
    commands=_commands,
    command_names=("centidb",),
    can_write=True,
)
