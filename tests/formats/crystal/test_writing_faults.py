"""Writing to projects when something fails: the order of what is made durable, failing calls, and kill -9."""

from __future__ import annotations

import errno
import itertools
import os
import random
import select
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archivefs.formats.crystal import open_crystal
from archivefs.formats.crystal.creating import create
from archivefs.formats.crystal.held import HeldConnection
from archivefs.formats.crystal.rwtree import RwTree
from archivefs.staging import durable
from archivefs.tree import Kind, WritableFile
from tests.formats.crystal.projects import SITE, opening, project
from tests.formats.crystal.rewriting import check_project, pages, put, revisions, split, writable, write
from tests.formats.crystal.test_writing import HOST, packed, small

LARGE = b"large" * 20_000
KILL_S = 12.0
Event = tuple[str, ...]


@pytest.fixture(autouse=True)
def _log_is_looked_at(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Each opening for writing says that Crystal is shut out."""
    return caplog


# -- the order --


class Recorder:
    """Every call that makes something durable, and every statement that changes the database."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[Event] = []
        for name in ("sync_file", "sync_folder", "rename"):
            monkeypatch.setattr(durable, name, self._recorded(name, getattr(durable, name)))
        run = HeldConnection.run

        def recorded(connection: HeldConnection, sql: str, parameters: Any = ()) -> int:
            self.events.append(("run", sql))
            return run(connection, sql, parameters)

        monkeypatch.setattr(HeldConnection, "run", recorded)

    def _recorded(self, name: str, call: Callable[..., None]) -> Callable[..., None]:
        def recorded(*places: Any) -> None:
            shown = [os.readlink(f"/proc/self/fd/{place}") if isinstance(place, int) else place for place in places]
            self.events.append((name, *shown))
            call(*places)

        return recorded


def check_order(events: list[Event], path: Path, key: int, *, new_folders: int) -> None:
    """A body in tmp/, on disk; a row; the body in its place, on disk; the commit."""
    place = path / "revisions" / "000" / "000" / "000" / "000" / f"{key:03x}"
    moves = [(at, event) for at, event in enumerate(events) if event[0] == "rename" and event[2] == str(place)]
    assert len(moves) == 1
    moved, (_, temporary, _) = moves[0]
    assert Path(temporary).parent == path / "tmp"

    def at(*event: str, after: int = -1) -> int:
        return next(n for n, found in enumerate(events) if n > after and found[: len(event)] == event)

    begun = at("run", "begin immediate", after=at("sync_file", temporary))
    inserted = next(n for n, e in enumerate(events) if n > begun and e[1].startswith("insert into resource_revision"))
    committed = at("run", "commit", after=begun)
    assert begun < inserted < moved < committed
    assert moved < at("sync_folder", str(place.parent), after=moved) < committed
    for above in list(place.parents)[1 : 1 + new_folders]:
        assert moved < at("sync_folder", str(above), after=moved) < committed


def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes) -> tuple[list[Event], Path]:
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/", b"x"))
    with writable(path) as tree, monkeypatch.context() as patch:
        recorder = Recorder(patch)
        put(tree, f"{HOST}/page", data)
    return recorder.events, path


@pytest.mark.parametrize("data", [b"small", LARGE])
def test_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    events, path = record(tmp_path, monkeypatch, data)
    check_order(events, path, 2, new_folders=0)
    staging = str(tmp_path / ".p.crystalproj.archivefs-staging")
    kept = [number for number, event in enumerate(events) if event == ("sync_file", f"{staging}/journal")]
    begun = events.index(("run", "begin immediate"))
    assert any(number < begun for number in kept)
    if data is LARGE:  # the body before the record that names it
        assert events.index(("sync_file", f"{staging}/bodies/1")) < max(n for n in kept if n < begun)


def test_new_folders_are_made_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new.crystalproj"
    create(str(path))
    with writable(path) as tree:
        web = tree.directory(b"")
        web.make_directory("https")
        tree.directory(b"https://").make_directory("site.example")
        recorder = Recorder(monkeypatch)
        put(tree, f"{HOST}/page", b"x")
        monkeypatch.undo()
    check_order(recorder.events, path, 1, new_folders=4)


@pytest.mark.parametrize("name", ["sync_file", "sync_folder"])
def test_the_check_notices_a_forgotten_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/", b"x"))
    with writable(path) as tree, monkeypatch.context() as patch:
        recorder = Recorder(patch)
        patch.setattr(durable, name, lambda _place: None)
        put(tree, f"{HOST}/page", b"x")
    with pytest.raises((AssertionError, StopIteration)):
        check_order(recorder.events, path, 2, new_folders=0)


# -- calls that fail --


class Fault:
    """The n-th call fails, of all that write, make durable or change the database."""

    def __init__(self, patch: pytest.MonkeyPatch, number: int, code: int) -> None:
        self.calls, self.number, self.code = 0, number, code
        for name in ("sync_file", "sync_folder", "rename", "write_all"):
            patch.setattr(durable, name, self._failing(getattr(durable, name)))
        run = HeldConnection.run

        def failing(connection: HeldConnection, sql: str, parameters: Any = ()) -> int:
            if sql != "rollback" and self._is_now():
                raise sqlite3.OperationalError("database or disk is full")
            return run(connection, sql, parameters)

        patch.setattr(HeldConnection, "run", failing)

    def _is_now(self) -> bool:
        self.calls += 1
        return self.calls == self.number

    def _failing(self, call: Callable[..., None]) -> Callable[..., None]:
        def failing(*places: Any) -> None:
            if self._is_now():
                raise OSError(self.code, os.strerror(self.code))
            call(*places)

        return failing

    @property
    def happened(self) -> bool:
        return self.calls >= self.number


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("data", [b"small", LARGE])
def test_the_nth_call_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, code: int) -> None:
    """Old or new, never torn, never a row without a body; what was acknowledged is there after another try."""
    for number in itertools.count(1):
        path = project(tmp_path, small)
        acknowledged = False
        with writable(path) as tree:
            with monkeypatch.context() as patch:
                fault = Fault(patch, number, code)
                acknowledged = attempt(tree, data)
            written = split(tree, f"{HOST}/page")[0].child("page")
            assert written.attributes().size in (3, len(data))
        check_project(path)
        found = pages(path)[f"{SITE}/page"]
        assert found == data if acknowledged else found in (b"two", data)
        assert len(revisions(path)) <= 5
        assert os.listdir(path / "tmp") == []
        if not fault.happened:
            break
    assert number > 10
    assert acknowledged


def attempt(tree: RwTree, data: bytes) -> bool:
    """Write; says whether a flush got through."""
    file = split(tree, f"{HOST}/page")[0].child("page")
    assert isinstance(file, WritableFile)
    writer = file.open_writer(truncate=True)
    acknowledged = False
    try:
        writer.write_at(0, data)
        writer.sync()
        acknowledged = True
        writer.finish()
    except OSError:
        pass
    finally:
        writer.close()
    return acknowledged


def test_the_nth_call_fails_when_removing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in itertools.count(1):
        path = packed(tmp_path)
        with writable(path, "delete") as tree, monkeypatch.context() as patch:
            fault = Fault(patch, number, errno.EIO)
            with suppress(OSError):
                split(tree, f"{HOST}/x")[0].remove("n20", kind=Kind.FILE)
        check_project(path)
        assert {stored.id for stored in revisions(path)} in (set(range(1, 36)), set(range(1, 36)) - {20})
        if not fault.happened:
            break
    assert number > 3


# -- what is left --


def left_behind(path: Path, url_path: str, data: bytes) -> None:
    """A mount that dies after a flush, before the last close."""
    code = (
        "import os, sys\n"
        "from dataclasses import replace\n"
        "from pathlib import Path\n"
        "from tests.formats.crystal.rewriting import split\n"
        "from tests.formats.crystal.projects import opening\n"
        "from archivefs.formats.crystal import open_crystal\n"
        "tree = open_crystal(sys.argv[1], replace(opening(), read_write=True))\n"
        "directory, name = split(tree, sys.argv[2])\n"
        "writer = directory.create(name, exclusive=False).open_writer(truncate=True)\n"
        "writer.write_at(0, sys.stdin.buffer.read())\n"
        "writer.sync()\n"
        "os._exit(9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), url_path], input=data, capture_output=True, check=False
    )
    assert done.returncode == 9, done.stderr


@pytest.mark.parametrize("data", [b"flushed", LARGE])
def test_what_a_crash_leaves_becomes_a_revision(tmp_path: Path, data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = project(tmp_path, small)
    left_behind(path, f"{HOST}/page", data)
    assert pages(path)[f"{SITE}/page"] == b"two"
    assert sorted(os.listdir(tmp_path)) == [".p.crystalproj.archivefs-staging", "p.crystalproj"]
    open_crystal(str(path), opening()).close()
    assert "pages that an earlier mount has left are not stored yet" in caplog.text
    for _ in range(2):
        with writable(path):
            pass
        assert [stored.body for stored in revisions(path)][4:] == [data]
    assert caplog.text.count("1 pages that an earlier mount has left are stored now") == 1
    assert os.listdir(tmp_path) == ["p.crystalproj"]
    check_project(path)


def test_what_a_crash_leaves_can_be_thrown_away(tmp_path: Path) -> None:
    path = project(tmp_path, small)
    left_behind(path, f"{HOST}/page", b"flushed")
    tree = open_crystal(str(path), replace(opening(), read_write=True, ignore_pending=True))
    tree.discard_changes()
    tree.close()
    assert os.listdir(tmp_path) == ["p.crystalproj"]
    with writable(path):
        pass
    assert pages(path)[f"{SITE}/page"] == b"two"


def test_a_full_disk_at_close_keeps_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project(tmp_path, small)
    with writable(path) as tree:
        file = split(tree, f"{HOST}/page")[0].child("page")
        assert isinstance(file, WritableFile)
        with monkeypatch.context() as patch:
            patch.setattr(durable, "rename", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
            with pytest.raises(OSError, match="full"):
                write(file, b"three")
        assert list(tree.pending()) == [("changed", ("web", "https", "site.example", "page"))]
        assert file.open().read_at(0, 10) == b"three"
        assert file.xattrs()["user.archivefs.state"] == b"pending"
    assert pages(path)[f"{SITE}/page"] == b"three"  # there is space again at unmount


def test_a_revision_is_not_changed_by_a_writer_whose_close_seemed_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal could not be written after the commit; the writer goes on, with a copy."""
    path = project(tmp_path, small)
    with writable(path) as tree:
        file = split(tree, f"{HOST}/page")[0].child("page")
        assert isinstance(file, WritableFile)
        writer = file.open_writer(truncate=True)
        writer.write_at(0, LARGE)
        writer.sync()
        with monkeypatch.context() as patch:
            patch.setattr(durable, "write_all", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
            writer.finish()
        writer.write_at(0, b"changed")
        writer.finish()
        writer.close()
    assert [stored.body for stored in revisions(path)[-2:]] == [LARGE, b"changed" + LARGE[7:]]


# -- kill -9 --

WRITER = """
import random, sys
from dataclasses import replace
from tests.formats.crystal.rewriting import split
from tests.formats.crystal.projects import opening
from archivefs.formats.crystal import open_crystal
tree = open_crystal(sys.argv[1], replace(opening(), read_write=True))
number = int(sys.argv[2])
print("ready", flush=True)
while True:
    number += 1
    directory, name = split(tree, f"https/site.example/k{number % 4}")
    writer = directory.create(name, exclusive=False).open_writer(truncate=True)
    writer.write_at(0, b"%d\\n" % number * random.choice((1, 100, 20000)))
    writer.sync()
    print(number, flush=True)
    writer.finish()
    writer.close()
"""


def test_kill_9(tmp_path: Path) -> None:
    """Hundreds of writes, killed anywhere: every one that was acknowledged is there, whole."""
    path = project(tmp_path, small)
    last: dict[int, int] = {}
    number, rounds = 0, 0
    end = time.monotonic() + KILL_S
    while time.monotonic() < end or not rounds:
        number = killed_round(path, number, last)
        rounds += 1
        with writable(path):
            pass
        check_project(path)
        found = pages(path)
        for slot, written in last.items():
            body = found[f"{SITE}/k{slot}"]
            assert body is not None
            lines = body.splitlines()
            assert len(set(lines)) == 1
            assert int(lines[0]) >= written
        assert os.listdir(tmp_path) == ["p.crystalproj"]
    assert rounds > 2
    assert len(last) == 4


def killed_round(path: Path, number: int, last: dict[int, int]) -> int:
    """One life of a writer; notes what it has acknowledged, by page."""
    command = [sys.executable, "-c", WRITER, str(path), str(number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        if select.select([process.stdout], [], [], 10)[0]:
            time.sleep(random.random() * 0.4)
        process.kill()
        for line in process.stdout.read().splitlines():
            number = int(line)
            last[number % 4] = number
    return number + 1
