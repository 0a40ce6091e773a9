"""Patterns of groups: which URLs belong to one.

Used by ``groups.py``.  ``**`` is any run without a newline, ``*`` a run without ``/ ? = &``, ``#`` one or more
digits, all else (``@`` too) stands for itself.  A pattern comes from a stranger, and a regular expression with
several stars can take for ever; so it is used only where its worst case is small, and otherwise the pattern is
followed state by state, in time proportional to URL and pattern.  Pure values; any thread may use them.
"""

from __future__ import annotations

import re

_TOKENS = re.compile(r"\*\*|\*|#|[^*#]+", re.DOTALL)
_EXPRESSIONS = {"**": ".*", "*": "[^/?=&]*", "#": "[0-9]+"}
_LITERAL_END = re.compile("[*#@]")
MAX_STEPS = 10_000_000
"""How many steps the regular expression may take in the worst case."""


class Pattern:
    """A group's pattern."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = _LITERAL_END.search(text)
        self.prefix = text[: found.start()] if found else text
        """What every member begins with."""
        self._tokens = _without_repeats(_TOKENS.findall(text))
        self._wild = sum(token in _EXPRESSIONS for token in self._tokens)
        self._expression = re.compile("".join(_EXPRESSIONS.get(token) or re.escape(token) for token in self._tokens))
        self._states: _States | None = None

    def matches(self, url: str) -> bool:
        """Is *url* a member?"""
        length = len(url) - len(self.prefix)
        if self._wild <= 1 or max(length, 1) ** self._wild <= MAX_STEPS:
            return self._expression.fullmatch(url) is not None
        if self._states is None:
            self._states = _States(self._tokens)
        return self._states.match(url)


def _without_repeats(tokens: list[str]) -> list[str]:
    """``****`` is the same as ``**``."""
    return [token for i, token in enumerate(tokens) if not (token in ("*", "**") and i and tokens[i - 1] == token)]


class _States:
    """The pattern as a row of places, of which any number can be reached at once: the bits of a number."""

    def __init__(self, tokens: list[str]) -> None:
        self._literals: dict[str, int] = {}
        self._digits = self._skipped = self._any = self._run = self._digit_run = 0
        place = 0
        for token in tokens:
            if token in ("*", "**"):
                self._skipped |= 1 << place
                if token == "**":
                    self._any |= 1 << place
                else:
                    self._run |= 1 << place
                place += 1
            elif token == "#":
                self._digits |= 1 << place
                self._digit_run |= 1 << (place + 1)
                place += 1
            else:
                for character in token:
                    self._literals[character] = self._literals.get(character, 0) | 1 << place
                    place += 1
        self._end = 1 << place

    def match(self, text: str) -> bool:
        places = self._closed(1)
        for character in text:
            steps = self._literals.get(character, 0)
            stays = 0 if character == "\n" else self._any
            if character not in "/?=&":
                stays |= self._run
            if "0" <= character <= "9":
                steps |= self._digits
                stays |= self._digit_run
            places = self._closed((places & steps) << 1 | (places & stays))
            if not places:
                return False
        return bool(places & self._end)

    def _closed(self, places: int) -> int:
        """With the places that are reached without a character: a run may be empty."""
        while (more := places | (places & self._skipped) << 1) != places:
            places = more
        return places
