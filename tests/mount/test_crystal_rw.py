"""Ordinary tools on a Crystal project that is mounted read-write, on both transports; the results read by SQL."""

from __future__ import annotations

import os
import pty
import select
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.formats.crystal.rewriting import check_project, pages, revisions
from tests.mount.harness import Mount, run_archivefs, tool, wait_until
from tests.samples import crystal

SITE = "https://harbour.example"
NOTICE = "read-write; Crystal cannot open it until it is unmounted"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return crystal.write(tmp_path / "h.crystalproj")


@contextmanager
def mounted(path: Path, transport: str, options: str = "rw") -> Iterator[Path]:
    """The folder of the site; afterwards the project must be sound, and nothing be left beside it."""
    mount = Mount(path, at=path.parent / "m", transport=transport, options=options).wait_ready()
    try:
        yield mount.path / "web" / "https" / "harbour.example"
        assert mount.unmount() == 0, mount.said()
    finally:
        mount.end()
    lines = mount.said().splitlines()
    assert len(lines) == 1, lines
    assert NOTICE in lines[0]
    check_project(path)
    assert os.listdir(path / "tmp") == []
    assert [name for name in os.listdir(path.parent) if name.startswith(".")] == []


def run(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run([*map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def refused(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run([*map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0, words
    return done.stderr


def bodies(path: Path, page: str) -> list[bytes | None]:
    return [stored.body for stored in revisions(path) if stored.url == SITE + page]


# -- what people do --


def test_the_shell(path: Path, transport: str) -> None:
    with mounted(path, transport) as site:
        run("sh", "-c", "echo one > new.txt", cwd=site)
        assert wait_until(lambda: stored(site, "new.txt") == 1)  # the kernel tells of the last close when it likes
        run("sh", "-c", "echo two >> new.txt", cwd=site)
        assert (site / "new.txt").read_bytes() == b"one\ntwo\n"
        run("sh", "-c", "(cat new.txt; cat style.css) > both.css", cwd=site)
        assert wait_until(lambda: stored(site, "both.css") == 1)
        run("truncate", "-s", "4", "both.css", cwd=site)
    assert bodies(path, "/new.txt") == [b"one\n", b"one\ntwo\n"]
    assert bodies(path, "/both.css") == [b"one\ntwo\nh1 { color: #046 }\n", b"one\n"]


def stored(site: Path, name: str) -> int:
    """How many revisions of a page there are."""
    history = site.parents[2] / "history" / "https" / "harbour.example" / f"{name}^revs"
    return len(os.listdir(history)) - 1 if history.exists() else 0


def test_copying(path: Path, transport: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep" / "er").mkdir(parents=True)
    for number in range(20):
        (source / "deep" / f"{number}.txt").write_bytes(bytes([number]) * number * 997)
    (source / "deep" / "er" / "big.bin").write_bytes(os.urandom(3_000_000))
    with mounted(path, transport) as site:
        run("cp", "-r", source, site / "copied", cwd=tmp_path)
        run("rsync", "-a", f"{source}/", f"{site}/synced/", cwd=tmp_path)
        assert run("rsync", "-ai", f"{source}/", f"{site}/synced/", cwd=tmp_path) == ""  # times are kept until unmount
        for name in ("copied", "synced"):
            run("diff", "-r", source, site / name, cwd=tmp_path)
    found = pages(path)
    assert found[f"{SITE}/synced/deep/er/big.bin"] == (source / "deep" / "er" / "big.bin").read_bytes()
    assert sum(url.startswith((f"{SITE}/copied/", f"{SITE}/synced/")) for url in found) == 42


def test_sed_and_vim(path: Path, transport: str) -> None:
    with mounted(path, transport) as site:
        run("sed", "-i", "s/Calm/Windy/", "index.html", cwd=site)
        assert "Windy" in (site / "index.html").read_text()
        run(tool("vim"), "-es", "-u", "NONE", "-N", "-c", "%s/Windy/Stormy/", "-c", "wq", "index.html", cwd=site)
        command = [tool("vim"), "-es", "-u", "NONE", "-N", "-c", "set backup backupcopy=no", "-c", "%s/h1/h2/g"]
        run(*command, "-c", "wq", "style.css", cwd=site)
        assert "Stormy" in (site / "index.html").read_text()
        (site / "style.css~").unlink(missing_ok=True)
        assert [name for name in os.listdir(site) if name.startswith((".", "sed", "4913")) or "~" in name] == []
    assert bodies(path, "/")[-2:] == [b"<h1>Harbour news</h1>\n<p>Windy.\n", b"<h1>Harbour news</h1>\n<p>Stormy.\n"]
    assert bodies(path, "/style.css") == [b"h1 { color: #046 }\n", b"h2 { color: #046 }\n"]


def test_nano(path: Path, transport: str) -> None:
    nano = tool("nano")
    with mounted(path, transport) as site:
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(site)
            os.execve(nano, [nano, "--ignorercfiles", "style.css"], {"TERM": "xterm", "HOME": "/"})
        try:
            for keys in (b"", b"/* nano */", b"\x0f", b"\r", b"\x18"):  # text, ^O, Enter, ^X
                os.write(terminal, keys)
                until_quiet(terminal)
            assert wait_until(lambda: os.waitpid(child, os.WNOHANG) != (0, 0))
        finally:
            os.close(terminal)
        assert (site / "style.css").read_bytes() == b"/* nano */h1 { color: #046 }\n"
    assert bodies(path, "/style.css")[-1] == b"/* nano */h1 { color: #046 }\n"


def until_quiet(terminal: int) -> None:
    """Read what a program draws until it has drawn all."""
    end = time.monotonic() + 10
    while select.select([terminal], [], [], 0.5)[0] and time.monotonic() < end:
        try:
            if not os.read(terminal, 65536):
                return
        except OSError:
            return


def test_an_unsaved_file_is_moved(path: Path, transport: str) -> None:
    with mounted(path, transport) as site:
        (site / ".goutputstream-ABC").write_bytes(b"by gedit")
        run("mv", ".goutputstream-ABC", "lost", cwd=site)
        (site / ".x.Ab12Cd").write_bytes(b"by rsync")
        run("mv", ".x.Ab12Cd", "x", cwd=site)
        assert (site / "lost").read_bytes() == b"by gedit"
        with open(site / "sedAb12Cd", "wb") as file:  # while it is open, too
            file.write(b"first ")
            file.flush()
            os.rename(site / "sedAb12Cd", site / "y")
            file.write(b"second")
    assert bodies(path, "/lost")[-1] == b"by gedit"
    assert bodies(path, "/x") == [b"by rsync"]
    assert bodies(path, "/y")[-1] == b"first second"


def test_random_writes(path: Path, transport: str) -> None:
    data = bytearray(os.urandom(300_000))
    with mounted(path, transport) as site:
        (site / "r.bin").write_bytes(data)
        assert wait_until(lambda: stored(site, "r.bin") == 1)
        with open(site / "r.bin", "r+b") as file:
            for offset in (299_990, 5, 100_000):
                file.seek(offset)
                file.write(b"changed")
                data[offset : offset + 7] = b"changed"
                os.fsync(file.fileno())
            assert os.fstat(file.fileno()).st_size == 300_000
        assert (site / "r.bin").read_bytes() == data
    before, after = bodies(path, "/r.bin")
    assert before != after
    assert after == bytes(data)


# -- what is refused --


def test_refused(path: Path, transport: str) -> None:
    before = revisions(path)
    with mounted(path, transport) as site:
        for words in (
            ("rm", "-f", "style.css"),
            ("mv", "style.css", "other.css"),
            ("touch", "a b"),
            ("touch", "é"),
            ("ln", "-s", "x", "link"),
            ("mv", "news", "olds"),
        ):
            assert "not permitted" in refused(*words, cwd=site), words
        assert "not empty" in refused("rmdir", "news", cwd=site)
        run("mkdir", "empty", cwd=site)
        run("rmdir", "empty", cwd=site)
        assert "Read-only" in refused("touch", "../../../errors/x", cwd=site)
        run("chmod", "600", "style.css", cwd=site)
        run("touch", "-d", "2001-02-03", "style.css", cwd=site)
        assert (site / "style.css").stat().st_mode & 0o777 == 0o600
    assert revisions(path) == before


def test_removing_and_renaming(path: Path, transport: str) -> None:
    with mounted(path, transport, "rw,delete,rename") as site:
        run("mv", "style.css", "other.css", cwd=site)
        history = site.parents[2] / "history/https/harbour.example"
        assert sorted(os.listdir(history / "^index^revs")) == ["1", "11", "latest"]
        run("rm", history / "^index^revs" / "11", cwd=site)
        assert "Fog" in (site / "index.html").read_text()
        run("rm", "-r", "news", cwd=site)
        assert not (site / "news").exists()
    found = pages(path)
    assert found[f"{SITE}/other.css"] == b"h1 { color: #046 }\n"
    assert not any(url.startswith(f"{SITE}/news/") for url in found)


# -- who else is there --


def test_read_only_while_crystal_has_it(path: Path, transport: str) -> None:
    code = (
        "import sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('pragma journal_mode=wal').fetchall(); c.execute('select * from resource').fetchall()\n"
        "print('open', flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(path / "database.sqlite")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        mount = Mount(path, at=path.parent / "m", transport=transport, options="rw").wait_ready()
        try:
            site = mount.path / "web/https/harbour.example"
            assert "Calm" in (site / "index.html").read_text()
            with pytest.raises(OSError, match="Read-only"):
                (site / "index.html").write_text("x")
            assert mount.said().count("\n") == 1
            assert "read-only for now" in mount.said()
            assert mount.unmount() == 0
        finally:
            mount.end()
            other.communicate()


def test_one_writer(path: Path, transport: str) -> None:
    with mounted(path, transport) as site:
        done = run_archivefs("mount", "-o", "rw", path, path.parent / "second")
        assert done.returncode == 1
        assert "mounted read-write already, by process" in done.stderr
        other = sqlite3.connect(path / "database.sqlite", timeout=0.1)
        with closing(other), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("select * from resource").fetchall()
        assert run_archivefs("status", site.parents[2]).stdout == "nothing is pending\n"


def test_a_killed_driver(path: Path, transport: str) -> None:
    """What was fsynced is stored by the next mount, what was closed is stored already or then."""
    mount = Mount(path, at=path.parent / "m", transport=transport, options="rw").wait_ready()
    try:
        site = mount.path / "web/https/harbour.example"
        (site / "closed").write_bytes(b"closed")
        file = open(site / "synced", "wb", buffering=0)
        file.write(b"synced")
        os.fsync(file.fileno())
        mount.process.kill()
        mount.process.wait()
        with pytest.raises(OSError, match=r"onnect|abort"):
            file.close()
    finally:
        mount.end()
    mount = Mount(path, at=path.parent / "m", transport=transport, options="rw").wait_ready()
    try:
        assert (mount.path / "web/https/harbour.example/synced").read_bytes() == b"synced"
        assert "that an earlier mount has left" in mount.said()
        assert mount.unmount() == 0
    finally:
        mount.end()
    check_project(path)
    assert bodies(path, "/closed") == [b"closed"]
    assert bodies(path, "/synced") == [b"synced"]
