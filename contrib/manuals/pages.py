"""Which pages there are, and what stands where in them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from archivefs import __version__, registry
from archivefs.cli import COMMANDS
from archivefs.cli.mount_helper import command as mount_helper
from archivefs.fuse.options import MOUNT_OPTIONS, OPEN_OPTIONS
from archivefs.options import Option, with_default
from contrib.commandtree import Command, command_tree, described, opens_archives, takes_mount_options
from contrib.manuals import words
from contrib.manuals.helps import Help, parsed
from contrib.manuals.roff import Page, bold, escaped, italic, placeholders

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
GENERAL = (*MOUNT_OPTIONS, *OPEN_OPTIONS)


def pages() -> Iterator[Page]:
    """All of them."""
    tree = command_tree()
    yield overview(tree)
    for command in tree.children:
        yield of_command(command)
    yield of_helper()
    yield of_configuration()


def date() -> str:
    """The day of this version, as far as it is known: never that of today, so that the same text is made again."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch:
        return time.strftime("%Y-%m-%d", time.gmtime(int(epoch)))
    released = re.search(rf"^## {re.escape(__version__)} \((\d{{4}}-\d\d-\d\d)\)", CHANGELOG.read_text(), re.MULTILINE)
    return released[1] if released else ""


def new_page(name: str, section: int, summary: str) -> Page:
    """A page with its first section."""
    page = Page(name, section, date=date(), version=__version__)
    page.heading("NAME")
    page.line(rf"{escaped(name)} \- {escaped(summary[:1].lower() + summary[1:])}")
    return page


# -- the pages --


def overview(tree: Command) -> Page:
    """archivefs(1)."""
    page = new_page("archivefs", 1, tree.summary)
    page.heading("SYNOPSIS")
    page.line(rf"{bold('archivefs')} [{italic('OPTIONS')}] {italic('COMMAND')} [{italic('ARGUMENTS')}]")
    page.heading("DESCRIPTION")
    _paragraphs(page, words.OVERVIEW)
    page.heading("COMMANDS")
    _commands(page, tree)
    page.heading("FORMATS")
    for format in registry.formats().values():
        page.item(bold(format.name), f"{format.summary} ({'read and write' if format.can_write else 'read'})")
    page.heading("OPTIONS")
    _options(page, tree)
    _exit_codes(page, [*parsed(tree.declared).exit_codes, *words.EXIT_CODES_OF_ALL])
    _table(page, "ENVIRONMENT", words.ENVIRONMENT)
    _table(page, "FILES", words.FILES)
    page.heading("EXAMPLES")
    for said, lines in words.EXAMPLES:
        page.paragraph(said)
        page.verbatim(lines)
    commands = [f"archivefs-{command.name}(1)" for command in tree.children]
    _see_also(page, [*commands, "archivefs.yaml(5)", "mount.archivefs(8)", "fusermount3(1)", "mount(8)"])
    return page


def of_command(command: Command) -> Page:
    """archivefs-COMMAND(1), the commands below it included."""
    page = new_page("-".join(command.words), 1, COMMANDS.get(command.name, command.summary))
    page.heading("SYNOPSIS")
    _synopsis(page, command)
    help = parsed(command.declared)
    page.heading("DESCRIPTION")
    _paragraphs(page, help.paragraphs)
    page.heading("OPTIONS")
    _options(page, command)
    inner = [each for each in command.walk() if not each.children and each is not command]
    if inner:
        page.heading("COMMANDS")
    for each in inner:
        _inner_command(page, each)
    if opens_archives(command):
        _option_words(page, command)
    _exit_codes(page, help.exit_codes)
    _examples(page, help)
    _see_also(page, ["archivefs(1)", *(["archivefs-mount(1)"] if opens_archives(command) else []), "archivefs.yaml(5)"])
    return page


def of_helper() -> Page:
    """mount.archivefs(8)."""
    command = described(mount_helper, ("mount.archivefs",), None)
    help = parsed(mount_helper)
    page = new_page("mount.archivefs", 8, command.summary)
    page.heading("SYNOPSIS")
    _synopsis(page, command)
    page.heading("DESCRIPTION")
    _paragraphs(page, [*help.paragraphs, *words.HELPER])
    page.heading("OPTIONS")
    _options(page, command)
    page.heading("OPTIONS AFTER -o")
    for name, said in words.HELPER_OPTIONS:
        page.item(placeholders(name) if "=" in name else bold(name), said)
    _listed(page, GENERAL)
    _exit_codes(page, help.exit_codes)
    _examples(page, help)
    _see_also(page, ["archivefs(1)", "archivefs-mount(1)", "fstab(5)", "mount(8)"])
    return page


def of_configuration() -> Page:
    """archivefs.yaml(5)."""
    page = new_page("archivefs.yaml", 5, "the configuration file of archivefs")
    page.heading("SYNOPSIS")
    page.line(italic("~/.config/archivefs/config.yaml"))
    page.heading("DESCRIPTION")
    _paragraphs(page, words.CONFIGURATION)
    _table(page, "KEYS", words.KEYS)
    page.heading("EXAMPLE")
    page.verbatim(words.CONFIGURATION_EXAMPLE)
    _see_also(page, ["archivefs(1)", "archivefs-config(1)", "archivefs-mount(1)"])
    return page


# -- their parts --


def _synopsis(page: Page, command: Command) -> None:
    """Every way to call it, or the commands in it, a line each."""
    calls = [(each, call) for each in command.walk() if not each.children for call in _calls(each)]
    lines = [f"{bold(' '.join(each.words))} {placeholders(call)}".rstrip() for each, call in calls]
    page.line("\n.br\n".join(lines))


def _calls(command: Command) -> list[str]:
    """What may follow its name."""
    options, *arguments = command.declared.collect_usage_pieces(command.context)
    return [f"{options} {call}" for call in " ".join(arguments).split(" | ")]


def _paragraphs(page: Page, paragraphs: Iterable[str]) -> None:
    for paragraph in paragraphs:
        page.paragraph(paragraph)


def _commands(page: Page, tree: Command) -> None:
    for command in tree.children:
        page.item(bold(f"archivefs-{command.name}") + "(1)", COMMANDS.get(command.name, command.summary))


def _options(page: Page, command: Command) -> None:
    for option in command.options():
        record = option.get_help_record(command.context)
        assert record is not None
        page.item(placeholders(record[0]), record[1])


def _inner_command(page: Page, command: Command) -> None:
    help = parsed(command.declared)
    page.subheading(" ".join(command.words))
    _paragraphs(page, help.paragraphs)
    _options(page, command)
    page.paragraph("Exit codes: " + ", ".join(f"{code} {meaning}" for code, meaning in help.exit_codes) + ".")
    for _, lines in help.examples:
        page.verbatim(lines)


def _option_words(page: Page, command: Command) -> None:
    page.heading("OPTIONS AFTER -o")
    page.paragraph(words.OPTION_WORDS)
    if command.name != "mount":
        _listed(page, OPEN_OPTIONS)
        others = "Those of a mount and" if takes_mount_options(command) else "Those"
        page.paragraph(f"{others} of each format are in archivefs-mount(1).")
        return
    _listed(page, GENERAL)
    for format in registry.formats().values():
        if format.options:
            page.subheading(f"Options of the format {format.name}")
            _listed(page, format.options)


def _listed(page: Page, options: Iterable[Option]) -> None:
    for option in options:
        value = "=" + placeholders(option.metavar) if option.parse else ""
        help = with_default(option)
        page.item(bold(option.name) + value, help[:1].upper() + help[1:].rstrip(".") + ".")


def _exit_codes(page: Page, codes: Iterable[tuple[str, str]]) -> None:
    if codes:
        _table(page, "EXIT STATUS", codes)


def _examples(page: Page, help: Help) -> None:
    if help.examples:
        page.heading("EXAMPLES")
    for title, lines in help.examples:
        if not title.startswith("Example"):
            page.paragraph(f"{title}:")
        page.verbatim(lines)


def _table(page: Page, title: str, rows: Iterable[tuple[str, str]]) -> None:
    page.heading(title)
    for term, said in rows:
        page.item(bold(term), said)


def _see_also(page: Page, names: Iterable[str]) -> None:
    page.heading("SEE ALSO")
    others = [name for name in names if name != f"{page.name}({page.section})"]
    page.line(",\n".join(bold(name[:-3]) + name[-3:] for name in others))
