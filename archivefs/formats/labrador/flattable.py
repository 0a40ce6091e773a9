"""A hash table in one flat array: eight bytes for each text, and no Python object.

What is kept is, for each text, some bits of its hash and its number; whoever asks compares the text itself.
Python's own hash is used, which differs from run to run: nobody can make an archive whose texts collide.
A table never changes once it is made, so any thread may ask it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

_NUMBER_BITS = 28
MAX_NUMBERS = 1 << _NUMBER_BITS
"""How many texts a table can hold."""
_NUMBERS = MAX_NUMBERS - 1
_HASHES = ((1 << 64) - 1) ^ _NUMBERS


class FlatTable:
    """Texts, numbered from 0 as they come."""

    __slots__ = ("_slots",)

    def __init__(self, texts: Iterable[str | bytes | None]) -> None:
        self._slots = array("Q", sorted([_slot(text) | number for number, text in enumerate(texts)]))

    def __len__(self) -> int:
        return len(self._slots)

    def candidates(self, text: str | bytes) -> Iterator[int]:
        """The numbers of the texts that may be *text*, lowest first."""
        slots = self._slots
        wanted = _slot(text)
        at = bisect_left(slots, wanted)
        while at < len(slots) and slots[at] & _HASHES == wanted:
            yield slots[at] & _NUMBERS
            at += 1

    def groups(self) -> Iterator[list[int]]:
        """The numbers of texts that may be equal, two or more at a time, lowest first."""
        group: list[int] = []
        last = -1
        for slot in self._slots:
            if slot & _HASHES != last:
                if len(group) > 1:
                    yield group
                group, last = [], slot & _HASHES
            group.append(slot & _NUMBERS)
        if len(group) > 1:
            yield group


def _slot(text: str | bytes | None) -> int:
    return hash(text) << _NUMBER_BITS & _HASHES
