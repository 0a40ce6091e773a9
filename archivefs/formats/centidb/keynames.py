"""Keys as file names and back: readable, or hex; and the names of collections.  Pure functions.

Specification §9, §9.1.  Parsing is strict: of all texts that could mean a key only the one that the key is shown
under is accepted.  Names of more than 255 bytes are cut and end in a digest; such a name gives a lower bound where
to begin looking.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from datetime import datetime, timedelta, timezone
from typing import NamedTuple
from uuid import UUID

from archivefs.errors import CorruptMember
from archivefs.formats.centidb import keys
from archivefs.formats.centidb.dialects import Dialect
from archivefs.formats.centidb.keys import Element, KeyTuple, Moment

MAX_BYTES = 255
MAX_STEM = 200
EMPTY = "()"
ODD = "x-"
CUT = "~~"
_DIGEST = 32
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_HIDDEN = "\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
_BYTES_ESCAPED = {byte: f"-{byte:02x}" if byte < 0x30 else f"~{byte:02x}" for byte in range(256)}
_BYTE_NAMES = [chr(byte) if 0x30 <= byte <= 0x7D else _BYTES_ESCAPED[byte] for byte in range(256)]
_TEXT_ODD = re.compile(f"[\\x00-/~-\x9f{_HIDDEN}\ud800-\udfff]")
_UNIT = re.compile(r"[-~][0-9a-f]{2}|.", re.DOTALL)
_ESCAPES = re.compile(r"(?:[-~][0-9a-f]{2})+")
_CUT_NAME = re.compile(rf"(.*){CUT}([0-9a-f]{{{_DIGEST}}})", re.DOTALL)
_HEX = re.compile(r"(?:[0-9a-f]{2})+")
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{3})Z(\d{3})", re.ASCII)


class CutName(NamedTuple):
    """What a cut name says: where its key can begin, and the digest."""

    bound: bytes
    """Every key of that name begins with these bytes."""
    digest: str


# -- elements --


def element_name(value: Element) -> str:
    """The name of one element."""
    if value is None:
        return "A"
    if value is True or value is False:
        return "Q1" if value else "Q0"
    if isinstance(value, int):
        digits = str(abs(value))
        return f"{'M' if value < 0 else 'P'}{chr(96 + len(digits))}{digits}"
    if isinstance(value, bytes):
        return "R" + "".join(map(_BYTE_NAMES.__getitem__, value))
    if isinstance(value, str):
        return "T" + _TEXT_ODD.sub(_escaped, value)
    if isinstance(value, UUID):
        return f"U{value}"
    return _moment_name(value)


def _escaped(match: re.Match[str]) -> str:
    return "".join(map(_BYTES_ESCAPED.__getitem__, match[0].encode("utf-8", "surrogatepass")))


def _moment_name(moment: Moment) -> str:
    shown = utc_text(moment)
    return f"{'V' if moment.millis < 0 else 'W'}{shown}Z{moment.quarters:03d}"


def utc_text(moment: Moment) -> str:
    """``2013-08-22T16:19:29.123``, in UTC."""
    when = _EPOCH + timedelta(milliseconds=moment.millis)
    return f"{when.year:04d}-{when:%m-%dT%H:%M:%S}.{when.microsecond // 1000:03d}"


def parse_element(name: str) -> Element:
    """The element of that name; raises ValueError unless it is exactly the name the element has."""
    value = _parsed(name)
    if element_name(value) != name:
        raise ValueError(f"{name!r} names no element")
    return value


def _parsed(name: str) -> Element:
    kind, rest = name[:1], name[1:]
    if kind == "A":
        return None
    if kind == "Q":
        return rest == "1"
    if kind in ("M", "P") and re.fullmatch(r"[a-t][0-9]{1,20}", rest):
        return -int(rest[1:]) if kind == "M" else int(rest[1:])
    if kind == "R":
        return _unescaped(rest)
    if kind == "T":
        return _unescaped(rest).decode("utf-8", "surrogatepass")
    if kind == "U":
        return UUID(rest)
    if kind in ("V", "W"):
        return _parsed_moment(rest)
    raise ValueError(f"{name!r} names no element")


def _unescaped(text: str) -> bytes:
    pieces, at = [], 0
    for match in _ESCAPES.finditer(text):
        pieces += [text[at : match.start()].encode(), bytes.fromhex(re.sub("[-~]", "", match[0]))]
        at = match.end()
    return b"".join([*pieces, text[at:].encode()])


def _parsed_moment(text: str) -> Moment:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError("a time is expected")
    year, month, day, hour, minute, second, millis, quarters = map(int, match.groups())
    whole = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc) - _EPOCH
    return Moment(whole // timedelta(milliseconds=1) + millis, quarters)


# -- tuples --


def flat_name(found: KeyTuple) -> str:
    """The readable name of a tuple, of at most 255 bytes."""
    return shortened(whole_name(found), found.data)


def whole_name(found: KeyTuple) -> str:
    """The same, however long it is."""
    if not found.canonical:
        return ODD + found.data.hex()
    return ",".join(map(element_name, found.values)) or EMPTY


def hex_name(data: bytes) -> str:
    """The bytes in hex, of at most 255 bytes."""
    return shortened(data.hex() or EMPTY, data)


def shortened(name: str, named: bytes, limit: int = MAX_BYTES) -> str:
    """*name* itself, or the beginning of it and a digest of what is *named*, if it is longer than *limit*."""
    if len(name) <= limit // 4 or len(name.encode()) <= limit:
        return name
    return stem(name) + CUT + hashlib.sha256(named).hexdigest()[:_DIGEST]


def stem(name: str) -> str:
    """The longest beginning of at most 200 bytes that splits no escape and no character."""
    unit = re.compile("..") if _HEX.fullmatch(name) else _UNIT
    size = end = 0
    for match in unit.finditer(name):
        size += len(match[0].encode())
        if size > MAX_STEM:
            break
        end = match.end()
    return name[:end]


def parse_flat(name: str, dialect: Dialect) -> bytes | CutName | None:
    """The encoded tuple of a readable name, the bound of a cut one, or None where it names nothing."""
    cut = _CUT_NAME.fullmatch(name)
    if cut:
        return CutName(_bound_of(cut[1], dialect), cut[2])
    try:
        data = _parse_whole(name, dialect)
        if flat_name(keys.decode_tuple(data, dialect)) == name:
            return data
    except (ValueError, OverflowError, CorruptMember):
        pass
    return None


def _parse_whole(name: str, dialect: Dialect) -> bytes:
    if name == EMPTY:
        return b""
    if name.startswith(ODD):
        return bytes.fromhex(name[len(ODD) :])
    return keys.encode_tuple(map(parse_element, name.split(",")), dialect)


def parse_hex(name: str) -> bytes | CutName | None:
    """The bytes a hex name stands for, the bound of a cut one, or None."""
    cut = _CUT_NAME.fullmatch(name)
    if cut:
        return CutName(bytes.fromhex(cut[1]), cut[2]) if _HEX.fullmatch(cut[1]) else None
    if name == EMPTY:
        return b""
    return bytes.fromhex(name) if _HEX.fullmatch(name) and len(name) <= MAX_BYTES else None


def _bound_of(beginning: str, dialect: Dialect) -> bytes:
    """The bytes with which every key begins whose name begins so; at worst none."""
    if beginning.startswith(ODD):
        digits = beginning[len(ODD) :]
        digits = digits[: len(digits) // 2 * 2]
        return bytes.fromhex(digits) if _HEX.fullmatch(digits) else b""
    *whole, last = beginning.split(",")
    try:
        data = keys.encode_tuple(map(parse_element, whole), dialect)
        if last[:1] not in ("R", "T"):
            return data
        known = _unescaped(last[1:])
    except (ValueError, OverflowError):
        return b""
    groups = keys.encode_string(known, dialect)[: len(known) * 8 // 7]
    # Bit 7 marks the end in one dialect; what is only begun has it set.
    return data + (b"\x28" if last[0] == "R" else b"\x32") + bytes(group | 0x80 for group in groups)


# -- names of collections, counters and encodings --


def cname(name: bytes, limit: int = MAX_BYTES) -> str:
    """The file name of a collection: letters and some signs as they are, other bytes as ``%XX``."""
    text = name.decode("utf-8", "surrogateescape")
    shown = "".join(_cname_unit(character, at) for at, character in enumerate(text)) or "%"
    return _shortened_cname(shown, name, limit)


def encoding_name(idx: int, name: bytes) -> str:
    """The file name of an encoding: its number, and its name as that of a collection."""
    head = f"{idx:03d}-"
    return head + cname(name, MAX_BYTES - len(head))


def _cname_unit(character: str, at: int) -> str:
    if character in _CNAME_PLAIN or (character == "." and at) or (character > "\x7f" and _is_letter(character)):
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogateescape"))


def _is_letter(character: str) -> bool:
    return unicodedata.category(character).startswith("L")


def _shortened_cname(shown: str, name: bytes, limit: int) -> str:
    if len(shown.encode()) <= limit:
        return shown
    size = end = 0
    for match in re.finditer(r"%[0-9A-F]{2}|.", shown, re.DOTALL):
        size += len(match[0].encode())
        if size > MAX_STEM:
            break
        end = match.end()
    return shown[:end] + CUT + hashlib.sha256(name).hexdigest()[:_DIGEST]


def parse_cname(shown: str) -> bytes | None:
    """The name a new collection of that file name would have; None where there is none."""
    if shown == "%":
        return b""
    pieces = re.split(r"((?:%[0-9A-F]{2})+)", shown)
    name = b"".join(
        bytes.fromhex(piece.replace("%", "")) if at % 2 else piece.encode("utf-8", "surrogatepass")
        for at, piece in enumerate(pieces)
    )
    return name if cname(name) == shown else None


_CNAME_PLAIN = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_:=@+ -")
