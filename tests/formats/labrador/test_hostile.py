"""Archives made to do harm: nothing but our own errors, bounded memory, and what is good stays readable."""

from __future__ import annotations

import hashlib
import random
import struct
import tracemalloc
from pathlib import Path
from typing import NamedTuple

import pytest

from archivefs.errors import ArchiveError, LimitExceeded
from archivefs.formats.labrador.manifest import Manifest
from archivefs.tree import File
from tests.formats.labrador import given
from tests.formats.labrador.opening import content_or_error, findings, opened_archive, opened_members, shown
from tests.samples.labrador import Member, damaged, digest_of, head, pack, patched, with_keys
from tests.walking import opened, walk

CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
END = struct.Struct("<4sHHHHIIH")


class Central(NamedTuple):
    """One record of a zip's directory."""

    fields: tuple[int, ...]
    name: bytes
    rest: bytes

    def packed(self, name: bytes, shift: int) -> bytes:
        fields = list(self.fields)
        fields[10] = len(name)
        if fields[16] != 0xFFFFFFFF:
            fields[16] = (fields[16] + shift) & 0xFFFFFFFF
        return CENTRAL.pack(*fields) + name + self.rest


def central_records(data: bytes) -> list[Central]:
    """The directory of a zip, read without any doubt."""
    at = data.rindex(b"PK\x05\x06")
    size, start = END.unpack_from(data, at)[5:7]
    end, at = start + size, start
    found = []
    while at < end:
        fields = CENTRAL.unpack_from(data, at)
        assert fields[0] == b"PK\x01\x02"
        name, extra, comment = fields[10:13]
        rest = data[at + 46 + name : at + 46 + name + extra + comment]
        found.append(Central(fields, data[at + 46 : at + 46 + name], rest))
        at += 46 + name + extra + comment
    return found


def key_number(number: int) -> str:
    return f"m{number:05}"


def turned(data: bytes, digests: dict[int, str], *, hostile_names: bool = False) -> bytes:
    """A Labrador archive whose members are those of a hostile zip, each with a record and a harmless name, or not."""
    hostile = central_records(data)
    lines = "".join(f"{key_number(n)} {digests.get(n, digest_of(b'%d' % n))}\n" for n in range(len(hostile)))
    ours = pack(head(lines))
    local = ours[: ours.index(b"PK\x01\x02")]
    records = [record.packed(record.name, 0) for record in central_records(ours)]
    for number, record in enumerate(hostile):
        name = record.name if hostile_names else key_number(number).encode()
        records.append(record.packed(b"www/" + name, len(local)))
    directory = b"".join(records)
    start = len(local) + len(data)
    count = min(len(records), 0xFFFF)
    return local + data + directory + END.pack(b"PK\x05\x06", 0, 0, count, count, len(directory), start, 0)


def read_in_pieces(node: File) -> str | None:
    """The digest of a file's content; None if it cannot be read to its end."""
    digest = hashlib.sha256()
    try:
        size = node.attributes().size
        with opened(node) as reader:
            for offset in range(0, size, 1 << 20):
                piece = reader.read_at(offset, 1 << 20)
                assert len(piece) == min(1 << 20, size - offset)
                digest.update(piece)
    except ArchiveError:
        return None
    return digest.hexdigest()


# -- hostile zips of others, as Labrador archives --


def test_hostile_zips_turned_into_labrador_archives(tmp_path: Path) -> None:
    module = given.hostile_zips()
    taken = 0
    for kind in module.KINDS:
        data, expected = module.build(kind)
        try:
            records = central_records(data)
        except (ValueError, AssertionError, struct.error):
            continue  # there is nothing in it but a broken structure
        if not records:
            continue
        names = [record.name.decode("utf-8", "replace") for record in records]
        good = {n: expected["good"][name] for n, name in enumerate(names) if name in expected.get("good", {})}
        bad = {n for n, name in enumerate(names) if name in expected.get("bad", [])}
        unique = {n for n in range(len(names)) if names.count(names[n]) == 1} if len(names) < 1000 else set()
        path = tmp_path / f"{kind}.lbz"
        path.write_bytes(turned(data, good))
        with opened_archive(path) as tree:
            files = {parts[0]: node for parts, _, node, _ in walk(tree)}
            assert len(files) == len(names), kind
            for number in (good.keys() | bad) & unique:
                node = files[key_number(number)]
                assert isinstance(node, File)
                assert read_in_pieces(node) == (None if number in bad else good[number]), (kind, names[number])
        codes = {finding.code for finding in findings(path)}
        assert codes <= {"zip-corrupt", "zip-unsupported", "digest-mismatch", "stored-empty", "stored-secondary"}, kind
        path.write_bytes(turned(data, good, hostile_names=True))
        with opened_archive(path) as tree:
            assert all(parts[0].startswith("m") for parts, _, _, _ in walk(tree)), kind
        taken += 1
    assert taken > 35


# -- our own --


def test_a_member_that_others_reach_into_is_refused(tmp_path: Path) -> None:
    data = pack(with_keys({"a": b"a" * 1000, "b": b"b" * 1000}))
    records = central_records(data)
    same = [record.packed(record.name, 0) for record in records]
    same[-1] = records[-2].packed(records[-1].name, 0)
    start = data.index(b"PK\x01\x02")
    directory = b"".join(same)
    path = tmp_path / "a.lbz"
    end = END.pack(b"PK\x05\x06", 0, 0, len(same), len(same), len(directory), start, 0)
    path.write_bytes(data[:start] + directory + end)
    with opened_archive(path) as tree:
        assert shown(tree) == {"a": b"a" * 1000, "b": "CorruptMember"}


def test_damage_stays_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.lbz"
    contents = {f"d/{number}": b"%d" % number * 100 for number in range(5)}
    data = patched(damaged(pack(with_keys(contents)), "www/d/2"), "www/d/4", flags=1)
    path.write_bytes(data)
    with opened_archive(path) as tree:
        found = shown(tree)
    assert found == {**contents, "d/2": "CorruptMember", "d/4": "EncryptedMember"}


def test_a_manifest_that_is_a_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.lbz"
    path.write_bytes(pack([*head("\n" * (65 << 20)), Member("www/", b"")]))
    with pytest.raises(LimitExceeded, match="sensible"), opened_archive(path):
        pass


def test_more_records_than_a_manifest_can_hold_are_refused() -> None:
    with pytest.raises(LimitExceeded, match="records"):
        Manifest(b"".join(b"%d x\n" % number for number in range(200_000)))


def test_more_directories_than_a_manifest_can_name_are_refused() -> None:
    lines = b"".join(b"%d/%s x\n" % (number, b"a/" * 5000 + b"x") for number in range(100))
    with pytest.raises(LimitExceeded, match="directories"):
        Manifest(lines)


def test_a_key_of_megabytes_takes_no_more_than_its_size(tmp_path: Path) -> None:
    deep = "a/" * 40_000 + "x"
    wide = "b" * 1_000_000
    with opened_members(tmp_path, with_keys({"ok": b"1"}, absent={deep: b"2", wide: b"3"})) as tree:
        assert [entry.name for entry in tree.root().entries()] == ["a", "ok"]
        assert len(findings(tmp_path / "archive.lbz")) == 5  # two keys too long, one not strict, two not here


def test_memory_stays_with_the_manifest() -> None:
    lines = b"".join(b"dir-%d/page-%d.html %064x\n" % (n // 50, n, n) for n in range(20_000))
    tracemalloc.start()
    manifest = Manifest(lines)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert manifest.shown == 20_000
    assert kept < 20_000 * 10  # four bytes a record and a few for each directory


@pytest.mark.parametrize("seed", range(150))
def test_archives_with_random_damage(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    contents = {"index.html": b"page" * 500, "a/b.txt": b"text" * 50, "xz--gq": b"x" * 70_000}
    data = bytearray(pack(with_keys(contents, absent={"copy": b"text" * 50, "none": b"?"})))
    for _ in range(chance.choice((1, 1, 3, 20))):
        data[chance.randrange(len(data))] = chance.randrange(256)
    if chance.random() < 0.2:
        del data[chance.randrange(len(data)) :]
    path = tmp_path / "damaged.lbz"
    path.write_bytes(data)
    findings(path)
    try:
        with opened_archive(path) as tree:
            for _, _, node, _ in walk(tree):
                node.xattrs()
                if isinstance(node, File):
                    content_or_error(node)
            tree.facts()
    except ArchiveError:
        pass
