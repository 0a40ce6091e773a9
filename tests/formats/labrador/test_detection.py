"""How a Labrador archive is recognised, and what is none."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest

from archivefs import registry
from archivefs.format import Match, Probe
from archivefs.formats.labrador import FORMAT
from tests.samples.labrador import DEFLATE, MAGIC, STORE, TIME, Member, base, pack, with_keys


def match(tmp_path: Path, data: bytes) -> Match:
    path = tmp_path / "file"
    path.write_bytes(data)
    return FORMAT.match(Probe(str(path)))


def with_mimetype(member: Member, *, last: bool = False) -> bytes:
    rest = with_keys(base())[1:]
    return pack([*rest, member] if last else [member, *rest])


def test_the_magic_is_where_it_should_be(tmp_path: Path) -> None:
    data = pack(with_keys(base()))
    assert (data[30:38], data[38:60]) == (b"mimetype", MAGIC)
    assert match(tmp_path, data) is Match.YES
    assert match(tmp_path, data[: len(data) * 2 // 3]) is Match.YES


@pytest.mark.parametrize("name", ["mimetype", "MimeType"])
@pytest.mark.parametrize("method", [STORE, DEFLATE])
@pytest.mark.parametrize("last", [False, True])
def test_a_mimetype_that_is_right_but_out_of_order_still_counts(
    tmp_path: Path, name: str, method: int, last: bool
) -> None:
    assert match(tmp_path, with_mimetype(Member(name, MAGIC, method), last=last)) is Match.YES


@pytest.mark.parametrize("value", [MAGIC + b"\n", MAGIC.upper(), MAGIC[:-1], b"application/epub+zip", b""])
@pytest.mark.parametrize("method", [STORE, DEFLATE])
@pytest.mark.parametrize("last", [False, True])
def test_another_mimetype_is_another_format(tmp_path: Path, value: bytes, method: int, last: bool) -> None:
    assert match(tmp_path, with_mimetype(Member("mimetype", value, method), last=last)) is Match.NO


def test_an_extra_field_moves_the_magic(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo("mimetype", TIME)
        info.extra = struct.pack("<HH40s", 0xCAFE, 40, b"")
        archive.writestr(info, MAGIC)
        archive.writestr("manifest", "")
    assert out.getvalue()[38:60] != MAGIC
    assert match(tmp_path, out.getvalue()) is Match.YES


class Stream(io.RawIOBase):
    """Somewhere to write that cannot be gone back in, so sizes follow the data."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.data += data
        return len(data)


def test_a_streamed_zip_has_the_size_after_the_data(tmp_path: Path) -> None:
    stream = Stream()
    with zipfile.ZipFile(stream, "w") as archive:  # type: ignore[arg-type]
        archive.writestr(zipfile.ZipInfo("mimetype", TIME), MAGIC)
        for number in range(2000):  # so that the end of the file does not list the first member any more
            archive.writestr(zipfile.ZipInfo(f"www/{number}", TIME), b"x")
    assert struct.unpack_from("<H", stream.data, 6)[0] & 8
    assert match(tmp_path, bytes(stream.data)) is Match.YES


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\3\4" + bytes(26), b"mimetype" + MAGIC + bytes(99), bytes(5000)])
def test_what_is_no_zip_is_none(tmp_path: Path, data: bytes) -> None:
    assert match(tmp_path, data) is Match.NO


def test_a_folder_is_none(tmp_path: Path) -> None:
    assert FORMAT.match(Probe(str(tmp_path))) is Match.NO


def test_it_wins_over_a_plain_zip(tmp_path: Path) -> None:
    path = tmp_path / "site.zip"
    path.write_bytes(pack(with_keys(base())))
    assert registry.detect(str(path)).name == "labrador"
