"""URL <-> path for any URL at all: one path each, read back exactly, nothing longer than a file system takes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from archivefs import urlnames
from archivefs.urlnames import (
    INDEX_NAMES,
    Shortened,
    directory_path,
    escape,
    index_name,
    leaf_name,
    marked_path,
    marked_path_of_record,
    record_path,
    split_url,
    unescape,
    url_of,
)

AWKWARD = "/?#^:.~%@[]=& \0\n\x1f\x7f\x85\u2028\u202e\u2066\u00e9e\u0301\u2603\U0001f600aAzZ019"


def as_stored(raw: bytes) -> str:
    """A URL as a database gives it."""
    return raw.decode("utf-8", "surrogateescape")


texts = st.text(st.sampled_from(AWKWARD), max_size=40) | st.text(max_size=40).filter(
    lambda text: not any("\ud800" <= character <= "\udfff" for character in text)
)
raw_bytes = st.binary(max_size=40).map(as_stored)
pieces = texts | raw_bytes | st.tuples(texts, st.integers(200, 400)).map(lambda two: (two[0] + "s") * two[1])
urls = st.one_of(
    texts,
    raw_bytes,
    st.tuples(st.sampled_from(["https://", "HTTP://", "mailto:", "file:///", "x" * 70 + "://", "//", ":"]), pieces).map(
        "".join
    ),
    st.lists(pieces, max_size=5).map(lambda some: "https://" + "/".join(some)),
).map(lambda url: as_stored(url.encode("utf-8", "surrogateescape")))


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://h.example:8080/a/", "https/h.example:8080/a/^index"),
        ("https://h/a?x=1&u=/b/c", "https/h/a?x=1&u=^2Fb^2Fc"),
        ("https://h/?q=1", "https/h/?q=1"),
        ("https://h//x/../y%2Fz#f", "https/h/^empty/x/^2E^2E/y%2Fz#f"),
        ("file:///etc/passwd", "file/^empty/etc/passwd"),
        ("data:text/plain,hi", "data:/text^2Fplain,hi"),
        ("https://h/^index", "https/h/^5Eindex"),
        ("https://h.example", "https/h.example"),
        ("https://h.example?q", "https/h.example?q"),
        ("no scheme at all", "^noscheme/no scheme at all"),
        ("", "^noscheme/^index"),
        ("mailto:", "mailto:/^index"),
        ("HTTPS://H/a", "HTTPS/H/a"),
        ("https://h/new\nline", "https/h/new^0Aline"),
        ("https://h/\udcff", "https/h/^FF"),
        ("https://h/\u202egpj.exe", "https/h/^E2^80^AEgpj.exe"),
        ("https://h/\u2603", "https/h/\u2603"),
        ("https://h/./..", "https/h/^2E/^2E^2E"),
        ("https://h/...", "https/h/..."),
        ("x" * 65 + ":y", "^noscheme/" + "x" * 65 + ":y"),
        ("x" * 64 + ":y", "x" * 64 + ":/y"),
    ],
)
def test_what_the_rule_says(url: str, path: str) -> None:
    assert "/".join(marked_path(url)) == path
    assert url_of(marked_path(url)) == url


@given(urls)
@example("https://h/" + "\u2603" * 100)
@example("https://h/" + "^" * 100)
@example("https://h/" + "s" * 250)
@example("https://h/" + "s" * 251)
def test_every_url_has_a_path_that_leads_back(url: str) -> None:
    parts = marked_path(url)
    for name in parts:
        assert name not in ("", ".", "..")
        assert "/" not in name
        assert "\0" not in name
        assert len(name.encode("utf-8")) <= urlnames.MAX_NAME_BYTES
    back = url_of(parts)
    if isinstance(back, Shortened):
        pieces = split_url(url)
        assert any(back.is_name_of(piece) for piece in (*pieces.directories, pieces.leaf))
    else:
        assert back == url


@given(urls, urls)
def test_two_urls_have_two_paths(one: str, two: str) -> None:
    assert (marked_path(one) == marked_path(two)) == (one == two)


@given(st.lists(st.text(st.sampled_from("^2EFindexmpty~.aS/"), max_size=12), min_size=1, max_size=4))
def test_a_path_that_is_read_is_the_one_that_is_written(names: list[str]) -> None:
    """Any other spelling is no name at all, so nothing is reachable under two marked paths."""
    for parts in (("https", "h", *names), ("^noscheme", *names), ("mailto:", *names)):
        url = url_of(parts)
        assert url is None or isinstance(url, Shortened) or marked_path(url) == parts


@given(pieces)
def test_one_name_leads_back_to_one_piece(piece: str) -> None:
    piece = as_stored(piece.encode("utf-8", "surrogateescape"))
    name = escape(piece)
    back = unescape(name)
    if isinstance(back, Shortened):
        assert back.is_name_of(piece)
        assert not back.is_name_of(piece + "x")
        assert piece.startswith(back.stem)
    else:
        assert back == (piece or None)


def test_a_stem_ends_at_a_whole_character() -> None:
    snow = "\u2603" * 100
    name = escape(snow)
    assert name.startswith("\u2603" * 74 + "^~")
    assert len(name.encode("utf-8")) == 74 * 3 + 2 + 24
    marks = escape("\u2028" * 40)
    assert marks.startswith("^E2^80^A8" * 24 + "^~")
    bytes_alone = escape("\udce2/^" * 30)
    assert bytes_alone.startswith("^E2^2F^5E" * 24 + "^E2^2F^~")


@pytest.mark.parametrize("name", ["^5e", "^41", "^2Ea", "^C3^A9", "^", "^~", "^~" + "0" * 24 + "x", "a^2Fb", "^zz"])
def test_what_the_writer_would_not_write_is_not_read(name: str) -> None:
    assert url_of(("https", "h", name)) is None


@pytest.mark.parametrize("top", ["", ":", "1x", "a b", "^other", "x" * 65, "https:x"])
def test_a_first_name_is_a_scheme(top: str) -> None:
    assert url_of((top, "a")) is None


def test_index_names() -> None:
    assert index_name("text/html") == "index.html"
    assert index_name("application/rss+xml") == "index.xml"
    assert index_name("image/svg+xml") == "index.svg"
    assert index_name("application/octet-stream") == index_name(None) == "index"
    assert index_name("image/png") in INDEX_NAMES
    assert all(leaf_name(name) == name for name in INDEX_NAMES)


def test_a_directory_has_a_path_of_its_own() -> None:
    assert directory_path("https://h/a//b/") == ("https", "h", "a", "^empty", "b")
    assert directory_path("https://") == ("https",)
    for none in ("https://h/a", "https://h/?a/", "mailto:a/", "/rooted/", ""):
        assert directory_path(none) is None


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://h/d", "https/h/d.yaml"),
        ("https://h/d/", "https/h/d/^index.yaml"),
        ("https://h/d.yaml/x", "https/h/d.yaml^dir/x.yaml"),
    ],
)
def test_records_never_meet_directories(url: str, path: str) -> None:
    assert "/".join(record_path(url)) == path


@given(urls)
def test_a_record_path_leads_back(url: str) -> None:
    parts = record_path(url)
    assert all(len(name.encode("utf-8")) <= 255 for name in parts)
    assert marked_path_of_record(parts) == marked_path(url)


@given(urls, urls)
def test_two_records_never_collide(one: str, two: str) -> None:
    """Neither is the other's path, nor a directory of it."""
    first, second = record_path(one), record_path(two)
    assert (first == second) == (one == two)
    assert one == two or first != second[: len(first)]
