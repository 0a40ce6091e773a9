"""What must be on disk before what: the journal, bodies, replacement and locks under faults."""

from __future__ import annotations

import errno
import multiprocessing
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archivefs.errors import CorruptArchive, LimitExceeded, NotPermitted, SourceBusy
from archivefs.memory import MemoryTree
from archivefs.staging import durable
from archivefs.staging.area import INLINE, StagingArea
from archivefs.staging.journal import Journal
from archivefs.staging.locks import WriterLock, holder
from archivefs.staging.replace import SUFFIX, replacing
from tests.staging.plain import PlainOverlay, content_of, put


class Recorder:
    """Writes down the calls that make things last, under names the test can compare."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, honest: bool = True) -> None:
        self.calls: list[str] = []
        real = {name: getattr(durable, name) for name in ("sync_file", "sync_folder", "write_all")}
        real_replace = os.replace

        def sync_file(fd: int) -> None:
            if honest:
                self.calls.append("sync " + self._name(os.readlink(f"/proc/self/fd/{fd}")))
                real["sync_file"](fd)

        def sync_folder(path: str) -> None:
            if honest:
                self.calls.append("sync " + self._name(path) + "/")
                real["sync_folder"](path)

        def write_all(fd, data, offset=None) -> None:
            self.calls.append("write " + self._name(os.readlink(f"/proc/self/fd/{fd}")))
            real["write_all"](fd, data, offset)

        def replace(source: str, target: str) -> None:
            self.calls.append("rename " + self._name(target))
            real_replace(source, target)

        monkeypatch.setattr(durable, "sync_file", sync_file)
        monkeypatch.setattr(durable, "sync_folder", sync_folder)
        monkeypatch.setattr(durable, "write_all", write_all)
        monkeypatch.setattr(os, "replace", replace)

    @staticmethod
    def _name(path: str) -> str:
        parts = path.split("/")
        return "/".join(parts[-2:]) if parts[-2] == "bodies" else parts[-1]


def assert_body_before_journal(calls: list[str]) -> None:
    body, named = calls.index("sync bodies/1"), len(calls) - 1 - calls[::-1].index("write journal")
    assert calls.index("sync bodies/") < named
    assert body < named < len(calls) - 1 - calls[::-1].index("sync journal")


def test_a_body_is_durable_before_the_record_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = PlainOverlay(MemoryTree({}), tmp_path / "staging")
    recorder = Recorder(monkeypatch)
    put(tree.root(), "big", b"x" * (INLINE + 1))
    assert_body_before_journal(recorder.calls)
    tree.close()


def test_that_order_is_missed_when_the_syncs_are_taken_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = PlainOverlay(MemoryTree({}), tmp_path / "staging")
    recorder = Recorder(monkeypatch, honest=False)
    put(tree.root(), "big", b"x" * (INLINE + 1))
    with pytest.raises(ValueError):
        assert_body_before_journal(recorder.calls)
    tree.close()


def test_small_content_takes_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = PlainOverlay(MemoryTree({}), tmp_path / "staging")
    put(tree.root(), "first", b"1")
    recorder = Recorder(monkeypatch)
    put(tree.root(), "second", b"2")
    assert recorder.calls == ["write journal", "sync journal"]
    tree.close()


def test_a_replaced_file_is_durable_before_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "archive"
    target.write_bytes(b"old")
    os.chmod(target, 0o640)
    recorder = Recorder(monkeypatch)
    with replacing(str(target)) as file:
        file.write(b"new")
    assert recorder.calls == [f"sync .archive.{os.getpid()}{SUFFIX}", "rename archive", f"sync {tmp_path.name}/"]
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["archive"]


def test_a_replacement_that_fails_leaves_the_old_file_alone(tmp_path: Path) -> None:
    target = tmp_path / "archive"
    target.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), replacing(str(target)) as file:
        file.write(b"half of the new")
        raise ZeroDivisionError
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["archive"]


def test_leftovers_of_the_dead_are_removed_and_of_the_living_kept(tmp_path: Path) -> None:
    dead = multiprocessing.get_context("fork").Process(target=lambda: None)
    dead.start()
    dead.join()
    (tmp_path / f".archive.{dead.pid}{SUFFIX}").write_bytes(b"half")
    (tmp_path / f".archive.1{SUFFIX}").write_bytes(b"somebody's")
    with replacing(str(tmp_path / "archive")) as file:
        file.write(b"new")
    assert sorted(os.listdir(tmp_path)) == [f".archive.1{SUFFIX}", "archive"]


# -- the journal --


@given(st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=50)), max_size=6), st.data())
def test_a_journal_cut_anywhere_gives_the_records_before_the_cut(tmp_path_factory, records, data) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal"
    journal = Journal(str(path))
    ends = [0]
    for text, payload in records:
        journal.append({"text": text}, payload, sync=False)
        ends.append(path.stat().st_size)
    journal.close()
    cut = data.draw(st.integers(0, ends[-1]))
    with open(path, "r+b") as file:
        file.truncate(cut)
    again = Journal(str(path))
    found = [(r.fields["text"], os.pread(r.payload.fd, r.payload.length, r.payload.start)) for r in again.records()]
    assert found == records[: sum(end <= cut for end in ends[1:])]
    again.append({"text": "after"}, b"", sync=False)
    again.close()
    third = Journal(str(path))
    assert [record.fields["text"] for record in third.records()][-1] == "after"
    third.close()


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_a_flipped_bit_ends_the_journal_there_and_nothing_wrong_is_read(tmp_path_factory, place, bit) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal"
    journal = Journal(str(path))
    for number in range(5):
        journal.append({"n": number}, bytes(20), sync=False)
    journal.close()
    damaged = bytearray(path.read_bytes())
    damaged[place % len(damaged)] ^= 1 << bit
    path.write_bytes(damaged)
    again = Journal(str(path))
    numbers = [record.fields["n"] for record in again.records()]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) == place % len(damaged) // (len(damaged) // 5)
    again.close()


def test_a_full_disk_leaves_the_journal_usable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(str(tmp_path / "journal"))
    journal.append({"n": 1})
    real = durable.write_all

    def full(fd, data, offset=None) -> None:
        real(fd, data[: len(data) // 2], offset)
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(durable, "write_all", full)
    with pytest.raises(OSError, match="full"):
        journal.append({"n": 2})
    monkeypatch.undo()
    journal.append({"n": 3})
    journal.close()
    again = Journal(str(tmp_path / "journal"))
    assert [record.fields["n"] for record in again.records()] == [1, 3]
    again.close()


def test_what_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "journal"))
    with pytest.raises(LimitExceeded):
        journal.append({"text": "x" * (2 << 20)})
    journal.append({"n": 1})
    assert [record.fields for record in journal.records()] == [{"n": 1}]
    journal.close()


@pytest.mark.parametrize("size", [10, INLINE * 3])
def test_every_nth_write_or_sync_fails_and_the_file_is_old_or_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """The n-th call fails, for every n until the operation gets through."""
    for n in range(1, 60):
        folder = tmp_path / str(n)
        tree = PlainOverlay(MemoryTree({"x": b"old"}), folder)
        put(tree.root(), "x", b"acknowledged")
        failed = _put_with_failure(tree, monkeypatch, n, b"n" * size)
        again = PlainOverlay(tree.base, folder)
        again.replay()
        with_reader = again.lookup(("x",)).open()
        found = with_reader.read_at(0, 1 << 20)
        with_reader.close()
        assert found in ((b"acknowledged", b"n" * size) if failed else (b"n" * size,))
        tree.close()
        again.close()
        if not failed:
            return
    pytest.fail("the operation never got through")


def _put_with_failure(tree: PlainOverlay, monkeypatch: pytest.MonkeyPatch, n: int, data: bytes) -> bool:
    calls = 0
    with monkeypatch.context() as patch:
        for name in ("write_all", "sync_file", "sync_folder"):
            real = getattr(durable, name)

            def failing(*args, real=real) -> None:
                nonlocal calls
                calls += 1
                if calls == n:
                    raise OSError(errno.EIO, "injected")
                real(*args)

            patch.setattr(durable, name, failing)
        writer = tree.root().create("x", exclusive=False).open_writer(truncate=True)
        try:
            writer.write_at(0, data)
            writer.sync()
            writer.finish()
            return False
        except OSError:
            return True
        finally:
            writer.close()


# -- locks and the area --


def _hold(path: str, ready) -> None:
    WriterLock(path)
    ready.set()
    time.sleep(60)


def test_the_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.write_bytes(b"")
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    first = context.Process(target=_hold, args=(str(archive), ready))
    first.start()
    try:
        assert ready.wait(10)
        assert holder(str(archive)) == first.pid
        with pytest.raises(SourceBusy, match=str(first.pid)):
            WriterLock(str(archive))
        first.kill()
        first.join(10)
        WriterLock(str(archive)).close()
    finally:
        first.kill()
        first.join(10)


def test_the_lock_goes_along_when_the_archive_is_replaced(tmp_path: Path) -> None:
    archive, new = tmp_path / "archive", tmp_path / "new"
    archive.write_bytes(b"old")
    new.write_bytes(b"new")
    lock = WriterLock(str(archive))
    lock.move_to(str(new))
    os.replace(new, archive)
    with pytest.raises(SourceBusy):
        WriterLock(str(archive))
    lock.close()
    WriterLock(str(archive)).close()


def test_somebody_elses_folder_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "staging").symlink_to(tmp_path / "real")
    with pytest.raises(NotPermitted):
        StagingArea(str(tmp_path / "staging")).begin({})


def test_the_area_is_private_and_gone_when_nothing_is_pending(tmp_path: Path) -> None:
    area = StagingArea(str(tmp_path / "staging"))
    area.begin({"op": "base"})
    assert (tmp_path / "staging").stat().st_mode & 0o777 == 0o700
    number, fd = area.new_body()
    os.close(fd)
    assert number == 1
    area.discard()
    assert not (tmp_path / "staging").exists()


# -- a sync that fails --


class Disk:
    """A disk that drops what it could not write: after a sync that failed, only bytes written again get onto it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fails = False
        self.dirty: set[tuple[str, int]] = set()
        self.there: set[tuple[str, int]] = set()
        real_write = durable.write_all

        def write_all(fd, data, offset=None) -> None:
            path = os.readlink(f"/proc/self/fd/{fd}")
            self.dirty.update((path, at) for at in range(offset or 0, (offset or 0) + len(data)))
            real_write(fd, data, offset)

        def sync_file(fd: int) -> None:
            path = os.readlink(f"/proc/self/fd/{fd}")
            mine = {place for place in self.dirty if place[0] == path}
            self.dirty -= mine
            if self.fails:
                raise OSError(errno.EIO, "I/O error")
            self.there |= mine

        monkeypatch.setattr(durable, "write_all", write_all)
        monkeypatch.setattr(durable, "sync_file", sync_file)

    def holds(self, path: Path) -> bool:
        """Did every byte of the file get onto the disk?"""
        return {(str(path), at) for at in range(path.stat().st_size)} <= self.there


@pytest.mark.parametrize("size", [100, INLINE + 100])
def test_what_a_failed_sync_has_dropped_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    disk = Disk(monkeypatch)
    tree = PlainOverlay(MemoryTree({}), tmp_path / "staging")
    put(tree.root(), "first", b"1")
    writer = tree.root().create("second", exclusive=True).open_writer(truncate=True)
    writer.write_at(0, b"2" * size)
    disk.fails = True
    for _ in range(2):
        with pytest.raises(OSError):
            writer.sync()
    disk.fails = False
    writer.sync()
    writer.finish()
    writer.close()
    bodies = list((tmp_path / "staging" / "bodies").iterdir())
    assert len(bodies) == (size > INLINE)
    assert all(disk.holds(path) for path in (tmp_path / "staging" / "journal", *bodies))
    tree.close()
    again = PlainOverlay(MemoryTree({}), tmp_path / "staging")
    again.replay()
    assert content_of(again.root()) == {"first": b"1", "second": b"2" * size}
    again.close()


@pytest.mark.parametrize("left", ["no journal", "an empty journal", "half of the first record"])
def test_an_area_that_was_being_begun_or_emptied_when_its_process_died(tmp_path: Path, left: str) -> None:
    """What is written afterwards must be found again."""
    folder = tmp_path / "staging"
    tree = PlainOverlay(MemoryTree({}), folder)
    put(tree.root(), "first", b"1")
    tree.close()
    journal = folder / "journal"
    if left == "no journal":
        journal.unlink()
    else:
        journal.write_bytes(journal.read_bytes()[: 0 if left == "an empty journal" else 30])
    again = PlainOverlay(MemoryTree({}), folder)
    assert again.replay() == 0
    put(again.root(), "second", b"2")
    again.close()
    third = PlainOverlay(MemoryTree({}), folder)
    third.replay()
    assert content_of(third.root()) == {"second": b"2"}
    third.close()


def test_a_journal_that_is_damaged_at_its_beginning_is_not_thrown_away(tmp_path: Path) -> None:
    folder = tmp_path / "staging"
    tree = PlainOverlay(MemoryTree({}), folder)
    put(tree.root(), "first", b"1" * 20_000)
    tree.close()
    data = bytearray((folder / "journal").read_bytes())
    data[20] ^= 1
    (folder / "journal").write_bytes(data)
    again = PlainOverlay(MemoryTree({}), folder)
    with pytest.raises(CorruptArchive, match="beginning of the journal"):
        again.replay()
    again.close()
    assert (folder / "journal").read_bytes() == data
