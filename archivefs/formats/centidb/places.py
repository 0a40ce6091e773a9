"""What the store is asked with and answers with: limits, places, rows.  Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from archivefs.formats.centidb import packers
from archivefs.formats.centidb.keys import KeyTuple

WALK = 4096


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is too much."""

    value: int = packers.MAX_VALUE
    rendering: int = 4 << 20
    walk: int = WALK


class Place(NamedTuple):
    """Where a record is."""

    physical: bytes
    member: int | None = None
    """Which member of a batch, or None for a record of its own."""


class Row(NamedTuple):
    """A record as a listing meets it."""

    key: KeyTuple
    place: Place


class Named(NamedTuple):
    """A record as a listing shows it."""

    data: bytes
    """Its encoded key."""
    name: str
    """The readable name of that, however long."""


def next_after(beginning: bytes) -> bytes | None:
    """The smallest key greater than all that begin so; None if there is none."""
    trimmed = beginning.rstrip(b"\xff")
    return trimmed[:-1] + bytes((trimmed[-1] + 1,)) if trimmed else None
