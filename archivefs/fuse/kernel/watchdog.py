"""The watchdog: answers for a worker that hangs, and lets others in while one is slow.

It looks at the workers a hundred times a second while there is something to do, and sleeps otherwise:

* a worker that is at the same request as a moment ago is relieved: another one goes on reading the device;
* a request past the time limit is answered ETIMEDOUT in the worker's place.  The worker's own answer is refused by
  the kernel when it comes at last, and what that handed out is taken back;
* a request whose caller has got a signal is answered EINTR after a moment, so that Ctrl-C ends a hanging `cat`.

Threading: a thread of its own.  What it reads of a worker's ``Call`` is written by that worker only, apart from
``overdue``, which it sets before it answers and the worker clears after its own attempt.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from archivefs.errors import OperationTimedOut
from archivefs.fuse.kernel.calls import Call
from archivefs.fuse.kernel.protocol import Opcode

if TYPE_CHECKING:
    from archivefs.fuse.kernel.workers import Crew, Worker

TICK_S = 0.01
QUIET_TICKS = 50
"""After so many looks with nothing to see it sleeps until the next request."""
STALL_S = 0.1
"""Looks further apart than that mean that this process itself got no time (a busy machine, SIGSTOP): such time does not
count, since the workers had none either."""
CHORES_S = 1.0
INTERRUPT_GRACE_S = 1.0
"""A signal need not mean the end of its process, so a request that is soon answered is better answered in full."""
STUCK_KINDS = frozenset({Opcode.READ, Opcode.OPEN, Opcode.GETATTR})
"""Requests about one file: another one about the same file would hang as well."""


class _Seen(NamedTuple):
    """Since when a worker has been seen at one request."""

    unique: int
    since: float


class Watchdog(threading.Thread):
    """Looks after the workers of a crew."""

    def __init__(self, crew: Crew, limit_s: float) -> None:
        super().__init__(daemon=True, name="archivefs-watchdog")
        self.asleep = False
        self.chores: list[Callable[[], bool]] = []
        """Called about once a second; one that returns True has more to do and will be called again."""
        self._crew = crew
        self._interrupted = crew.requests.interrupted
        self._limit_s = limit_s
        self._tick_s = min(TICK_S, limit_s / 4)
        self._seen: dict[Worker, _Seen] = {}
        self._quiet = 0
        self._last_look = 0.0
        self._next_chores = 0.0
        self._alarm = threading.Event()
        self._stopped = False

    def run(self) -> None:
        while not self._stopped:
            self._quiet = 0 if self.look(time.monotonic()) else self._quiet + 1
            if self._quiet > QUIET_TICKS and self._may_sleep():
                more = self._do_chores()
                if self._alarm.wait(CHORES_S if more else None):
                    self._quiet = 0
                self.asleep = False
                self._alarm.clear()
            else:
                time.sleep(self._tick_s)

    def _may_sleep(self) -> bool:
        """Say that it sleeps, then look once more: a request that came meanwhile did not see that."""
        self.asleep = True
        if self._stopped or any(worker.call.unique for worker in self._crew.workers()):
            self.asleep = False
        return self.asleep

    def wake(self) -> None:
        """A request has come."""
        self._alarm.set()

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        self._alarm.set()

    def look(self, now: float) -> bool:
        """One look at all workers; say whether any of them, or an interrupted request, is worth another one soon."""
        seen: dict[Worker, _Seen] = {}
        lost_s = max(0.0, now - self._last_look - STALL_S)
        self._last_look = now
        for worker in self._crew.workers():
            unique = worker.call.unique
            if unique:
                before = self._seen.get(worker)
                known = before is not None and before.unique == unique
                seen[worker] = _Seen(unique, before.since + lost_s if before is not None and known else now)
                if known:
                    self._crew.relieve(worker, may_start=True)
                    self._judge(worker.call, seen[worker], now)
        self._seen = seen
        self._drop_old_interrupts(now)
        if now >= self._next_chores:
            self._next_chores = now + CHORES_S
            self._do_chores()
        return bool(seen) or bool(self._interrupted)

    def _do_chores(self) -> bool:
        return sum(chore() for chore in self.chores) > 0

    def _judge(self, call: Call, seen: _Seen, now: float) -> None:
        if call.overdue:
            return
        if now - seen.since >= self._limit_s and not self._crew.requests.driver.busy:
            self._give_up(call, seen.unique)
        elif now - self._interrupted.get(seen.unique, now) >= INTERRUPT_GRACE_S:
            call.overdue = True
            if not self._crew.answer_for(seen.unique, errno.EINTR):
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
        if self._interrupted:
            under_way = {one.unique for one in self._seen.values()}
            for unique, since in list(self._interrupted.items()):
                if unique not in under_way and now - since > INTERRUPT_GRACE_S:
                    del self._interrupted[unique]
