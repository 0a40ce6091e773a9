"""Batches: several records in one physical entry, in either form.  Pure functions on bytes.

Specification §4.2 (the first form: all keys in the physical key, in reverse) and §4.3 (the second: the highest and
the lowest).  The members of a damaged batch are listed as far as its key tells them; reading one says what is wrong.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cached_property

from archivefs.errors import ArchiveError, CorruptMember, NotPermitted
from archivefs.formats.centidb import keys, packers, varints
from archivefs.formats.centidb.dialects import Dialect
from archivefs.formats.centidb.packers import Packed, Packing, Unpacked

MAX_BLOCK = 0xFFFF
"""The second form counts in 16 bits."""


@dataclass(frozen=True)
class Rewritten:
    """A batch after a change: what to store instead."""

    tuples: tuple[bytes, ...]
    """In the order of the physical key; one of them is a single record."""
    value: bytes


class Batch:
    """A batch as it is stored.  Immutable but for what is unpacked when first needed."""

    members: Sequence[bytes]
    """The encoded keys, in the order of the members."""
    lengths: Sequence[int]
    """The sizes of their data; nothing when they are not known."""
    problem: str = ""
    """Why nothing can be read."""
    warnings: Sequence[str] = ()
    packer: int = packers.PLAIN
    """The number of the packer of its data, for what is taken out of it."""

    def read(self, index: int) -> bytes:
        """The data of a member; raises CorruptMember or LimitExceeded."""
        raise NotImplementedError

    def without(self, dropped: Container[int]) -> Rewritten | None:
        """What to store when some members go; None if nothing is left.  Raises what `read` raises, NotPermitted."""
        raise NotImplementedError

    @property
    def weight(self) -> int:
        """About what it takes in memory once it was read."""
        return 200 + sum(self.lengths) + 150 * len(self.members)


def open_batch(
    tuples: Sequence[bytes], value: bytes, *, dialect: Dialect, encodings: Container[int], limit: int
) -> Batch:
    """The batch of a physical key of at least two encoded tuples and its value, which is not empty."""
    if not dialect.numbered and len(tuples) == 2:
        for zipped in (False, True):
            block = _block(value, zipped=zipped)
            if block is not None and _is_second_form(block):
                return SecondForm(tuples[0], tuples[1], block, zipped, dialect)
    return FirstForm(tuples, value, dialect=dialect, encodings=encodings, limit=limit)


# -- the first form --


class FirstForm(Batch):
    """All keys in the physical key; lengths, then one packed run of data."""

    def __init__(
        self, tuples: Sequence[bytes], value: bytes, *, dialect: Dialect, encodings: Container[int], limit: int
    ) -> None:
        self.members = tuple(reversed(tuples))
        self.lengths = ()
        self._dialect = dialect
        self._limit = limit
        self._packed: Packed | None = None
        try:
            self.lengths, start = self._header(value)
            self._packed = self._run(value, start, encodings)
            self.packer = self._packed.number
        except ArchiveError as error:
            self.problem = error.problem

    def _header(self, value: bytes) -> tuple[Sequence[int], int]:
        count, at = varints.decode(value, 0)
        if count != len(self.members):
            raise CorruptMember(f"its batch says {count} members where its key has {len(self.members)}")
        lengths = []
        for _ in self.members:
            size, at = varints.decode(value, at)
            lengths.append(size)
        return lengths, at

    def _run(self, value: bytes, start: int, encodings: Container[int]) -> Packed:
        packed = packers.taken_apart(value, start, self._dialect, encodings)
        total = sum(self.lengths)
        if packed.packing is Packing.OPAQUE:
            raise CorruptMember(f"its batch is packed by number {packed.number}, which cannot be undone here")
        if not self._dialect.numbered and len(packed.data) != total:
            return Packed(packers.ZLIB, Packing.ZLIB, packed.data)
        if packed.packing is Packing.PLAIN and len(packed.data) != total:
            raise CorruptMember(f"its batch has {len(packed.data)} bytes of data where {total} are expected")
        return packed

    @cached_property
    def _data(self) -> Unpacked:
        if self._packed is None:
            raise CorruptMember(self.problem)
        data = packers.unpacked(self._packed, self._limit)
        if len(data.data) != sum(self.lengths):
            raise CorruptMember("its batch unpacks to another size than its lengths say")
        return data

    def read(self, index: int) -> bytes:
        start = sum(self.lengths[:index])
        data = self._data
        if data.warning:
            self.warnings = (data.warning,)
        return data.data[start : start + self.lengths[index]]

    def without(self, dropped: Container[int]) -> Rewritten | None:
        if self._packed is None:
            raise NotPermitted(f"its batch cannot be written anew: {self.problem}")
        number = self._packed.number
        left = [(self.members[at], self.read(at)) for at in range(len(self.members)) if at not in dropped]
        if len(left) < 2:
            return _single(left, number, self._dialect)
        run = b"".join(data for _, data in left)
        head = varints.encode(len(left)) + b"".join(varints.encode(len(data)) for _, data in left)
        if self._dialect.numbered:
            tail = packers.packed_value(run, number, self._dialect)
        else:
            tail = _zipped_unless_ambiguous(run) if number == packers.ZLIB else run
        return Rewritten(tuple(key for key, _ in reversed(left)), head + tail)


def _zipped_unless_ambiguous(run: bytes) -> bytes:
    # Without a number the size tells plain from packed, so a stream as long as its content must stay plain.
    zipped = zlib.compress(run)
    return run if len(zipped) == len(run) else zipped


def _single(left: Sequence[tuple[bytes, bytes]], number: int, dialect: Dialect) -> Rewritten | None:
    if not left:
        return None
    key, data = left[0]
    return Rewritten((key,), packers.packed_value(data, number, dialect))


# -- the second form --


def _block(value: bytes, *, zipped: bool) -> bytes | None:
    if not zipped:
        return value if len(value) <= MAX_BLOCK else None
    try:
        return packers.inflated(value, MAX_BLOCK).data
    except ArchiveError:
        return None


def _is_second_form(block: bytes) -> bool:
    offsets = _offsets(block)
    return (
        len(offsets) > 1
        and offsets[0] == 2 * len(offsets) + 4
        and offsets[-1] == len(block)
        and all(one <= two for one, two in itertools.pairwise(offsets))
    )


def _offsets(block: bytes) -> tuple[int, ...]:
    if len(block) < 2:
        return ()
    (count,) = struct.unpack_from(">H", block)
    if len(block) < 2 * count + 6:
        return ()
    return struct.unpack_from(f">{count + 1}H", block, 2)


class SecondForm(Batch):
    """The highest and the lowest key in the physical key; a block of items with the ends of their keys."""

    def __init__(self, highest: bytes, lowest: bytes, block: bytes, zipped: bool, dialect: Dialect) -> None:
        self._zipped = zipped
        self._dialect = dialect
        shared = highest[: _shared(highest, lowest)]
        items: list[tuple[bytes, bytes]] = []
        warnings: list[str] = []
        offsets = _offsets(block)
        for start, end in itertools.pairwise(offsets):
            try:
                items.append(_item(shared, block[start:end], dialect))
            except ArchiveError as error:
                warnings.append(f"an item of its batch is left out: {error.problem}")
        self.members = tuple(key for key, _ in items)
        self.lengths = tuple(len(data) for _, data in items)
        self.warnings = warnings
        self._items = items

    def read(self, index: int) -> bytes:
        return self._items[index][1]

    def without(self, dropped: Container[int]) -> Rewritten | None:
        left = [item for at, item in enumerate(self._items) if at not in dropped]
        if len(left) < 2:
            return _single(left, packers.PLAIN, self._dialect)
        highest, lowest = max(left)[0], min(left)[0]
        shared = _shared(highest, lowest)
        if any(len(key) - shared > 255 for key, _ in left):
            raise NotPermitted("its batch cannot be written anew: a key is too long")
        bodies = [bytes((len(key) - shared,)) + key[shared:] + data for key, data in left]
        block = _packed_block(bodies)
        return Rewritten((highest, lowest), zlib.compress(block) if self._zipped else block)


def _shared(one: bytes, two: bytes) -> int:
    """How many bytes both begin with."""
    pairs = zip(one, two, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(two)))


def _item(shared: bytes, item: bytes, dialect: Dialect) -> tuple[bytes, bytes]:
    if not item or len(item) < 1 + item[0]:
        raise CorruptMember("it does not fit")
    key = shared + item[1 : 1 + item[0]]
    keys.decode_tuple(key, dialect)
    return key, item[1 + item[0] :]


def _packed_block(bodies: Sequence[bytes]) -> bytes:
    offsets = [2 * len(bodies) + 6]
    for body in bodies:
        offsets.append(offsets[-1] + len(body))
    return struct.pack(f">{len(bodies) + 3}H", len(bodies), *offsets, 0) + b"".join(bodies)
