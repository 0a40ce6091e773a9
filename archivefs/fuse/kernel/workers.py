"""The threads that read requests and answer them.

One worker is on duty: it reads the device, answers, and reads again.  Handing each request to a pool instead would
cost as much as a whole small read, and two threads that read at once fight over the interpreter's lock.  Another
worker takes over only while the one on duty is at something that takes long: a large read with more requests
waiting behind it, or anything at all that the watchdog finds still under way a moment later.  So hung reads never keep
others from being served.  A relieved worker waits for its turn when it is done, or leaves when enough do.

Threading: ``Crew`` guards its tables with one lock, never held while a tree is asked.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import threading
import time
from contextlib import suppress

from archivefs.fuse.kernel.calls import Call, MalformedRequest, Reply
from archivefs.fuse.kernel.protocol import (
    IN_SIZE,
    IN_START,
    ONLY_ATTRIBUTES,
    READ_IN,
    UNANSWERED,
    Opcode,
    error_reply,
    inode_notification,
)
from archivefs.fuse.kernel.requests import Requests
from archivefs.fuse.kernel.watchdog import Watchdog

log = logging.getLogger("archivefs.fuse")

WORKERS = min(4, os.cpu_count() or 1)
"""How many may read large pieces at the same time, and wait for their turn otherwise."""
MOST_WORKERS = 512
"""Hung ones included."""
LARGE_READ = 64 * 1024
READ_AGAIN = frozenset({errno.ENOENT, errno.EINTR, errno.EAGAIN})
"""The request was taken back before we read it, or there was none."""


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
        self._waiting: list[Worker] = []
        requests.forget_attributes = self._forget_attributes

    def start(self) -> None:
        """Put the first worker on duty."""
        first = Worker(self)
        with self._lock:
            self._workers.add(first)
        self.watchdog.start()
        first.start()

    def workers(self) -> list[Worker]:
        """All there are."""
        with self._lock:
            return list(self._workers)

    def relieve(self, worker: Worker, *, may_start: bool = False) -> None:
        """*worker* is at something that takes long: let another one read, started for it if *may_start*.

        Where many hang already, some more are let in for one request each, since the next ones may hang as well.
        """
        if worker.relieved:
            return
        with self._lock:
            if worker.relieved or self.gone.is_set():
                return
            most = MOST_WORKERS if may_start else self._wanted
            others = self._spare(most, 1)
            if not others:
                return
            worker.relieved = True
            if may_start:
                extra = self._spare(most, (len(self._workers) - len(self._waiting)) // 4)
                for other in extra:
                    other.relieved = True
                others += extra
        for other in others:
            other.go()

    def _spare(self, most: int, count: int) -> list[Worker]:
        """Up to *count* workers that wait for their turn, or new ones up to *most* in all.  Hold the lock."""
        found = [self._waiting.pop() for _ in range(min(count, len(self._waiting)))]
        new = [Worker(self) for _ in range(min(count - len(found), most - len(self._workers)))]
        self._workers.update(new)
        return found + new

    def await_turn(self, worker: Worker) -> bool:
        """*worker* has been relieved and is done: wait until it is needed.  False: it is not needed at all."""
        with self._lock:
            worker.relieved = False
            if self.gone.is_set() or len(self._waiting) >= self._wanted:
                self._workers.discard(worker)
                return False
            self._waiting.append(worker)
        worker.turn.acquire()
        return not self.gone.is_set()

    def end(self) -> None:
        """The connection has ended: so do those who wait."""
        with self._lock:
            self.gone.set()
            waiting, self._waiting = self._waiting, []
        for worker in waiting:
            worker.turn.release()

    def stop(self) -> None:
        """Answer everything under way with an error; from now on nothing is served."""
        self.stopping = True
        for worker in self.workers():
            unique = worker.call.unique
            if unique:
                worker.call.overdue = True
                self.answer_for(unique, errno.ENOTCONN)

    def join(self, limit_s: float) -> bool:
        """Wait for the workers to end; say whether all did.  One that is known to hang is not waited for."""
        end = time.monotonic() + limit_s
        workers = self.workers()
        for worker in workers:
            # One that was just made may not have been started yet.
            if worker.ident is not None and not worker.call.overdue:
                worker.join(max(0.0, end - time.monotonic()))
        self.watchdog.stop()
        return not any(worker.is_alive() for worker in workers)

    def send(self, reply: Reply) -> None:
        """Hand a reply to the kernel, all of it at once; raises OSError when that does not take it."""
        if isinstance(reply, bytes):
            os.write(self.fd, reply)
        elif reply is not None:
            os.writev(self.fd, reply)

    def _forget_attributes(self, nodeid: int) -> None:
        """Only attributes: for that the kernel takes no lock that a request could hold, so any worker may say it."""
        with suppress(OSError):
            self.send(inode_notification(nodeid, ONLY_ATTRIBUTES))

    def answer_for(self, unique: int, number: int) -> bool:
        """Answer request *unique* with an error; False when it was answered already."""
        try:
            self.send(error_reply(unique, number))
        except OSError:
            return False
        return True

    def __len__(self) -> int:
        return len(self._workers)


class Worker(threading.Thread):
    """Reads requests and answers them, one at a time."""

    def __init__(self, crew: Crew) -> None:
        super().__init__(daemon=True, name="archivefs-worker")
        self.call = Call(crew.requests.session.buffer_size)
        self.relieved = False
        """Another one has taken over: do not read again before being told to."""
        self.turn = threading.Semaphore(0)
        self._crew = crew
        self._requests = crew.requests
        self._driver = crew.requests.driver
        self._poll = select.poll()
        self._poll.register(crew.fd, select.POLLIN)

    def go(self) -> None:
        """It is this one's turn to read."""
        if self.ident is None:
            self.start()
        else:
            self.turn.release()

    def run(self) -> None:
        fd, buffers, readv, gone = self._crew.fd, [self.call.buffer], os.readv, self._crew.gone
        # Once the end has come the descriptor may be closed, and its number another's.
        while not gone.is_set():
            try:
                length = readv(fd, buffers)
            except OSError as error:
                if error.errno in READ_AGAIN:
                    continue
                break
            if not length:
                break
            self.serve(length)
            if self.relieved and not self._crew.await_turn(self):
                return
        self._crew.end()

    def serve(self, length: int) -> None:
        """Answer the request of *length* bytes that is in the buffer."""
        call, crew = self.call, self._crew
        if length < IN_SIZE:
            log.warning("a request of %d bytes was ignored: it has no header", length)
            return
        announced, opcode, unique, call.nodeid = IN_START.unpack_from(call.buffer)
        call.length, call.opcode, call.unique = length, opcode, unique
        if crew.watchdog.asleep:
            crew.watchdog.wake()
        if crew.stopping:
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
            if call.opcode == READ and READ_IN.unpack_from(call.buffer, IN_SIZE)[2] >= LARGE_READ:
                self._share()
            reply = handler.answer(call)
        except MalformedRequest as error:
            log.warning("%s: a malformed request was refused: %s", handler.name, error)
            reply = error_reply(call.unique, errno.EINVAL)
        except Exception as error:
            self._requests.take_back(call)
            call.given, call.handle = [], 0
            if self._crew.gone.is_set():
                return  # nobody waits, and what failed is most likely that all is being closed
            reply = error_reply(call.unique, self._driver.explain(handler.name, error))
        if reply is not None and call.opcode not in UNANSWERED:
            self._send(reply)

    def _share(self) -> None:
        """Let another one read if anything is waiting to be read."""
        if not self.relieved and self._poll.poll(0):
            self._crew.relieve(self)

    def _send(self, reply: Reply) -> None:
        try:
            self._crew.send(reply)
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


READ = int(Opcode.READ)
