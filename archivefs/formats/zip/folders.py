"""What is in each folder of a zip, and under which names.  Flat arrays, no object per entry.

Used by ``tree.py``.  Idents: folder *d* is ``2*d + 1`` (the root is folder 0), entry *i* is ``2*i + 2``.  One array
holds ``folder << 32 | ident`` for everything, grouped by folder.  A folder's part of it is put in the order of
the shown names the first time anybody looks into it, and names that clash are told apart then:

* a folder keeps its name;
* of files of one name the first in the archive keeps it, the others get ``~2``, ``~3``, … in the archive's order
  (in which ``unzip -p`` prints them); a number whose name is taken is left out;
* ``.archivefs`` at the root is shown as ``^2Earchivefs``: the mount has a folder of that name.

Any thread may ask; the lock guards the sorting.  The arrays may be mapped from an index (``zips/index.py``); what is
put in order there stays in memory.
"""

from __future__ import annotations

import struct
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import count, islice, pairwise

from archivefs import names
from archivefs.format import Progress, no_progress
from archivefs.formats.zip.splitting import NONE, NameRules, Split
from archivefs.zips.directory import ZipDirectory

RESERVED_AT_ROOT = b".archivefs"

_ODD_NAMES, _PLAIN_NAMES = 1, 2
_IDENT_MASK = 0xFFFFFFFF
_CHECKED_AT_ONCE = 10_000
_U16 = struct.Struct("<H")
_IDENT = struct.Struct(">I")
_KEY_END = struct.Struct(">xI")
"""Ends a key to sort by: no shown name holds a NUL, so a name comes before those that begin with it."""
_PLAIN = bytes(set(range(0x20, 0x7F)) - set(b"/^\\"))
"""A backslash may be shown as it is, too, but may also be a separator."""


class Folders:
    """The folders of one archive."""

    def __init__(self, directory: ZipDirectory, encoding: str = "utf-8", progress: Progress = no_progress) -> None:
        self._directory = directory
        part = f"folders-{encoding}"
        kept = directory.index.load(part) if directory.index else None
        self._rules = NameRules(directory, encoding, kept)
        self._split = Split(self._rules, kept, progress)
        self._items = kept.numbers("items", changeable=True) if kept else _grouped(self._split)
        if not kept:
            self._keep(part)
        self._settled = bytearray(len(self._split.parents))
        self._overrides: dict[int, str] = {}
        """The names that were made up because of a clash, by ident."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._split.parents)

    @property
    def things(self) -> int:
        """How many things are listed, the root not counted."""
        return len(self._items)

    def _keep(self, part: str) -> None:
        """For the next mount: everything by folder, not yet put in order."""
        index = self._directory.index
        if index and index.worth(len(self._directory)):
            flags = array("B", [self._rules.backslashes, self._rules.unicode_paths])
            index.save(part, {**self._split.tables(), "items": self._items, "flags": flags})

    # -- asking --

    def find(self, folder: int, name: str) -> int | None:
        """The ident of what is called *name* in *folder*, or None."""
        low, high, name_at = self._settle(folder)
        at = bisect_left(self._items, name, low, high, key=name_at)
        if at < high and name_at(self._items[at]) == name:
            return self._items[at] & _IDENT_MASK
        return None

    def listing(self, folder: int, after: str | None = None) -> Iterator[tuple[int, str]]:
        """Ident and name of what is in *folder*, in order; with *after* only of what follows that name."""
        low, high, name_at = self._settle(folder)
        if after is not None:
            low = bisect_right(self._items, after, low, high, key=name_at)
        items = self._items
        for at in range(low, high):
            item = items[at]
            yield item & _IDENT_MASK, name_at(item)

    def name_of(self, ident: int) -> str:
        """What it is called; right once its folder was looked into."""
        return self._overrides.get(ident) or self._own_name(ident)

    def settled_name(self, folder: int, ident: int) -> str:
        """What a thing in *folder* is called, once names that clash were told apart."""
        self._settle(folder)
        return self.name_of(ident)

    def is_made_up(self, ident: int) -> bool:
        """Was its name made up because another thing has it?"""
        return ident in self._overrides

    def parts_of(self, folder: int) -> tuple[str, ...]:
        """The path of a folder."""
        parts = []
        while folder:
            self._settle(self._split.parents[folder])
            parts.append(self.name_of(2 * folder + 1))
            folder = self._split.parents[folder]
        return tuple(reversed(parts))

    def folder_of(self, entry: int) -> int | None:
        """The folder an entry is in; None if the entry stands for a folder itself."""
        folder = self._split.folder_of[entry]
        return None if folder == NONE else folder

    def entry_of(self, folder: int) -> int | None:
        """The entry that stands for the folder itself, if there is one."""
        entry = self._split.entries[folder]
        return None if entry == NONE else entry

    # -- names --

    def _own_name(self, ident: int) -> str:
        """Its name before clashes are looked at."""
        if ident & 1:
            folder = ident >> 1
            raw, utf8, parent = self._raw_folder(folder), bool(self._split.utf8[folder]), self._split.parents[folder]
        else:
            entry = (ident >> 1) - 1
            raw, utf8 = self._rules.leaf(entry)
            parent = self._split.folder_of[entry]
        if _is_plain(raw) and (parent or raw != RESERVED_AT_ROOT):
            return raw.decode("ascii")
        if raw == RESERVED_AT_ROOT and not parent:
            return names.hidden(raw.decode("ascii"))
        return names.escape_component(raw, "utf-8" if utf8 else self._rules.encoding)

    def _raw_folder(self, folder: int) -> bytes:
        place = self._split.places[folder]
        return self._directory.records[place : place + self._split.lengths[folder]]

    def _name_of_item(self, item: int) -> str:
        return self.name_of(item & _IDENT_MASK)

    # -- putting a folder in order --

    def _settle(self, folder: int) -> tuple[int, int, Callable[[int], str]]:
        """Where the folder's items lie, in order from now on, and how to get their names."""
        low = bisect_left(self._items, folder << 32)
        high = bisect_left(self._items, (folder + 1) << 32, low)
        if not self._settled[folder]:
            with self._lock:
                if not self._settled[folder]:
                    self._sort(folder, low, high)
        if self._settled[folder] == _ODD_NAMES:
            return low, high, self._name_of_item
        raw_at = self._raw_namer(folder)
        return low, high, lambda item: raw_at(item).decode("ascii")

    def _sort(self, folder: int, low: int, high: int) -> None:
        plain = self._plain_names(folder, low, high)
        if plain is not None and all(map(bytes.__lt__, plain, islice(plain, 1, None))):
            self._settled[folder] = _PLAIN_NAMES  # an archive is often in order already
            return
        keys = self._keys(low, high, plain) if plain else None
        self._settled[folder] = _ODD_NAMES if keys is None else _PLAIN_NAMES
        if keys is None:
            idents = [item & _IDENT_MASK for item in self._items[low:high]]
            keys = self._keys(low, high, [name.encode() for name in self._told_apart(idents)])
        base = folder << 32
        items = (base | _IDENT.unpack_from(key, len(key) - 4)[0] for key in keys or ())
        self._items[low:high] = array("Q", items)

    def _plain_names(self, folder: int, low: int, high: int) -> list[bytes] | None:
        """The names in a folder, not sorted, when every one is shown as it is; otherwise None.

        All at once, since a folder may have a million.
        """
        if self._rules.unicode_paths:
            return None
        found = list(map(self._raw_namer(folder), self._items[low:high]))
        for start in range(0, len(found), _CHECKED_AT_ONCE):
            if b"".join(found[start : start + _CHECKED_AT_ONCE]).translate(None, _PLAIN):
                return None
        lengths = set(map(len, found))
        if 0 in lengths or max(lengths, default=0) > names.MAX_NAME_BYTES or b"." in found or b".." in found:
            return None
        return None if folder == 0 and RESERVED_AT_ROOT in found else found

    def _raw_namer(self, folder: int) -> Callable[[int], bytes]:
        """The quick way from an item to its name: all names of a folder have beginnings of one length."""
        records, positions, unpack = self._directory.records, self._directory.positions, _U16.unpack_from
        skip = 46 + self._split.prefixes[folder]

        def raw_at(item: int) -> bytes:
            if item & 1:
                return self._raw_folder((item & _IDENT_MASK) >> 1)
            place = positions[((item & _IDENT_MASK) >> 1) - 1]
            return records[place + skip : place + 46 + unpack(records, place + 28)[0]]

        return raw_at

    def _keys(self, low: int, high: int, found: list[bytes]) -> list[bytes] | None:
        """Name, NUL and ident of all in a folder, sorted; None if two have one name.  Takes the list it is given."""
        for at, item in enumerate(self._items[low:high]):
            found[at] += _KEY_END.pack(item & _IDENT_MASK)
        found.sort()
        return None if any(a[:-4] == b[:-4] for a, b in pairwise(found)) else found

    def _told_apart(self, idents: list[int]) -> list[str]:
        """The names of what is in one folder, none twice."""
        shown = [self._own_name(ident) for ident in idents]
        taken = set(shown)
        if len(taken) == len(shown):
            return shown
        seen: set[str] = set()
        numbers: dict[str, int] = {}
        for at, name in enumerate(shown):
            if name in seen:
                number = numbers.get(name, 2)
                while (other := names.numbered(name, number)) in taken:
                    number += 1
                numbers[name] = number + 1
                taken.add(other)
                shown[at] = self._overrides[idents[at]] = other
            seen.add(name)
        return shown


def _grouped(split: Split) -> array[int]:
    """Everything by folder; within one folder the folders first, then the entries in the archive's order."""
    items = [parent << 32 | 2 * folder + 1 for folder, parent in enumerate(split.parents)]
    del items[0]
    items += [folder << 32 | ident for folder, ident in zip(split.folder_of, count(2, 2)) if folder != NONE]
    items.sort(key=_folder_of_item)
    return array("Q", items)


def _folder_of_item(item: int) -> int:
    return item >> 32


def _is_plain(raw: bytes) -> bool:
    """Is that what is shown, without a closer look?"""
    return 0 < len(raw) < 256 and not raw.translate(None, _PLAIN) and raw not in (b".", b"..")
