"""A little YAML, written one field a line, so that nothing but text tools is needed to read it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from uuid import UUID

from archivefs.formats.centidb import keyjson
from archivefs.formats.centidb.keys import Moment

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./+-]*(?::[A-Za-z0-9_./+-]+)*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def mapping(fields: Mapping[str, object]) -> str:
    """``name: value`` for each."""
    return "".join(f"{_key(name)}: {scalar(value)}\n" for name, value in fields.items())


def sequence(values: Iterable[object]) -> str:
    """``- value`` for each; bytes that can be read are repeated as a comment."""
    lines = [f"- {scalar(value)}{_comment(value)}\n" for value in values]
    return "".join(lines) or "[]\n"


def scalar(value: object) -> str:
    """One value on one line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, bytes):
        return f'!!binary "{base64.b64encode(value).decode()}"'
    if isinstance(value, Moment):
        return keyjson.moment_text(value)
    if isinstance(value, UUID):
        return f'"{value}"'
    return _text(str(value))


def name_value(name: bytes) -> str | bytes:
    """A name as text, where it is UTF-8."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return scalar(text.encode("utf-8", "surrogatepass"))
    return '"' + "".join(map(_character, text)) + '"'


def _character(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_]+", name) else _text(name)


def _comment(value: object) -> str:
    if not isinstance(value, bytes) or not value:
        return ""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return ""
    return f"  # {text}" if text.isprintable() else ""
