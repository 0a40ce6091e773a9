"""``python -m contrib.bench``: the command line, the machine in words, the JSON file."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from contrib.bench.bars import Verdict, verdicts
from contrib.bench.cases import CASES, Case, title
from contrib.bench.inputs import Scale, missing
from contrib.bench.measure import Measurement, Plan
from contrib.bench.processes import STOPPING, can_drop_caches, clear_below
from contrib.bench.table import table
from contrib.bench.tools import FOUND, NAMES, Tool, Unready, find

QUICK = {"scale": 0.05, "repeat": 2, "limit": 5.0}
FULL = {"scale": 1.0, "repeat": 3, "limit": 60.0}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 when everything that was asked for was measured, 1 when not, 2 for usage."""
    asked = _parser().parse_args(arguments)
    for name, value in (QUICK if asked.quick else FULL).items():
        if getattr(asked, name) is None:
            setattr(asked, name, value)
    cases = _cases(asked.only)
    try:
        with _locked(asked.work):
            return _bench(asked, cases)
    except Unready as problem:
        print(f"bench: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: stopped", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m contrib.bench",
        description="Measure archivefs beside other tools that mount archives, and beside the unpacked files.",
        epilog="example: python -m contrib.bench --quick --only files --tools archivefs,fuse-zip,unpacked\n"
        f"cases: {', '.join(case.name for case in CASES)}\n"
        f"tools: {', '.join(NAMES)}; {' and '.join(FOUND)} where installed; archivefs/TRANSPORT for one of its columns",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = Path(tempfile.gettempdir()) / f"archivefs-bench-{os.getuid()}"
    parser.add_argument("--work", type=Path, default=default, metavar="DIR", help="where inputs are kept (%(default)s)")
    parser.add_argument("--remove", action="store_true", help="remove that folder, and measure nothing")
    parser.add_argument("--quick", action="store_true", help="a twentieth of everything, in less than five minutes")
    parser.add_argument("--only", action="append", metavar="CASE", help="this case alone; may be repeated")
    parser.add_argument("--tools", default="", metavar="A,B", help="these tools alone")
    parser.add_argument("--repeat", type=int, metavar="N", help=f"rounds; the best counts {_either('repeat')}")
    parser.add_argument("--limit", type=float, metavar="S", help=f"seconds that one step may take {_either('limit')}")
    parser.add_argument(
        "--scale", type=float, metavar="X", help=f"size of the inputs beside the full ones {_either('scale')}"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="where the figures go (bench.json in the work folder)"
    )
    return parser


def _either(name: str) -> str:
    return f"({FULL[name]:g}, quick: {QUICK[name]:g})"


def _cases(names: Sequence[str] | None) -> list[Case]:
    known = {case.name: case for case in CASES}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        _parser().error(f"unknown case {unknown[0]!r}; known are {', '.join(known)}")
    return [case for case in CASES if not names or case.name in names]


@contextmanager
def _locked(work: Path) -> Iterator[None]:
    """The work folder, ours alone: two runs at once would measure each other."""
    work.mkdir(mode=0o700, parents=True, exist_ok=True)
    if work.stat().st_uid != os.getuid():
        raise Unready(f"{work} belongs to someone else; choose another folder with --work")
    with open(work / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Unready(f"another run uses {work}; wait for it, or choose another folder with --work") from None
        yield


def _bench(asked: argparse.Namespace, cases: list[Case]) -> int:
    work = asked.work.resolve()
    clear_below(work / "mnt")
    if asked.remove:
        shutil.rmtree(work)
        return 0
    scale = Scale().times(asked.scale)
    check_room(work, cases, scale)
    tools = find([name for name in asked.tools.split(",") if name], work=work)
    plan = Plan(work, scale, asked.repeat, asked.limit)
    measurement = Measurement(plan, cases, tools)
    load = os.getloadavg()[0]
    try:
        measurement.run()
    finally:
        judged = verdicts(measurement.results, member_size=plan.scale.member)
        facts = _facts(plan, tools, load)
        _print(measurement, facts, judged)
        _write(asked.json or work / "bench.json", measurement, facts, judged)
    return 1 if measurement.results.failures() else 0


def check_room(work: Path, cases: Sequence[Case], scale: Scale) -> None:
    """Is there disk enough for the inputs that are not there yet?  Raises Unready."""
    needed: dict[str, int] = {}
    for case in cases:
        if missing(case.writer, under=work / "inputs", size=case.size(scale)):
            needed[case.writer.__name__] = case.space(scale)
    wanted, free = sum(needed.values()), shutil.disk_usage(work).free
    if wanted > free:
        raise Unready(
            f"{work} has {free / 1e9:.1f} GB free and {wanted / 1e9:.1f} are needed; "
            "choose another folder with --work, or smaller inputs with --scale"
        )


# -- what is shown --


def _facts(plan: Plan, tools: Sequence[Tool], load: float) -> dict[str, Any]:
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load_at_start": round(load, 2),
        "caches_dropped": can_drop_caches(),
        "scale": plan.scale.__dict__,
        "repeat": plan.repeat,
        "limit_s": plan.limit_s,
        "versions": {tool.label: tool.version for tool in tools if tool.version},
    }


def _print(measurement: Measurement, facts: dict[str, Any], judged: Sequence[Verdict]) -> None:
    plan, results = measurement.plan, measurement.results
    for case in measurement.cases:
        print(f"{case.name}: {title(case, plan.scale)}")
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    print(f"\nLinux {facts['kernel']}, Python {facts['python']}, {facts['cores']} cores; {versions}")
    print(f"Best of {plan.repeat}; the most for memory.  Mount: until the first name is listed, the program in memory.")
    print(
        "Cold: freshly mounted, caches dropped."
        if facts["caches_dropped"]
        else "Cold: freshly mounted; CACHES COULD NOT BE DROPPED (that takes root), so the files may be in memory."
    )
    if facts["load_at_start"] > 0.5:
        print(f"The machine was busy: load {facts['load_at_start']} at the start.")
    print(f"\n{table(results)}\n")
    for verdict in judged:
        print(f"{'met    ' if verdict.kept else 'NOT MET'}  {verdict.bar}: {verdict.seen}")
    for failure in results.failures():
        print(f"failed: {failure}")


def _write(path: Path, measurement: Measurement, facts: dict[str, Any], judged: Sequence[Verdict]) -> None:
    bars = [verdict._asdict() for verdict in judged]
    content = {"facts": facts, "results": measurement.results.as_json(), "bars": bars}
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"bench: the figures are in {path}", file=sys.stderr)


if __name__ == "__main__":
    for number in STOPPING:  # also where a shell that starts us in the background has them ignored
        signal.signal(number, signal.default_int_handler)
    sys.exit(main())
