"""Doing the measuring: every tool in turn, several rounds, each figure into its cell."""

from __future__ import annotations

import shutil
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from contrib.bench.cases import MEMORY_MOUNTED, MEMORY_PEAK, MOUNT, MOUNT_AGAIN, Case, Scenario, Step
from contrib.bench.inputs import Input, Scale, prepared, small
from contrib.bench.processes import Failed, Mounted, Timing, TooSlow, drop_caches, run_client
from contrib.bench.results import Results, Row
from contrib.bench.tools import Tool

REPEAT_BELOW = 0.25
"""A scenario with a step that took more than this part of the limit is not repeated for that tool: where a run takes
so long, noise is small beside it."""

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
        for number in range(self.plan.repeat):
            for tool in self.results.tools:
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
        steps = {step.operation: step for scenario in case.scenarios for step in scenario.steps}
        found = {
            operation: run_client(filled(operation, given.unpacked, given, self.plan.work), limit_s=3600).check
            for operation in steps
        }
        return {step.measure: found[step.operation] for scenario in case.scenarios for step in scenario.steps}

    def warm_up(self, tool: Tool) -> None:
        """Have the program in memory: dropping caches has thrown it out too."""
        given = prepared(small, under=self.plan.work / "inputs", scale=self.plan.scale, size=3)
        with tool.mounted(given.folder / "small.zip", limit_s=self.plan.limit_s):
            pass


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
                self._steps(scenario, self._given.unpacked)
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
                self._steps(scenario, mount.root)
            finally:
                self._note(MEMORY_PEAK, mount.peak())
        if scenario.remount:
            self._doing = MOUNT_AGAIN
            with self._mounted(archive) as mount:
                self._note(MOUNT_AGAIN, mount.seconds)

    def _mounted(self, archive: Path) -> AbstractContextManager[Mounted]:
        self._all.warm_up(self._tool)
        _load(archive)
        return self._tool.mounted(archive, limit_s=self._limit_s)

    def _steps(self, scenario: Scenario, root: Path) -> None:
        for step in scenario.steps:
            self._doing = step.measure
            seconds = self._timed(step, root).seconds
            self._note(step.measure, seconds)
            self._longest_s = max(self._longest_s, seconds)

    def _timed(self, step: Step, root: Path) -> Timing:
        operation = filled(step.operation, root, self._given, self._all.plan.work, as_zip=self._tool.peer)
        if step.cold:
            drop_caches()
        timing = run_client(operation, limit_s=self._limit_s)
        expected = self._checks[step.measure]
        if timing.check != expected:
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
    return [word.format(root=root, names=names, out=work / "out") for word in operation]


def _load(archive: Path) -> None:
    with open(archive, "rb") as file:
        file.seek(max(0, archive.stat().st_size - LOADED_MOST))
        while file.read(1 << 20):
            pass
