"""The manifest: which files the site has, in which directories.  Flat arrays, no Python object per record.

What is kept are the manifest's own bytes, where each record begins in them, and a few numbers per directory.
Records are numbered by directory and then by lower-cased key; those that cannot be shown follow after all
others: their content may still be that of a record which is shown.  Directories are numbered from 0, the root, and
are one where their decoded names are.

Where an index is kept (``zips/index.py``), bytes and arrays may be mapped from there.
A Manifest never changes once it is made, so any thread may ask it.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate

from archivefs.errors import LimitExceeded
from archivefs.formats.labrador.keys import decoded_name
from archivefs.formats.labrador.keyvalue import KEY, LINE
from archivefs.zips.index import Bytes, Saved, Sections

ROOT = 0

RECORDS_ALLOWANCE, RECORD_BYTES = 100_000, 64
"""A record with a digest takes more than 64 bytes: a long text with many more records is an attack on memory."""
DIRECTORIES_ALLOWANCE, DIRECTORY_BYTES = 100_000, 32

_TABLES = (
    "_starts",
    "_files",
    "_parents",
    "_components",
    "_component_lengths",
    "_children",
    "_first_children",
)

_VALUE = re.compile(rb" +([0-9A-Fa-f]{64}) *(?:\r?\n|\Z)")
# What may be shown: components of the 65 safe characters, none empty, none "." or "..".
_SHOWABLE = re.compile(rb"(?:(?!\.\.?(?:/|\Z))[a-z0-9._-]{1,255}(?:/(?!\Z)|\Z))+")
# Only names without any safe character can decode to "." or "..", and their first number is below 46 (U+002E).
_MAY_BE_DOTS = re.compile(rb"(?:\A|/)(xz---?[ab][a-z0-9]*)(?=/|\Z)")


class Manifest:
    """The records and directories of one archive."""

    def __init__(self, data: bytes, *, archive: str = "") -> None:
        self.data: Bytes = data
        self.archive = archive
        builder = _Builder(data, archive)
        builder.read_records()
        builder.place_records()
        self.shown = builder.shown
        """How many records are shown; these have the numbers below."""
        self.repeated = builder.repeated
        """How many records were dropped because an earlier one has their key."""
        self._starts = builder.starts
        self._files = builder.files
        self._parents = builder.parents
        self._components = builder.components
        self._component_lengths = builder.component_lengths
        self._children, self._first_children = builder.children()

    @classmethod
    def recalled(cls, kept: Sections, *, archive: str) -> Manifest:
        """The manifest whose ``tables`` were kept."""
        manifest = cls.__new__(cls)
        manifest.data, manifest.archive = kept.bytes("data"), archive
        manifest.shown, manifest.repeated = kept.numbers("counts")
        for name in _TABLES:
            setattr(manifest, name, kept.numbers(name))
        return manifest

    def tables(self) -> dict[str, Saved]:
        """What is to be kept for the next mount."""
        tables: dict[str, Saved] = {name: getattr(self, name) for name in _TABLES}
        return {"data": self.data, "counts": array("Q", [self.shown, self.repeated]), **tables}

    def __len__(self) -> int:
        """How many records there are, those that are not shown included."""
        return len(self._starts)

    # -- records --

    def key(self, record: int) -> str:
        """The key as it is written."""
        start = self._starts[record]
        return self.data[start : self.data.find(b" ", start)].decode("ascii")

    def lower_key(self, record: int) -> bytes:
        """The key in lower case."""
        start = self._starts[record]
        return self.data[start : self.data.find(b" ", start)].lower()

    def name(self, record: int) -> str:
        """The last component of the key, in lower case."""
        start = self._starts[record]
        end = self.data.find(b" ", start)
        slash = self.data.rfind(b"/", start, end)
        return self.data[start if slash < 0 else slash + 1 : end].lower().decode("ascii")

    def digest(self, record: int) -> str | None:
        """The digest in lower case, or None if what stands there is none."""
        found = _VALUE.match(self.data, self.data.find(b" ", self._starts[record]))
        return found[1].lower().decode("ascii") if found else None

    def value(self, record: int) -> str:
        """What stands where the digest should be, as it is written."""
        start = self.data.find(b" ", self._starts[record])
        end = self.data.find(b"\n", start)
        return self.data[start : len(self.data) if end < 0 else end].strip(b" \r").decode("ascii")

    def directory_of(self, record: int) -> int:
        """The directory that a shown record is in."""
        return bisect_right(self._files, record, 0, self.directories) - 1

    # -- directories --

    @property
    def directories(self) -> int:
        """How many there are, the root included."""
        return len(self._parents)

    def files(self, directory: int) -> range:
        """The records in a directory, ordered by lower-cased key."""
        return range(self._files[directory], self._files[directory + 1])

    def places(self, directory: int) -> range:
        """The places of its subdirectories, which are ordered by number; ``at_place`` says which each is."""
        return range(self._first_children[directory], self._first_children[directory + 1])

    def at_place(self, place: int) -> int:
        """The directory at a place."""
        return self._children[place]

    def parent(self, directory: int) -> int:
        """The directory around it; the root's is the root."""
        return self._parents[directory]

    def directory_name(self, directory: int) -> str:
        """The lowest of its encoded names, in lower case."""
        return self.written_directory_name(directory).lower()

    def written_directory_name(self, directory: int) -> str:
        """The same as it is written."""
        at = self._components[directory]
        return self.data[at : at + self._component_lengths[directory]].decode("ascii")


class _Builder:
    """Everything that is needed only while a Manifest is made."""

    def __init__(self, data: bytes, archive: str) -> None:
        self.data = data
        self.archive = archive
        self.numbers = "I" if len(data) < 1 << 32 else "Q"
        self.starts: array[int] = array(self.numbers)
        self.shown = 0
        self.repeated = 0
        self.files: array[int] = array("I")
        self.parents = array("I", [ROOT])
        self.components = array(self.numbers, [0])
        self.component_lengths = bytearray(1)
        self._keys: list[bytes] = []
        self._merged: dict[tuple[int, str], int] = {}

    def read_records(self) -> None:
        """Find the records, put them in order of their lower-cased keys, and drop those that repeat one."""
        limit = RECORDS_ALLOWANCE + len(self.data) // RECORD_BYTES
        starts, keys = [], []
        for line in LINE.finditer(self.data):
            key = line[KEY]
            if key is not None:
                starts.append(line.start(KEY))
                keys.append(key.lower())
                if len(starts) > limit:
                    problem = f"{len(self.data)} bytes of manifest hold more than {limit} records"
                    raise LimitExceeded(problem, archive=self.archive)
        order = sorted(range(len(keys)), key=keys.__getitem__)
        if len(set(keys)) < len(keys):
            order = _without_repeated(order, keys)
            self.repeated = len(keys) - len(order)
        self._keys = [keys[number] for number in order]
        self.starts = array(self.numbers, [starts[number] for number in order])

    def place_records(self) -> None:
        """Give every record that can be shown a directory, and bring the records in order of these."""
        places, left_out = [], []
        path, here = b"", ROOT
        trail: list[bytes] = []
        numbers = [ROOT]
        showable, may_be_dots = _SHOWABLE.fullmatch, _MAY_BE_DOTS.search
        for number, key in enumerate(self._keys):
            if not showable(key) or (b"xz--" in key and may_be_dots(key) and _has_dots(key)):
                left_out.append(number)
                places.append(-1)
                continue
            slash = key.rfind(b"/")
            directory = key[:slash] if slash >= 0 else b""
            if directory != path:
                here = self._enter(directory, self.starts[number], trail, numbers)
                path = directory
            places.append(here)
        self._keys = []
        self._arrange(places, left_out)

    def _enter(self, path: bytes, start: int, trail: list[bytes], numbers: list[int]) -> int:
        """The directory of an encoded *path*.  Keys are in order, so each is entered once: *trail* is where we are."""
        names = path.split(b"/") if path else []
        same = 0
        while same < len(trail) and same < len(names) and trail[same] == names[same]:
            same += 1
        at = start + sum(map(len, names[:same])) + same
        del trail[same:], numbers[same + 1 :]
        for name in names[same:]:
            trail.append(name)
            numbers.append(self._directory(numbers[-1], name, at))
            at += len(name) + 1
        return numbers[-1]

    def _directory(self, parent: int, name: bytes, at: int) -> int:
        """The number of the directory *name* in *parent*: an old one where the decoded name is known."""
        text = name.decode("ascii")
        number = self._merged.setdefault((parent, decoded_name(text)), len(self.parents))
        if number == len(self.parents):
            if number > DIRECTORIES_ALLOWANCE + len(self.data) // DIRECTORY_BYTES:
                raise LimitExceeded(f"its manifest names more than {number} directories", archive=self.archive)
            self.parents.append(parent)
            self.components.append(at)
            self.component_lengths.append(len(name))
        elif name < self._component(number):
            self.components[number] = at
            self.component_lengths[number] = len(name)
        return number

    def _component(self, number: int) -> bytes:
        at = self.components[number]
        return self.data[at : at + self.component_lengths[number]].lower()

    def _arrange(self, places: list[int], left_out: list[int]) -> None:
        """Bring the records in order of their directories, those left out last."""
        self._merged = {}
        self.shown = len(places) - len(left_out)
        order: Iterable[int] = sorted(range(len(places)), key=places.__getitem__)
        order = [*list(order)[len(left_out) :], *left_out]
        starts = self.starts
        self.starts = array(self.numbers, [starts[number] for number in order])
        self.files = _boundaries(places, len(self.parents))

    def children(self) -> tuple[array[int], array[int]]:
        """The directories in order of their parents, and where each one's children begin there."""
        parents = self.parents
        children = array("I", sorted(range(1, len(parents)), key=parents.__getitem__))
        return children, _boundaries(parents[1:], len(parents))


def _without_repeated(order: list[int], keys: list[bytes]) -> list[int]:
    """*order* without the records whose key an earlier line has; equal keys stand together, the earliest first."""
    return [number for at, number in enumerate(order) if not at or keys[number] != keys[order[at - 1]]]


def _has_dots(key: bytes) -> bool:
    names = _MAY_BE_DOTS.findall(key)
    return any(decoded_name(name.decode("ascii")) in (".", "..") for name in names)


def _boundaries(places: Iterable[int], count: int) -> array[int]:
    """Where each of *count* places begins when things are put in order of their places, and where the last ends."""
    counts = Counter(places)
    return array("I", accumulate((counts[place] for place in range(count)), initial=0))
