"""Finding the central directory, whatever the end record says."""

from __future__ import annotations

from pathlib import Path

import pytest

from archivefs.errors import CorruptArchive, UnreadableArchive
from archivefs.zips.members import stream_member
from tests.zips.forge import END, STORED, Forge, opened

BODY = b"body of the member"


def forged(names: str = "ab", prefix: bytes = b"") -> Forge:
    forge = Forge(prefix)
    for name in names:
        forge.add(name, BODY)
    return forge


def names_and_problems(folder: Path, data: bytes) -> tuple[str, list[str]]:
    """The names in a zip, every member of which must be right, and the codes of its problems."""
    directory = opened(folder, data)
    for i in range(len(directory)):
        assert b"".join(stream_member(directory, i)) == BODY
    found = b"".join(map(directory.name, range(len(directory)))).decode()
    codes = [problem.code for problem in directory.problems]
    directory.close()
    return found, codes


@pytest.mark.parametrize("zip64", [False, True])
class TestWhatStandsAround:
    def test_nothing(self, tmp_path: Path, zip64: bool) -> None:
        assert names_and_problems(tmp_path, forged().end(zip64=zip64)) == ("ab", [])

    def test_a_comment(self, tmp_path: Path, zip64: bool) -> None:
        for comment in (b"c", b"c" * 65535, b"PK\5\6", b"a PK\5\6 and more than twenty-two bytes after it"):
            assert names_and_problems(tmp_path, forged().end(zip64=zip64, comment=comment)) == ("ab", [])

    def test_a_comment_full_of_signatures(self, tmp_path: Path, zip64: bool) -> None:
        data = forged().end(zip64=zip64, comment=b"PK\5\6" * 16000)
        assert names_and_problems(tmp_path, data)[0] == "ab"

    def test_bytes_after_it(self, tmp_path: Path, zip64: bool) -> None:
        assert names_and_problems(tmp_path, forged().end(zip64=zip64, tail=b"J" * 100)) == ("ab", ["zip-trailing"])

    @pytest.mark.parametrize("counted", [True, False], ids=["offsets count it", "offsets do not count it"])
    def test_a_program_before_it(self, tmp_path: Path, zip64: bool, counted: bool) -> None:
        stub = b"#!/bin/sh\n" + b"\x90" * 990
        data = forged(prefix=stub).end(zip64=zip64) if counted else stub + forged().end(zip64=zip64)
        assert names_and_problems(tmp_path, data) == ("ab", [])

    def test_another_zip_before_it(self, tmp_path: Path, zip64: bool) -> None:
        data = forged("xyz").end() + forged("ab").end(zip64=zip64)
        assert names_and_problems(tmp_path, data) == ("ab", [])

    def test_another_zip_in_the_comment(self, tmp_path: Path, zip64: bool) -> None:
        data = forged("ab").end(zip64=zip64, comment=b"#" * 300 + forged("x").end())
        assert names_and_problems(tmp_path, data) == ("x", ["zip-comment"])


class TestLies:
    @pytest.mark.parametrize("count", [0, 1, 3, 65535])
    def test_the_count(self, tmp_path: Path, count: int) -> None:
        assert names_and_problems(tmp_path, forged().end(count=count)) == ("ab", ["zip-structure"])

    @pytest.mark.parametrize("offset", [0, 10, 1 << 20, 0x7FFFFFF0, 0xFFFFFFFF])
    def test_the_place_of_the_directory(self, tmp_path: Path, offset: int) -> None:
        assert names_and_problems(tmp_path, forged().end(offset=offset)) == ("ab", ["zip-structure"])

    def test_the_size_of_the_directory(self, tmp_path: Path) -> None:
        true = len(b"".join(forged().directory))
        for size in (0, 1, true // 2, true - 1, true + 1, 1 << 20):
            assert names_and_problems(tmp_path, forged().end(size=size)) == ("ab", ["zip-structure"]), size

    def test_both_size_and_place(self, tmp_path: Path) -> None:
        with pytest.raises(CorruptArchive, match="central directory is not where"):
            opened(tmp_path, forged().end(size=60, offset=3))

    def test_bytes_between_directory_and_end_record(self, tmp_path: Path) -> None:
        data = forged().end()
        data = data[: -END.size] + b"padding" + data[-END.size :]
        assert names_and_problems(tmp_path, data) == ("ab", ["zip-structure"])

    def test_a_comment_that_is_cut(self, tmp_path: Path) -> None:
        data = forged().end(comment=b"c" * 10, comment_length=1000)
        assert names_and_problems(tmp_path, data) == ("ab", ["zip-trailing"])

    def test_the_zip64_count(self, tmp_path: Path) -> None:
        assert names_and_problems(tmp_path, forged().end(zip64=True, count64=1 << 62)) == ("ab", ["zip-structure"])

    def test_the_zip64_locator(self, tmp_path: Path) -> None:
        assert names_and_problems(tmp_path, forged().end(zip64=True, place64=17)) == ("ab", ["zip-structure"])

    @pytest.mark.parametrize("lie", ["size64", "offset64"])
    def test_the_zip64_size_and_place(self, tmp_path: Path, lie: str) -> None:
        for value in (0, 7, 1 << 40, 2**64 - 1):
            assert names_and_problems(tmp_path, forged().end(zip64=True, **{lie: value}))[0] == "ab", value

    def test_two_end_records_that_contradict(self, tmp_path: Path) -> None:
        data = forged().end(
            zip64=True, count=2, size=len(b"".join(forged().directory)), offset=len(forged().out), count64=9
        )
        assert names_and_problems(tmp_path, data) == ("ab", ["zip-structure"])


class TestRefused:
    def test_empty(self, tmp_path: Path) -> None:
        with pytest.raises(UnreadableArchive, match="not a zip: the file is empty"):
            opened(tmp_path, b"")

    @pytest.mark.parametrize("data", [b"P", b"PK\5\6", b"x" * 21, b"x" * 22, b"no zip at all\n" * 10_000])
    def test_no_zip(self, tmp_path: Path, data: bytes) -> None:
        with pytest.raises(UnreadableArchive, match="not a zip: there is no end record"):
            opened(tmp_path, data)

    def test_cut_off(self, tmp_path: Path) -> None:
        forge = Forge()
        for number in range(50):
            forge.add(f"t{number}", BODY * 50, method=STORED)
        whole = forge.end()
        for share in (10, 50, 60, 90, 99):
            with pytest.raises(UnreadableArchive, match="seems to be cut off"):
                opened(tmp_path, whole[: len(whole) * share // 100])
        for missing in range(1, END.size):
            with pytest.raises(UnreadableArchive):
                opened(tmp_path, whole[:-missing])

    def test_a_part_of_a_split_zip(self, tmp_path: Path) -> None:
        with pytest.raises(UnreadableArchive, match="part 3 of a split zip; join the parts"):
            opened(tmp_path, forged().end(disk=2))

    def test_every_message_is_one_line(self, tmp_path: Path) -> None:
        for data in (b"", b"noise", forged().end()[:-5], forged().end(disk=1), forged().end(size=60, offset=3)):
            with pytest.raises((UnreadableArchive, CorruptArchive)) as caught:
                opened(tmp_path, data)
            assert "\n" not in str(caught.value)
            assert str(caught.value).startswith(str(tmp_path))


def test_an_archive_without_members_is_fine(tmp_path: Path) -> None:
    assert names_and_problems(tmp_path, Forge().end()) == ("", [])
    assert names_and_problems(tmp_path, Forge().end(zip64=True)) == ("", [])
