"""The content of members: every method, every way of reading, and every kind of damage."""

from __future__ import annotations

import os
import random
import struct
import threading
import zlib
from pathlib import Path

import pytest

from archivefs.caches import ByteCache
from archivefs.errors import ArchiveError, CorruptMember, LimitExceeded
from archivefs.readers import WindowReader
from archivefs.tree import Reader
from archivefs.zips import codecs
from archivefs.zips.directory import ZipDirectory
from archivefs.zips.members import SMALL_MEMBER, open_member, read_member, stream_member
from tests.walking import problems_of, stretches
from tests.zips.forge import BZIP2, DEFLATED, LZMA, STORED, ZSTD, Forge, opened, packed

METHODS = [
    STORED,
    DEFLATED,
    BZIP2,
    LZMA,
    pytest.param(
        ZSTD, marks=pytest.mark.skipif(codecs.zstd_library() is None, reason="no library for zstd is installed")
    ),
]


def text(size: int, seed: int = 1) -> bytes:
    """Bytes that compress, but not too well."""
    chance = random.Random(seed)
    words = [chance.randbytes(chance.randrange(2, 9)) for _ in range(300)]
    data = bytearray()
    while len(data) < size:
        data += b" ".join(chance.choices(words, k=500))
    return bytes(data[:size])


LARGE = text(2 * SMALL_MEMBER + 123_456)


def directory_of(folder: Path, data: bytes, method: int, **more) -> ZipDirectory:
    forge = Forge()
    forge.add("before", b"something before it")
    forge.add("it", data, method=method, **more)
    forge.add("after", b"something after it")
    return opened(folder, forge.end())


def read_all(reader: Reader, step: int = 1 << 17) -> bytes:
    size = reader.attributes().size
    return b"".join(reader.read_at(offset, step) for offset in range(0, size, step))


@pytest.mark.parametrize("method", METHODS)
class TestEveryMethod:
    @pytest.mark.parametrize("size", [0, 1, 100, 70_000, SMALL_MEMBER, SMALL_MEMBER + 1, len(LARGE)])
    def test_any_way_of_reading_gives_the_content(self, tmp_path: Path, method: int, size: int) -> None:
        data = LARGE[:size]
        directory = directory_of(tmp_path, data, method)
        cache = ByteCache()
        assert b"".join(stream_member(directory, 1)) == data
        assert read_member(directory, 1, cache, limit=size) == data
        reader = open_member(directory, 1, cache)
        assert reader.attributes() == (size, directory.mtime_ns(1), zlib.crc32(data))
        assert read_all(reader) == data
        for offset, length in stretches(size, seed=size):
            assert reader.read_at(offset, length) == data[offset : offset + length], (offset, length)
        reader.close()
        directory.close()

    def test_a_stream_comes_in_pieces(self, tmp_path: Path, method: int) -> None:
        directory = directory_of(tmp_path, LARGE, method)
        pieces = list(stream_member(directory, 1, 5000))
        assert max(map(len, pieces)) <= 5000
        assert b"".join(pieces) == LARGE

    @pytest.mark.parametrize("size", [2000, len(LARGE)])
    def test_a_wrong_crc_is_met_before_the_last_byte(self, tmp_path: Path, method: int, size: int) -> None:
        data = LARGE[:size]
        directory = directory_of(tmp_path, data, method, central={"crc": zlib.crc32(data) ^ 1})
        with pytest.raises(CorruptMember, match="CRC is wrong"):
            list(stream_member(directory, 1))
        with pytest.raises(CorruptMember, match="CRC is wrong"):
            read_member(directory, 1, ByteCache(), limit=size)
        reader = open_member(directory, 1, ByteCache())
        for _ in range(2):
            with pytest.raises(CorruptMember, match="CRC is wrong"):
                reader.read_at(size - 1, 1)
            with pytest.raises(CorruptMember, match="CRC is wrong"):
                read_all(reader)
        reader.close()

    def test_an_empty_member_with_a_crc_fails_when_opened(self, tmp_path: Path, method: int) -> None:
        directory = directory_of(tmp_path, b"", method, central={"crc": 1})
        with pytest.raises(CorruptMember):
            open_member(directory, 1, ByteCache())

    @pytest.mark.parametrize("size", [5000, len(LARGE)])
    @pytest.mark.parametrize("wrong", [-1, 1, 1000])
    def test_more_or_less_than_declared(self, tmp_path: Path, method: int, size: int, wrong: int) -> None:
        data = LARGE[:size]
        directory = directory_of(tmp_path, data, method, central={"size": size + wrong})
        with pytest.raises(CorruptMember):
            list(stream_member(directory, 1))
        with pytest.raises(CorruptMember):
            reader = open_member(directory, 1, ByteCache())
            assert reader.attributes().size == size + wrong
            read_all(reader)

    @pytest.mark.parametrize("size", [5000, len(LARGE)])
    def test_a_stream_that_goes_on_although_the_crc_is_right_so_far(
        self, tmp_path: Path, method: int, size: int
    ) -> None:
        told = {"size": size - 100, "crc": zlib.crc32(LARGE[: size - 100])}
        directory = directory_of(tmp_path, LARGE[:size], method, central=told)
        with pytest.raises(CorruptMember):
            list(stream_member(directory, 1))
        with pytest.raises(CorruptMember):
            read_all(open_member(directory, 1, ByteCache()))

    @pytest.mark.parametrize("size", [5000, len(LARGE)])
    def test_cut_off(self, tmp_path: Path, method: int, size: int) -> None:
        raw = packed(LARGE[:size], method)
        for share in (0, 1, 3, 50, 99):
            cut = raw[: len(raw) * share // 100]
            directory = directory_of(tmp_path, LARGE[:size], method, raw=cut)
            with pytest.raises(CorruptMember):
                read_all(open_member(directory, 1, ByteCache()))

    def test_noise_gives_an_error_of_ours(self, tmp_path: Path, method: int) -> None:
        chance = random.Random(8)
        for size in (0, 1, 10, 3000):
            directory = directory_of(tmp_path, LARGE, method, raw=chance.randbytes(size))
            with pytest.raises(ArchiveError) as caught:
                read_all(open_member(directory, 1, ByteCache()))
            assert "it" in str(caught.value)

    def test_eight_threads(self, tmp_path: Path, method: int) -> None:
        directory = directory_of(tmp_path, LARGE, method)
        cache = ByteCache()
        shared = open_member(directory, 1, cache)

        def read(number: int) -> None:
            for offset, length in stretches(len(LARGE), seed=number)[-6:]:
                assert shared.read_at(offset, length) == LARGE[offset : offset + length]

        assert problems_of(read) == []
        shared.close()
        directory.close()


class TestLimits:
    def test_an_lzma_dictionary_is_not_taken_on_trust(self, tmp_path: Path) -> None:
        header = b"\x09\x04\x05\x00" + bytes([93]) + struct.pack("<I", 0xFFFFFFFF)
        directory = directory_of(tmp_path, b"x" * 1000, LZMA, raw=header + bytes(64))
        with pytest.raises(LimitExceeded, match="LZMA dictionary of 4294967295 bytes"):
            list(stream_member(directory, 1))

    @pytest.mark.parametrize(
        "header", [b"", b"\x09\x04", b"\x09\x04\x06\x00]\0\0\1\0", b"\x09\x04\x05\x00\xff\0\0\1\0"]
    )
    def test_an_lzma_header_that_makes_no_sense(self, tmp_path: Path, header: bytes) -> None:
        directory = directory_of(tmp_path, b"x" * 1000, LZMA, raw=header)
        with pytest.raises(CorruptMember):
            list(stream_member(directory, 1))

    @pytest.mark.skipif(codecs.zstd_library() is None, reason="no library for zstd is installed")
    def test_a_zstd_window_is_not_taken_on_trust(self, tmp_path: Path) -> None:
        descriptor, window_of_4_gib = b"\x00", bytes([(32 - 10) << 3])
        frame = b"\x28\xb5\x2f\xfd" + descriptor + window_of_4_gib + b"\x01\x00\x00"
        directory = directory_of(tmp_path, b"x" * 1000, ZSTD, raw=frame)
        with pytest.raises(CorruptMember, match=r"(?i)memory|window"):
            list(stream_member(directory, 1))

    def test_bytes_after_the_compressed_data_do_no_harm(self, tmp_path: Path) -> None:
        directory = directory_of(tmp_path, LARGE, DEFLATED, raw=packed(LARGE, DEFLATED) + b"left over")
        assert read_all(open_member(directory, 1, ByteCache())) == LARGE

    def test_a_thousand_open_files_hold_nothing(self, tmp_path: Path) -> None:
        directory = directory_of(tmp_path, LARGE[:SMALL_MEMBER], DEFLATED)
        cache = ByteCache(1 << 20)  # too small for the member
        readers = [open_member(directory, 1, cache) for _ in range(100)]
        assert all(reader.read_at(5, 5) == LARGE[5:10] for reader in readers[:3])
        assert cache.status().size <= 1 << 20
        for reader in readers:
            reader.close()


class TestStored:
    def test_an_extent_only_once_it_is_known_to_be_right(self, tmp_path: Path) -> None:
        directory = directory_of(tmp_path, LARGE, STORED)
        reader = open_member(directory, 1, ByteCache())
        assert reader.extent() is None
        reader.read_at(10, 1000)
        assert reader.extent() is None
        assert reader.read_at(len(LARGE) - 1, 1) == LARGE[-1:]
        extent = reader.extent()
        assert extent is not None
        assert os.pread(extent.fd, extent.length, extent.start) == LARGE
        again = open_member(directory, 1, ByteCache())
        assert again.extent() == extent

    def test_read_in_swapped_pairs_it_is_still_checked_once(self, tmp_path: Path) -> None:
        directory = directory_of(tmp_path, LARGE, STORED)
        reads = _counted_preads(directory)
        reader = open_member(directory, 1, ByteCache())
        step = 1 << 16
        found = {}
        for offset in range(0, len(LARGE), 2 * step):
            for at in (offset + step, offset):
                found[at] = reader.read_at(at, step)
        assert b"".join(found[at] for at in sorted(found)) == LARGE
        assert directory.verified(1)
        assert sum(reads) < 2 * len(LARGE)

    def test_what_was_checked_is_not_lost_when_closed(self, tmp_path: Path) -> None:
        directory = directory_of(tmp_path, LARGE, STORED)
        cache = ByteCache()
        reader = open_member(directory, 1, cache)
        for offset in range(0, 2 << 20, 1 << 18):
            reader.read_at(offset, 1 << 18)
        reader.close()
        reads = _counted_preads(directory)
        reader = open_member(directory, 1, cache)
        assert reader.read_at(len(LARGE) - 1, 1) == LARGE[-1:]
        assert sum(reads) < 1 << 18


class TestWindow:
    def test_going_back_starts_at_a_checkpoint(self, tmp_path: Path) -> None:
        data = text(12 << 20)
        directory = directory_of(tmp_path, data, DEFLATED)
        cache = ByteCache()
        reader = open_member(directory, 1, cache)
        assert isinstance(reader, WindowReader)
        assert read_all(reader) == data
        reads = _counted_preads(directory)
        for reopened in (False, True):
            if reopened:
                reader.close()
                reader = open_member(directory, 1, cache)
            for offset in (11 << 20, 1 << 20, 6 << 20, 3_333_333):
                reads.clear()
                assert reader.read_at(offset, 1000) == data[offset : offset + 1000]
                assert sum(reads) < 3 << 20, offset

    def test_without_a_cache_it_is_slow_but_right(self, tmp_path: Path) -> None:
        directory = directory_of(tmp_path, LARGE, DEFLATED)
        cache = ByteCache(0)
        reader = open_member(directory, 1, cache)
        for offset in (2_000_000, 100, 1 << 20, 0):
            assert reader.read_at(offset, 1000) == LARGE[offset : offset + 1000]
        assert cache.status().entries == 0

    def test_checkpoints_pushed_out_of_the_cache_are_done_without(self, tmp_path: Path) -> None:
        data = text(8 << 20)
        directory = directory_of(tmp_path, data, DEFLATED)
        cache = ByteCache(1 << 20)
        reader = open_member(directory, 1, cache)
        assert read_all(reader) == data
        for number in range(100):
            cache.put(("other", number), bytes(20_000), 20_000)
        for offset in (7 << 20, 1 << 20):
            assert reader.read_at(offset, 1000) == data[offset : offset + 1000]
        assert cache.status().size <= 1 << 20

    def test_damage_in_the_middle_leaves_what_is_before_it(self, tmp_path: Path) -> None:
        data = text(8 << 20)
        raw = bytearray(packed(data, DEFLATED))
        raw[len(raw) // 2 : len(raw) // 2 + 100] = bytes(100)
        directory = directory_of(tmp_path, data, DEFLATED, raw=bytes(raw))
        reader = open_member(directory, 1, ByteCache())
        for _ in range(2):
            assert reader.read_at(1000, 1000) == data[1000:2000]
            with pytest.raises(CorruptMember):
                reader.read_at(len(data) - 10, 10)

    def test_closing_ends_a_read_that_is_under_way(self, tmp_path: Path) -> None:
        directory = directory_of(tmp_path, bytes(200 << 20), DEFLATED)
        reader = open_member(directory, 1, ByteCache())
        outcome: list[object] = []
        started = threading.Event()
        source = directory.source
        plain = source.pread

        def pread(size: int, offset: int) -> bytes:
            started.set()
            return plain(size, offset)

        source.pread = pread  # type: ignore[method-assign]

        def read() -> None:
            try:
                outcome.append(reader.read_at((200 << 20) - 10, 10))
            except ArchiveError as error:
                outcome.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        assert started.wait(10)
        reader.close()
        thread.join(10)
        assert not thread.is_alive()
        assert outcome == [bytes(10)] or isinstance(outcome[0], CorruptMember)

    def test_an_archive_closed_first_stays_open_for_its_readers(self, tmp_path: Path) -> None:
        directory = directory_of(tmp_path, LARGE, DEFLATED)
        fd = directory.fd
        readers = [open_member(directory, i, ByteCache()) for i in range(3)]
        directory.close()
        assert read_all(readers[1]) == LARGE
        assert readers[2].read_at(0, 100) == b"something after it"
        for reader in readers:
            os.fstat(fd)
            reader.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


def _counted_preads(directory: ZipDirectory) -> list[int]:
    """The sizes of all reads of the archive from now on."""
    sizes: list[int] = []
    plain = directory.source.pread

    def pread(size: int, offset: int) -> bytes:
        sizes.append(size)
        return plain(size, offset)

    directory.source.pread = pread  # type: ignore[method-assign]
    return sizes
