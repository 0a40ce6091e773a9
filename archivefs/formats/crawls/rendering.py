"""Crawls as JSON rows and as HTML pages: plain functions that write into a product, a row at a time.

Every cell, header, id and message is escaped; nothing from an archive becomes a link, since ``javascript:`` stands in
``url`` columns.  The pages have a style of their own and no script, as their Content-Security-Policy demands.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from archivefs.formats.crawls.maps import EXTRA, MapRows, is_whole_number_column, typed
from archivefs.formats.crawls.products import Product

GET_URL = "/v2/crawler/crawls/get"
LIST_URL = "/v2/crawler/crawls"
LIST_COLUMNS = ("crawl_id", "action", "scope", "mode", "started_utc", "duration_seconds", "ok")

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --dim: #777; --bad: #b3261e; --good: #1b6e3c; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; padding: 0 2rem; max-width: 110rem; }
h1 { font-size: 1.25rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2rem 0 .25rem; overflow-wrap: anywhere; }
p { margin: 0 0 1rem; color: var(--dim); }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .35rem .7rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
tr:last-child td, tr:last-child th { border-bottom: 0; }
thead th { background: var(--soft); white-space: nowrap; font-weight: 600; }
tbody tr:nth-child(even) { background: #88888808; }
tbody th { width: 12rem; font-weight: 600; }
td { max-width: 32rem; overflow-wrap: break-word; white-space: pre-wrap; }
th.number { text-align: right; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.id { white-space: nowrap; font-family: ui-monospace, monospace; font-size: 13px; max-width: none; }
.bad { color: var(--bad); } .good { color: var(--good); } .none { color: var(--dim); }
a { color: inherit; }
"""

Cell = tuple[str, str]
"""The class of a cell, or nothing, and its content, escaped already."""


def page(product: Product, title: str, subtitle: str, body: Callable[[], None]) -> None:
    """A whole page around what *body* writes."""
    product.write_text(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n"
    )
    if subtitle:
        product.write_text(f"<p>{escape(subtitle)}</p>\n")
    body()
    product.write_text("</body>\n</html>\n")


def escape(text: object) -> str:
    """Safe between tags and in quotes."""
    return html.escape(str(text), quote=True)


def get_url(crawl_id: str, **more: str) -> str:
    """The URL of a crawl, or of a file of it; all but plain characters, slashes and brackets encoded."""
    query = "&".join(f"{name}={quote(value, safe=_SAFE)}" for name, value in {"crawl_id": crawl_id, **more}.items())
    return f"{GET_URL}?{query}"


_SAFE = "/[]-_.~"


# -- map files --


def write_rows(rows: MapRows, product: Product) -> int:
    """A JSON list of all rows; gives how many there are."""
    as_object = typed(rows.header)
    count = 0
    for count, (row, extra) in enumerate(rows, 1):
        product.write_text((",\n " if count > 1 else "[") + json.dumps(as_object(row, extra)))
    product.write_text("]" if count else "[]")
    return count


def write_map_page(rows: MapRows, product: Product, *, crawl_id: str, member: str) -> None:
    """A page with one table."""
    as_object = typed(rows.header)
    numbers = [is_whole_number_column(name) for name in rows.header]

    def table() -> None:
        _open_table(product, rows.header, [name for name, number in zip(rows.header, numbers, strict=True) if number])
        for row, extra in rows:
            shown = as_object(row, extra)
            cells = [_value(shown[name], number) for name, number in zip(rows.header, numbers, strict=True)]
            if extra:
                cells.append(("", escape(", ".join(shown[EXTRA]))))
            _row(product, cells)
        _close_table(product)

    page(product, member, crawl_id, table)


def _value(value: object, number: bool) -> Cell:
    return ("number" if number else "", "" if value is None else escape(value))


# -- crawls --


def write_metadata_page(data: Mapping[str, Any], product: Product, *, crawl_id: str) -> None:
    """The metadata as a table of keys and values."""

    def table() -> None:
        product.write_text('<div class="wide"><table><tbody>\n')
        for key, value in data.items():
            product.write_text(f"<tr><th>{escape(key)}</th><td>{_metadata_value(value)}</td></tr>\n")
        _close_table(product)

    page(product, crawl_id, "", table)


def _metadata_value(value: Any) -> str:
    if value is None:
        return '<span class="none">null</span>'
    if isinstance(value, (dict, list)):
        return escape(json.dumps(value, indent=2, ensure_ascii=False))
    return escape(json.dumps(value) if isinstance(value, bool) else value)


def write_list_page(data: Mapping[str, Any], product: Product) -> None:
    """The answer to a listing."""

    def tables() -> None:
        _open_table(product, LIST_COLUMNS, ["duration_seconds"])
        for crawl in data["crawls"]:
            _row(product, [_list_cell(column, crawl[column]) for column in LIST_COLUMNS])
        _close_table(product)
        if data.get("warnings"):
            product.write_text("<h2>Not readable</h2>\n<ul>\n")
            for warning in data["warnings"]:
                problem = f'<span class="bad">{escape(warning["error"])}</span>'
                product.write_text(f"<li>{escape(warning['crawl_id'])}: {problem}</li>\n")
            product.write_text("</ul>\n")

    shown, total = len(data["crawls"]), data["total"]
    count = f"{total} crawl{'' if total == 1 else 's'}"
    page(product, f"Crawls of {data['domain_id']}", count if shown == total else f"{shown} of {count}", tables)


def _list_cell(column: str, value: object) -> Cell:
    if column == "crawl_id":
        return "id", f'<a href="{escape(get_url(str(value), format="html"))}">{escape(value)}</a>'
    if column == "ok":
        text = "" if value is None else json.dumps(value)
        return "good" if value is True else "bad" if value is False else "", text
    return "number" if column == "duration_seconds" else "", "" if value is None else escape(value)


# -- differences --

SUMMARY_COLUMNS = ("added", "removed", "changed", "changed_content", "unchanged")
_MARKS = {"added": "good", "removed": "bad"}
_DIFF_COLUMNS = ("change", "key", "column", "old", "new")


def write_diff_page(
    summary: Mapping[str, Any],
    lines: Callable[[str], Iterable[Sequence[str]]],
    product: Product,
    *,
    title: str,
    subtitle: str,
) -> None:
    """The counts of all members, then the lines of each that has changed."""

    def tables() -> None:
        members: Mapping[str, Mapping[str, Any]] = summary["members"]
        _open_table(product, ("member", *SUMMARY_COLUMNS, "key", "columns"), SUMMARY_COLUMNS)
        for member, counts in members.items():
            _row(product, _summary_cells(member, counts))
        _close_table(product)
        for member, counts in members.items():
            if counts["added"] or counts["removed"] or counts["changed"]:
                product.write_text(f"<h2>{escape(member)}</h2>\n")
                _open_table(product, _DIFF_COLUMNS)
                for line in lines(member):
                    _row(product, [(_MARKS.get(line[0], ""), escape(line[0])), *_plain(line[1:])])
                _close_table(product)

    page(product, title, subtitle, tables)


def _plain(cells: Sequence[str]) -> list[Cell]:
    return [("", escape(cell)) for cell in cells]


def _summary_cells(member: str, counts: Mapping[str, Any]) -> list[Cell]:
    columns = [f"+{name}" for name in counts["columns_added"]] + [f"-{name}" for name in counts["columns_removed"]]
    numbers = [("number" if counts[name] else "number none", str(counts[name])) for name in SUMMARY_COLUMNS]
    return [("id", escape(member)), *numbers, ("", escape(counts["key"] or "")), ("", escape(" ".join(columns)))]


def write_error_page(product: Product, status: int, message: str) -> None:
    """What went wrong."""
    page(product, f"Error {status}", message, lambda: None)


# -- tables --


def _open_table(product: Product, header: Sequence[str], numbers: Sequence[str] = ()) -> None:
    marks = dict.fromkeys(numbers, ' class="number"')
    cells = "".join(f"<th{marks.get(name, '')}>{escape(name)}</th>" for name in header)
    product.write_text(f'<div class="wide"><table><thead><tr>{cells}</tr></thead><tbody>\n')


def _row(product: Product, cells: Sequence[Cell]) -> None:
    shown = "".join(f'<td class="{mark}">{text}</td>' if mark else f"<td>{text}</td>" for mark, text in cells)
    product.write_text(f"<tr>{shown}</tr>\n")


def _close_table(product: Product) -> None:
    product.write_text("</tbody></table></div>\n")
