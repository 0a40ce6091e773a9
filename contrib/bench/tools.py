"""The tools that are compared: how each is found, started and told apart.

Peers run with their own defaults, read-only where they have a word for it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from archivefs import __version__
from archivefs.fuse.mount import TRANSPORTS
from contrib.bench.processes import Mounted, mounted

UNPACKED = "unpacked"


class Unready(Exception):
    """The run cannot begin; the message is one line."""


class ToolMissing(Unready):
    """A tool that was asked for is not there; the message says how to get it."""


@dataclass(frozen=True)
class Tool:
    """One column of the table."""

    name: str
    transport: str
    version: str
    command: Callable[[Path, Path], Sequence[str]] | None
    """Archive and mount point -> what to run in the foreground; None for the unpacked files."""
    work: Path
    ours: bool = False

    @property
    def label(self) -> str:
        """What ``--tools`` and the JSON file call it."""
        return f"{self.name}/{self.transport}" if self.ours else self.name

    @property
    def peer(self) -> bool:
        return not self.ours and self.command is not None

    @property
    def caches(self) -> Path:
        """Where it may keep something from one mount to the next."""
        return self.work / "kept" / self.label.replace("/", "-")

    def forget(self) -> None:
        """Throw away what it kept, so that the next mount is a first one."""
        shutil.rmtree(self.caches, ignore_errors=True)
        self.caches.mkdir(parents=True)

    def mounted(self, archive: Path, *, limit_s: float, **more: str) -> AbstractContextManager[Mounted]:
        """Mount *archive*, with *more* in its environment; raises TooSlow or Failed."""
        assert self.command is not None
        at = self.work / "mnt" / self.label.replace("/", "-")
        environment = {"XDG_CACHE_HOME": str(self.caches), "HOME": str(self.caches), **more}
        return mounted(self.command(archive, at), at, environment=environment, limit_s=limit_s)


NAMES = ("archivefs", "fuse-zip", "archivemount", "ratarmount", UNPACKED)
"""Those that are compared unless others are asked for; the order of the columns."""

FOUND = ("mount-zip", "fuse-archive")
"""Compared where they are installed: Debian does not have them in every release."""


def find(asked: Sequence[str], *, work: Path) -> list[Tool]:
    """The tools asked for (all of them when nothing is); raises ToolMissing."""
    wanted = list(asked) or [*NAMES[:-1], *(name for name in FOUND if shutil.which(name)), NAMES[-1]]
    tools: list[Tool] = []
    for name in wanted:
        tools += _found(name, work)
    return tools


def _found(name: str, work: Path) -> list[Tool]:
    ours, _, transport = name.partition("/")
    if ours == "archivefs":
        if transport and transport not in TRANSPORTS:
            raise ToolMissing(f"archivefs has no transport {transport!r}; known are {', '.join(TRANSPORTS)}")
        return [_archivefs(word, work) for word in TRANSPORTS if transport in ("", word)]
    if name == UNPACKED:
        return [Tool(UNPACKED, "-", "", None, work)]
    if name == "ratarmount":
        return [_ratarmount(work)]
    if name in _COMMANDS:
        return [_installed(name, work)]
    raise ToolMissing(f"unknown tool {name!r}; known are {', '.join((*NAMES, *FOUND))}")


def _archivefs(transport: str, work: Path) -> Tool:
    def command(archive: Path, at: Path) -> list[str]:
        options = f"transport={transport}"
        return [sys.executable, "-m", "archivefs", "mount", "-f", "-o", options, str(archive), str(at)]

    return Tool("archivefs", transport, __version__, command, work, ours=True)


# -- peers that are Debian packages --

_COMMANDS: dict[str, tuple[str, ...]] = {
    "fuse-zip": ("fuse-zip", "-f", "-r", "{archive}", "{at}"),
    "archivemount": ("archivemount", "-f", "-o", "readonly", "{archive}", "{at}"),
    "mount-zip": ("mount-zip", "-f", "{archive}", "{at}"),
    "fuse-archive": ("fuse-archive", "-f", "{archive}", "{at}"),
}


def _installed(name: str, work: Path) -> Tool:
    if shutil.which(name) is None:
        raise ToolMissing(f"{name} is not installed; run: contrib/setup.sh peers")

    def command(archive: Path, at: Path) -> list[str]:
        return [word.format(archive=archive, at=at) for word in _COMMANDS[name]]

    return Tool(name, "libfuse", _version([name, "--version"]), command, work)


def _version(command: Sequence[str]) -> str:
    """The number beside the program's own name; these programs say it on either stream."""
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    name = re.escape(os.path.basename(command[0]))
    found = re.search(rf"^{name}\D*(\d[\w.]*)", done.stdout + "\n" + done.stderr, re.MULTILINE)
    return found[1] if found else "?"


# -- the peer from PyPI --


def _ratarmount(work: Path) -> Tool:
    """ratarmount, in an environment of its own in the work folder."""
    program = work / "ratarmount" / "bin" / "ratarmount"
    if not program.exists():
        _install(program.parent.parent)

    def command(archive: Path, at: Path) -> list[str]:
        # The index goes where a second mount finds it, and never beside the archive.
        kept = str(work / "kept" / "ratarmount")
        return [str(program), "-f", "--index-folders", kept, str(archive), str(at)]

    return Tool("ratarmount", "mfusepy", _version([str(program), "--version"]), command, work)


def _install(folder: Path) -> None:
    print("bench: installing ratarmount", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "-q", "ratarmount"]
    done = subprocess.run(pip, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        raise ToolMissing(f"ratarmount could not be installed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
