"""Pickles shown without ever loading one: a disassembly, and a decoder for plain data only.  Specification §8.1.

``pickletools.genops`` reads opcodes and runs nothing.  The decoder here builds simple values from a short list of
opcodes and gives up at any other one.  What it builds is never hashed and never compared, so a hostile pickle can
neither run code nor keep us busy; the number of values, the depth and the text are bounded.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

MAX_OPCODES = 100_000
MAX_DEPTH = 64
MAX_VALUES = 200_000
MAX_ARGUMENT = 2000
"""Characters of one opcode's argument that are shown."""
_MARK = object()


class NotPlain(Exception):
    """It is more than plain data; the disassembly must do."""


class Pairs(list[tuple[Any, Any]]):
    """A dict: its pairs in order.  Not a real one, whose keys would have to be hashed."""


class Opcode(NamedTuple):
    """One instruction."""

    name: str
    argument: Any
    position: int


def opcodes(data: bytes) -> Iterator[Opcode]:
    """The instructions; raises NotPlain where they cannot be read any further, or are too many."""
    walk = pickletools.genops(data)
    for _count in range(MAX_OPCODES):
        try:
            opcode, argument, position = next(walk)
        except StopIteration:
            return
        except Exception as error:  # genops raises whatever its parsers raise
            raise NotPlain(f"not a pickle from here on ({type(error).__name__})") from None
        yield Opcode(opcode.name, argument, position or 0)
    raise NotPlain(f"more than {MAX_OPCODES} instructions")


def is_pickle(data: bytes) -> bool:
    """Can it be read as one to its very end?"""
    try:
        last = [Opcode("", None, -1), *opcodes(data)][-1]
    except NotPlain:
        return False
    return last.name == "STOP" and last.position == len(data) - 1


def rendering(data: bytes, limit: int) -> str:
    """The value, if it is plain data, and the disassembly, cut where it becomes longer than *limit*."""
    parts = []
    try:
        parts.append(text_of(decoded(data), limit // 2) + "\n\n")
    except NotPlain as error:
        parts.append(f"# not shown as a value: {error}\n\n")
    size = len(parts[0])
    for line in disassembly(data):
        size += len(line)
        if size > limit:
            parts.append("...\n")
            break
        parts.append(line)
    return "".join(parts)


def disassembly(data: bytes) -> Iterator[str]:
    """A line for each instruction."""
    try:
        for opcode in opcodes(data):
            argument = "" if opcode.argument is None else " " + _shown(opcode.argument)
            yield f"{opcode.position:>8}: {opcode.name}{argument}\n"
    except NotPlain as error:
        yield f"# {error}\n"


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 4096:
        return f"<a number of {value.bit_length()} bits>"  # printing it would take its time
    text = ascii(value[: MAX_ARGUMENT + 1]) if isinstance(value, (str, bytes, bytearray)) else ascii(value)
    return text if len(text) <= MAX_ARGUMENT else text[:MAX_ARGUMENT] + "..."


# -- the decoder --


def decoded(data: bytes) -> Any:
    """The value of a pickle of plain data; raises NotPlain for any other."""
    machine = _Machine()
    for opcode in opcodes(data):
        if opcode.name == "STOP":
            return machine.result()
        machine.step(opcode)
    raise NotPlain("it has no end")


class _Machine:
    """A stack, a memo, and the few instructions that make plain data."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def result(self) -> Any:
        if len(self._stack) != 1 or self._stack[0] is _MARK:
            raise NotPlain("it does not end with one value")
        return self._stack[0]

    def step(self, opcode: Opcode) -> None:
        push = _VALUES.get(opcode.name)
        if push is not None:
            self._stack.append(push(opcode.argument))
            return
        action = _ACTIONS.get(opcode.name)
        if action is None:
            raise NotPlain(f"it uses {opcode.name}")
        action(self, opcode.argument)

    def pop(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise NotPlain("it takes more than there is")
        return self._stack.pop()

    def top(self, kind: type) -> Any:
        if not self._stack or type(self._stack[-1]) is not kind:
            raise NotPlain("it adds to what is no container")
        return self._stack[-1]

    def marked(self) -> list[Any]:
        """What lies above the last mark; the mark is taken away."""
        for at in range(len(self._stack) - 1, -1, -1):
            if self._stack[at] is _MARK:
                found = self._stack[at + 1 :]
                del self._stack[at:]
                return found
        raise NotPlain("a mark is missing")

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def drop(self, _argument: Any) -> None:
        if not self._stack:
            raise NotPlain("it takes more than there is")
        self._stack.pop()

    def drop_marked(self, _argument: Any) -> None:
        self.marked()

    def double(self, _argument: Any) -> None:
        value = self.pop()
        self._stack += [value, value]

    def keep(self, number: Any) -> None:
        if not self._stack or self._stack[-1] is _MARK:
            raise NotPlain("it keeps what is not there")
        self._memo[len(self._memo) if number is None else int(number)] = self._stack[-1]

    def recall(self, number: Any) -> None:
        if int(number) not in self._memo:
            raise NotPlain("it recalls what was not kept")
        self._stack.append(self._memo[int(number)])

    def append(self, _argument: Any) -> None:
        value = self.pop()
        self.top(list).append(value)

    def extend(self, _argument: Any) -> None:
        values = self.marked()
        self.top(list).extend(values)

    def set_item(self, _argument: Any) -> None:
        value, key = self.pop(), self.pop()
        self.top(Pairs).append((_checked_key(key), value))

    def set_items(self, _argument: Any) -> None:
        values = self.marked()
        self.top(Pairs).extend(_paired(values))

    def make_tuple(self, size: int) -> None:
        values = [self.pop() for _ in range(size)]
        self._stack.append(tuple(reversed(values)))


def _paired(values: Sequence[Any]) -> Pairs:
    if len(values) % 2:
        raise NotPlain("a key has no value")
    return Pairs((_checked_key(key), value) for key, value in zip(values[::2], values[1::2], strict=True))


def _checked_key(key: Any) -> Any:
    if isinstance(key, list):
        raise NotPlain("a key of a dict cannot be one")
    return key


def _long_text(value: Any) -> Any:
    return value


def _python2_bytes(text: Any) -> bytes:
    return str(text).encode("latin-1", "backslashreplace")


_VALUES: dict[str, Callable[[Any], Any]] = {
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    **dict.fromkeys(("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"), _long_text),
    **dict.fromkeys(("STRING", "BINSTRING", "SHORT_BINSTRING"), _python2_bytes),
    **dict.fromkeys(("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"), _long_text),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"), _long_text),
    "EMPTY_LIST": lambda _: [],
    "EMPTY_TUPLE": lambda _: (),
    "EMPTY_DICT": lambda _: Pairs(),
    "MARK": lambda _: _MARK,
}

_ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": lambda _machine, _argument: None,
    "FRAME": lambda _machine, _argument: None,
    "LIST": lambda machine, _: machine.push(list(machine.marked())),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.marked())),
    "DICT": lambda machine, _: machine.push(_paired(machine.marked())),
    "TUPLE1": lambda machine, _: machine.make_tuple(1),
    "TUPLE2": lambda machine, _: machine.make_tuple(2),
    "TUPLE3": lambda machine, _: machine.make_tuple(3),
    "APPEND": _Machine.append,
    "APPENDS": _Machine.extend,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_items,
    "POP": _Machine.drop,
    "POP_MARK": _Machine.drop_marked,
    "DUP": _Machine.double,
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _Machine.keep),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Machine.recall),
}


# -- showing what was decoded --


def text_of(value: Any, limit: int) -> str:
    """The value as Python would write it; raises NotPlain where it is cyclic, too deep or too long."""
    writer = _Text(limit)
    writer.add(value, 0)
    return "".join(writer.parts)


class _Text:
    def __init__(self, limit: int) -> None:
        self.parts: list[str] = []
        self._left = limit
        self._values = 0

    def add(self, value: Any, depth: int) -> None:
        self._values += 1
        if depth > MAX_DEPTH or self._values > MAX_VALUES:
            raise NotPlain("it is cyclic, too deep or too large")
        if isinstance(value, Pairs):
            self._add_all("{", value, "}", depth)
        elif isinstance(value, list):
            self._add_all("[", value, "]", depth)
        elif isinstance(value, tuple):
            self._add_all("(", value, ",)" if len(value) == 1 else ")", depth)
        else:
            self._write(_atom(value))

    def _add_all(self, begin: str, values: Sequence[Any], end: str, depth: int) -> None:
        self._write(begin)
        for at, value in enumerate(values):
            if at:
                self._write(", ")
            if begin == "{":
                self.add(value[0], depth + 1)
                self._write(": ")
                self.add(value[1], depth + 1)
            else:
                self.add(value, depth + 1)
        self._write(end)

    def _write(self, text: str) -> None:
        self._left -= len(text)
        if self._left < 0:
            raise NotPlain("it is too large")
        self.parts.append(text)


def _atom(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > 4096:
        return hex(value)
    text = repr(value)
    return text if text.isprintable() else ascii(value)
