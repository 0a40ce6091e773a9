"""Names: no two alike, and back to what they were."""

from __future__ import annotations

import posixpath

from hypothesis import example, given
from hypothesis import strategies as st

from archivefs.names import escape_component, link_stays_inside, numbered, unescape_component

SHORT = [
    b"^",
    b"^5E",
    b"^F",
    b"FF",
    b"5E",
    b"empty",
    b"~",
    b"~2",
    b".",
    b"..",
    b"/",
    b"\0",
    b"\n",
    b"\xff",
    b"\xc3",
    b"\xa9",
]
LONGER = ["é".encode(), "\u202e".encode(), "\x85".encode(), b"a" * 24, b"0123456789abcdef01234567", b"x" * 100]
PIECES = st.sampled_from([*SHORT, *LONGER])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
RAW = st.one_of(st.binary(max_size=40), st.lists(PIECES, max_size=6).map(b"".join), TEXTS.map(str.encode))


@given(RAW)
def test_a_name_can_stand_in_a_directory_and_leads_back(raw: bytes) -> None:
    name = escape_component(raw)
    assert name not in ("", ".", "..")
    assert not set(name) & set("/\0\n\x85\u202e")
    assert len(name.encode()) <= 255
    back = unescape_component(name)
    assert back == raw or (back is None and len(raw) > 80)


@given(RAW, RAW)
def test_two_names_never_become_one(one: bytes, two: bytes) -> None:
    assert (escape_component(one) == escape_component(two)) == (one == two)


@given(RAW, st.sampled_from(["cp437", "latin-1", "cp1252", "ascii", "koi8-r"]))
@example("\u2028".encode(), "ascii")
def test_other_encodings_lead_back_too(raw: bytes, encoding: str) -> None:
    name = escape_component(raw, encoding)
    name.encode()
    assert unescape_component(name, encoding) in (raw, None)


@given(RAW, st.integers(2, 10**7))
def test_numbered_names_fit(raw: bytes, number: int) -> None:
    name = numbered(escape_component(raw), number)
    assert name.endswith(f"~{number}")
    assert len(name.encode()) <= 255


TARGETS = st.lists(st.sampled_from(["..", ".", "", "a", "b", "..."]), max_size=8).map("/".join)


@given(st.lists(st.sampled_from("ab"), max_size=4).map(tuple), TARGETS, st.integers(0, 2))
def test_a_link_that_may_be_shown_leads_nowhere_above(parts: tuple[str, ...], target: str, depth: int) -> None:
    top = parts[:depth]
    if link_stays_inside(parts, target, top):
        where = posixpath.normpath(posixpath.join("/", *parts, target))
        root = "/" + "/".join(top)
        assert where == root or where.startswith(root.rstrip("/") + "/")
