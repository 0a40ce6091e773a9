"""centidb stores through a real mount, on both transports: the contract, writing with ordinary tools, dying engines."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.formats.centidb.test_writing import stored
from tests.mount.contract import MountContract
from tests.mount.harness import Mount, mounted
from tests.samples import centidb as sample
from tests.samples.centidb import StoreMaker, write_leveldb, write_lmdb


class TestMounted(MountContract):
    """The library, flat."""

    def make_archive(self, tmp_path: Path) -> Path:
        return write_lmdb(tmp_path / "library.lmdb", sample.library().entries)


def test_nested_folders(tmp_path: Path, transport: str) -> None:
    path = write_lmdb(tmp_path / "acid.lmdb", sample.acid(bare=True).entries)
    with mounted(path, at=tmp_path / "m", transport=transport, options="layout=nested") as mount:
        records = mount.path / "collections" / "pages" / "records"
        assert sorted(os.listdir(records)) == ["Ta,", "Tb,"]
        for letter in "ab":
            folder = records / f"T{letter},"
            found = {name: (folder / name).read_bytes() for name in os.listdir(folder)}
            assert found == {f"Pa{at}": b'{"page":%d}' % at for at in range(4)}
        link = mount.path / "collections" / "people" / "indices" / "age" / "Pa6" / "Pa1"
        assert link.read_bytes() == b'{"name": "Alfred"}'


@pytest.mark.parametrize("put", [write_lmdb, write_leveldb])
def test_writing_with_ordinary_tools(tmp_path: Path, transport: str, put) -> None:
    path = put(tmp_path / "store", sample.overlapping().entries)
    with mounted(path, at=tmp_path / "m", transport=transport, options="rw") as mount:
        records = mount.path / "collections" / "overlap" / "records"
        subprocess.run(["sh", "-c", "echo hello > Tnew; cat Pa3 Tnew > Pa1; echo more >> Pa3"], cwd=records, check=True)
        (records / "Pa9").unlink()
        shutil.copy(records / "Pa1", records / "Tcopy")
        subprocess.run(["mv", "Tnew", "Tmoved"], cwd=records, check=True)
        os.truncate(records / "Pa2,Rx", 6)
        os.utime(records / "Pa5", ns=(1, 1_600_000_000_000_000_000))
        assert (records / "Pa5").stat().st_mtime_ns == 1_600_000_000_000_000_000
        os.mkdir(mount.path / "collections" / "fresh")
        (mount.path / "collections" / "fresh" / "records" / "Tx,Pa1").write_bytes(b"x" * 200_000)
        (mount.path / "collections" / "fresh" / "records" / "Tempty").touch()
        expected = {
            **sample.OVERLAPPING,
            "Pa1": b"single threehello\n",
            "Pa3": b"single threemore\n",
            "Tmoved": b"hello\n",
        }
        expected |= {"Tcopy": b"single threehello\n", "Pa2,Rx": b"single"}
        del expected["Pa9"]
        assert {name: (records / name).read_bytes() for name in os.listdir(records)} == expected
    found = stored(path)
    assert found[b"\x0b" + sample.key("x", 1)] == b"\x03" + b"x" * 200_000
    assert found[b"\x0b" + sample.key("empty")] == b"\x03"
    with mounted(path, at=tmp_path / "m", transport=transport) as mount:
        records = mount.path / "collections" / "overlap" / "records"
        assert {name: (records / name).read_bytes() for name in os.listdir(records)} == expected


def test_what_is_refused(tmp_path: Path, transport: str) -> None:
    path = write_lmdb(tmp_path / "store", sample.library().entries)
    with mounted(path, at=tmp_path / "m", transport=transport, options="rw") as mount:
        top = mount.path / "collections"
        cases = [
            (errno.EPERM, lambda: (top / "people" / "records" / "Pa9").touch()),
            (errno.EPERM, lambda: os.unlink(top / "people" / "records" / "Pa1")),
            (errno.EPERM, lambda: (top / "mixed" / "records" / "x-15f100").touch()),
            (errno.EPERM, lambda: (top / "odd packers" / "records" / "Pa1").write_bytes(b"x")),
            (errno.EINVAL, lambda: (top / "mixed" / "records" / "note.txt").touch()),
            (errno.ENAMETOOLONG, lambda: (top / "mixed" / "records" / ("R" + "x" * 300)).touch()),
            (errno.EPERM, lambda: os.rmdir(top / "mixed")),
            (errno.EEXIST, lambda: os.mkdir(top / "mixed")),
            (errno.EXDEV, lambda: os.rename(top / "mixed" / "records" / "A", top / "mixed" / "records" / "Q0")),
            (errno.EROFS, lambda: (mount.path / "counters" / "visits").write_bytes(b"1")),
            (errno.EROFS, lambda: (mount.path / "unknown" / "00").touch()),
        ]
        for number, action in cases:
            with pytest.raises(OSError) as caught:
                action()
            assert caught.value.errno == number, (errno.errorcode[number], caught.value)
    assert stored(path) == sample.library().entries


def workers_of(mount: Mount) -> list[int]:
    """The worker processes of a driver."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
                command = Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
            if int(fields[1]) == mount.process.pid and b"worker.py" in command:
                found.append(int(entry))
    return found


def test_the_mount_outlives_its_engine(tmp_path: Path, transport: str) -> None:
    made = StoreMaker()
    idx = made.collection(b"c")
    for at in range(50):
        made.record(idx, (at,), b"%d" % at)
    path = write_lmdb(tmp_path / "store", made.entries)
    mount = Mount(path, at=tmp_path / "m", transport=transport).wait_ready()
    try:
        records = mount.path / "collections" / "c" / "records"
        assert (records / "Pa1").read_bytes() == b"1"
        for round_ in range(3):
            (worker,) = workers_of(mount)
            os.kill(worker, signal.SIGABRT)
            with pytest.raises(OSError) as caught:
                (records / f"Pb1{round_}").read_bytes()
            assert caught.value.errno == errno.EIO
            end = time.monotonic() + 10
            while not _reads(records / f"Pb2{round_}", b"2%d" % round_) and time.monotonic() < end:
                time.sleep(0.05)
            assert (records / f"Pb3{round_}").read_bytes() == b"3%d" % round_
        assert mount.unmount() == 0
        assert workers_of(mount) == []
    finally:
        mount.end()


def _reads(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False
