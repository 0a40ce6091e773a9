"""The commands there are, formats' included: what the manuals and the completions are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import click

from archivefs.cli import group

MOUNTING = (("mount",), ("open",), ("config", "show"))


class Command(NamedTuple):
    """A command, or a group of them."""

    words: tuple[str, ...]
    """What is typed: ``("archivefs", "crawls", "list")``."""
    declared: click.Command
    context: click.Context
    children: tuple[Command, ...] = ()

    @property
    def name(self) -> str:
        """What is typed last."""
        return self.words[-1]

    @property
    def summary(self) -> str:
        """The first sentence of its help."""
        return self.declared.get_short_help_str(limit=200).rstrip(".")

    def options(self) -> list[click.Option]:
        """Its options in the order of ``--help``, which comes last."""
        parameters = self.declared.get_params(self.context)
        return [each for each in parameters if isinstance(each, click.Option) and not each.hidden]

    def arguments(self) -> list[click.Argument]:
        """What it takes beside options."""
        return [each for each in self.declared.get_params(self.context) if isinstance(each, click.Argument)]

    def walk(self) -> Iterator[Command]:
        """Itself and everything below."""
        yield self
        for child in self.children:
            yield from child.walk()


def command_tree() -> Command:
    """``archivefs`` and every command in it that is not hidden."""
    return described(group, ("archivefs",), None)


def described(command: click.Command, words: tuple[str, ...], parent: click.Context | None) -> Command:
    """*command*, called by *words*, and what is below it."""
    context = click.Context(command, info_name=words[-1], parent=parent)
    if not isinstance(command, click.Group):
        return Command(words, command, context)
    inner = ((name, command.get_command(context, name)) for name in command.list_commands(context))
    children = tuple(
        described(child, (*words, name), context) for name, child in inner if child is not None and not child.hidden
    )
    return Command(words, command, context, children)


def opens_archives(command: Command) -> bool:
    """Does it, or one in it, take options after ``-o``?"""
    return any("-o" in option.opts for each in command.walk() for option in each.options())


def takes_mount_options(command: Command) -> bool:
    """Does it understand those of a mount too, and not only those for opening an archive?"""
    return command.words[1:] in MOUNTING or any(takes_mount_options(child) for child in command.children)
