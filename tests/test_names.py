"""Member names as file names, and links that may be shown."""

from __future__ import annotations

import hashlib

import pytest

from archivefs.names import (
    escape_component,
    hidden,
    link_stays_inside,
    numbered,
    splits_at_backslash,
    unescape_component,
)

ESCAPED = [
    (b"plain.txt", "plain.txt"),
    (b" spaces and ~$*? ", " spaces and ~$*? "),
    ("žluťoučký \u2603".encode(), "žluťoučký \u2603"),
    (b"", "^empty"),
    (b".", "^2E"),
    (b"..", "^2E^2E"),
    (b"...", "..."),
    (b"a/b", "a^2Fb"),
    (b"nul\0", "nul^00"),
    (b"line\nbreak", "line^0Abreak"),
    (b"del\x7f", "del^7F"),
    ("next\x85line".encode(), "next^C2^85line"),
    ("right\u202eleft".encode(), "right^E2^80^AEleft"),
    ("\u2066".encode(), "^E2^81^A6"),
    (b"latin \xe9\xff", "latin ^E9^FF"),
    (b"overlong \xc0\xaf", "overlong ^C0^AF"),
    (b"surrogate \xed\xa0\x80", "surrogate ^ED^A0^80"),
    (b"x^2", "x^2"),
    (b"^", "^"),
    (b"^5E", "^5E5E"),
    (b"^ab", "^ab"),
    (b"^ABC", "^5EABC"),
    (b"^empty", "^5Eempty"),
    (b"^empty.txt", "^empty.txt"),
    (b"x^~0123456789abcdef01234567", "x^5E~0123456789abcdef01234567"),
    (b"u" * 255, "u" * 255),
]


@pytest.mark.parametrize(("raw", "name"), ESCAPED)
def test_escaped_and_back(raw: bytes, name: str) -> None:
    assert escape_component(raw) == name
    assert unescape_component(name) == raw


def digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:24]


@pytest.mark.parametrize(
    ("raw", "stem"),
    [
        (b"n" * 300, "n" * 224),
        ("ř".encode() * 200, "ř" * 112),
        (b"x" + "ř".encode() * 200, "x" + "ř" * 111),
        (b"\xff" * 100, "^FF" * 74),
    ],
)
def test_a_long_name_keeps_whole_characters_and_gets_a_digest(raw: bytes, stem: str) -> None:
    name = escape_component(raw)
    assert name == f"{stem}^~{digest(raw)}"
    assert len(name.encode()) <= 250
    assert unescape_component(name) is None


@pytest.mark.parametrize(
    ("encoding", "raw", "name"),
    [
        ("cp437", b"caf\x82", "café"),
        ("latin-1", b"\x85", "^C2^85"),
        ("cp932", b"\x83\x5c.txt", "ソ.txt"),
        ("ascii", b"\xc3\xa9", "^C3^A9"),
        ("cp1252", b"\x81 \x80", "^81 €"),
    ],
)
def test_other_encodings(encoding: str, raw: bytes, name: str) -> None:
    assert escape_component(raw, encoding) == name
    assert unescape_component(name, encoding) == raw


def test_numbers_fit_in() -> None:
    assert numbered("a.txt", 2) == "a.txt~2"
    assert numbered("u" * 255, 17) == "u" * 252 + "~17"
    assert len(numbered("é" * 127, 1000).encode()) <= 255
    assert numbered("^FF" * 85, 2) == "^FF" * 84 + "~2"


def test_a_reserved_name_is_shown_under_another() -> None:
    assert hidden(".archivefs") == "^2Earchivefs"
    assert unescape_component("^2Earchivefs") == b".archivefs"
    assert escape_component(b"^2Earchivefs") != "^2Earchivefs"


def test_which_encodings_have_only_true_backslashes() -> None:
    assert all(map(splits_at_backslash, ("utf-8", "cp437", "latin-1", "koi8-r")))
    assert not any(map(splits_at_backslash, ("cp932", "shift_jis", "gb18030", "big5")))


class TestLinks:
    @pytest.mark.parametrize(
        "target",
        ["name", "a/b/c", "..", "../..", "../x", "../../x/y", "./x", "x/./y", "x//y", "x/", "...", "..x/y", "x" * 4095],
    )
    def test_that_stay_inside(self, target: str) -> None:
        assert link_stays_inside(("a", "b"), target)

    @pytest.mark.parametrize(
        "target",
        [
            "",
            "/",
            "/etc/passwd",
            "../../..",
            "../../../x",
            "x/..",
            "x/../y",
            "../x/../../../y",
            "./../../../x",
            "good\0/etc/passwd",
            "x" * 4096,
            "é" * 2048,
        ],
    )
    def test_that_may_not(self, target: str) -> None:
        assert not link_stays_inside(("a", "b"), target)

    def test_nothing_above_the_top_may_be_reached(self) -> None:
        assert link_stays_inside(("a", "b", "c"), "../x", ("a", "b"))
        assert not link_stays_inside(("a", "b", "c"), "../../x", ("a", "b"))
        assert not link_stays_inside(("a",), "x", ("a", "b"))
        assert not link_stays_inside(("z", "b"), "x", ("a",))
