"""The table of names stays small however much is walked."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from archivefs.caches import ByteCache
from archivefs.fuse.driver import Driver
from archivefs.fuse.kernel import inodes, protocol, requests
from archivefs.fuse.kernel.pruning import Pruner
from archivefs.fuse.kernel.transport import KernelTransport
from archivefs.fuse.options import MountOptions
from tests.fuse.kernel.test_notify import Told
from tests.fuse.kernel.trees import Forgetful
from tests.mount.harness import wait_until

FILES = 3000


def content(files: int) -> dict[str, object]:
    return {"folder": {"inner": b"i"}, **{f"file {at:05}": b"%d" % at for at in range(files)}}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inodes, "FEWEST_NAMES", 100)


def walked(told: Told) -> dict[str, int]:
    """Look everything up, as the kernel would."""
    root = told.driver.tree.root()
    return {
        entry.name: told.requests.inodes.hand_out(root.child(entry.name), 1, entry.name) for entry in root.entries()
    }


@pytest.mark.usefixtures("few")
def test_the_oldest_files_are_to_be_forgotten_but_no_directory_and_nothing_open(monkeypatch) -> None:
    told = Told(Forgetful(content(119)), epochs=True)
    told.requests.inodes.limit = 100
    numbers = walked(told)
    assert told.requests.inodes.crowded.is_set()
    monkeypatch.setattr(told.driver.files, "inodes", lambda: {numbers["file 00001"]})
    Pruner(told.theirs.fileno(), told.requests).prune()
    messages = told.messages()
    assert {code for code, _ in messages} == {protocol.NOTIFY_INVAL_ENTRY}
    names = [rest[16:].rstrip(b"\0").decode() for _, rest in messages]
    assert names == [name for name in sorted(numbers)[:70] if name not in ("folder", "file 00001")]
    told.close()


@pytest.mark.usefixtures("few")
def test_what_is_not_given_back_is_not_asked_for_again_at_once() -> None:
    told = Told(Forgetful(content(150)), epochs=True)
    told.requests.inodes.limit = 100
    walked(told)
    pruner = Pruner(told.theirs.fileno(), told.requests)
    pruner.prune()
    first = told.messages()
    pruner.prune()
    assert not {rest for _, rest in first[:50]} & {rest for _, rest in told.messages()[:49]}
    told.close()


@pytest.mark.usefixtures("few")
def test_a_walk_through_a_real_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables: list[inodes.Inodes] = []

    class Watched(inodes.Inodes):
        def __init__(self, driver: Driver, *, snapshots: bool = False) -> None:
            super().__init__(driver, snapshots=snapshots)
            tables.append(self)

    monkeypatch.setattr(requests, "Inodes", Watched)
    transport = KernelTransport(Driver(Forgetful(content(FILES)), MountOptions(), ByteCache(1)), str(tmp_path))
    ready = threading.Event()
    thread = threading.Thread(target=transport.serve, args=(ready.set,))
    thread.start()
    try:
        assert ready.wait(30)
        assert tables[0].limit == 100
        kept = os.open(tmp_path / "file 00000", os.O_RDONLY)
        inside = os.stat(tmp_path / "folder")
        for _ in range(2):
            with os.scandir(tmp_path) as entries:
                assert sum(entry.stat().st_size > 0 for entry in entries if entry.is_file()) == FILES
        wait_until(lambda: len(tables[0]) <= 100)
        assert os.read(kept, 9) == b"0"
        os.close(kept)
        assert os.stat(tmp_path / "folder").st_ino == inside.st_ino
        assert (tmp_path / "file 02999").read_bytes() == b"2999"
    finally:
        transport.stop()
        thread.join(30)
    assert not thread.is_alive()
