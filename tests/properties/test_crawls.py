"""Crawls under arbitrary input: names, texts, and differences against a naive comparison."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from archivefs.errors import ArchiveError, CorruptMember
from archivefs.formats.crawls import metadata, unified
from archivefs.formats.crawls.diffing import compare, csv_line, load
from archivefs.formats.crawls.maps import MapRows, typed
from archivefs.formats.crawls.naming import ACTIONS, MODES, SCOPES, parse_file_name, parse_id

CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"), max_size=6)
DOMAINS = st.text(st.sampled_from("ab]_[.-ü "), min_size=1, max_size=12).filter(lambda text: text not in (".", ".."))
COLUMNS = st.lists(
    st.sampled_from(["openai_file_id", "sharepoint_listitem_id", "filename", "file_size", "note", "x"]),
    unique=True,
    min_size=1,
    max_size=5,
)


@given(st.datetimes(), DOMAINS, st.sampled_from(ACTIONS), st.sampled_from(SCOPES), st.sampled_from(MODES))
def test_names_are_read_as_they_were_put_together(time, domain, action, scope, mode) -> None:
    stamp = f"{time.year:04}-{time:%m-%d_%H-%M-%S}"
    name = parse_id(f"{stamp}_[{domain}]_{action}_{scope}_{mode}")
    assert name is not None
    assert (name.stamp, name.domain_id, name.action, name.scope, name.mode) == (stamp, domain, action, scope, mode)


@given(st.text(max_size=80))
def test_any_name_is_taken_or_refused(text: str) -> None:
    name = parse_file_name(text)
    assert name is None or name.file_name == text


@given(st.binary(max_size=300), st.integers(1, 20))
def test_any_bytes_are_a_map_file_or_an_error(raw: bytes, piece: int) -> None:
    try:
        rows = MapRows(raw[start : start + piece] for start in range(0, len(raw), piece))
        as_object = typed(rows.header)
        for row, extra in rows:
            assert len(row) == len(rows.header)
            json.dumps(as_object(row, extra))
    except CorruptMember:
        pass
    assert len(set(rows.header)) == len(rows.header)


@given(
    st.binary(max_size=200)
    | st.recursive(st.none() | st.booleans() | st.text(), st.lists).map(json.dumps).map(str.encode)
)
def test_any_bytes_are_metadata_or_an_error(raw: bytes) -> None:
    try:
        json.dumps(metadata.parse(raw, None).data, allow_nan=False)
    except ArchiveError as error:
        assert str(error).isprintable()


@st.composite
def tables(draw) -> tuple[list[str], list[list[str]]]:
    header = draw(COLUMNS)
    few = st.sampled_from(["", "a", "b", "ä", "1", "x,y", 'q"', "two\nlines"])
    return header, draw(st.lists(st.lists(few, min_size=len(header), max_size=len(header)), max_size=6))


def as_text(table: tuple[list[str], list[list[str]]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([table[0], *table[1]])
    return text.getvalue().encode()


KEYS = [
    "sharepoint_unique_file_id",
    "openai_file_id",
    "file_relative_path",
    "server_relative_url",
    "sharepoint_listitem_id",
]


def naive(old, new) -> tuple[str | None, list[tuple[str, ...]]]:
    """The same by the letter of the rules, without any thought for speed."""
    (old_header, old_rows), (new_header, new_rows) = old, new
    for key in KEYS:
        if key not in old_header or key not in new_header:
            continue
        before = [row[old_header.index(key)] for row in old_rows]
        after = [row[new_header.index(key)] for row in new_rows]
        if all(len(set(keys)) == len(keys) and "" not in keys for keys in (before, after)):
            lines = [("removed", one, "", "", "") for one in sorted(before) if one not in after]
            lines += [("added", one, "", "", "") for one in sorted(after) if one not in before]
            for one in sorted(set(before) & set(after)):
                was, now = old_rows[before.index(one)], new_rows[after.index(one)]
                for column in new_header:
                    if column in old_header and was[old_header.index(column)] != now[new_header.index(column)]:
                        pair = was[old_header.index(column)], now[new_header.index(column)]
                        lines.append(("changed", one, column, *pair))
            return key, lines
    left, right = ([csv_line(row)[:-2] for row in rows] for rows in (old_rows, new_rows))
    gone, come = Counter(left) - Counter(right), Counter(right) - Counter(left)
    lines = [("removed", row, "", "", "") for row in sorted(gone.elements())]
    return None, lines + [("added", row, "", "", "") for row in sorted(come.elements())]


@settings(max_examples=300)
@given(tables(), tables())
def test_a_difference_is_what_a_naive_one_is(old, new) -> None:
    found = compare(load(MapRows([as_text(old)])), load(MapRows([as_text(new)])))
    # a row of one empty cell is a blank line, which is no row
    key, lines = naive(
        *((header, [row for row in rows if row != [""] or len(header) > 1]) for header, rows in (old, new))
    )
    if all(len(header) > 1 for header, _ in (old, new)):
        assert (found.key, list(found.lines())) == (key, lines)
    summary = found.summary(None)
    assert summary["removed"] + summary["changed"] + summary["unchanged"] == len(load(MapRows([as_text(old)])).rows)
    assert summary["added"] + summary["changed"] + summary["unchanged"] == len(load(MapRows([as_text(new)])).rows)


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\r\n", "\n", "d"]), max_size=30)


@settings(max_examples=300)
@given(LINES, LINES, st.booleans())
def test_a_unified_diff_leads_from_one_text_to_the_other(old, new, small: bool) -> None:
    old, new = (unified.split_lines("".join(lines)) for lines in (old, new))
    limit, unified.SMALL_LINES = unified.SMALL_LINES, 2000 if small else 3
    try:
        diff = "".join(unified.unified_diff(old, new, from_label="a", to_label="b"))
    finally:
        unified.SMALL_LINES = limit
    assert applied(old, diff) == new


def applied(old: list[str], diff: str) -> list[str]:
    """What the diff makes of *old*."""
    if not diff:
        return old
    made: list[str] = []
    at, last = 0, ""
    for line in unified.split_lines(diff)[2:]:
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            begin = int(start) - (0 if count == "0" else 1)
            made += old[at:begin]
            at = begin
        elif line.startswith("\\"):
            if made and last != "-":
                made[-1] = made[-1][:-1]
        else:
            last = line[0]
            if last in " -":
                assert old[at].rstrip("\n") == line[1:].rstrip("\n")
                at += 1
            if last in " +":
                made.append(line[1:])
    return made + old[at:]
