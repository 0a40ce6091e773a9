"""Patterns of groups and forms of URLs, for any text."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from archivefs.formats.crystal import patterns
from archivefs.formats.crystal.patterns import Pattern, _States
from archivefs.formats.crystal.urls import Alias, by_alias, forms, normal_form, percent_encoded, resolved

texts = st.text(st.sampled_from("ab1/?=&*#@\n%4é "), max_size=12)


def as_expression(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression, token by token."""
    meaning = {"**": ".*", "*": "[^/?=&]*", "#": "[0-9]+"}
    tokens = re.findall(r"\*\*|\*|#|.", pattern, re.DOTALL)
    return re.compile("".join(meaning.get(token) or re.escape(token) for token in tokens))


@given(texts, texts)
@example("a#", "a12")
@example("***", "a\nb/c")
@example("**a**", "bab")
def test_a_pattern_matches_as_its_expression_does(pattern: str, url: str) -> None:
    expected = as_expression(pattern).fullmatch(url) is not None
    made = Pattern(pattern)
    assert made.matches(url) == expected
    assert _States(re.findall(r"\*\*|\*|#|[^*#]+", pattern, re.DOTALL)).match(url) == expected
    if expected:
        assert url.startswith(made.prefix)


@pytest.mark.parametrize(
    ("pattern", "url", "matches"),
    [
        ("https://h/post/#/", "https://h/post/12/", True),
        ("https://h/post/#/", "https://h/post//", False),
        ("https://h/*", "https://h/a", True),
        ("https://h/*", "https://h/a/b", False),
        ("https://h/*", "https://h/a?q", False),
        ("https://h/**", "https://h/a/b?q", True),
        ("https://h/@", "https://h/@", True),
        ("https://h/@", "https://h/a", False),
        ("https://h/[1]", "https://h/[1]", True),
        ("", "", True),
        ("", "x", False),
    ],
)
def test_what_patterns_mean(pattern: str, url: str, matches: bool) -> None:
    assert Pattern(pattern).matches(url) is matches


@pytest.mark.parametrize(("pattern", "prefix"), [("https://h/#", "https://h/"), ("a@b", "a"), ("x", "x"), ("**", "")])
def test_the_literal_prefix(pattern: str, prefix: str) -> None:
    assert Pattern(pattern).prefix == prefix


def test_no_pattern_takes_for_ever() -> None:
    pattern = Pattern("**a" * 30)
    start = time.process_time()
    assert not pattern.matches("a" * 2000 + "b")
    assert pattern.matches("a" * 2000)
    assert time.process_time() - start < 2
    assert patterns.MAX_STEPS < 10**8


# -- forms --


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://H.Example", "https://h.example/"),
        ("HTTPS://h/A%41%2e%2F", "https://h/AA.%2F"),
        ("https://h/%7e%zz", "https://h/%257e%25zz"),
        ("https://h/a b\u00e9", "https://h/a%20b%C3%A9"),
        ("https://b\u00fccher.example/", "https://b%C3%BCcher.example/"),
        ("https://h/x#part", "https://h/x"),
        ("https://h/x#", "https://h/x#"),
        ("https://h?q=1", "https://h/?q=1"),
        ("https://h:443//a/../b", "https://h:443//a/../b"),
        ("mailto:A@B#f", "mailto:A@B"),
        ("https://h/'()!*", "https://h/'()!*"),
        ('https://h/"<>\\^`{|}', "https://h/%22%3C%3E%5C%5E%60%7B%7C%7D"),
    ],
)
def test_the_normal_form(url: str, expected: str) -> None:
    assert normal_form(url) == expected
    assert expected in list(forms(url))


any_url = st.text(st.sampled_from("htps:/.#?%4zA é&"), max_size=20) | st.binary(max_size=12).map(
    lambda raw: "https://h/" + raw.decode("utf-8", "surrogateescape")
)


@given(any_url)
def test_the_exact_form_comes_first_and_none_twice(url: str) -> None:
    found = list(forms(url))
    assert found[0] == url
    assert len(found) == len(set(found))
    assert normal_form(url) in found


@given(any_url)
def test_percent_encoding_leaves_nothing_that_must_be_encoded(url: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9\-._~!#$%&'()*+,/:;=?@\[\]]*", percent_encoded(url))


def test_the_first_alias_that_fits_is_taken_once() -> None:
    aliases = [
        Alias(1, "https://a/", "https://b/", False),
        Alias(2, "https://b/", "https://c/", False),
        Alias(3, "https://a/x/", "https://d/", False),
        Alias(4, "https://out/", "https://e/", True),
    ]
    assert by_alias("https://a/x/y", aliases) == "https://b/x/y"
    assert by_alias("https://out/y", aliases) is None
    assert by_alias("https://z/", aliases) is None
    assert list(forms("https://a/y", aliases)) == ["https://a/y", "https://b/y"]


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/x", "https://h/x"),
        ("../y", "https://h/y"),
        ("http://[", None),
        ("//o/z", "https://o/z"),
        (" /x ", "https://h/x"),
    ],
)
def test_where_a_redirect_leads(location: str, expected: str | None) -> None:
    assert resolved(location, "https://h/d/p") == expected
