"""KernelTransport: the mount, its negotiation, its workers and its end."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable

from archivefs.errors import MountRefused
from archivefs.fuse.driver import Driver
from archivefs.fuse.kernel import protocol
from archivefs.fuse.kernel.device import MountedDevice, open_mounted
from archivefs.fuse.kernel.negotiation import MAX_READAHEAD, MAX_WRITE, Session, negotiate
from archivefs.fuse.kernel.notify import Notifier
from archivefs.fuse.kernel.passthrough import Passthrough
from archivefs.fuse.kernel.pruning import Pruner
from archivefs.fuse.kernel.requests import Requests
from archivefs.fuse.kernel.workers import READ_AGAIN, WORKERS, Crew
from archivefs.fuse.transport import Transport

log = logging.getLogger("archivefs.fuse")

TELL_S = 1.0
"""How long a command waits until the kernel knows what it has done; the kernel may have locks to wait for."""
END_S = 1.0
"""How long the end waits for workers; one that hangs is left behind."""


class KernelTransport(Transport):
    """Serves a driver on the FUSE device itself."""

    name = "kernel"
    workers = WORKERS

    def __init__(self, driver: Driver, mountpoint: str) -> None:
        super().__init__(driver, mountpoint)
        self._lock = threading.Lock()
        self._device: MountedDevice | None = None
        self._crew: Crew | None = None
        self._notifier: Notifier | None = None
        self._pruner: Pruner | None = None
        self._stopped = False

    def serve(self, ready: Callable[[], None]) -> None:
        device = open_mounted(self.mountpoint, self.driver.options)
        self._device = device
        requests = None
        try:
            session = agree(device.fd, self.driver)
            device.widen_readahead(MAX_READAHEAD >> 10)
            requests = Requests(self.driver, session, Passthrough(device.fd, enabled=session.passthrough))
            self.serve_on(device.fd, requests, ready)
        except BaseException:
            # Nobody would answer there, so it must not stay behind.
            self.stop()
            raise
        finally:
            if self._crew is None or self._crew.join(END_S):
                device.close()
            if requests is not None:
                requests.readers.close_all()

    def serve_on(self, fd: int, requests: Requests, ready: Callable[[], None]) -> None:
        """Serve an open device (or what stands for one) until its other end is gone or ``stop`` is called."""
        crew = Crew(fd, requests, workers=self.workers)
        crew.watchdog.chores.append(requests.readers.close_idle)
        with self._lock:
            self._crew = crew
            stopped = self._stopped
        if not self.driver.tree.immutable:
            self._notifier = Notifier(fd, requests)
            self._notifier.start()
            self.driver.committer.on_changed = self._tell_now
        self._pruner = Pruner(fd, requests)
        self._pruner.start()
        crew.start()
        if stopped:
            self.stop()
        else:
            ready()
        crew.gone.wait()
        self._stop_telling()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            crew, device = self._crew, self._device
        self._stop_telling()
        if crew is not None:
            crew.stop()
        if device is not None:
            device.unmount()
        if crew is not None:
            crew.end()

    def _tell_now(self) -> None:
        """Make the kernel ask again, without waiting for the next look; in a thread that may have to wait for it."""
        notifier = self._notifier
        if notifier is not None:
            telling = threading.Thread(target=notifier.invalidate, daemon=True, name="archivefs-telling")
            telling.start()
            telling.join(TELL_S)

    def _stop_telling(self) -> None:
        self.driver.committer.on_changed = lambda: None
        for teller in (self._notifier, self._pruner):
            if teller is not None:
                teller.stop()


def agree(fd: int, driver: Driver) -> Session:
    """Read the kernel's first request and answer it; raises TransportUnavailable for a kernel that is too old."""
    buffer = bytearray(MAX_WRITE + 4096)
    while True:
        try:
            length = os.readv(fd, [buffer])
            break
        except OSError as error:
            if error.errno not in READ_AGAIN:
                raise MountRefused(f"the mount was taken away again: {error.strerror}") from None
    request = memoryview(buffer)[:length]
    if length < protocol.IN_SIZE or protocol.IN_START.unpack_from(request)[1] != protocol.Opcode.INIT:
        raise MountRefused("the kernel did not begin with INIT")
    reply, session = negotiate(driver, request)
    try:
        os.write(fd, reply)
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise MountRefused(f"the kernel does not accept the answer to INIT: {error.strerror}") from None
    return session
