"""The key/value text of ``extmime`` and ``manifest``: which lines are records, blank or wrong.

Pure functions, safe from any thread.  Lines end in LF or CR LF and hold printable ASCII; a record is a key
without spaces, spaces, and a value that may have spaces inside.  See the Labrador format, "Key/value file format".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LINE = re.compile(
    rb"(?: *(?P<key>[!-~]+) +(?P<value>[!-~](?:[ -~]*[!-~])?) *"  # a record
    rb"| *"  # or blank
    rb"|(?P<wrong>[^\n]*?)"  # or anything else, a lone CR included
    rb")(?:\r?\n|\Z)"
)
"""One line and its end; ``finditer`` goes through a whole text, whatever it holds, in linear time."""

KEY, VALUE, WRONG = 1, 2, 3
"""The groups of LINE by number: much quicker than by name."""


class Record(NamedTuple):
    """One record of a small text."""

    line: int
    key: str
    value: str


def records(data: bytes) -> Iterator[Record]:
    """The records of *data* in order; wrong lines are skipped."""
    for number, line in enumerate(LINE.finditer(data), 1):
        if line[KEY] is not None:
            yield Record(number, line[KEY].decode("ascii"), line[VALUE].decode("ascii"))


def wrong_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines that are neither blank nor a record: number and what is there."""
    for number, line in enumerate(LINE.finditer(data), 1):
        if line[WRONG] is not None:
            yield number, line[WRONG]
