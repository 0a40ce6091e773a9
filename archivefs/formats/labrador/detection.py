"""Is it a Labrador archive?  Imports nothing that reads zips: this runs for every archive of any format.

What counts is a member ``mimetype`` with the right content.  It should be the first and stored, and then it is at
a fixed place; an archive that has it compressed or elsewhere is wrong, but still meant as one.  So it is looked for
at the beginning, and then in that part of the zip's directory which lies at the end of the file.
"""

from __future__ import annotations

import struct
import zlib

from archivefs.format import Probe

_MAGIC = b"application/x-labrador"
_NAME = b"mimetype"
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_CENTRAL_SIGNATURE = b"PK\x01\x02"
_DESCRIPTOR_SIGNATURE = b"PK\x07\x08"
_MAGIC_CRC = struct.pack("<I", zlib.crc32(_MAGIC))
_ENCRYPTED, _SIZE_FOLLOWS = 1, 8
_MAX_PACKED = 200
"""Our few bytes never take more, however badly they are compressed."""


def is_labrador(probe: Probe) -> bool:
    """Does the file have the magic of a Labrador archive?"""
    return _is_magic(probe.head) or any(_is_magic_at(probe.path, *place) for place in _listed(probe.tail))


def _is_magic(data: bytes, packed: int | None = None) -> bool:
    """Does *data* begin with a member that is our mimetype?  *packed*: its size, where the directory says it."""
    if len(data) < _LOCAL.size or not data.startswith(b"PK\x03\x04"):
        return False
    _, _, flags, method, _, _, _, size, _, name_length, extra_length = _LOCAL.unpack_from(data)
    start = _LOCAL.size + name_length
    if data[_LOCAL.size : start].lower() != _NAME or flags & _ENCRYPTED:
        return False
    body = data[start + extra_length :]
    if packed is None and flags & _SIZE_FOLLOWS:
        return method == 0 and body.startswith((_MAGIC + _DESCRIPTOR_SIGNATURE, _MAGIC + _MAGIC_CRC))
    body = body[: size if packed is None else packed]
    return body == _MAGIC if method == 0 else method == 8 and _inflated(body) == _MAGIC


def _inflated(body: bytes) -> bytes:
    try:
        return zlib.decompressobj(-15).decompress(body, len(_MAGIC) + 1)
    except zlib.error:
        return b""


def _listed(tail: bytes) -> list[tuple[int, int]]:
    """Where members called mimetype begin, and their packed size, as far as the end of the file says."""
    found = []
    at = tail.find(_CENTRAL_SIGNATURE)
    while at >= 0 and at + _CENTRAL.size <= len(tail):
        fields = _CENTRAL.unpack_from(tail, at)
        name = tail[at + _CENTRAL.size : at + _CENTRAL.size + fields[10]]
        if name.lower() == _NAME and fields[8] <= _MAX_PACKED:
            found.append((fields[16], fields[8]))
        at = tail.find(_CENTRAL_SIGNATURE, at + 4)
    return found[:1]  # the first of equal names counts


def _is_magic_at(path: str, offset: int, packed: int) -> bool:
    with open(path, "rb") as file:
        file.seek(offset)
        return _is_magic(file.read(_LOCAL.size + len(_NAME) + 65535 + _MAX_PACKED), packed)
