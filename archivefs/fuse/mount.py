"""The life of a mount: checks, the choice of transport, signals, and the end.

The order matters: open, mount, and say "ready" last, so that the command returns 0 only when the mount can be used.

The main thread waits for signals; the transport serves from a thread of its own.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from queue import Empty, SimpleQueue

from archivefs.caches import ByteCache
from archivefs.errors import ArchiveError, MissingLibrary, MountRefused, quoted
from archivefs.fuse.driver import Driver
from archivefs.fuse.idle import IdleWatch
from archivefs.fuse.options import MountOptions
from archivefs.fuse.signals import SIGNALS, Handlers, deaf_once, handled_by, ignore
from archivefs.fuse.stale import DEAD, clean_at, is_dead
from archivefs.fuse.transport import Transport, TransportUnavailable
from archivefs.fuse.unmount import mounted_at, unmount
from archivefs.tree import Tree

log = logging.getLogger("archivefs.fuse")

LEAVE_S = 5.0
"""How long the end may take once asked for; then the process leaves with what still hangs."""


def _fusepy() -> type[Transport]:
    from archivefs.fuse.fusepy import FusepyTransport

    return FusepyTransport


def _kernel() -> type[Transport]:
    if not sys.platform.startswith("linux"):
        raise TransportUnavailable("the kernel's own protocol is spoken on Linux only")
    from archivefs.fuse.kernel.transport import KernelTransport

    return KernelTransport


TRANSPORTS: dict[str, Callable[[], type[Transport]]] = {"kernel": _kernel, "fusepy": _fusepy}
"""The ways to the kernel, best first; each is imported when it is used."""


def transports_for(asked: str) -> list[str]:
    """The transports to try, in order: the one asked for, or all of them for ``auto``."""
    if asked == "auto":
        return list(TRANSPORTS)
    if asked not in TRANSPORTS:
        raise MountRefused(f"there is no transport {asked!r}", advice=f"known are {', '.join(TRANSPORTS)}")
    return [asked]


# -- the mount point --


@contextmanager
def prepared(mountpoint: str) -> Iterator[None]:
    """Make sure *mountpoint* is an empty directory; one that was missing is created, and removed afterwards."""
    created = not _usable(mountpoint) and _create(mountpoint)
    try:
        yield
    finally:
        if created:
            with suppress(OSError):
                os.rmdir(mountpoint)


def check_mountpoint(mountpoint: str, *, clean_stale: bool) -> None:
    """Raise MountRefused if nothing could be mounted there, now that nothing is to be."""
    if clean_stale and is_dead(mountpoint):
        return
    folder = os.path.dirname(mountpoint)
    if not _usable(mountpoint) and not (os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)):
        raise MountRefused("the mount point cannot be created", archive=mountpoint)


def _usable(mountpoint: str) -> bool:
    """Can something be mounted at *mountpoint* as it is?  False if it is missing; raises MountRefused."""
    if is_dead(mountpoint):
        raise _died(mountpoint)
    try:
        state = os.stat(mountpoint)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unusable(mountpoint, error) from None
    if not stat.S_ISDIR(state.st_mode):
        raise MountRefused("the mount point is not a directory", archive=mountpoint)
    if mounted_at(mountpoint) is not None:
        advice = f"unmount that first: archivefs umount {mountpoint}"
        raise MountRefused("something is mounted there already", archive=mountpoint, advice=advice)
    if _occupied(mountpoint):
        raise MountRefused("the mount point is not empty", archive=mountpoint, advice="name an empty or new folder")
    return True


def _create(mountpoint: str) -> bool:
    try:
        os.mkdir(mountpoint)
    except OSError as error:
        raise MountRefused(f"the mount point cannot be created: {error.strerror}", archive=mountpoint) from None
    return True


def _occupied(mountpoint: str) -> bool:
    try:
        with os.scandir(mountpoint) as entries:
            return next(entries, None) is not None
    except OSError as error:
        raise _unusable(mountpoint, error) from None


def _unusable(mountpoint: str, error: OSError) -> MountRefused:
    if error.errno in DEAD:
        return _died(mountpoint)
    return MountRefused(f"the mount point cannot be used: {error.strerror}", archive=mountpoint)


def _died(mountpoint: str) -> MountRefused:
    advice = f"run: archivefs umount {mountpoint}, or mount with -o clean_stale"
    return MountRefused("the driver of an earlier mount there has died", archive=mountpoint, advice=advice)


def refuse_inside(mountpoint: str, sources: list[str]) -> None:
    """Raise MountRefused when the mount point is an archive or lies inside one: it would show itself."""
    at = os.path.realpath(mountpoint)
    for source in sources:
        real = os.path.realpath(source)
        if at == real or at.startswith(real.rstrip("/") + "/"):
            raise MountRefused(
                "the mount point lies inside the archive", archive=mountpoint, advice="name another folder"
            )


# -- serving --


class Mounting:
    """One mount from its beginning to its end; ``run`` returns the exit code."""

    def __init__(
        self,
        *,
        open_tree: Callable[[ByteCache], Tree],
        cache: ByteCache,
        mountpoint: str,
        options: MountOptions,
        on_ready: Callable[[], None],
        on_leaving: Callable[[], None] = lambda: None,
    ) -> None:
        self._open_tree = open_tree
        self._cache = cache
        self._mountpoint = mountpoint
        self._options = options
        self._on_ready = on_ready
        self._on_leaving = on_leaving
        """Called when the mount ends: what is left to be done may take a while."""
        self._events = _Events()
        self._idle: IdleWatch | None = None
        self._signalled = False

    def run(self) -> int:
        """Open the archive, mount it, serve until it is unmounted or a signal comes, close it."""
        tree = self._open_tree(self._cache)
        if self._options.read_write and not tree.writable:
            # The format has said why: somebody else has the archive, say.
            self._options = replace(self._options, read_write=False)
        driver = Driver(tree, self._options, self._cache)
        logging.getLogger("archivefs").addHandler(driver.problems)
        # Without a moment in between: a signal that comes right after the unmount must find somebody.
        with self._events.signals() as before:
            try:
                if self._options.clean_stale:
                    clean_at(self._mountpoint)
                with prepared(self._mountpoint):
                    driver.committer.watch()
                    self._serve_by_first_that_works(driver)
                with handled_by(before) if self._signalled else deaf_once(before):
                    driver.finish()
                return 0
            finally:
                _within(LEAVE_S, driver.close)
                logging.getLogger("archivefs").removeHandler(driver.problems)

    def _serve_by_first_that_works(self, driver: Driver) -> None:
        names = transports_for(self._options.transport)
        for name in names:
            try:
                self._serve(TRANSPORTS[name]()(driver, self._mountpoint))
                return
            except (TransportUnavailable, MissingLibrary) as error:
                if name == names[-1]:
                    raise
                log.info("transport %s: %s", name, error)

    def _serve(self, transport: Transport) -> None:
        def serve() -> None:
            try:
                transport.serve(lambda: self._ready(transport.driver))
                self._events.put(None)
            except BaseException as error:  # handed to the main thread, whatever it is
                self._events.put(error)

        threading.Thread(target=serve, daemon=True, name="archivefs-transport").start()
        event = self._events.get()
        if not isinstance(event, BaseException):
            self._leaving(event)
        if isinstance(event, signal.Signals):
            event = self._stop(transport)
        if isinstance(event, BaseException):
            raise event

    def _ready(self, driver: Driver) -> None:
        self._on_ready()
        if self._options.idle_s:
            self._idle = IdleWatch(driver.counts, self._mountpoint, self._options.idle_s)
            self._idle.start()

    def _leaving(self, event: object) -> None:
        """Say that the mount ends, and why."""
        idle = self._idle
        self._signalled = isinstance(event, signal.Signals)
        if isinstance(event, signal.Signals):
            why = f", because of {event.name}"
        else:
            why = f", not used for {self._options.idle_s:g} s" if idle is not None and idle.unmounting else ""
        if idle is not None:
            idle.stop()
        log.info("%s unmounted from %s%s", quoted(self._options.source), quoted(self._mountpoint), why)
        self._on_leaving()

    def _stop(self, transport: Transport) -> object:
        """Unmount because of a signal; a second signal, or no end within a few seconds, leaves at once."""
        threading.Thread(target=self._stop_or_complain, args=(transport,), daemon=True).start()
        with suppress(Empty):
            event = self._events.get(timeout=LEAVE_S)
            if not isinstance(event, signal.Signals):
                return event
        if mounted_at(self._mountpoint) is not None:
            with suppress(ArchiveError):
                unmount(self._mountpoint, lazy=True)
        return None

    def _stop_or_complain(self, transport: Transport) -> None:
        try:
            transport.stop()
        except Exception as error:
            log.error("unmount: %s", error)


class _Events:
    """What the main thread waits for: a signal, ``None`` for the end of the transport, or the error that ended it.

    A signal may reach any thread, and Python runs its handler in the main thread only once that wakes up; so it waits
    for a pipe, into which Python writes the number of a signal the moment it comes.
    """

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._outcomes: SimpleQueue[BaseException | None] = SimpleQueue()

    def put(self, outcome: BaseException | None) -> None:
        """The transport has ended.  From any thread."""
        self._outcomes.put(outcome)
        os.write(self._writing, b"\0")

    def get(self, timeout: float | None = None) -> object:
        """The next one; raises Empty when none comes in time."""
        if not select.select([self._reading], [], [], timeout)[0]:
            raise Empty
        number = os.read(self._reading, 1)[0]
        return signal.Signals(number) if number else self._outcomes.get_nowait()

    @contextmanager
    def signals(self) -> Iterator[Handlers]:
        """Signals come here instead of ending the process; gives what handled them before."""
        descriptor = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        try:
            with handled_by(dict.fromkeys(SIGNALS, ignore)) as before:
                yield before
        finally:
            signal.set_wakeup_fd(descriptor)


def _within(limit_s: float, action: Callable[[], None]) -> None:
    """Run *action*, but wait no longer than *limit_s*: a source that hangs must not keep the process."""
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    thread.join(limit_s)
