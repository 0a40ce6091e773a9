"""File names, crawl.json and map files: every rule of reading them."""

from __future__ import annotations

import json

import pytest

from archivefs.errors import CorruptMember
from archivefs.formats.crawls import metadata
from archivefs.formats.crawls.maps import MapRows, typed, unique_header
from archivefs.formats.crawls.naming import parse_file_name, parse_id, why_not
from tests.samples import crawls
from tests.samples.crawls import FIRST


@pytest.mark.parametrize(
    ("name", "domain", "action", "scope", "mode"),
    [
        ("2025-01-15_14-25-00_[TEST01]_crawl_all_full", "TEST01", "crawl", "all", "full"),
        ("2025-01-15_14-25-00_[a_b]_download_files_incremental", "a_b", "download", "files", "incremental"),
        ("2025-01-15_14-25-00_[odd]_[id]_embed_lists_full", "odd]_[id", "embed", "lists", "full"),
        (
            "2025-01-15_14-25-00_[A]_crawl_all_full]_process_sitepages_full",
            "A]_crawl_all_full",
            "process",
            "sitepages",
            "full",
        ),
        ("2025-01-15_14-25-00_[]]_crawl_all_full", "]", "crawl", "all", "full"),
        ("2025-01-15_14-25-00_[ü n]_crawl_all_full", "ü n", "crawl", "all", "full"),
        ("2024-02-29_23-59-59_[D]_crawl_all_full", "D", "crawl", "all", "full"),
        ("2025-02-01_00-00-00_D_crawl_all_full", "D_crawl", "crawl", "all", "full"),
        ("2025-02-01_00-00-00_a_all_full_all_full", "a_all_full", "crawl", "all", "full"),
    ],
)
def test_a_name_says_what_it_is(name: str, domain: str, action: str, scope: str, mode: str) -> None:
    parsed = parse_id(name)
    assert parsed is not None
    assert (parsed.domain_id, parsed.action, parsed.scope, parsed.mode) == (domain, action, scope, mode)
    assert parsed.later is ("[" not in name)
    assert parse_file_name(f"{name}.zip") == parsed


@pytest.mark.parametrize(
    "name",
    [
        "2025-02-30_00-00-00_[D]_crawl_all_full.zip",
        "2025-02-01_24-00-00_[D]_crawl_all_full.zip",
        "2025-02-01_00-00-60_[D]_crawl_all_full.zip",
        "0000-02-01_00-00-00_[D]_crawl_all_full.zip",
        "2025-2-1_00-00-00_[D]_crawl_all_full.zip",
        "2025-02-01T00-00-00_[D]_crawl_all_full.zip",
        "٢٠٢٥-02-01_00-00-00_[D]_crawl_all_full.zip",
        "2025-02-01_00-00-00_[D]_CRAWL_all_full.zip",
        "2025-02-01_00-00-00_[D]_crawl_pages_full.zip",
        "2025-02-01_00-00-00_[D]_crawl_all_partial.zip",
        "2025-02-01_00-00-00_[D]_download_data_all_full.zip",
        "2025-02-01_00-00-00_[]_crawl_all_full.zip",
        "2025-02-01_00-00-00_[.]_crawl_all_full.zip",
        "2025-02-01_00-00-00_[..]_crawl_all_full.zip",
        "2025-02-01_00-00-00_[a/b]_crawl_all_full.zip",
        "2025-02-01_00-00-00_[a\\b]_crawl_all_full.zip",
        "2025-02-01_00-00-00_[a\nb]_crawl_all_full.zip",
        "2025-02-01_00-00-00_[a\x85b]_crawl_all_full.zip",
        "2025-02-01_00-00-00_[a\udcffb]_crawl_all_full.zip",
        "2025-02-01_00-00-00_[D]_crawl_all_full.ZIP",
        "2025-02-01_00-00-00_[D]_crawl_all_full (1).zip",
        "2025-02-01_00-00-00_[D]_crawl_all_full\n.zip",
        "2025-02-01_00-00-00_[D]_crawl_all_full",
        "notes.zip",
        ".zip",
        "",
    ],
)
def test_a_bad_name_is_no_crawl_and_says_why(name: str) -> None:
    assert parse_file_name(name) is None
    assert why_not(name).startswith("not a crawl archive: ")


# -- crawl.json --


def parsed(data: object, name: str = FIRST) -> metadata.Metadata:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return metadata.parse(raw, parse_id(name))


def test_metadata_are_passed_on_as_they_are() -> None:
    data = {**crawls.metadata(FIRST), "more": {"unknown": [1, None]}}
    found = parsed(b"\xef\xbb\xbf" + json.dumps(data).encode())
    assert found.data == data
    assert found.warnings == []
    assert (found.ok, found.source_id, found.duration_seconds) == (True, None, 300)


def test_missing_and_null_are_tolerated() -> None:
    assert parsed({}).duration_seconds is None
    nothing = parsed(dict.fromkeys(crawls.metadata(FIRST)))
    assert (nothing.started_utc, nothing.ok, nothing.duration_seconds) == (None, None, None)


@pytest.mark.parametrize(
    ("started", "finished", "seconds"),
    [
        ("2025-01-15T14:00:00.900000Z", "2025-01-15T14:00:02.800000Z", 1),
        ("2025-01-15T14:00:05Z", "2025-01-15T14:00:00Z", 0),
        ("2025-01-15T14:00:00+01:00", "2025-01-15T14:00:00Z", 3600),
        ("yesterday", "2025-01-15T14:00:00Z", None),
        ("2025-13-15T14:00:00Z", "2025-01-15T14:00:00Z", None),
    ],
)
def test_durations(started: str, finished: str, seconds: int | None) -> None:
    assert parsed({"started_utc": started, "finished_utc": finished}).duration_seconds == seconds


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"[1]", "not a JSON object"),
        (b'{"a": ', "not JSON"),
        (b'{"ok": "yes"}', "'ok' has the wrong type"),
        (b'{"sources": {}}', "'sources' has the wrong type"),
        (b'{"job_id": 42}', "'job_id' has the wrong type"),
        (b'{"x": NaN}', "NaN"),
        (b'{"x": -Infinity}', "Infinity"),
        (b'{"x": 1e999}', "too large"),
        (b'{"x": "\xff"}', "not UTF-8"),
        (b"[" * 100_000, "nested"),
        (b'{"x":' * 200 + b"1" + b"}" * 200, "nested"),
    ],
)
def test_bad_metadata_are_refused(raw: bytes, problem: str) -> None:
    with pytest.raises(CorruptMember, match=problem):
        parsed(raw)


def test_brackets_in_text_are_no_nesting() -> None:
    assert parsed({"error": "[" * 500 + '\\"{' * 500}).data["error"].startswith("[[")


def test_disagreements_are_warnings() -> None:
    assert len(parsed({**crawls.metadata(FIRST), "domain_id": "ELSE", "mode": "x"}).warnings) == 2
    assert parsed(b'{"ok": true, "ok": false}').warnings == ["a key is there twice; the last counts"]


# -- map files --


def rows_of(raw: bytes, piece: int = 7) -> tuple[list[str], list[dict[str, object]], list[str]]:
    rows = MapRows(raw[start : start + piece] for start in range(0, len(raw), piece))
    as_object = typed(rows.header)
    return rows.header, [as_object(row, extra) for row, extra in rows], rows.warnings


@pytest.mark.parametrize(
    "columns",
    [
        crawls.SHAREPOINT_COLUMNS,
        crawls.FILES_COLUMNS,
        crawls.OLD_FILES_COLUMNS,
        crawls.VECTORS_COLUMNS,
        ["x", "file_size"],
    ],
    ids=["sharepoint", "files", "files of old", "vectorstore", "others"],
)
@pytest.mark.parametrize("end", ["\r\n", "\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_every_set_of_columns(columns: list[str], end: str, bom: bytes) -> None:
    numbers = {"sharepoint_listitem_id", "file_size"} | {name for name in columns if name.endswith("_timestamp")}
    row = {**crawls.item(3, filename='a "b",\r\nc'), "x": "7"}
    header, rows, warnings = rows_of(bom + crawls.table(columns, [row, {}], end=end))
    assert header == columns
    assert warnings == []
    assert rows[0] == {
        name: row[name]
        if name in numbers and name in row
        else str(row.get(name, "")) or (None if name in numbers else "")
        for name in columns
    }
    assert rows[1] == {name: None if name in numbers else "" for name in columns}


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("007", 7),
        ("", None),
        ("12e3", "12e3"),
        ("+1", "+1"),
        ("1.5", "1.5"),
        (" 1", " 1"),
        ("٣", "٣"),
    ],
)
def test_whole_numbers(cell: str, value: object) -> None:
    _, rows, _ = rows_of(f"file_size,filename\r\n{cell},{cell}\r\n".encode())
    assert rows == [{"file_size": value, "filename": cell}]


def test_a_number_of_any_length_is_harmless() -> None:
    digits = "9" * 10_000
    assert rows_of(f"file_size\n{digits}\n".encode(), 4096)[1] == [{"file_size": digits}]


def test_ragged_rows() -> None:
    header, rows, _ = rows_of(b'a,b,a\r\n1\r\n1,2,3,4,5\r\n\r\n"q')
    assert header == ["a", "b", "a_2"]
    assert rows == [
        {"a": "1", "b": "", "a_2": ""},
        {"a": "1", "b": "2", "a_2": "3", "_extra": ["4", "5"]},
        {"a": "q", "b": "", "a_2": ""},
    ]


@pytest.mark.parametrize(
    ("names", "header"),
    [
        (["a", "a", "a"], ["a", "a_2", "a_3"]),
        (["a", "a_2", "a"], ["a", "a_2", "a_3"]),
        (["a", "a", "a_2"], ["a", "a_3", "a_2"]),
        (["", ""], ["", "_2"]),
    ],
)
def test_columns_of_the_same_name(names: list[str], header: list[str]) -> None:
    assert unique_header(names) == header


def test_empty_files_and_bad_bytes() -> None:
    assert rows_of(b"") == ([], [], [])
    assert rows_of(b"a,b\r\n") == (["a", "b"], [], [])
    assert rows_of(b"\r\n\r\na\r\n1\r\n")[1] == [{"a": "1"}]
    _, rows, warnings = rows_of(b"filename\r\n\xfc\r\n")
    assert rows == [{"filename": "\ufffd"}]
    assert len(warnings) == 1
    assert rows_of(b"a\r\n" + b"x" * 300_000 + b"\r\n", 9999)[1] == [{"a": "x" * 300_000}]
