"""A unified diff of two texts that may have hundreds of thousands of lines.

Small texts are left to ``difflib``.  On large ones its time grows with the square of the lines, so those are first cut
at the lines that are there once in both texts and in the same order (the "patience" way); only the short stretches
between such lines are compared one by one, and a long stretch with none counts as replaced.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

SMALL_LINES = 2000
"""Up to so many lines on both sides together ``difflib`` is quick enough."""
CONTEXT = 3
NO_NEWLINE = "\\ No newline at end of file\n"

Opcode = tuple[str, int, int, int, int]


def split_lines(text: str) -> list[str]:
    """Lines with their ends, cut at newlines alone: a cell may hold whatever else ends a line elsewhere."""
    lines = text.split("\n")
    last = lines.pop()
    return [line + "\n" for line in lines] + ([last] if last else [])


def unified_diff(old: Sequence[str], new: Sequence[str], *, from_label: str, to_label: str) -> Iterator[str]:
    """The lines of the diff; nothing where the texts are the same."""
    begun = False
    for group in _groups(_opcodes(old, new)):
        if not begun:
            begun = True
            yield f"--- {from_label}\n"
            yield f"+++ {to_label}\n"
        first, last = group[0], group[-1]
        yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from _marked(" ", old[i1:i2])
            else:
                yield from _marked("-", old[i1:i2])
                yield from _marked("+", new[j1:j2])


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield mark + line
        if not line.endswith("\n"):
            yield "\n" + NO_NEWLINE


def _range(start: int, stop: int) -> str:
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _opcodes(old: Sequence[str], new: Sequence[str]) -> list[Opcode]:
    if len(old) + len(new) <= SMALL_LINES:
        return list(difflib.SequenceMatcher(None, old, new).get_opcodes())
    found: list[Opcode] = []
    i = j = 0
    for a, b in [*_anchors(old, new), (len(old), len(new))]:
        _add_stretch(found, old, new, (i, a, j, b))
        if a < len(old):
            _add(found, "equal", a, a + 1, b, b + 1)
        i, j = a + 1, b + 1
    return found


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Lines that are there once in both texts, as long a chain of them as keeps the order."""
    once_old = {line for line, count in Counter(old).items() if count == 1}
    once_new = {line for line, count in Counter(new).items() if count == 1}
    place = {line: number for number, line in enumerate(new) if line in once_new and line in once_old}
    pairs = [(number, place[line]) for number, line in enumerate(old) if line in place]
    # the longest increasing chain of second numbers
    ends: list[int] = []
    at: list[int] = []
    before = [-1] * len(pairs)
    for number, (_, b) in enumerate(pairs):
        length = bisect_left(ends, b)
        if length:
            before[number] = at[length - 1]
        ends[length : length + 1] = [b]
        at[length : length + 1] = [number]
    chain = []
    step = at[-1] if at else -1
    while step >= 0:
        chain.append(pairs[step])
        step = before[step]
    return chain[::-1]


def _add_stretch(found: list[Opcode], old: Sequence[str], new: Sequence[str], span: tuple[int, int, int, int]) -> None:
    i1, i2, j1, j2 = span
    if i2 - i1 and j2 - j1 and i2 - i1 + j2 - j1 <= SMALL_LINES:
        for tag, a1, a2, b1, b2 in difflib.SequenceMatcher(None, old[i1:i2], new[j1:j2]).get_opcodes():
            _add(found, tag, i1 + a1, i1 + a2, j1 + b1, j1 + b2)
    elif i2 - i1 or j2 - j1:
        tag = "replace" if i2 - i1 and j2 - j1 else "delete" if i2 - i1 else "insert"
        _add(found, tag, i1, i2, j1, j2)


def _add(found: list[Opcode], tag: str, i1: int, i2: int, j1: int, j2: int) -> None:
    """Add it to what is there, or to the last one if that is of the same kind."""
    if found and tag == "equal" == found[-1][0]:
        _, a, _, b, _ = found[-1]
        found[-1] = ("equal", a, i2, b, j2)
    else:
        found.append((tag, i1, i2, j1, j2))


def _groups(opcodes: Sequence[Opcode]) -> Iterator[list[Opcode]]:
    """Changes with a little of what is equal around them."""
    group: list[Opcode] = []
    for number, (tag, i1, i2, j1, j2) in enumerate(opcodes):
        if tag != "equal":
            group.append((tag, i1, i2, j1, j2))
            continue
        last = number == len(opcodes) - 1
        if group and (i2 - i1 > 2 * CONTEXT or last):
            keep = min(CONTEXT, i2 - i1)
            yield [*group, (tag, i1, i1 + keep, j1, j1 + keep)]
            group = []
        if last:
            return
        if group:
            group.append((tag, i1, i2, j1, j2))
        else:
            keep = min(CONTEXT, i2 - i1)
            group = [(tag, i2 - keep, i2, j2 - keep, j2)]
    if any(tag != "equal" for tag, *_ in group):
        yield group
