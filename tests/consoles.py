"""Console sessions in a Markdown page: finding them, running them, comparing what they print.

A session is a fenced block marked ``console``: lines that begin with ``$ `` are typed (a line that ends in a
backslash goes on), the others are what is printed, on stdout or stderr.  ``[..]`` stands for anything within a
line, a line ``[...]`` for any number of lines.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

TIMEOUT_S = 100
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Step(NamedTuple):
    """One command and what it should print."""

    command: str
    output: str


class Session(NamedTuple):
    """One fenced block."""

    line: int
    steps: list[Step]

    def mounts(self) -> bool:
        """Does it need FUSE?"""
        return any("mount " in step.command or "doctor" in step.command for step in self.steps)


def sessions(page: Path) -> list[Session]:
    """All sessions of a page, in order."""
    text = page.read_text(encoding="utf-8")
    blocks = [block for block in FENCE.finditer(text) if block[1] == "console"]
    return [Session(text.count("\n", 0, block.start()) + 1, steps(block[2])) for block in blocks]


def steps(block: str) -> list[Step]:
    """The commands of a block, each with the lines under it."""
    parts = re.split(r"^\$ ((?:.*\\\n)*.*)\n", block, flags=re.MULTILINE)
    assert parts[0] == "", f"a session begins with a command, not with {parts[0]!r}"
    return [Step(command, output) for command, output in zip(parts[1::2], parts[2::2], strict=True)]


def run(session: Session, folder: Path, env: dict[str, str]) -> list[str]:
    """What each command prints, all in one shell; the exit code of one is ``$?`` for the next."""
    mark = "@@@ the end of step"
    script = "".join(
        f"(exit $status)\n{step.command}\nstatus=$?\nprintf '\\n{mark} %s\\n' {number}\n"
        for number, step in enumerate(session.steps)
    )
    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1\nstatus=0\n{script}"],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=TIMEOUT_S,
        check=False,
    )
    text = done.stdout.decode("utf-8", "backslashreplace")
    printed = re.split(rf"\n{mark} \d+\n", text)
    assert len(printed) == len(session.steps) + 1, f"the session ended early: {text}"
    return printed[:-1]


def differs(step: Step, printed: str) -> str:
    """Nothing when *printed* is what the page shows, otherwise both, side by side."""
    if re.fullmatch(pattern(step.output), printed):
        return ""
    return f"$ {step.command}\n--- the page says ---\n{step.output}\n--- it prints ---\n{printed}\n"


def pattern(output: str) -> str:
    """A regular expression for what a page shows; trailing space and the last newline do not count."""
    lines = []
    for line in output.rstrip("\n").split("\n"):
        if line.strip() == "[...]":
            lines.append(r"(?:[^\n]*\n)*?")
        else:
            lines.append(re.escape(line.rstrip()).replace(re.escape("[..]"), "[^\n]*") + r"[ \t]*\n")
    return "".join(lines)[: -len(r"\n")] + r"\n*" if lines[-1].endswith(r"\n") else "".join(lines) + r"[^\n]*\n*"


def corrected(text: str, step: Step, printed: str) -> str:
    """A page with what *step* prints now, where it differs from what is shown."""
    old = f"$ {step.command}\n{step.output}"
    if not differs(step, printed) or text.count(old) != 1:
        return text
    return text.replace(
        old, f"$ {step.command}\n{printed.rstrip(chr(10))}\n" if printed.strip() else f"$ {step.command}\n"
    )
