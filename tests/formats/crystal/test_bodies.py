"""Bodies: where they lie in every version and migration, packs, and what must neither leak nor hang."""

from __future__ import annotations

import gzip
import os
import zipfile
import zlib
from pathlib import Path

import pytest

from archivefs.errors import CorruptMember
from archivefs.formats.crystal.packs import entry_name, pack_name
from tests.formats.crystal.projects import SITE, change, file, opened, project, read, xattr
from tests.samples.crystal import HTML, ProjectWriter, body_path, pack_bytes, pack_path

SECRET = b"not part of any archive\n"


def numbered(count: int = 40) -> ProjectWriter:
    writer = ProjectWriter(major=3)
    for number in range(1, count + 1):
        writer.fetch(f"{SITE}/{number}", f"body {number}\n".encode() * (number % 5 + 1))
    return writer


def body(tree: object, number: int) -> bytes:
    return read(tree, f"web/https/site.example/{number}")  # type: ignore[arg-type]


# -- layouts --


def test_names_of_packs() -> None:
    assert (pack_name(0x1A), entry_name(0x1A)) == ("01_.zip", "01a")
    assert (pack_name(0x12345), entry_name(0x12345)) == ("34_.zip", "345")


@pytest.mark.parametrize(("major", "moved"), [(1, 2), (2, 3), (2, 0)])
def test_a_migration_from_1_to_2_under_way(tmp_path: Path, major: int, moved: int) -> None:
    """The first *moved* bodies are in revisions.inprogress; 0: all are, and revisions/ is gone."""

    def fill(writer: ProjectWriter) -> None:
        for number in range(1, 4):
            writer.fetch(f"{SITE}/{number}", b"%d" % number)

    path = project(tmp_path, fill, major=major)
    for key in range(1, (moved or 3) + 1):
        new = body_path(path, key, 2, base="revisions.inprogress")
        new.parent.mkdir(parents=True, exist_ok=True)
        body_path(path, key, major).rename(new)
    if not moved:
        (path / "revisions").rename(path / "tmp" / "revisions")
    with opened(path) as tree:
        assert [body(tree, number) for number in (1, 2, 3)] == [b"1", b"2", b"3"]
        where = xattr(tree, "web/https/site.example/1", "body")
        assert where == "revisions.inprogress/000/000/000/000/001"
        assert "1 to 2" in str(tree.facts()["migration"])


def test_a_migration_from_2_to_3_under_way(tmp_path: Path) -> None:
    writer = numbered()
    writer.properties["major_version_old"] = "2"
    path = writer.write(tmp_path / "p.crystalproj")
    writer.pack(path, 0)
    with opened(path) as tree:
        assert body(tree, 7) == writer.fetches[7].body
        assert body(tree, 17) == writer.fetches[17].body
        assert tree.facts()["migration"] == "2 to 3, under way"


def test_crystal_moves_everything_while_we_look(tmp_path: Path) -> None:
    """The flat folder becomes a hierarchical one; a miss makes us look again."""

    def fill(writer: ProjectWriter) -> None:
        for number in range(1, 4):
            writer.fetch(f"{SITE}/{number}", b"%d" % number)

    path = project(tmp_path, fill, major=1)
    with opened(path) as tree:
        assert body(tree, 1) == b"1"
        for key in range(1, 4):
            new = body_path(path, key, 2, base="revisions.inprogress")
            new.parent.mkdir(parents=True, exist_ok=True)
            body_path(path, key, 1).rename(new)
        assert body(tree, 2) == b"2"
        change(path, "update project_property set value = '2' where name = 'major_version'")
        (path / "revisions").rmdir()
        (path / "revisions.inprogress").rename(path / "revisions")
        assert body(tree, 3) == b"3"
        assert tree.project.database.look()
        assert xattr(tree, "web/https/site.example/3", "body") == "revisions/000/000/000/000/003"


@pytest.mark.parametrize("key", [2**60 - 1, 4096, 65535])
def test_large_ids_have_their_place(tmp_path: Path, key: int) -> None:
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/1", b"far", key=key))
    with opened(path) as tree:
        assert body(tree, 1) == b"far"
        found = file(tree, "web/https/site.example/1")
        assert tree.node(found.ident).ident == found.ident


@pytest.mark.parametrize(("key", "major"), [(2**60, 2), (-5, 2), (-5, 3), (2**62, 3)])
def test_an_id_without_a_place_is_lost(tmp_path: Path, key: int, major: int) -> None:
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/1", None, key=key), major=major)
    with opened(path) as tree:
        assert xattr(tree, "web/https/site.example/1", "state") == "lost"
        found = file(tree, "web/https/site.example/1")
        assert tree.node(found.ident).attributes() == found.attributes()


# -- packs --


def test_packs_holes_and_loose_files(tmp_path: Path) -> None:
    writer = numbered()
    path = writer.write(tmp_path / "p.crystalproj")
    writer.pack(path, 0)
    pack = writer.pack(path, 16, but=[25])
    body_path(path, 26, 3).write_bytes(b"stale")  # the pack wins
    writer.pack(path, 32, suffix=".replacing")  # a replacement cut short
    pack.with_name("01_.zip.replacing").write_bytes(pack_bytes([(17, b"old")]))  # superseded
    with opened(path) as tree:
        for key, fetch in writer.fetches.items():
            assert body(tree, key) == fetch.body, key
        assert xattr(tree, "web/https/site.example/26", "body") == "revisions/000/000/000/000/01_.zip#01a"
        assert xattr(tree, "web/https/site.example/25", "body") == "revisions/000/000/000/000/019"
        assert xattr(tree, "web/https/site.example/33", "body") == "revisions/000/000/000/000/02_.zip.replacing#021"


def test_a_packed_body_has_no_time_of_1980(tmp_path: Path) -> None:
    writer = ProjectWriter(major=3)
    writer.fetch(f"{SITE}/1", b"x", dated=False)
    path = writer.write(tmp_path / "p.crystalproj")
    writer.pack(path, 0)
    with opened(path) as tree:
        expected = (path / "database.sqlite").stat().st_mtime_ns
        assert file(tree, "web/https/site.example/1").attributes().mtime_ns == expected


@pytest.mark.parametrize("damage", [b"PK? no\n", b""])
def test_a_pack_that_cannot_be_read_leaves_the_loose_files(tmp_path: Path, damage: bytes) -> None:
    writer = numbered()
    path = writer.write(tmp_path / "p.crystalproj")
    pack_path(path, 16).write_bytes(damage)
    with opened(path) as tree:
        assert body(tree, 17) == writer.fetches[17].body


def test_a_compressed_entry_is_a_legal_zip_all_the_same(tmp_path: Path) -> None:
    writer = numbered()
    path = writer.write(tmp_path / "p.crystalproj")
    entries = [(key, (writer.fetches[key].body or b"") * 1000) for key in range(16, 32)]
    pack_path(path, 16).write_bytes(pack_bytes(entries, zipfile.ZIP_DEFLATED))
    with opened(path) as tree:
        for key, expected in entries:
            assert body(tree, key) == expected
            assert file(tree, f"web/https/site.example/{key}").attributes().size == len(expected)


def test_a_pack_with_a_wrong_crc_gives_an_error_with_its_last_byte(tmp_path: Path) -> None:
    writer = numbered(16)
    path = writer.write(tmp_path / "p.crystalproj")
    pack = writer.pack(path, 0)
    data = bytearray(pack.read_bytes())
    data[data.index(b"body 3\n")] ^= 1
    pack.write_bytes(data)
    with opened(path) as tree:
        assert body(tree, 2) == writer.fetches[2].body
        with pytest.raises(CorruptMember, match="CRC"):
            body(tree, 3)


def test_a_pack_that_is_replaced_is_read_anew(tmp_path: Path) -> None:
    writer = numbered(16)
    path = writer.write(tmp_path / "p.crystalproj")
    pack = writer.pack(path, 0)
    with opened(path) as tree:
        assert body(tree, 3) == writer.fetches[3].body
        version = file(tree, "web/https/site.example/3").attributes().version
        new = pack.with_name("new")
        new.write_bytes(pack_bytes([(3, b"another body")]))
        new.replace(pack)
        assert body(tree, 3) == b"another body"
        assert file(tree, "web/https/site.example/3").attributes().version != version


# -- as they lie --


@pytest.mark.parametrize("packed", [False, True])
def test_a_body_is_served_from_where_it_lies(tmp_path: Path, packed: bool) -> None:
    writer = ProjectWriter(major=3)
    writer.fetch(f"{SITE}/1", os.urandom(300_000))
    path = writer.write(tmp_path / "p.crystalproj")
    if packed:
        writer.pack(path, 0)
    with opened(path) as tree:
        reader = file(tree, "web/https/site.example/1").open()
        assert reader.read_at(200_000, 500) == (writer.fetches[1].body or b"")[200_000:200_500]
        extent = reader.extent()
        if not packed:
            assert extent is not None
            assert (extent.start, extent.length) == (0, 300_000)
            assert os.path.samestat(os.fstat(extent.fd), body_path(path, 1, 3).stat())
        reader.close()


def test_an_open_body_stays_good_when_it_is_removed_and_the_tree_closed(tmp_path: Path) -> None:
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/1", b"stays"))
    with opened(path) as tree:
        reader = file(tree, "web/https/site.example/1").open()
        body_path(path, 1, 2).unlink()
    assert reader.read_at(0, 10) == b"stays"
    reader.close()


def test_an_id_used_again_is_another_version(tmp_path: Path) -> None:
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/1", b"first"))
    with opened(path) as tree:
        before = file(tree, "web/https/site.example/1").attributes()
        place = body_path(path, 1, 2)
        place.unlink()
        place.with_name("other").write_bytes(b"other")
        place.with_name("other").rename(place)
        assert file(tree, "web/https/site.example/1").attributes().version != before.version


# -- what must neither leak nor hang --


def link_as_body(path: Path) -> None:
    body_path(path, 1, 2).unlink()
    body_path(path, 1, 2).symlink_to(path.parent / "outside")


def fifo_as_body(path: Path) -> None:
    body_path(path, 1, 2).unlink()
    os.mkfifo(body_path(path, 1, 2))


def folder_as_body(path: Path) -> None:
    body_path(path, 1, 2).unlink()
    body_path(path, 1, 2).mkdir()


def link_on_the_way(path: Path) -> None:
    folder = body_path(path, 1, 2).parent
    folder.rename(path.parent / "moved")
    folder.symlink_to(path.parent / "moved")


def link_as_revisions(path: Path) -> None:
    (path / "revisions").rename(path.parent / "moved")
    (path / "revisions").symlink_to(path.parent / "moved")


@pytest.mark.parametrize("spoil", [link_as_body, fifo_as_body, folder_as_body, link_on_the_way, link_as_revisions])
@pytest.mark.timeout(20)
def test_what_is_no_plain_file_counts_as_lost(tmp_path: Path, spoil: object) -> None:
    (tmp_path / "outside").write_bytes(SECRET)
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/1", b"x"))
    spoil(path)  # type: ignore[operator]
    with opened(path) as tree:
        page = file(tree, "web/https/site.example/1")
        assert page.attributes().size == 0
        with pytest.raises(CorruptMember):
            page.open()


@pytest.mark.timeout(20)
def test_a_fifo_as_a_pack_does_not_hang(tmp_path: Path) -> None:
    writer = numbered(16)
    path = writer.write(tmp_path / "p.crystalproj")
    os.mkfifo(pack_path(path, 0))
    with opened(path) as tree:
        assert body(tree, 1) == writer.fetches[1].body


# -- codings --


def coded(tmp_path: Path, data: bytes, coding: str) -> Path:
    headers = [HTML, ("Content-Encoding", coding)]
    return project(tmp_path, lambda writer: writer.fetch(f"{SITE}/1", data, headers=headers))


PLAIN = b"plain text " * 50_000


@pytest.mark.parametrize(
    ("data", "coding"),
    [
        (gzip.compress(PLAIN, mtime=0), "gzip"),
        (gzip.compress(PLAIN, mtime=0), "X-GZIP"),
        (gzip.compress(PLAIN[:100], mtime=0) + gzip.compress(PLAIN[100:], mtime=0), "gzip"),
        (gzip.compress(PLAIN, mtime=0) + b"trailing rubbish", "gzip"),
        (zlib.compress(PLAIN), "deflate"),
        (zlib.compress(PLAIN)[2:-4], "deflate"),
        (gzip.compress(gzip.compress(PLAIN, mtime=0), mtime=0), "gzip, gzip"),
        (PLAIN, "identity"),
    ],
)
def test_decode_undoes_gzip_and_deflate(tmp_path: Path, data: bytes, coding: str) -> None:
    path = coded(tmp_path, data, coding)
    with opened(path, "decode") as tree:
        page = file(tree, "web/https/site.example/1")
        assert page.attributes().size == len(PLAIN)
        reader = page.open()
        for offset in (0, 300_000, 5, len(PLAIN) - 3):
            assert reader.read_at(offset, 1000) == PLAIN[offset : offset + 1000]
        reader.close()
        assert body(tree, 1) == PLAIN
    with opened(path) as tree:
        assert body(tree, 1) == data


@pytest.mark.parametrize(
    ("data", "coding"),
    [
        (b"says gzip, is not", "gzip"),
        (gzip.compress(PLAIN, mtime=0)[:-20], "gzip"),
        (b"", "gzip"),
        (b"\x0b\x02\x80x\x03", "br"),
        (zlib.compress(PLAIN)[:-5], "deflate"),
        (gzip.compress(PLAIN, mtime=0), "gzip, br"),
    ],
)
def test_what_is_not_what_it_says_is_served_as_it_lies(tmp_path: Path, data: bytes, coding: str) -> None:
    with opened(coded(tmp_path, data, coding), "decode") as tree:
        assert file(tree, "web/https/site.example/1").attributes().size == len(data)
        assert body(tree, 1) == data


def test_gzip_of_nothing_is_empty(tmp_path: Path) -> None:
    with opened(coded(tmp_path, gzip.compress(b"", mtime=0), "gzip"), "decode") as tree:
        assert body(tree, 1) == b""


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archivefs.formats.crystal.codings.MAX_DECODED", 1 << 20)
    bomb = gzip.compress(bytes(8 << 20))
    with opened(coded(tmp_path, bomb, "gzip"), "decode") as tree:
        assert body(tree, 1) == bomb
