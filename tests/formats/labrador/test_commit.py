"""Commits: the bytes that are written, and what is there when one is cut off, killed, or finds the disk full."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import random
import resource
import signal
import subprocess
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from archivefs.errors import ArchiveError, CorruptArchive, SourceBusy
from archivefs.formats.labrador import site as site_module
from archivefs.formats.labrador import writing
from archivefs.formats.labrador.site import Site, SiteRecord
from archivefs.formats.labrador.writing import Content, ZipWriter, content_of
from archivefs.staging import durable
from archivefs.staging.area import default_folder
from archivefs.tree import Kind
from tests.formats.labrador import edits
from tests.formats.labrador.edits import edited, file, findings, folder, manifest, no_progress, open_rw, site
from tests.mount.harness import tool
from tests.samples import labrador as samples
from tests.staging.plain import content_of as tree_of

TEXT = b"".join(b"line %d of a text that can be compressed well\n" % number for number in range(4000))
NOISE = random.Random(1).randbytes(50_000)


@pytest.fixture
def island(tmp_path: Path) -> Path:
    return samples.write(tmp_path / "island.lbz", samples.SITE)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Where it is no news that changes are picked up."""
    logger = logging.getLogger("archivefs.labrador")
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(logging.NOTSET)


def reopened(path: Path) -> dict[str, Any]:
    """What the next read-write mount shows."""
    with quiet(), contextlib.closing(open_rw(path)) as tree:
        return tree_of(tree.root())


# -- W5: suppression --


def test_of_equal_contents_the_primary_is_stored(island: Path) -> None:
    with edited(island) as tree:
        edits.write(tree, "a/deep/copy.txt", TEXT)
        edits.write(tree, "b/copy.txt", TEXT)
        edits.write(tree, "b/empty.txt", b"")
    stored = [name for name, data in edits.members(island).items() if data == TEXT]
    assert stored == ["www/b/copy.txt"]
    assert "www/b/empty.txt" not in edits.members(island)
    assert manifest(island)["b/empty.txt"] == hashlib.sha256().hexdigest()
    assert findings(island) == []


def test_a_member_moves_when_another_record_becomes_the_primary(tmp_path: Path) -> None:
    path = slightly_packed(tmp_path / "a.lbz", {"deep/er/text.txt": TEXT})
    before = edits.packed(path)["www/deep/er/text.txt"]
    with edited(path) as tree:
        edits.write(tree, "t.txt", TEXT)
    packed = edits.packed(path)
    assert "www/deep/er/text.txt" not in packed
    assert packed["www/t.txt"] == before
    with edited(path) as tree:
        edits.remove(tree, "t.txt")
    assert edits.packed(path)["www/deep/er/text.txt"] == before
    assert findings(path) == []


def slightly_packed(path: Path, contents: dict[str, bytes]) -> Path:
    """An archive whose members are compressed in another way than ours."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data, method in samples.with_keys(contents):
            if not name.endswith("/"):
                info = zipfile.ZipInfo(name, (2020, 2, 2, 2, 2, 2))
                info.compress_type = method
                archive.writestr(info, data, compresslevel=1)
    return path


# -- W6: bytes --


def test_unchanged_members_are_copied_as_they_are(tmp_path: Path) -> None:
    contents = {f"d/{number}.txt": TEXT + bytes([number]) for number in range(5)}
    path = slightly_packed(tmp_path / "a.lbz", contents)
    before = edits.packed(path)
    with edited(path) as tree:
        edits.write(tree, "new.txt", TEXT)
        edits.move(tree, "d/3.txt", "moved.txt")
        edits.move(tree, "d", "e")
    after = edits.packed(path)
    for number in (0, 1, 2, 4):
        assert after[f"www/e/{number}.txt"] == before[f"www/d/{number}.txt"]
    assert after["www/moved.txt"] == before["www/d/3.txt"]
    assert len(after["www/new.txt"]) < len(before["www/d/0.txt"])


def test_nothing_is_compressed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = slightly_packed(tmp_path / "a.lbz", {"a.txt": TEXT, "b.txt": TEXT * 9})
    sizes: list[int] = []
    add = ZipWriter.add

    def noted(self: ZipWriter, name: bytes, content: Content, **more: Any) -> str:
        sizes.append(content.size)
        return add(self, name, content, **more)

    monkeypatch.setattr(ZipWriter, "add", noted)
    with edited(path) as tree:
        edits.write(tree, "c.txt", b"small")
    assert max(sizes) < 1000


def test_the_order_and_the_headers(island: Path) -> None:
    with edited(island) as tree:
        edits.write(tree, "Zebra.txt", TEXT)
        edits.write(tree, "noise.bin", NOISE)
    data = island.read_bytes()
    assert data[30:60] == b"mimetypeapplication/x-labrador"
    with zipfile.ZipFile(island) as archive:
        infos = archive.infolist()
        assert archive.comment == b""
    names = [info.filename for info in infos]
    assert names[:3] == ["mimetype", "extmime", "manifest"]
    assert names[3:] == sorted(names[3:])
    for info in infos:
        assert info.date_time == (1980, 1, 1, 0, 0, 0)
        assert (info.extra, info.comment, info.external_attr, info.create_system) == (b"", b"", 0, 0)
        assert info.flag_bits & ~6 == 0
    methods = {info.filename: info.compress_type for info in infos}
    assert methods["mimetype"] == methods["www/noise.bin"] == zipfile.ZIP_STORED
    assert methods["www/xz--Zebra-da.txt"[:4] + next(n for n in names if "Zebra" in n)[4:]] == zipfile.ZIP_DEFLATED
    lines = edits.members(island)["manifest"].decode().splitlines()
    assert lines == sorted(lines)


def test_an_archive_without_content_has_the_folder(tmp_path: Path) -> None:
    path = samples.write(tmp_path / "a.lbz", {"/only.txt": b"only"})
    with edited(path) as tree:
        edits.remove(tree, "only.txt")
    assert list(edits.members(path)) == ["mimetype", "extmime", "manifest", "www/"]
    assert findings(path) == []


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    contents = {"a/one.txt": TEXT, "b/two.txt": NOISE, "c/Drei.html": b"3", "d/same": TEXT, "e/empty": b""}
    results = []
    for number, order in enumerate((list(contents), list(reversed(contents)))):
        path = samples.write(tmp_path / f"{number}.lbz", {"/gone.txt": b"gone"})
        with edited(path) as tree:
            for name in order:
                edits.write(tree, name, b"not yet")
                edits.write(tree, name, contents[name])
                if number:
                    tree.commit(no_progress)
            edits.remove(tree, "gone.txt")
        results.append(path.read_bytes())
    assert results[0] == results[1]


@pytest.mark.parametrize("size", [1000, writing.IN_MEMORY + 1000])
def test_what_is_worth_compressing(tmp_path: Path, size: int) -> None:
    """Deflated where it saves at least three per cent, in memory and in the file."""
    noise = random.Random(2).randbytes(size)
    for zeros, method in ((size // 200, zipfile.ZIP_STORED), (size // 10, zipfile.ZIP_DEFLATED)):
        path = tmp_path / f"{zeros}.lbz"
        data = noise[zeros:] + bytes(zeros)
        write_site(path, {"data": data})
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo("www/data")
            assert info.compress_type == method
            assert archive.read(info) == data
            assert info.compress_size <= size


def write_site(path: Path, contents: dict[str, bytes]) -> None:
    records = [SiteRecord(key, hashlib.sha256(data).hexdigest(), content_of(data)) for key, data in contents.items()]
    with open(path, "w+b") as out:
        Site(records, b"").write(out.fileno(), no_progress)


def test_the_result_does_not_depend_on_how_content_arrives(tmp_path: Path) -> None:
    data = TEXT * 20
    digest = hashlib.sha256(data).hexdigest()
    results = set()
    for number, step in enumerate((1 << 16, 100_003, len(data))):
        pieces = lambda step=step: (data[at : at + step] for at in range(0, len(data), step))  # noqa: E731
        with open(tmp_path / str(number), "w+b") as out:
            Site([SiteRecord("x", digest, Content(len(data), pieces))], b"").write(out.fileno(), no_progress)
        results.add((tmp_path / str(number)).read_bytes())
    assert len(results) == 1


def test_zip64_only_where_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = {f"{number}.txt": TEXT[: 100 * number] + NOISE for number in range(40)}
    write_site(tmp_path / "plain", contents)
    assert b"PK\x06\x06" not in (tmp_path / "plain").read_bytes()
    monkeypatch.setattr(writing, "LARGE", 52_000)
    write_site(tmp_path / "large", contents)
    assert b"PK\x06\x06" in (tmp_path / "large").read_bytes()
    with zipfile.ZipFile(tmp_path / "large") as archive:
        assert archive.testzip() is None
        for key, data in contents.items():
            assert archive.read(f"www/{key}") == data
    assert findings(tmp_path / "large") == []
    subprocess.run([tool("unzip"), "-tqq", str(tmp_path / "large")], check=True, capture_output=True)


def test_more_members_than_the_old_field_can_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = {f"{number:03}": b"%d" % number for number in range(300)}
    monkeypatch.setattr(writing, "MANY", 200)
    write_site(tmp_path / "many", contents)
    data = (tmp_path / "many").read_bytes()
    assert data[-22 + 8 : -22 + 12] == b"\xff" * 4
    with zipfile.ZipFile(tmp_path / "many") as archive:
        assert len(archive.infolist()) == 303
        assert archive.read("www/299") == b"299"
    assert findings(tmp_path / "many") == []
    subprocess.run([tool("unzip"), "-tqq", str(tmp_path / "many")], check=True, capture_output=True)


def test_other_readers_agree(island: Path) -> None:
    with edited(island) as tree:
        edits.write(tree, "new/Größe.txt", TEXT * 30)
        edits.write(tree, "noise", NOISE)
    subprocess.run([tool("unzip"), "-tqq", str(island)], check=True, capture_output=True)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in edits.members(island).items()}
    records = manifest(island)
    for name, digest in digests.items():
        if name.startswith("www/"):
            assert records[name.removeprefix("www/")] == digest
    assert findings(island) == []


# -- W7: the order of things --


def test_nothing_is_rewritten_when_nothing_has_changed(island: Path) -> None:
    before = island.stat()
    with edited(island) as tree:
        edits.write(tree, "scratch", b"x" * 100_000)
        edits.remove(tree, "scratch")
    assert (before.st_ino, before.st_mtime_ns) == (island.stat().st_ino, island.stat().st_mtime_ns)
    assert os.listdir(island.parent) == ["island.lbz"]


def test_mode_and_owner_are_kept(island: Path) -> None:
    os.chmod(island, 0o640)
    if os.getuid() == 0:
        os.chown(island, 1234, 2345)
    before = island.stat()
    with edited(island) as tree:
        edits.write(tree, "new", b"new")
    after = island.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino


def test_a_link_to_the_archive_stays_one(island: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.lbz"
    link.symlink_to(island)
    with edited(link) as tree:
        edits.write(tree, "new", b"new")
    assert link.is_symlink()
    assert site(island)["new"] == b"new"
    assert os.listdir(tmp_path / "elsewhere") == ["link.lbz"]


class Recorder:
    """Writes down what makes things last; *honest* or not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, honest: bool = True) -> None:
        self.calls: list[str] = []
        real = {name: getattr(durable, name) for name in ("sync_file", "sync_folder")}
        real_replace = os.replace

        def sync_file(fd: int) -> None:
            if honest:
                name = Path(os.readlink(f"/proc/self/fd/{fd}")).name
                self.calls.append("sync new archive" if name.endswith("-new") else f"sync {name}")
                real["sync_file"](fd)

        def sync_folder(path: str) -> None:
            if honest:
                self.calls.append(f"sync folder {Path(path).name}")
                real["sync_folder"](path)

        def replace(source: str, target: str) -> None:
            self.calls.append("rename")
            real_replace(source, target)

        monkeypatch.setattr(durable, "sync_file", sync_file)
        monkeypatch.setattr(durable, "sync_folder", sync_folder)
        monkeypatch.setattr(os, "replace", replace)


def assert_right_order(calls: list[str], folder_name: str) -> None:
    """New archive, then the announcement in the journal, then the name, then the folder."""
    rename = calls.index("rename")
    assert calls.index("sync new archive") < rename
    announced = len(calls[:rename]) - 1 - calls[:rename][::-1].index("sync journal")
    assert calls.index("sync new archive") < announced < rename
    assert f"sync folder {folder_name}" in calls[rename:]


@pytest.mark.parametrize("honest", [True, False])
def test_everything_is_durable_before_what_relies_on_it(
    island: Path, monkeypatch: pytest.MonkeyPatch, honest: bool
) -> None:
    tree = open_rw(island)
    edits.write(tree, "new", b"new")
    recorder = Recorder(monkeypatch, honest=honest)
    tree.commit(no_progress)
    tree.close()
    if honest:
        assert_right_order(recorder.calls, island.parent.name)
    else:
        with pytest.raises(ValueError):  # without the syncs the test must notice
            assert_right_order(recorder.calls, island.parent.name)


def test_what_was_written_is_read_back(island: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that stores something else is noticed before the old archive is gone."""
    before = island.read_bytes()
    tree = open_rw(island)
    edits.write(tree, "new", NOISE)
    write_all = durable.write_all

    def lying(fd: int, data: bytes | memoryview, offset: int | None = None) -> None:
        write_all(fd, bytes(data).replace(NOISE[100:110], bytes(10)), offset)

    monkeypatch.setattr(durable, "write_all", lying)
    with pytest.raises(ArchiveError, match=r"could not be put into the archive.*archivefs commit"):
        tree.commit(no_progress)
    monkeypatch.undo()
    assert island.read_bytes() == before
    tree.commit(no_progress)
    tree.close()
    assert site(island)["new"] == NOISE


def test_a_directory_that_was_written_wrong_is_noticed(island: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = island.read_bytes()
    tree = open_rw(island)
    edits.write(tree, "new", b"new")
    write_member = Site._write_member

    def forgetful(self: Site, writer: ZipWriter, stored: site_module.Stored) -> None:
        if stored.key != "new":
            write_member(self, writer, stored)

    monkeypatch.setattr(Site, "_write_member", forgetful)
    with pytest.raises(ArchiveError, match="not the members it should have"):
        tree.commit(no_progress)
    tree.close()
    assert island.read_bytes() == before


# -- failures --


class Fault:
    """Lets the n-th of the calls that write or make things last fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = 0
        self.count = 0
        for owner, name in (
            (durable, "sync_file"),
            (durable, "sync_folder"),
            (durable, "write_all"),
            (os, "replace"),
            (os, "ftruncate"),
        ):
            monkeypatch.setattr(owner, name, self._failing(getattr(owner, name)))

    def _failing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            self.count += 1
            if self.count == self.at:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(*args, **more)

        return call

    def set(self, at: int) -> None:
        self.at, self.count = at, 0


def test_the_nth_call_fails_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fault = Fault(monkeypatch)
    failures = 0
    for at in range(1, 200):
        fault.set(0)
        path = samples.write(tmp_path / f"{at}.lbz", samples.SITE)
        old = path.read_bytes()
        tree = open_rw(path)
        edits.write(tree, "big.txt", NOISE + TEXT * 10)
        edits.write(tree, "small.txt", b"small")
        edits.move(tree, "walks", "wege")
        edits.remove(tree, "style.css")
        expected = tree_of(tree.root())
        fault.set(at)
        try:
            tree.commit(no_progress)
        except ArchiveError as error:
            failures += 1
            assert "kept in" in str(error)
            in_place = path.read_bytes() == old
            fault.set(0)
            assert tree_of(tree.root()) == expected
            # Going on after it, and a crash at once: all is there, whichever archive it is.
            edits.write(tree, "later.txt", b"later")
            expected = tree_of(tree.root())
            tree.close()
            assert in_place or site(path)["wege"] == expected["wege"]
            again = open_rw(path)
            assert tree_of(again.root()) == expected
            again.commit(no_progress)
            again.close()
        else:
            done = fault.count < at
            tree.close()
            if done:
                break
        assert site(path) == expected
        assert findings(path) == []
        assert [name for name in os.listdir(tmp_path) if not name.endswith(".lbz")] == []
    else:
        pytest.fail("it never got through")
    assert failures >= 8


def test_the_lock_is_there_after_a_failure(island: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("replace", "sync_folder"):
        with monkeypatch.context() as patch, quiet():
            tree = open_rw(island)
            edits.write(tree, name, b"new")
            if name == "replace":
                patch.setattr(os, "replace", _failing)
            else:
                patch.setattr(durable, "sync_folder", _failing)
            with pytest.raises(ArchiveError):
                tree.commit(no_progress)
        with pytest.raises(SourceBusy):
            open_rw(island)
        tree.commit(no_progress)
        with pytest.raises(SourceBusy):
            open_rw(island)
        tree.close()
    assert {"replace", "sync_folder"} <= set(site(island))


def _failing(*_args: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_damaged_member_stops_the_commit_and_says_which(tmp_path: Path) -> None:
    path = slightly_packed(tmp_path / "a.lbz", {"good.txt": TEXT, "bad.txt": TEXT + b"!"})
    data = bytearray(path.read_bytes())
    at = data.index(b"www/bad.txt") - 30
    data[at : at + 4] = b"XXXX"
    path.write_bytes(data)
    tree = open_rw(path)
    edits.write(tree, "new", b"new")
    with pytest.raises(ArchiveError, match=r"www/bad\.txt"):
        tree.commit(no_progress)
    edits.remove(tree, "bad.txt")
    tree.commit(no_progress)
    tree.close()
    assert site(path) == {"good.txt": TEXT, "new": b"new"}


def test_ctrl_c_leaves_nothing_half_made(island: Path) -> None:
    before = island.read_bytes()
    tree = open_rw(island)
    edits.write(tree, "new", b"new")

    def interrupt(done: int, total: int) -> None:
        if done > 1500:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tree.commit(interrupt)
    tree.close()
    assert island.read_bytes() == before
    assert sorted(os.listdir(island.parent)) == [Path(default_folder(str(island), None)).name, "island.lbz"]
    assert reopened(island)["new"] == b"new"


def test_a_file_too_large_for_the_limit(island: Path) -> None:
    """As on a full disk or over quota: the error is told, and with more space it works."""
    before = island.read_bytes()
    assert in_child(lambda: _commit_under_a_limit(island)) == 0
    assert site(island)["new"] == NOISE
    assert site(island) != before


def _commit_under_a_limit(path: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = path.read_bytes()
    tree = open_rw(path)
    edits.write(tree, "new", NOISE)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(NOISE) - 1000, hard))
    with pytest.raises(ArchiveError, match="could not be put"):
        tree.commit(no_progress)
    assert path.read_bytes() == before
    with pytest.raises(OSError):
        edits.write(tree, "too much", NOISE + b"x")
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    tree.commit(no_progress)
    tree.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a small disk")
def test_a_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("no disk can be mounted here")
    try:
        path = samples.write(disk / "island.lbz", samples.SITE)
        before = path.read_bytes()
        tree = open_rw(path)
        edits.write(tree, "first", random.Random(3).randbytes(400_000))
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(300_000))
        with pytest.raises(ArchiveError, match="No space left"):
            tree.commit(no_progress)
        assert path.read_bytes() == before
        writer = tree.root().create("second", exclusive=True).open_writer(truncate=True)
        with pytest.raises(OSError, match="No space left"):
            writer.write_at(0, random.Random(4).randbytes(500_000))
        writer.close()
        tree.root().remove("second", kind=Kind.FILE)
        ballast.unlink()
        tree.commit(no_progress)
        tree.close()
        assert len(site(path)["first"]) == 400_000
        assert findings(path) == []
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def in_child(action: Callable[[], None]) -> int:
    """Run *action* in a process of its own; its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        action()
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


# -- kill -9 --


ROUNDS = 20


def test_killed_at_any_moment(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was acknowledged is there: in the archive, or in what the next mount picks up."""
    path = samples.write(tmp_path / "site.lbz", samples.SITE)
    chance = random.Random(5)
    acknowledged: dict[str, bytes] = {}
    commits = 0
    for number in range(ROUNDS):
        written, done = _killed_after(path, number, chance.uniform(0.05, 0.25))
        acknowledged.update(written)
        commits += done
        assert findings(path) == []
        tree = open_rw(path)
        there = tree_of(tree.root())
        for name, data in acknowledged.items():
            assert there[name] == data, f"{name} after round {number}"
        if number % 5 == 4:
            tree.commit(no_progress)
        tree.close()
    assert len(acknowledged) > ROUNDS
    assert commits > 0
    leftovers = [name for name in os.listdir(tmp_path) if name.endswith("-new")]
    assert leftovers == []


def _killed_after(path: Path, number: int, seconds: float) -> tuple[dict[str, bytes], int]:
    """A child that writes, acknowledges and commits without end is killed; what it has acknowledged."""
    reading, writing_end = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            _write_for_ever(path, number, writing_end)
        finally:
            os._exit(1)
    os.close(writing_end)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with open(reading, "rb") as file:
        lines = file.read().split(b"\n")[:-1]
    names = [line.decode() for line in lines if line != b"commit"]
    return {name: payload(name) for name in names}, lines.count(b"commit")


def _write_for_ever(path: Path, number: int, acknowledge: int) -> None:
    with quiet():
        tree = open_rw(path)
        for count in range(100_000):
            name = f"r{number}-{count % 20}-{count}.txt"
            edits.write(tree, name, payload(name))
            os.write(acknowledge, name.encode() + b"\n")
            if count % 7 == 6:
                tree.commit(no_progress)
                os.write(acknowledge, b"commit\n")


def payload(name: str) -> bytes:
    """Different for each name, and now and then too large for the journal."""
    chance = random.Random(name)
    return chance.randbytes(chance.choice([10, 1000, 40_000]))


# -- beside open writers --


def test_what_was_synced_of_an_open_file_is_committed(island: Path) -> None:
    tree = open_rw(island)
    writer = tree.root().create("open", exclusive=True).open_writer(truncate=True)
    writer.write_at(0, b"synced")
    writer.sync()
    writer.write_at(6, b" and more")
    tree.commit(no_progress)
    assert site(island)["open"] == b"synced"
    assert writer.read_at(0, 100) == b"synced and more"
    writer.finish()
    writer.close()
    tree.commit(no_progress)
    tree.close()
    assert site(island)["open"] == b"synced and more"


def test_a_file_that_nobody_saved_yet_is_left_out(island: Path) -> None:
    tree = open_rw(island)
    writer = tree.root().create("open", exclusive=True).open_writer(truncate=True)
    writer.write_at(0, NOISE)
    before = island.read_bytes()
    tree.commit(no_progress)
    assert island.read_bytes() == before
    writer.finish()
    writer.close()
    assert file(tree, "open").attributes().size == len(NOISE)
    tree.commit(no_progress)
    tree.close()
    assert site(island)["open"] == NOISE


def test_commits_while_files_are_being_written(island: Path) -> None:
    tree = open_rw(island)
    stop = threading.Event()
    failures: list[BaseException] = []

    def scribble(name: str) -> None:
        try:
            writer = tree.root().create(name, exclusive=True).open_writer(truncate=True)
            for count in range(100_000):
                if stop.is_set() and count > 20:
                    break
                writer.write_at(count * 1000 % 90_000, bytes([count % 256]) * 5000)
                if count % 10 == 0:
                    writer.sync()
            writer.finish()
            writer.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=scribble, args=(f"file{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        tree.commit(no_progress)
        assert findings(island) == []
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    expected = tree_of(tree.root())
    tree.commit(no_progress)
    tree.close()
    assert site(island) == expected
    assert findings(island) == []


def test_open_readers_outlive_a_commit(island: Path) -> None:
    tree = open_rw(island)
    old = file(tree, "style.css").open()
    edits.write(tree, "style.css", b"new")
    new = file(tree, "style.css").open()
    page = file(tree, "walks", "north.html")
    tree.commit(no_progress)
    assert old.read_at(0, 1000) == samples.SITE["/style.css"]
    assert new.read_at(0, 1000) == b"new"
    assert page.open().read_at(0, 1000) == samples.SITE["/walks/north.html"]
    old.close()
    new.close()
    tree.close()


def test_a_name_in_another_spelling_becomes_the_usual_one(island: Path) -> None:
    tree = open_rw(island)
    edits.write(tree, "e\u0301.txt", b"accent")
    node = file(tree, "e\u0301.txt")
    tree.commit(no_progress)
    assert tree_of(tree.root())["é.txt"] == b"accent"
    assert node.open().read_at(0, 10) == b"accent"
    tree.close()
    assert site(island)["é.txt"] == b"accent"


def test_a_name_that_was_in_the_way_is_free_after_the_commit(tmp_path: Path) -> None:
    path = tmp_path / "a.lbz"
    path.write_bytes(samples.pack(samples.with_keys({"d/index.html": b"document", "d/xq--index-x.html": b"file"})))
    tree = open_rw(path)
    held = file(tree, "d", "xq--index-x.html")
    edits.remove(tree, "d/index.html")
    tree.commit(no_progress)
    assert tree_of(folder(tree, "d")) == {"index.html": b"file"}
    assert held.open().read_at(0, 10) == b"file"
    edits.write(tree, "d/index.html", b"changed")
    tree.commit(no_progress)
    tree.close()
    assert set(manifest(path)) == {"d/xq--index-x.html"}


def test_an_archive_that_somebody_has_changed_where_it_is_is_left_alone(
    island: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tree = open_rw(island)
    edits.write(tree, "new", b"new")
    island.write_bytes(b"overwritten in place")
    with pytest.raises(ArchiveError, match="could not be put into the archive"):
        tree.commit(no_progress)
    tree.close()
    assert island.read_bytes() == b"overwritten in place"


def test_what_others_have_is_still_read_after_a_commit(tmp_path: Path) -> None:
    old = samples.write(tmp_path / "old.lbz", samples.SITE)
    path = samples.write_update(tmp_path / "update.lbz")
    with edited(path, externals=[str(old)]) as tree:
        edits.write(tree, "new", b"new")
        # A file that is not here can be changed when somebody has it.
        writer = file(tree, "style.css").open_writer(truncate=False)
        writer.write_at(0, b"BODY")
        writer.finish()
        writer.close()
        tree.commit(no_progress)
        assert file(tree, "walks", "north.html").open().read_at(0, 1000) == samples.SITE["/walks/north.html"]
        edits.write(tree, "newer", b"newer")
    whole = site(path, externals=[str(old)])
    assert whole["style.css"] == b"BODY" + samples.SITE["/style.css"][4:]
    assert whole["newer"] == b"newer"
    assert "www/walks/north.html" not in edits.members(path)


# -- archives that break rules --


@pytest.mark.parametrize(("code", "what", "data"), list(samples.bad_archives()), ids=lambda value: str(value)[:30])
def test_an_archive_that_breaks_rules_loses_nothing(tmp_path: Path, code: str, what: str, data: bytes) -> None:
    """It can be changed as far as it can be shown; if a commit is not possible, the old one stays."""
    path = tmp_path / "bad.lbz"
    path.write_bytes(data)
    try:
        tree = open_rw(path)
    except (ArchiveError, CorruptArchive):
        return
    before = readable(tree)
    edits.write(tree, "new-file.txt", b"new")
    try:
        tree.commit(no_progress)
    except ArchiveError:
        assert path.read_bytes() == data
    else:
        assert readable(tree) == {**before, ("new-file.txt",): b"new"}
    tree.close()


def readable(tree: Any) -> dict[tuple[str, ...], bytes | None]:
    found: dict[tuple[str, ...], bytes | None] = {}
    for parts, node in tree.files():
        try:
            reader = node.open()
            try:
                found[parts] = reader.read_at(0, 1 << 20)
            finally:
                reader.close()
        except ArchiveError:
            found[parts] = None
    return found


# -- what others do to the archive meanwhile --


def test_an_archive_that_somebody_put_in_its_place_is_not_overwritten(island: Path, tmp_path: Path) -> None:
    other = samples.write(tmp_path / "newer.lbz", samples.SITE)
    with edited(other) as tree:
        edits.write(tree, "of-somebody-else.txt", b"precious")
        tree.commit(no_progress)
    with contextlib.closing(open_rw(island)) as tree:
        edits.write(tree, "mine.txt", b"mine")
        os.replace(other, island)
        newer = island.read_bytes()
        with pytest.raises(ArchiveError, match="another archive was put in its place"):
            tree.commit(no_progress)
        assert island.read_bytes() == newer
        os.rename(island, other)
        tree.commit(no_progress)
    assert other.read_bytes() == newer
    assert site(island)["mine.txt"] == b"mine"


def test_an_archive_put_in_its_place_while_the_new_one_is_written_is_not_overwritten(
    island: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = samples.write(tmp_path / "newer.lbz", samples.SITE)
    newer = other.read_bytes()
    write = Site.write

    def write_and_be_overtaken(self: Site, *arguments: Any) -> None:
        write(self, *arguments)
        os.replace(other, island)

    monkeypatch.setattr(Site, "write", write_and_be_overtaken)
    with contextlib.closing(open_rw(island)) as tree:
        edits.write(tree, "mine.txt", b"mine")
        with pytest.raises(ArchiveError, match="another archive was put in its place"):
            tree.commit(no_progress)
    assert island.read_bytes() == newer
