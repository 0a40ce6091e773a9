"""The rules for ``extmime`` and for each key of the manifest by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from archivefs.format import Finding
from archivefs.formats.labrador import bitsy
from archivefs.formats.labrador.bitsy import BitsyError
from archivefs.formats.labrador.extmime import is_legal_key
from archivefs.formats.labrador.findings import error, line, notice
from archivefs.formats.labrador.keys import ESCAPED_INDEX, INDEX, MAX_KEY_LENGTH, is_plain, normalize_name
from archivefs.formats.labrador.keyvalue import records, wrong_lines

_DIGEST = re.compile(r"[0-9A-Fa-f]{64}")
_SHOWN_BYTES = 60


def extmime_findings(data: bytes) -> Iterator[Finding]:
    """What is wrong with ``extmime``."""
    yield from _syntax("extmime", data)
    seen: set[str] = set()
    for number, key, _ in records(data):
        if not is_legal_key(key):
            message = f"{key} is no legal extension: lower case is expected, and a StrictName after a."
            yield error("extmime-key", line("extmime", number), message)
        if key in seen:
            yield error("extmime-duplicate-key", line("extmime", number), f"{key} has a type already")
        seen.add(key)


def manifest_findings(data: bytes) -> Iterator[Finding]:
    """What is wrong with each line of the manifest."""
    yield from _syntax("manifest", data)
    noncanonical: set[str] = set()
    for number, key, value in records(data):
        where = line("manifest", number)
        if not is_plain(key.lower()):
            yield from _component_findings(key.split("/"), where, noncanonical)
        if len(key) > MAX_KEY_LENGTH:
            yield error(
                "key-too-long", where, f"the key has {len(key)} characters, at most {MAX_KEY_LENGTH} are allowed"
            )
        if not _DIGEST.fullmatch(value):
            yield error("digest-format", where, _digest_problem(value))


def _component_findings(names: list[str], where: str, noncanonical: set[str]) -> Iterator[Finding]:
    for problem in filter(None, map(_problem, names)):
        yield error(problem.code, where, problem.message)
    for name in filter(_is_noncanonical, names):
        if name.lower() not in noncanonical:  # a directory is mentioned once
            noncanonical.add(name.lower())
            yield notice("noncanonical-name", where, f"{name} is not how an encoder writes this name")
    if any(name.lower().startswith(INDEX) for name in names[:-1]):
        yield error("key-directory-index", where, f"no directory may begin with {INDEX}")


def _syntax(file: str, data: bytes) -> Iterator[Finding]:
    for number, text in wrong_lines(data):
        shown = text[:_SHOWN_BYTES].decode("ascii", "backslashreplace")
        yield error("kv-syntax", line(file, number), f"is no record: {shown!r}")


def _digest_problem(value: str) -> str:
    if len(value) != 64:
        return f"digest has {len(value)} characters, expected 64"
    return "digest holds something else than hexadecimal digits"


class _Problem(NamedTuple):
    code: str
    message: str


@lru_cache(1 << 14)
def _problem(name: str) -> _Problem | None:
    """The first thing that is wrong with one component."""
    if name in (".", ".."):
        return _Problem("key-dot-name", f"no component may be {name}")
    if not bitsy.is_strict_name(name):
        return _Problem("key-strictname", f"{name or 'an empty component'} is not a StrictName")
    try:
        decoded = bitsy.decode(name)
    except BitsyError as problem:
        return _Problem("key-bitsy", f"{name} is no Bitsy name: {problem.problem}")
    if decoded in (".", ".."):
        return _Problem("key-dot-name", f"{name} means {decoded}")
    try:
        normalize_name(name)
    except BitsyError as problem:
        return _Problem("key-normalize", f"{name} has no normalization: {problem.problem}")
    return None


@lru_cache(1 << 14)
def _is_noncanonical(name: str) -> bool:
    """Is it legal, but not what an encoder would write?  The escape of ``index.`` is a writer's own."""
    name = name.lower()
    if not name or name.startswith((INDEX, ESCAPED_INDEX)) or _problem(name):
        return False
    return normalize_name(name).lower() != name
