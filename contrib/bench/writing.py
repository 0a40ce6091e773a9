"""``python -m contrib.bench.writing``: copying into a mounted archive, changing one file in a large one.

archivefs (a Labrador archive, over both transports) beside fuse-zip and archivemount (a zip), on the same files.  A
row's time is from the first write to the end of the driver, because fuse-zip and archivemount write the archive only
when they are unmounted; what archivefs has acknowledged by then was durable at each close.  The row "change one file"
also has a plain copy of the archive beside it, since that is what the work comes to.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from archivefs.fuse.mount import TRANSPORTS
from contrib.bench.processes import Failed, TooSlow, clear, drop_caches, mounted
from contrib.bench.table import aligned, seconds, times

LIMIT_S = 900.0
MIB = 1 << 20


class Size(NamedTuple):
    """How much is written."""

    files: int
    large: int
    archive: int


FULL = Size(files=10_000, large=500 * MIB, archive=1024 * MIB)
QUICK = Size(files=1_000, large=50 * MIB, archive=100 * MIB)


class Writer(NamedTuple):
    """One column: how an archive is made and mounted read-write."""

    name: str
    suffix: str
    make: Callable[[Path, Path], None]
    """An archive out of a folder."""
    command: Callable[[Path, Path], Sequence[str]]


class Figure(NamedTuple):
    """One cell."""

    seconds: float
    memory: int


def main() -> int:
    """Measure and print the table; exit code 1 when something failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: python -m contrib.bench.writing --quick --tools archivefs/kernel,fuse-zip"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--work", type=Path, help="where the files go (default: a new folder, removed afterwards)")
    parser.add_argument("--tools", default="", help="only these, with commas between")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    work = Path(tempfile.mkdtemp(prefix="archivefs-bench-", dir=options.work))
    try:
        return _run(work, QUICK if options.quick else FULL, [name for name in options.tools.split(",") if name])
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130
    finally:
        clear(work / "mnt")
        shutil.rmtree(work, ignore_errors=True)


def _run(work: Path, size: Size, asked: Sequence[str]) -> int:
    writers = [writer for writer in _writers() if not asked or writer.name in asked]
    missing = [writer.name for writer in writers if not shutil.which(writer.command(work, work)[0])]
    if missing:
        print(f"bench: {', '.join(missing)} not installed; run: contrib/setup.sh peers", file=sys.stderr)
        return 1
    small, large, big = _inputs(work, size)
    rows: list[tuple[str, dict[str, Figure | str]]] = []
    page = small / "0" / "0.html"
    cases: list[tuple[str, Path | None, Callable[[Path], None]]] = [
        (f"copy in {size.files:,} small files", None, lambda at: _copy_tree(small, at / "copied")),
        (f"copy in one file of {size.large // MIB} MiB", None, lambda at: _copy(large, at / "large.bin")),
        (
            f"change one file in {size.archive // MIB} MiB",
            big,
            lambda at: _copy(page, at / "new.html"),
        ),
    ]
    for title, source, action in cases:
        cells: dict[str, Figure | str] = {}
        for writer in writers:
            print(f"bench: {title}: {writer.name}", file=sys.stderr, flush=True)
            cells[writer.name] = _measured(work, writer, source, action)
        if source is not None:
            cells["cp"] = _plain_copy(work, source)
        rows.append((title, cells))
    print(_table([writer.name for writer in writers], rows))
    return int(any(isinstance(cell, str) for _, cells in rows for cell in cells.values()))


# -- inputs --


def _inputs(work: Path, size: Size) -> tuple[Path, Path, Path]:
    """A folder of small files, a large file, and a folder that makes an archive of the size asked for."""
    chance = random.Random(1)
    small = work / "small"
    words = [f"word{number}" for number in range(2000)]
    for number in range(size.files):
        folder = small / str(number % 100)
        folder.mkdir(parents=True, exist_ok=True)
        text = " ".join(chance.choice(words) for _ in range(chance.randrange(50, 1500)))
        (folder / f"{number}.html").write_text(text)
    large = work / "large.bin"
    _write_random(large, size.large, chance)
    big = work / "big"
    big.mkdir()
    for number in range(16):
        _write_random(big / f"{number}.bin", size.archive // 16, chance)
    return small, large, big


def _write_random(path: Path, size: int, chance: random.Random) -> None:
    with open(path, "wb") as file:
        for at in range(0, size, MIB):
            file.write(chance.randbytes(min(MIB, size - at)))


def _zip(folder: Path, path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("readme.txt", "an archive")
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, str(file.relative_to(folder)))


def _pack(folder: Path, path: Path) -> None:
    subprocess.run([sys.executable, "-m", "archivefs", "pack", str(folder), str(path)], check=True, capture_output=True)


# -- tools --


def _writers() -> list[Writer]:
    ours = [Writer(f"archivefs/{name}", ".lbz", _pack, _archivefs(name)) for name in TRANSPORTS]
    return [
        *ours,
        Writer("fuse-zip", ".zip", _zip, lambda archive, at: ["fuse-zip", "-f", str(archive), str(at)]),
        Writer("archivemount", ".zip", _zip, lambda archive, at: ["archivemount", "-f", str(archive), str(at)]),
    ]


def _archivefs(transport: str) -> Callable[[Path, Path], Sequence[str]]:
    def command(archive: Path, at: Path) -> Sequence[str]:
        words = ("-m", "archivefs", "mount", "-f", "-o", f"rw,transport={transport}")
        return [sys.executable, *words, str(archive), str(at)]

    return command


# -- measuring --


def _measured(work: Path, writer: Writer, source: Path | None, action: Callable[[Path], None]) -> Figure | str:
    archive = work / f"archive{writer.suffix}"
    empty = work / "empty"
    empty.mkdir(exist_ok=True)
    archive.unlink(missing_ok=True)
    writer.make(source or empty, archive)
    drop_caches()
    try:
        at = work / "mnt"
        with mounted(writer.command(archive, at), at, environment={}, limit_s=LIMIT_S, end_s=LIMIT_S) as mount:
            begun = perf_counter()
            action(mount.root)
            memory = mount.peak()
        # Leaving the block unmounts and waits for the driver, which saves then: that counts too.
        return Figure(perf_counter() - begun, memory)
    except (TooSlow, Failed, OSError, subprocess.CalledProcessError) as error:
        return f"failed: {error}"[:60]


def _copy_tree(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-r", str(source), str(target)], check=True)


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", str(source), str(target)], check=True)


def _plain_copy(work: Path, source: Path) -> Figure:
    archive, copy = work / "archive.lbz", work / "copy.lbz"
    archive.unlink(missing_ok=True)
    _pack(source, archive)
    drop_caches()
    begun = perf_counter()
    _copy(archive, copy)
    with open(copy, "rb") as file:
        os.fsync(file.fileno())
    return Figure(perf_counter() - begun, 0)


def _table(names: Sequence[str], rows: Sequence[tuple[str, dict[str, Figure | str]]]) -> str:
    lines = []
    for title, cells in rows:
        ours = cells.get(names[0])
        for measure in ("time", "peak memory"):
            shown = [_shown(cells.get(name), measure) for name in (*names, "cp")]
            lines.append([title, measure, *shown, _ratio(ours, cells, names) if measure == "time" else ""])
    return aligned([["case", "measure", *names, "cp", "best peer / ours, ours / cp"]], lines)


def _shown(cell: Figure | str | None, measure: str) -> str:
    if not isinstance(cell, Figure):
        return cell or "-"
    return seconds(cell.seconds) if measure == "time" else f"{cell.memory / 1e6:.0f} MB" if cell.memory else "-"


def _ratio(ours: Figure | str | None, cells: dict[str, Figure | str], names: Sequence[str]) -> str:
    if not isinstance(ours, Figure):
        return "-"
    peers = [cell.seconds for name, cell in cells.items() if name in names[2:] and isinstance(cell, Figure)]
    copy = cells.get("cp")
    first = times(min(peers) / ours.seconds) if peers else "-"
    return f"{first}, {times(ours.seconds / copy.seconds)}" if isinstance(copy, Figure) else first


if __name__ == "__main__":
    sys.exit(main())
