"""The script for fish: a line for each command and option, after the functions in ``archivefs.fish``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from archivefs.cli import COMMANDS
from contrib.commandtree import Command
from contrib.completion.model import (
    Kind,
    Value,
    Word,
    help_of,
    of_arguments,
    of_option,
    shell_value,
    word_list_of,
    word_lists,
)

FUNCTIONS = Path(__file__).with_name("archivefs.fish")


def script(tree: Command) -> str:
    """All of it."""
    paths = " ".join(quoted(" ".join(command.words)) for command in tree.walk())
    lists = (f"set -g __archivefs_words_{name} \\\n    {_words(words)}" for name, words in word_lists())
    lines = (line for command in tree.walk() for line in _lines(command))
    head = FUNCTIONS.read_text(encoding="utf-8")
    return "\n".join([f"{head}\nset -g __archivefs_commands {paths}", *lists, "complete -c archivefs -f", *lines, ""])


def quoted(text: str) -> str:
    """*text* as one word."""
    return "'" + text.replace("\\", r"\\").replace("'", r"\'") + "'"


def _words(words: list[Word]) -> str:
    """Name, value and help of each, with tabs between."""
    rows = ("\t".join((w.name, "" if w.value is None else f"={shell_value(w.value, '')}", w.help)) for w in words)
    return " \\\n    ".join(map(quoted, rows))


def _lines(command: Command) -> Iterator[str]:
    at = f"complete -c archivefs -n {quoted('__archivefs_at ' + quoted(' '.join(command.words)))}"
    for child in command.children:
        summary = COMMANDS.get(child.name, child.summary) if len(child.words) == 2 else child.summary
        yield f"{at} -a {quoted(child.name)} -d {quoted(summary)}"
    if not command.children:
        yield from (f"{at} {offered}" for offered in [_offered(of_arguments(command), command)] if offered)
    for option in command.options():
        names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.opts]
        value = of_option(command, option)
        taken = "" if value is None else _offered(value, command) or "-x"
        yield " ".join(part for part in (at, *names, taken, f"-d {quoted(help_of(command, option))}") if part)


def _offered(value: Value, command: Command) -> str:
    """How ``complete`` is told what a value may be: nothing where it is free."""
    text = shell_value(value, word_list_of(command))
    if not text:
        return ""
    files = "-r -F" if Kind.FILES in value.kinds else "-x"
    return f"{files} -a {quoted(f'(__archivefs_offer {text})')}"
