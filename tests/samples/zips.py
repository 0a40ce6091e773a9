"""Zips for the tests: small ones with a bit of everything, and one with very many names."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.samples.site import TIME

CONTENT: dict[str, object] = {
    "empty": {},
    "a": {"hello.txt": b"hello", "deep": {"er": {"nothing": b""}, "up": "../hello.txt"}},
    "large.bin": bytes(range(256)) * 20_000,
    "stored.bin": bytes(reversed(range(256))) * 3000,
    "link": "a/hello.txt",
    "Ünïcode \u2603 names": {"a b c": b"spaces", "\U0001f409": b"four bytes"},
    "many": {f"{number:03}.txt": f"number {number}\n".encode() for number in range(300)},
}


def write_tree(path: Path, content: Mapping[str, object] = CONTENT) -> Path:
    """A zip of a tree in MemoryTree's notation; what is called ``stored…`` is stored, the rest deflated."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in members(content):
            member = zipfile.ZipInfo(name, TIME)
            member.create_system = 3
            mode = {dict: 0o040755, bytes: 0o100644, str: 0o120777}[type(value)]
            member.external_attr = mode << 16
            data = b"" if isinstance(value, dict) else value.encode() if isinstance(value, str) else value
            stored = name.startswith("stored") or not data
            archive.writestr(member, data, zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED)
    return path


def members(content: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    """Name and content of every member; directories first and with their slash."""
    for name, value in content.items():
        if isinstance(value, Mapping):
            yield f"{above}{name}/", dict(value)
            yield from members(value, f"{above}{name}/")
        else:
            yield above + name, value


def write_many(path: Path, count: int, *, folder: str = "many") -> Path:
    """A zip of *count* empty files in one folder, written without zipfile, which would take a minute."""
    local = struct.Struct("<4sHHHHHIIIHH")
    central = struct.Struct("<4sHHHHHHIIIHHHHHII")
    directory = []
    offset = 0
    with open(path, "wb", buffering=1 << 20) as out:
        for number in range(count):
            name = f"{folder}/{number:07}".encode()
            header = local.pack(b"PK\3\4", 20, 0, 0, 0, 0x58B1, 0, 0, 0, len(name), 0) + name
            out.write(header)
            entry = (b"PK\1\2", 0x0314, 20, 0, 0, 0, 0x58B1, 0, 0, 0, len(name), 0, 0, 0, 0, 0o100644 << 16, offset)
            directory.append(central.pack(*entry) + name)
            offset += len(header)
        listing = b"".join(directory)
        out.write(listing)
        out.write(end_records(count, size=len(listing), offset=offset))
    return path


def end_records(count: int, *, size: int, offset: int) -> bytes:
    """The end of a zip: the zip64 records, which more than 65,535 entries need, and the old one."""
    record = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 0x0314, 45, 0, 0, count, count, size, offset)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, offset + size, 1)
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return record + locator + end
