"""The central directory: what it says of entries, and which members may be read."""

from __future__ import annotations

import struct
import time
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from archivefs.caches import ByteCache
from archivefs.errors import (
    CorruptArchive,
    CorruptMember,
    EncryptedMember,
    LimitExceeded,
    SourceChanged,
    UnreadableArchive,
    UnsupportedMember,
)
from archivefs.zips.directory import ZipDirectory, ZipLimits
from archivefs.zips.members import read_member, stream_member
from tests.zips.forge import DEFLATED, DOS, LINK, STORED, UNIX, Forge, extra_field, opened

HELLO = b"hello, hello, hello\n" * 10


def content(directory: ZipDirectory, i: int) -> bytes:
    return b"".join(stream_member(directory, i))


@pytest.fixture
def two(tmp_path: Path) -> Iterator[ZipDirectory]:
    forge = Forge()
    forge.add("first.txt", HELLO, central={"comment": b"a remark"})
    forge.add("second", b"stored", method=STORED, mode=LINK, central={"extra": extra_field(7, b"seven")})
    directory = opened(tmp_path, forge.end(comment=b"of the archive"))
    yield directory
    directory.close()


class TestWhatItSays:
    def test_fields_of_an_entry(self, two: ZipDirectory) -> None:
        assert len(two) == 2
        assert two.name(0) == b"first.txt"
        assert (two.method(0), two.size(0), two.crc(0)) == (DEFLATED, len(HELLO), zlib.crc32(HELLO))
        assert two.compressed_size(0) < two.size(0)
        assert two.offset(0) == 0
        assert two.comment_of(0) == b"a remark"
        assert two.extra(0) == b""
        assert two.extra(1) == extra_field(7, b"seven")
        assert two.flags(0) == 0
        assert two.made_by(1) == UNIX
        assert two.unix_mode(1) == LINK
        assert two.is_symlink(1)
        assert not two.is_symlink(0)
        assert two.comment == b"of the archive"
        assert two.problems == []
        assert two.start == 0

    def test_the_quick_answer_is_the_slow_one(self, two: ZipDirectory) -> None:
        for i in range(len(two)):
            assert two.size_time_crc(i) == (two.size(i), two.mtime_ns(i), two.crc(i))

    def test_no_unix_mode_from_dos(self, tmp_path: Path) -> None:
        forge = Forge()
        forge.add("a", b"a", mode=LINK, central={"made": DOS})
        directory = opened(tmp_path, forge.end())
        assert directory.unix_mode(0) == 0
        assert not directory.is_symlink(0)

    def test_a_name_is_found_and_the_last_of_several(self, tmp_path: Path) -> None:
        forge = Forge()
        for number in range(300):
            forge.add(f"n{number}", b"x")
        forge.add("n7", b"later")
        directory = opened(tmp_path, forge.end())
        assert directory.find(b"n7") == 300
        assert [directory.find(b"n%d" % number) for number in (0, 8, 299)] == [0, 8, 299]
        assert directory.find(b"n300") is None
        assert directory.find(b"") is None

    def test_nothing_is_found_in_nothing(self, tmp_path: Path) -> None:
        directory = opened(tmp_path, Forge().end())
        assert len(directory) == 0
        assert directory.find(b"") is None


class TestTimes:
    @pytest.mark.parametrize(
        ("dos", "expected"),
        [
            ((40 << 9 | 1 << 5 | 2) << 16 | 3 << 11 | 4 << 5 | 2, (2020, 1, 2, 3, 4, 4)),
            (0, (1980, 1, 1, 0, 0, 0)),
            (0xFFFFFFFF, (2107, 12, 31, 23, 59, 59)),
            ((40 << 9 | 2 << 5 | 31) << 16 | 31 << 11, (2020, 2, 29, 23, 0, 0)),
        ],
    )
    def test_dos_times_are_local_and_never_impossible(
        self, tmp_path: Path, dos: int, expected: tuple[int, ...]
    ) -> None:
        forge = Forge()
        forge.add("a", b"a", central={"time": dos})
        seconds = opened(tmp_path, forge.end()).mtime_ns(0) // 10**9
        assert time.localtime(seconds)[:6] == expected

    @pytest.mark.parametrize(
        ("extra", "expected_ns"),
        [
            (extra_field(0x5455, struct.pack("<Bi", 1, 1_600_000_000)), 1_600_000_000 * 10**9),
            (extra_field(0x5455, struct.pack("<Bi", 1, -(2**31))), 0),
            (extra_field(0x5855, struct.pack("<ii", 5, 1_500_000_000)), 1_500_000_000 * 10**9),
            (
                extra_field(0x000A, struct.pack("<4xHHQQQ", 1, 24, 116444736000000000 + 12345, 0, 0)),
                1_234_500,
            ),
            (extra_field(0x000A, struct.pack("<4xHHQQQ", 1, 24, 2**64 - 1, 0, 0)), 4354819199 * 10**9),
        ],
    )
    def test_extra_fields_know_better(self, tmp_path: Path, extra: bytes, expected_ns: int) -> None:
        forge = Forge()
        forge.add("a", b"a", central={"extra": extra})
        assert opened(tmp_path, forge.end()).mtime_ns(0) == expected_ns

    @pytest.mark.parametrize(
        "extra",
        [
            struct.pack("<HH", 0x5455, 500) + b"\1",
            b"\1",
            extra_field(0x5455, b"\0\0\0\0\0"),
            extra_field(0x000A, b"short"),
            extra_field(0x5455, b""),
        ],
    )
    def test_broken_extra_fields_are_passed_over(self, tmp_path: Path, extra: bytes) -> None:
        forge = Forge()
        forge.add("plain", b"a")
        forge.add("a", b"a", central={"extra": extra})
        directory = opened(tmp_path, forge.end())
        assert directory.mtime_ns(1) == directory.mtime_ns(0)
        assert content(directory, 1) == b"a"


class TestZip64:
    def test_sizes_and_offset_from_the_extra_field(self, tmp_path: Path) -> None:
        forge = Forge()
        forge.add("before", b"x" * 100)
        at = len(forge.out)
        values = struct.pack("<QQQ", 5, 5, at)
        forge.add(
            "big",
            b"small",
            method=STORED,
            central={"size": 2**32 - 1, "packed": 2**32 - 1, "offset": 2**32 - 1, "extra": extra_field(1, values)},
        )
        directory = opened(tmp_path, forge.end(zip64=True))
        assert (directory.size(1), directory.compressed_size(1), directory.offset(1)) == (5, 5, at)
        assert content(directory, 1) == b"small"
        assert directory.problems == []

    @pytest.mark.parametrize("values", [(1 << 60, 5), (2**64 - 1, 2**64 - 1), (1 << 63, 1 << 63)])
    def test_sizes_that_lie_are_refused_and_never_allocated(self, tmp_path: Path, values: tuple[int, int]) -> None:
        forge = Forge()
        extra = extra_field(1, struct.pack("<QQ", *values))
        forge.add("a", b"small", method=STORED, central={"size": 2**32 - 1, "packed": 2**32 - 1, "extra": extra})
        directory = opened(tmp_path, forge.end())
        assert 0 <= directory.size(0) < 2**63
        with pytest.raises(CorruptMember):
            directory.check(0)

    @pytest.mark.parametrize("extra", [b"", extra_field(1, b"\7\0")])
    def test_missing_sizes_are_refused(self, tmp_path: Path, extra: bytes) -> None:
        forge = Forge()
        forge.add("a", b"small", method=STORED, central={"size": 2**32 - 1, "extra": extra})
        with pytest.raises(CorruptMember, match="zip64 sizes are missing"):
            opened(tmp_path, forge.end()).check(0)

    def test_more_entries_than_sixteen_bits_count(self, tmp_path: Path) -> None:
        path = tmp_path / "many.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for number in range(66_000):
                archive.writestr(zipfile.ZipInfo(str(number)), b"")
        directory = ZipDirectory.open(str(path))
        assert len(directory) == 66_000
        assert directory.problems == []
        assert directory.name(65_999) == b"65999"
        directory.close()


class TestWhichMayBeRead:
    def test_encrypted(self, tmp_path: Path) -> None:
        forge = Forge()
        for flags in (1, 0x41, 0x2000):
            forge.add("secret", b"x", central={"flags": flags})
        forge.add("aes", b"x", method=99)
        directory = opened(tmp_path, forge.end())
        for i in range(4):
            assert directory.encrypted(i)
            with pytest.raises(EncryptedMember):
                directory.check(i)

    @pytest.mark.parametrize("method", [1, 6, 9, 97, 98, 255, 65535])
    def test_unknown_methods(self, tmp_path: Path, method: int) -> None:
        forge = Forge()
        forge.add("odd", b"x" * 64, method=method)
        forge.add("good", HELLO)
        directory = opened(tmp_path, forge.end())
        with pytest.raises(UnsupportedMember, match=f"method {method},"):
            directory.check(0)
        assert content(directory, 1) == HELLO

    def test_another_part_of_a_split_archive(self, tmp_path: Path) -> None:
        forge = Forge()
        forge.add("far", b"x", central={"disk": 3})
        with pytest.raises(UnsupportedMember, match="another part"):
            opened(tmp_path, forge.end()).check(0)

    def test_out_of_the_file(self, tmp_path: Path) -> None:
        forge = Forge()
        forge.add("good", HELLO)
        forge.add("past", b"abc", method=STORED, central={"packed": 1 << 24, "size": 1 << 24})
        forge.add("far", b"abc", method=STORED, central={"offset": 0x7FFFFFFF})
        forge.add("wrong", b"abc", method=STORED, central={"offset": 5})
        directory = opened(tmp_path, forge.end())
        assert content(directory, 0) == HELLO
        for i in (1, 2, 3):
            with pytest.raises(CorruptMember):
                directory.check(i)

    def test_into_the_directory(self, tmp_path: Path) -> None:
        forge = Forge()
        forge.add("last", b"abc", method=STORED, central={"packed": 4, "size": 4})
        with pytest.raises(CorruptMember, match="beyond the end"):
            opened(tmp_path, forge.end()).check(0)

    def test_of_one_place_only_the_first(self, tmp_path: Path) -> None:
        forge = Forge()
        at = forge.add("f0", HELLO)
        raw = {"offset": at}
        for number in range(1, 5):
            forge.add(f"f{number}", HELLO, central=raw, write=False)
        directory = opened(tmp_path, forge.end())
        assert content(directory, 0) == HELLO
        for i in range(1, 5):
            with pytest.raises(CorruptMember, match="same place"):
                directory.check(i)

    @pytest.mark.parametrize("turned", [False, True], ids=["in order", "in another order"])
    def test_a_member_around_another_is_refused_the_inner_one_not(self, tmp_path: Path, turned: bool) -> None:
        inner = Forge()
        inner.add("inner", HELLO)
        whole = bytes(inner.out)
        outer = Forge()
        outer.add("outer", whole, method=STORED)
        offset = len(outer.out) - len(whole)
        outer.add("inner", HELLO, central={"offset": offset}, write=False)
        if turned:
            outer.directory.reverse()
        directory = opened(tmp_path, outer.end())
        good, bad = (0, 1) if turned else (1, 0)
        assert content(directory, good) == HELLO
        with pytest.raises(CorruptMember, match="overlap"):
            directory.check(bad)

    def test_an_entry_that_points_into_another_does_it_no_harm(self, tmp_path: Path) -> None:
        forge = Forge()
        forge.add("good", HELLO * 100, method=STORED)
        forge.add("liar", b"x", central={"offset": 100}, write=False)
        directory = opened(tmp_path, forge.end())
        assert content(directory, 0) == HELLO * 100
        with pytest.raises(CorruptMember, match="no member begins"):
            directory.check(1)

    def test_the_central_header_counts(self, tmp_path: Path) -> None:
        forge = Forge()
        forge.add("shown", b"body", method=STORED, local={"name": b"hidden"})
        forge.add("method", HELLO, local={"method": STORED})
        forge.add("sizes", b"body", method=STORED, local={"packed": 0, "size": 9999})
        forge.add("crc", b"body", method=STORED, local={"crc": 1})
        forge.add("longer", b"body", method=STORED, local={"extra": extra_field(9, b"x" * 500)})
        directory = opened(tmp_path, forge.end())
        assert [content(directory, i) for i in range(5)] == [b"body", HELLO, b"body", b"body", b"body"]

    def test_a_data_descriptor_does_not_matter(self, tmp_path: Path) -> None:
        forge = Forge()
        none = {"crc": 0, "packed": 0, "size": 0, "flags": 8}
        forge.add("right", HELLO, local=none, central={"flags": 8}, after=struct.pack("<4sIII", b"PK\7\x08", 1, 2, 3))
        forge.add("next", HELLO)
        directory = opened(tmp_path, forge.end())
        assert content(directory, 0) == content(directory, 1) == HELLO

    @pytest.mark.parametrize("size", [0, 3, 5, 1 << 30])
    def test_stored_with_another_size(self, tmp_path: Path, size: int) -> None:
        forge = Forge()
        forge.add("a", b"four", method=STORED, central={"size": size})
        with pytest.raises(CorruptMember, match="are declared"):
            opened(tmp_path, forge.end()).check(0)

    def test_more_than_deflate_can_hold(self, tmp_path: Path) -> None:
        forge = Forge()
        forge.add("a", b"x" * 1000, central={"size": 1 << 30})
        forge.add("b", bytes(4_000_000))
        directory = opened(tmp_path, forge.end())
        with pytest.raises(CorruptMember, match="cannot hold"):
            directory.check(0)
        directory.check(1)  # zeros are about as dense as it gets

    def test_a_limit_of_what_is_read_whole(self, two: ZipDirectory) -> None:
        assert read_member(two, 1, ByteCache(), limit=6) == b"stored"
        with pytest.raises(LimitExceeded):
            read_member(two, 1, ByteCache(), limit=5)


class TestLimits:
    def test_entries(self, tmp_path: Path) -> None:
        forge = Forge()
        for number in range(5):
            forge.add(str(number))
        path = tmp_path / "five.zip"
        path.write_bytes(forge.end())
        ZipDirectory.open(str(path), limits=ZipLimits(max_entries=5)).close()
        with pytest.raises(UnreadableArchive, match="more than the 4 entries"):
            ZipDirectory.open(str(path), limits=ZipLimits(max_entries=4))
        with pytest.raises(UnreadableArchive, match="larger than the limit"):
            ZipDirectory.open(str(path), limits=ZipLimits(max_directory_bytes=100))

    def test_a_record_cut_off_or_damaged_refuses_the_archive(self, tmp_path: Path) -> None:
        for damage in (b"PK\1\3", b"\0\0\0\0"):
            forge = Forge()
            for number in range(5):
                forge.add(str(number))
            forge.directory[3] = damage + forge.directory[3][4:]
            with pytest.raises(CorruptArchive, match="record 4 of the central directory"):
                opened(tmp_path, forge.end())

    def test_a_record_whose_name_runs_over_the_end(self, tmp_path: Path) -> None:
        forge = Forge()
        forge.add("a")
        forge.directory[0] = forge.directory[0][:28] + b"\xff\xff" + forge.directory[0][30:]
        with pytest.raises(CorruptArchive):
            opened(tmp_path, forge.end())


class TestTheFile:
    def test_changed_in_place(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        forge = Forge()
        forge.add("a", HELLO)
        directory = opened(tmp_path, forge.end())
        directory.unchanged()
        with open(directory.path, "ab") as file:
            file.write(b"more")
        directory.source.watch(now=False)  # looked at less than a second ago
        for _ in range(3):
            with pytest.raises(SourceChanged):
                directory.source.watch(now=True)
        with pytest.raises(SourceChanged):
            content(directory, 0)
        assert len(caplog.records) == 1
        directory.close()

    def test_rewritten_in_place_is_no_damage(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        forge = Forge()
        forge.add("a", HELLO)
        directory = opened(tmp_path, forge.end())
        with open(directory.path, "r+b") as file:
            file.seek(31)
            file.write(b"\xff" * 60)
        with pytest.raises(SourceChanged, match="mount it again"):
            content(directory, 0)

    def test_cut_under_us(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        forge = Forge()
        forge.add("a", HELLO)
        directory = opened(tmp_path, forge.end())
        with open(directory.path, "r+b") as file:
            file.truncate(10)
        with pytest.raises(SourceChanged):
            content(directory, 0)

    def test_replaced_by_rename_goes_on(self, tmp_path: Path) -> None:
        forge = Forge()
        forge.add("a", HELLO)
        directory = opened(tmp_path, forge.end())
        other = tmp_path / "other"
        other.write_bytes(b"another file")
        other.rename(directory.path)
        directory.source.watch(now=True)
        assert content(directory, 0) == HELLO

    def test_after_closing_nothing_is_read(self, two: ZipDirectory) -> None:
        two.close()
        two.close()
        with pytest.raises(CorruptMember):
            content(two, 0)

    @pytest.mark.parametrize("what", ["missing", "folder", "fifo"])
    def test_not_a_file(self, tmp_path: Path, what: str) -> None:
        import os

        path = tmp_path / "x.zip"
        if what == "folder":
            path.mkdir()
        elif what == "fifo":
            os.mkfifo(path)
        with pytest.raises(UnreadableArchive):
            ZipDirectory.open(str(path))
