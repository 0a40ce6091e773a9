"""The threads that read requests and answer them, and the watchdog that answers for one that hangs.

A worker reads the device, answers, and reads again.  Handing each request to a pool instead would cost as much as a
whole small read.  The watchdog looks at the workers ten times a second while there is something to do:

* a request past the time limit is answered ETIMEDOUT in the worker's place.  The worker's own answer is refused by
  the kernel when it comes at last, and what that handed out is taken back;
* when all workers have been busy with the same requests for a moment, spare ones are started, twice as many each
  time, so that hung reads do not keep others from being served.  Spare workers leave when there are too many;
* a request the kernel has lost interest in (a signal for its caller) is answered EINTR after a moment.

Threading: ``Crew`` guards its set of workers with one lock; what the watchdog reads of a worker's ``Call`` is
written by that worker only, apart from ``overdue``.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from archivefs.errors import OperationTimedOut
from archivefs.fuse.kernel.calls import Call, MalformedRequest, Reply
from archivefs.fuse.kernel.protocol import IN_SIZE, IN_START, INTERRUPT_IN, UNANSWERED, Opcode, error_reply
from archivefs.fuse.kernel.requests import Requests

log = logging.getLogger("archivefs.fuse")

WORKERS = 2
MOST_WORKERS = 512
TICK_S = 0.1
CROWDED_S = 0.2
INTERRUPT_GRACE_S = 1.0
"""A signal need not mean the end of its process, so a request that is soon answered is better answered in full."""
READ_AGAIN = frozenset({errno.ENOENT, errno.EINTR, errno.EAGAIN})
"""The request was taken back before we read it, or there was none."""
STUCK_KINDS = frozenset({Opcode.READ, Opcode.OPEN, Opcode.GETATTR})
"""Requests about one file; others of its kind would hang as well."""


class Crew:
    """All workers of a mount."""

    def __init__(self, fd: int, requests: Requests, *, workers: int = WORKERS) -> None:
        self.fd = fd
        self.requests = requests
        self.gone = threading.Event()
        """Set when the kernel has ended the connection."""
        self.stopping = False
        self.watchdog = Watchdog(self, requests.driver.options.timeout_s)
        self._wanted = workers
        self._lock = threading.Lock()
        self._workers: set[Worker] = set()

    def start(self) -> None:
        """Start the workers and the watchdog."""
        self._start(self._wanted)
        self.watchdog.start()

    def _start(self, count: int) -> None:
        with self._lock:
            new = [Worker(self) for _ in range(min(count, MOST_WORKERS - len(self._workers)))]
            self._workers.update(new)
        for worker in new:
            worker.start()

    def calls(self) -> list[Call]:
        """What each worker is at."""
        with self._lock:
            return [worker.call for worker in self._workers]

    def start_spares(self) -> None:
        """All are busy: as many again."""
        self._start(len(self._workers))

    def may_leave(self, worker: Worker) -> bool:
        """Is *worker* one too many?  Then it no longer counts."""
        if len(self._workers) <= self._wanted and not self.stopping:
            return False
        with self._lock:
            free = sum(not other.call.overdue for other in self._workers)
            if free <= self._wanted and not self.stopping:
                return False
            self._workers.discard(worker)
            return True

    def left(self, worker: Worker) -> None:
        """*worker* ends, because the connection has."""
        with self._lock:
            self._workers.discard(worker)
        self.gone.set()

    def interrupt(self, unique: int) -> None:
        """The caller of request *unique* has got a signal."""
        self.watchdog.interrupted[unique] = time.monotonic()

    def stop(self) -> None:
        """Answer everything under way with an error; from now on nothing is served."""
        self.stopping = True
        for call in self.calls():
            if call.unique:
                call.overdue = True
                self.answer_for(call.unique, errno.ENOTCONN)

    def join(self, limit_s: float) -> bool:
        """Wait for the workers to end; say whether all did.  One that hangs is left behind."""
        end = time.monotonic() + limit_s
        with self._lock:
            workers = list(self._workers)
        for worker in workers:
            worker.join(max(0.0, end - time.monotonic()))
        self.watchdog.stop()
        return not any(worker.is_alive() for worker in workers)

    def answer_for(self, unique: int, number: int) -> bool:
        """Answer request *unique* with an error; False when it was answered already."""
        try:
            os.write(self.fd, error_reply(unique, number))
        except OSError:
            return False
        return True

    def __len__(self) -> int:
        return len(self._workers)


class Worker(threading.Thread):
    """Reads requests and answers them, one at a time."""

    def __init__(self, crew: Crew) -> None:
        super().__init__(daemon=True, name="archivefs-worker")
        self._crew = crew
        self._requests = crew.requests
        self._driver = crew.requests.driver
        self.call = Call(crew.requests.session.buffer_size)

    def run(self) -> None:
        crew, call, fd = self._crew, self.call, self._crew.fd
        buffers = [call.buffer]
        readv = os.readv
        while True:
            try:
                length = readv(fd, buffers)
            except OSError as error:
                if error.errno in READ_AGAIN:
                    continue
                break
            if not length:
                break
            self.serve(length)
            if crew.may_leave(self):
                return
        crew.left(self)

    def serve(self, length: int) -> None:
        """Answer the request of *length* bytes that is in the buffer."""
        call = self.call
        if length < IN_SIZE:
            log.warning("a request of %d bytes was ignored: it has no header", length)
            return
        announced, opcode, unique, call.nodeid = IN_START.unpack_from(call.buffer)
        call.length, call.opcode, call.unique = length, opcode, unique
        watchdog = self._crew.watchdog
        if watchdog.asleep:
            watchdog.wake()
        if opcode == Opcode.INTERRUPT and length >= IN_SIZE + INTERRUPT_IN.size:
            self._crew.interrupt(INTERRUPT_IN.unpack_from(call.buffer, IN_SIZE)[0])
        elif self._crew.stopping:
            self._send(error_reply(unique, errno.ENOTCONN))
        else:
            self._answer(length == announced)
        call.unique = 0
        if call.overdue:
            self._clear_overdue()
        if call.given:
            call.given = []
        call.handle = 0
        call.file = None

    def _answer(self, whole: bool) -> None:
        call = self.call
        handler = self._requests.handler(call.opcode)
        self._driver.counts[handler.name] += 1
        try:
            if not whole or call.length < handler.smallest:
                raise MalformedRequest("its length is wrong")
            reply = handler.answer(call)
        except MalformedRequest as error:
            log.warning("%s: a malformed request was refused: %s", handler.name, error)
            reply = error_reply(call.unique, errno.EINVAL)
        except Exception as error:
            self._requests.take_back(call)
            call.given, call.handle = [], 0
            reply = error_reply(call.unique, self._driver.explain(handler.name, error))
        if reply is not None and call.opcode not in UNANSWERED:
            self._send(reply)

    def _send(self, reply: Reply) -> None:
        try:
            if isinstance(reply, bytes):
                os.write(self._crew.fd, reply)
            elif reply is not None:
                os.writev(self._crew.fd, reply)
        except OSError as error:
            self._requests.take_back(self.call)
            # ENOENT: the watchdog was quicker, or the caller is gone.  ENODEV and the like: unmounted.
            if error.errno == errno.EINVAL:
                log.error("the kernel does not understand the answer to request %d", self.call.opcode)
                self._crew.answer_for(self.call.unique, errno.EIO)

    def _clear_overdue(self) -> None:
        call = self.call
        call.overdue = False
        self._requests.stuck.discard(call.nodeid)
        if call.file is not None:
            call.file.stuck = False


class _Seen(NamedTuple):
    """Since when the watchdog has seen a worker at one request."""

    unique: int
    since: float


class Watchdog(threading.Thread):
    """Answers for workers that hang, and starts others."""

    def __init__(self, crew: Crew, limit_s: float) -> None:
        super().__init__(daemon=True, name="archivefs-watchdog")
        self.asleep = False
        self.interrupted: dict[int, float] = {}
        self.chores: list[Callable[[], bool]] = []
        """Called at each tick; one that returns True has more to do, and keeps the watchdog awake."""
        self._crew = crew
        self._limit_s = limit_s
        self._tick_s = min(TICK_S, limit_s / 4)
        self._seen: dict[Call, _Seen] = {}
        self._alarm = threading.Event()
        self._stopped = False

    def run(self) -> None:
        while not self._stopped:
            if not self.look(time.monotonic()) and self._may_sleep():
                self._alarm.wait()
                self.asleep = False
                self._alarm.clear()
            else:
                time.sleep(self._tick_s)

    def _may_sleep(self) -> bool:
        """Nothing to do: sleep until a request comes.  One that came just now is seen by a second look."""
        self.asleep = True
        if any(call.unique for call in self._crew.calls()) or self._stopped:
            self.asleep = False
            return False
        return True

    def wake(self) -> None:
        """A request has come."""
        self._alarm.set()

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        self._alarm.set()

    def look(self, now: float) -> bool:
        """One look at all workers; say whether there is any reason for another one soon."""
        calls = self._crew.calls()
        seen: dict[Call, _Seen] = {}
        for call in calls:
            unique = call.unique
            before = self._seen.get(call)
            if unique:
                seen[call] = before if before is not None and before.unique == unique else _Seen(unique, now)
        self._seen = seen
        for call, (unique, since) in seen.items():
            self._judge(call, unique, now - since, now)
        if calls and len(seen) == len(calls) and all(now - one.since >= CROWDED_S for one in seen.values()):
            self._crew.start_spares()
        self._drop_old_interrupts(now)
        busy = [chore() for chore in self.chores]
        return bool(seen) or bool(self.interrupted) or any(busy)

    def _judge(self, call: Call, unique: int, age_s: float, now: float) -> None:
        if call.overdue:
            return
        if age_s >= self._limit_s:
            self._give_up(call, unique)
        elif now - self.interrupted.get(unique, now) >= INTERRUPT_GRACE_S:
            call.overdue = True
            if not self._crew.answer_for(unique, errno.EINTR):
                call.overdue = False

    def _give_up(self, call: Call, unique: int) -> None:
        """Answer in the worker's place.  Mark first: the worker clears the marks when it comes back."""
        requests, file, nodeid = self._crew.requests, call.file, call.nodeid
        name = requests.handler(call.opcode).name
        if call.opcode in STUCK_KINDS:
            requests.stuck.add(nodeid)
        if file is not None:
            file.stuck = True
        call.overdue = True
        if self._crew.answer_for(unique, errno.ETIMEDOUT):
            error = OperationTimedOut(f"no answer within {self._limit_s:g} s", member=f"inode {nodeid}")
            requests.driver.explain(name, error)
        if call.unique != unique:
            # It came back meanwhile, perhaps before it could see the marks.
            call.overdue = False
            requests.stuck.discard(nodeid)
            if file is not None:
                file.stuck = False

    def _drop_old_interrupts(self, now: float) -> None:
        if self.interrupted:
            under_way = {one.unique for one in self._seen.values()}
            for unique, since in list(self.interrupted.items()):
                if unique not in under_way and now - since > INTERRUPT_GRACE_S:
                    del self.interrupted[unique]
