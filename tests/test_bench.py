"""The benchmark itself, with inputs so small that nothing is measured: only that it runs, checks and shows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from archivefs.fuse.mount import TRANSPORTS
from archivefs.fuse.unmount import mounts
from contrib.bench import __main__ as commands
from contrib.bench import crystal_project, inputs, processes
from contrib.bench.__main__ import check_room, main
from contrib.bench.bars import verdicts
from contrib.bench.cases import CASES, MEMORY_EACH, MOUNT, MOUNT_AGAIN, STARTING
from contrib.bench.inputs import Scale
from contrib.bench.results import Results, Row
from contrib.bench.starting import import_seconds
from contrib.bench.table import ratios, seconds, shown, table
from contrib.bench.tools import Tool, ToolMissing, Unready, find

ROOT = Path(__file__).parents[1]
SMALLEST = Scale().times(0)
SCALE = ["--scale", "0", "--repeat", "1"]
ARCHIVES = [(case.writer, scenario.archive) for case in CASES if case.peers for scenario in case.scenarios[:1]]


def peer(name: str) -> Tool:
    return Tool(name, "libfuse", "1", lambda archive, at: [], Path())


def ours(transport: str) -> Tool:
    return Tool("archivefs", transport, "1", lambda archive, at: [], Path(), ours=True)


@pytest.fixture(autouse=True)
def caches_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropping the caches of the machine would slow the other tests down."""
    for module in (processes, commands):
        monkeypatch.setattr(module, "can_drop_caches", lambda: False)
    monkeypatch.setattr(crystal_project, "LARGE_BYTES", 1 << 20)


UNPACKED = Tool("unpacked", "-", "", None, Path())


# -- inputs --


@pytest.mark.parametrize(("writer", "archive"), ARCHIVES, ids=[archive for _, archive in ARCHIVES])
def test_an_archive_has_what_is_unpacked_beside_it(writer: inputs.Writer, archive: str, tmp_path: Path) -> None:
    given = inputs.prepared(writer, under=tmp_path, scale=SMALLEST, size=1)
    unpacked = {
        str(path.relative_to(given.unpacked)): path.read_bytes() for path in given.unpacked.rglob("*") if path.is_file()
    }
    with zipfile.ZipFile(given.folder / archive) as opened:
        assert opened.testzip() is None
        members = {name: opened.read(name) for name in opened.namelist() if not name.endswith("/")}
    if writer is inputs.labrador:  # names are encoded, and copies are left out
        members = {name: data for name, data in members.items() if name.startswith("www/")}
        assert {data for data in unpacked.values() if data} == set(members.values())
        assert len(members) < len(unpacked) == SMALLEST.records
    else:
        assert members == unpacked


def test_a_second_writing_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (inputs.prepared(inputs.files, under=tmp_path / name, scale=SMALLEST, size=1) for name in "ab")
    assert (first.folder / "files.zip").read_bytes() == (second.folder / "files.zip").read_bytes()


def test_a_half_written_input_is_written_again(tmp_path: Path) -> None:
    given = inputs.prepared(inputs.small, under=tmp_path, scale=SMALLEST, size=1)
    (given.folder / "facts.json").unlink()
    (given.folder / "small.zip").write_bytes(b"half")
    again = inputs.prepared(inputs.small, under=tmp_path, scale=SMALLEST, size=1)
    assert zipfile.is_zipfile(again.folder / "small.zip")


def test_more_than_65535_entries_need_the_large_end_record(tmp_path: Path) -> None:
    with open(tmp_path / "many.zip", "wb") as out, inputs.ZipWriter(out) as archive:
        for number in range(70_000):
            archive.add(f"{number}", inputs.plain(b""))
    with zipfile.ZipFile(tmp_path / "many.zip") as opened:
        assert len(opened.namelist()) == 70_000


# -- the table --


def test_a_table_has_a_row_for_each_measure_and_a_column_for_each_tool() -> None:
    tools = [ours("kernel"), ours("fusepy"), peer("fuse-zip"), UNPACKED]
    lines = table(Results(CASES, tools)).splitlines()
    assert len(lines) == 3 + sum(len(case.measures()) for case in CASES)
    assert len({len(line) for line in lines}) == 1
    assert [cell.strip() for cell in lines[2].split("|")[2:7]] == ["transport", "kernel", "fusepy", "libfuse", "-"]


def test_ratios_name_the_best_peer_and_the_limit() -> None:
    kernel, fusepy, fast, slow = ours("kernel"), ours("fusepy"), peer("fast"), peer("slow")
    results = Results(CASES, [kernel, fusepy, fast, slow, UNPACKED])
    row = Row("files", "find -ls, cold")
    for tool, runs in ((kernel, [2.0, 1.0]), (fusepy, [3.0]), (fast, [0.5, 4.0]), (UNPACKED, [0.25])):
        results.cell(row, tool).runs += runs
    results.cell(row, slow).over = 30
    assert ratios(results, row) == ["0.50x fast", "3.00x", "4.00x"]
    assert [shown(results, row, tool) for tool in results.tools] == ["1.00 s", "3.00 s", "0.50 s", "> 30 s", "0.25 s"]
    judged = {verdict.bar: verdict for verdict in verdicts(results, member_size=1)}
    assert judged["files, find -ls, cold: fusepy / kernel >= 2"].kept
    assert not judged["ahead of every peer in every row"].kept


@pytest.mark.parametrize(
    ("we", "they", "expected"),
    [(1.0, None, "> 30x slow"), (None, 3.0, "< 0.10x slow"), (None, None, "-")],
)
def test_a_limit_that_was_not_kept_bounds_the_ratio(we: float | None, they: float | None, expected: str) -> None:
    tools = [ours("kernel"), peer("slow")]
    results, row = Results(CASES, tools), Row("start", MOUNT)
    for tool, value in zip(tools, (we, they), strict=True):
        if value is None:
            results.cell(row, tool).over = 30
        else:
            results.cell(row, tool).runs.append(value)
    assert ratios(results, row)[0] == expected


def test_memory_counts_at_its_highest_and_times_at_their_lowest() -> None:
    tool = ours("kernel")
    results = Results(CASES, [tool])
    for measure in ("memory, peak", MOUNT):
        results.cell(Row("start", measure), tool).runs += [2e6, 3e6]
    assert shown(results, Row("start", "memory, peak"), tool) == "3 MB"
    assert results.best(Row("start", MOUNT), tool) == 2e6


@pytest.mark.parametrize(
    ("value", "text"), [(0.00123, "1.2 ms"), (0.25, "0.25 s"), (9.5, "9.50 s"), (123.4, "123.4 s")]
)
def test_times_are_short(value: float, text: str) -> None:
    assert seconds(value) == text


# -- bars --


def _judged(results: Results) -> dict[str, bool]:
    return {verdict.bar: verdict.kept for verdict in verdicts(results, member_size=1)}


@pytest.mark.parametrize(
    ("case", "measure", "most"),
    [
        ("files", "find -ls, warm", 1.3),
        ("files, stored", "grep -r, cold", 3),
        ("deflated", "200 random, after a pass", 3),
    ],
)
def test_a_bar_beside_the_unpacked_files(case: str, measure: str, most: float) -> None:
    for value, kept in ((most, True), (most * 1.01, False)):
        tool = ours("kernel")
        results = Results(CASES, [tool, UNPACKED])
        results.cell(Row(case, measure), tool).runs.append(value)
        results.cell(Row(case, measure), UNPACKED).runs.append(1.0)
        assert _judged(results) == {f"{case}, {measure}: archivefs / unpacked <= {most:g}": kept}


@pytest.mark.parametrize(("first", "again", "kept"), [(2.0, 0.29, True), (2.1, 0.31, False)])
def test_bars_of_mounting_a_million_entries(first: float, again: float, kept: bool) -> None:
    tool, other = ours("kernel"), peer("other")
    results = Results(CASES, [tool, other])
    results.cell(Row("million", MOUNT), tool).runs.append(first)
    results.cell(Row("million", MOUNT), other).runs.append(2.0)
    results.cell(Row("million", MOUNT_AGAIN), tool).runs.append(again)
    judged = _judged(results)
    assert judged["million, mount: no slower than the fastest peer"] is kept
    assert judged["million, mount again: < 0.3 s"] is kept


def test_memory_is_a_bar_of_its_own() -> None:
    tool, other = ours("kernel"), peer("other")
    results = Results(CASES, [tool, other])
    results.cell(Row("million", MEMORY_EACH), tool).runs.append(2e6)
    results.cell(Row("million", MEMORY_EACH), other).runs.append(1e6)
    assert _judged(results) == {"memory below every peer's": False}


def test_import_times_are_added_up() -> None:
    said = (
        "import time: self [us] | cumulative | imported package\n"
        "import time:       100 |        100 |   zipimport\n"
        "a word of its own\n"
        "import time:      2500 |       2600 | site\n"
    )
    assert import_seconds(said) == 0.0026
    with pytest.raises(processes.Failed):
        import_seconds("nothing")


def test_too_little_disk_is_said_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Unready, match=r"GB free and .* are needed"):
        check_room(tmp_path, CASES, Scale().times(1e6))
    assert main(["--work", str(tmp_path), "--scale", "1e6"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_work_folder_can_be_removed(tmp_path: Path) -> None:
    (tmp_path / "work" / "inputs").mkdir(parents=True)
    assert main(["--work", str(tmp_path / "work"), "--remove"]) == 0
    assert not (tmp_path / "work").exists()


# -- running --


def test_the_memory_of_children_counts() -> None:
    with subprocess.Popen(["bash", "-c", "sleep 60; true"]) as running:
        try:
            _wait_for(lambda: len(processes.family(running.pid)) == 2)
        finally:
            for process in reversed(processes.family(running.pid)):
                os.kill(process, signal.SIGKILL)


def test_a_client_past_its_limit_is_ended() -> None:
    with pytest.raises(processes.TooSlow):
        processes.run_client(("lines", "bash", "-c", "sleep 60"), limit_s=0.3)


def test_a_copy_does_not_count_what_an_ended_one_left(tmp_path: Path) -> None:
    for name in ("from/new", "to/left"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"12345")
    copied = processes.run_client(("copy", str(tmp_path / "from"), str(tmp_path / "to")), limit_s=20)
    assert copied.check == [1, 5]
    assert not (tmp_path / "to").exists()


def test_a_client_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(processes.Failed, match="No such file"):
        processes.run_client(("sequential", str(tmp_path / "missing")), limit_s=20)


def test_a_driver_that_mounts_nothing_is_a_failure_with_its_own_words(tmp_path: Path) -> None:
    command = ["bash", "-c", "echo it is broken >&2; exit 3"]
    with (
        pytest.raises(processes.Failed, match="it is broken"),
        processes.mounted(command, tmp_path / "at", environment={}, limit_s=20),
    ):
        pass


def test_a_driver_that_never_mounts_is_ended(tmp_path: Path) -> None:
    with (
        pytest.raises(processes.TooSlow),
        processes.mounted(["sleep", "60"], tmp_path / "at", environment={}, limit_s=0.2),
    ):
        pass


def test_a_missing_tool_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="fuse-zip is not installed"):
        find(["fuse-zip"], work=tmp_path)
    with pytest.raises(ToolMissing, match="unknown tool"):
        find(["fusezip"], work=tmp_path)


def test_the_unpacked_files_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--work", str(tmp_path), "--tools", "unpacked", *SCALE]) == 0
    written = json.loads((tmp_path / "bench.json").read_text())
    seen = {(row["case"], row["measure"]): row["tools"]["unpacked"]["best"] for row in written["results"]}
    assert seen["files", "grep -r, cold"] > 0
    assert seen["files", "mount"] is None
    said = capsys.readouterr().out
    assert "| labrador      | look-ups, cold" in said
    assert "CACHES COULD NOT BE DROPPED" in said


@pytest.mark.fuse
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_archivefs_finds_what_is_unpacked(tmp_path: Path, transport: str) -> None:
    few = [word for case in CASES for word in ("--only", case.name) if case.name != "million"]
    assert main(["--work", str(tmp_path), "--tools", f"archivefs/{transport}", *few, *SCALE]) == 0
    written = json.loads((tmp_path / "bench.json").read_text())
    empty = [row for row in written["results"] if not row["tools"][f"archivefs/{transport}"]["best"]]
    assert empty == []
    assert {row["measure"] for row in written["results"]} > set(STARTING)
    assert not _mounted_below(tmp_path)


@pytest.mark.fuse
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_leaves_no_mount(tmp_path: Path, number: signal.Signals) -> None:
    words = ["--only", "files", "--tools", "archivefs/fusepy", "--scale", "0", "--repeat", "99"]
    command = [sys.executable, "-m", "contrib.bench", "--work", str(tmp_path), *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        try:
            _wait_for(lambda: _mounted_below(tmp_path))
            running.send_signal(number)
            said, _ = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 130
    assert b"| files | find -ls, cold" in said  # what was measured until then
    _wait_for(lambda: not _mounted_below(tmp_path))


def _mounted_below(folder: Path) -> bool:
    return any(mount.mountpoint.startswith(f"{folder}/") for mount in mounts())


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
