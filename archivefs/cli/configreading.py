"""From the text of a configuration file to a Configuration.  Imported only where there is a file."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from archivefs import options, registry
from archivefs.cli.configuration import GENERAL, Configuration, NamedMount, Word
from archivefs.cli.plainyaml import Item, read_plain
from archivefs.errors import ArchiveError, BadOption, UnknownFormat, UnknownOption
from archivefs.options import Option

PATHS = frozenset({"DIR", "FILE", "PATH", "ARCHIVE"})
"""Options with such a metavar take a path, which may begin with ``~``."""


def read_configuration(path: str) -> Configuration:
    """The configuration in the file at *path*; raises UsageError and its kind, with file and line."""
    return _Reading(path).configuration()


class _Reading:
    """One file on its way to a Configuration."""

    def __init__(self, path: str) -> None:
        self._path = path

    def configuration(self) -> Configuration:
        root = self._mapping(read_plain(self._path), "the configuration")
        self._known(root, ("options", "formats", "mounts"))
        return Configuration(
            path=self._path,
            words=self._words(root.get("options"), GENERAL),
            formats={name: self._format(name, item) for name, item in self._section(root, "formats")},
            mounts={name: self._mount(name, item) for name, item in self._section(root, "mounts")},
        )

    def _section(self, root: Mapping[str, Item], name: str) -> Iterator[tuple[str, Item]]:
        if name in root:
            yield from self._mapping(root[name], name).items()

    def _format(self, name: str, item: Item) -> tuple[Word, ...]:
        try:
            known = registry.format_named(name).options
        except UnknownFormat as error:
            if name in {plugin.name for plugin in registry.broken()}:
                return ()  # a plug-in that cannot be loaded is reported elsewhere, and must not stop other mounts
            raise self._placed(error, item.line) from None
        return self._words(item, (*GENERAL, *known))

    def _mount(self, name: str, item: Item) -> NamedMount:
        keys = self._mapping(item, f"the mount {name}")
        self._known(keys, ("sources", "mountpoint", "format", "subdir", "externals", "options"))
        for key in ("sources", "mountpoint"):
            if not keys.get(key, Item(0, "")).value:
                raise BadOption(f"the mount {name!r} has no {key}", archive=self._at(item.line))
        format = self._optional(keys, "format")
        return NamedMount(
            name=name,
            origin=self._at(item.line),
            sources=self._paths(keys["sources"]),
            mountpoint=self._resolved(self._scalar(keys["mountpoint"], "mountpoint")),
            format=format,
            subdir=self._optional(keys, "subdir"),
            externals=self._paths(keys["externals"]) if "externals" in keys else (),
            words=self._words(keys.get("options"), (*GENERAL, *self._options_of(format, keys))),
        )

    def _options_of(self, format: str | None, keys: Mapping[str, Item]) -> Sequence[Option]:
        """Those of the format, or where none is named of all: which it is, is known when it is mounted."""
        if format is None:
            return [option for known in registry.formats().values() for option in known.options]
        try:
            return registry.format_named(format).options
        except UnknownFormat as error:
            raise self._placed(error, keys["format"].line) from None

    # -- options --

    def _words(self, item: Item | None, known: Sequence[Option]) -> tuple[Word, ...]:
        if item is None:
            return ()
        keys = self._mapping(item, "options")
        by_name = {option.name: option for option in known}
        self._known(keys, by_name, what="option")
        return tuple(word for name, value in keys.items() for word in self._option(value, by_name[name]))

    def _option(self, item: Item, option: Option) -> Iterator[Word]:
        values = item.value if isinstance(item.value, list) and option.repeatable else [item]
        for value in values:
            text = self._scalar(value, option.name)
            word = _word(option, text)
            try:
                options.parse([word.replace(",", "\\,")], [option])
            except ArchiveError as error:
                raise self._placed(error, value.line) from None
            yield Word(_word(option, self._resolved(text)) if _takes_path(option, text) else word, self._at(item.line))

    # -- shapes --

    def _mapping(self, item: Item, what: str) -> dict[str, Item]:
        if item.value == "":
            return {}
        if not isinstance(item.value, dict):
            raise BadOption(f"{what}: names with values are expected here", archive=self._at(item.line))
        return item.value

    def _scalar(self, item: Item, what: str) -> str:
        if not isinstance(item.value, str):
            raise BadOption(f"{what}: one value is expected here", archive=self._at(item.line))
        return item.value

    def _optional(self, keys: Mapping[str, Item], key: str) -> str | None:
        return self._scalar(keys[key], key) or None if key in keys else None

    def _paths(self, item: Item) -> tuple[str, ...]:
        items = item.value if isinstance(item.value, list) else [item]
        return tuple(self._resolved(self._scalar(each, "a path")) for each in items)

    def _resolved(self, path: str) -> str:
        return os.path.normpath(os.path.join(os.path.dirname(self._path), os.path.expanduser(path)))

    def _known(self, keys: Mapping[str, Item], known: Iterable[str], *, what: str = "key") -> None:
        for key, item in keys.items():
            if key not in known:
                near = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.5)
                advice = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(known))}"
                raise UnknownOption(f"unknown {what} {key!r}", archive=self._at(item.line), advice=advice)

    def _placed(self, error: ArchiveError, line: int) -> ArchiveError:
        return type(error)(error.problem, archive=self._at(line), advice=error.advice)

    def _at(self, line: int) -> str:
        return f"{self._path}:{line}"


def _word(option: Option, text: str) -> str:
    return option.name if option.parse is None and not text else f"{option.name}={text}"


def _takes_path(option: Option, text: str) -> bool:
    choices = option.metavar.split("|")
    return bool(text) and bool(PATHS & set(choices)) and text.lower() not in choices
