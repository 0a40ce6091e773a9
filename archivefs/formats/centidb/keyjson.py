"""Keys as JSON, for ``archivefs centidb key --json-lines``, and as a person would write them.  Specification §10."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import UUID

from archivefs.formats.centidb import keynames, keys
from archivefs.formats.centidb.dialects import Dialect
from archivefs.formats.centidb.keys import Element, Moment


def decoded(line: Any, dialect: Dialect) -> dict[str, object]:
    """The answer to a JSON string of hex; raises ValueError or CorruptMember."""
    if not isinstance(line, str) or not re.fullmatch("(?:[0-9a-fA-F]{2})*", line):
        raise ValueError("a JSON string of hex is expected")
    tuples = keys.decode_key(bytes.fromhex(line), dialect)
    return {
        "tuples": [[element_json(value) for value in found.values] for found in tuples],
        "canonical": all(found.canonical for found in tuples),
    }


def encoded(line: Any, dialect: Dialect) -> dict[str, object]:
    """The answer to a JSON list of tuples; raises ValueError."""
    if not isinstance(line, list) or not line or not all(isinstance(part, list) for part in line):
        raise ValueError("a JSON list of at least one tuple is expected")
    tuples = [[element_from_json(element) for element in part] for part in line]
    return {"key": keys.encode_key(tuples, dialect).hex()}


def element_json(value: Element) -> list[object]:
    """One element."""
    if value is None:
        return ["none"]
    if isinstance(value, bool):
        return ["bool", value]
    if isinstance(value, int):
        return ["int", str(value)]
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    if isinstance(value, str):
        return ["text", value.encode("utf-8", "surrogatepass").hex()]
    if isinstance(value, UUID):
        return ["uuid", str(value)]
    return ["time", value.millis, value.minutes]


def element_from_json(element: Any) -> Element:
    """The element that JSON stands for; raises ValueError."""
    match element:
        case ["none"]:
            return None
        case ["bool", bool(value)]:
            return value
        case ["int", str(digits)] if re.fullmatch("-?[0-9]{1,20}", digits, re.ASCII):
            return int(digits)
        case ["bytes", str(digits)]:
            return _from_hex(digits)
        case ["text", str(digits)]:
            return _from_hex(digits).decode("utf-8", "surrogatepass")
        case ["uuid", str(text)] if text == str(UUID(text)):
            return UUID(text)
        case ["time", int(millis), int(minutes)] if not isinstance(millis, bool) and not isinstance(minutes, bool):
            return Moment(millis, minutes // keys.QUARTER_MINUTES + 64)
    raise ValueError('an element such as ["int", "5"] is expected')


def _from_hex(digits: str) -> bytes:
    if not re.fullmatch("(?:[0-9a-fA-F]{2})*", digits):
        raise ValueError("hex digits are expected")
    return bytes.fromhex(digits)


# -- for people --


def tuple_text(values: tuple[Element, ...]) -> str:
    """``('user', 613, b'x')``."""
    inner = ", ".join(map(element_text, values))
    return f"({inner},)" if len(values) == 1 else f"({inner})"


def element_text(value: Element) -> str:
    """One element, as a person would write it."""
    if isinstance(value, Moment):
        return moment_text(value)
    return str(value) if isinstance(value, UUID) else repr(value)


def moment_text(moment: Moment) -> str:
    """``2013-08-22T17:19:29.123+01:00``, in its own zone."""
    local = Moment(moment.millis + moment.minutes * 60000, 64)
    sign, minutes = ("-", -moment.minutes) if moment.minutes < 0 else ("+", moment.minutes)
    zone = timedelta(minutes=minutes) // timedelta(hours=1)
    return f"{keynames.utc_text(local)}{sign}{zone:02d}:{minutes % 60:02d}"
