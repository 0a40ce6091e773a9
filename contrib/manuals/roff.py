"""The language of manual pages, as far as these need it: escaping, and a page that is written from top to bottom."""

from __future__ import annotations

import re
from collections.abc import Iterable

SPECIAL = {"\\": r"\e", "-": r"\-", "~": r"\(ti", "^": r"\(ha", "`": r"\(ga", "'": r"\(aq", '"': r"\(dq"}
"""What roff would show as something else, or take for an order."""


def escaped(text: str) -> str:
    """*text* as it is to be seen, also at the beginning of a line and within an argument."""
    shown = "".join(SPECIAL.get(char) or (char if char.isascii() else rf"\[u{ord(char):04X}]") for char in text)
    return re.sub(r"^\.", r"\\&.", shown, flags=re.MULTILINE)


def bold(text: str) -> str:
    """To be typed as it is."""
    return rf"\fB{escaped(text)}\fR"


def italic(text: str) -> str:
    """To be replaced by something."""
    return rf"\fI{escaped(text)}\fR"


def placeholders(text: str) -> str:
    """*text* with what is in capitals, and so stands for something else, in italics; words with dashes are bold."""
    words = re.split(r"([A-Z][A-Z0-9]*(?:-[A-Z0-9]+)*|(?<![\w-])--?[a-zA-Z][\w-]*)", text)
    marked = (bold(word) if word.startswith("-") else italic(word) for word in words[1::2])
    return "".join(part for pair in zip(map(escaped, words[::2]), [*marked, ""], strict=True) for part in pair)


class Page:
    """A page: its lines so far."""

    def __init__(self, name: str, section: int, *, date: str, version: str) -> None:
        self.name, self.section = name, section
        fields = (escaped(name.upper()), str(section), date, f"archivefs {escaped(version)}", "archivefs")
        self._lines = [".TH " + " ".join(f'"{field}"' for field in fields), ".nh", ".ad l"]

    def heading(self, title: str) -> None:
        """Begin a section."""
        self._lines.append(f'.SH "{escaped(title)}"')

    def subheading(self, title: str) -> None:
        """Begin a part of a section."""
        self._lines.append(f'.SS "{escaped(title)}"')

    def line(self, marked: str) -> None:
        """A line that is escaped already."""
        self._lines.append(marked)

    def paragraph(self, text: str) -> None:
        """Running text."""
        self._part()
        self._lines.append(escaped(" ".join(text.split())))

    def item(self, marked: str, text: str) -> None:
        """A term, escaped already, and what is said of it."""
        self._lines += [".TP", marked, escaped(" ".join(text.split())) or r"\&"]

    def verbatim(self, lines: Iterable[str]) -> None:
        """Lines as they are."""
        self._part()
        self._lines += [".RS 4", ".nf", *(escaped(line) or r"\&" for line in lines), ".fi", ".RE"]

    def _part(self) -> None:
        """Space before what follows, which a heading has already."""
        if not self._lines[-1].startswith((".SH", ".SS")):
            self._lines.append(".PP")

    def __str__(self) -> str:
        return "\n".join(self._lines) + "\n"
