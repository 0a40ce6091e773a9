"""The rules for the keys of a manifest among each other: no two files, no file and directory, at one place.

Texts are compared through flat tables of hashes and made again where hashes agree, so that a manifest of
millions of records needs no Python object for each.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from archivefs.format import Finding
from archivefs.formats.labrador import bitsy
from archivefs.formats.labrador.bitsy import BitsyError
from archivefs.formats.labrador.findings import error, line
from archivefs.formats.labrador.flattable import FlatTable
from archivefs.formats.labrador.keys import is_index, is_plain, normalize
from archivefs.formats.labrador.keyvalue import KEY, LINE

MAX_TRAIL = 4096
"""The directories of longer keys are not compared with files: such keys are wrong anyway, and it would take hours."""


def findings(data: bytes) -> Iterator[Finding]:
    """The keys that are in each other's way."""
    rules = _Keys(data)
    yield from rules.same_files()
    yield from rules.same_urls()
    yield from rules.directories()


class _Keys:
    """All keys of a manifest, in the order of its lines, repeated ones included."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._starts: array[int] = array("Q")
        self._lines = array("I")
        for number, found in enumerate(LINE.finditer(data), 1):
            if found[KEY] is not None:
                self._starts.append(found.start(KEY))
                self._lines.append(number)
        numbers = range(len(self._starts))
        self._normalized = FlatTable(normalize(self._key(number)) for number in numbers)
        self._urls = FlatTable(url_path(self._key(number)) for number in numbers)

    def _key(self, number: int) -> str:
        start = self._starts[number]
        return self._data[start : self._data.index(b" ", start)].decode("ascii").lower()

    def _where(self, number: int) -> str:
        return line("manifest", self._lines[number])

    def same_files(self) -> Iterator[Finding]:
        """Keys with the same normalization."""
        for group in self._normalized.groups():
            first: dict[str, int] = {}
            for number in group:
                earlier = first.setdefault(normalize(self._key(number)), number)
                if earlier != number:
                    message = f"{self._key(number)} is the same file as line {self._lines[earlier]}"
                    yield error("file-uniqueness", self._where(number), message)

    def same_urls(self) -> Iterator[Finding]:
        """Keys with the same URL path, but different normalizations."""
        for group in self._urls.groups():
            known: dict[str, set[str]] = {}
            for number in group:
                key = self._key(number)
                url = url_path(key)
                if url is None:
                    continue
                normalizations = known.setdefault(url, set())
                if normalizations and normalize(key) not in normalizations:
                    yield error("decoded-collision", self._where(number), f"{key} has the same URL as another record")
                normalizations.add(normalize(key))

    def directories(self) -> Iterator[Finding]:
        """Files where others have a directory.  Keys in order: a directory is looked at when it is first met."""
        keys = [self._key(number) for number in range(len(self._starts))]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        before: list[str] = []
        for number in order:
            names = keys[number].split("/")[:-1] if len(keys[number]) <= MAX_TRAIL else []
            same = 0
            while same < min(len(before), len(names)) and before[same] == names[same]:
                same += 1
            for length in range(same + 1, len(names) + 1):
                yield from self._directory("/".join(names[:length]), number)
            before = names

    def _directory(self, directory: str, number: int) -> Iterator[Finding]:
        normalized = normalize(directory)
        for other in self._normalized.candidates(normalized):
            if normalize(self._key(other)) == normalized:
                message = f"{self._key(other)} is a directory of line {self._lines[number]}"
                yield error("directory-uniqueness", self._where(other), message)
        url = url_path(directory, is_directory=True)
        for other in self._urls.candidates(url) if url is not None else ():
            key = self._key(other)
            if url_path(key) == url and normalize(key) != normalized:
                message = f"{key} has the URL of a directory of line {self._lines[number]}"
                yield error("decoded-collision", self._where(other), message)


def url_path(key: str, *, is_directory: bool = False) -> str | None:
    """The URL path of a lower-cased key, or None if it cannot be decoded; a directory's without the "/" at its end."""
    if is_plain(key):
        return key
    names = key.split("/")
    index = not is_directory and is_index(names[-1])
    try:
        decoded = [bitsy.decode(name) for name in (names[:-1] if index else names)]
    except BitsyError:
        return None
    return "/".join([*decoded, ""] if index else decoded)
