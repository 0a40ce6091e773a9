"""Requests that hang: answered for, and in nobody's way.  Late answers take back what they handed out."""

from __future__ import annotations

import errno
import time

import pytest

from archivefs.errors import NotFound
from archivefs.fuse.kernel import protocol, watchdog
from archivefs.fuse.kernel.protocol import Opcode
from archivefs.tree import Directory, Node
from tests.fuse.kernel.fake import WITHOUT_NO_OPEN, FakeKernel, read_body
from tests.fuse.kernel.trees import Forgetful, Gate, Large, Named, Plain, hanging_at_open, hanging_at_read
from tests.mount.harness import wait_until

LIMIT_S = 0.4


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open()


def test_a_read_that_hangs_is_answered_for(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    tree = Named({"hang": hanging_at_read(gate), "ok": Plain})
    with FakeKernel(tree, timeout_s=LIMIT_S) as kernel:
        nodeid = kernel.look_up(1, "hang").nodeid
        began = time.monotonic()
        assert kernel.read(nodeid, 0, 0, 4096).error == errno.ETIMEDOUT
        assert LIMIT_S <= time.monotonic() - began < LIMIT_S + 1
        # The kernel asks a second time, page by page: that must not take as long again.
        began = time.monotonic()
        assert kernel.read(nodeid, 0, 0, 4096).error == errno.ETIMEDOUT
        assert time.monotonic() - began < LIMIT_S / 2
        assert kernel.read(kernel.look_up(1, "ok").nodeid, 0, 0, 4096).body == b"plain"
        gate.open()
        assert wait_until(lambda: bool(kernel.refused))
        assert wait_until(lambda: kernel.read(nodeid, 0, 0, 4096).error == 0)
        assert kernel.read(nodeid, 0, 0, 4096).body == b"plain"
        assert wait_until(lambda: tree.open_readers == 0)
    assert caplog.text.count("no answer within 0.4 s") == 1


def test_with_a_handle_it_is_the_same(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    tree = Named({"hang": hanging_at_read(gate)})
    with FakeKernel(tree, timeout_s=LIMIT_S, flags=WITHOUT_NO_OPEN) as kernel:
        nodeid = kernel.look_up(1, "hang").nodeid
        handle, _ = kernel.open(nodeid)
        assert kernel.read(nodeid, handle, 0, 4096).error == errno.ETIMEDOUT
        began = time.monotonic()
        assert kernel.read(nodeid, handle, 0, 4096).error == errno.ETIMEDOUT
        assert kernel.ask(Opcode.OPEN, nodeid, protocol.OPEN_IN.pack(0, 0)).error == errno.ETIMEDOUT
        assert time.monotonic() - began < LIMIT_S / 2
        gate.open()
        assert wait_until(lambda: kernel.read(nodeid, handle, 0, 4096).error == 0)
    assert wait_until(lambda: "no answer within" in caplog.text)


def test_a_handle_that_comes_too_late_is_taken_back(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    tree = Named({"hang": hanging_at_open(gate)})
    with FakeKernel(tree, timeout_s=LIMIT_S, flags=WITHOUT_NO_OPEN) as kernel:
        nodeid = kernel.look_up(1, "hang").nodeid
        assert kernel.ask(Opcode.OPEN, nodeid, protocol.OPEN_IN.pack(0, 0)).error == errno.ETIMEDOUT
        assert tree.opened == 0
        gate.open()
        assert wait_until(lambda: tree.opened == 1)
        assert wait_until(lambda: tree.open_readers == 0)
        assert len(kernel.driver.files) == 0
    assert wait_until(lambda: "no answer within" in caplog.text)


class SlowLookups(Forgetful):
    """Finds "late" only after the gate is open."""

    def __init__(self, gate: Gate) -> None:
        super().__init__({"late": b"1", "quick": b"2"})
        self.gate = gate

    def root(self) -> Directory:
        return _Slow(self, super().root())


class _Slow(Directory):
    def __init__(self, tree: SlowLookups, inner: Directory) -> None:
        self.tree: SlowLookups = tree
        self.ident = inner.ident
        self._inner = inner

    def attributes(self):
        return self._inner.attributes()

    def child(self, name: str) -> Node:
        if name == "late":
            self.tree.gate.pass_through()
        if name == "never":
            self.tree.gate.pass_through()
            raise NotFound
        return self._inner.child(name)

    def entries(self, after: str | None = None):
        self.tree.gate.pass_through()
        yield from self._inner.entries(after)


@pytest.mark.parametrize("what", ["look-up", "listing"])
def test_a_node_that_comes_too_late_is_taken_back(gate: Gate, what: str, caplog: pytest.LogCaptureFixture) -> None:
    with FakeKernel(SlowLookups(gate), timeout_s=LIMIT_S) as kernel:
        if what == "look-up":
            assert kernel.ask(Opcode.LOOKUP, 1, b"late\0").error == errno.ETIMEDOUT
        else:
            assert kernel.ask(Opcode.READDIRPLUS, 1, read_body(0, 2, 4096)).error == errno.ETIMEDOUT
        # Another name in the same directory is not suspected.
        assert kernel.look_up(1, "quick").attr.size == 1
        gate.open()
        assert wait_until(lambda: len(kernel.refused) == 1)
        assert wait_until(lambda: len(kernel.requests.inodes) == 1)  # only "quick"
    assert wait_until(lambda: "no answer within" in caplog.text)


def test_more_hung_reads_than_workers_and_others_are_served_within_a_second(gate: Gate) -> None:
    files = {f"hang{number}": hanging_at_read(gate) for number in range(40)}
    tree = Named({**files, "ok": Plain})
    with FakeKernel(tree, timeout_s=30, workers=2) as kernel:
        nodeids = [kernel.look_up(1, name).nodeid for name in files]
        ok = kernel.look_up(1, "ok").nodeid
        hung = [kernel.send(Opcode.READ, nodeid, read_body(0, 0, 4096)) for nodeid in nodeids]
        began = time.monotonic()
        assert kernel.read(ok, 0, 0, 4096).body == b"plain"
        assert time.monotonic() - began < 1
        assert gate.waiting == len(hung)
        gate.open()
        answered = [kernel.receive() for _ in hung]
        assert sorted(answer.unique for answer in answered if answer) == hung
        # The many that were started for this leave again.
        for _ in range(200):
            kernel.settle()
        assert wait_until(lambda: len(kernel.crew) <= 4)


def test_large_reads_are_shared_out_at_once(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without waiting for the watchdog; small ones stay with the worker on duty, which is quicker."""
    monkeypatch.setattr(watchdog.Watchdog, "look", lambda self, now: False)
    files = {f"hang{number}": hanging_at_read(gate) for number in range(4)}
    with FakeKernel(Named(files), workers=2) as kernel:
        nodeids = [kernel.look_up(1, name).nodeid for name in files]
        assert len(kernel.crew) == 1
        for nodeid in nodeids:
            kernel.send(Opcode.READ, nodeid, read_body(0, 0, 1 << 17))
        assert wait_until(lambda: gate.waiting >= 1)
        time.sleep(0.1)
        assert (gate.waiting, len(kernel.crew)) in {(2, 2), (1, 1)}  # 1 if the first was read before the second came
        gate.open()
        assert all(kernel.receive() for _ in nodeids)


def test_a_signal_for_the_caller_ends_a_request_that_hangs(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "INTERRUPT_GRACE_S", 0.2)
    tree = Named({"hang": hanging_at_read(gate), "ok": Plain})
    with FakeKernel(tree) as kernel:
        ok = kernel.look_up(1, "ok").nodeid
        unique = kernel.send(Opcode.READ, kernel.look_up(1, "hang").nodeid, read_body(0, 0, 4096))
        kernel.send(Opcode.INTERRUPT, 0, protocol.INTERRUPT_IN.pack(unique))
        assert kernel.read(ok, 0, 0, 4096).error == 0
        answer = kernel.receive(2)
        assert answer is not None
        assert (answer.unique, answer.error) == (unique, errno.EINTR)
        # A signal for a request that is long answered, or was never asked, means nothing.
        for other in (unique, 12, 10**9):
            kernel.send(Opcode.INTERRUPT, 0, protocol.INTERRUPT_IN.pack(other))
        kernel.settle()
        assert wait_until(lambda: list(kernel.requests.interrupted) == [unique])
        # It is not stuck, only unwanted: the next one waits like any other.
        kernel.send(Opcode.READ, kernel.look_up(1, "hang").nodeid, read_body(0, 0, 4096))
        assert kernel.receive(0.1) is None
        gate.open()
        late = kernel.receive()
        assert late is not None and late.body == b"plain"


def test_stopping_answers_what_is_under_way(gate: Gate) -> None:
    files = {f"hang{number}": hanging_at_read(gate) for number in range(5)}
    with FakeKernel(Named({**files, "ok": Plain})) as kernel:
        nodeids = [kernel.look_up(1, name).nodeid for name in files]
        asked = {kernel.send(Opcode.READ, nodeid, read_body(0, 0, 4096)) for nodeid in nodeids}
        assert wait_until(lambda: gate.waiting == 5)
        began = time.monotonic()
        kernel.crew.stop()
        answers = [kernel.receive() for _ in asked]
        assert {answer.unique for answer in answers if answer} == asked
        assert {answer.error for answer in answers if answer} == {errno.ENOTCONN}
        assert kernel.ask(Opcode.STATFS).error == errno.ENOTCONN
        assert time.monotonic() - began < 1
        gate.open()
        assert wait_until(lambda: len(kernel.refused) == 5)


def test_the_watchdog_sleeps_while_there_is_nothing_to_do(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    with FakeKernel(Named({"hang": hanging_at_read(gate)}), timeout_s=LIMIT_S) as kernel:
        nodeid = kernel.look_up(1, "hang").nodeid
        for _ in range(2):
            assert wait_until(lambda: kernel.crew.watchdog.asleep)
            assert kernel.ask(Opcode.STATFS).error == 0
            assert wait_until(lambda: not kernel.crew.watchdog.asleep)
        assert wait_until(lambda: kernel.crew.watchdog.asleep)
        # The very request that wakes it hangs.
        assert kernel.read(nodeid, 0, 0, 4096).error == errno.ETIMEDOUT
    assert wait_until(lambda: "no answer within" in caplog.text)


def test_time_in_which_the_driver_itself_stood_still_does_not_count(gate: Gate, caplog) -> None:
    with FakeKernel(Named({"hang": hanging_at_read(gate)}), timeout_s=10) as kernel:
        unique = kernel.send(Opcode.READ, kernel.look_up(1, "hang").nodeid, read_body(0, 0, 4096))
        assert wait_until(lambda: gate.waiting == 1)
        dog = kernel.crew.watchdog
        dog._tick_s = 3.0  # only this test looks from now on
        time.sleep(0.05)
        now = time.monotonic()
        for _ in range(5):
            now += 5
            dog.look(now)
        assert kernel.receive(0) is None
        for _ in range(200):
            now += 0.05
            dog.look(now)
        answer = kernel.receive()
        assert answer is not None
        assert (answer.unique, answer.error) == (unique, errno.ETIMEDOUT)
    assert wait_until(lambda: "no answer within 10 s" in caplog.text)


def test_readers_that_nobody_uses_are_closed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archivefs.fuse.unopened.IDLE_S", 0.1)
    tree = Named({"large": Large})
    with FakeKernel(tree) as kernel:
        kernel.crew.watchdog.chores.append(kernel.requests.readers.close_idle)
        kernel.read(kernel.look_up(1, "large").nodeid, 0, 4096, 4096)
        assert tree.open_readers == 1
        assert wait_until(lambda: tree.open_readers == 0, 5)
