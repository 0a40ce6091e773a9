"""``python -m contrib.bench.centidb``: a centidb store of two million keys through the mount.

Beside each row stands what the same work comes to with the ``lmdb`` module alone: a bare walk with a cursor, and
look-ups of the same keys.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from contrib.bench.processes import Mounted, drop_caches, family, memory, mounted
from contrib.bench.table import aligned, seconds, times
from tests.samples.centidb import StoreMaker, key, number

LIMIT_S = 3600.0
READS = 10_000
BATCH = 16
FIRST = 1000


class Row(NamedTuple):
    """One line of the table."""

    name: str
    ours: float
    processor: float | None = None
    """Of it, what the driver and the engine's process have computed: other programs on the machine do not change it."""
    plain: float | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m contrib.bench.centidb", description=__doc__)
    default = Path(tempfile.gettempdir()) / f"archivefs-bench-{os.getuid()}"
    parser.add_argument("--work", type=Path, default=default, metavar="DIR", help="where the store is kept")
    parser.add_argument("--keys", type=int, default=2_000_000, metavar="N", help="how many records (%(default)s)")
    parser.add_argument("--transport", default="kernel", help="kernel or fusepy (%(default)s)")
    asked = parser.parse_args(arguments)
    asked.work.mkdir(parents=True, exist_ok=True)
    print(f"bench: preparing a store of {asked.keys} records", file=sys.stderr)
    store = written(asked.work / f"centidb-{asked.keys}.lmdb", asked.keys)
    rows, driver, worker = _measured(store, asked)
    own, mapped = worker
    lines = [
        [
            row.name,
            seconds(row.ours),
            seconds(row.processor) if row.processor is not None else "",
            seconds(row.plain) if row.plain else "",
            times(row.ours / row.plain) if row.plain else "",
        ]
        for row in rows
    ]
    lines.append(["peak memory of the driver", f"{driver / 1e6:.0f} MB", "", "", ""])
    lines.append(["memory of the engine's process, its own", f"{own / 1e6:.0f} MB", "", "", ""])
    lines.append(["peak of it with the pages of the store that are mapped", f"{mapped / 1e6:.0f} MB", "", "", ""])
    print(f"{asked.keys} records, {(store / 'data.mdb').stat().st_size / 1e6:.0f} MB\n")
    print(aligned([["", "archivefs", "of it CPU", "lmdb alone", "ratio"]], lines))
    return 0


# -- the store --


def written(path: Path, records: int) -> Path:
    """Half of the records single, half in batches; made once."""
    import lmdb

    if path.exists():
        return path
    made = StoreMaker()
    made.collection(b"single")
    made.collection(b"batched")
    half = records // 2
    unfinished = path.with_name(path.name + ".unfinished")
    environment = lmdb.open(str(unfinished), map_size=8 << 30, sync=False)
    with environment.begin(write=True) as transaction:
        for physical, value in sorted(made.entries.items()):
            transaction.put(physical, value)
        for at in range(half):
            transaction.put(b"\x0a" + key("page", at), b"\x03" + content(at), append=True)
        for start in range(0, half, BATCH):
            members = range(start, min(half, start + BATCH))
            transaction.put(*batch_of(members), append=True)
    environment.sync(True)
    environment.close()
    (unfinished / "lock.mdb").unlink()
    unfinished.rename(path)
    return path


def batch_of(members: range) -> tuple[bytes, bytes]:
    """A plain batch of some records."""
    physical = b"\x0b" + b"\x66".join(key("page", at) for at in reversed(members))
    datas = [content(at) for at in members]
    head = number(len(datas)) + b"".join(number(len(data)) for data in datas)
    return physical, head + b"\x03" + b"".join(datas)


def content(at: int) -> bytes:
    """What a record holds."""
    return b'{"page":%d,"title":"a page of the site"}' % at


def name_of(at: int) -> str:
    """Its file name."""
    return f"Tpage,P{chr(96 + len(str(at)))}{at}"


# -- measuring --


def _measured(store: Path, asked: argparse.Namespace) -> tuple[list[Row], int, tuple[int, int]]:
    point = asked.work / "mnt-centidb"
    words = f"transport={asked.transport}"
    command = [sys.executable, "-m", "archivefs", "mount", "-f", "-o", words, str(store), str(point)]
    chosen = random.Random(9).sample(range(asked.keys // 2), min(READS, asked.keys // 2))
    drop_caches()
    with mounted(command, point, environment={}, limit_s=LIMIT_S) as mount:
        single, batched = (mount.root / "collections" / name / "records" for name in ("single", "batched"))
        plans: list[tuple[str, Callable[[], None], Callable[[], None]]] = [
            (f"first {FIRST} names", lambda: _names(single, FIRST), lambda: _walk(store, b"\x0a", FIRST)),
            ("all names, single", lambda: _names(single), lambda: _walk(store, b"\x0a")),
            ("all names, batched", lambda: _names(batched), lambda: _walk(store, b"\x0b")),
            (
                f"{len(chosen)} random reads, single",
                lambda: _read(single, chosen),
                lambda: _get(store, b"\x0a", chosen),
            ),
            (
                f"{len(chosen)} random reads, batched",
                lambda: _read(batched, chosen),
                lambda: _get(store, b"\x0b", chosen),
            ),
        ]
        rows = [Row("mount, until the first name", mount.seconds)]
        for name, ours, plain in plans:
            before = _processor_s(mount)
            took = _timed(ours)
            rows.append(Row(name, took, _processor_s(mount) - before, _timed(plain)))
        return rows, memory(mount._driver.pid, "VmHWM"), _worker_memory(mount)


def _timed(work: Callable[[], None]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def _names(folder: Path, count: int | None = None) -> None:
    with os.scandir(folder) as entries:
        for _entry in islice(entries, count):
            pass


def _read(folder: Path, chosen: Sequence[int]) -> None:
    for at in chosen:
        with open(folder / name_of(at), "rb") as file:
            if file.read() != content(at):
                raise SystemExit(f"bench: {name_of(at)} has other bytes than were written")


def _walk(store: Path, collection: bytes, count: int | None = None) -> None:
    for _pair in islice(_pairs(store, collection), count):
        pass


def _pairs(store: Path, start: bytes) -> Iterator[tuple[bytes, bytes]]:
    import lmdb

    with lmdb.open(str(store), readonly=True, lock=False) as environment, environment.begin() as transaction:
        cursor = transaction.cursor()
        if cursor.set_range(start):
            for physical, value in cursor:
                if not physical.startswith(start):
                    return
                yield physical, value


def _get(store: Path, collection: bytes, chosen: Sequence[int]) -> None:
    import lmdb

    with lmdb.open(str(store), readonly=True, lock=False) as environment:
        for at in chosen:
            with environment.begin() as transaction, transaction.cursor() as cursor:
                cursor.set_range(collection + key("page", at))
                bytes(cursor.value())


def _worker_memory(mount: Mounted) -> tuple[int, int]:
    """Of the process in which LMDB runs: its own memory now, and the peak with what it maps."""
    workers = family(mount._driver.pid)[1:]
    return max(((memory(pid, "RssAnon"), memory(pid, "VmHWM")) for pid in workers), default=(0, 0))


def _processor_s(mount: Mounted) -> float:
    """The time that the driver and the engine's process have computed."""
    ticks = 0
    for pid in family(mount._driver.pid):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
