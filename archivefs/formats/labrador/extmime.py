"""``extmime``: the MIME type of a file, from the extension of its encoded name.

A Types never changes, so any thread may ask it.  See the Labrador format, "Type declarations file".
"""

from __future__ import annotations

from archivefs.formats.labrador.bitsy import is_strict_name
from archivefs.formats.labrador.keyvalue import records

CATCH_ALL, BLANK = ".", "-"
DEFAULT_TYPE = "application/octet-stream"
MAX_BYTES = 16 << 20


def is_legal_key(key: str) -> bool:
    """May this stand in ``extmime``?"""
    return key in (CATCH_ALL, BLANK) or (key == key.lower() and is_strict_name("a." + key))


class Types:
    """The type declarations of one archive."""

    def __init__(self, data: bytes = b"") -> None:
        self._types: dict[str, str] = {}
        for _, key, value in records(data):
            if is_legal_key(key):
                self._types.setdefault(key, value)
        self._catch_all = self._types.pop(CATCH_ALL, DEFAULT_TYPE)
        self._blank = self._types.pop(BLANK, self._catch_all)

    def covers(self, name: str) -> bool:
        """Is one of the extensions of this lower-cased encoded *name* declared?"""
        at = name.find(".")
        while at >= 0 and name[at + 1 :] not in self._types:
            at = name.find(".", at + 1)
        return at >= 0

    def type_of(self, name: str) -> str:
        """The type of the file with this lower-cased encoded *name*: the longest extension counts."""
        at = name.find(".")
        if at < 0:
            return self._blank
        while at >= 0:
            found = self._types.get(name[at + 1 :])
            if found is not None:
                return found
            at = name.find(".", at + 1)
        return self._catch_all
