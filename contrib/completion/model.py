"""What may stand where: known by the name that a value has in ``--help``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import click

from archivefs import registry
from archivefs.fuse.options import MOUNT_OPTIONS, OPEN_OPTIONS
from archivefs.options import Option
from contrib.commandtree import Command, takes_mount_options


class Kind(str, Enum):
    """What a value is, beside one of a few words."""

    FILES = "files"
    FOLDERS = "folders"
    MOUNTS = "mounts"
    """Names of mounts in the configuration file."""
    MOUNTPOINTS = "mountpoints"
    """Where archives are mounted now."""
    WORDS = "words"
    """``name=value,name``, after ``-o``."""


class Value(NamedTuple):
    """What may be offered for a value; nothing, where it is free."""

    kinds: tuple[Kind, ...] = ()
    choices: tuple[str, ...] = ()


class Word(NamedTuple):
    """An option that stands after ``-o``."""

    name: str
    help: str
    value: Value | None
    """None for a flag."""


FILE_NAMES = {"PATH", "FILE", "ARCHIVE", "SRC", "SRC:/PATH", "SRC[:/PATH]", "SOURCE", "OUT", "IN", "OLD", "DEST"}
FOLDER_NAMES = {"DIR", "FOLDER", "DB", "STORAGE", "MOUNTPOINT"}
ELSEWHERE = {"--subdir", "--file"}
"""Their paths are paths within an archive."""

AWK_MOUNTS = r"""/^[^ #]/ { inside = /^mounts:/; depth = 0 }
inside && /^ +[^ #][^:]*:/ { match($0, /^ +/); if (!depth) depth = RLENGTH
    if (RLENGTH == depth) { name = substr($0, depth + 1); sub(/:.*/, "", name); print name } }"""
"""Finds the names of the mounts in a configuration file that is written line by line."""
CONFIGURATION = "${XDG_CONFIG_HOME:-$HOME/.config}/archivefs/config.yaml"
AWK_MOUNTPOINTS = '$3 == "fuse.archivefs" { print $2 }'
"""Finds them in /proc/self/mounts."""


def of_option(command: Command, option: click.Option) -> Value | None:
    """What its value may be; None for a flag."""
    if option.is_flag or option.count:
        return None
    if isinstance(option.type, click.Choice):
        return Value(choices=tuple(map(str, option.type.choices)))
    if "-o" in option.opts and command.name != "mount.archivefs":
        return Value((Kind.WORDS,))
    if "--format" in option.opts:
        return Value(choices=format_names())
    return Value() if ELSEWHERE & set(option.opts) else named(option.metavar or "")


def of_arguments(command: Command) -> Value:
    """What its arguments may be, all of them together."""
    values = [_of_argument(command, argument) for argument in command.arguments()]
    kinds = dict.fromkeys(kind for value in values for kind in value.kinds)
    if Kind.FILES in kinds:
        kinds.pop(Kind.FOLDERS, None)
    choices = (child.name for child in command.children)
    return Value(tuple(kinds), (*choices, *(choice for value in values for choice in value.choices)))


def _of_argument(command: Command, argument: click.Argument) -> Value:
    if isinstance(argument.type, click.Choice):
        return Value(choices=tuple(map(str, argument.type.choices)))
    metavar = argument.metavar or ""
    if metavar == "FORMAT":
        return Value(choices=tuple(name for name, format in registry.formats().items() if format.create))
    kinds = [kind for name in re.split(r"[ |]+", metavar) for kind in named(name.rstrip(".")).kinds]
    if re.search(r"\bNAME\b", metavar) and command.words[1] in ("mount", "umount", "config"):
        kinds.append(Kind.MOUNTS)
    if "MOUNTPOINT" in metavar and command.name != "mount":
        kinds = [Kind.MOUNTPOINTS, *kinds]
    return Value(tuple(dict.fromkeys(kinds)))


def named(metavar: str) -> Value:
    """What a value of that name in ``--help`` may be."""
    plain = metavar.strip("[]") if metavar.startswith("[") else metavar
    if plain in FILE_NAMES:
        return Value((Kind.FILES,))
    return Value((Kind.FOLDERS,)) if plain in FOLDER_NAMES else Value()


def format_names() -> tuple[str, ...]:
    """The formats that ``--format`` takes."""
    return tuple(registry.formats())


def option_words(*, mounting: bool) -> list[Word]:
    """Everything that may stand after ``-o``: the general options, and those of all formats."""
    general = (*MOUNT_OPTIONS, *OPEN_OPTIONS) if mounting else OPEN_OPTIONS
    own = (option for format in registry.formats().values() for option in format.options)
    return list({option.name: _word(option) for option in (*own, *general)}.values())


def _word(option: Option) -> Word:
    if option.parse is None:
        return Word(option.name, option.help, None)
    parts = option.metavar.split("|")
    choices = tuple(part for part in parts if part.islower()) or _choices(option)
    kinds = tuple(kind for part in parts for kind in named(part).kinds)
    return Word(option.name, option.help, Value(kinds, choices))


def _choices(option: Option) -> tuple[str, ...]:
    """Those of ``options.one_of``, where the name of the value does not tell them."""
    assert option.parse is not None
    known = inspect.getclosurevars(option.parse).nonlocals if inspect.isfunction(option.parse) else {}
    return tuple(known.get("choices", ()))


def word_lists() -> Sequence[tuple[str, list[Word]]]:
    """The two lists of words, each by its name."""
    return [("mount", option_words(mounting=True)), ("open", option_words(mounting=False))]


def word_list_of(command: Command) -> str:
    """Which of them a command takes."""
    return "mount" if takes_mount_options(command) else "open"


def shell_value(value: Value, word_list: str) -> str:
    """A value as the functions for bash and fish read it: kinds with an @ before them, and choices."""
    kinds = [f"@{kind.value}" if kind is not Kind.WORDS else f"@words_{word_list}" for kind in value.kinds]
    return " ".join([*kinds, *value.choices])


def help_of(command: Command, option: click.Option) -> str:
    """What ``--help`` says of an option, in one line."""
    record = option.get_help_record(command.context)
    return " ".join(record[1].split()) if record else ""
