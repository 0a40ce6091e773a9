"""Bitsy: what is encoded comes back, and nothing that is decoded breaks its promises."""

from __future__ import annotations

import re
import unicodedata

from hypothesis import example, given, settings
from hypothesis import strategies as st

from archivefs.formats.labrador.bitsy import BitsyError, decode, encode, is_strict_name

ANY_NAMES = st.text(max_size=300)
CASED = st.text("aBcDeF12.-_é~ ", max_size=60)
ALMOST_ENCODED = st.from_regex(r"x[zq]--[a-zA-Z0-9_-]{0,20}(\.[a-z0-9]{1,5}){0,2}", fullmatch=True)
ASCII_NAMES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)
NAMES = st.one_of(ANY_NAMES, CASED, ALMOST_ENCODED, ASCII_NAMES)

DEVICES = {"aux", "con", "nul", "prn", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}


def strict_by_the_letter(name: str) -> bool:
    """The eight constraints, one after the other."""
    ascii_name = bool(re.fullmatch(r"[A-Za-z0-9._-]*", name, re.ASCII))
    hyphens = not name.startswith("-") and not name.endswith("-") and "-." not in name and ".-" not in name
    dots = name in (".", "..") or (not name.endswith(".") and ".." not in name)
    return ascii_name and hyphens and dots and name.split(".")[0].lower() not in DEVICES and 1 <= len(name) <= 255


@settings(deadline=None)
@given(NAMES)
def test_strict_names_are_as_the_constraints_say(name: str) -> None:
    assert is_strict_name(name) == strict_by_the_letter(name)


@settings(deadline=None)
@given(NAMES)
@example("con")
@example("xz--con")
@example("e\u0301" * 128)
def test_what_is_encoded_comes_back(name: str) -> None:
    try:
        encoded = encode(name)
    except BitsyError:
        return
    assert is_strict_name(encoded)
    assert decode(encoded) == unicodedata.normalize("NFC", name)
    assert decode(encoded.upper()) == decode(encoded.lower()) == decode(encoded)


@settings(deadline=None)
@given(NAMES)
def test_encoding_fails_only_where_the_limits_say(name: str) -> None:
    legal = bool(name) and len(name) <= 255 and not re.search(r"[\x00-\x1f\x7f/\\\ud800-\udfff]", name)
    try:
        encode(name)
    except BitsyError as error:
        assert not legal or error.kind == "too_long"
    else:
        assert legal


@settings(deadline=None)
@given(NAMES)
def test_two_names_are_encoded_alike_only_if_they_are_the_same(name: str) -> None:
    try:
        encoded, other = encode(name), encode(name + "x")
    except BitsyError:
        return
    assert encoded.lower() != other.lower()


@settings(deadline=None)
@given(st.one_of(ALMOST_ENCODED, NAMES))
@example("xz--a3")
@example("xq---x")
def test_what_is_decoded_is_a_legal_name(encoded: str) -> None:
    try:
        name = decode(encoded)
    except BitsyError:
        return
    assert name
    assert len(name) <= 255
    assert not re.search(r"[\x00-\x1f\x7f/\\\ud800-\udfff]", name)
    assert unicodedata.normalize("NFC", name) == name
    try:
        assert decode(encode(name)) == name
    except BitsyError as error:
        assert error.kind == "too_long"
