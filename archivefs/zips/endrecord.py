"""Where a zip's central directory lies: the end record, its zip64 extension, and what to do when they lie.

Used by ``directory.py`` only.  The rules, from APPNOTE 4.3.14 to 4.3.16 and from what is met in the wild:

* The end record is looked for in the last 65557 bytes, from the back.  One whose comment reaches exactly to the
  end of the file is preferred, so that a signature inside a comment does not count.
* The directory must end where the end record (or the zip64 end record) begins.  When something stands before
  the archive (a self-extracting stub), the offsets count from where the archive really starts.
* When size and offset contradict each other, the place where a record stands whose member exists is taken, and
  the contradiction is reported.  When there is none, the archive is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from archivefs.errors import CorruptArchive, UnreadableArchive
from archivefs.zips.source import SourceFile

END = struct.Struct("<4s4HIIH")
END_SIGNATURE = b"PK\5\6"
LOCATOR = struct.Struct("<4sIQI")
LOCATOR_SIGNATURE = b"PK\6\7"
END64 = struct.Struct("<4sQHHIIQQQQ")
END64_SIGNATURE = b"PK\6\6"
RECORD_SIGNATURE = b"PK\1\2"
LOCAL_SIGNATURE = b"PK\3\4"
RECORD_OFFSET = struct.Struct("<4s38xI")

MAX_COMMENT = 0xFFFF
MAX_CANDIDATES = 32
"""How many end records are tried: a tail full of them must not cost minutes."""
ALL16, ALL32 = 0xFFFF, 0xFFFFFFFF


class Problem(NamedTuple):
    """Something odd in the structure of an archive that can be read all the same."""

    code: str
    where: str
    message: str


class Layout(NamedTuple):
    """Where the parts of an archive lie in its file."""

    directory_start: int
    directory_size: int
    """As claimed; what is parsed may be longer, up to ``directory_end``."""
    directory_end: int
    start: int
    """What has to be added to every offset in the archive."""
    entries: int
    exact_count: bool
    """False where only the low 16 bits of the count are known."""
    comment: bytes
    problems: list[Problem]


class _Claim(NamedTuple):
    """What an end record says."""

    at: int
    disk: int
    entries: int
    size: int
    offset: int
    exact_count: bool
    comment: bytes


def find_layout(source: SourceFile) -> Layout:
    """Find the central directory; raises UnreadableArchive or CorruptArchive."""
    base = max(0, source.size - END.size - MAX_COMMENT)
    tail = source.pread(source.size - base, base)
    ends = list(_candidates(tail))
    if not ends:
        raise _no_end(source)
    exact = [at for at in ends if at + END.size + END.unpack_from(tail, at)[7] == len(tail)]
    for at in (exact or ends)[:MAX_CANDIDATES]:
        problems = []
        if not exact:
            problems.append(Problem("zip-trailing", "", "bytes follow the end of the archive, or its comment is cut"))
        elif len(exact) > 1:
            problems.append(Problem("zip-comment", "", "the comment holds another end record; the last one counts"))
        layout = _layout(source, tail, base, at, problems)
        if layout:
            return layout
    raise CorruptArchive("the central directory is not where the end record says", archive=source.path)


def _candidates(tail: bytes) -> Iterator[int]:
    """Where end records may begin, from the back."""
    at = tail.rfind(END_SIGNATURE, 0, max(0, len(tail) - END.size + len(END_SIGNATURE)))
    while at >= 0:
        yield at
        at = tail.rfind(END_SIGNATURE, 0, at + len(END_SIGNATURE) - 1)


def _no_end(source: SourceFile) -> UnreadableArchive:
    if not source.size:
        return UnreadableArchive("not a zip: the file is empty", archive=source.path)
    if source.pread(min(4, source.size), 0) != LOCAL_SIGNATURE:
        return UnreadableArchive("not a zip: there is no end record", archive=source.path)
    problem = "the zip has no end record: the file seems to be cut off"
    return UnreadableArchive(problem, archive=source.path, advice="get it again, or mend it with zip -FF")


def _layout(source: SourceFile, tail: bytes, base: int, at: int, problems: list[Problem]) -> Layout | None:
    claim, end = _read_claim(source, tail, base, at, problems)
    if claim.disk:
        raise UnreadableArchive(
            f"this is part {claim.disk + 1} of a split zip",
            archive=source.path,
            advice="join the parts first: zip -s 0",
        )
    if not claim.size and not claim.entries:
        return Layout(end, 0, end, 0, 0, claim.exact_count, claim.comment, problems)
    found = _directory_start(source, claim, end)
    if found is None:
        return None
    start, shift = found
    if start + claim.size != end:
        problems.append(Problem("zip-structure", "", "the end record gives a wrong size of the central directory"))
    elif start != claim.offset + shift:
        problems.append(Problem("zip-structure", "", "the end record gives a wrong place of the central directory"))
    return Layout(start, claim.size, end, shift, claim.entries, claim.exact_count, claim.comment, problems)


def _read_claim(source: SourceFile, tail: bytes, base: int, at: int, problems: list[Problem]) -> tuple[_Claim, int]:
    """What is claimed, and where the directory must end."""
    _, disk, _, _, count, size, offset, length = END.unpack_from(tail, at)
    comment = tail[at + END.size : at + END.size + length]
    claim = _Claim(base + at, disk, count, size, offset, False, comment)
    found = _zip64(source, claim.at)
    if found is None:
        return claim, claim.at
    place, pointed, (disk64, count64, size64, offset64) = found
    if (
        ALL16 not in (disk, count)
        and ALL32 not in (size, offset)
        and (count, size, offset) != (count64, size64, offset64)
    ):
        problems.append(Problem("zip-structure", "", "the two end records contradict each other"))
        return claim, (place if place >= size and offset + size <= place else claim.at)
    if not pointed and place - size64 == offset64:
        problems.append(Problem("zip-structure", "", "the zip64 locator points elsewhere than to the zip64 end record"))
    use = _Claim(claim.at, disk64 if disk == ALL16 else disk, count64, size64, offset64, True, comment)
    return use, place


def _zip64(source: SourceFile, end_at: int) -> tuple[int, bool, tuple[int, int, int, int]] | None:
    """Where the zip64 end record lies, whether the locator agrees, and (disk, count, size, offset)."""
    at = end_at - LOCATOR.size
    if at < END64.size:
        return None
    signature, _disk, pointed, _disks = LOCATOR.unpack(source.pread(LOCATOR.size, at))
    if signature != LOCATOR_SIGNATURE:
        return None
    # the adjacent one first: it is right also behind a stub, and no other can be meant
    for place in (at - END64.size, pointed):
        if place + END64.size > at:
            continue
        fields = END64.unpack(source.pread(END64.size, place))
        if fields[0] == END64_SIGNATURE and place + 12 + fields[1] == at:
            return place, place == pointed, (fields[4], fields[7], fields[8], fields[9])
    return None


def _directory_start(source: SourceFile, claim: _Claim, end: int) -> tuple[int, int] | None:
    """Where the first record stands, and what has to be added to every offset.

    The record so far before the end as the size says, with whatever stands before the archive taken into account;
    if the size lies, the one at the offset; if the offset lies, the first again, with nothing before the archive.
    Of these the first whose member is where it should be is taken, and if there is none, the first at all.
    """
    before_end = end - claim.size
    places = [(before_end, max(0, before_end - claim.offset)), (claim.offset, 0), (before_end, 0)]
    good = [(place, shift) for place, shift in places if 0 <= place <= end - 46 and _record_at(source, place)]
    for place, shift in good:
        local = RECORD_OFFSET.unpack(source.pread(RECORD_OFFSET.size, place))[1]
        if local == ALL32 or (local + shift + 4 <= place and source.pread(4, local + shift) == LOCAL_SIGNATURE):
            return place, shift
    return good[0] if good else None


def _record_at(source: SourceFile, place: int) -> bool:
    return source.pread(4, place) == RECORD_SIGNATURE
