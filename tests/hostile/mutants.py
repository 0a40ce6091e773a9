"""Damages a zip in one of many ways.  The same seed gives the same damage."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

EDGES = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF)
RECORD_FIELDS = {4: 2, 8: 2, 10: 2, 12: 4, 16: 4, 20: 4, 24: 4, 28: 2, 30: 2, 32: 2, 34: 2, 38: 4, 42: 4}
LOCAL_FIELDS = {6: 2, 8: 2, 14: 4, 18: 4, 22: 4, 26: 2, 28: 2}
END_FIELDS = {4: 2, 6: 2, 8: 2, 10: 2, 12: 4, 16: 4, 20: 2}


def mutants(data: bytes, *, seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """What was done, and the damaged zip."""
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")
        damage = chance.choice(DAMAGES)
        mutant = bytearray(data)
        damage(chance, mutant)
        yield f"{number} {damage.__name__}", bytes(mutant)


def records(data: bytes) -> list[int]:
    """Where the records of the central directory begin."""
    end = data.rindex(b"PK\5\6")
    at = struct.unpack_from("<I", data, end + 16)[0]
    found = []
    while data[at : at + 4] == b"PK\1\2":
        found.append(at)
        at += 46 + sum(struct.unpack_from("<HHH", data, at + 28))
    return found


def _set_field(chance: random.Random, data: bytearray, at: int, fields: dict[int, int]) -> None:
    offset, width = chance.choice(sorted(fields.items()))
    old = int.from_bytes(data[at + offset : at + offset + width], "little")
    new = chance.choice([*EDGES, old + 1, old - 1, old * 2, chance.getrandbits(8 * width), len(data)])
    data[at + offset : at + offset + width] = (new % (1 << 8 * width)).to_bytes(width, "little")


def a_field_of_a_record(chance: random.Random, data: bytearray) -> None:
    _set_field(chance, data, chance.choice(records(data)), RECORD_FIELDS)


def a_field_of_a_local_header(chance: random.Random, data: bytearray) -> None:
    at = struct.unpack_from("<I", data, chance.choice(records(data)) + 42)[0]
    _set_field(chance, data, at, LOCAL_FIELDS)


def a_field_of_the_end(chance: random.Random, data: bytearray) -> None:
    _set_field(chance, data, data.rindex(b"PK\5\6"), END_FIELDS)


def a_byte_of_a_name(chance: random.Random, data: bytearray) -> None:
    at = chance.choice(records(data))
    length = struct.unpack_from("<H", data, at + 28)[0]
    data[at + 46 + chance.randrange(length)] = chance.choice(b"/\\.\0\n^~\xff")


def two_offsets_swapped(chance: random.Random, data: bytearray) -> None:
    one, two = (at + 42 for at in chance.sample(records(data), 2))
    data[one : one + 4], data[two : two + 4] = data[two : two + 4], data[one : one + 4]


def a_record_left_out_or_twice(chance: random.Random, data: bytearray) -> None:
    starts = [*records(data), data.rindex(b"PK\5\6")]
    number = chance.randrange(len(starts) - 1)
    record = bytes(data[starts[number] : starts[number + 1]])
    data[starts[number] : starts[number + 1]] = chance.choice([b"", record * 2])


def bits(chance: random.Random, data: bytearray) -> None:
    for _ in range(chance.choice([1, 1, 2, 30])):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def cut_off(chance: random.Random, data: bytearray) -> None:
    del data[chance.choice([chance.randrange(len(data)), len(data) - chance.randrange(1, 30)]) :]


def a_stretch(chance: random.Random, data: bytearray) -> None:
    at, length = chance.randrange(len(data)), chance.choice([1, 4, 50, 1000])
    new = chance.choice([b"", bytes(length), chance.randbytes(length), bytes(data[at : at + length]) * 2])
    data[at : at + length] = new


def something_around(chance: random.Random, data: bytearray) -> None:
    if chance.random() < 0.5:
        data[:0] = chance.randbytes(chance.choice([1, 500]))
    else:
        data += chance.randbytes(chance.choice([1, 22, 500, 70_000]))


DAMAGES = (
    a_field_of_a_record,
    a_field_of_a_record,
    a_field_of_a_local_header,
    a_field_of_the_end,
    a_byte_of_a_name,
    two_offsets_swapped,
    a_record_left_out_or_twice,
    bits,
    cut_off,
    a_stretch,
    something_around,
)
