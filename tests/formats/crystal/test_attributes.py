"""What stat and getfattr say; and that cookies are said nowhere."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from archivefs.formats.crystal.media_types import type_by_suffix
from archivefs.formats.crystal.records import content_type, error_of, fetch_time, http_time, revision_of
from archivefs.tree import Directory, File
from tests.formats.crystal.projects import SITE, file, node, opened, project, xattr
from tests.samples.crystal import HTML, TEXT, ProjectWriter, body_path
from tests.walking import content_of, walk

PAGE = "web/https/site.example/a"
NANO = 1_000_000_000


def seconds(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=timezone.utc).timestamp())  # type: ignore[arg-type]


def test_everything_that_is_known_of_a_page(tmp_path: Path) -> None:
    headers = [
        ("Content-Type", "Text/HTML; charset=utf-8"),
        ("ETag", 'W/"7"'),
        ("Last-Modified", "Wed, 01 May 2024 08:00:00 GMT"),
        ("X-Note", "caf\u00e9"),
        ("Set-Cookie", "sid=SECRET"),
        ("SET-COOKIE", "b=SECRET"),
        ("Authorization", "SECRET"),
    ]
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/a", b"12345", headers=headers, cookie="x=SECRET"))
    with opened(path) as tree:
        found = dict(node(tree, PAGE).xattrs())
        shown = json.loads(found.pop("user.archivefs.headers"))
        assert found == {
            "user.xdg.origin.url": b"https://site.example/a",
            "user.mime_type": b"text/html",
            "user.archivefs.url": b"https://site.example/a",
            "user.archivefs.content_type": b"text/html",
            "user.archivefs.revision": b"1",
            "user.archivefs.resource": b"1",
            "user.archivefs.status": b"200",
            "user.archivefs.reason": b"OK",
            "user.archivefs.date": b"2024-05-17T12:00:00Z",
            "user.archivefs.last_modified": b"2024-05-01T08:00:00Z",
            "user.archivefs.etag": b'W/"7"',
            "user.archivefs.has_cookie": b"1",
            "user.archivefs.body": b"revisions/000/000/000/000/001",
        }
        assert shown == [
            ["Content-Type", "Text/HTML; charset=utf-8"],
            ["ETag", 'W/"7"'],
            ["Last-Modified", "Wed, 01 May 2024 08:00:00 GMT"],
            ["X-Note", "caf\u00e9"],
            ["Date", "Fri, 17 May 2024 12:00:00 GMT"],
        ]
        assert node(tree, "web/https/site.example").xattrs() == {"user.archivefs.url": b"https://site.example/"}


def test_cookies_are_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fill(writer: ProjectWriter) -> None:
        for number in range(3):
            headers = [HTML, ("Set-Cookie", f"a=SECRET{number}")]
            writer.fetch(f"{SITE}/{number}", b"x", headers=headers, cookie=f"sid=SECRET{number}")
        writer.fetch(f"{SITE}/lost", None, cookie="sid=SECRET")

    path = project(tmp_path, fill)
    with opened(path) as tree:
        said = [str(dict(tree.facts()))]
        for parts, _, found, _ in walk(tree):
            said += [*parts, *(value.decode() for value in found.xattrs().values())]
            if not isinstance(found, Directory) and not (isinstance(found, File) and "lost" in str(parts)):
                said.append(str(content_of(found)))
        for capture in tree.captures(f"{SITE}/1"):
            said += [str(capture.headers), str(capture.facts)]
        for open_extra in tree.extras().values():
            said.append(str(open_extra().read_at(0, 1 << 20)))
    assert not [text for text in said if "SECRET" in text]
    assert "SECRET" not in caplog.text


def test_an_attribute_too_long_for_the_kernel_is_left_out(tmp_path: Path) -> None:
    headers = [HTML, ("X-Long", "x" * 70_000), ("ETag", "short")]
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/a", b"", headers=headers))
    with opened(path) as tree:
        assert xattr(tree, PAGE, "headers") is None
        assert xattr(tree, PAGE, "etag") == "short"


def test_metadata_that_makes_no_sense_is_said(tmp_path: Path) -> None:
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/a", b"x", metadata="{no"), release="1.3")
    with opened(path) as tree:
        assert xattr(tree, PAGE, "error") == "the metadata is not JSON"
        assert xattr(tree, PAGE, "status") is None
        assert file(tree, PAGE).attributes().size == 1


def test_half_a_surrogate_pair_does_no_harm(tmp_path: Path) -> None:
    metadata = '{"status_code": 200, "reason_phrase": "\\ud800", "headers": [["X", "\\udfff"]]}'
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/a", b"x", metadata=metadata))
    with opened(path) as tree:
        assert xattr(tree, PAGE, "reason") == "\\ud800"
        assert json.loads(xattr(tree, PAGE, "headers") or "") == [["X", "\udfff"]]


# -- times --


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("Date", "Wed, 01 May 2024 08:00:00 GMT")], seconds(2024, 5, 1, 8)),
        ([("date", "Wed, 01 May 2024 08:00:00 GMT"), ("age", "3600")], seconds(2024, 5, 1, 9)),
        ([("Date", "Wed, 01 May 2024 08:00:00 GMT"), ("Age", "-5")], seconds(2024, 5, 1, 8)),
        ([("Date", "Wed, 01 May 2024 08:00:00 GMT"), ("Age", "9" * 30)], seconds(2024, 5, 1, 8)),
        ([("Date", "yesterday")], None),
        ([("Date", "2024-05-01T08:00:00Z")], None),
        ([("Date", "Wed, 31 Feb 2024 08:00:00 GMT")], None),
        ([("Date", "Wed, 01 May 2024 08:00:00 +0000")], None),
        ([], None),
    ],
)
def test_a_page_is_as_old_as_its_date_and_age(headers: list[tuple[str, str]], expected: int | None) -> None:
    assert fetch_time(tuple(headers)) == expected


def test_without_a_date_the_file_tells_the_time(tmp_path: Path) -> None:
    def fill(writer: ProjectWriter) -> None:
        writer.fetch(f"{SITE}/a", b"x", dated=False)
        writer.fetch(f"{SITE}/lost", None, dated=False)

    path = project(tmp_path, fill)
    with opened(path) as tree:
        assert file(tree, PAGE).attributes().mtime_ns == body_path(path, 1, 2).stat().st_mtime_ns
        database_time = (path / "database.sqlite").stat().st_mtime_ns
        assert node(tree, "web/https/site.example/lost").attributes().mtime_ns == database_time


def test_the_time_may_be_that_of_the_last_change(tmp_path: Path) -> None:
    modified = [TEXT, ("Last-Modified", "Wed, 01 May 2024 08:00:00 GMT")]
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/a", b"x", headers=modified))
    with opened(path, "mtime=last-modified") as tree:
        assert file(tree, PAGE).attributes().mtime_ns == seconds(2024, 5, 1, 8) * NANO
    with opened(path) as tree:
        assert file(tree, PAGE).attributes().mtime_ns == seconds(2024, 5, 17, 12) * NANO


def test_dates_far_away() -> None:
    assert http_time("Fri, 31 Dec 9999 23:59:59 GMT") == seconds(9999, 12, 31, 23, 59, 59)
    assert http_time("Mon, 01 Jan 0001 00:00:00 GMT") == seconds(1, 1, 1)
    assert http_time("Mon, 01 Jan 0000 00:00:00 GMT") is None


# -- types and rows --


@pytest.mark.parametrize(
    ("headers", "url", "expected"),
    [
        ([("CONTENT-TYPE", "Text/HTML ; Charset=UTF-8")], "x", "text/html"),
        ([("Content-Type", "text/plain"), ("Content-Type", "text/html")], "x", "text/plain"),
        ([("Content-Type", "html")], "x", "text/plain"),
        ([("Content-Type", "a/b/c")], "x", "text/plain"),
        ([], "https://h/x.json?y=.png", "application/json"),
        ([], "https://h/x.tar.gz", "application/x-tar"),
        ([], "https://h/X.PNG#f", "image/png"),
        ([], "https://h.html", None),
        ([], "https://h/x", None),
    ],
)
def test_content_types(headers: list[tuple[str, str]], url: str, expected: str | None) -> None:
    assert content_type(tuple(headers), url) == expected


def test_the_table_of_suffixes() -> None:
    for suffix, expected in (("htm", "text/html"), ("jpeg", "image/jpeg"), ("svgz", "image/svg+xml"), ("zzz", None)):
        assert type_by_suffix(f"https://h/a.{suffix}") == expected


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'"x"', b"5", b"[" * 100_000, b'{"message": "x"}', b"\xff"])
def test_an_error_that_makes_no_sense_is_one_of_unknown_type(text: bytes) -> None:
    assert error_of(text).type == "unknown"
    assert revision_of((1, 1, text, b"null", 0)).error is not None


@pytest.mark.parametrize(
    "text",
    [b"", b"[1]", b'{"headers": 5}', b'{"headers": [["a"]]}', b'{"status_code": true, "headers": []}', b"\xff\xfe"],
)
def test_metadata_is_taken_as_far_as_it_makes_sense(text: bytes) -> None:
    revision = revision_of((1, 1, b"null", text, 0))
    assert revision.error is None
    assert revision.status is None
    assert revision.headers == ()
    assert revision.problem


def test_no_metadata_is_no_problem() -> None:
    revision = revision_of((1, 1, b"null", b"null", 1))
    assert (revision.problem, revision.status, revision.has_cookie) == (None, None, True)
