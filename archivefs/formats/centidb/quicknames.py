"""Readable names straight from the bytes of keys, for listings of millions: nothing is decoded that need not be.

Elements are told apart by one regular expression and named one by one; what is not a number is mostly the same in
neighbours, so its name is remembered.  Where a key is not written as we would, or not at all, nothing is said, and
``keys.py`` is to be asked.  Any thread may ask.
"""

from __future__ import annotations

import re
from functools import lru_cache

from archivefs.errors import CorruptMember
from archivefs.formats.centidb import keynames, keys
from archivefs.formats.centidb.dialects import Dialect
from archivefs.formats.centidb.places import Named

REMEMBERED = 4096
SHORT = 128
"""Bytes of an element whose name is worth remembering."""
_VARINT = rb"(?:[\x00-\xf0]|[\xf1-\xf8].|\xf9..|\xfa.{3}|\xfb.{4}|\xfc.{5}|\xfd.{6}|\xfe.{7}|\xff.{8})"
_INVERTED = rb"(?:[\x0f-\xff]|[\x07-\x0e].|\x06..|\x05.{3}|\x04.{4}|\x03.{5}|\x02.{6}|\x01.{7}|\x00.{8})"
_LONGER = "it is not written in the shortest way"
_FORMS = [
    *((first, first) for first in range(0xF1)),
    *((240 + 256 * (first - 0xF1), 241) for first in range(0xF1, 0xF9)),
    (2288, 2288),
    (0, 67824),
    *((0, 1 << 8 * size) for size in range(3, 8)),
]
"""By the first byte of a number: what is added to the others, and the least number that is written so."""
_WIDTHS = [f"P{chr(96 + width)}" for width in range(21)]


class QuickNames:
    """Names in one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        string = rb"[\x80-\xff]*" if dialect.open_strings else rb"[\x80-\xff]*[\x00-\x7f]"
        negative = _INVERTED if dialect.inverted else _VARINT
        element = rb"[\x15\x1e\x5c]%b|[\x28\x32]%b|[\x0f\x66]|[\x14\x5b]%b|\x5a.{16}" % (_VARINT, string, negative)
        self._pieces = re.compile(element, re.DOTALL).findall
        """Elements, and the separators between tuples."""
        self._remembered = lru_cache(maxsize=REMEMBERED)(self._named)

    def name(self, data: bytes) -> str | None:
        """The whole readable name of one encoded tuple; None where it is to be found out the long way."""
        pieces = self._pieces(data)
        if not pieces or b"".join(pieces) != data:
            return None
        try:
            return ",".join(map(self._shown, pieces))
        except CorruptMember:
            return None

    def tuples(self, data: bytes) -> list[Named]:
        """The tuples of a key that are all written as we would; none where that is not so."""
        pieces = self._pieces(data)
        if b"".join(pieces) != data:
            return []
        found: list[Named] = []
        names: list[str] = []
        start = at = 0
        try:
            for piece in pieces:
                if piece == keys.SEP:
                    found.append(Named(data[start:at], ",".join(names) or keynames.EMPTY))
                    names, start = [], at + 1
                else:
                    names.append(self._shown(piece))
                at += len(piece)
        except CorruptMember:
            return []
        return [*found, Named(data[start:], ",".join(names) or keynames.EMPTY)]

    def _shown(self, element: bytes) -> str:
        if element[0] == keys.INTEGER:
            return _number_name(element)
        return self._remembered(element) if len(element) <= SHORT else self._named(element)

    def _named(self, element: bytes) -> str:
        found = keys.decode_tuple(element, self._dialect)
        if not found.canonical:
            raise CorruptMember(_LONGER)
        return keynames.element_name(found.values[0])


def _number_name(element: bytes) -> str:
    added, least = _FORMS[element[1]]
    number = added + int.from_bytes(element[2:], "big")
    if number < least:
        raise CorruptMember(_LONGER)
    digits = str(number)
    return _WIDTHS[len(digits)] + digits
