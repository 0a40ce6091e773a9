"""``python -m contrib.bench.crystal``: a Crystal project of a million revisions through the mount.

Each row beside what the same work comes to without archivefs, where there is such a thing: the listing beside a bare
walk of the URL index in Python, reading beside reading the body files.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from contrib.bench.crystal_project import (
    LARGE_BYTES,
    WIDEST,
    WIDEST_PREFIX,
    text_body,
    text_urls,
    written,
)
from contrib.bench.processes import STOPPING, drop_caches, mounted
from contrib.bench.table import aligned, seconds, times
from tests.samples.crystal import body_path

LIMIT_S = 3600.0
LOOK_UPS = 10_000
_KEYS = "select url, id from resource where url >= ? and url < ? order by url limit ?"
_SHOWN = (
    "select url, id, d, exists (select 1 from resource_revision e indexed by resource_revision__error_not_null"
    " where e.error != 'null' and e.id = d) from (select r.url, r.id,"
    " (select max(v.id) from resource_revision v where v.resource_id = r.id) d"
    " from resource r where r.url >= ? and r.url < ? order by r.url limit ?)"
)


class Row(NamedTuple):
    """One line of the table."""

    name: str
    ours: float
    plain: float | None = None
    aim: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    asked = _parser().parse_args(arguments)
    asked.work.mkdir(parents=True, exist_ok=True)
    print(f"bench: preparing {asked.revisions} revisions and {asked.texts} bodies", file=sys.stderr)
    name = f"crystal-{asked.revisions}-{asked.texts}.crystalproj"
    project = written(asked.work / name, revisions=asked.revisions, texts=asked.texts)
    plain = _plain_files(asked.work / f"texts-{asked.texts}", asked.texts)
    rows, memory = _measured(project, plain, asked)
    print(f"{asked.revisions} revisions, database of {(project / 'database.sqlite').stat().st_size / 1e9:.2f} GB\n")
    lines = [[row.name, seconds(row.ours), _plain(row), _ratio(row), row.aim] for row in rows]
    lines.append(["peak memory after all of it", f"{memory / 1e6:.0f} MB", "", "", "< 150 MB"])
    print(aligned([["", "archivefs", "without", "ratio", "aim"]], lines))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m contrib.bench.crystal", description=__doc__)
    default = Path(tempfile.gettempdir()) / f"archivefs-bench-{os.getuid()}"
    parser.add_argument("--work", type=Path, default=default, metavar="DIR", help="where inputs are kept (%(default)s)")
    parser.add_argument("--revisions", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--texts", type=int, default=20_000, metavar="N", help="pages with bodies, for grep")
    parser.add_argument("--transport", default="auto", metavar="NAME")
    parser.add_argument(
        "--walk", default="web", metavar="PATH", help="where find -ls goes (%(default)s); . is everything"
    )
    return parser


def _measured(project: Path, plain: Path, asked: argparse.Namespace) -> tuple[list[Row], int]:
    command = [
        sys.executable,
        "-m",
        "archivefs",
        "mount",
        "-f",
        "-o",
        f"transport={asked.transport}",
        str(project),
        str(asked.work / "mnt-crystal"),
    ]
    drop_caches()
    with mounted(command, asked.work / "mnt-crystal", environment={}, limit_s=LIMIT_S):
        pass  # so that the program is in memory; what follows is archivefs alone
    with mounted(command, asked.work / "mnt-crystal", environment={}, limit_s=LIMIT_S) as mount:
        root = mount.root
        rows = []
        for row in _rows(root, project, plain, asked):
            print(f"bench: {row.name}: {seconds(row.ours)} {_plain(row)}, {mount.peak() >> 20} MiB", file=sys.stderr)
            rows.append(row)
        return [Row("mount, until the first name", mount.seconds, None, "< 0.5 s"), *rows], mount.peak()


# -- the rows --


def _rows(root: Path, project: Path, plain: Path, asked: argparse.Namespace) -> Iterator[Row]:
    """One after the other; the walk of everything comes last, because it may take an hour."""
    yield from _listings(root, project)
    yield _look_ups(root)
    yield from _reading(root, project, plain, asked.texts)
    yield _walk_of(root, asked)


def _listings(root: Path, project: Path) -> Iterator[Row]:
    widest = root.joinpath(*WIDEST)
    yield Row("first 1000 names of the widest directory", _timed(lambda: _names(widest, 1000)), None, "< 0.1 s")
    names = 0

    def all_names() -> None:
        nonlocal names
        names = _names(widest, None)

    whole = _best(all_names)
    yield Row(f"all {names} names of it", whole, _best(lambda: _bare_walk(project, _KEYS)), "within 2 x")
    yield Row("the same beside a walk that asks what is shown", whole, _best(lambda: _bare_walk(project, _SHOWN)))
    yield Row("find -type f | head", _shell(f"find {root}/web -type f | head -1000"))


def _names(folder: Path, limit: int | None) -> int:
    with os.scandir(folder) as entries:
        for number, _ in enumerate(entries, 1):
            if number == limit:
                return number
    return number


def _bare_walk(project: Path, statement: str) -> int:
    """The names in the widest directory, by the URL index alone or with what is needed to know which are shown."""
    database = sqlite3.connect(f"file:{project}/database.sqlite?mode=ro", uri=True)
    database.text_factory = bytes
    start, end, size, inside, count = WIDEST_PREFIX, WIDEST_PREFIX[:-1] + b"0", 8, None, 0
    cut = len(WIDEST_PREFIX)
    while True:
        rows = database.execute(statement, (start.decode(), end.decode(), size)).fetchall()
        for url, *_ in rows:
            if inside and url.startswith(inside):
                continue
            inside = None
            slash, mark = url.find(b"/", cut), url.find(b"?", cut)
            if slash >= 0 and not 0 <= mark < slash:
                inside = url[: slash + 1]
            count += 1
        if len(rows) < size:
            database.close()
            return count
        start, size = (inside[:-1] + b"0", 8) if inside else (rows[-1][0] + b"\0", min(1024, 2 * size))
        inside = None


def _look_ups(root: Path) -> Row:
    chance = random.Random(1)
    folder = root.joinpath(*WIDEST, "user")
    with os.scandir(folder) as entries:
        names = [entry.name for entry, _ in zip(entries, range(200_000), strict=False)]
    chosen = [folder / chance.choice(names) for _ in range(LOOK_UPS)]
    drop_caches()
    return Row("10,000 random look-ups", _timed(lambda: [os.lstat(path) for path in chosen]))


def _walk_of(root: Path, asked: argparse.Namespace) -> Row:
    listing = asked.work / "listing"
    taken = _shell(f"find {root / asked.walk} -ls > {listing}")
    with open(listing, "rb") as file:
        lines = sum(1 for _ in file)
    listing.unlink()
    return Row(f"find -ls of {lines} entries in {asked.walk}", taken)


def _reading(root: Path, project: Path, plain: Path, texts: int) -> list[Row]:
    pages = root / "web" / "https" / "text.example"
    grep = "grep -r 'no such words' {0} --exclude=large.bin || true"
    for folder in (pages, plain):
        _shell(grep.format(folder))  # once, so that both are in memory
    large = pages / "large.bin"
    body = body_path(project, texts + 1, 2)
    size = LARGE_BYTES >> 20
    return [
        Row(f"grep -r over {texts} bodies", _shell(grep.format(pages)), _shell(grep.format(plain))),
        Row(f"read a body of {size} MiB", _best(lambda: _read(large)), _best(lambda: _read(body)), "within 1.1 x"),
    ]


def _read(path: Path) -> None:
    buffer = bytearray(1 << 20)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


# -- helpers --


def _plain_files(folder: Path, texts: int) -> Path:
    """The texts as ordinary files, for comparison."""
    if not folder.exists():
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        for number, url in enumerate(text_urls(texts)):
            place = partial / url.removeprefix("https://text.example/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text_body(number))
        partial.rename(folder)
    return folder


def _timed(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def _best(work: Callable[[], object], rounds: int = 3) -> float:
    return min(_timed(work) for _ in range(rounds))


def _shell(command: str) -> float:
    return _timed(lambda: subprocess.run(["bash", "-c", command], check=True, stdout=subprocess.DEVNULL))


def _plain(row: Row) -> str:
    return seconds(row.plain) if row.plain is not None else ""


def _ratio(row: Row) -> str:
    return times(row.ours / row.plain) if row.plain else ""


if __name__ == "__main__":
    for number in STOPPING:
        signal.signal(number, signal.default_int_handler)
    sys.exit(main())
