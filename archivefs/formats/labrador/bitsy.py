"""Bitsy: one file name of arbitrary Unicode as a portable ASCII name, and back.

Pure functions without state, safe from any thread; used by the readers of manifests and by ``archivefs
bitsy``.  Bitsy names are compared ignoring case, so the encoder turns upper case into control characters
(*casing*), takes everything that is not one of 65 safe characters out of the name (*specials*), and writes
those as a list of numbers (*deltas*, in *FlexDelta* digits) before the first dot.

The written specification is followed where the published programs differ from it (BitsySpec, StrictName,
DeltaEncoding and FlexDelta of the project canidlogic/bitsy).
"""

from __future__ import annotations

import re
import unicodedata
from string import ascii_lowercase, ascii_uppercase

MAX_LENGTH = 255
"""Of an original and of an encoded name, in codepoints."""

_SHIFT_OUT, _SHIFT_IN, _SUBSTITUTE, _DOT = "\x0e", "\x0f", "\x1a", "\x1e"
"""Letters are lower-case from here; upper-case from here; the next one is the other way; a dot out of its place."""

_SPECIALS = re.compile(r"[^A-Za-z0-9._-]")
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f/\\\ud800-\udfff]")
_UPPER = re.compile(r"[A-Z]")
_CASED = re.compile(r"[\x0e\x0f\x1aA-Z]")
_CASE_CONTROLS = re.compile(r"([\x0e\x0f\x1a])")
_TO_UPPER = str.maketrans(ascii_lowercase, ascii_uppercase)
_TO_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)

# Runs of safe characters, with single dots or any number of hyphens between them; a dot may come first.
_ALMOST_STRICT = re.compile(r"\.?[A-Za-z0-9_]+(?:(?:-+|\.)[A-Za-z0-9_]+)*|\.\.?")
_DEVICE = re.compile(r"(?:aux|con|nul|prn|com[0-9]|lpt[0-9])(?:\.|\Z)", re.IGNORECASE | re.ASCII)

_DIGITS = "abcdefghijklmnopqrstuvwxyz0123456789"
_NATIVE_DIGITS = str.maketrans(_DIGITS, "0123456789abcdefghijklmnopqrstuvwxyz")
"""From FlexDelta's digits to those ``int`` knows."""
# By length of the number: value of its first digit when that counts as 0, and the smallest number written so.
_FLEX = ((2, 0, 0), (3, 12, 432), (4, 18, 7776), (5, 24, 279936), (6, 30, 10077696))
_POWERS = (0, 1, 36, 1296, 46656, 1679616, 60466176)
"""By length of a number: what its first digit is worth."""
_BY_FIRST_DIGIT = {
    digit: row for row, end in zip(_FLEX, (12, 18, 24, 30, 36), strict=True) for digit in _DIGITS[row[1] : end]
}


class BitsyError(ValueError):
    """The name cannot be translated."""

    def __init__(self, kind: str, problem: str, name: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.problem = problem
        self.kind = kind
        """One of the words of the test vectors: ``empty``, ``control``, ``slash``, ``surrogate``, ``too_long``,
        ``not_strict``, ``bad_escape``, ``bad_delta``, ``overlong``, ``codepoint``, ``bad_case``."""


def is_strict_name(name: str) -> bool:
    """Does *name* keep to the eight rules of a StrictName?"""
    return len(name) <= MAX_LENGTH and bool(_ALMOST_STRICT.fullmatch(name)) and not _DEVICE.match(name)


# -- encoding --


def encode(original: str) -> str:
    """The Bitsy name of *original*; raises BitsyError.  Upper-case letters stay as they are."""
    _check_original(original, original)
    if _ALMOST_STRICT.fullmatch(original) and not _UPPER.search(original):
        if _DEVICE.match(original):
            return _short_enough("xq--" + _insert_suffix(original, "-x"), original)
        if not original.startswith(("xz--", "xq--")):
            return original
        escaped = _insert_suffix(original, "-" + original[1])
        return _short_enough("xq" + escaped[2:], original)
    return _encode_general(original)


def _check_original(text: str, name: str) -> None:
    """Raise BitsyError unless *text* may be an original name; *name* is what the message is about."""
    if not text:
        raise BitsyError("empty", "a name may not be empty", name)
    found = _FORBIDDEN.search(text)
    if found:
        raise _forbidden(found[0], name)
    _short_enough(text, name)


def _forbidden(character: str, name: str) -> BitsyError:
    if character in "/\\":
        return BitsyError("slash", f"a name may not hold {character!r}", name)
    if character >= "\ud800":
        return BitsyError("surrogate", "a name may not hold half a character", name)
    return BitsyError("control", f"a name may not hold the control character U+{ord(character):04X}", name)


def _short_enough(text: str, name: str) -> str:
    if len(text) > MAX_LENGTH:
        raise BitsyError("too_long", f"the name needs {len(text)} characters, at most {MAX_LENGTH} are allowed", name)
    return text


def _insert_suffix(name: str, suffix: str) -> str:
    """*suffix* before the first dot, or at the end."""
    label, dot, rest = name.partition(".")
    return label + suffix + dot + rest


def _encode_general(original: str) -> str:
    text = _short_enough(unicodedata.normalize("NFC", original), original)
    text = _short_enough(_mark_case(_convert_dots(text)), original)
    invariants = _SPECIALS.sub("", text)
    deltas = _deltas_of(text, len(invariants))
    encoded = _insert_suffix(invariants, "-" + deltas) if invariants else deltas
    return _short_enough("xz--" + encoded, original)


def _convert_dots(text: str) -> str:
    """Every dot as RS, except those at the end that a StrictName may have there."""
    limit = at = len(text)
    while True:
        at = text.rfind(".", 0, at)
        if at < 0 or not is_strict_name("a" + text[at:]):
            break
        limit = at
    limit = max(limit, 1)  # a dot at the very beginning never stays
    return text[:limit].replace(".", _DOT) + text[limit:]


def _mark_case(text: str) -> str:
    """A control character before each letter whose case differs from the one before."""
    if not _UPPER.search(text):
        return text
    letters = [at for at, character in enumerate(text) if character.isascii() and character.isalpha()]
    pieces, upper, done = [], False, 0
    for number, at in enumerate(letters):
        case = text[at].isupper()
        if case == upper:
            continue
        following = letters[number + 1] if number + 1 < len(letters) else None
        pieces.append(text[done:at])
        done = at
        if following is not None and text[following].isupper() == case:
            pieces.append(_SHIFT_IN if case else _SHIFT_OUT)
            upper = case
        else:
            pieces.append(_SUBSTITUTE)
    return "".join([*pieces, text[done:]])


def _deltas_of(text: str, invariant_count: int) -> str:
    """The specials of *text* as FlexDelta text, lowest codepoint first; ``aa`` when there are none."""
    specials = sorted((ord(found[0]), found.start()) for found in _SPECIALS.finditer(text))
    if not specials:
        return "aa"
    # Where each special goes: its place in the whole text, less the specials to its left that come later.
    digits = []
    before, codepoint_before, length = 0, 1, invariant_count
    for number, (codepoint, at) in enumerate(specials):
        place = at - sum(1 for _, later in specials[number + 1 :] if later < at)
        delta = (codepoint - codepoint_before) * (length + 1) - before + place
        digits.append(_flex(delta))
        before, codepoint_before, length = place, codepoint, length + 1
    return "".join(digits)


def _flex(delta: int) -> str:
    """*delta* in FlexDelta digits."""
    length, first, _ = next(row for row in reversed(_FLEX) if delta >= row[2])
    digits = ""
    for _ in range(length - 1):
        delta, digit = divmod(delta, 36)
        digits = _DIGITS[digit] + digits
    return _DIGITS[first + delta] + digits


# -- decoding --


def decode(encoded: str) -> str:
    """The original name of the Bitsy name *encoded*, in any case; raises BitsyError."""
    if not is_strict_name(encoded):
        raise BitsyError("not_strict", "not a StrictName", encoded)
    name = encoded.lower()
    if name.startswith("xq--"):
        return _decode_escape(name, encoded)
    if name.startswith("xz--"):
        return _decode_general(name, encoded)
    return name


def _decode_escape(name: str, encoded: str) -> str:
    label, dot, rest = name.partition(".")
    if len(label) < 6 or label[-2] != "-" or label[-1] not in "qzx":
        raise BitsyError(
            "bad_escape", "a name that begins with xq-- must have -q, -z or -x before its first dot", encoded
        )
    original = label[:-2] + dot + rest
    original = original[4:] if label[-1] == "x" else "x" + label[-1] + original[2:]
    if not original:
        raise BitsyError("empty", "an empty name is meant", encoded)
    return original


def _decode_general(name: str, encoded: str) -> str:
    label, dot, rest = name[4:].partition(".")
    invariants, hyphen, digits = label.rpartition("-")
    if not hyphen:
        invariants, digits = "", label
    if not digits:
        raise BitsyError("bad_delta", "its list of numbers is empty", encoded)
    text = invariants + dot + rest
    if digits != "aa":
        text = _insert_specials(text, _numbers(digits, encoded), encoded)
    text = _unmark_case(text, encoded).replace(_DOT, ".")
    text = unicodedata.normalize("NFC", text)
    _check_original(text, encoded)
    return text


def _numbers(digits: str, encoded: str) -> list[int]:
    """The numbers of a FlexDelta text."""
    words = []
    at = 0
    while at < len(digits):
        row = _BY_FIRST_DIGIT.get(digits[at])
        if row is None or at + row[0] > len(digits):
            raise BitsyError("bad_delta", f"its list of numbers {digits!r} ends early or has a wrong digit", encoded)
        words.append((digits[at : at + row[0]], row))
        at += row[0]
    return [_number(word, row, encoded) for word, row in words]


def _number(word: str, row: tuple[int, int, int], encoded: str) -> int:
    length, first, least = row
    if "_" in word:  # the only other character that can come so far
        raise BitsyError("bad_delta", f"its number {word!r} has a wrong digit", encoded)
    value = int(word.translate(_NATIVE_DIGITS), 36) - first * _POWERS[length]
    if value < least:
        raise BitsyError("overlong", f"its number {word!r} is written longer than needed", encoded)
    return value


def _insert_specials(text: str, deltas: list[int], encoded: str) -> str:
    characters = list(text)
    place, codepoint = 0, 1
    for delta in deltas:
        steps, place = divmod(place + delta, len(characters) + 1)
        codepoint += steps
        if codepoint > 0x10FFFF or 0xD800 <= codepoint <= 0xDFFF:
            raise BitsyError("codepoint", f"there is no character U+{codepoint:04X}", encoded)
        characters.insert(place, chr(codepoint))
    return "".join(characters)


def _unmark_case(text: str, encoded: str) -> str:
    """*text* with its casing controls carried out and taken away."""
    if not _CASED.search(text):
        return text
    first, *rest = _CASE_CONTROLS.split(text)
    pieces = [_cased(first, upper=False)]
    upper = False
    for control, piece in zip(rest[::2], rest[1::2], strict=True):
        if control != _SUBSTITUTE:
            upper = control == _SHIFT_IN
            pieces.append(_cased(piece, upper=upper))
        elif piece[:1].isascii() and piece[:1].isalpha():
            pieces += [_cased(piece[0], upper=not upper), _cased(piece[1:], upper=upper)]
        else:
            raise BitsyError("bad_case", "its casing mark is not followed by a letter", encoded)
    return "".join(pieces)


def _cased(text: str, *, upper: bool) -> str:
    """*text* with its letters, and these alone, in one case."""
    if text.isascii():
        return text.upper() if upper else text.lower()
    return text.translate(_TO_UPPER if upper else _TO_LOWER)
