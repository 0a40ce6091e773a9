"""The formats there are, which of them an archive is, and which options they take.

Formats are found by the entry point group ``archivefs.formats`` and imported only when they are asked for; one
that fails to import is reported by :func:`broken` and never fatal.  ``cli/sources.py`` is the main user.

Threading: everything may be called from any thread; the table of loaded formats is guarded by one lock.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from archivefs import options
from archivefs.errors import (
    AmbiguousFormat,
    MissingLibrary,
    UnknownFormat,
    UnknownOption,
    UnreadableArchive,
    UsageError,
    quoted,
)
from archivefs.format import Format, Match, Opening, PluginBroken, Probe
from archivefs.options import Option
from archivefs.plugins import Plugin, offered
from archivefs.tree import Tree

GROUP = "archivefs.formats"

log = logging.getLogger(__name__)


class _Loaded(NamedTuple):
    formats: Mapping[str, Format]
    broken: Sequence[PluginBroken]


_lock = threading.Lock()
_loaded: _Loaded | None = None


# -- which formats there are --


def formats() -> Mapping[str, Format]:
    """Every format that could be loaded, by name."""
    return _all().formats


def broken() -> Sequence[PluginBroken]:
    """The formats that could not be loaded, each with its reason."""
    return _all().broken


def format_named(name: str) -> Format:
    """The format of that name; raises UnknownFormat, naming the nearest one."""
    found = formats().get(name)
    if found is not None:
        return found
    for plugin in broken():
        if plugin.name == name:
            raise UnknownFormat(str(plugin))
    import difflib  # only for who has mistyped

    near = difflib.get_close_matches(name, sorted(formats()), n=1, cutoff=0.5)
    advice = f"did you mean {near[0]}?" if near else f"there are: {_listed(formats())}"
    raise UnknownFormat(f"no format is called {name!r}", advice=advice)


def _all() -> _Loaded:
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _load(offered(GROUP))
        return _loaded


def _load(plugins: Iterable[Plugin]) -> _Loaded:
    found: dict[str, Format] = {}
    failed: list[PluginBroken] = []
    for plugin in sorted(set(plugins)):
        try:
            _admit(plugin.name, plugin.load(), found)
        except Exception as error:  # whatever a plug-in raises, the others go on
            failed.append(PluginBroken(plugin.name, error))
    return _Loaded(found, failed)


def _admit(name: str, loaded: object, found: dict[str, Format]) -> None:
    if not isinstance(loaded, Format):
        raise UsageError(f"its entry point is a {type(loaded).__name__} and not a Format")
    if loaded.name != name:
        raise UsageError(f"its entry point offers the format {loaded.name!r} under another name")
    if name in found:
        raise UsageError("two plug-ins offer a format of that name")
    found[name] = loaded


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


# -- which one an archive is --


def detect(path: str, forced: str | None = None) -> Format:
    """The format of the archive at *path*, or the one called *forced*.

    The surest match wins.  Raises UnreadableArchive (not there, not allowed, no file), UnknownFormat
    (nobody recognises it) and AmbiguousFormat (two are equally sure).
    """
    if forced is not None:
        chosen = format_named(forced)
        _check_readable(path)
        return chosen
    probe = _check_readable(path)
    matches = _matches(probe)
    best = max(matches.values(), default=Match.NO)
    if best is Match.NO:
        raise _unrecognised(probe)
    winners = [name for name, match in matches.items() if match == best]
    if len(winners) > 1:
        raise AmbiguousFormat(
            f"it could be any of {_listed(winners)}", archive=path, advice=f"choose one, such as --format {winners[0]}"
        )
    return formats()[winners[0]]


def open_tree(path: str, opening: Opening, forced: str | None = None) -> Tree:
    """The archive at *path*, opened by its format, whose own error is shown if it fails."""
    return open_as(detect(path, forced), path, opening)


def open_as(format: Format, path: str, opening: Opening) -> Tree:
    """The archive at *path*, opened as *format*; raises MissingLibrary where the format cannot work here."""
    check_available(format)
    try:
        return format.open(os.path.abspath(path), opening)
    except OSError as error:
        raise _unreadable(path, error) from error


def check_available(format: Format) -> None:
    """Raises MissingLibrary with the sentence that says what to install."""
    missing = format.unavailable() if format.unavailable else None
    if missing:
        raise MissingLibrary(f"format {format.name} cannot be used here: {missing}")


def _check_readable(path: str) -> Probe:
    """What formats look at; raises UnreadableArchive while the user can still be told why."""
    probe = Probe(path)
    try:
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode)):
            # A FIFO would hang whoever opens it.
            raise UnreadableArchive("neither a file nor a folder", archive=path)
        _ = probe.names, probe.head  # read here, so that an error of the disk is told as one
    except OSError as error:
        raise _unreadable(path, error) from error
    return probe


def _unreadable(path: str, error: OSError) -> UnreadableArchive:
    if isinstance(error, FileNotFoundError):
        return UnreadableArchive("no such file or folder", archive=path)
    return UnreadableArchive(_in_words(error), archive=path)


def _in_words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _matches(probe: Probe) -> dict[str, Match]:
    """How sure each format is, by its name; what keeps some of them from looking is told."""
    found: dict[str, Match] = {}
    unreadable = None
    for name, format in formats().items():
        try:
            found[name] = format.match(probe)
        except OSError as error:  # which the others will meet too
            unreadable = error
        except Exception as error:  # one format's bug must not keep the others from the archive
            log.warning("%s", quoted(f"format {name} could not look at {probe.path}: {error!r}"))
    if unreadable is not None:
        log.warning("%s", quoted(f"{probe.path}: it cannot be looked at: {_in_words(unreadable)}"))
    return found


def _unrecognised(probe: Probe) -> UnknownFormat:
    what = "this folder" if probe.is_directory else "it" if probe.head else "it, for it is empty"
    problem = f"no format recognises {what} (tried: {_listed(formats())})"
    failed = "".join(f"; {plugin}" for plugin in broken())
    return UnknownFormat(
        problem + failed, archive=probe.path, advice="force one with --format NAME, or see archivefs formats"
    )


# -- options --


@dataclass(frozen=True)
class Settings:
    """What ``-o`` said, sorted by who understands it."""

    general: Mapping[str, Any]
    """The values of the general options, with defaults."""
    words: Sequence[str] = ()
    """What is left for the formats."""
    defaults: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Words of a format's own options, by its name, that count where ``words`` has none of that option."""

    def of(self, format: Format) -> dict[str, Any]:
        """The values of *format*'s own options, with defaults; raises BadOption."""
        names = {option.name for option in format.options}
        given = [word for word in self.words if _name(word) in names]
        taken = {_name(word) for word in given}
        before = [word for word in self.defaults.get(format.name, ()) if _name(word) not in taken]
        return options.parse([_text(word) for word in (*before, *given)], format.options)

    def apply(self, opening: Opening, format: Format) -> Opening:
        """*opening* with the options of *format* put in."""
        return replace(opening, options=self.of(format))


def settle(
    texts: Iterable[str],
    *,
    chosen: Iterable[Format],
    general: Sequence[Option] = (),
    defaults: Mapping[str, Sequence[str]] | None = None,
    sloppy: bool = False,
) -> Settings:
    """Sort what ``-o`` said among the *general* options and those of the *chosen* formats.

    *defaults* are words for the own options of formats, by their names.  Raises BadOption, and UnknownOption for what
    neither knows: it names the nearest option, or the format that would have understood it.  *sloppy*: that is
    only told of, and left out.
    """
    own = {option.name for option in general}
    taken = list(chosen)
    theirs = {option.name for format in taken for option in format.options}
    general_words: list[str] = []
    words: list[str] = []
    for word in (word for text in texts for word in options.split(text)):
        name = _name(word)
        if name not in own and name not in theirs:
            error = _unknown_option(name, own | theirs, taken)
            if not sloppy:
                raise error
            log.warning("%s; it is left out", quoted(error.problem))
            continue
        (general_words if name in own else words).append(word)
    settings = Settings(options.parse([_text(word) for word in general_words], general), words, defaults or {})
    for format in taken:
        settings.of(format)  # a bad value is told now, not when the archive is opened
    return settings


def _unknown_option(name: str, known: Iterable[str], chosen: Sequence[Format]) -> UnknownOption:
    owners = [format.name for format in formats().values() if name in {option.name for option in format.options}]
    if owners and chosen:
        here = _listed({format.name for format in chosen})
        return UnknownOption(f"option {name!r} belongs to the format {_listed(owners)}, and this is {here}")
    return options.unknown(name, known)


def _name(word: str) -> str:
    return word.partition("=")[0]


def _text(word: str) -> str:
    """A word as ``options.split`` reads it."""
    return word.replace(",", "\\,")
