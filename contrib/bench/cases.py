"""What is measured: for each input, which archive is mounted and what is then done with it, in which order.

A scenario is one mount; its steps follow each other, so that the second may profit from the first.  A *cold* step
begins with empty caches.  ``{root}``, ``{names}`` and ``{out}`` stand for the mounted folder, the list of paths in
it that the input comes with, and a folder to copy to; ``{texts}`` for where a Crystal project shows its pages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from contrib.bench import crystal_project, inputs
from contrib.bench.inputs import NEEDLE, Scale

MOUNT = "mount"
MOUNT_AGAIN = "mount again"
MEMORY_MOUNTED = "memory, mounted"
MEMORY_PEAK = "memory, peak"
MEMORY_WALKED = "memory, after find"
MEMORY_READ = "memory, after grep"
MEMORY_EACH = "memory, per million entries"
"""What the walk of many entries took beyond a zip of three files, for a million of them."""

HELP, HELP_IMPORTS, MOUNT_IMPORTS = "--help", "--help, its imports", "mount, its imports"
STARTING = (HELP, HELP_IMPORTS, MOUNT_IMPORTS)
"""Rows of archivefs alone."""


class Step(NamedTuple):
    """One row of the table: an operation of client.py."""

    measure: str
    operation: tuple[str, ...]
    cold: bool = False
    compared: bool = True
    """False where the unpacked files have nothing like it."""


class Scenario(NamedTuple):
    """One mount and what is done with it; *remount* mounts once more, to see what a tool has kept."""

    archive: str
    steps: tuple[Step, ...] = ()
    remount: bool = False
    again: tuple[Step, ...] = ()
    """What is done with the second mount."""
    memory: str = MEMORY_PEAK
    """The row for the most memory that the driver had by the end."""


class Case(NamedTuple):
    """One input and its scenarios."""

    name: str
    title: str
    writer: inputs.Writer
    size: Callable[[Scale], int]
    scenarios: tuple[Scenario, ...]
    space: Callable[[Scale], int] = lambda scale: 0
    """About how many bytes of disk it takes, copies made on the way included."""
    extra: tuple[str, ...] = ()
    """Rows that are no steps."""
    peers: bool = True
    """False for what no other tool can mount."""

    def measures(self) -> list[str]:
        """The rows of this case, in order."""
        steps = [step.measure for scenario in self.scenarios for step in (*scenario.steps, *scenario.again)]
        remounted = any(scenario.remount for scenario in self.scenarios)
        memory = dict.fromkeys(scenario.memory for scenario in self.scenarios)
        first, last = ([MOUNT, MOUNT_AGAIN], [MEMORY_MOUNTED]) if remounted else ([MOUNT], [])
        return [*first, *steps, *last, *memory, *self.extra]


_FIND = ("lines", "find", "{root}", "-ls")
_GREP = ("lines", "grep", "-r", NEEDLE, "{root}")
_TWO = f'find "$1" -type f -print0 | xargs -0 -P2 -n 500 grep -H {NEEDLE}; true'
"""A batch without a match makes xargs fail: what was found is counted and compared instead."""
_GREP_TWO = ("lines", "bash", "-c", _TWO, "bash", "{root}")
_WHOLE = ("sequential", "{root}/member.txt")
_SCATTERED = ("scattered", "{root}/member.txt")

_WALK = (Step("find -ls, cold", _FIND, cold=True), Step("find -ls, warm", _FIND))
_SEARCH = (Step("grep -r, cold", _GREP, cold=True), Step("grep -r, warm", _GREP))
_SEARCH_TWO = (Step("grep, 2 readers, cold", _GREP_TWO, cold=True),)
_FIRST = (Step("200 random, first", _SCATTERED, cold=True),)
_READ = (
    Step("sequential, cold", _WHOLE, cold=True),
    Step("sequential, warm", _WHOLE),
    Step("200 random, after a pass", _SCATTERED),
    Step("200 random, after a pass, caches dropped", _SCATTERED, cold=True),
)
_REMOUNTED = (Step("200 random, after remount", _SCATTERED, cold=True),)

BLOCK = 4096
"""What a tiny file takes on most disks."""

CASES = (
    Case("start", "a zip of three files", inputs.small, lambda scale: 3, (Scenario("small.zip"),), extra=STARTING),
    Case(
        "files",
        "{files:,} deflated files of 1 to 30 KB, a hundred to a folder",
        inputs.files,
        lambda scale: scale.files,
        (
            Scenario("files.zip", _WALK, remount=True, memory=MEMORY_WALKED),
            Scenario("files.zip", _SEARCH, memory=MEMORY_READ),
            Scenario("files.zip", _SEARCH_TWO, memory=MEMORY_READ),
            Scenario("files.zip", (Step("rsync out", ("copy", "{root}", "{out}"), cold=True),)),
        ),
        lambda scale: scale.files * 56_000,
    ),
    Case(
        "files, stored",
        "the same {files:,} files, stored",
        inputs.files,
        lambda scale: scale.files,
        (
            Scenario("files-stored.zip", _SEARCH, memory=MEMORY_READ),
            Scenario("files-stored.zip", _SEARCH_TWO, memory=MEMORY_READ),
        ),
        lambda scale: scale.files * 56_000,
    ),
    Case(
        "deflated",
        "one deflated member of {mebibytes:,} MiB",
        inputs.member,
        lambda scale: scale.member,
        (
            Scenario("deflated.zip", _FIRST),
            Scenario("deflated.zip", _READ, remount=True, again=_REMOUNTED),
        ),
        lambda scale: scale.member * 3,
    ),
    Case(
        "stored",
        "one stored member of {mebibytes:,} MiB",
        inputs.member,
        lambda scale: scale.member,
        (
            Scenario("stored.zip", _FIRST),
            Scenario("stored.zip", _READ[:3], remount=True, again=_REMOUNTED),
        ),
        lambda scale: scale.member * 3,
    ),
    Case(
        "million",
        "{entries:,} tiny entries, half of them in one folder",
        inputs.million,
        lambda scale: scale.entries,
        (
            Scenario("million.zip", (Step("first name", ("first_name", "{root}/all"), cold=True),), remount=True),
            Scenario("million.zip", _WALK, memory=MEMORY_WALKED),
        ),
        lambda scale: scale.entries * (BLOCK + 512),
        extra=(MEMORY_EACH,),
    ),
    Case(
        "crystal",
        "a Crystal project of {revisions:,} revisions, {texts:,} pages with bodies (unpacked: those pages)",
        inputs.crystal,
        lambda scale: scale.revisions,
        (
            Scenario(
                "site.crystalproj",
                (
                    Step("find -ls of its pages, cold", ("lines", "find", "{texts}", "-ls"), cold=True, compared=False),
                    Step("grep -r, cold", ("lines", "grep", "-rc", "--include=*.html", "tides", "{texts}"), cold=True),
                    Step("grep -r, warm", ("lines", "grep", "-rc", "--include=*.html", "tides", "{texts}")),
                ),
                remount=True,
                memory=MEMORY_READ,
            ),
            Scenario(
                "site.crystalproj",
                (Step("find -ls, cold", ("lines", "find", "{root}/web", "-ls"), cold=True, compared=False),),
                memory=MEMORY_WALKED,
            ),
        ),
        lambda scale: scale.revisions * 800 + scale.texts * 4 * BLOCK + crystal_project.LARGE_BYTES,
        peers=False,
    ),
    Case(
        "labrador",
        "a Labrador archive of {records:,} records, {lookups:,} of them asked for (peers: the zip as it is)",
        inputs.labrador,
        lambda scale: scale.records,
        (
            Scenario(
                "labrador.zip",
                (
                    Step("look-ups, cold", ("look_up", "{root}", "{names}"), cold=True),
                    Step("reads, cold", ("read_all", "{root}", "{names}"), cold=True),
                ),
                remount=True,
            ),
        ),
        lambda scale: scale.records * (BLOCK + 512),
    ),
)


def title(case: Case, scale: Scale) -> str:
    """The case in words, with the numbers of this run."""
    return case.title.format(**scale.__dict__, mebibytes=scale.member >> 20)
