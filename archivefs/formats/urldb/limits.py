"""What a domain file may be: the bounds that keep hostile YAML from costing time and memory (specification 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from archivefs.options import MEBIBYTE, Option, size, whole_number


class Limits(NamedTuple):
    """Bounds; what is beyond is refused, and said so."""

    depth: int = 32
    """Nested collections; the record itself is the first."""
    document: int = MEBIBYTE
    file: int = 256 * MEBIBYTE


DEFAULT = Limits()

OPTIONS = (
    Option(
        name="max_depth",
        help="how deep a record may be nested",
        parse=whole_number,
        default=DEFAULT.depth,
        metavar="N",
    ),
    Option(
        name="max_document",
        help="how large a record may be",
        parse=size,
        default=DEFAULT.document,
        metavar="SIZE",
    ),
    Option(
        name="max_file",
        help="how large the file of a domain may be",
        parse=size,
        default=DEFAULT.file,
        metavar="SIZE",
    ),
)


def from_options(options: Mapping[str, Any]) -> Limits:
    """The limits that ``-o`` asks for."""
    return Limits(
        depth=options.get("max_depth", DEFAULT.depth),
        document=options.get("max_document", DEFAULT.document),
        file=options.get("max_file", DEFAULT.file),
    )
