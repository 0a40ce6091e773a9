"""WindowReader over a stream whose every step is counted."""

from __future__ import annotations

import random

import pytest

from archivefs.errors import CorruptMember
from archivefs.readers import PIECE_BYTES, WindowReader
from archivefs.tree import Attributes

DATA = random.Random(4).randbytes(6_000_000)
STEP = 1 << 17


class CountedStream:
    """Bytes in order; counts what all streams of one log have read."""

    weight = 100

    def __init__(self, log: list[int], position: int = 0, *, data: bytes = DATA, fails_at: int | None = None) -> None:
        self._log, self._data, self._fails_at = log, data, fails_at
        self.position = position

    def read(self, limit: int) -> bytes:
        piece = self._data[self.position : self.position + limit]
        self.position += len(piece)
        self._log.append(len(piece))
        if self._fails_at is not None and self.position > self._fails_at:
            raise CorruptMember("broken")
        return piece

    def copy(self) -> CountedStream:
        return CountedStream(self._log, self.position, data=self._data, fails_at=self._fails_at)


class EveryMegabyte:
    """Keeps a copy for each million bytes."""

    def __init__(self) -> None:
        self.kept: dict[int, CountedStream] = {}

    def keep(self, stream: CountedStream) -> None:
        self.kept.setdefault(stream.position // 1_000_000, stream.copy())

    def nearest(self, offset: int) -> CountedStream | None:
        before = [kept for kept in self.kept.values() if kept.position <= offset]
        return max(before, key=lambda kept: kept.position).copy() if before else None


def reader_of(log: list[int], **more) -> WindowReader:
    return WindowReader(lambda: CountedStream(log), Attributes(len(DATA)), **more)


def test_read_in_order_each_byte_is_made_once() -> None:
    log: list[int] = []
    reader = reader_of(log)
    assert b"".join(reader.read_at(at, STEP) for at in range(0, len(DATA), STEP)) == DATA
    assert sum(log) == len(DATA)


def test_read_in_swapped_pairs_each_byte_is_made_once() -> None:
    log: list[int] = []
    reader = reader_of(log)
    found = {}
    for at in range(0, len(DATA), 2 * STEP):
        found[at + STEP] = reader.read_at(at + STEP, STEP)
        found[at] = reader.read_at(at, STEP)
    assert b"".join(found[at] for at in sorted(found)) == DATA
    assert sum(log) == len(DATA)


def test_two_places_are_read_in_turn_without_going_back() -> None:
    log: list[int] = []
    reader = reader_of(log)
    for at in range(0, 2_000_000, STEP):
        assert reader.read_at(3_000_000 + at, 1000) == DATA[3_000_000 + at :][:1000]
        assert reader.read_at(at, 1000) == DATA[at : at + 1000]
    assert sum(log) < 2 * len(DATA)


def test_going_back_takes_the_nearest_point() -> None:
    log: list[int] = []
    reader = reader_of(log, points=EveryMegabyte())
    assert reader.read_at(len(DATA) - 1, 1) == DATA[-1:]
    for offset in (2_345_678, 500_000, 5_999_000, 4_000_000):
        log.clear()
        assert reader.read_at(offset, 1000) == DATA[offset : offset + 1000]
        assert sum(log) <= 1_000_000 + 2 * PIECE_BYTES, offset


def test_going_far_forward_takes_a_point_as_well() -> None:
    log: list[int] = []
    points = EveryMegabyte()
    reader_of([], points=points).read_at(len(DATA) - 1, 1)
    reader = reader_of(log, points=points)
    reader.read_at(0, 10)
    log.clear()
    assert reader.read_at(5_500_000, 10) == DATA[5_500_000:5_500_010]
    assert sum(log) <= 1_000_000 + PIECE_BYTES


def test_a_read_larger_than_the_window() -> None:
    reader = reader_of([], window=1000)
    assert reader.read_at(1_000_000, 3_000_000) == DATA[1_000_000:4_000_000]
    assert reader.read_at(0, len(DATA) + 1) == DATA


def test_after_an_error_what_is_right_can_still_be_read() -> None:
    log: list[int] = []
    reader = WindowReader(lambda: CountedStream(log, fails_at=3_000_000), Attributes(len(DATA)))
    for _ in range(2):
        with pytest.raises(CorruptMember, match="broken"):
            reader.read_at(4_000_000, 10)
        assert reader.read_at(1_000_000, 10) == DATA[1_000_000:1_000_010]


def test_a_stream_that_ends_early_is_an_error_not_a_short_read() -> None:
    reader = WindowReader(lambda: CountedStream([], data=DATA[:1000]), Attributes(2000))
    assert reader.read_at(0, 1000) == DATA[:1000]
    with pytest.raises(CorruptMember, match="end after 1000 bytes"):
        reader.read_at(0, 2000)


def test_closing_lets_go_once() -> None:
    released: list[bool] = []
    reader = reader_of([], release=lambda: released.append(True))
    reader.read_at(0, 10)
    reader.close()
    assert released == [True]
    with pytest.raises(CorruptMember, match="closed"):
        reader.read_at(5_000_000, 10)
