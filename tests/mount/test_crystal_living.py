"""A Crystal project that another process writes to, as Crystal does, while eight clients walk the mount."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.formats.crystal.projects import SITE, fingerprint, project
from tests.mount.harness import mounted, wait_until
from tests.walking import problems_of

BEFORE, AFTER = 40, 160
LIMIT_S = 60.0
WRITER = """
import os, sqlite3, sys, time
path, mode, first, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
database = sqlite3.connect(path + "/database.sqlite", timeout=5)
database.execute("pragma journal_mode=" + mode)
for key in range(first, last + 1):
    database.execute("insert into resource values (?, ?)", (key, f"https://site.example/{key}"))
    row = (key, key, "null", '{"status_code": 200, "headers": []}')
    database.execute("insert into resource_revision (id, resource_id, error, metadata) values (?, ?, ?, ?)", row)
    half = f"{path}/tmp/{key}.body"
    with open(half, "w") as file:
        file.write(str(key))
    database.commit()
    os.rename(half, f"{path}/revisions/000/000/000/000/{key:03x}")
    print(key, flush=True)
    time.sleep(0.003)
database.close()
"""


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_eight_clients_walk_while_crystal_writes(tmp_path: Path, transport: str, mode: str) -> None:
    """Each listing is whole, each page has its bytes; a new page is seen, and Crystal can close the project after."""
    path = project(tmp_path, lambda writer: [writer.fetch(f"{SITE}/{i}", b"%d" % i) for i in range(1, BEFORE + 1)])
    with mounted(path, at=tmp_path / "m", transport=transport) as mount:
        site = mount.path / "web" / "https" / "site.example"
        with pytest.raises(FileNotFoundError):
            (site / str(AFTER)).stat()  # the kernel may keep that it is not there
        with _writing(path, mode) as written:
            assert problems_of(lambda _number: _walk(site, written)) == []
        assert wait_until(lambda: (site / str(AFTER)).exists())
        assert wait_until(lambda: len(os.listdir(site)) == AFTER)
        assert (site / str(AFTER)).read_text() == str(AFTER)
        assert wait_until(lambda: _crystal_can_close(path)), "a connection is kept open"
        assert sorted(os.listdir(path)) == ["OPEN ME.crystalopen", "database.sqlite", "revisions", "tmp"]
        before = fingerprint(path)
        assert len(os.listdir(site)) == AFTER
    assert fingerprint(path) == before


class _writing:
    """The writer, as a process; called, it says how far it is."""

    def __init__(self, path: Path, mode: str) -> None:
        command = [sys.executable, "-c", WRITER, str(path), mode, str(BEFORE + 1), str(AFTER)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._last = BEFORE
        self._follower = threading.Thread(target=self._follow)

    def _follow(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._last = int(line)

    def __call__(self) -> int:
        return self._last

    def __enter__(self) -> _writing:
        self._follower.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            assert self._process.wait(LIMIT_S) == 0
        finally:
            self._process.kill()
            self._follower.join()
            assert self._process.stdout
            self._process.stdout.close()


def _walk(site: Path, written: Callable[[], int]) -> None:
    end = time.monotonic() + LIMIT_S
    while written() < AFTER and time.monotonic() < end:
        at_least = written()
        names = os.listdir(site)
        assert len(names) == len(set(names)), "a name is listed twice"
        assert {str(number) for number in range(1, BEFORE + 1)} <= set(names)
        for name in names[:: max(1, len(names) // 10)]:
            _check(site / name, at_least)


def _check(page: Path, at_least: int) -> None:
    try:
        assert page.read_text() == page.name
    except OSError as error:
        assert error.errno == errno.EIO
        assert int(page.name) >= at_least  # the row is there, its body comes a moment later
    assert os.getxattr(page, "user.xdg.origin.url") == f"{SITE}/{page.name}".encode()


def _crystal_can_close(path: Path) -> bool:
    """Open it and close it, which changes the journal mode there and back and needs the database for itself."""
    with closing(sqlite3.connect(path / "database.sqlite")) as database:
        try:
            database.execute("pragma journal_mode=wal")
            return database.execute("pragma journal_mode=delete").fetchone() == ("delete",)
        except sqlite3.OperationalError:
            return False
