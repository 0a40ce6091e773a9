"""``mount.archivefs SOURCE MOUNTPOINT [-o options]``: how mount(8) calls us.

mount(8) hands its helpers ``rw`` unless ``ro`` was asked for, so ``rw`` alone still mounts read-only here.
No configuration file is read unless ``config=PATH`` is among the options: who calls mount(8) may be root, or the
system at boot, and a line of ``/etc/fstab`` must mean the same to everybody.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from archivefs import options

SIMPLE_FLAGS = frozenset({"-n", "-s", "-v"})
"""No mtab, tolerate sloppy options, be verbose: nothing of that changes what we do."""
FLAGS_WITH_VALUE = frozenset({"-t", "-N"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Translate, and go on as ``archivefs mount``; gives the exit code."""
    from archivefs.cli import main as archivefs

    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in ("-h", "--help"):
        return archivefs(["mount", "--help"])
    return archivefs(translated(words))


def translated(words: Sequence[str]) -> list[str]:
    """The words of ``archivefs mount`` for those of a mount(8) helper."""
    places: list[str] = []
    given: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "-o":
            given += options.split(next(rest, ""))
        elif word in FLAGS_WITH_VALUE:
            next(rest, None)
        elif word not in SIMPLE_FLAGS:
            places.append(word)
    kept = [word.replace(",", "\\,") for word in given if word != "rw"]
    if not any(word.startswith("config=") for word in kept):
        kept.append("config=off")
    return ["mount", *(["-o", ",".join(kept)] if kept else []), *places]
