"""The script for zsh: a function for each command, beside those in ``archivefs.zsh``."""

from __future__ import annotations

from pathlib import Path

import click

from archivefs.cli import COMMANDS
from contrib.commandtree import Command
from contrib.completion.model import (
    Kind,
    Value,
    Word,
    help_of,
    of_arguments,
    of_option,
    word_list_of,
    word_lists,
)

FUNCTIONS = Path(__file__).with_name("archivefs.zsh")
ACTIONS = {Kind.FILES: "_files", Kind.FOLDERS: "_files -/", Kind.MOUNTS: "_archivefs_mounts"}
ACTIONS[Kind.MOUNTPOINTS] = "_archivefs_mountpoints"


def script(tree: Command) -> str:
    """All of it; zsh runs the file as the function ``_archivefs`` at the first TAB."""
    functions = [_group(each) if each.children else _leaf(each) for each in tree.walk()]
    lists = [_word_list(name, words) for name, words in word_lists()]
    head, tail = FUNCTIONS.read_text(encoding="utf-8").split("# The commands follow.\n")
    return "\n".join([head, *lists, *functions, tail])


def quoted(text: str) -> str:
    """*text* as one word."""
    return "'" + text.replace("'", "'\\''") + "'"


def plain(text: str) -> str:
    """*text* where brackets and colons have a meaning."""
    return "".join(f"\\{char}" if char in "[]:\\" else char for char in text)


def function_of(command: Command) -> str:
    """The name of its function."""
    return "_" + "_".join(command.words)


def _group(command: Command) -> str:
    said = {
        child.name: COMMANDS.get(child.name, child.summary) if len(child.words) == 2 else child.summary
        for child in command.children
    }
    rows = "".join(f"        {quoted(f'{name}:{plain(summary)}')}\n" for name, summary in said.items())
    cases = "".join(f"            {child.name}) {function_of(child)} ;;\n" for child in command.children)
    return (
        f"{function_of(command)}() {{\n    local curcontext=$curcontext state line\n    local -a commands\n"
        f"    commands=(\n{rows}    )\n    _arguments -C -S \\\n{_specs(command)}"
        "        '1: :->command' '*:: :->rest'\n"
        "    case $state in\n        command) _describe -t commands command commands ;;\n"
        f"        rest) case $words[1] in\n{cases}        esac ;;\n    esac\n}}\n"
    )


def _leaf(command: Command) -> str:
    arguments = of_arguments(command)
    rest = f"        {quoted('*:argument:' + _action(arguments, word_list_of(command)))}\n" if any(arguments) else "\n"
    return f"{function_of(command)}() {{\n    _arguments -s -S \\\n{_specs(command)}{rest}}}\n"


def _specs(command: Command) -> str:
    return "".join(f"        {spec} \\\n" for option in command.options() for spec in _spec(command, option))


def _spec(command: Command, option: click.Option) -> list[str]:
    """One option, under each of its names; it excludes itself, unless it may be given again."""
    value = of_option(command, option)
    before = "*" if option.multiple else f"({' '.join(option.opts)})" if len(option.opts) > 1 else ""
    said = f"[{plain(help_of(command, option))}]"
    taken = "" if value is None else f":{plain(option.metavar or 'value')}:{_action(value, word_list_of(command))}"
    joint = {True: "=", False: "+"}
    return [
        quoted(f"{before}{n}{'' if value is None else joint[n.startswith('--')]}{said}{taken}") for n in option.opts
    ]


def _action(value: Value, word_list: str) -> str:
    """How ``_arguments`` is told what a value may be."""
    actions = [f"_archivefs_words_{word_list}" if k is Kind.WORDS else ACTIONS[k] for k in value.kinds]
    if not actions:
        return f"({' '.join(value.choices)})" if value.choices else " "
    if len(actions) == 1 and not value.choices:
        return actions[0]
    # The space keeps _arguments from handing it options.
    all = [*actions, *([f"compadd {' '.join(value.choices)}"] if value.choices else [])]
    return " _alternative " + " ".join(f'"a{number}:value:{action}"' for number, action in enumerate(all))


def _word_list(name: str, words: list[Word]) -> str:
    rows = "".join(f"        {quoted(_word(word))} \\\n" for word in words)
    return f"_archivefs_words_{name}() {{\n    _values -s , option \\\n{rows}\n}}\n"


def _word(word: Word) -> str:
    said = f"{word.name}[{plain(word.help)}]"
    return said if word.value is None else f"{said}:value:{_action(word.value, '')}"
