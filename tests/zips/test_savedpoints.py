"""Points of large deflated members: found at every bit, kept between mounts, and believed only if they are right."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from archivefs.caches import ByteCache
from archivefs.zips import zran
from archivefs.zips.codecs import Packed
from archivefs.zips.directory import ZipDirectory
from archivefs.zips.index import IndexFolder
from archivefs.zips.members import open_member
from archivefs.zips.source import SourceFile
from tests.walking import stretches
from tests.zips.forge import DEFLATED, Forge
from tests.zips.test_members import read_all, text

MIB = 1 << 20
PIECE = text(MIB)
CONTENT = b"".join(PIECE[at:] + PIECE[:at] for at in range(0, 900_000, 100_000)) + b"end"

pytestmark = pytest.mark.skipif(not zran.available(), reason="no zlib can be called directly")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    forge = Forge()
    forge.add("before", b"something before it")
    forge.add("it", CONTENT, method=DEFLATED)
    forge.add("other", CONTENT[::-1], method=DEFLATED)
    path = tmp_path_factory.mktemp("points") / "archive.zip"
    path.write_bytes(forge.end())
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes came out of the library, read by read."""
    sizes: list[int] = []
    read = zran.Inflate.read

    def noted(self: zran.Inflate, limit: int) -> bytes:
        data = read(self, limit)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(zran.Inflate, "read", noted)
    return sizes


def with_reader(archive: Path, folder: Path, use: Callable, *, member: int = 1, **more: int) -> None:
    directory = ZipDirectory.open(str(archive), index=IndexFolder(str(folder), **more))
    reader = open_member(directory, member, ByteCache())
    try:
        use(reader)
    finally:
        reader.close()
        directory.close()


def whole(reader) -> None:
    assert read_all(reader) == CONTENT


def near_the_end(reader) -> None:
    assert reader.read_at(8 * MIB + 77, 65536) == CONTENT[8 * MIB + 77 :][:65536]


def scattered(reader) -> None:
    for offset, length in stretches(len(CONTENT), seed=5):
        assert reader.read_at(offset, length) == CONTENT[offset : offset + length]


def the_file(folder: Path) -> Path:
    (found,) = files(folder)
    return found


def files(folder: Path) -> list[Path]:
    return list(folder.glob("*.points-*"))


# -- inflating from the middle --


def packed_file(folder: Path, data: bytes, level: int, memory: int) -> SourceFile:
    packer = zlib.compressobj(level, zlib.DEFLATED, -15, memory)
    path = folder / "packed"
    path.write_bytes(packer.compress(data) + packer.flush())
    return SourceFile(str(path))


@pytest.mark.parametrize(("level", "memory", "bits"), [(6, 1, set(range(8))), (0, 8, {0}), (9, 9, None)])
def test_every_point_leads_to_the_same_bytes(tmp_path: Path, level: int, memory: int, bits: set[int] | None) -> None:
    data = PIECE[:200_000] + os.urandom(100_000) + PIECE[200_000:400_000]
    source = packed_file(tmp_path, data, level, memory)
    decoder, position, points = zran.Inflate(Packed(source, 0, source.size), 1), 0, []
    while piece := decoder.read(5000):
        assert piece == data[position : position + len(piece)]
        position += len(piece)
        if point := decoder.point():
            points.append((position, point))
    assert position == len(data)
    assert points
    if bits:
        assert {point.bits for _, point in points} == bits
    for position, point in points[:: max(1, len(points) // 60)]:
        again = zran.Inflate(Packed(source, 0, source.size), MIB, point)
        rest = b"".join(iter(lambda decoder=again: decoder.read(70_000), b""))  # type: ignore[misc]
        assert rest == data[position:]
    source.release()


def test_one_block_of_many_mebibytes_has_no_points_inside(tmp_path: Path) -> None:
    source = packed_file(tmp_path, bytes(12 * MIB), 9, 9)
    decoder, size, points = zran.Inflate(Packed(source, 0, source.size), MIB), 0, 0
    while piece := decoder.read(MIB):
        size += len(piece)
        points += decoder.point() is not None
    assert size == 12 * MIB
    assert points < 3
    source.release()


# -- kept in the index --


def test_a_read_in_the_next_mount_begins_at_a_point(archive: Path, folder: Path, decoded: list[int]) -> None:
    with_reader(archive, folder, whole)
    assert sum(decoded) == len(CONTENT)
    decoded.clear()
    with_reader(archive, folder, near_the_end)
    assert 65536 <= sum(decoded) < 2 * MIB
    with_reader(archive, folder, scattered)
    assert the_file(folder).stat().st_size < len(CONTENT) // 25


def test_reads_after_a_pass_begin_at_points(archive: Path, folder: Path, decoded: list[int]) -> None:
    def both(reader) -> None:
        whole(reader)
        decoded.clear()
        reader.read_at(3 * MIB + 5, 1000)
        assert sum(decoded) < 2 * MIB
        scattered(reader)

    with_reader(archive, folder, both)


@pytest.mark.parametrize("damage", ["first", "middle", "last"])
def test_damaged_points_are_thrown_away(archive: Path, folder: Path, damage: str) -> None:
    with_reader(archive, folder, whole)
    file = the_file(folder)
    data = bytearray(file.read_bytes())
    start = 4096  # of the records
    for at in {
        "first": range(start, len(data), 999),
        "middle": range(start + 500, len(data), 20_000),
        "last": range(len(data) - 1, start, -32796),
    }[damage]:
        data[at] ^= 0x55
    file.write_bytes(data)
    with_reader(archive, folder, near_the_end)
    with_reader(archive, folder, scattered)
    with_reader(archive, folder, whole)


def test_points_of_another_member_are_not_used(archive: Path, folder: Path) -> None:
    with_reader(archive, folder, lambda reader: read_all(reader), member=2)
    other = the_file(folder)
    with_reader(archive, folder, whole)
    (own,) = set(files(folder)) - {other}
    shutil.copy(other, own)
    with_reader(archive, folder, near_the_end)
    with_reader(archive, folder, scattered)


def test_points_of_a_changed_archive_are_not_used(archive: Path, folder: Path, decoded: list[int]) -> None:
    with_reader(archive, folder, whole)
    os.utime(archive, ns=(1, archive.stat().st_mtime_ns + 1))
    decoded.clear()
    with_reader(archive, folder, near_the_end)
    assert sum(decoded) > 8 * MIB


def test_what_was_left_by_a_killed_process_is_completed(archive: Path, folder: Path, decoded: list[int]) -> None:
    with_reader(archive, folder, whole)
    file = the_file(folder)
    full = file.read_bytes()
    os.truncate(file, 4096 + 32796 * 3 + 1000)
    with_reader(archive, folder, whole)
    assert the_file(folder).read_bytes() == full


def test_what_is_kept_is_bounded(archive: Path, folder: Path) -> None:
    with_reader(archive, folder, whole, max_total=100_000)
    with_reader(archive, folder, scattered, max_total=100_000)
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 100_000


def test_where_nothing_can_be_kept_all_can_be_read(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with_reader(archive, tmp_path / "file" / "index", whole)
    with_reader(archive, tmp_path / "file" / "index", scattered)


def test_without_a_library_all_can_be_read(archive: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zran, "_library", lambda: None)
    with_reader(archive, folder, whole)
    with_reader(archive, folder, scattered)
    assert files(folder) == []


def test_the_systems_zlib_serves_too(archive: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = zran._zlib()
    monkeypatch.setattr(zran, "_library", lambda: library)
    with_reader(archive, folder, whole)
    with_reader(archive, folder, near_the_end)
