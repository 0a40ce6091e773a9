"""``archivefs config``: which settings hold, and where each comes from."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

import click

from archivefs import options, registry
from archivefs.cli.configuration import (
    GENERAL,
    Configuration,
    NamedMount,
    Word,
    configuration_for,
    default_path,
    layered,
    load,
)
from archivefs.cli.shared import EXIT_CODES, cli_command, json_option
from archivefs.cli.shown import json_text, write
from archivefs.errors import ArchiveError, quoted
from archivefs.options import Option

BUILT_IN = "built in"


@click.group(
    "config",
    epilog=f"\b\nExample:\n  archivefs config show\n  archivefs config check\n\n{EXIT_CODES}",
)
def command() -> None:
    """Show and check the configuration file.

    The file sets defaults for options, for all mounts or by format, and names mounts for archivefs mount NAME.
    """


@cli_command("path", example="archivefs config path")
def path_command() -> None:
    """Say where the configuration file is looked for."""
    write(quoted(default_path()))


@cli_command("check", example="archivefs config check")
@click.argument("file", required=False, metavar="[FILE]")
def check_command(file: str | None) -> None:
    """Check the configuration file, or another one."""
    path = os.path.abspath(file) if file else default_path()
    if file is None and not os.path.lexists(path):
        write(quoted(f"{path}: there is none"))
        return
    found = load(path)
    mounts = ", ".join(sorted(found.mounts)) or "none"
    write(quoted(f"{path}: ok; mounts: {mounts}"))


@cli_command("show", example="archivefs config show\narchivefs config show -o umask=027 --json island")
@click.argument("name", required=False, metavar="[NAME]")
@click.option("-o", "texts", metavar="NAME=VALUE", multiple=True, help="An option, as for mount; config=PATH too.")
@json_option
def show_command(name: str | None, texts: tuple[str, ...], as_json: bool) -> None:
    """Show the settings that hold, and where each comes from.

    With the NAME of a mount, those of that mount.
    """
    configuration = configuration_for(texts)
    mount = configuration.named(name, usage="archivefs config show [NAME]") if name else None
    given = [Word(word) for text in texts for word in options.split(text) if not word.startswith("config=")]
    shown = _settings(configuration, mount, given)
    if as_json:
        write(json_text(_as_json(configuration, mount, shown), indent=2))
    else:
        _print(configuration, mount, shown)


for _each in (show_command, check_command, path_command):
    command.add_command(_each)


def _settings(configuration: Configuration, mount: NamedMount | None, given: list[Word]) -> list[dict[str, str]]:
    """Every general option with its value and origin; then what is set of the formats' own."""
    named = mount.words if mount else ()
    formats = _formats_of(mount) if mount else []
    words = layered(configuration.general_words(formats, GENERAL), named, given)
    _check(words)
    shown = [_general(option, words) for option in GENERAL]
    for name in formats if mount else configuration.formats:
        format = registry.formats().get(name)
        own = {option.name for option in format.options} if format else set()
        words = layered(configuration.format_words(name, GENERAL), named, given)
        shown += [_row(word, name) for word in words if word.name in own]
    # Those of a mount whose format cannot be told now, since its archive is not there.
    seen = {row["option"] for row in shown}
    return shown + [_row(word) for word in layered(named, given) if word.name not in seen]


def _formats_of(mount: NamedMount) -> list[str]:
    """The formats of its sources, as far as they can be told."""
    if mount.format:
        return [mount.format]
    found = []
    for source in mount.sources:
        with suppress(ArchiveError):
            found.append(registry.detect(source).name)
    return list(dict.fromkeys(found))


def _check(words: Iterable[Word]) -> None:
    """Raises what a mount would raise for them."""
    known = [*GENERAL, *(option for format in registry.formats().values() for option in format.options)]
    options.parse([word.text.replace(",", "\\,") for word in words], known)


def _general(option: Option, words: list[Word]) -> dict[str, str]:
    for word in reversed(words):
        if word.name == option.name:
            return _row(word)
    return {"option": option.name, "value": options.typed_default(option), "from": BUILT_IN}


def _row(word: Word, format: str = "") -> dict[str, str]:
    name, equals, value = word.text.partition("=")
    row = {"option": name, "value": value if equals else "yes", "from": word.origin}
    return {**row, "format": format} if format else row


def _as_json(configuration: Configuration, mount: NamedMount | None, shown: list[dict[str, str]]) -> dict[str, object]:
    answer: dict[str, object] = {"file": configuration.path, "settings": shown}
    if mount is None:
        return {**answer, "mounts": {name: _mount_json(each) for name, each in sorted(configuration.mounts.items())}}
    return {**answer, "mount": _mount_json(mount)}


def _mount_json(mount: NamedMount) -> dict[str, object]:
    return {
        "name": mount.name,
        "from": mount.origin,
        "sources": list(mount.sources),
        "mountpoint": mount.mountpoint,
        "format": mount.format,
        "subdir": mount.subdir,
        "externals": list(mount.externals),
    }


def _print(configuration: Configuration, mount: NamedMount | None, shown: list[dict[str, str]]) -> None:
    write(quoted(f"file: {configuration.path or 'none'}"))
    labels = [" ".join(filter(None, (row.get("format", ""), row["option"]))) for row in shown]
    width = max(map(len, labels))
    for label, row in zip(labels, shown, strict=True):
        write(quoted(f"{label:{width}}  {row['value'] or '-':<10}  {row['from']}"))
    for each in [mount] if mount else [configuration.mounts[name] for name in sorted(configuration.mounts)]:
        write(quoted(f"mount {each.name}: {', '.join(each.sources)} at {each.mountpoint}  {each.origin}"))
