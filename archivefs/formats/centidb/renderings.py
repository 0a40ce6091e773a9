"""What a value is, as far as one can tell by looking, and a safe way to show it.  Specification §4.4, §9.

For display only; the record's own file always has the bytes as they are.  Pure functions.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from archivefs.errors import CorruptMember
from archivefs.formats.centidb import keys, pickles, yamltext
from archivefs.formats.centidb.dialects import Dialect

MAX_DEPTH = 64
EXTENSIONS = {"json": ".json", "key": ".yaml", "text": ".txt", "pickle": ".pickle.txt"}


class Rendering(NamedTuple):
    """A value made readable."""

    extension: str
    data: bytes


def kind_of(data: bytes, hint: bytes, dialect: Dialect) -> str:
    """``pickle``, ``json``, ``key``, ``text`` or ``binary``."""
    hinted = hint.decode("latin-1")
    if hinted in _TESTS and _TESTS[hinted](data, dialect):
        return hinted
    for kind in ("pickle2", "json", "key", "text"):
        if _TESTS[kind](data, dialect):
            return kind.rstrip("2")
    return "binary"


def render(data: bytes, hint: bytes, dialect: Dialect, limit: int) -> Rendering | None:
    """The value made readable; None if it is binary or larger than *limit*."""
    if len(data) > limit:
        return None
    kind = kind_of(data, hint, dialect)
    if kind == "binary":
        return None
    return Rendering(EXTENSIONS[kind], _shown(kind, data, dialect, limit))


def _shown(kind: str, data: bytes, dialect: Dialect, limit: int) -> bytes:
    if kind == "json":
        return _pretty(data)[:limit]
    if kind == "key":
        return yamltext.sequence(keys.decode_tuple(data, dialect).values).encode()
    if kind == "pickle":
        return pickles.rendering(data, limit).encode("utf-8", "backslashreplace")
    return data


def _pretty(data: bytes) -> bytes:
    value = _parsed(data)
    if not _is_shallow(value, MAX_DEPTH):
        return data
    try:
        return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
    except ValueError:  # half of a surrogate pair, or a number too long to print
        return data


def _is_shallow(value: Any, depth: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(_is_shallow(one, depth - 1) for one in inner)


def _parsed(data: bytes) -> Any:
    return json.loads(data.decode(), parse_constant=_refuse)


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _is_json(data: bytes, _dialect: Dialect) -> bool:
    try:
        _parsed(data)
    except (ValueError, RecursionError):
        return False
    return True


def _is_key(data: bytes, dialect: Dialect) -> bool:
    try:
        return keys.decode_tuple(data, dialect).canonical
    except CorruptMember:
        return False


def _is_text(data: bytes, _dialect: Dialect) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


_TESTS = {
    "pickle": lambda data, _dialect: pickles.is_pickle(data),
    "pickle2": lambda data, _dialect: data[:2] == b"\x80\x02" and data[-1:] == b".",
    "json": _is_json,
    "key": _is_key,
    "text": _is_text,
}
