"""What it costs archivefs to start: the time of ``--help``, and the time that importing modules takes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from contrib.bench.cases import HELP, HELP_IMPORTS, MOUNT_IMPORTS
from contrib.bench.processes import Failed, TooSlow
from contrib.bench.tools import Tool

_COMMAND = [sys.executable, "-m", "archivefs", "--help"]
_VARIABLE = "PYTHONPROFILEIMPORTTIME"
_HEAD = "import time:"


def figures(tool: Tool, archive: Path, *, limit_s: float) -> Iterator[tuple[str, float]]:
    """The rows of ``STARTING`` for one column of archivefs; raises TooSlow or Failed."""
    start = perf_counter()
    _help(limit_s)
    yield HELP, perf_counter() - start
    yield HELP_IMPORTS, import_seconds(_help(limit_s, _VARIABLE))
    with tool.mounted(archive, limit_s=limit_s, **{_VARIABLE: "1"}) as mount:
        yield MOUNT_IMPORTS, import_seconds(mount.said())


def import_seconds(said: str) -> float:
    """The sum over all modules of what ``python -X importtime`` printed; raises Failed when there is nothing."""
    own = [line.removeprefix(_HEAD).split("|")[0].strip() for line in said.splitlines() if line.startswith(_HEAD)]
    known = [int(word) for word in own if word.isdigit()]
    if not known:
        raise Failed("no import times were printed")
    return sum(known) / 1e6


def _help(limit_s: float, *variables: str) -> str:
    environment = {**os.environ, **dict.fromkeys(variables, "1")}
    try:
        done = subprocess.run(_COMMAND, capture_output=True, text=True, timeout=limit_s, env=environment)
    except subprocess.TimeoutExpired:
        raise TooSlow from None
    if done.returncode:
        raise Failed(f"archivefs --help ended with exit code {done.returncode}")
    return done.stderr
