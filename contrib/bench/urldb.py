"""``make bench-urldb``: how long the steps of a URL database take, with 100,000 records in one domain.

Each step is timed several times and the best is shown, beside its aim.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from archivefs.format import Opening
from archivefs.formats.urldb import FORMAT, edits
from archivefs.formats.urldb.database import Database
from archivefs.formats.urldb.limits import Limits
from archivefs.formats.urldb.store import record_from
from archivefs.tree import Directory, File, Kind, Tree
from tests.samples.urldb import large, write

DOMAIN = "big.example"
AIMS_S = {"open": 1.0, "list, first time": 0.5, "list, again": 0.05, "add one": 0.3, "remove one": 0.3, "lint": 5.0}
T = TypeVar("T")
NEW = "/d50/s0500/new.html"


def main() -> int:
    """Print a table; the exit code is 1 when an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "db", {DOMAIN: large(asked.rows)})
        size = (path / f"{DOMAIN}.yaml").stat().st_size
        print(f"{asked.rows:,} records, {size / 1e6:.1f} MB")
        missed = _measure(str(path), asked.repeat)
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    return int(missed)


def _measure(path: str, repeat: int) -> bool:
    best: dict[str, float] = {}
    for _ in range(repeat):
        for name, seconds in _once(path).items():
            best[name] = min(seconds, best.get(name, seconds))
    for name, seconds in best.items():
        aim = f"   aim {AIMS_S[name] * 1000:.0f} ms" if name in AIMS_S else ""
        print(f"{name:18}{seconds * 1000:10.1f} ms{aim}")
    return any(best[name] > aim for name, aim in AIMS_S.items())


def _once(path: str) -> dict[str, float]:
    found: dict[str, float] = {}

    def timed(name: str, step: Callable[[], T]) -> T:
        start = time.perf_counter()
        result = step()
        found[name] = time.perf_counter() - start
        return result

    tree = timed("open", lambda: FORMAT.open(path, Opening()))
    timed("list, first time", lambda: _walk(tree.lookup((DOMAIN, "d50"))))
    timed("list, again", lambda: _walk(tree.lookup((DOMAIN, "d50"))))
    timed("read one", lambda: _read(tree))
    database = Database(path)
    record = record_from(b"content-type: text/html", NEW, Limits())
    timed("add one", lambda: database.change(DOMAIN, lambda file: edits.put(file, record)))
    timed("remove one", lambda: database.change(DOMAIN, lambda file: edits.remove(file, NEW)))
    timed("lint", lambda: list(database.lint()))
    return found


def _walk(node: object) -> None:
    if isinstance(node, Directory):
        for entry in node.entries():
            if entry.kind is Kind.DIRECTORY:
                _walk(node.child(entry.name))


def _read(tree: Tree) -> None:
    folder = tree.lookup((DOMAIN, "d50"))
    assert isinstance(folder, Directory)
    inner = folder.child(next(iter(folder.entries())).name)
    assert isinstance(inner, Directory)
    node = inner.child(next(iter(inner.entries())).name)
    assert isinstance(node, File)
    reader = node.open()
    reader.read_at(0, 1 << 20)
    reader.close()


if __name__ == "__main__":
    sys.exit(main())
