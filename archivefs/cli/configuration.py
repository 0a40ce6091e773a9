"""The configuration file: defaults for options, options by format, and named mounts.

    options:                      # for every mount; cache_size and its like for ls, cat and the others too
      umask: 077
    formats:
      crystal:                    # what crystal alone understands; and options of mounts of nothing but crystal
        redirects: symlink
    mounts:
      island:                     # archivefs mount island
        sources: [~/archives/island.lbz]
        mountpoint: ~/island
        options: {rw: yes}

Each overrides what stands above it, and the command line overrides all.  A key that nobody knows is an error with
its line.  ``cli/sources.py`` asks for the words of a command, ``cli/mount.py`` for a named mount, ``cli/config.py``
shows them.  Paths begin at the folder of the file; ``~`` is the home folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from archivefs import options
from archivefs.errors import BadOption, UsageError
from archivefs.fuse.options import MOUNT_OPTIONS, OPEN_OPTIONS
from archivefs.options import Option

COMMAND_LINE = "the command line"
MOUNT_USAGE = "archivefs mount ARCHIVE... MOUNTPOINT, or archivefs mount NAME"
OFF = ("off", "none")
"""``-o config=off`` reads no file."""
REPLACED = {"ro": ("rw",), "rw": ("ro",), "umask": ("fmask", "dmask")}
"""What a later option takes away from an earlier place beside the option of its own name."""
GENERAL = tuple(option for option in (*MOUNT_OPTIONS, *OPEN_OPTIONS) if option.name != "config")


class Word(NamedTuple):
    """An option as ``-o`` takes it, and who gave it."""

    text: str
    """``name=value``, its commas as they are."""
    origin: str = COMMAND_LINE

    @property
    def name(self) -> str:
        """What stands before the equals sign."""
        return self.text.partition("=")[0]


class NamedMount(NamedTuple):
    """What ``archivefs mount NAME`` mounts."""

    name: str
    origin: str
    sources: tuple[str, ...]
    mountpoint: str
    format: str | None = None
    subdir: str | None = None
    externals: tuple[str, ...] = ()
    words: tuple[Word, ...] = ()


class Configuration(NamedTuple):
    """What the file says; without one, nothing."""

    path: str | None = None
    """The file that was read, or None."""
    words: tuple[Word, ...] = ()
    formats: Mapping[str, tuple[Word, ...]] = MappingProxyType({})
    mounts: Mapping[str, NamedMount] = MappingProxyType({})

    def general_words(self, formats: Iterable[str], known: Iterable[Option]) -> list[Word]:
        """The defaults for options *known*; those of a format count where *formats* has no other."""
        names = {option.name for option in known}
        only = set(formats)
        own = self.formats.get(next(iter(only)), ()) if len(only) == 1 else ()
        return [word for word in layered(self.words, own) if word.name in names]

    def format_words(self, format: str, general: Iterable[Option]) -> list[Word]:
        """What the file says of *format*'s own options."""
        names = {option.name for option in general} | {option.name for option in GENERAL}
        return [word for word in self.formats.get(format, ()) if word.name not in names]

    def named(self, name: str, *, usage: str = MOUNT_USAGE) -> NamedMount:
        """The mount called *name*; raises UsageError, listing those there are, and with the *usage* of the command."""
        found = self.mounts.get(name)
        if found is None:
            known = f"{self.path} has: {', '.join(sorted(self.mounts))}" if self.mounts else "there are none"
            raise UsageError(f"no mount is called {name!r} ({known})", advice=f"usage: {usage}")
        return found


def layered(*layers: Sequence[Word]) -> list[Word]:
    """All words, less those that a later layer has a word of its own for."""
    kept: list[Word] = []
    for layer in layers:
        gone = {name for word in layer for name in (word.name, *_replaced(word))}
        kept = [word for word in kept if word.name not in gone] + list(layer)
    return kept


def _replaced(word: Word) -> tuple[str, ...]:
    refused = word.text.partition("=")[2].lower() in ("no", "false", "off", "0") and word.name != "umask"
    return () if refused else REPLACED.get(word.name, ())


# -- where the file is --


def default_path() -> str:
    """``config.yaml`` in our folder of XDG_CONFIG_HOME, which must be absolute to count, or of ``~/.config``."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "archivefs", "config.yaml")


def configuration_for(texts: Iterable[str]) -> Configuration:
    """The configuration of a command with these ``-o`` texts; raises what reading it raises."""
    asked = None
    for word in (word for text in texts for word in options.split(text)):
        name, equals, value = word.partition("=")
        if name == "config" and equals:
            asked = value
    if asked == "":
        raise BadOption("option config='' makes no sense: a path or off is expected")
    if asked is not None and asked.lower() in OFF:
        return Configuration()
    if asked:
        return load(os.path.abspath(os.path.expanduser(asked)))
    path = default_path()
    # Nothing more than this look where there is no file: importing yaml would take longer than a mount does.
    return load(path) if os.path.lexists(path) else Configuration()


def load(path: str) -> Configuration:
    """The configuration in the file at *path*; raises UsageError and its kind, with file and line."""
    from archivefs.cli.configreading import read_configuration

    return read_configuration(path)
