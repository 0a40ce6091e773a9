"""The variable-length integers of centidb: unsigned, 64 bits, ordered as their bytes are.  Pure functions.

The first byte tells the length.  Longer forms than needed are read, never written (specification §2).
"""

from __future__ import annotations

from archivefs.errors import CorruptMember

MAX_VARINT = 2**64 - 1


def encode(value: int) -> bytes:
    """The shortest form of *value*; raises ValueError outside 0 … 2**64-1."""
    if not 0 <= value <= MAX_VARINT:
        raise ValueError(f"{value} does not fit in 64 bits")
    if value <= 240:
        return bytes((value,))
    if value <= 2287:
        high, low = divmod(value - 240, 256)
        return bytes((241 + high, low))
    if value <= 67823:
        return b"\xf9" + (value - 2288).to_bytes(2, "big")
    size = max(3, (value.bit_length() + 7) // 8)
    return bytes((0xF7 + size,)) + value.to_bytes(size, "big")


def decode(data: bytes, at: int) -> tuple[int, int]:
    """The value at *at* and where the next thing begins; raises CorruptMember when it is cut off."""
    if at >= len(data):
        raise CorruptMember("a number is missing")
    first = data[at]
    if first <= 0xF0:
        return first, at + 1
    size = 1 if first <= 0xF8 else first - 0xF7
    body = data[at + 1 : at + 1 + size]
    if len(body) != size:
        raise CorruptMember("a number is cut off")
    value = int.from_bytes(body, "big")
    if first <= 0xF8:
        value += 240 + 256 * (first - 0xF1)
    elif first == 0xF9:
        value += 2288
    return value, at + 1 + size


def length(value: int) -> int:
    """How long the shortest form is."""
    if value <= 240:
        return 1
    if value <= 2287:
        return 2
    return 3 if value <= 67823 else 1 + max(3, (value.bit_length() + 7) // 8)
