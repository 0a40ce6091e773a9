"""Map files: CSV as crawlers write it, read row by row and never held whole.

Used by views, comparisons and the HTTP API.  What is odd is tolerated and noted: a BOM, bytes that are not UTF-8,
rows that are too short or too long, a column that is there twice.  A ``MapRows`` belongs to one thread.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from archivefs.errors import CorruptMember

MAP_SUFFIX = "_map.csv"
MAX_MEMBER_BYTES = 256 << 20
EXTRA = "_extra"
"""Where the cells of a row that is too long are put."""

csv.field_size_limit(MAX_MEMBER_BYTES)  # the default of 128 KiB is too little for long error messages

_WHOLE = re.compile(r"-?[0-9]+")
_MAX_DIGITS = 4000
"""Python turns no more into a number, for good reason."""

Row = list[str]


class MapRows:
    """The header and the rows of one map file; iterating gives rows of exactly the header's length and what is over."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._odd_bytes = False
        self._reader = csv.reader(_lines(pieces, self._note_odd_bytes))
        self.header: Row = unique_header(self._next() or [])

    @property
    def warnings(self) -> list[str]:
        """What was odd so far."""
        return ["some bytes are not UTF-8; they are shown as U+FFFD"] if self._odd_bytes else []

    def __iter__(self) -> Iterator[tuple[Row, Row]]:
        width = len(self.header)
        while (row := self._next()) is not None:
            if len(row) < width:
                row = row + [""] * (width - len(row))
            yield (row, []) if len(row) == width else (row[:width], row[width:])

    def _next(self) -> Row | None:
        """The next row that is not a blank line."""
        try:
            for row in self._reader:
                if row:
                    return row
        except csv.Error as error:
            raise CorruptMember(f"line {self._reader.line_num} is not CSV: {error}") from None
        return None

    def _note_odd_bytes(self) -> None:
        self._odd_bytes = True


def unique_header(names: Row) -> Row:
    """A column that is there twice becomes ``name_2`` and so on, each the next number that is free."""
    taken = set(names)
    seen: set[str] = set()
    header = []
    for name in names:
        if name in seen:
            number = 2
            while f"{name}_{number}" in taken:
                number += 1
            name = f"{name}_{number}"
            taken.add(name)
        seen.add(name)
        header.append(name)
    return header


def is_whole_number_column(name: str) -> bool:
    """Do its cells become numbers in JSON?"""
    return name in ("sharepoint_listitem_id", "file_size") or name.endswith("_timestamp")


def typed(header: Row) -> Callable[[Row, Row], dict[str, Any]]:
    """A function that gives a row as JSON shows it."""
    numbers = [is_whole_number_column(name) for name in header]

    def as_object(row: Row, extra: Row) -> dict[str, Any]:
        made: dict[str, Any] = {
            name: _number(cell) if number else cell for name, cell, number in zip(header, row, numbers, strict=True)
        }
        if extra:
            made[EXTRA] = extra
        return made

    return as_object


def _number(cell: str) -> int | str | None:
    if not cell:
        return None
    return int(cell) if len(cell) <= _MAX_DIGITS and _WHOLE.fullmatch(cell) else cell


class _Pieces(io.RawIOBase):
    """Pieces of bytes as a file."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


def _lines(pieces: Iterable[bytes], odd: Callable[[], None]) -> Iterator[str]:
    """Lines with their ends as they are, the BOM taken away.  NUL is left to the reader, as a character like any."""
    file = io.TextIOWrapper(io.BufferedReader(_Pieces(pieces), 1 << 16), "utf-8-sig", errors="replace", newline="")
    for line in file:
        if "\ufffd" in line:
            odd()
        yield line
