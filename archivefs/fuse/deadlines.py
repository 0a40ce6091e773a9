"""Time limits for operations, where the transport has to return the answer itself.

A client of a driver that does not answer cannot even be killed, so no operation may wait for ever.  Each runs in a
worker thread while the caller waits, up to the limit; a worker that is stuck is left behind and replaced.

The kernel transport does not use this: there a watchdog can answer in another's place, at no cost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from archivefs.errors import OperationTimedOut

R = TypeVar("R")


class _Job:
    __slots__ = ("abandoned", "lock", "operation", "reply", "undo")

    def __init__(self, operation: Callable[[], Any], undo: Callable[[Any], object] | None) -> None:
        self.operation = operation
        self.undo = undo
        self.reply: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self.lock = threading.Lock()
        self.abandoned = False

    def run(self) -> None:
        result, error = None, None
        try:
            result = self.operation()
        except BaseException as caught:  # handed to the caller, whatever it is
            error = caught
        with self.lock:
            if not self.abandoned:
                self.reply.put((result, error))
                return
        if error is None and self.undo is not None:
            self.undo(result)


class Deadlines:
    """Runs operations under one time limit.  Thread-safe."""

    def __init__(self, limit_s: float, busy: Callable[[], bool] = lambda: False) -> None:
        self._limit_s = limit_s
        self._busy = busy
        """Is something under way for which operations rightly wait longer?"""
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[_Job]] = []
        self._waiting: set[_Job] = set()
        self._closed = False

    def run(self, operation: Callable[[], R], undo: Callable[[R], object] | None = None) -> R:
        """The result of *operation*, or OperationTimedOut; *undo* takes back a result that comes too late."""
        job = _Job(operation, undo)
        with self._lock:
            if self._closed:
                raise OperationTimedOut("the mount is being taken down")
            self._waiting.add(job)
            worker = self._idle.pop() if self._idle else None
        if worker is None:
            worker = self._start()
        worker.put(job)
        try:
            result, error = self._wait(job)
        finally:
            with self._lock:
                self._waiting.discard(job)
        if error is not None:
            raise error
        done: R = result
        return done

    def _wait(self, job: _Job) -> tuple[Any, BaseException | None]:
        while True:
            try:
                return job.reply.get(timeout=self._limit_s)
            except Empty:
                if self._busy():
                    continue
            with job.lock:
                # It may have come in this very moment; after this nobody puts it there any more.
                job.abandoned = job.reply.empty()
            if job.abandoned:
                raise OperationTimedOut(f"no answer within {self._limit_s:g} s")

    def close(self) -> None:
        """Answer everything that waits with an error, now; whatever comes later fails at once."""
        with self._lock:
            self._closed = True
            waiting = list(self._waiting)
        for job in waiting:
            with job.lock:
                job.abandoned = True
            job.reply.put((None, OperationTimedOut("the mount is being taken down")))

    def _start(self) -> SimpleQueue[_Job]:
        jobs: SimpleQueue[_Job] = SimpleQueue()
        threading.Thread(target=self._work, args=(jobs,), daemon=True, name="archivefs-operation").start()
        return jobs

    def _work(self, jobs: SimpleQueue[_Job]) -> None:
        while True:
            jobs.get().run()
            with self._lock:
                self._idle.append(jobs)
