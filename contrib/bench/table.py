"""The table, as text that is also Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from contrib.bench.results import Results, Row
from contrib.bench.tools import UNPACKED, Tool

NOT_RUN = "-"


def table(results: Results) -> str:
    """All rows: one column for each tool, then the ratios.

    Ratios are of the first archivefs column: how many times slower the best peer is (and its name; below 1 it is
    faster), how many times slower the other transport is, and how many times slower archivefs is than the
    unpacked files.
    """
    tools = results.tools
    heads = [["case", "measure", *(tool.name for tool in tools), *_RATIOS]]
    heads.append(["", "transport", *(tool.transport for tool in tools), *("" for _ in _RATIOS)])
    lines = [
        [row.case, row.measure, *(shown(results, row, tool) for tool in tools), *ratios(results, row)]
        for row in results.rows
    ]
    return aligned([heads[0]], [heads[1], *lines])


_RATIOS = ("best peer / ours", "fusepy / ours", "ours / unpacked")


def shown(results: Results, row: Row, tool: Tool) -> str:
    """One cell: the best figure, ``> N`` past the limit, ``failed``, or a dash where nothing was run."""
    cell, best = results.cell(row, tool), results.best(row, tool)
    if cell.failed:
        return "failed"
    if best is None:
        return NOT_RUN if cell.over is None else f"> {cell.over:g} s"
    return f"{best / 1e6:.0f} MB" if row.in_bytes else seconds(best)


def seconds(value: float) -> str:
    """A time with three figures, or whole milliseconds."""
    if value < 0.0995:
        return f"{value * 1000:.1f} ms"
    return f"{value:.2f} s" if value < 9.995 else f"{value:.1f} s"


def ratios(results: Results, row: Row) -> list[str]:
    """The last columns of one row."""
    ours = results.ours()
    if ours is None:
        return [NOT_RUN] * len(_RATIOS)
    return [_beside_peers(results, row, ours), _beside_fusepy(results, row, ours), _beside_disk(results, row, ours)]


def _beside_peers(results: Results, row: Row, ours: Tool) -> str:
    found, value = results.best_peer(row), results.at_least(row, ours)
    if found is None or not value:
        return NOT_RUN
    peer, other = found
    late, peer_late = results.best(row, ours) is None, results.best(row, peer) is None
    if late and peer_late:
        return NOT_RUN
    return f"{'< ' if late else '> ' if peer_late else ''}{times(other / value)} {peer.name}"


def _beside_fusepy(results: Results, row: Row, ours: Tool) -> str:
    fusepy, value = results.tool("archivefs/fusepy"), results.best(row, ours)
    other = results.best(row, fusepy) if fusepy is not None and fusepy is not ours else None
    return times(other / value) if other and value else NOT_RUN


def _beside_disk(results: Results, row: Row, ours: Tool) -> str:
    unpacked, value = results.tool(UNPACKED), results.best(row, ours)
    limit = results.best(row, unpacked) if unpacked else None
    return times(value / limit) if value and limit else NOT_RUN


def times(ratio: float) -> str:
    """A ratio with two or three figures."""
    return f"{ratio:.2f}x" if ratio < 9.995 else f"{ratio:.0f}x"


def aligned(heads: Sequence[Sequence[str]], lines: Sequence[Sequence[str]]) -> str:
    """Columns of equal width; the first two to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*heads, *lines, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if at < 2 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [f"{'-' * width}" if at < 2 else f"{'-' * (width - 1)}:" for at, width in enumerate(widths)]
    return "\n".join([*map(line, heads), line(rule), *map(line, lines)])
