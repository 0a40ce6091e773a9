"""Changes to a domain file, as bytes: a record put in, taken out or renamed, the metadata replaced (specification 2.5).

Documents that are not meant keep their exact bytes.  A file found unsorted comes out sorted, whole slices moved.
Pure functions; any thread may call them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from collections.abc import Mapping as AnyMapping
from typing import NamedTuple

from archivefs.errors import ContentRefused
from archivefs.formats.urldb import canonical
from archivefs.formats.urldb.domainfile import DomainFile, Splice
from archivefs.formats.urldb.layout import BOM
from archivefs.formats.urldb.records import CNAMES, SUFFIX, path_of, with_path
from archivefs.formats.urldb.values import Mapping, Scalar, Sequence, Value

New = dict[str, bytes]
"""Records to put in: path and document."""


def put(domain: DomainFile, record: Mapping) -> DomainFile | None:
    """The file with *record* in it, in the place of one with the same path; None: it is there just so."""
    path, text = path_of(record), _document(domain, record)
    number = domain.by_path.get(path)
    if not domain.is_sorted:
        return rebuilt(domain, drop=_numbers(domain, [path]), add={path: text})
    if number is not None:
        if domain.body(number) == text:
            return None
        start, end = domain.layout.lead(number), domain.layout.ends[number]
        return _splice(domain, Splice(number, number + 1, start, end, text, path))
    return _insert(domain, path, text)


def remove(domain: DomainFile, path: str) -> DomainFile:
    """The file without a record; no other byte is touched."""
    numbers = _numbers(domain, [path])
    if not domain.is_sorted or len(numbers) != 1:
        return rebuilt(domain, drop=numbers, add={})
    number = numbers.pop()
    start, end = domain.layout.lead(number), domain.layout.ends[number]
    # Where the metadata were forgotten, the next document would be taken for them.
    text = b"---" + domain.eol if number == 0 else b""
    return _splice(domain, Splice(number, number + 1, start, end, text, None))


def rename(domain: DomainFile, paths: AnyMapping[str, str]) -> DomainFile:
    """The file with other paths for some records; records at the new paths are replaced."""
    add: New = {}
    for old, new in paths.items():
        add[new] = _document(domain, with_path(domain.record(domain.by_path[old]), new))
    return rebuilt(domain, drop=_numbers(domain, [*paths, *paths.values()]), add=add)


def set_metadata(domain: DomainFile, metadata: Mapping | None) -> DomainFile:
    """The file with other metadata."""
    data, layout, text = domain.data, domain.layout, _document(domain, metadata)
    if domain.first and layout.starts:
        start, end = layout.lead(0), layout.ends[0]
    else:
        start = end = layout.lead(0) if layout.starts else len(BOM) * data.startswith(BOM)
        text += b"..." + domain.eol if 0 in layout.odd else b""
    changed = DomainFile(domain.name, data[:start] + text + data[end:], limits=domain.limits)
    return changed if changed.is_sorted else rebuilt(changed, drop=(), add={})


def add_alias(domain: DomainFile, name: str) -> DomainFile:
    """The file with one cname more."""
    return _set_aliases(domain, {*domain.metadata.cnames, name})


def remove_alias(domain: DomainFile, name: str) -> DomainFile:
    """The file with one cname less."""
    return _set_aliases(domain, {*domain.metadata.cnames} - {name})


def _set_aliases(domain: DomainFile, names: set[str]) -> DomainFile:
    if 0 in domain.faults:
        raise ContentRefused("the metadata of this domain cannot be read", member=domain.name + SUFFIX)
    old = domain.value(0) if domain.first else None
    items = [(key, value) for key, value in old.items if key.text != CNAMES] if isinstance(old, Mapping) else []
    if names:
        words: list[Value] = [Scalar(name, False, 0) for name in sorted(names)]
        items.append((Scalar(CNAMES, True, 0), Sequence(words, 0)))
    return set_metadata(domain, Mapping(items, 0) if items else None)


def _document(domain: DomainFile, record: Mapping | None) -> bytes:
    return canonical.document(record, domain.eol.decode()).encode("utf-8")


def _numbers(domain: DomainFile, paths: Collection[str]) -> set[int]:
    """The documents with one of these paths; a path may be there twice."""
    if not domain.has_duplicates:
        return {domain.by_path[path] for path in paths if path in domain.by_path}
    wanted = set(paths)
    return {number for number, path in enumerate(domain.paths) if path in wanted}


def _insert(domain: DomainFile, path: str, text: bytes) -> DomainFile:
    number = _place_of(domain, path)
    if number is None or not domain.layout.starts:
        data = domain.data
        front = b"" if not data or data.endswith((b"\n", b"\r")) else domain.eol
        front += b"" if domain.layout.starts else b"---" + domain.eol
        if front or not domain.layout.starts or domain.layout.ends[-1] != len(data):
            return DomainFile(domain.name, data + front + text, limits=domain.limits)
        number = len(domain.layout.starts)
        return _splice(domain, Splice(number, number, len(data), len(data), text, path))
    start = domain.layout.lead(number)
    if number in domain.layout.odd:  # its directives, or its missing marker, must not become part of ours
        text += b"..." + domain.eol
    return _splice(domain, Splice(number, number, start, start, text, path))


def _place_of(domain: DomainFile, path: str) -> int | None:
    """The document before which a new record belongs; None: at the end."""
    at = bisect_right(domain.sorted_paths, path)
    if at == len(domain.sorted_paths):
        return None
    following = domain.sorted_paths[at]
    return domain.paths.index(following) if domain.has_duplicates else domain.by_path[following]


def _splice(domain: DomainFile, place: Splice) -> DomainFile:
    data = domain.data
    return domain.spliced(data[: place.start] + place.text + data[place.end :], place)


# -- putting a whole file together --


class _Piece(NamedTuple):
    """A document with what belongs to it, or what is left of one."""

    key: tuple[int, str]
    text: bytes
    needs_end: bool
    """Must a ``...`` come before it?"""
    ended: bool
    """Does a ``...`` end it?"""


def rebuilt(domain: DomainFile, *, drop: Collection[int], add: New) -> DomainFile:
    """The file put together again, sorted, without some documents and with new ones."""
    data, layout = domain.data, domain.layout
    count = len(layout.starts)
    front = data[: layout.lead(0)] if count else data
    pieces = [] if domain.first and count else [_Piece((0, ""), b"---" + domain.eol, False, False)]
    key = (0, "")
    for number in range(count):
        path = domain.paths[number]
        key = (1, path) if path is not None else key  # what has no path stays behind what it followed
        start, end = layout.lead(number), layout.ends[number]
        after = layout.lead(number + 1) if number + 1 < count else len(data)
        if number in drop:
            start = end
        ended = data.startswith(b"...", end) and after > end
        if after > start:
            pieces.append(_Piece(key, data[start:after], number in layout.odd and number not in drop, ended))
    pieces += [_Piece((1, path), text, False, False) for path, text in add.items()]
    pieces.sort(key=lambda piece: piece.key)
    return DomainFile(domain.name, _joined(front, pieces, domain.eol), limits=domain.limits)


def _joined(front: bytes, pieces: list[_Piece], eol: bytes) -> bytes:
    out = [front]
    if front and front != BOM and not front.endswith((b"\n", b"\r")):
        out.append(eol)
    ended = True
    for piece in pieces:
        if piece.needs_end and not ended:
            out.append(b"..." + eol)
        out.append(piece.text)
        if not piece.text.endswith((b"\n", b"\r")):
            out.append(eol)
        ended = piece.ended
    return b"".join(out)
