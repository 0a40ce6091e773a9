"""What changed between two map files: by key, cell by cell, or row by row where there is no key.  Pure functions.

Rows are held packed (``marshal``, of our own making), about as large as the text they come from; there is a limit.
"""

from __future__ import annotations

import csv
import io
import marshal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from archivefs.errors import LimitExceeded
from archivefs.formats.crawls.maps import MapRows, Row

KEYS = (
    "sharepoint_unique_file_id",
    "openai_file_id",
    "file_relative_path",
    "server_relative_url",
    "sharepoint_listitem_id",
)
"""Columns that can name a row, the best first."""
CONTENT = frozenset({"filename", "server_relative_url", "file_size", "last_modified_utc"})
"""Another value here means another file; the rest is churn, such as times of download."""
HEADER = ("change", "key", "column", "old", "new")
MAX_ROWS = 1_000_000

_PLAIN = 2
"""The last version of marshal in which equal rows are equal bytes."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Table(NamedTuple):
    """A map file that is held in memory."""

    header: Row
    rows: list[bytes]


class Change(NamedTuple):
    """A row that is in both files and differs."""

    key: str
    cells: Sequence[tuple[str, str, str]]
    """Column, old, new; in the order of the new header."""


class Difference(NamedTuple):
    """What changed, each list in the order of keys."""

    key: str | None
    removed: Sequence[str]
    added: Sequence[str]
    changed: Sequence[Change]
    unchanged: int
    changed_content: int
    columns_added: Sequence[str]
    columns_removed: Sequence[str]

    def summary(self, baseline: str | None) -> dict[str, object]:
        """As ``summary.json`` shows it."""
        return {
            "baseline": baseline,
            "key": self.key,
            "added": len(self.added),
            "removed": len(self.removed),
            "changed": len(self.changed),
            "changed_content": self.changed_content,
            "unchanged": self.unchanged,
            "columns_added": list(self.columns_added),
            "columns_removed": list(self.columns_removed),
        }

    def lines(self) -> Iterator[tuple[str, str, str, str, str]]:
        """The lines of the ``.diff.csv``, without its header."""
        for key in self.removed:
            yield "removed", key, "", "", ""
        for key in self.added:
            yield "added", key, "", "", ""
        for key, cells in self.changed:
            for column, old, new in cells:
                yield "changed", key, column, old, new


def load(rows: MapRows) -> Table:
    """All rows of a map file; raises LimitExceeded."""
    packed: list[bytes] = []
    for row, extra in rows:
        packed.append(marshal.dumps(row + extra, _PLAIN))
        if len(packed) > MAX_ROWS:
            raise LimitExceeded(f"more than the {MAX_ROWS} rows that can be compared")
    return Table(rows.header, packed)


def compare(old: Table | None, new: Table | None) -> Difference:
    """What changed; a side that is missing counts as empty, with the other's header."""
    if old is None:
        old = Table(new.header if new else [], [])
    if new is None:
        new = Table(old.header, [])
    for name in KEYS:
        if name in old.header and name in new.header:
            before, after = _by_key(old, name), _by_key(new, name)
            if before is not None and after is not None:
                return _compare_by_key(old, new, name, before, after)
    return _compare_rows(old, new)


def _by_key(table: Table, name: str) -> dict[str, bytes] | None:
    """The rows by that column; None where it is empty or there twice."""
    column, found = table.header.index(name), {}
    for packed in table.rows:
        key = marshal.loads(packed)[column]
        if not key or key in found:
            return None
        found[key] = packed
    return found


def _compare_by_key(
    old: Table, new: Table, name: str, before: Mapping[str, bytes], after: Mapping[str, bytes]
) -> Difference:
    common = [(column, old.header.index(column), at) for at, column in enumerate(new.header) if column in old.header]
    same_header = old.header == new.header
    changed: list[Change] = []
    content = unchanged = 0
    for key, packed in after.items():
        other = before.get(key)
        if other is None:
            continue
        cells = (
            [] if same_header and other == packed else _differing(marshal.loads(other), marshal.loads(packed), common)
        )
        if cells:
            changed.append(Change(key, cells))
            content += any(column in CONTENT for column, _, _ in cells)
        else:
            unchanged += 1
    return Difference(
        key=name,
        removed=sorted(key for key in before if key not in after),
        added=sorted(key for key in after if key not in before),
        changed=sorted(changed, key=lambda change: change.key),
        unchanged=unchanged,
        changed_content=content,
        **_columns(old, new),
    )


def _differing(old: Row, new: Row, common: Sequence[tuple[str, int, int]]) -> list[tuple[str, str, str]]:
    return [(column, old[was], new[now]) for column, was, now in common if old[was] != new[now]]


def _compare_rows(old: Table, new: Table) -> Difference:
    """Without a key a row is its own: it can only come and go; repeated rows count one by one."""
    before, after = Counter(map(_line, old.rows)), Counter(map(_line, new.rows))
    return Difference(
        key=None,
        removed=sorted((before - after).elements()),
        added=sorted((after - before).elements()),
        changed=(),
        unchanged=sum((before & after).values()),
        changed_content=0,
        **_columns(old, new),
    )


def _columns(old: Table, new: Table) -> dict[str, list[str]]:
    return {
        "columns_added": [name for name in new.header if name not in old.header],
        "columns_removed": [name for name in old.header if name not in new.header],
    }


def _line(packed: bytes) -> str:
    return csv_line(marshal.loads(packed))[:-2]


def csv_line(cells: Sequence[object]) -> str:
    """One line of CSV with its end."""
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue()


def safe_cell(cell: object) -> object:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def write_csv(difference: Difference, write: Callable[[str], object], *, safe: bool) -> None:
    """The ``.diff.csv``."""
    write(csv_line(HEADER))
    for line in difference.lines():
        write(csv_line([safe_cell(cell) for cell in line] if safe else line))
