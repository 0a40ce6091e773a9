"""``verify`` of a zip: every code, in the archive's order, whatever the number of threads."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from archivefs.errors import CorruptArchive, UnreadableArchive
from archivefs.format import Finding, Level, Opening, VerifyRequest
from archivefs.formats.zip import FORMAT
from tests.samples.zips import write_tree
from tests.walking import state_of
from tests.zips.forge import LZMA, STORED, Forge, packed


def findings(path: Path, **request: object) -> list[Finding]:
    assert FORMAT.verify is not None
    return list(FORMAT.verify(str(path), Opening(options={"encoding": "utf-8"}), VerifyRequest(**request)))


def forged(folder: Path, *members: dict, prefix: bytes = b"", **end: object) -> Path:
    forge = Forge(prefix)
    forge.add("good", b"good")
    for member in members:
        forge.add(**member)
    path = folder / "forged.zip"
    path.write_bytes(forge.end(**end))
    return path


def test_nothing_is_found_in_a_good_one(tmp_path: Path) -> None:
    path = write_tree(tmp_path / "good.zip")
    before = state_of(tmp_path)
    assert findings(path) == []
    assert state_of(tmp_path) == before


BROKEN = bytearray(packed(bytes(range(256)) * 50, 8))
BROKEN[20:30] = bytes(10)


@pytest.mark.parametrize(
    ("code", "level", "member"),
    [
        ("zip-crc", "error", {"central": {"crc": 1}}),
        ("zip-crc", "error", {"central": {"crc": 1}, "method": STORED}),
        ("zip-size", "error", {"central": {"size": 2}}),
        ("zip-size", "error", {"central": {"size": 9999}, "method": STORED}),
        ("zip-size", "error", {"central": {"size": 9999}, "data": b"some more to have a bit of a stream"}),
        ("zip-data", "error", {"data": bytes(range(256)) * 50, "raw": bytes(BROKEN)}),
        ("zip-overlap", "error", {"central": {"offset": 0}, "write": False}),
        ("zip-header", "error", {"central": {"offset": 3}}),
        ("zip-header", "error", {"central": {"offset": 1 << 20}}),
        ("zip-limit", "error", {"method": LZMA, "raw": b"\x09\x04\x05\x00]" + struct.pack("<I", 2**32 - 1) + bytes(9)}),
        ("zip-method", "error", {"method": 6}),
        ("zip-method", "error", {"central": {"disk": 2}}),
        ("zip-encrypted", "notice", {"central": {"flags": 1}}),
    ],
)
def test_a_bad_member(tmp_path: Path, code: str, level: str, member: dict) -> None:
    path = forged(tmp_path, {"name": "bad\n", "data": b"hello", **member}, {"name": "later", "data": b"later"})
    found = [finding for finding in findings(path) if finding.code != "zip-name"]
    assert [(finding.code, finding.level, finding.where) for finding in found] == [(code, Level(level), "bad\n")]
    assert found[0].message


@pytest.mark.parametrize(
    ("code", "level", "how"),
    [
        ("zip-structure", "error", {"count": 5}),
        ("zip-structure", "error", {"size": 3}),
        ("zip-trailing", "notice", {"tail": b"junk"}),
        ("zip-comment", "notice", {"comment": b"x" * 50 + Forge().end()}),
    ],
)
def test_a_bad_structure(tmp_path: Path, code: str, level: str, how: dict) -> None:
    assert [finding[:3] for finding in findings(forged(tmp_path, **how))] == [(code, Level(level), "")]


def test_something_before_it(tmp_path: Path) -> None:
    path = forged(tmp_path)
    path.write_bytes(b"stub" + path.read_bytes())
    assert [finding[:2] for finding in findings(path)] == [("zip-prefix", Level.NOTICE)]


def test_names_that_are_not_shown_as_they_are(tmp_path: Path) -> None:
    path = forged(tmp_path, {"name": "../up"}, {"name": b"\xff"}, {"name": "good"}, {"name": "fine"})
    assert [finding[:3] for finding in findings(path)] == [
        ("zip-name", Level.NOTICE, "../up"),
        ("zip-name", Level.NOTICE, "\\xff"),
        ("zip-duplicate", Level.NOTICE, "good"),
    ]
    assert [finding.message for finding in findings(path)] == ["shown as ^2E^2E/up", "shown as ^FF", "shown as good~2"]


def test_a_bomb_is_noted(tmp_path: Path) -> None:
    path = forged(tmp_path, {"name": "zeros", "data": bytes(32 << 20)})
    assert [finding.code for finding in findings(path)] == ["zip-ratio"]


def test_complete_means_that_encrypted_members_are_errors(tmp_path: Path) -> None:
    path = forged(tmp_path, {"name": "secret", "data": b"x", "central": {"flags": 1}})
    assert [finding.level for finding in findings(path)] == [Level.NOTICE]
    assert [finding.level for finding in findings(path, complete=True)] == [Level.ERROR]


@pytest.mark.parametrize("jobs", [1, 2, 7])
def test_findings_come_in_order_and_progress_reaches_the_end(tmp_path: Path, jobs: int) -> None:
    forge = Forge()
    for number in range(2000):
        crc = {} if number % 5 else {"crc": 1}
        forge.add(f"{number:05}", b"%d" % number * (number % 50 + 1), central=crc)
    path = tmp_path / "many.zip"
    path.write_bytes(forge.end())
    told: list[tuple[int, int]] = []
    found = findings(path, jobs=jobs, progress=lambda done, total: told.append((done, total)))
    assert [finding.where for finding in found] == [f"{number:05}" for number in range(0, 2000, 5)]
    assert {total for _, total in told} == {told[-1][1]}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] == told[-1][1] > 0


def test_given_up_half_way_it_ends_at_once(tmp_path: Path) -> None:
    forge = Forge()
    for number in range(20):
        forge.add(f"bad{number}", b"x", central={"crc": 1})
        forge.add(f"{number}", bytes(8 << 20))
    path = tmp_path / "large.zip"
    path.write_bytes(forge.end())
    assert FORMAT.verify is not None
    running = iter(FORMAT.verify(str(path), Opening(), VerifyRequest(jobs=2)))
    assert next(running).code in ("zip-ratio", "zip-crc")
    running.close()  # type: ignore[attr-defined]


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(b"")
    with pytest.raises(UnreadableArchive):
        findings(path)
    forge = Forge()
    forge.add("a")
    path.write_bytes(forge.end(size=60, offset=3))
    with pytest.raises(CorruptArchive):
        findings(path)


def test_every_damaged_byte_of_the_data_is_found(tmp_path: Path) -> None:
    data = zlib.compress(bytes(range(256)) * 4)
    forge = Forge()
    forge.add("stored", data, method=STORED)
    forge.add("deflated", data)
    whole = forge.end()
    path = tmp_path / "flipped.zip"
    start = whole.index(data)
    for at in range(start, start + len(data), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        assert [(finding.code, finding.where) for finding in findings(path)] == [("zip-crc", "stored")], at
