"""The figures of a run: one cell for each row (case and measure) and tool."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from contrib.bench.cases import Case
from contrib.bench.tools import Tool


@dataclass
class Cell:
    """What was seen of one tool in one row: seconds, or bytes."""

    runs: list[float] = field(default_factory=list)
    over: float | None = None
    """The limit that it did not keep."""
    failed: str = ""

    def as_json(self, *, best: float | None) -> dict[str, Any]:
        shown: dict[str, Any] = {"best": best, "runs": [round(run, 6) for run in self.runs]}
        if self.over is not None:
            shown["over"] = self.over
        if self.failed:
            shown["failed"] = self.failed
        return shown


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    case: str
    measure: str

    @property
    def in_bytes(self) -> bool:
        return self.measure.startswith("memory")


class Results:
    """All cells of a run; a row or a cell that was never reached is empty."""

    def __init__(self, cases: Iterable[Case], tools: Iterable[Tool]) -> None:
        self.tools = list(tools)
        self.rows = [Row(case.name, measure) for case in cases for measure in case.measures()]
        self._cells = {(row, tool.label): Cell() for row in self.rows for tool in self.tools}

    def cell(self, row: Row, tool: Tool) -> Cell:
        return self._cells[row, tool.label]

    def best(self, row: Row, tool: Tool) -> float | None:
        """The shortest time, or the largest amount of memory."""
        runs = self.cell(row, tool).runs
        if not runs:
            return None
        return max(runs) if row.in_bytes else min(runs)

    def at_least(self, row: Row, tool: Tool) -> float | None:
        """The best figure, or the limit where it was not kept."""
        best = self.best(row, tool)
        return self.cell(row, tool).over if best is None else best

    def tool(self, label: str) -> Tool | None:
        return next((tool for tool in self.tools if tool.label == label), None)

    def ours(self) -> Tool | None:
        """The column of archivefs as it mounts by default: its first transport."""
        return next((tool for tool in self.tools if tool.ours), None)

    def best_peer(self, row: Row) -> tuple[Tool, float] | None:
        """The peer with the lowest figure."""
        known = [(tool, self.at_least(row, tool)) for tool in self.tools if tool.peer]
        return min(
            ((tool, value) for tool, value in known if value is not None), key=lambda pair: pair[1], default=None
        )

    def failures(self) -> list[str]:
        """One line for each cell that failed."""
        return [
            f"{row.case}, {row.measure}: {tool.label}: {self.cell(row, tool).failed}"
            for row in self.rows
            for tool in self.tools
            if self.cell(row, tool).failed
        ]

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {
                "case": row.case,
                "measure": row.measure,
                "unit": "bytes" if row.in_bytes else "seconds",
                "tools": {tool.label: self.cell(row, tool).as_json(best=self.best(row, tool)) for tool in self.tools},
            }
            for row in self.rows
        ]
