"""KernelTransport as a whole, without a mount: beginning, end, and a kernel that is too old."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable

import pytest

from archivefs.caches import ByteCache
from archivefs.errors import MountRefused
from archivefs.fuse.driver import Driver
from archivefs.fuse.kernel import protocol, transport
from archivefs.fuse.kernel.protocol import Opcode
from archivefs.fuse.kernel.transport import KernelTransport
from archivefs.fuse.mount import Mounting
from archivefs.fuse.options import MountOptions
from archivefs.fuse.transport import Transport, TransportUnavailable
from archivefs.memory import MemoryTree
from tests.fuse.kernel.fake import ALL_FLAGS, init_body, request
from tests.mount.harness import wait_until


class FakeDevice:
    """Stands for a mounted device: one end of a socket pair."""

    def __init__(self) -> None:
        self.ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.fd = self._theirs.fileno()
        self.unmounted = 0
        self.closed = False
        self.readahead_kb = 0

    def widen_readahead(self, kilobytes: int) -> None:
        self.readahead_kb = kilobytes

    def unmount(self) -> None:
        self.unmounted += 1
        self.ours.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch):
    device = FakeDevice()
    monkeypatch.setattr(transport, "open_mounted", lambda mountpoint, options: device)
    yield device
    device.ours.close()
    device._theirs.close()


def new_transport() -> KernelTransport:
    return KernelTransport(Driver(MemoryTree({"a": b"1"}), MountOptions(), ByteCache()), "/nowhere")


class Serving:
    """A transport in a thread of its own."""

    def __init__(self, transport: Transport) -> None:
        self.ready = threading.Event()
        self.error: BaseException | None = None
        self._transport = transport
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        try:
            self._transport.serve(self.ready.set)
        except BaseException as error:
            self.error = error


def begin(device: FakeDevice, *, minor: int = 45) -> None:
    device.ours.send(request(Opcode.INIT, 1, 0, init_body(minor, ALL_FLAGS)))


def test_it_serves_until_it_is_unmounted(device: FakeDevice) -> None:
    begin(device)
    serving = Serving(new_transport())
    assert serving.ready.wait(5)
    assert len(device.ours.recv(4096)) == 80
    device.ours.send(request(Opcode.STATFS, 2, 1, b""))
    assert protocol.OUT_HEADER.unpack_from(device.ours.recv(4096))[1:] == (0, 2)
    device.ours.shutdown(socket.SHUT_RDWR)
    serving.thread.join(5)
    assert not serving.thread.is_alive()
    assert (device.closed, device.unmounted, device.readahead_kb, serving.error) == (True, 0, 1024, None)


def test_stopping_unmounts_and_ends_it(device: FakeDevice) -> None:
    begin(device)
    one = new_transport()
    serving = Serving(one)
    assert serving.ready.wait(5)
    one.stop()
    one.stop()
    serving.thread.join(5)
    assert not serving.thread.is_alive()
    assert device.closed
    assert device.unmounted == 2  # the second does nothing: a MountedDevice looks whether it is still there


def test_stopping_before_the_beginning(device: FakeDevice) -> None:
    begin(device)
    one = new_transport()
    one.stop()
    serving = Serving(one)
    serving.thread.join(5)
    assert not serving.thread.is_alive()
    assert not serving.ready.is_set()
    assert device.unmounted == 1


def test_a_kernel_that_is_too_old_leaves_nothing_behind(device: FakeDevice) -> None:
    begin(device, minor=22)
    with pytest.raises(TransportUnavailable, match=r"7\.22"):
        new_transport().serve(lambda: None)
    assert (device.unmounted, device.closed) == (1, True)


def test_a_mount_that_is_taken_away_at_once(device: FakeDevice) -> None:
    device.ours.shutdown(socket.SHUT_RDWR)
    with pytest.raises(MountRefused):
        new_transport().serve(lambda: None)
    assert (device.unmounted, device.closed) == (1, True)


class Refusing(Transport):
    """A transport that does not work here."""

    name = "refusing"

    def serve(self, ready: Callable[[], None]) -> None:
        raise TransportUnavailable("not on this machine")

    def stop(self) -> None:
        raise AssertionError


class Working(Refusing):
    """One that does, and is unmounted at once."""

    name = "working"

    def serve(self, ready: Callable[[], None]) -> None:
        ready()


def test_the_next_transport_is_tried(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archivefs.fuse.mount.TRANSPORTS", {"refusing": lambda: Refusing, "working": lambda: Working})
    told: list[str] = []

    def mounting(asked: str) -> Mounting:
        return Mounting(
            open_tree=lambda cache: MemoryTree({}),
            cache=ByteCache(),
            mountpoint=str(tmp_path / "m"),
            options=MountOptions(transport=asked),
            on_ready=lambda: told.append("ready"),
        )

    assert mounting("auto").run() == 0
    assert told == ["ready"]
    with pytest.raises(TransportUnavailable, match="not on this machine"):
        mounting("refusing").run()


def test_answers_the_kernel_does_not_understand_are_replaced(device: FakeDevice, monkeypatch, caplog) -> None:
    """A client must never wait because of a bug of ours."""
    begin(device)
    one = new_transport()
    serving = Serving(one)
    assert serving.ready.wait(5)
    device.ours.recv(4096)
    crew = one._crew
    assert crew is not None
    real = crew.send

    def send(reply) -> None:
        if len(reply) > protocol.OUT_SIZE:
            raise OSError(errno.EINVAL, "what is this?")
        real(reply)

    monkeypatch.setattr(crew, "send", send)
    device.ours.send(request(Opcode.STATFS, 2, 1, b""))
    assert protocol.OUT_HEADER.unpack_from(device.ours.recv(4096))[1:] == (-errno.EIO, 2)
    assert wait_until(lambda: "does not understand" in caplog.text)
    one.stop()
    serving.thread.join(5)
