"""Where the documents of a domain file lie: a scan of its bytes, without reading any YAML (specification 3.1).

A line ``---`` or ``...`` at the left edge is always a document marker, so each document can be read alone, and a
mistake in one hides no other.  Pure functions; any thread may call them.
"""

from __future__ import annotations

import re
from array import array
from typing import NamedTuple

BOM = b"\xef\xbb\xbf"

_MARKERS_LF = re.compile(rb"\n(?:---|\.\.\.)(?=[ \t\n]|\Z)")
_MARKERS = re.compile(rb"[\r\n](?:---|\.\.\.)(?=[ \t\r\n]|\Z)")
_MARKER_HERE = re.compile(rb"(?:---|\.\.\.)(?=[ \t\r\n]|\Z)")
_LINE = re.compile(rb"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_EMPTY_LINE = re.compile(rb"[ \t]*(?:#.*)?", re.DOTALL)
_MARKER_LINE = re.compile(rb"---[ \t]*(?:#[^\r\n]*)?(?:\r\n|\r|\n|\Z)|---[ \t]+")


class Oddity(NamedTuple):
    """A document that does not simply begin with its marker line."""

    lead: int
    """Where the first directive (``%YAML``) before it begins; its start where there is none."""
    marked: bool
    """Does it begin with ``---``?"""


class Layout(NamedTuple):
    """The documents of a file, in order."""

    starts: array[int]
    """Where each begins: its ``---``, or its first line of content where it has none."""
    ends: array[int]
    """Where each ends: at the next ``---`` or ``...``, or at the end of the file."""
    odd: dict[int, Oddity]

    def lead(self, number: int) -> int:
        """Where a document with its directives begins."""
        oddity = self.odd.get(number)
        return oddity.lead if oddity else self.starts[number]

    def is_marked(self, number: int) -> bool:
        """Does it begin with ``---``?"""
        oddity = self.odd.get(number)
        return oddity is None or oddity.marked


def scan(data: bytes) -> Layout:
    """Find the documents in *data*."""
    base = len(BOM) if data.startswith(BOM) else 0
    markers = _markers(data, base)
    if (
        markers
        and markers[0] == base
        and b"\n..." not in data
        and b"\r..." not in data
        and data[base : base + 1] == b"-"
    ):
        return Layout(array("q", markers), array("q", [*markers[1:], len(data)]), {})
    return _Scanner(data, base).scan(markers)


def _markers(data: bytes, base: int) -> list[int]:
    pattern = _MARKERS if b"\r" in data else _MARKERS_LF
    found = [match.start() + 1 for match in pattern.finditer(data, base)]
    return [base, *found] if _MARKER_HERE.match(data, base) else found


class _Scanner:
    """The exact way: with ``...`` lines, directives and documents without a marker."""

    def __init__(self, data: bytes, base: int) -> None:
        self._data = data
        self._base = base
        self._layout = Layout(array("q"), array("q"), {})

    def scan(self, markers: list[int]) -> Layout:
        gap: int | None = self._base
        for position in [*markers, len(self._data)]:
            lead = position
            if gap is not None:
                lead = self._gap(gap, position)
            elif self._layout.starts:
                self._layout.ends.append(position)
            if position == len(self._data):
                break
            gap = None
            if self._data.startswith(b"...", position):
                gap = _line_end(self._data, position)
            else:
                self._begin(position, lead, marked=True)
        del self._layout.ends[len(self._layout.starts) :]
        return self._layout

    def _begin(self, start: int, lead: int, *, marked: bool) -> None:
        if lead != start or not marked:
            self._layout.odd[len(self._layout.starts)] = Oddity(lead, marked)
        self._layout.starts.append(start)

    def _gap(self, start: int, end: int) -> int:
        """Between documents: directives and comments, or a document without marker.  Gives the lead of what follows."""
        lead = None
        while start < end:
            line = _LINE.match(self._data, start, end)
            text = line[1] if line else b""
            if text.startswith(b"%"):
                lead = start if lead is None else lead
            elif not _EMPTY_LINE.fullmatch(text):
                self._begin(start, start if lead is None else lead, marked=False)
                self._layout.ends.append(end)
                return end
            start = line.end() if line else end
        return end if lead is None else lead


def _line_end(data: bytes, position: int) -> int:
    line = _LINE.match(data, position)
    return line.end() if line else len(data)


def text_start(data: bytes, layout: Layout, number: int) -> int:
    """Where a document's own text begins: after its marker line, of which only a comment is dropped."""
    start = layout.starts[number]
    marker = _MARKER_LINE.match(data, start, layout.ends[number]) if layout.is_marked(number) else None
    return marker.end() if marker else start


def directives(data: bytes, layout: Layout, number: int) -> list[bytes]:
    """The ``%`` lines before a document."""
    lines = _LINE.findall(data, layout.lead(number), layout.starts[number])
    return [line for line in lines if line.startswith(b"%")]


def line_at(data: bytes, offset: int) -> int:
    """The number of the line that begins at *offset*, from 1; lines end at LF, CRLF or a lone CR."""
    return 1 + breaks_in(data, 0, offset)


def breaks_in(data: bytes, start: int, end: int) -> int:
    """How many line ends there are."""
    count = data.count(b"\n", start, end)
    returns = data.count(b"\r", start, end)
    return count + returns - data.count(b"\r\n", start, end) if returns else count


def line_end_of(data: bytes) -> bytes:
    """The line end that most lines of a file have."""
    both = data.count(b"\r\n")
    return b"\r\n" if both * 2 > data.count(b"\n") else b"\n"
