"""A zip writer in which every field can be told to lie.

forge = Forge()
forge.add("a.txt", b"hello")
forge.add("b.txt", b"hello", central={"crc": 1})
path.write_bytes(forge.end())
"""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from archivefs.zips.directory import ZipDirectory

STORED, DEFLATED, BZIP2, LZMA, ZSTD = 0, 8, 12, 14, 93
LOCAL = struct.Struct("<4sHHHIIIIHH")
CENTRAL = struct.Struct("<4sHHHHIIIIHHHHHII")
END = struct.Struct("<4sHHHHIIH")
END64 = struct.Struct("<4sQHHIIQQQQ")
LOCATOR = struct.Struct("<4sIQI")
TIME_2020 = (40 << 9 | 1 << 5 | 2) << 16 | 3 << 11 | 4 << 5 | 2  # 2 January 2020, 03:04:04
UNIX, DOS = 3 << 8 | 20, 20
FILE, LINK, FOLDER = 0o100644, 0o120777, 0o040755


class Forge:
    """A zip in the making."""

    def __init__(self, prefix: bytes = b"") -> None:
        self.out = bytearray(prefix)
        self.directory: list[bytes] = []

    def add(
        self,
        name: str | bytes,
        data: bytes = b"",
        *,
        method: int = DEFLATED,
        mode: int = FILE,
        raw: bytes | None = None,
        after: bytes = b"",
        local: Mapping[str, int | bytes] | None = None,
        central: Mapping[str, int | bytes] | None = None,
        write: bool = True,
    ) -> int:
        """Add a member; *local* and *central* override fields of its two headers.  Gives its offset."""
        raw = packed(data, method) if raw is None else raw
        fields: dict[str, int | bytes] = {
            "made": UNIX,
            "need": 20,
            "flags": 0x800 if isinstance(name, str) and not name.isascii() else 0,
            "method": method,
            "time": TIME_2020,
            "crc": zlib.crc32(data),
            "packed": len(raw),
            "size": len(data),
            "disk": 0,
            "inside": 0,
            "outside": mode << 16,
            "offset": len(self.out),
            "name": name.encode() if isinstance(name, str) else name,
            "extra": b"",
            "comment": b"",
        }
        fields["flags"] |= 2 if method == LZMA else 0
        if write:
            self.out += local_header({**fields, **(local or {})}) + raw + after
        self.directory.append(central_header({**fields, **(central or {})}))
        return int(fields["offset"])

    def end(self, *, comment: bytes = b"", zip64: bool = False, tail: bytes = b"", **lies: int) -> bytes:
        """The whole zip; *lies* override fields of the end record (or of the zip64 one: ``count64`` …)."""
        body = b"".join(self.directory)
        count = len(self.directory)
        true = {"disk": 0, "first_disk": 0, "here": count, "count": count, "size": len(body), "offset": len(self.out)}
        true["comment_length"] = len(comment)
        extension = b""
        if zip64:
            at = len(self.out) + len(body)
            big = {"count64": count, "size64": len(body), "offset64": len(self.out), "place64": at, **lies}
            record = (44, 45, 45, 0, 0, big["count64"], big["count64"], big["size64"], big["offset64"])
            extension = END64.pack(b"PK\6\6", *record) + LOCATOR.pack(b"PK\6\7", 0, big["place64"], 1)
            true.update(here=0xFFFF, count=0xFFFF, size=0xFFFFFFFF, offset=0xFFFFFFFF)
        told = {**true, **{name: value for name, value in lies.items() if name in true}}
        return bytes(self.out) + body + extension + END.pack(b"PK\5\6", *told.values()) + comment + tail


@lru_cache(maxsize=64)
def packed(data: bytes, method: int) -> bytes:
    """*data* as the method wants it; unknown methods get it as it is."""
    if method == DEFLATED:
        engine = zlib.compressobj(6, zlib.DEFLATED, -15)
        return engine.compress(data) + engine.flush()
    if method == BZIP2:
        return bz2.compress(data)
    if method == LZMA:
        alone = lzma.compress(data, lzma.FORMAT_ALONE, preset=0)
        return b"\x09\x14\x05\x00" + alone[:5] + alone[13:]
    if method == ZSTD:
        import zstandard

        return zstandard.compress(data)
    return data


def local_header(field: Mapping[str, int | bytes]) -> bytes:
    """A local header with its name and extra fields."""
    fixed = (field[name] for name in ("need", "flags", "method", "time", "crc", "packed", "size"))
    name, extra = field["name"], field["extra"]
    return LOCAL.pack(b"PK\3\4", *fixed, len(name), len(extra)) + name + extra


def central_header(field: Mapping[str, int | bytes]) -> bytes:
    """A record of the central directory."""
    first = (field[name] for name in ("made", "need", "flags", "method", "time", "crc", "packed", "size"))
    last = (field[name] for name in ("disk", "inside", "outside", "offset"))
    name, extra, comment = field["name"], field["extra"], field["comment"]
    lengths = (len(name), len(extra), len(comment))
    return CENTRAL.pack(b"PK\1\2", *first, *lengths, *last) + name + extra + comment


def extra_field(number: int, data: bytes) -> bytes:
    """One extra field."""
    return struct.pack("<HH", number, len(data)) + data


def opened(folder: Path, data: bytes) -> ZipDirectory:
    """The zip written to a file and opened."""
    path = folder / "forged.zip"
    path.write_bytes(data)
    return ZipDirectory.open(str(path))
