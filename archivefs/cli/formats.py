"""``archivefs formats``: which formats there are, and what they can do."""

from __future__ import annotations

from archivefs import registry
from archivefs.cli.shared import cli_command, json_option
from archivefs.cli.shown import json_text, write
from archivefs.errors import quoted
from archivefs.format import Format
from archivefs.options import Option, with_default


@cli_command("formats", example="archivefs formats")
@json_option
def command(as_json: bool) -> None:
    """List the formats and their options."""
    known = [_described(format) for format in registry.formats().values()]
    if as_json:
        broken = [{"name": plugin.name, "problem": quoted(str(plugin))} for plugin in registry.broken()]
        write(json_text([*known, *broken], indent=2))
        return
    for format in registry.formats().values():
        write("\n".join(_lines(format)))
    for plugin in registry.broken():
        write(quoted(str(plugin)))


def _described(format: Format) -> dict[str, object]:
    return {
        "name": format.name,
        "summary": format.summary,
        "read": True,
        "write": format.can_write,
        "verify": format.verify is not None,
        "options": [_described_option(option) for option in format.options],
        "commands": list(format.command_names),
        "problem": _problem(format),
    }


def _described_option(option: Option) -> dict[str, object]:
    value = option.metavar if option.parse else None
    return {"name": option.name, "value": value, "default": option.default, "help": option.help}


def _problem(format: Format) -> str | None:
    return format.unavailable() if format.unavailable else None


def _lines(format: Format) -> list[str]:
    access = "read, write" if format.can_write else "read"
    lines = [f"{format.name}: {format.summary} ({access})"]
    problem = _problem(format)
    if problem:
        lines.append(f"  cannot be used here: {quoted(problem)}")
    written = [option.name + (f"={option.metavar}" if option.parse else "") for option in format.options]
    width = max(map(len, written), default=0)
    lines += [
        f"  -o {text:{width}}  {with_default(option)}" for text, option in zip(written, format.options, strict=True)
    ]
    if format.command_names:
        lines.append(f"  commands: {', '.join(f'archivefs {name}' for name in format.command_names)}")
    return lines
