"""Doing the measuring: every tool in turn, several rounds, each figure into its cell."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from contrib.bench import crystal_project, starting
from contrib.bench.cases import (
    MEMORY_EACH,
    MEMORY_MOUNTED,
    MEMORY_PEAK,
    MOUNT,
    MOUNT_AGAIN,
    STARTING,
    Case,
    Scenario,
    Step,
)
from contrib.bench.inputs import Input, Scale, prepared, small
from contrib.bench.processes import Failed, Mounted, Timing, TooSlow, drop_caches, run_client
from contrib.bench.results import Results, Row
from contrib.bench.tools import Tool

REPEAT_BELOW = 0.25
"""A scenario with a step that took more than this part of the limit is not repeated for that tool: where a run takes
so long, noise is small beside it."""

TEXTS_HOST = crystal_project.TEXTS.split("/")[2]

LOADED_MOST = 256 << 20
"""How much of an archive's end is read before it is mounted, so that ``mount`` shows the tool and not the disk."""


@dataclass(frozen=True)
class Plan:
    """How a run goes."""

    work: Path
    scale: Scale
    repeat: int
    limit_s: float


class Measurement:
    """One run of the benchmark; ``run`` fills ``results``."""

    def __init__(self, plan: Plan, cases: list[Case], tools: list[Tool]) -> None:
        self.plan = plan
        self.cases = cases
        self.results = Results(cases, tools)
        self._start = perf_counter()
        self.bare: dict[str, int] = {}
        """The memory of each tool with next to nothing mounted."""

    def run(self) -> None:
        """Measure all cases."""
        shutil.rmtree(self.plan.work / "out", ignore_errors=True)
        try:
            for case in self.cases:
                self._run_case(case)
        finally:
            print(file=sys.stderr)

    def say(self, message: str) -> None:
        """Progress, on stderr: begins a line."""
        print(f"\n[{perf_counter() - self._start:5.0f} s] {message}", end="", file=sys.stderr, flush=True)

    def add(self, message: str) -> None:
        """Goes on with the line."""
        print(f" {message}", end="", file=sys.stderr, flush=True)

    def _run_case(self, case: Case) -> None:
        self.say(f"{case.name}: preparing")
        given = self._prepared(case)
        checks = self._checks(case, given)
        done: set[tuple[Scenario, str]] = set()
        tools = [tool for tool in self.results.tools if case.peers or not tool.peer]
        for number in range(self.plan.repeat):
            for tool in tools:
                for scenario in case.scenarios:
                    if (scenario, tool.label) not in done:
                        self.say(f"{case.name}: round {number + 1} of {self.plan.repeat}: {tool.label}:")
                        if not _Run(self, case, given, checks, tool).go(scenario):
                            done.add((scenario, tool.label))

    def _prepared(self, case: Case) -> Input:
        folder = self.plan.work / "inputs"
        return prepared(case.writer, under=folder, scale=self.plan.scale, size=case.size(self.plan.scale))

    def _checks(self, case: Case, given: Input) -> dict[str, object]:
        """What each step must find, seen on the unpacked files."""
        scenarios = case.scenarios
        steps = [step for one in scenarios for step in (*one.steps, *one.again) if step.compared]
        found = {
            operation: run_client(filled(operation, given.unpacked, given, self.plan.work), limit_s=3600).check
            for operation in dict.fromkeys(step.operation for step in steps)
        }
        return {step.measure: found[step.operation] for step in steps}

    def warm_up(self, tool: Tool) -> None:
        """Have the program in memory: dropping caches has thrown it out too."""
        given = prepared(small, under=self.plan.work / "inputs", scale=self.plan.scale, size=3)
        with tool.mounted(given.folder / "small.zip", limit_s=self.plan.limit_s) as mount:
            self.bare[tool.label] = mount.peak()


class _Run:
    """One scenario with one tool, once."""

    def __init__(
        self, measurement: Measurement, case: Case, given: Input, checks: dict[str, object], tool: Tool
    ) -> None:
        self._all = measurement
        self._case = case
        self._given = given
        self._checks = checks
        self._tool = tool
        self._limit_s = measurement.plan.limit_s
        self._doing = MOUNT
        self._longest_s = 0.0

    def go(self, scenario: Scenario) -> bool:
        """Do it; False when it is not to be repeated."""
        try:
            if self._tool.command is None:
                self._steps(scenario.steps, self._given.unpacked)
            else:
                self._mounts(scenario)
        except TooSlow:
            self._all.results.cell(self._row(), self._tool).over = self._limit_s
            self._all.add(f"{self._doing}: > {self._limit_s:g} s.")
            return False
        except Failed as error:
            self._all.results.cell(self._row(), self._tool).failed = str(error)
            self._all.add(f"{self._doing}: failed: {error}")
            return False
        return self._longest_s < REPEAT_BELOW * self._limit_s

    def _mounts(self, scenario: Scenario) -> None:
        archive = self._given.folder / scenario.archive
        self._tool.forget()
        with self._mounted(archive) as mount:
            self._note(MOUNT, mount.seconds)
            self._note(MEMORY_MOUNTED, mount.peak())
            try:
                self._steps(scenario.steps, mount.root)
            finally:
                self._note_memory(scenario, mount.peak())
        if scenario.remount:
            self._doing = MOUNT_AGAIN
            with self._mounted(archive) as mount:
                self._note(MOUNT_AGAIN, mount.seconds)
                self._steps(scenario.again, mount.root)
        if self._tool.ours and self._case.extra == STARTING:
            self._doing = STARTING[0]
            for measure, seconds in starting.figures(self._tool, archive, limit_s=self._limit_s):
                self._note(measure, seconds)

    def _note_memory(self, scenario: Scenario, peak: int) -> None:
        self._note(scenario.memory, peak)
        if MEMORY_EACH in self._case.extra and scenario.memory != MEMORY_PEAK:
            more = max(0, peak - self._all.bare[self._tool.label])
            self._note(MEMORY_EACH, more * 1e6 / self._case.size(self._all.plan.scale))

    def _mounted(self, archive: Path) -> AbstractContextManager[Mounted]:
        self._all.warm_up(self._tool)
        _load(archive)
        return self._tool.mounted(archive, limit_s=self._limit_s)

    def _steps(self, steps: Sequence[Step], root: Path) -> None:
        for step in steps:
            if self._tool.command is None and not step.compared:
                continue
            self._doing = step.measure
            seconds = self._timed(step, root).seconds
            self._note(step.measure, seconds)
            self._longest_s = max(self._longest_s, seconds)

    def _timed(self, step: Step, root: Path) -> Timing:
        operation = filled(step.operation, root, self._given, self._all.plan.work, as_zip=self._tool.peer)
        if step.cold:
            drop_caches()
        timing = run_client(operation, limit_s=self._limit_s)
        expected = self._checks.get(step.measure)
        if step.compared and timing.check != expected:
            raise Failed(f"other content than unpacked: {timing.check} and not {expected}")
        return timing

    def _note(self, measure: str, value: float) -> None:
        row = Row(self._case.name, measure)
        if row in self._all.results.rows:
            self._all.results.cell(row, self._tool).runs.append(value)
        if not row.in_bytes:
            self._all.add(f"{measure}: {value:.3f} s;")

    def _row(self) -> Row:
        return Row(self._case.name, self._doing)


def filled(operation: tuple[str, ...], root: Path, given: Input, work: Path, *, as_zip: bool = False) -> list[str]:
    """*operation* with the places of this run in it; *as_zip* for a tool that shows a zip's members as they are."""
    names = given.folder / ("members.txt" if as_zip else "paths.txt")
    texts = root if root == given.unpacked else root / "web" / "https" / TEXTS_HOST
    return [word.format(root=root, names=names, out=work / "out", texts=texts) for word in operation]


def _load(archive: Path) -> None:
    if archive.is_dir():
        return
    with open(archive, "rb") as file:
        file.seek(max(0, archive.stat().st_size - LOADED_MOST))
        while file.read(1 << 20):
            pass
