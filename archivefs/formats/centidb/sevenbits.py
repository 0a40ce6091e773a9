"""Strings in keys: groups of seven bits, each in a byte whose eighth bit is set.  Pure functions.

Specification §3.3.  Eight groups are seven bytes, so the work is done on all blocks of eight at once, in three steps on
one large number: pairs of groups are moved together, then pairs of pairs, then those.  Every step is linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from archivefs.errors import CorruptMember

_MARKED = bytes(byte | 0x80 for byte in range(256))
_STEPS = (
    (b"\x7f\x00" * 4, b"\x00\x7f" * 4, 1),
    (b"\x3f\xff\x00\x00" * 2, b"\x00\x00\x3f\xff" * 2, 2),
    (b"\x0f\xff\xff\xff\x00\x00\x00\x00", b"\x00\x00\x00\x00\x0f\xff\xff\xff", 4),
)
"""The bits of the left halves and of the right ones, and how many bits lie between the two."""
SHORT = 128
"""Groups of a string that is worth remembering; longer ones are mostly values, and would fill the memory."""


def grouped(data: bytes) -> bytes:
    """The groups of some bytes; the last one is padded with zeros."""
    size = len(data)
    blocks = -(-size // 7)
    spread = bytearray(8 * blocks)
    padded = data.ljust(7 * blocks, b"\0")
    for at in range(7):
        spread[at + 1 :: 8] = padded[at::7]
    number = int.from_bytes(spread, "big")
    for left, right, gap in reversed(_masks(blocks)):
        number = (number & (left >> gap)) << gap | number & right
    return number.to_bytes(8 * blocks, "big").translate(_MARKED)[: -(-8 * size // 7)]


def ungrouped(groups: bytes) -> tuple[bytes, bool]:
    """The bytes of some groups, and whether the padding is of zeros; raises CorruptMember.

    The eighth bits do not count.
    """
    return _remembered(groups) if len(groups) <= SHORT else _ungrouped(groups)


def _ungrouped(groups: bytes) -> tuple[bytes, bool]:
    count = len(groups)
    if count % 8 == 1 and groups != b"\x00":
        raise CorruptMember("a string has a group of bits too many")
    blocks = -(-count // 8)
    number = int.from_bytes(groups.ljust(8 * blocks, b"\0"), "big")
    for left, right, gap in _masks(blocks):
        number = (number & left) >> gap | number & right
    packed = bytearray(number.to_bytes(8 * blocks, "big"))
    del packed[::8]
    size = 7 * count // 8
    return bytes(packed[:size]), not any(packed[size:])


_remembered = lru_cache(maxsize=4096)(_ungrouped)  # the first elements of neighbours are mostly the same


def _masks(blocks: int) -> Sequence[tuple[int, int, int]]:
    return _SHORT_MASKS[blocks] if blocks < len(_SHORT_MASKS) else _made_masks(blocks)


def _made_masks(blocks: int) -> list[tuple[int, int, int]]:
    steps = (
        (int.from_bytes(left * blocks, "big"), int.from_bytes(right * blocks, "big"), gap)
        for left, right, gap in _STEPS
    )
    return list(steps)


_SHORT_MASKS = [_made_masks(blocks) for blocks in range(SHORT // 8 + 1)]
