"""Crawls for people at a terminal: plain lines, nothing in them that a terminal would act on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archivefs.errors import quoted
from archivefs.formats.crawls.comparing import Comparer, Comparison
from archivefs.formats.crawls.diffing import Difference, safe_cell

MAX_CELL = 60
MAX_COLUMNS = 6
MAX_SHOWN = 50
"""Rows of one kind that are printed; the rest is counted.  ``diffs/`` has them all."""


def list_lines(data: Mapping[str, Any]) -> Iterator[str]:
    """The answer to a listing as a table."""
    rows = [("CRAWL", "STARTED", "SECONDS", "OK")]
    for crawl in data["crawls"]:
        ok = {True: "yes", False: "FAILED", None: "?"}[crawl["ok"]]
        rows.append((crawl["crawl_id"], crawl["started_utc"] or "?", _text(crawl["duration_seconds"]), ok))
    yield from _table(rows)
    for warning in data.get("warnings", ()):
        yield quoted(f"not readable: {warning['crawl_id']}: {warning['error']}")
    shown, total = len(data["crawls"]), data["total"]
    yield f"{shown} of {total} crawls" if shown != total else f"{total} crawl{'' if total == 1 else 's'}"


def metadata_lines(data: Mapping[str, Any]) -> Iterator[str]:
    """The metadata of a crawl, a key a line; sources as a table below."""
    sources = data.get("sources")
    plain = {key: value for key, value in data.items() if key != "sources"}
    width = max(map(len, plain), default=0)
    for key, value in plain.items():
        yield quoted(f"{key:{width}}  {value if isinstance(value, str) else json.dumps(value)}").rstrip()
    if isinstance(sources, list) and sources:
        yield ""
        yield from _table([("SOURCE", "TOTAL", "ADDED", "CHANGED", "REMOVED", "FAILED"), *map(_source, sources)])


def _source(source: Any) -> tuple[str, ...]:
    if not isinstance(source, dict):
        return ("?",) * 6
    counts = ("items_total", "items_added", "items_changed", "items_removed", "items_failed")
    return (f"{source.get('source_type')}/{source.get('source_id')}", *(_text(source.get(name)) for name in counts))


def row_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The rows of a map file: the first columns of a wide table."""
    if rows:
        columns = list(rows[0])[:MAX_COLUMNS]
        yield from _table([columns, *([_text(row.get(column)) for column in columns] for row in rows)])
        if len(rows[0]) > MAX_COLUMNS:
            yield f"({len(rows[0]) - MAX_COLUMNS} more columns: --format csv or --json)"
    yield f"{len(rows)} row{'' if len(rows) == 1 else 's'}"


# -- differences --


def difference_lines(comparer: Comparer, comparison: Comparison, old: str, new: str) -> Iterator[str]:
    """What changed: a heading for each map file, then a line for each row and each cell."""
    yield quoted(f"--- {old}")
    yield quoted(f"+++ {new}")
    if not comparison.pairs:
        yield "no map files to compare"
    for pair in comparison.pairs:
        difference = comparer.difference(pair)
        yield ""
        yield f"{quoted(pair.member)}: {_counts(difference)}"
        for sign, keys in (("-", difference.removed), ("+", difference.added)):
            for key in keys[:MAX_SHOWN]:
                yield f"  {sign} {_cell(comparer, key)}"
            yield from _rest(len(keys))
        for change in difference.changed[:MAX_SHOWN]:
            yield f"  ~ {_cell(comparer, change.key)}"
            for column, before, after in change.cells:
                yield f"      {_cell(comparer, column)}: {_cell(comparer, before)} -> {_cell(comparer, after)}"
        yield from _rest(len(difference.changed))


def _rest(number: int) -> Iterator[str]:
    if number > MAX_SHOWN:
        yield f"    … and {number - MAX_SHOWN} more"


def _counts(difference: Difference) -> str:
    counts = {
        "removed": len(difference.removed),
        "added": len(difference.added),
        "changed": len(difference.changed),
        "unchanged": difference.unchanged,
    }
    text = ", ".join(f"{number} {word}" for word, number in counts.items() if number) or "no rows"
    columns = [f"+{name}" for name in difference.columns_added] + [f"-{name}" for name in difference.columns_removed]
    return f"{text}; columns {quoted(' '.join(columns))}" if columns else text


def _cell(comparer: Comparer, text: str) -> str:
    shown = quoted(str(safe_cell(text) if comparer.safe_csv else text))
    return (shown if len(shown) <= 2 * MAX_CELL else shown[: 2 * MAX_CELL - 1] + "…") or "(empty)"


# -- tables --


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    shown = [[_short(cell, first=number == 0) for number, cell in enumerate(row)] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _short(cell: str, *, first: bool) -> str:
    text = quoted(cell)
    return text if first or len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…"
