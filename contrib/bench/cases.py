"""What is measured: for each input, which archive is mounted and what is then done with it, in which order.

A scenario is one mount; its steps follow each other, so that the second may profit from the first.  A *cold* step
begins with empty caches.  ``{root}``, ``{names}`` and ``{out}`` stand for the mounted folder, the list of paths in
it that the input comes with, and a folder to copy to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from contrib.bench import inputs
from contrib.bench.inputs import NEEDLE, Scale

MOUNT = "mount"
MOUNT_AGAIN = "mount again"
MEMORY_MOUNTED = "memory, mounted"
MEMORY_PEAK = "memory, peak"


class Step(NamedTuple):
    """One row of the table: an operation of client.py."""

    measure: str
    operation: tuple[str, ...]
    cold: bool = False


class Scenario(NamedTuple):
    """One mount and what is done with it; *remount* mounts once more, to see what a tool has kept."""

    archive: str
    steps: tuple[Step, ...] = ()
    remount: bool = False


class Case(NamedTuple):
    """One input and its scenarios."""

    name: str
    title: str
    writer: inputs.Writer
    size: Callable[[Scale], int]
    scenarios: tuple[Scenario, ...]

    def measures(self) -> list[str]:
        """The rows of this case, in order."""
        steps = [step.measure for scenario in self.scenarios for step in scenario.steps]
        if any(scenario.remount for scenario in self.scenarios):
            return [MOUNT, MOUNT_AGAIN, *steps, MEMORY_MOUNTED, MEMORY_PEAK]
        return [MOUNT, *steps, MEMORY_PEAK]


_FIND = ("lines", "find", "{root}", "-ls")
_GREP = ("lines", "grep", "-r", NEEDLE, "{root}")
_WHOLE = ("sequential", "{root}/member.txt")
_SCATTERED = ("scattered", "{root}/member.txt")

_WALK = (Step("find -ls, cold", _FIND, cold=True), Step("find -ls, warm", _FIND))
_READ = (
    Step("sequential, cold", _WHOLE, cold=True),
    Step("sequential, warm", _WHOLE),
    Step("200 random, after a pass", _SCATTERED),
    Step("200 random, after a pass, caches dropped", _SCATTERED, cold=True),
)

CASES = (
    Case(
        "start",
        "a zip of three files",
        inputs.small,
        lambda scale: 3,
        (Scenario("small.zip"),),
    ),
    Case(
        "files",
        "{files:,} deflated files of 1 to 30 KB, a hundred to a folder",
        inputs.files,
        lambda scale: scale.files,
        (
            Scenario("files.zip", _WALK),
            Scenario("files.zip", (Step("grep -r, cold", _GREP, cold=True), Step("grep -r, warm", _GREP))),
            Scenario("files.zip", (Step("rsync out", ("copy", "{root}", "{out}"), cold=True),)),
        ),
    ),
    Case(
        "deflated",
        "one deflated member of {mebibytes:,} MiB",
        inputs.member,
        lambda scale: scale.member,
        (
            Scenario("deflated.zip", (Step("200 random, first", _SCATTERED, cold=True),)),
            Scenario("deflated.zip", _READ),
        ),
    ),
    Case(
        "stored",
        "one stored member of {mebibytes:,} MiB",
        inputs.member,
        lambda scale: scale.member,
        (
            Scenario("stored.zip", (Step("200 random, first", _SCATTERED, cold=True),)),
            Scenario("stored.zip", _READ[:2]),
        ),
    ),
    Case(
        "million",
        "{entries:,} tiny entries, half of them in one folder",
        inputs.million,
        lambda scale: scale.entries,
        (
            Scenario("million.zip", (Step("first name", ("first_name", "{root}/all"), cold=True),), remount=True),
            Scenario("million.zip", _WALK),
        ),
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
    ),
)


def title(case: Case, scale: Scale) -> str:
    """The case in words, with the numbers of this run."""
    return case.title.format(**scale.__dict__, mebibytes=scale.member >> 20)
