"""Which formats installed packages offer: entry points of one group, read from what installers leave on the path.

Used by ``registry.py``.  ``importlib.metadata`` finds the same, but loading it takes a mount of a small archive
three megabytes and a tenth of its time; it is asked where the path has something else than folders.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

_ENDS = (".dist-info", ".egg-info")


class Plugin(NamedTuple):
    """What an entry point says: a name, and where the thing is, as ``module:attribute``."""

    name: str
    value: str

    def load(self) -> object:
        """Import it; raises whatever that raises."""
        module, _, attribute = self.value.partition(":")
        found: object = importlib.import_module(module.strip())
        for part in filter(None, attribute.partition("[")[0].strip().split(".")):
            found = getattr(found, part)
        return found


def offered(group: str) -> set[Plugin]:
    """All of *group*; a package that is there twice counts as the path has it first."""
    if not all(os.path.isdir(place) and not place.endswith(".egg") for place in _path() if os.path.exists(place)):
        from importlib.metadata import entry_points

        return {Plugin(point.name, point.value) for point in entry_points(group=group)}
    seen: set[str] = set()
    found: set[Plugin] = set()
    for folder in _path():
        for package, text in _packages(folder):
            if package not in seen:
                seen.add(package)
                found.update(_of_group(text, group))
    return found


def _path() -> list[str]:
    return [place or "." for place in sys.path]


def _packages(folder: str) -> Iterator[tuple[str, str]]:
    """The name of each package in *folder*, and the text that lists its entry points."""
    with suppress(OSError):
        for name in sorted(os.listdir(folder)):
            if name.endswith(_ENDS):
                text = ""
                with suppress(OSError, UnicodeDecodeError), open(f"{folder}/{name}/entry_points.txt", "rb") as file:
                    text = file.read().decode()
                yield name.partition("-")[0].lower().replace(".", "_"), text


def _of_group(text: str, group: str) -> Iterator[Plugin]:
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line.strip("[]").strip()
        elif section == group and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield Plugin(name.strip(), value.strip())
