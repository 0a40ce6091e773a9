"""The help of a command, taken apart: paragraphs, examples, exit codes."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field

import click

VERBATIM = "\b"
"""With this click marks a paragraph whose lines it shall leave alone."""


@dataclass
class Help:
    """What a command says of itself, beside its options."""

    paragraphs: list[str] = field(default_factory=list)
    examples: list[tuple[str, list[str]]] = field(default_factory=list)
    """A title, such as ``Examples``, and lines."""
    exit_codes: list[tuple[str, str]] = field(default_factory=list)


def parsed(command: click.Command) -> Help:
    """The help and the epilog of *command*; tables of options in it are left out, since the pages have their own."""
    help = Help(paragraphs=_paragraphs(command.help))
    for paragraph in _paragraphs(command.epilog):
        text = paragraph.removeprefix(VERBATIM).strip("\n")
        if text.startswith("Exit codes"):
            help.exit_codes = exit_codes(text)
        elif paragraph.startswith(VERBATIM):
            blocks = _blocks(text)
            help.examples += [block for block in blocks if not block[0].startswith("Options")]
        else:
            help.paragraphs.append(text)
    return help


def exit_codes(text: str) -> list[tuple[str, str]]:
    """``[("0", "done"), …]`` of ``Exit codes: 0 done, 1 …``."""
    parts = re.split(r"(?:^|,\s+)(\d+)\s+", " ".join(text.partition(": ")[2].rstrip(". \n").split()))
    return list(zip(parts[1::2], parts[2::2], strict=True))


def _paragraphs(text: str | None) -> list[str]:
    return [part for part in re.split(r"\n{2,}", inspect.cleandoc(text or "")) if part.strip()]


def _blocks(text: str) -> list[tuple[str, list[str]]]:
    """Titles that end in a colon, each with the indented lines under it."""
    blocks: list[tuple[str, list[str]]] = []
    for line in text.split("\n"):
        if line.startswith("  "):
            blocks[-1][1].append(line[2:])
        else:
            blocks.append((line.rstrip(":"), []))
    return blocks
