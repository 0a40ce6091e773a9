"""Every library that inflates: the same bytes, the same errors and the same limits, whichever is installed."""

from __future__ import annotations

import importlib
import random
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from archivefs.caches import ByteCache
from archivefs.errors import ArchiveError, CorruptMember
from archivefs.zips import inflating
from archivefs.zips.members import SMALL_MEMBER, open_member, read_member, stream_member
from tests.zips.forge import Forge, opened, packed

EVERY = sorted({*inflating.WHOLE, *inflating.COPIED})


@pytest.fixture(autouse=True)
def chosen_anew() -> Iterator[None]:
    """What a test has chosen is not the next one's."""
    yield
    inflating.whole_library.cache_clear()
    inflating.copied_library.cache_clear()


def choose(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Inflate with *name* alone, and in streams with what can be copied."""
    monkeypatch.setattr(inflating, "WHOLE", (name,))
    monkeypatch.setattr(inflating, "COPIED", (name,) if name in inflating.COPIED else ("zlib",))
    inflating.whole_library.cache_clear()
    inflating.copied_library.cache_clear()
    assert inflating.whole_library().__name__ == name


def page(size: int) -> bytes:
    chance = random.Random(size)
    words = [chance.randbytes(chance.randrange(2, 9)) for _ in range(200)]
    return b" ".join(chance.choices(words, k=size // 5))[:size]


def outcome(folder: Path, raw: bytes, data: bytes, *, size: int | None = None) -> str | bytes:
    """What a reader of that member gets: its bytes, or the words of the error."""
    forge = Forge()
    forge.add("it", data, raw=raw, central={} if size is None else {"size": size})
    directory = opened(folder, forge.end())
    try:
        return read_member(directory, 0, ByteCache(), limit=SMALL_MEMBER)
    except ArchiveError as error:
        return f"{type(error).__name__} {error.code} {error.problem}"
    finally:
        directory.close()


@pytest.mark.parametrize("name", EVERY)
def test_what_can_be_installed_is_tested(name: str) -> None:
    assert hasattr(importlib.import_module(name), "decompressobj")


def test_streams_get_only_what_can_be_copied() -> None:
    assert all(hasattr(importlib.import_module(name).decompressobj(), "copy") for name in inflating.COPIED)


@pytest.mark.parametrize("name", EVERY)
def test_flipped_bits_and_cut_ends_are_told_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    data = page(3000)
    raw = packed(data, 8)
    chance = random.Random(5)
    damaged = [raw[: chance.randrange(len(raw))] for _ in range(20)]
    for _ in range(150):
        bad = bytearray(raw)
        bad[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        damaged.append(bytes(bad))
    choose(monkeypatch, "zlib")
    expected = [outcome(tmp_path, bad, data) for bad in damaged]
    assert sum(isinstance(told, str) for told in expected) > 100
    choose(monkeypatch, name)
    assert [outcome(tmp_path, bad, data) for bad in damaged] == expected


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("wrong", [-1000, -1, 1, 1000])
def test_more_or_less_than_declared_is_told_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, wrong: int
) -> None:
    data = page(5000)
    choose(monkeypatch, "zlib")
    expected = outcome(tmp_path, packed(data, 8), data, size=5000 + wrong)
    choose(monkeypatch, name)
    assert outcome(tmp_path, packed(data, 8), data, size=5000 + wrong) == expected
    assert isinstance(expected, str)


@pytest.mark.parametrize("name", EVERY)
def test_no_more_is_made_than_one_byte_beyond_the_declared_size(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    library = importlib.import_module(name)
    bomb = packed(bytes(50_000_000), 8)
    assert len(library.decompressobj(inflating.RAW).decompress(bomb, 1001)) <= 1001
    choose(monkeypatch, name)
    assert inflating.inflated(bomb, 1000) is None


@pytest.mark.parametrize("name", EVERY)
def test_large_members_are_read_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    choose(monkeypatch, name)
    data = page(3 * SMALL_MEMBER)
    forge = Forge()
    forge.add("it", data)
    directory = opened(tmp_path, forge.end())
    assert b"".join(stream_member(directory, 0)) == data
    reader = open_member(directory, 0, ByteCache())
    places = list(range(0, len(data), 100_000))
    random.Random(1).shuffle(places)
    assert all(reader.read_at(at, 5000) == data[at : at + 5000] for at in places)
    reader.close()
    directory.close()


@pytest.mark.parametrize("name", EVERY)
def test_a_crc_goes_on_from_the_one_before(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    choose(monkeypatch, name)
    data = page(10_000)
    assert inflating.crc32(memoryview(data)[4000:], inflating.crc32(data[:4000])) == zlib.crc32(data)


def test_without_any_of_them_the_standard_library_does_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("isal", "isal.isal_zlib", "zlib_ng", "zlib_ng.zlib_ng"):
        monkeypatch.setitem(sys.modules, module, None)
    inflating.whole_library.cache_clear()
    inflating.copied_library.cache_clear()
    assert (inflating.whole_library(), inflating.copied_library()) == (zlib, zlib)
    data = page(2000)
    assert outcome(tmp_path, packed(data, 8), data) == data
    with pytest.raises(CorruptMember):
        forge = Forge()
        forge.add("it", data, raw=packed(data, 8)[:-20])
        read_member(opened(tmp_path, forge.end()), 0, ByteCache(), limit=SMALL_MEMBER)
