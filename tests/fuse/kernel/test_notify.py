"""What the kernel is told when a living tree has changed."""

from __future__ import annotations

import os
import socket
import struct

import pytest

from archivefs.caches import ByteCache
from archivefs.fuse.driver import Driver
from archivefs.fuse.kernel import notify, protocol
from archivefs.fuse.kernel.negotiation import Session
from archivefs.fuse.kernel.notify import Notifier
from archivefs.fuse.kernel.passthrough import Passthrough
from archivefs.fuse.kernel.requests import Requests
from archivefs.fuse.options import MountOptions
from archivefs.memory import MemoryTree
from tests.fuse.kernel.trees import CONTENT, Forgetful
from tests.mount.harness import wait_until


class Living(MemoryTree):
    immutable = False
    number = 0

    def generation(self) -> int:
        return self.number


class LivingByName(Forgetful):
    immutable = False
    number = 0

    def generation(self) -> int:
        return self.number


class Told:
    """A notifier, and what it has written."""

    def __init__(self, tree: MemoryTree, *, epochs: bool) -> None:
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.setblocking(False)
        driver = Driver(tree, MountOptions(), ByteCache())
        session = Session(minor=44 if epochs else 43, flags=0, epochs=epochs)
        self.requests = Requests(driver, session, Passthrough(-1, enabled=False))
        self.driver = driver
        self.notifier = Notifier(self.theirs.fileno(), self.requests)
        self.notifier.look()

    def messages(self) -> list[tuple[int, bytes]]:
        """(code, rest) of everything written so far."""
        found = []
        while True:
            try:
                data = self.ours.recv(65536)
            except BlockingIOError:
                return found
            length, code, unique = protocol.OUT_HEADER.unpack_from(data)
            assert (length, unique) == (len(data), 0)
            found.append((code, data[16:]))

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def told(request: pytest.FixtureRequest):
    tree, epochs = request.param
    told = Told(tree(CONTENT), epochs=epochs)
    yield told
    told.close()


ROOT = (protocol.NOTIFY_INVAL_INODE, struct.pack("=Qqq", 1, 0, 0))


@pytest.mark.parametrize("told", [(Living, True)], indirect=True)
def test_nothing_is_said_while_nothing_changes(told: Told) -> None:
    for _ in range(3):
        told.notifier.look()
    assert told.messages() == []


@pytest.mark.parametrize("told", [(Living, True)], indirect=True)
def test_all_names_at_once(told: Told) -> None:
    told.driver.tree.number += 1
    told.notifier.look()
    assert told.messages() == [(protocol.NOTIFY_INC_EPOCH, b""), ROOT]
    told.notifier.look()
    assert told.messages() == []


@pytest.mark.parametrize("told", [(Living, True)], indirect=True)
def test_the_attributes_of_open_files_are_forgotten(told: Told) -> None:
    node = told.driver.tree.lookup(("hello.txt",))
    handle = told.driver.open(node).handle
    told.driver.tree.number += 1
    told.notifier.look()
    assert told.messages()[2:] == [(protocol.NOTIFY_INVAL_INODE, struct.pack("=Qqq", node.ident, -1, 0))]
    told.driver.files.release(handle)
    told.driver.tree.number += 1
    told.notifier.look()
    assert told.messages()[2:] == []


@pytest.mark.parametrize("told", [(LivingByName, False)], indirect=True)
def test_an_older_kernel_is_told_each_name(told: Told) -> None:
    inodes, tree = told.requests.inodes, told.driver.tree
    folder, odd = tree.lookup(("folder",)), tree.lookup(("ünïcode \n",))
    inodes.hand_out(folder, 1, "folder")
    inodes.hand_out(tree.lookup(("folder", "inner.txt")), folder.ident, "inner.txt")
    inodes.hand_out(odd, 1, "ünïcode \n")
    tree.number += 1
    told.notifier.look()

    def entry(parent: int, name: bytes) -> tuple[int, bytes]:
        return protocol.NOTIFY_INVAL_ENTRY, struct.pack("=QII", parent, len(name), 0) + name + b"\0"

    assert told.messages() == [
        entry(1, b"folder"),
        entry(folder.ident, b"inner.txt"),
        entry(1, "ünïcode \n".encode()),
        ROOT,
    ]


@pytest.mark.parametrize("told", [(Living, True)], indirect=True)
def test_a_thread_of_its_own_looks(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "INTERVAL_S", 0.02)
    told.notifier.start()
    told.driver.tree.number += 1
    assert wait_until(lambda: told.notifier.invalidations == 1)
    told.notifier.stop()
    told.notifier.join(5)
    assert not told.notifier.is_alive()


@pytest.mark.parametrize("told", [(Living, True), (Living, False)], indirect=True)
def test_a_tree_that_nobody_looks_at_is_left_alone(told: Told) -> None:
    kept = int(told.requests.session.living_lifetime_s)
    assert [told.notifier.is_watched() for _ in range(kept + 1)] == [True] * (kept + 1)
    assert told.notifier.is_watched()
    assert not told.notifier.is_watched()
    told.driver.counts["lookup"] += 1
    assert told.notifier.is_watched()


@pytest.mark.parametrize("told", [(Living, True)], indirect=True)
def test_a_tree_that_cannot_say_is_asked_again(told: Told, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    monkeypatch.setattr(notify, "INTERVAL_S", 0.02)
    answers = iter([OSError(5, "I/O error"), 7])

    def generation() -> int:
        answer = next(answers, 7)
        if isinstance(answer, Exception):
            raise answer
        return answer

    told.driver.tree.generation = generation  # type: ignore[method-assign]
    told.notifier.start()
    assert wait_until(lambda: told.notifier.invalidations == 1)
    told.notifier.stop()
    told.notifier.join(5)
    assert "generation" in caplog.text


@pytest.mark.parametrize("told", [(Living, True)], indirect=True)
def test_a_kernel_that_refuses_does_no_harm(told: Told) -> None:
    told.notifier._fd = os.open(os.devnull, os.O_RDONLY)
    try:
        told.notifier.invalidate()
        assert told.notifier.invalidations == 1
    finally:
        os.close(told.notifier._fd)


def test_nothing_is_asked_of_the_tree_before_somebody_serves() -> None:
    """It may take long, and until then clients would wait without a limit."""

    class Slow(Living):
        def generation(self) -> int:
            pytest.fail("asked")

    told = Requests(
        Driver(Slow(CONTENT), MountOptions(), ByteCache()), Session(minor=44, flags=0), Passthrough(-1, enabled=False)
    )
    Notifier(-1, told)
