"""One domain's file as it was at one moment: where its records lie and what their paths are.

Made by a byte scan; a plain record's path is found by a regular expression, any other record is read exactly.  A record
is parsed when it is asked for.  Nothing changes after it is made, so any thread may use it; a change makes a new one.
"""

from __future__ import annotations

import functools
import os
import re
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from archivefs.errors import SourceChanged
from archivefs.formats.urldb import layout as layouts
from archivefs.formats.urldb.layout import Layout, Oddity, breaks_in, line_at
from archivefs.formats.urldb.limits import DEFAULT, Limits
from archivefs.formats.urldb.naming import shortened_names
from archivefs.formats.urldb.records import Metadata, metadata_of, path_of, path_problem
from archivefs.formats.urldb.values import NULL, SIMPLE, Mapping, Refused, Value, is_null, parse, simple

_EMPTY = re.compile(rb"---[ \t\r\n]*")


class Stamp(NamedTuple):
    """By which it is known that a file is still the same."""

    inode: int = 0
    size: int = 0
    mtime_ns: int = 0

    @classmethod
    def of(cls, state: os.stat_result) -> Stamp:
        """The stamp of a file."""
        return cls(state.st_ino, state.st_size, state.st_mtime_ns)


class Fault(NamedTuple):
    """Why a document is not shown."""

    code: str
    text: str
    line: int
    """From the document's first line on."""


class Splice(NamedTuple):
    """What is changed: the documents from *first* up to *last*, at *start* to *end*, become *text*."""

    first: int
    last: int
    start: int
    end: int
    text: bytes
    path: str | None
    """The path of the one new record; None: there is none."""


class DomainFile:
    """The documents of one domain's file."""

    def __init__(self, name: str, data: bytes, *, stamp: Stamp | None = None, path: str = "", limits: Limits = DEFAULT):
        self.name = name
        self.stamp = stamp or Stamp()
        self.limits = limits
        self.eol = layouts.line_end_of(data) if data else os.linesep.encode()
        self._path = path
        self._data: bytes | None = data
        self.layout = layouts.scan(data)
        self.faults: dict[int, Fault] = {}
        self.empty: set[int] = set()
        """Documents that hold nothing."""
        self.metadata = Metadata()
        self.first = self._read_metadata()
        """The number of the first document that is a record: 0 where the metadata were forgotten."""
        self.paths: list[str | None] = [None] * self.first
        self._index(data)
        self._order()

    # -- making it --

    def _read_metadata(self) -> int:
        if not self.layout.starts:
            return 0
        try:
            value = self.value(0)
        except Refused as error:
            self.faults[0] = Fault(error.code, error.text, error.line)
            return 1
        if isinstance(value, Mapping) and value.get("_path") is not None:
            return 0
        if not isinstance(value, Mapping) and not is_null(value):
            self.faults[0] = Fault("not-a-mapping", "the metadata are a mapping", 0)
        self.metadata = metadata_of(value)
        return 1

    def _index(self, data: bytes) -> None:
        starts, ends = self.layout.starts, self.layout.ends
        largest, add, odd = self.limits.document, self.paths.append, self.layout.odd
        for number in range(self.first, len(starts)):
            start, end = starts[number], ends[number]
            match = SIMPLE.fullmatch(data, start, end) if end - start <= largest and number not in odd else None
            add(match[1].decode() if match else self._path_of(number))

    def _path_of(self, number: int) -> str | None:
        """The exact way; what is wrong is remembered."""
        try:
            value = self.value(number)
        except Refused as error:
            self.faults[number] = Fault(error.code, error.text, error.line)
            return None
        if is_null(value):
            self.empty.add(number)
            return None
        problem = path_problem(value)
        if problem or not isinstance(value, Mapping):
            code, text = problem or ("not-a-mapping", "")
            line = value.line_of("_path") if isinstance(value, Mapping) else 0
            self.faults[number] = Fault(code, text, line if isinstance(value, Mapping) and value.get("_path") else 0)
            return None
        return path_of(value)

    def _order(self) -> None:
        self.by_path = {path: number for number, path in enumerate(self.paths) if path is not None}
        """The document of each path; of two the last."""
        found = [path for path in self.paths if path is not None]
        self.sorted_paths = sorted(self.by_path)
        self.is_sorted = found == self.sorted_paths or found == sorted(found)
        self.has_duplicates = len(found) != len(self.sorted_paths)

    def spliced(self, data: bytes, place: Splice) -> DomainFile:
        """The same with one document more, less or another, without looking at the others again."""
        if self.layout.odd or place.first < max(1, self.first):
            return DomainFile(self.name, data, limits=self.limits)
        new = object.__new__(DomainFile)
        new.__dict__ |= self.__dict__
        first, last, start, end, text, path = place
        shift = len(text) - (end - start)
        moved = (1 if path is not None else 0) - (last - first)
        starts, ends = self.layout.starts, self.layout.ends
        own_start, own_end = ([start], [start + len(text)]) if path is not None else ([], [])
        new.layout = Layout(
            starts[:first] + array("q", [*own_start, *(at + shift for at in starts[last:])]),
            ends[:first] + array("q", [*own_end, *(at + shift for at in ends[last:])]),
            {},
        )
        new.faults = {number + moved * (number >= last): fault for number, fault in self.faults.items()}
        new.empty = {number + moved * (number >= last) for number in self.empty}
        new.paths = [*self.paths[:first], *([path] if path is not None else []), *self.paths[last:]]
        new._data = data
        new.__dict__.pop("shortened", None)
        new._order()
        return new

    @functools.cached_property
    def shortened(self) -> dict[tuple[str, str], str]:
        """What names mean that are too long to be read back."""
        return shortened_names(self.sorted_paths)

    # -- reading --

    @property
    def data(self) -> bytes:
        """All of it; raises SourceChanged where it was not kept and is no longer the same on disk."""
        return self._data if self._data is not None else self._pread(0, self.stamp.size)

    @property
    def kept(self) -> int:
        """How many bytes are held in memory."""
        return len(self._data) if self._data is not None else 0

    def settle(self, path: str, stamp: Stamp) -> None:
        """It was written, and is there now."""
        self._path = path
        self.stamp = stamp

    def drop_data(self) -> None:
        """Hold no bytes: read them again when they are needed."""
        if self._path:
            self._data = None

    def bytes_at(self, start: int, end: int) -> bytes:
        """Some of it."""
        return self._data[start:end] if self._data is not None else self._pread(start, end)

    def _pread(self, start: int, end: int) -> bytes:
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(fd, end - start, start) if Stamp.of(os.fstat(fd)) == self.stamp else b""
        finally:
            os.close(fd)
        if len(data) != end - start:
            raise SourceChanged(archive=self._path)
        return data

    def body(self, number: int) -> bytes:
        """A document with its marker line."""
        return self.bytes_at(self.layout.starts[number], self.layout.ends[number])

    def text(self, number: int) -> bytes:
        """A document's own text (specification 4.2)."""
        body = self.body(number)
        alone = Layout(array("q", [0]), array("q", [len(body)]), {})
        if not self.layout.is_marked(number):
            alone.odd[0] = Oddity(0, False)
        return body[layouts.text_start(body, alone, 0) :]

    def value(self, number: int) -> Value:
        """A document, parsed; raises Refused."""
        start, end = self.layout.starts[number], self.layout.ends[number]
        if end - start > self.limits.document:
            raise Refused("too-big", f"larger than {self.limits.document} bytes")
        body = self.body(number)
        if number not in self.layout.odd:
            found = NULL if _EMPTY.fullmatch(body) else simple(body, 0, len(body))
            if found is not None:
                return found
            return parse_bytes(body, self.limits)
        before = layouts.directives(self.data, self.layout, number)
        return parse_bytes(b"".join(line + b"\n" for line in before) + body, self.limits, before=len(before))

    def record(self, number: int) -> Mapping:
        """A record that is shown, parsed."""
        value = self.value(number)
        return value if isinstance(value, Mapping) else Mapping([], 0)

    def line(self, number: int) -> int:
        """The line in which a document begins."""
        return line_at(self.data, self.layout.starts[number])

    def lines(self) -> Iterator[int]:
        """The same for all of them, in order."""
        data, line, before = self.data, 1, 0
        for start in self.layout.starts:
            line += breaks_in(data, before, start)
            before = start
            yield line

    def has_hidden(self) -> bool:
        """Is there something that could not be shown?"""
        return bool(self.faults)


def parse_bytes(data: bytes, limits: Limits, *, before: int = 0) -> Value:
    """One document; raises Refused."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("not-utf8", "not UTF-8") from None
    return parse(text, limits, before=before) if text else NULL
