"""Crawls: 10,000 archives listed and mounted without opening them; a map file of 200,000 rows rendered and compared.

    make bench-crawls                      python -m contrib.bench.crawls [--archives N] [--rows N]

Each step runs in a process of its own, so that the peak of memory is its own; the table has the best of three runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.samples import crawls

RUNS = 3
OLD, NEW = (f"2025-06-0{day}_00-00-00_[HUGE]_crawl_files_full" for day in (1, 2))


# -- what is measured, each in a process of its own --


def import_only(storage: Path) -> None:
    """What starting Python and importing takes, to be seen beside the others."""
    from archivefs.formats.crawls import tree  # noqa: F401


def list_tree(storage: Path) -> None:
    from contextlib import closing

    from archivefs.format import Opening
    from archivefs.formats.crawls.tree import CrawlsTree

    with closing(CrawlsTree(str(storage), Opening())) as tree:
        assert sum(1 for _ in tree.lookup(["crawls"]).entries()) > 1


def index(storage: Path) -> None:
    from contextlib import closing

    from archivefs.format import Opening
    from archivefs.formats.crawls.tree import CrawlsTree

    with closing(CrawlsTree(str(storage), Opening())) as tree:
        assert tree.lookup(["index.json"]).attributes().size > 1


def mount_and_list(storage: Path) -> float:
    """Gives the peak of the driver, which is a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "archivefs", "mount", str(storage), folder], check=True)
        try:
            assert len(os.listdir(f"{folder}/crawls")) > 1
            with open(f"{folder}/.archivefs/status.json") as status:
                return peak_mib(json.load(status)["pid"])
        finally:
            subprocess.run(["fusermount3", "-u", folder], check=True)


def view(kind: str) -> Callable[[Path], None]:
    def render(storage: Path) -> None:
        from contextlib import closing

        from archivefs.format import Opening
        from archivefs.formats.crawls.tree import CrawlsTree

        with closing(CrawlsTree(str(storage), Opening())) as tree:
            assert tree.lookup(["views", NEW, *f"{crawls.FILES_MAP}.{kind}".split("/")]).attributes().size > 1

    return render


def diff(name: str) -> Callable[[Path], None]:
    def compare(storage: Path) -> None:
        from contextlib import closing

        from archivefs.format import Opening
        from archivefs.formats.crawls.tree import CrawlsTree

        with closing(CrawlsTree(str(storage), Opening())) as tree:
            assert tree.lookup(["diffs", "HUGE", NEW, *name.split("/")]).attributes().size > 1

    return compare


STEPS: dict[str, Callable[[Path], float | None]] = {
    "start": import_only,
    "list": list_tree,
    "mount": mount_and_list,
    "index": index,
    "json": view("json"),
    "html": view("html"),
    "diff.csv": diff(f"{crawls.FILES_MAP}.diff.csv"),
    "diff": diff(f"{crawls.FILES_MAP}.diff"),
}


# -- measuring --


def main() -> None:
    """Make the archives, run every step, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--archives", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--step", nargs=2, metavar=("NAME", "STORAGE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        print(STEPS[given.step[0]](Path(given.step[1])) or peak_mib())
        return
    with tempfile.TemporaryDirectory(prefix="bench-crawls-") as folder:
        many, huge = Path(folder, "many"), Path(folder, "huge")
        write_many(many, given.archives)
        write_huge(huge, given.rows)
        a, r = f"{given.archives:,} archives", f"{given.rows:,} rows"
        table = [
            ("python and imports", "start", many),
            (f"list {a}", "list", many),
            (f"mount {a}, ls crawls/, unmount", "mount", many),
            (f"index.json of {a} (opens each)", "index", many),
            (f"{r} as JSON", "json", huge),
            (f"{r} as HTML", "html", huge),
            (f"{r} compared, .diff.csv", "diff.csv", huge),
            (f"{r} compared, .diff", "diff", huge),
        ]
        print(f"{'':44} {'seconds':>8} {'peak MiB':>9}")
        for title, step, storage in table:
            seconds, peak = best(step, storage)
            print(f"{title:44} {seconds:8.2f} {peak:9.0f}", flush=True)


def best(step: str, storage: Path) -> tuple[float, float]:
    """The shortest time and the largest memory of a few runs."""
    runs = [measured(step, storage) for _ in range(RUNS)]
    return min(seconds for seconds, _ in runs), max(peak for _, peak in runs)


def measured(step: str, storage: Path) -> tuple[float, float]:
    """Seconds and MiB of one run."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "contrib.bench.crawls", "--step", step, str(storage)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return time.monotonic() - begun, float(output)


def peak_mib(pid: int | str = "self") -> float:
    """The most memory a process has had.  Not ru_maxrss, which begins with that of whoever started it."""
    with open(f"/proc/{pid}/status") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


# -- archives --


def write_many(storage: Path, count: int) -> None:
    """Small archives of five domains."""
    (storage / "crawls").mkdir(parents=True)
    for number in range(count):
        clock = f"{number // 3600 % 24:02}-{number // 60 % 60:02}-{number % 60:02}"
        name = f"2025-01-{1 + number // 86400:02}_{clock}_[DOM{number % 5}]_crawl_files_full"
        crawls.write(storage / "crawls", name, {crawls.FILES_MAP: b"filename\r\na\r\n"})


def write_huge(storage: Path, rows: int) -> None:
    """Two archives with one large map file each, one row in a hundred changed, one in a thousand gone."""
    items = [crawls.item(number) for number in range(rows)]
    crawls.write(storage / "crawls", OLD, {crawls.FILES_MAP: crawls.table(crawls.FILES_COLUMNS, items)})
    for number in range(0, rows, 100):
        items[number]["file_size"] += 1
    items = [item for number, item in enumerate(items) if number % 1000 != 7]
    crawls.write(storage / "crawls", NEW, {crawls.FILES_MAP: crawls.table(crawls.FILES_COLUMNS, items)})


if __name__ == "__main__":
    main()
