"""Options (``-o name=value``) and limits, in one place.

An option is declared once, with its parser, its default and its help; a format declares its own in its
``Format``.  ``parse`` turns what the user wrote into values; an unknown name is an error that names the
nearest known one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archivefs.errors import BadOption, UnknownOption

MEBIBYTE = 1 << 20
DEFAULT_CACHE_SIZE = 64 * MEBIBYTE
DEFAULT_TIMEOUT_S = 30.0

MAX_OWNER = 0xFFFFFFFE
"""The number after that means "nobody in particular" to the kernel."""

MAX_NUMBER = 999_999_999_999

_SWITCHES = frozenset({"on", "yes", "no", "none", "true", "false", "1", "0"})
"""What nobody calls a folder who does not say so."""
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option."""

    name: str
    help: str
    parse: Callable[[str], Any] | None = None
    """None: a flag, given without a value (``name=yes`` and ``name=no`` are understood too)."""
    default: Any = None
    metavar: str = "VALUE"
    repeatable: bool = False
    """Given several times it is a list; otherwise the last one counts."""


def parse(texts: Iterable[str], known: Sequence[Option]) -> dict[str, Any]:
    """The values of comma-separated *texts*, with the default of every option not given.

    Raises UnknownOption and BadOption.  A comma inside a value is written ``\\,``.
    """
    by_name = {option.name: option for option in known}
    values: dict[str, Any] = {option.name: [] if option.repeatable else option.default for option in known}
    for text in texts:
        for word in split(text):
            name, equals, value = word.partition("=")
            option = by_name.get(name)
            if option is None:
                raise unknown(name, by_name)
            parsed = _value(option, value if equals else None)
            if option.repeatable:
                values[name] = [*values[name], parsed]
            else:
                values[name] = parsed
    return values


def split(text: str) -> list[str]:
    """The words of ``a,b=1,c=x\\,y``; empty ones are left out."""
    words = re.split(r"(?<!\\),", text)
    return [word.replace("\\,", ",") for word in words if word]


def unknown(name: str, known: Iterable[str]) -> UnknownOption:
    """The error for an option nobody knows, naming the nearest one."""
    import difflib  # only for who has mistyped

    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    advice = f"did you mean {near[0]}?" if near else "see --help for those that exist"
    return UnknownOption(f"unknown option {name!r}", advice=advice)


def _value(option: Option, text: str | None) -> Any:
    if option.parse is None:
        return True if text is None else _value_of_flag(option, text)
    if text is None:
        raise BadOption(f"option {option.name!r} needs a value", advice=f"write {option.name}={option.metavar}")
    try:
        return option.parse(text)
    except (ValueError, LookupError) as error:
        raise BadOption(f"option {option.name}={text!r} makes no sense: {error}") from None


def _value_of_flag(option: Option, text: str) -> bool:
    words: Mapping[str, bool] = dict.fromkeys(("yes", "true", "on", "1"), True)
    words = {**words, **dict.fromkeys(("no", "false", "off", "0"), False)}
    if text.lower() not in words:
        raise BadOption(f"option {option.name}={text!r} makes no sense: yes or no is expected")
    return words[text.lower()]


# -- parsers for values --


def size(text: str) -> int:
    """``64M``, ``1.5G``, ``4096`` or ``0`` in bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", text.strip().lower())
    if not match:
        raise ValueError("a size such as 64M is expected")
    return int(float(match[1]) * _UNITS[match[2]])


def seconds(text: str) -> float:
    """A number of seconds, more than zero."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError("a number of seconds is expected") from None
    if not 0 < value < 1e9:
        raise ValueError("a number of seconds above 0 is expected")
    return value


def octal(text: str) -> int:
    """A mode mask such as ``022``."""
    if not re.fullmatch(r"[0-7]{1,4}", text):
        raise ValueError("an octal number such as 022 is expected")
    return int(text, 8)


def whole_number(text: str) -> int:
    """A number, 0 or more."""
    if not re.fullmatch(r"\d+", text):
        raise ValueError("a whole number is expected, 0 or more")
    if len(text) > len(str(MAX_NUMBER)):
        raise ValueError(f"a whole number up to {MAX_NUMBER} is expected")
    return int(text)


def owner(text: str) -> int:
    """The number of a user or group."""
    if not re.fullmatch(r"\d{1,10}", text) or int(text) > MAX_OWNER:
        raise ValueError(f"a number from 0 to {MAX_OWNER} is expected")
    return int(text)


def path(text: str) -> str:
    """The whole path of a file."""
    if not text:
        raise ValueError("a path is expected")
    return os.path.abspath(text)


def index(text: str) -> str:
    """``auto``, ``off``, or the whole path of a folder."""
    if text.lower() in ("auto", "off"):
        return text.lower()
    if not text:
        raise ValueError("auto, off or a folder is expected")
    if text.lower() in _SWITCHES:
        raise ValueError(f"auto, off or a folder is expected; write ./{text} for a folder of that name")
    return os.path.abspath(text)


def one_of(*choices: str) -> Callable[[str], str]:
    """A parser for one of a few words."""

    def parse_choice(text: str) -> str:
        if text not in choices:
            raise ValueError(f"one of {', '.join(choices)} is expected")
        return text

    return parse_choice
