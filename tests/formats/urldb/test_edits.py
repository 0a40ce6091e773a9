"""Changes to a file as bytes: what is not meant keeps every byte; and the order of the calls that make them durable."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from archivefs.errors import SourceBusy
from archivefs.formats.urldb import database as databases
from archivefs.formats.urldb import edits
from archivefs.formats.urldb.database import Database
from archivefs.formats.urldb.domainfile import DomainFile
from archivefs.formats.urldb.limits import Limits
from archivefs.formats.urldb.store import record_from
from archivefs.staging import durable
from tests.samples.urldb import HARBOUR, MINIMAL, large, write

MESSY = "---\n# top\n---\n_path: /b   # one\nx: 'y'\n---\n{_path: /d}\n--- # odd\n_path: \"/f\"\n"


def domain(text: str | bytes) -> DomainFile:
    return DomainFile("a.example", text if isinstance(text, bytes) else text.encode())


def put(file: DomainFile, path: str, text: str = "") -> DomainFile:
    new = edits.put(file, record_from(text.encode(), path, Limits()))
    assert new is not None
    return new


def same(file: DomainFile) -> bool:
    """Is what is known of a file what a fresh look at its bytes tells?"""
    fresh = DomainFile(file.name, file.data)
    return (fresh.layout, fresh.paths, fresh.by_path, fresh.sorted_paths, fresh.faults, fresh.empty, fresh.first) == (
        file.layout,
        file.paths,
        file.by_path,
        file.sorted_paths,
        file.faults,
        file.empty,
        file.first,
    )


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        (MINIMAL, "/a", MINIMAL + "---\n_path: /a\n"),
        ("---\n", "/a", "---\n---\n_path: /a\n"),
        ("", "/a", "---\n---\n_path: /a\n"),
        ("# only a comment\n", "/a", "# only a comment\n---\n---\n_path: /a\n"),
        (MESSY, "/a", MESSY.replace("---\n_path: /b", "---\n_path: /a\n---\n_path: /b")),
        (MESSY, "/c", MESSY.replace("---\n{", "---\n_path: /c\n---\n{")),
        (MESSY, "/z", MESSY + "---\n_path: /z\n"),
        (MESSY, "/d", MESSY.replace("{_path: /d}", "_path: /d")),
        ("---\n---\n_path: /b", "/c", "---\n---\n_path: /b\n---\n_path: /c\n"),
        ("---\r\n---\r\n_path: /b\r\n", "/c", "---\r\n---\r\n_path: /b\r\n---\r\n_path: /c\r\n"),
        ("_path: /b\n", "/a", "---\n_path: /a\n...\n_path: /b\n"),
        ("---\n...\n%YAML 1.1\n---\n_path: /b\n", "/a", "---\n...\n---\n_path: /a\n...\n%YAML 1.1\n---\n_path: /b\n"),
        ("---\n---\n_path: /a\n...\n# end\n", "/b", "---\n---\n_path: /a\n...\n# end\n---\n_path: /b\n"),
        ("---\n---\n_path: /b\n---\n_path: [\n", "/c", "---\n---\n_path: /b\n---\n_path: [\n---\n_path: /c\n"),
        # unsorted: whole slices are moved
        (
            "---\n---\n_path: /z # z\n---\n_path: /a\n",
            "/m",
            "---\n---\n_path: /a\n---\n_path: /m\n---\n_path: /z # z\n",
        ),
        (
            "---\n---\n_path: /z\n---\n[\n---\n_path: /a",
            "/m",
            "---\n---\n_path: /a\n---\n_path: /m\n---\n_path: /z\n---\n[\n",
        ),
    ],
)
def test_put(text: str, path: str, expected: str) -> None:
    new = put(domain(text), path)
    assert new.data.decode() == expected
    assert same(new)
    assert path in new.by_path


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        (MESSY, "/b", MESSY.replace("---\n_path: /b   # one\nx: 'y'\n", "")),
        (MESSY, "/d", MESSY.replace("---\n{_path: /d}\n", "")),
        (MESSY, "/f", MESSY.replace('--- # odd\n_path: "/f"\n', "")),
        (MINIMAL, "/", "---\n"),
        ("---\n_path: /a\n---\nx: 1\n", "/a", "---\n---\nx: 1\n"),
        ("---\n---\n_path: /a\n---\n_path: /b\n---\n_path: /a\nx: 2\n", "/a", "---\n---\n_path: /b\n"),
        (
            "---\n...\n%YAML 1.1\n---\n_path: /b\n...\n%YAML 1.1\n---\n_path: /c\n",
            "/b",
            "---\n...\n...\n%YAML 1.1\n---\n_path: /c\n",
        ),
        ("---\n---\n_path: /a\n---\n_path: /last", "/last", "---\n---\n_path: /a\n"),
    ],
)
def test_remove(text: str, path: str, expected: str) -> None:
    new = edits.remove(domain(text), path)
    assert new.data.decode() == expected
    assert same(new)
    assert path not in new.by_path


def test_rename_and_metadata() -> None:
    file = domain(MESSY)
    assert edits.rename(file, {"/b": "/e"}).data.decode() == (
        '---\n# top\n---\n{_path: /d}\n---\n_path: /e\nx: y\n--- # odd\n_path: "/f"\n'
    )
    assert edits.rename(file, {"/b": "/f"}).data.decode() == "---\n# top\n---\n{_path: /d}\n---\n_path: /f\nx: y\n"
    assert edits.add_alias(file, "b.example").data.decode() == MESSY.replace("# top\n", "cnames:\n- b.example\n")
    assert edits.set_metadata(domain("_path: /b\n"), None).data == b"---\n...\n_path: /b\n"
    assert edits.set_metadata(domain(""), None).data == b"---\n"


def test_putting_and_removing_leaves_a_file_as_it_was() -> None:
    file = domain(large(500))
    new = put(file, "/d50/s0500/zzz", "x: 1")
    assert same(new)
    assert edits.remove(new, "/d50/s0500/zzz").data == file.data
    assert edits.put(file, record_from(file.text(7), file.paths[7] or "", Limits())) is None


# -- on disk --


def test_modes_links_and_line_ends_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "db", {"a.example": MINIMAL.replace("\n", "\r\n")})
    (tmp_path / "elsewhere.yaml").write_text(MINIMAL)
    os.symlink(tmp_path / "elsewhere.yaml", path / "link.example.yaml")
    os.chmod(path / "a.example.yaml", 0o640)
    database = Database(str(path))
    for name in ("a.example", "link.example"):
        database.change(name, lambda file: put(file, "/new"))
    assert (path / "a.example.yaml").read_bytes() == b"---\r\n---\r\n_path: /\r\n---\r\n_path: /new\r\n"
    assert os.stat(path / "a.example.yaml").st_mode & 0o777 == 0o640
    assert (path / "link.example.yaml").is_symlink()
    assert (tmp_path / "elsewhere.yaml").read_text() == MINIMAL + "---\n_path: /new\n"
    old = os.umask(0o027)
    try:
        database.create("new.example")
    finally:
        os.umask(old)
    assert os.stat(path / "new.example.yaml").st_mode & 0o777 == 0o640
    assert sorted(os.listdir(path)) == ["a.example.yaml", "link.example.yaml", "new.example.yaml"]


def test_the_order_of_what_makes_a_change_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(str(write(tmp_path / "db")))
    calls: list[str] = []
    sync_file, sync_folder, replace = durable.sync_file, durable.sync_folder, os.replace
    monkeypatch.setattr(durable, "sync_file", lambda fd: (calls.append("file"), sync_file(fd)))
    monkeypatch.setattr(durable, "sync_folder", lambda path: (calls.append("folder"), sync_folder(path)))
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append("replace"), replace(a, b)))
    database.change("minimal.example", lambda file: put(file, "/new"))
    assert calls == ["file", "replace", "folder"]


@pytest.mark.parametrize("fault", ["sync_file", "rename"])
def test_a_failing_disk_leaves_the_old_file(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "db")
    database = Database(str(path))

    def fail(*_words: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(durable, fault, fail)
        with pytest.raises(OSError):
            database.change("minimal.example", lambda file: put(file, "/new"))
    assert (path / "minimal.example.yaml").read_text() == MINIMAL
    assert [name for name in os.listdir(path) if not name.endswith(".yaml")] == []
    database.change("minimal.example", lambda file: put(file, "/new"))
    assert "/new" in (path / "minimal.example.yaml").read_text()


def test_changes_by_others_are_never_lost(tmp_path: Path) -> None:
    path = write(tmp_path / "db", {"a.example": MINIMAL})
    database = Database(str(path))
    (path / "a.example.yaml").write_text(MINIMAL + "---\n_path: /by-another\n")
    database.change("a.example", lambda file: put(file, "/mine"))
    assert (path / "a.example.yaml").read_text() == MINIMAL + "---\n_path: /by-another\n---\n_path: /mine\n"


def test_who_holds_the_lock_too_long_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "LOCK_WAIT_S", 0.1)
    path = write(tmp_path / "db")
    one, two = Database(str(path)), Database(str(path))
    with one.locked(), pytest.raises(SourceBusy, match="another program is changing it"):
        two.change("minimal.example", lambda file: put(file, "/new"))
    two.change("minimal.example", lambda file: put(file, "/new"))


def test_eight_writers_lose_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "db", {"a.example": MINIMAL})

    def add(number: int) -> None:
        database = Database(str(path))
        for count in range(10):
            database.change("a.example", lambda file, count=count: put(file, f"/{number}/{count}"))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Database(str(path)).domain("a.example").by_path) == 81


CHILD = """
import sys
from archivefs.formats.urldb import edits
from archivefs.formats.urldb.database import Database
from archivefs.formats.urldb.limits import Limits
from archivefs.formats.urldb.store import record_from
database = Database(sys.argv[1])
for number in range(10**6):
    path = f"/{sys.argv[2]}/{number:06d}"
    database.change("a.example", lambda file: edits.put(file, record_from(b"x: 1", path, Limits())))
    print(path, flush=True)
"""


def test_killed_at_any_moment_nothing_is_torn_or_lost(tmp_path: Path) -> None:
    path = write(tmp_path / "db", {"a.example": large(3000)})
    acknowledged: list[str] = []
    end = time.monotonic() + 10
    for number in range(12):
        if time.monotonic() > end:
            break
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(CHILD), str(path), f"r{number}"], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        acknowledged.append(child.stdout.readline().strip())
        time.sleep(0.013 * (number + 1))
        child.send_signal(signal.SIGKILL)
        acknowledged += [
            line.strip() for line in child.stdout.read().splitlines() if line.endswith(tuple("0123456789"))
        ]
        child.wait()
        child.stdout.close()
    database = Database(str(path))
    file = database.domain("a.example")
    assert not [finding for finding in database.lint() if finding.level == "error" or finding.code == "unsorted"]
    lines = [line for line in acknowledged if len(line.rpartition("/")[2]) == 6]
    assert len(lines) > 20
    assert [line for line in lines if line not in file.by_path] == []
    assert len(file.by_path) >= 3000 + len(lines)
    database.change("a.example", lambda old: put(old, "/last"))
    assert [name for name in os.listdir(path) if not name.endswith(".yaml")] == []


def test_a_harbour_stays_a_harbour() -> None:
    file = domain(HARBOUR)
    for path in list(file.by_path):
        without = edits.remove(file, path)
        again = edits.put(without, record_from(file.text(file.by_path[path]), path, Limits()))
        assert again is not None
        assert again.data == file.data
