"""From the names of a zip's entries to folders: the rules of splitting, and one pass over all entries.

Used by ``folders.py``.  A name is split at "/", or at "\\" where a name made on a DOS or Windows system has no
"/".  Every piece but the last is a folder, and so is a name that ends in "/" and has no data; with data it is a
file with an empty name in that folder.  The result is flat arrays that hold positions in the directory's bytes;
the tables of names live only while they are made.  Nothing recurses: a path may have thousands of levels.
"""

from __future__ import annotations

import struct
import zlib
from array import array

from archivefs.errors import UnreadableArchive
from archivefs.format import Progress, no_progress
from archivefs.names import splits_at_backslash
from archivefs.zips import extra
from archivefs.zips.directory import ZipDirectory
from archivefs.zips.index import Sections

NONE = 0xFFFFFFFF
"""In an array of entries or folders: there is none."""
SPARE_FOLDERS = 1_000_000
"""One name of 64 KiB can ask for 32767 folders.  Allowed are four for each entry, and this many more."""

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_UTF8_FLAG = 0x08
"""Bit 11, in the upper byte of the flags."""
_PROGRESS_STEP = 1 << 15
_TABLES = ("parents", "places", "lengths", "prefixes", "utf8", "entries", "folder_of")
_DOS_HOSTS = frozenset({0, 6, 10, 11, 14})


class NameRules:
    """Where an entry's name stands, what its last piece is, and how it is encoded."""

    def __init__(self, directory: ZipDirectory, encoding: str, kept: Sections | None = None) -> None:
        self.directory = directory
        self.encoding = encoding
        self.one_encoding = encoding == "utf-8"
        """Then names with and without the UTF-8 flag mean the same."""
        self.backslashes = False
        self.unicode_paths = False
        """Was there an entry whose name stands in an extra field?  Known after the first pass."""
        if kept:
            self.backslashes, self.unicode_paths = map(bool, kept.numbers("flags"))
        elif splits_at_backslash(encoding):
            self.backslashes = directory.records.find(b"\\") >= 0

    def span(self, entry: int) -> tuple[int, int, bool]:
        """Where the name stands in the directory's bytes, and whether it says that it is UTF-8."""
        directory = self.directory
        place = directory.positions[entry]
        start, end = place + 46, place + 46 + _U16.unpack_from(directory.records, place + 28)[0]
        if directory.records[place + 9] & _UTF8_FLAG:
            return start, end, True
        name = directory.records[start:end]
        if name.isascii():
            return start, end, False
        better = unicode_path(name, directory.extra(entry))
        if better is None:
            return start, end, False
        self.unicode_paths = True
        start = directory.records.find(better, end)
        return start, start + len(better), True

    def leaf(self, entry: int) -> tuple[bytes, bool]:
        """The last piece of the name, and whether it says that it is UTF-8."""
        records = self.directory.records
        if self.unicode_paths:
            start, end, utf8 = self.span(entry)
        else:
            place = self.directory.positions[entry]
            start, end = place + 46, place + 46 + _U16.unpack_from(records, place + 28)[0]
            utf8 = bool(records[place + 9] & _UTF8_FLAG)
        cut = records.rfind(b"/", start, end)
        if cut < 0 and self.backslashes and self.made_on_dos(entry):
            cut = records.rfind(b"\\", start, end)
        return records[cut + 1 if cut >= 0 else start : end], utf8

    def made_on_dos(self, entry: int) -> bool:
        """Did its maker write backslashes for slashes?"""
        return self.directory.made_by(entry) >> 8 in _DOS_HOSTS


def unicode_path(name: bytes, extra_block: bytes) -> bytes | None:
    """The name in a Unicode Path field (APPNOTE 4.6.9): only one that belongs to *name* and is UTF-8."""
    for number, data in extra.fields(extra_block):
        if number == extra.UNICODE_PATH and len(data) > 5 and data[0] == 1:
            if _U32.unpack_from(data, 1)[0] != zlib.crc32(name):
                return None
            try:
                data[5:].decode("utf-8")
            except UnicodeDecodeError:
                return None
            return data[5:]
    return None


class Split:
    """The folders of an archive as arrays: folder 0 is the root."""

    def __init__(self, rules: NameRules, kept: Sections | None = None, progress: Progress = no_progress) -> None:
        self.parents = array("I", [0])
        self.places = array("I", [0])
        """Where a folder's own name stands in the directory's bytes."""
        self.lengths = array("H", [0])
        self.prefixes = array("I", [0])
        """How many bytes of a name come before what is in the folder."""
        self.utf8 = array("B", [0])
        self.entries = array("I", [NONE])
        """The entry that stands for a folder itself, or NONE."""
        self.folder_of = array("I")
        """For each entry its folder, or NONE if it stands for a folder."""
        if kept:
            for name in _TABLES:
                setattr(self, name, kept.numbers(name))
        else:
            self._fill(rules, progress)

    def tables(self) -> dict[str, array[int]]:
        """What is to be kept."""
        return {name: getattr(self, name) for name in _TABLES}

    def _fill(self, rules: NameRules, progress: Progress) -> None:
        records, positions = rules.directory.records, rules.directory.positions
        maker = _FolderMaker(self, rules)
        known = maker.known.get
        add, unpack = self.folder_of.append, _U16.unpack_from
        simple, one_encoding = not rules.backslashes, rules.one_encoding
        for entry, place in enumerate(positions):
            if not entry % _PROGRESS_STEP:
                progress(entry, len(positions))
            name = records[place + 46 : place + 46 + unpack(records, place + 28)[0]]
            cut = name.rfind(b"/") + 1
            folder = None
            # the quick way for what most names are; everything else is worked out one by one
            if (cut or simple) and (name.isascii() or (one_encoding and records[place + 9] & _UTF8_FLAG)):
                folder = known(name[:cut]) if cut != len(name) or not cut else None
            add(maker.folder_for(entry) if folder is None else folder)


class _FolderMaker:
    """Makes folders as names ask for them."""

    def __init__(self, split: Split, rules: NameRules) -> None:
        self.known: dict[bytes, int] = {b"": 0}
        """Folders by the beginnings of names met so far; only where a name was met: a deep path has too many."""
        self._known_utf8: dict[bytes, int] = {b"": 0}
        self._split = split
        self._rules = rules
        self._records = rules.directory.records
        self._children: dict[bytes, int] = {}
        self._most = SPARE_FOLDERS + 4 * len(rules.directory)

    def folder_for(self, entry: int) -> int:
        """The folder of an entry, or NONE if the entry stands for a folder."""
        rules = self._rules
        start, end, utf8 = rules.span(entry)
        name = self._records[start:end]
        if rules.backslashes and b"/" not in name and rules.made_on_dos(entry):
            name = name.replace(b"\\", b"/")
        cut = name.rfind(b"/") + 1
        folder = self._folder(name[:cut], start, utf8 and not rules.one_encoding)
        if not cut or cut < len(name) or rules.directory.size(entry):
            return folder
        if self._split.entries[folder] == NONE:
            self._split.entries[folder] = entry
        return NONE

    def _folder(self, prefix: bytes, start: int, utf8: bool) -> int:
        """The folder for a beginning that ends in "/"; *start* is where it stands in the directory's bytes."""
        known = self._known_utf8 if utf8 else self.known
        folder = known.get(prefix)
        if folder is None:
            up = prefix.rfind(b"/", 0, len(prefix) - 1) + 1
            parent = known.get(prefix[:up])
            if parent is None:
                parent = self._walk(prefix[:up], start, utf8)
            folder = known[prefix] = self._child(parent, start + up, len(prefix) - 1 - up, utf8)
        return folder

    def _walk(self, prefix: bytes, start: int, utf8: bool) -> int:
        folder, at = 0, 0
        while at < len(prefix):
            cut = prefix.index(b"/", at)
            folder = self._child(folder, start + at, cut - at, utf8)
            at = cut + 1
        return folder

    def _child(self, parent: int, place: int, length: int, utf8: bool) -> int:
        raw = self._records[place : place + length]
        utf8 = utf8 and not raw.isascii()
        key = b"%d/%d/%b" % (parent, utf8, raw)
        folder = self._children.get(key)
        if folder is None:
            folder = self._children[key] = self._add(parent, place, length, utf8)
        return folder

    def _add(self, parent: int, place: int, length: int, utf8: bool) -> int:
        split = self._split
        folder = len(split.parents)
        if folder >= self._most:
            raise UnreadableArchive("its names ask for too many folders", archive=self._rules.directory.path)
        split.parents.append(parent)
        split.places.append(place)
        split.lengths.append(length)
        split.prefixes.append(split.prefixes[parent] + length + 1)
        split.utf8.append(utf8)
        split.entries.append(NONE)
        return folder
