"""YAML of a configuration file, as plain text with line numbers, within bounds.

Values stay the text that was written, so that ``umask: 022`` is ``022`` and not eighteen, and every complaint can
name its line.  Anchors, aliases, tags and second documents are refused: a configuration needs none of them, and
aliases are how a small file becomes a large one.  ``yaml`` is imported here and only when there is a file to read.
"""

from __future__ import annotations

import os
import stat
from typing import Any, NamedTuple

from archivefs.errors import BadOption, UsageError

MAX_BYTES = 256 << 10
MAX_DEPTH = 8


class Item(NamedTuple):
    """A value and the line it stands in, counted from 1."""

    line: int
    value: str | list[Item] | dict[str, Item]
    quoted: bool = False


def read_plain(path: str) -> Item:
    """The one document in the file at *path*; an empty file is an empty mapping.

    Raises UsageError for a file that cannot be read and BadOption, with the line, for what is no plain YAML.
    """
    return _Builder(path).build(_text(path))


def _text(path: str) -> str:
    try:
        # Not blocking: a FIFO of that name would hang every command.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError("the configuration is not a file", archive=path)
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise UsageError(f"the configuration is larger than {MAX_BYTES >> 10} KiB", archive=path)
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise BadOption("this is not UTF-8", archive=f"{path}:{line}") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"the configuration cannot be read: {reason}", archive=path) from None


class _Builder:
    """Puts the events of a YAML parser together."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._events: Any = None

    def build(self, text: str) -> Item:
        import yaml

        self._events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        try:
            root = self._document()
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise self._bad(line, f"this is not YAML: {error.problem or error.context}") from None
        except yaml.YAMLError:
            raise self._bad(1, "this is not YAML: it holds characters that no text has") from None
        except (RecursionError, ValueError):
            raise self._bad(1, "this is not YAML that can be read") from None
        return root

    def _document(self) -> Item:
        root = Item(1, {})
        documents = 0
        for event in self._events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    raise self._bad(event.start_mark.line + 1, "there is a second document")
            elif not kind.startswith(("Stream", "Document")):
                root = self._item(event, 1)
        return Item(root.line, {}) if root.value == "" else root

    def _item(self, event: Any, depth: int) -> Item:
        line = event.start_mark.line + 1
        kind = type(event).__name__
        if getattr(event, "anchor", None) or kind == "AliasEvent":
            raise self._bad(line, "anchors and aliases are not allowed")
        if event.tag is not None and event.tag != "!":
            raise self._bad(line, f"the tag {event.tag} is not allowed")
        if depth > MAX_DEPTH:
            raise self._bad(line, f"this is nested deeper than {MAX_DEPTH} levels")
        if kind == "SequenceStartEvent":
            return Item(line, self._sequence(depth))
        if kind == "MappingStartEvent":
            return Item(line, self._mapping(depth))
        if event.value in ("~", "null") and event.implicit[0]:
            return Item(line, "")
        return Item(line, event.value, quoted=not event.implicit[0])

    def _sequence(self, depth: int) -> list[Item]:
        items = []
        while type(event := next(self._events)).__name__ != "SequenceEndEvent":
            items.append(self._item(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, Item]:
        items: dict[str, Item] = {}
        while type(event := next(self._events)).__name__ != "MappingEndEvent":
            key = self._item(event, depth + 1)
            if not isinstance(key.value, str):
                raise self._bad(key.line, "a name is expected before the colon")
            if key.value in items:
                raise self._bad(key.line, f"{key.value!r} is there twice")
            value = self._item(next(self._events), depth + 1)
            # The line of its name: that of an empty value is the next one.
            items[key.value] = Item(key.line, value.value, value.quoted)
        return items

    def _bad(self, line: int, problem: str) -> BadOption:
        return BadOption(problem, archive=f"{self._path}:{line}")
