"""The script for bash: tables made of the commands, and the functions in ``archivefs.bash`` that read them."""

from __future__ import annotations

import shlex
from pathlib import Path

from contrib.commandtree import Command
from contrib.completion.model import Value, Word, of_arguments, of_option, shell_value, word_list_of, word_lists

FUNCTIONS = Path(__file__).with_name("archivefs.bash")


def script(tree: Command) -> str:
    """All of it."""
    commands = "\n".join(_case(" ".join(command.words), _command(command)) for command in tree.walk())
    words = "\n".join(_case(name, _words(words)) for name, words in word_lists())
    return (
        FUNCTIONS.read_text(encoding="utf-8")
        + f'\n_archivefs_command() {{\n    case "$1" in\n{commands}\n        *) return 1 ;;\n    esac\n}}\n'
        + f'\n_archivefs_options() {{\n    case "$1" in\n{words}\n    esac\n}}\n'
    )


def _case(name: str, lines: list[str]) -> str:
    body = "".join(f"            {line}\n" for line in lines)
    return f"        {shlex.quote(name)})\n{body}            ;;"


def _command(command: Command) -> list[str]:
    """What is known of one command: its options, which of them take a value and what, and its arguments."""
    options = command.options()
    values = {name: of_option(command, option) for option in options for name in option.opts}
    valued = " ".join(f"[{name}]={_value(value, command)}" for name, value in values.items() if value is not None)
    arguments = _value(of_arguments(command), command)
    return [f"flags=({' '.join(values)})", f"values=({valued})", f"arguments={arguments}"]


def _words(words: list[Word]) -> list[str]:
    names = " ".join(word.name + ("=" if word.value else "") for word in words)
    values = " ".join(f"[{word.name}]={shlex.quote(shell_value(word.value, ''))}" for word in words if word.value)
    return [f"names=({names})", f"values=({values})"]


def _value(value: Value, command: Command) -> str:
    return shlex.quote(shell_value(value, word_list_of(command)))
