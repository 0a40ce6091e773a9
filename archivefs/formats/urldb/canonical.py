"""Canonical text: the one way in which this project writes a document (specification 2.4).

Block style, sorted keys, lists at their key's indent, text raw and unfolded.  A scalar that was plain and is no string
(a number, a date) stays as it was written; a string is plain where that reads back, else in single quotes, else in
double ones.  Pure functions; any thread may call them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from archivefs.formats.urldb.values import Mapping, Scalar, Sequence, Value, is_null, is_text, kind_of, words_of

LISTS = frozenset({"cnames", "categories"})
"""Sorted and unique; other lists keep their order."""
TEXTS = frozenset({"_path", "content-sha256", "content-type"})
"""Strings whatever they look like."""
MAX_SIMPLE_KEY = 120

_SURELY_PLAIN = re.compile(r"[A-Za-z0-9/_](?:[!\"$-~]*[!\"$-9;-~])?")
_NEVER_FIRST = frozenset("#,[]{}&*!|>'\"%@`")
_BREAKS_PLAIN = re.compile(r": |:$| #|^---|^\.\.\.|^[-?:](?: |$)|^[ \t]|[ \t]$|\t")
_SPECIAL = re.compile("[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010fffe]")
_ESCAPES = {"\0": "\\0", "\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v", "\f": "\\f", "\r": "\\r"}
_ESCAPES |= {"\x1b": "\\e", '"': '\\"', "\\": "\\\\", "\x85": "\\N", "\u2028": "\\L", "\u2029": "\\P"}


def document(mapping: Mapping | None, eol: str = "\n") -> str:
    """A document with its marker line; None or an empty mapping is a bare marker."""
    lines = ["---", *(_mapping_lines(mapping, top=True) if mapping else ())]
    return eol.join(lines) + eol


def text(mapping: Mapping, eol: str = "\n") -> str:
    """The same without the marker line."""
    return "".join(line + eol for line in _mapping_lines(mapping, top=True))


def _mapping_lines(mapping: Mapping, *, top: bool = False) -> Iterator[str]:
    values = {key.text: value for key, value in mapping.items}  # of two the last
    for key in sorted(values):
        value = values[key]
        if top and key in LISTS and not isinstance(value, Mapping):
            value = _sorted_list(value)
        elif top and key in TEXTS and isinstance(value, Scalar) and not (value.plain and value.text == ""):
            value = Scalar(value.text, False, 0)
        yield from _entry_lines(quoted(key), value)


def _sorted_list(value: Value) -> Value:
    if isinstance(value, Sequence) and not all(isinstance(item, Scalar) for item in value.items):
        return value
    return Sequence([Scalar(word, False, 0) for word in sorted(set(words_of(value)))], 0)


def _entry_lines(key: str, value: Value) -> Iterator[str]:
    head = f"{key}:"
    if len(key) > MAX_SIMPLE_KEY:
        yield f"? {key}"
        head = ":"
    if isinstance(value, Scalar):
        yield f"{head} {scalar(value)}"
    elif not value.items:
        yield f"{head} {_empty(value)}"
    elif isinstance(value, Sequence):
        yield head
        yield from _sequence_lines(value)
    else:
        yield head
        yield from (f"  {line}" for line in _mapping_lines(value))


def _sequence_lines(sequence: Sequence) -> Iterator[str]:
    for item in sequence.items:
        if isinstance(item, Scalar):
            yield f"- {scalar(item)}"
        elif not item.items:
            yield f"- {_empty(item)}"
        else:
            inner = _mapping_lines(item) if isinstance(item, Mapping) else _sequence_lines(item)
            yield from (f"{'  ' if number else '- '}{line}" for number, line in enumerate(inner))


def _empty(value: Sequence | Mapping) -> str:
    return "[]" if isinstance(value, Sequence) else "{}"


def scalar(value: Scalar) -> str:
    """One scalar: what is no string as it was written, a string as plainly as possible."""
    if value.plain and not is_text(value):
        return "null" if is_null(value) and not value.text else value.text
    return quoted(value.text)


def quoted(word: str) -> str:
    """A string."""
    if _SURELY_PLAIN.fullmatch(word) and kind_of(word) == "str" and not word.startswith(("---", "...")):
        return word
    if _SPECIAL.search(word):
        return '"' + _SPECIAL_OR_QUOTE.sub(_escape, word) + '"'
    if not word or word[0] in _NEVER_FIRST or _BREAKS_PLAIN.search(word) or kind_of(word) != "str":
        return "'" + word.replace("'", "''") + "'"
    return word


_SPECIAL_OR_QUOTE = re.compile(_SPECIAL.pattern + r'|["\\]')


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
