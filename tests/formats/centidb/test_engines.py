"""The engines: what they have in common, the worker process and its death, and that reading changes nothing."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from archivefs.errors import (
    ArchiveError,
    BadOption,
    CorruptArchive,
    LimitExceeded,
    MissingLibrary,
    OperationTimedOut,
    UnreadableArchive,
)
from archivefs.format import Match, Probe
from archivefs.formats.centidb import FORMAT, dump
from archivefs.formats.centidb.client import Worker
from archivefs.formats.centidb.engine import Engine, Item
from archivefs.formats.centidb.sources import open_engine
from tests.formats.centidb.opening import open_tree, opened, shown
from tests.samples import centidb as sample
from tests.samples.centidb import write_dump, write_leveldb, write_lmdb
from tests.walking import content_of, names_of

ENTRIES = {b"%04d" % at: b"v" * at for at in range(0, 3000, 3)}


def make(kind: str, folder: Path, entries: dict[bytes, bytes] = ENTRIES) -> Path:
    path = folder / "store"
    if kind == "leveldb":
        return write_leveldb(path, entries)
    if kind.startswith("lmdb"):
        return write_lmdb(path, entries, subdir=kind != "lmdb-file", name="n" if kind == "lmdb-named" else "")
    return write_dump(path, entries, printed=kind == "dump-printed", ordered=kind != "dump-mixed")


KINDS = ["lmdb", "lmdb-file", "lmdb-named", "leveldb", "dump", "dump-printed", "dump-mixed"]


@pytest.fixture(params=KINDS)
def engine(request: pytest.FixtureRequest, tmp_path: Path):
    path = make(request.param, tmp_path)
    engine = open_engine(str(path), {"db": "n" if request.param == "lmdb-named" else ""}, read_write=False)
    yield engine
    engine.close()


def test_what_every_engine_does(engine: Engine) -> None:
    assert engine.get(b"0003", 10) == b"vvv"
    assert engine.get(b"0004", 10) is None
    assert engine.get(b"", 10) is None
    assert engine.get(b"k" * 5000, 10) is None
    with pytest.raises(LimitExceeded):
        engine.get(b"0300", 10)
    assert [(item.key, item.size) for item in engine.items(b"", b"")] == [(k, len(v)) for k, v in ENTRIES.items()]
    assert engine.scan(b"0004", b"", 2) == ([Item(b"0006", 6), Item(b"0009", 9)], True)
    assert engine.scan(b"", b"002", 9, 100)[0] == [
        Item(k, len(ENTRIES[k]), ENTRIES[k]) for k in (b"0021", b"0024", b"0027")
    ]
    assert engine.scan(b"2990", b"", 9, 5) == ([Item(b"2991", 2991), Item(b"2994", 2994), Item(b"2997", 2997)], False)
    assert engine.scan(b"3000", b"", 9) == ([], False)
    assert len(list(engine.items(b"1", b"1"))) == len([key for key in ENTRIES if key.startswith(b"1")])


@pytest.mark.parametrize("kind", ["lmdb", "lmdb-file", "leveldb", "dump"])
def test_stores_are_recognised(tmp_path: Path, kind: str) -> None:
    assert FORMAT.match(Probe(str(make(kind, tmp_path)))) is Match.YES


def test_other_things_are_not(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"no store at all, and yet so called")
    (tmp_path / "text").write_text("VERSION=3 is not enough")
    assert FORMAT.match(Probe(str(tmp_path))) is Match.NO
    assert FORMAT.match(Probe(str(tmp_path / "text"))) is Match.NO
    with pytest.raises(UnreadableArchive, match="neither LMDB nor LevelDB"):
        open_tree(tmp_path / "text")


def test_kyoto_cabinet_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "old.kct"
    path.write_bytes(b"KC\n\x00\x10" + bytes(100))
    assert FORMAT.match(Probe(str(path))) is Match.YES
    with pytest.raises(UnreadableArchive, match="Kyoto Cabinet stores cannot be read: there is no library"):
        open_tree(path)


@pytest.mark.parametrize(("kind", "library"), [("lmdb", "lmdb"), ("leveldb", "plyvel")])
def test_a_missing_library_is_named(tmp_path: Path, monkeypatch, kind: str, library: str) -> None:
    path = make(kind, tmp_path)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == library else found(name, *more)
    )
    with pytest.raises(MissingLibrary) as caught:
        open_tree(path)
    assert str(caught.value) == (
        f"{kind} stores need the library {library}, which is not installed; pip install 'archivefs[centidb]'"
    )


def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnreadableArchive, match="db=NAME"):
        open_engine(str(make("lmdb-named", tmp_path)), {"db": "other"}, read_write=False)
    with pytest.raises(BadOption):
        open_engine(str(write_leveldb(tmp_path / "l", {})), {"db": "other"}, read_write=False)
    with pytest.raises(UnreadableArchive, match="no database"):
        open_engine(str(write_dump(tmp_path / "d", {})), {"db": "other"}, read_write=False)


def test_a_dump_is_read_a_piece_at_a_time(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(dump, "PIECE", 16)
    engine = dump.Dump(str(write_dump(tmp_path / "d", ENTRIES)))
    assert [(item.key, item.value) for item in engine.items(b"", b"", 1 << 20)] == list(ENTRIES.items())
    engine.close()


@pytest.mark.parametrize("damage", ["", " zz\n 00\nDATA=END\n", " 00\n", " 00\nnothing\n", "junk\n"])
def test_a_damaged_dump(tmp_path: Path, damage: str) -> None:
    (tmp_path / "d").write_text("VERSION=3\nformat=bytevalue\nHEADER=END\n" + damage)
    with pytest.raises(ArchiveError):
        open_tree(tmp_path / "d")


# -- the worker --


@pytest.fixture
def worker(tmp_path: Path):
    engine = Worker("lmdb", str(make("lmdb", tmp_path)), timeout_s=2.0)
    yield engine
    engine.close()


def process_of(engine: Worker) -> subprocess.Popen:
    assert engine._process is not None
    return engine._process


def test_a_dead_worker_is_an_error_and_then_another_worker(worker: Worker) -> None:
    before = process_of(worker)
    os.kill(before.pid, signal.SIGABRT)
    with pytest.raises(CorruptArchive, match="signal 6"):
        worker.get(b"0003", 10)
    assert worker.get(b"0006", 10) == b"vvvvvv"
    assert process_of(worker).pid != before.pid


def test_what_has_killed_a_worker_is_not_asked_again_at_once(worker: Worker) -> None:
    os.kill(process_of(worker).pid, signal.SIGBUS)
    with pytest.raises(CorruptArchive, match="signal 7"):
        worker.get(b"0003", 10)
    pid = None
    with pytest.raises(CorruptArchive, match="when it was asked for this"):
        worker.get(b"0003", 10)
    assert worker.get(b"0006", 10) == b"vvvvvv"
    pid = process_of(worker).pid
    with pytest.raises(CorruptArchive):
        worker.get(b"0003", 10)
    assert process_of(worker).pid == pid


def test_the_pauses_grow_and_questions_are_then_refused(worker: Worker) -> None:
    pauses = []
    for at in range(8):
        try:
            worker.state()
        except CorruptArchive as error:
            assert "tried again in a moment" in str(error)
            break
        os.kill(process_of(worker).pid, signal.SIGKILL)
        with pytest.raises(CorruptArchive):
            worker.get(b"%d" % at, 10)
        pauses.append(worker._not_before - time.monotonic())
    else:
        pytest.fail("it was started again and again")
    assert pauses == sorted(pauses)
    assert len(pauses) >= 3
    worker._not_before = 0
    assert worker.get(b"0006", 10) == b"vvvvvv"


def test_a_worker_that_hangs_is_killed_in_time(worker: Worker) -> None:
    before = process_of(worker)
    os.kill(before.pid, signal.SIGSTOP)
    start = time.monotonic()
    with pytest.raises(OperationTimedOut):
        worker.get(b"0003", 10)
    assert time.monotonic() - start < 6
    assert before.poll() is not None
    assert worker.get(b"0006", 10) == b"vvvvvv"


def test_the_worker_ends_with_us(tmp_path: Path) -> None:
    path = make("lmdb", tmp_path)
    code = (
        "import sys, os, signal\nfrom archivefs.formats.centidb.client import Worker\n"
        f"worker = Worker('lmdb', {str(path)!r})\nprint(worker._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    pid = int(done.stdout)
    end = time.monotonic() + 5
    while os.path.exists(f"/proc/{pid}") and _state(pid) != "Z" and time.monotonic() < end:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{pid}") or _state(pid) == "Z"


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return "Z"


def test_damaged_stores_do_no_harm(tmp_path: Path) -> None:
    """Whatever is wrong with the file, errors are ours and the process that asks lives on."""
    entries = sample.library().entries | {b"\x0a" + sample.key(at): b"\x03" + b"x" * 3000 for at in range(100, 140)}
    whole = (write_lmdb(tmp_path / "whole", entries) / "data.mdb").read_bytes()
    outcomes = set()
    for seed in range(12):
        path = tmp_path / f"damaged{seed}"
        path.mkdir()
        digest = hashlib.sha256(b"%d" % seed).digest()
        if seed % 3 == 0:
            data = whole[: len(whole) * digest[0] // 256]
        else:
            data = bytearray(whole)
            for at in range(0, 32, 4):
                place = 8192 + int.from_bytes(digest[at : at + 3], "big") % (len(whole) - 8192)
                data[place : place + 8] = bytes([digest[at + 3]]) * 8
        (path / "data.mdb").write_bytes(data)
        try:
            with opened(path, "dialect=centidb") as tree:
                shown(tree)
            outcomes.add("shown")
        except ArchiveError:
            outcomes.add("refused")
    assert outcomes


# -- nothing is changed --


def digest_of(path: Path) -> dict[str, str]:
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()}


@pytest.mark.parametrize("kind", ["lmdb", "lmdb-file", "leveldb", "dump"])
def test_reading_changes_no_byte(tmp_path: Path, kind: str) -> None:
    path = make(kind, tmp_path, sample.library().entries)
    before = digest_of(tmp_path)
    with opened(path) as tree:
        shown(tree)
    list(FORMAT.verify(str(path), *_verifying()))
    assert digest_of(tmp_path) == before


def _verifying():
    from archivefs.format import Opening, VerifyRequest

    return Opening(), VerifyRequest()


def test_a_lock_file_that_is_there_is_used_and_alone_may_change(tmp_path: Path) -> None:
    import lmdb

    path = make("lmdb", tmp_path, sample.library().entries)
    lmdb.open(str(path)).close()
    assert (path / "lock.mdb").exists()
    before = digest_of(path)
    with opened(path) as tree:
        shown(tree)
        assert tree.store.engine._locked
    after = digest_of(path)
    assert [name for name in before if before[name] != after[name] and not name.endswith("lock.mdb")] == []


def test_a_writer_that_comes_later_is_noticed(tmp_path: Path) -> None:
    """Without its lock a reader beside a writer would read pages that are written anew."""
    import lmdb

    path = make("lmdb", tmp_path, sample.library().entries)
    with opened(path) as tree:
        engine = tree.store.engine
        engine.state()
        assert not engine._locked
        with lmdb.open(str(path), map_size=1 << 28) as writer:
            before = engine.state()
            assert engine._locked
            with writer.begin(write=True) as transaction:
                transaction.put(b"\x0a" + sample.key(9), b"\x03new")
            assert engine.state() > before
            assert content_of(tree.lookup(("collections", "people", "records", "Pa9"))) == b"new"


def test_a_live_writer_beside_us(tmp_path: Path) -> None:
    import lmdb

    made = sample.StoreMaker()
    idx = made.collection(b"c")
    made.record(idx, (1,), b"old")
    path = make("lmdb", tmp_path, made.entries)
    with lmdb.open(str(path), map_size=1 << 28) as writer, opened(path) as tree, opened(path, "consistent") as steady:
        for one in (tree, steady):
            assert shown(one, "collections", "c", "records") == {"Pa1": b"old"}
        before = tree.generation()
        with writer.begin(write=True) as transaction:
            for at in range(2, 2000):
                transaction.put(b"\x0a" + sample.key(at), b"\x03" + b"new" * 10_000)
        tree.store._checked = 0
        assert tree.generation() == before + 1
        assert len(names_of(tree.lookup(("collections", "c", "records")))) == 1999
        assert shown(steady, "collections", "c", "records") == {"Pa1": b"old"}
