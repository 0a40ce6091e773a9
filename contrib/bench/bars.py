"""What archivefs is held to, each as a ratio within one run; a bar that is missed is shown, and is no failure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from contrib.bench.cases import MOUNT, MOUNT_AGAIN
from contrib.bench.results import Results, Row
from contrib.bench.table import seconds, times
from contrib.bench.tools import UNPACKED

FULL_SPEED = 1e9
"""Bytes a second for a stored member, unless the disk is slower than twice that."""


class Verdict(NamedTuple):
    """One bar and how it went."""

    bar: str
    seen: str
    kept: bool


def verdicts(results: Results, *, member_size: int) -> list[Verdict]:
    """All bars for which this run has the figures."""
    found: list[Verdict] = []
    for rule in (_transports, _unpacked, _seconds, _first_mount):
        found += rule(results)
    found += _stored(results, member_size)
    found += _peers(results)
    return found


def _transports(results: Results) -> Iterator[Verdict]:
    for measure in ("find -ls, cold", "grep -r, cold"):
        ratio = _ratio(results, Row("files", measure), "archivefs/fusepy", "archivefs/kernel")
        if ratio is not None:
            yield Verdict(f"files, {measure}: fusepy / kernel >= 2", times(ratio), ratio >= 2)


WARM = 1.3
_WITHIN = {Row("files, stored", "grep -r, cold"): 3.0, Row("deflated", "200 random, after a pass"): 3.0}


def _unpacked(results: Results) -> Iterator[Verdict]:
    ours = results.ours()
    for row in results.rows:
        most = WARM if row.measure.endswith(", warm") else _WITHIN.get(row)
        ratio = _ratio(results, row, ours.label, UNPACKED) if ours and most else None
        if most and ratio is not None:
            bar = f"{row.case}, {row.measure}: archivefs / unpacked <= {most:g}"
            yield Verdict(bar, times(ratio), ratio <= most)


def _ratio(results: Results, row: Row, above: str, below: str) -> float | None:
    tools = results.tool(above), results.tool(below)
    if row not in results.rows or tools[0] is None or tools[1] is None:
        return None
    one, other = results.best(row, tools[0]), results.best(row, tools[1])
    return one / other if one and other else None


_AT_MOST_S = (("start", MOUNT, 0.25), ("labrador", MOUNT, 2.0), ("million", MOUNT_AGAIN, 0.3))


def _seconds(results: Results) -> Iterator[Verdict]:
    ours = results.ours()
    for case, measure, most in _AT_MOST_S:
        row = Row(case, measure)
        value = results.best(row, ours) if ours is not None and row in results.rows else None
        if value is not None:
            yield Verdict(f"{case}, {measure}: < {most:g} s", seconds(value), value < most)


def _stored(results: Results, size: int) -> Iterator[Verdict]:
    row, ours, unpacked = Row("stored", "sequential, cold"), results.ours(), results.tool(UNPACKED)
    if row not in results.rows or ours is None or unpacked is None:
        return
    value, limit = results.best(row, ours), results.best(row, unpacked)
    if value and limit:
        wanted = min(FULL_SPEED, size / limit / 2)
        bar = f"stored, sequential, cold: >= {wanted / 1e6:.0f} MB/s (1 GB/s or half of the disk)"
        yield Verdict(bar, f"{size / value / 1e6:.0f} MB/s", size / value >= wanted)


def _first_mount(results: Results) -> Iterator[Verdict]:
    row, ours = Row("million", MOUNT), results.ours()
    peer = results.best_peer(row) if row in results.rows else None
    value = results.best(row, ours) if ours and peer else None
    if peer and value:
        tool, other = peer
        seen = f"{seconds(value)}, {tool.name} {seconds(other)}"
        yield Verdict("million, mount: no slower than the fastest peer", seen, value <= other)


def _peers(results: Results) -> Iterator[Verdict]:
    """Ahead of every peer, row by row; only the rows where it is not are named."""
    ours = results.ours()
    rows = [row for row in results.rows if ours and results.at_least(row, ours) and results.best_peer(row)]
    for bar, in_bytes in (("ahead of every peer in every row", False), ("memory below every peer's", True)):
        chosen = [row for row in rows if row.in_bytes == in_bytes]
        behind = [row for row in chosen if _behind(results, row)]
        if chosen:
            names = f" (not: {'; '.join(f'{row.case}, {row.measure}' for row in behind)})" if behind else ""
            yield Verdict(bar, f"{len(chosen) - len(behind)} of {len(chosen)}{names}", not behind)


def _behind(results: Results, row: Row) -> bool:
    ours, peer = results.ours(), results.best_peer(row)
    value = results.at_least(row, ours) if ours else None
    return value is not None and peer is not None and value > peer[1]
