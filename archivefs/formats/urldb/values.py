"""What a document holds: scalars as they are written, lists and mappings; read from YAML's events (specification 3.1).

Nothing is constructed: a scalar stays text, beside which stands whether it was plain.  Tags, anchors, aliases and
merge keys are refused where they stand, nesting is bounded, and a plain document is read without a YAML library.
Pure functions; any thread may call them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from archivefs.formats.urldb.limits import Limits


class Scalar(NamedTuple):
    """One value."""

    text: str
    plain: bool
    """Written without quotes, and in one of the plain styles."""
    line: int


class Sequence(NamedTuple):
    """A list."""

    items: list[Value]
    line: int


class Mapping(NamedTuple):
    """A mapping; a key that is there twice is there twice."""

    items: list[tuple[Scalar, Value]]
    line: int

    def get(self, key: str) -> Value | None:
        """The value of *key*; of two the last."""
        for name, value in reversed(self.items):
            if name.text == key:
                return value
        return None

    def line_of(self, key: str) -> int:
        """The line of *key*, or of the document."""
        for name, _ in reversed(self.items):
            if name.text == key:
                return name.line
        return self.line


Value: TypeAlias = "Scalar | Sequence | Mapping"
"""Lines count from 0, the line of the document's marker."""

NULL = Scalar("", True, 0)


class Refused(Exception):
    """A document that is not taken: one code of the lint, what is wrong, and in which of its lines."""

    def __init__(self, code: str, text: str, line: int = 0) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.line = line


# -- the quick way --

_PLAIN = rb"[A-Za-z0-9/](?:[!\"$-~]*[!\"$-9;-~])?"
_PATH = rb"/(?:[!\"$-~]*[!\"$-9;-~])?"
_QUOTED = rb"'[ !#-&(-~]*'"
_KEY = rb"[a-z][a-z0-9-]*"
_EOL = rb"\r?\n"
SIMPLE = re.compile(
    rb"---" + _EOL + rb"_path: (" + _PATH + rb")" + _EOL
    + rb"((?:" + _KEY + rb":(?: (?:" + _PLAIN + rb"|" + _QUOTED + rb")" + _EOL
    + rb"|" + _EOL + rb"(?:- " + _PLAIN + _EOL + rb")+))*)"
)  # fmt: skip
"""A record of one-line scalars and lists of plain words, in ASCII: what nearly every record is."""


def simple(data: bytes, start: int, end: int) -> Mapping | None:
    """The record between *start* and *end*, if it can be read without a YAML library."""
    match = SIMPLE.fullmatch(data, start, end)
    if match is None:
        return None
    items: list[tuple[Scalar, Value]] = [(Scalar("_path", True, 1), Scalar(match[1].decode(), True, 1))]
    for line, text in enumerate(match[2].decode().splitlines(), 2):
        if text.startswith("- "):
            last = items[-1][1]
            if isinstance(last, Sequence):
                last.items.append(Scalar(text[2:], True, line))
            continue
        key, _, rest = text.partition(":")
        value: Value = Sequence([], line + 1) if not rest else _simple_scalar(rest[1:], line)
        items.append((Scalar(key, True, line), value))
    return Mapping(items, 1)


def _simple_scalar(text: str, line: int) -> Scalar:
    return Scalar(text[1:-1], False, line) if text.startswith("'") else Scalar(text, True, line)


# -- the exact way --


@functools.cache
def _yaml() -> tuple[Any, Any]:
    """The library and its quickest loader; the one in C is not everywhere."""
    import yaml

    return yaml, getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse(text: str, limits: Limits, *, before: int = 0) -> Value:
    """The one document in *text*, which begins with *before* lines that are not its own; raises Refused."""
    yaml, loader = _yaml()
    builder = _Builder(yaml, limits, _lines(text, before))
    events = yaml.parse(text, Loader=loader)
    try:
        for event in events:
            builder.take(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        where = f" (line {builder.line(mark)} after its ---)" if mark else ""
        raise Refused("yaml", f"{problem}{where}") from None
    except RecursionError:
        raise Refused("depth", f"nested deeper than {limits.depth}") from None
    return builder.result


class _lines:
    """From a mark to the line as we count: YAML also counts NEL, LS and PS as line ends."""

    def __init__(self, text: str, before: int) -> None:
        self._before = before
        self._text = text if re.search("[\x85\u2028\u2029]", text) else None

    def __call__(self, mark: Any) -> int:
        if self._text is None:
            return int(mark.line) - self._before
        return len(re.findall("\r\n|\r|\n", self._text[: mark.index])) - self._before


class _Builder:
    """Puts one document together."""

    def __init__(self, yaml: Any, limits: Limits, line: _lines) -> None:
        self._limits = limits
        self.line = line
        self.result: Value = NULL
        self._documents = 0
        self._open: list[Value] = []
        self._keys: list[Scalar | None] = []
        self._take = {
            yaml.ScalarEvent: self._scalar,
            yaml.SequenceStartEvent: self._begin,
            yaml.MappingStartEvent: self._begin,
            yaml.SequenceEndEvent: self._end,
            yaml.MappingEndEvent: self._end,
            yaml.AliasEvent: self._alias,
            yaml.DocumentStartEvent: self._document,
        }
        self._mapping = yaml.MappingStartEvent

    def take(self, event: Any) -> None:
        take = self._take.get(type(event))
        if take is not None:
            take(event)

    def _document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            raise Refused("yaml", "a second document begins in it")

    def _alias(self, event: Any) -> None:
        raise Refused("alias", "aliases are not allowed", self.line(event.start_mark))

    def _check(self, event: Any) -> None:
        if event.anchor is not None:
            raise Refused("alias", "anchors are not allowed", self.line(event.start_mark))
        if event.tag is not None:
            raise Refused("tag", "tags are not allowed", self.line(event.start_mark))

    def _scalar(self, event: Any) -> None:
        self._check(event)
        plain = event.style is None or event.style == ""
        scalar = Scalar(event.value, plain and event.implicit[0], self.line(event.start_mark))
        top = self._open[-1] if self._open else None
        if isinstance(top, Mapping) and self._keys[-1] is None:
            if scalar.plain and scalar.text == "<<":
                raise Refused("alias", "merge keys are not allowed", scalar.line)
            self._keys[-1] = scalar
        else:
            self._add(scalar)

    def _begin(self, event: Any) -> None:
        self._check(event)
        line = self.line(event.start_mark)
        if self._open and isinstance(self._open[-1], Mapping) and self._keys[-1] is None:
            raise Refused("yaml", "a list or a mapping is no key", line)
        if len(self._open) >= self._limits.depth:
            raise Refused("depth", f"nested deeper than {self._limits.depth}", line)
        made: Value = Mapping([], line) if isinstance(event, self._mapping) else Sequence([], line)
        self._add(made)
        self._open.append(made)
        self._keys.append(None)

    def _end(self, _event: Any) -> None:
        self._open.pop()
        self._keys.pop()

    def _add(self, value: Value) -> None:
        if not self._open:
            self.result = value
            return
        top = self._open[-1]
        if isinstance(top, Mapping):
            key = self._keys[-1]
            self._keys[-1] = None
            if key is not None:
                top.items.append((key, value))
        elif isinstance(top, Sequence):
            top.items.append(value)


# -- what a plain scalar means --


@functools.cache
def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    yaml, _ = _yaml()
    return dict(yaml.SafeLoader.yaml_implicit_resolvers)


def kind_of(text: str) -> str:
    """What YAML 1.1 takes a plain scalar for: ``str``, ``int``, ``bool``, ``null`` and the like."""
    if text[:1] in _SURELY_TEXT:
        return "str"
    for tag, pattern in _resolvers().get(text[:1], ()):
        if pattern.match(text):
            return tag.rpartition(":")[2]
    return "str"


_SURELY_TEXT = frozenset("/abcdeghijklmpqrsuvwxzABCDEGHIJKLMPQRSUVWXZ_")


def is_null(value: Value | None) -> bool:
    """Nothing, or written as null?"""
    return value is None or (isinstance(value, Scalar) and value.plain and kind_of(value.text) == "null")


def is_text(scalar: Scalar) -> bool:
    """Would YAML read it as a string?"""
    return not scalar.plain or kind_of(scalar.text) == "str"


def words_of(value: Value | None) -> Iterator[str]:
    """The items of a list of words, as written; a single word is a list of one."""
    if isinstance(value, Sequence):
        yield from (item.text for item in value.items if isinstance(item, Scalar))
    elif isinstance(value, Scalar) and not is_null(value):
        yield value.text
