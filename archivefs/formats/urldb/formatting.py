"""``urldb format``: a whole file in canonical text (specification 2.4).  Pure functions."""

from __future__ import annotations

import functools
from typing import Any

from archivefs.errors import ArchiveError
from archivefs.formats.urldb import canonical, layout
from archivefs.formats.urldb.domainfile import DomainFile
from archivefs.formats.urldb.records import SUFFIX
from archivefs.formats.urldb.values import Mapping


class FormatRefused(ArchiveError):
    """Formatting would lose something."""


def formatted(domain: DomainFile, *, dedupe: bool = False, drop_comments: bool = False, eol: bytes = b"") -> bytes:
    """The file in canonical text; raises FormatRefused.

    What cannot be read keeps its bytes and its place behind the record before it.
    """
    eol = eol or domain.eol
    if not drop_comments:
        _refuse_comments(domain)
    if domain.has_duplicates and not dedupe:
        twice = sorted({path for path in domain.paths if path is not None and domain.paths.count(path) > 1})
        advice = "--dedupe keeps the last of each"
        raise FormatRefused(f"{twice[0]} is there twice", member=domain.name + SUFFIX, advice=advice)
    pieces: list[tuple[tuple[int, str], bytes]] = []
    if domain.first == 0:
        pieces.append(((0, ""), b"---" + eol))
    key = (0, "")
    for number, path in enumerate(domain.paths):
        key = (1, path) if path is not None else key
        if number in domain.empty or (path is not None and domain.by_path[path] != number):
            continue
        pieces.append((key, _document(domain, number, eol)))
    pieces.sort(key=lambda piece: piece[0])
    return b"".join(text for _, text in pieces)


def _document(domain: DomainFile, number: int, eol: bytes) -> bytes:
    if number in domain.faults:
        body = domain.body(number)
        front = b"" if domain.layout.is_marked(number) else b"---" + eol
        return front + body + (b"" if body.endswith((b"\n", b"\r")) else eol)
    value = domain.value(number)
    return canonical.document(value if isinstance(value, Mapping) else None, eol.decode()).encode("utf-8")


def _refuse_comments(domain: DomainFile) -> None:
    lines = comment_lines(domain)
    if lines:
        where = ", ".join(map(str, lines[:10])) + (" and more" if len(lines) > 10 else "")
        problem = f"there are comments in line{'s' if len(lines) > 1 else ''} {where}"
        raise FormatRefused(problem, member=domain.name + SUFFIX, advice="--drop-comments removes them")


def comment_lines(domain: DomainFile) -> list[int]:
    """The lines with comments that formatting would lose."""
    data = domain.data
    if b"#" not in data:
        return []
    found, before = set(), 0
    for number, (start, end) in enumerate(zip(domain.layout.starts, domain.layout.ends, strict=True)):
        found |= _between(data, before, start)
        if number not in domain.faults and b"#" in domain.body(number):
            text = domain.body(number).decode("utf-8")
            line = domain.line(number)
            found |= {line + offset for offset in _comments(text)}
        before = end
    return sorted(found | _between(data, before, len(data)))


def _between(data: bytes, start: int, end: int) -> set[int]:
    first = layout.line_at(data, start)
    lines = data[start:end].splitlines()
    return {first + number for number, line in enumerate(lines) if line.lstrip().startswith(b"#")}


@functools.cache
def _yaml() -> tuple[Any, Any]:
    import yaml

    return yaml, getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _comments(text: str) -> set[int]:
    """The lines of a document, from 0, with a ``#`` outside of all tokens, or in the head of a block scalar."""
    yaml, loader = _yaml()
    found, at = set(), 0
    for token in yaml.scan(text, Loader=loader):
        start, end = token.start_mark.index, token.end_mark.index
        if getattr(token, "style", None) in ("|", ">"):
            head = text[start:end].splitlines()[0] if end > start else ""
            if "#" in head:
                found.add(_line(text, start))
        found |= {_line(text, position) for position in range(at, start) if text[position] == "#"}
        at = max(at, end)
    return found


def _line(text: str, position: int) -> int:
    return layout.breaks_in(text[:position].encode("utf-8"), 0, 1 << 62)
