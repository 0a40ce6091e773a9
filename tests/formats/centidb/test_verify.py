"""What ``verify`` has to say, rule by rule."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from archivefs.errors import LimitExceeded
from archivefs.format import Level, Opening, VerifyRequest
from archivefs.formats.centidb import FORMAT
from archivefs.options import parse
from tests.formats.centidb.opening import opened, shown
from tests.samples import centidb as sample
from tests.samples.centidb import StoreMaker, key, number, write_dump, write_lmdb


def findings(path: Path, options: str = "") -> list[tuple[str, str]]:
    opening = Opening(options=parse([options], FORMAT.options))
    found = FORMAT.verify(str(path), opening, VerifyRequest())
    return [(finding.code, finding.level.value) for finding in found]


@pytest.mark.parametrize("made", [sample.library(), sample.acid(bare=True), sample.acid(bare=False)])
def test_good_stores_have_no_findings(tmp_path: Path, made: StoreMaker) -> None:
    assert findings(write_dump(tmp_path / "d", made.entries)) == []


def damaged(physical: bytes, value: bytes) -> StoreMaker:
    made = StoreMaker()
    made.collection(b"c")
    made.collection(b"index:c:i", b"c")
    made.record(10, (1,), b"x")
    made.put(physical, value)
    return made


PAIR = b"\x0a" + key(3) + b"\x66" + key(2)
RECORD = b"\x0a" + key(2)
ERROR, NOTICE = Level.ERROR.value, Level.NOTICE.value
CASES = {
    "undecodable key": (b"\x0a\x01", b"\x03x", "key-damaged", ERROR),
    "no such collection": (b"\x63" + key(1), b"\x03x", "key-unknown", ERROR),
    "reserved number": (b"\x07", b"x", "key-unknown", ERROR),
    "overlong collection number": (b"\xfa\x00\x00\x0a" + key(1), b"\x03x", "key-unknown", ERROR),
    "not canonical": (b"\x0a\x15\xf1\x00", b"\x03x", "key-not-canonical", NOTICE),
    "row not decodable": (b"\x00" + key(b"x"), b"\x03\x28\x80", "meta-row", ERROR),
    "row too short": (b"\x00" + key(b"x"), b"\x03" + key(b"x"), "meta-row", ERROR),
    "row with a bad number": (b"\x00" + key(b"x"), b"\x03" + key(b"x", 9), "meta-row", ERROR),
    "row with a key of two": (b"\x00" + key(b"x", 1), b"\x03" + key(b"x", 20), "meta-row", ERROR),
    "row of another name": (b"\x00" + key(b"x"), b"\x03" + key(b"y", 20), "meta-name", NOTICE),
    "number twice": (b"\x00" + key(b"x"), b"\x03" + key(b"x", 10), "meta-duplicate", NOTICE),
    "counter of text": (b"\x01" + key(b"x"), b"\x03" + key(b"x", b"12"), "meta-row", ERROR),
    "encoding of a built-in number": (b"\x02" + key(b"x"), b"\x03" + key(b"x", 4), "meta-duplicate", NOTICE),
    "encoding of a reserved number": (b"\x02" + key(b"x"), b"\x03" + key(b"x", 7), "meta-row", ERROR),
    "empty value": (RECORD, b"", "value-damaged", ERROR),
    "packer cut": (RECORD, b"\xf1", "value-damaged", ERROR),
    "packer unknown": (RECORD, b"\x63x", "value-damaged", ERROR),
    "zlib damaged": (RECORD, b"\x04x", "value-damaged", ERROR),
    "zlib cut": (RECORD, b"\x04" + zlib.compress(b"x" * 99)[:-3], "value-damaged", ERROR),
    "zlib checksum": (RECORD, b"\x04" + zlib.compress(b"x" * 99)[:-1] + b"?", "value-damaged", ERROR),
    "zlib trailing": (RECORD, b"\x04" + zlib.compress(b"x") + b"tail", "zlib-trailing", NOTICE),
    "zlib bomb": (RECORD, b"\x04" + zlib.compress(bytes(3 << 20)), "value-limit", ERROR),
    "batch count": (PAIR, b"\x03\x01\x01\x03xy", "batch-damaged", ERROR),
    "batch huge count": (PAIR, b"\xff" * 9, "batch-damaged", ERROR),
    "batch cut": (PAIR, b"\x02\x01", "batch-damaged", ERROR),
    "batch lengths": (PAIR, b"\x02\x01\x09\x03xy", "batch-damaged", ERROR),
    "batch packer": (PAIR, b"\x02\x01\x01\x63xy", "batch-damaged", ERROR),
    "batch zlib": (PAIR, b"\x02\x01\x01\x04xy", "batch-damaged", ERROR),
    "stray index entry": (PAIR, b"", "index-stray", ERROR),
    "batch out of order": (b"\x0a" + key(3) + b"\x66" + key(5), b"\x02\x01\x01\x03xy", "batch-order", ERROR),
    "hidden member": (b"\x0a" + key(3) + b"\x66" + key(1), b"\x02\x01\x01\x03xy", "record-hidden", NOTICE),
    "index entry of one": (b"\x0b" + key(3), b"", "index-entry", ERROR),
    "index entry with value": (b"\x0b" + key(3) + b"\x66" + key(1), b"x", "index-entry", ERROR),
    "stale index entry": (b"\x0b" + key(3) + b"\x66" + key(9), b"", "index-stale", NOTICE),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_rule(tmp_path: Path, case: str) -> None:
    physical, value, code, level = CASES[case]
    path = write_dump(tmp_path / "d", damaged(physical, value).entries)
    assert findings(path, "max_value=2M") == [(code, level)]
    with opened(path, "max_value=2M") as tree:  # and the neighbours are as they were
        assert shown(tree, "collections", "c", "records")["Pa1"] == b"x"
        if level == ERROR:
            told = shown(tree)["errors.txt"] != b"" or physical.hex() in shown(tree, "unknown")
            assert told or code == "batch-order"


def test_what_cannot_be_read_is_listed(tmp_path: Path) -> None:
    for case in ("empty value", "packer unknown", "zlib cut", "zlib bomb"):
        physical, value, _, _ = CASES[case]
        path = write_dump(tmp_path / case, damaged(physical, value).entries)
        with opened(path, "max_value=2M") as tree:
            found = shown(tree, "collections", "c")
        assert found["records"] == {"Pa1": b"x", "Pa2": "EIO"}
        assert found["physical"][key(2).hex()] == value
    for case in ("batch count", "batch cut", "batch lengths", "batch packer", "batch zlib"):
        path = write_dump(tmp_path / case, damaged(*CASES[case][:2]).entries)
        with opened(path) as tree:
            assert shown(tree, "collections", "c", "records") == {"Pa1": b"x", "Pa2": "EIO", "Pa3": "EIO"}


def test_what_is_too_large_has_a_size_all_the_same(tmp_path: Path) -> None:
    path = write_lmdb(tmp_path / "d", damaged(RECORD, b"\x03" + bytes(4 << 20)).entries)
    with opened(path, "max_value=2M") as tree:
        for parts in (("records", "Pa2"), ("physical", key(2).hex())):
            node = tree.lookup(("collections", "c", *parts))
            assert node.attributes().size == (4 << 20) + 1
            with pytest.raises(LimitExceeded):
                node.open()


def test_items_of_a_batch_that_do_not_fit(tmp_path: Path) -> None:
    made = StoreMaker(acid=True, bare=True)
    idx = made.collection(b"c")
    made.batch2(idx, [((at,), b"%d" % at) for at in range(4)], zipped=False)
    (physical,) = [physical for physical in made.entries if physical[0] == idx]
    block = bytearray(made.entries[physical])
    first = int.from_bytes(block[2:4], "big")
    block[first] = 200  # the length of the first key's end
    made.entries[physical] = bytes(block)
    path = write_dump(tmp_path / "d", made.entries)
    assert findings(path) == [("batch-item", ERROR)]
    with opened(path) as tree:
        assert shown(tree, "collections", "c", "records") == {"Pa1": b"1", "Pa2": b"2", "Pa3": b"3"}


def test_the_lossy_generation(tmp_path: Path) -> None:
    name = bytes.fromhex("8098edf6e3b1cae3ba9aadf6f3cdbee9b29e")
    path = write_dump(tmp_path / "d", {b"\x09\x15\x03\x28" + name + b"\x00\x0f": b"\x03\x15\x0b"})
    assert findings(path) == [("dialect", ERROR), ("dialect", ERROR)]


def test_collection_numbers_of_two_bytes(tmp_path: Path) -> None:
    made = StoreMaker()
    for at in range(260):
        made.record(made.collection(b"c%03d" % at), (at,), b"%d" % at)
    assert number(269) == b"\xf1\x1d"
    path = write_dump(tmp_path / "d", made.entries)
    assert findings(path) == []
    with opened(path) as tree:
        assert shown(tree, "collections", "c259", "records") == {"Pc259": b"259"}
        assert shown(tree, "unknown") == {}
