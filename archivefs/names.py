"""Member names of an archive as file names, and back; which symbolic links stay inside.  Pure functions.

Used by every format whose archive has names of its own (the zip family); URLs have rules of their own
elsewhere.  A name that can stand in a directory stays as it is.  What is made up is marked with ``^``:

=========================================================  ==================================================
in the archive                                             shown as
=========================================================  ==================================================
a byte that does not decode                                ``^XX``, upper-case hex
"/", NUL and other control characters, and those that      ``^XX`` for each byte of its UTF-8
change the direction of text or break lines
(U+0000–1F, 7F, 85, 2028–202E, 2066–2069)
a whole name "." or ".."                                   ``^2E``, ``^2E^2E``
an empty name                                              ``^empty``
"^" where it could be taken for one of these marks         ``^5E``
a name that would be longer than 255 bytes                 at most 224 bytes of it, ``^~`` and the first 24 hex
                                                           digits of the SHA-256 of its bytes
a name that is taken already                               the name and ``~2``, ``~3``, …
=========================================================  ==================================================

So two names that differ are shown under two names, and ``unescape_component`` finds the first from the second
(but for shortened ones, whose whole name only the archive knows).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

MAX_NAME_BYTES = 255
MAX_STEM_BYTES = 224
MAX_TARGET_BYTES = 4095
"""The longest target the kernel follows (PATH_MAX without the NUL)."""
EMPTY = "^empty"

_PLAIN = bytes(set(range(0x20, 0x7F)) - set(b"/^"))
_ODD = "/\x00-\x1f\x7f\x85\u2028-\u202e\u2066-\u2069"
_TO_ESCAPE = re.compile(rf"[{_ODD}\ud800-\udfff]|\^(?=[0-9A-F]{{2}})|\^(?=~[0-9a-f]{{24}}\Z)")
_ESCAPES = re.compile(r"(?:\^[0-9A-F]{2})+")
_SHORTENED = re.compile(r"\^~[0-9a-f]{24}\Z")
_UNIT = re.compile(r"\^[0-9A-F]{2}|.", re.DOTALL)
_MARKED = re.compile(rf"[{_ODD}.^]")


def escape_component(raw: bytes, encoding: str = "utf-8") -> str:
    """The file name for one component of a member's name, of at most 255 bytes."""
    if raw and len(raw) <= MAX_NAME_BYTES and not raw.translate(None, _PLAIN) and raw not in (b".", b".."):
        return raw.decode("ascii")
    text = raw.decode(encoding, "surrogateescape")
    if text in ("", ".", "..", EMPTY):
        return {"": EMPTY, ".": "^2E", "..": "^2E^2E", EMPTY: "^5Eempty"}[text]
    name = _TO_ESCAPE.sub(_escaped, text)
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    import hashlib  # it loads OpenSSL, and hardly any name is so long

    return f"{_cut(name, MAX_STEM_BYTES)}^~{hashlib.sha256(raw).hexdigest()[:24]}"


def unescape_component(name: str, encoding: str = "utf-8") -> bytes | None:
    """The bytes that ``escape_component`` was given; None for a shortened name, which does not say."""
    if name == EMPTY:
        return b""
    if _SHORTENED.search(name):
        return None
    pieces, at = [], 0
    for match in _ESCAPES.finditer(name):
        pieces += [name[at : match.start()].encode(encoding), _unescaped(match[0], encoding)]
        at = match.end()
    return b"".join([*pieces, name[at:].encode(encoding)])


def hidden(name: str) -> str:
    """Another name for a member whose own is reserved where it stands: its first character escaped."""
    first = "".join(f"^{byte:02X}" for byte in name[0].encode())
    return _cut(first + name[1:], MAX_NAME_BYTES)


def numbered(name: str, number: int) -> str:
    """``name~2``: what the second thing of one name is called; at most 255 bytes."""
    suffix = f"~{number}"
    return _cut(name, MAX_NAME_BYTES - len(suffix)) + suffix


def splits_at_backslash(encoding: str) -> bool:
    """Is every byte 5C of a name in that encoding a backslash?  Not in Shift-JIS, where it may be half a letter."""
    return not any(_second_half(bytes([lead, 0x5C]), encoding) for lead in range(0x80, 0x100))


def link_stays_inside(directory_parts: Sequence[str], target: str, top: Sequence[str] = ()) -> bool:
    """May a link with that *target* be shown in that directory, when nothing above *top* may be reached?

    Allowed are targets that first go up (``..``), not above *top*, and then only down, name by name.
    Why nothing shown can then lead out: think of the way the kernel goes when it follows a path inside the
    tree.  A step down into a directory stays inside.  A step down onto a link goes on at that link's own
    directory, which is inside, goes up no further than *top*, and then down.  Since ``..`` never comes after
    a name, it is only ever taken from the directory a link really lies in, whose depth is known here; it is
    never taken from where another link has led.  So by induction over the steps every one ends inside.
    """
    if not 0 < len(target.encode("utf-8", "surrogateescape")) <= MAX_TARGET_BYTES or "\0" in target or target[0] == "/":
        return False
    if tuple(directory_parts[: len(top)]) != tuple(top):
        return False
    pieces = [piece for piece in target.split("/") if piece not in ("", ".")]
    ups = next((at for at, piece in enumerate(pieces) if piece != ".."), len(pieces))
    return ".." not in pieces[ups:] and ups <= len(directory_parts) - len(top)


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"^{byte:02X}" for byte in match[0].encode("utf-8", "surrogateescape"))


def _unescaped(run: str, encoding: str) -> bytes:
    """The bytes of a run of ``^XX``: characters that are always escaped in the encoding, any other byte as it is."""
    text = bytes.fromhex(run.replace("^", "")).decode("utf-8", "surrogateescape")
    return b"".join(_original(character, encoding) for character in text)


def _original(character: str, encoding: str) -> bytes:
    if _MARKED.match(character):
        try:
            return character.encode(encoding)
        except UnicodeEncodeError:
            pass  # the encoding has no such character, so these were bytes that it could not decode
    return character.encode("utf-8", "surrogateescape")


def _cut(name: str, limit: int) -> str:
    """The longest beginning of at most *limit* bytes that ends at a whole (escaped) character."""
    if len(name.encode()) <= limit:
        return name
    length, end = 0, 0
    for match in _UNIT.finditer(name):
        length += len(match[0].encode())
        if length > limit:
            break
        end = match.end()
    return name[:end]


@lru_cache(maxsize=1024)
def _second_half(pair: bytes, encoding: str) -> bool:
    try:
        return len(pair.decode(encoding)) == 1
    except UnicodeDecodeError:
        return False
