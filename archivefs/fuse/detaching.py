"""Leaving the terminal: the mount goes on in a process of its own, and the one that was called waits until it is ready.

The order matters: fork first and open second, for neither threads nor SQLite connections survive a fork.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable

from archivefs.fuse.signals import SIGNALS, ignore

GIVE_UP_S = 15.0
"""How long a driver that was told to end is waited for: one whose disk hangs cannot, not even by SIGKILL."""


def detach() -> Callable[[], None]:
    """Go on in a process of its own; returns there, with what is to be called when the mount is ready.

    The process that was called waits and ends with 0 once the child is ready, or with the child's exit code when it
    ends before; signals go on to the child meanwhile.  The child keeps the terminal for messages until then.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    # A signal waits until there is somebody to hear it, and a child to pass it on to.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    child = os.fork()
    if child:
        os.close(writing)
        os._exit(_outcome(child, reading))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    os.close(reading)
    os.setsid()

    def ready() -> None:
        _leave_terminal()
        os.write(writing, b"\n")
        os.close(writing)

    return ready


def _outcome(child: int, reading: int) -> int:
    """0 when the child says it is ready, its exit code when it ends without a word, never 0 then.

    Signals go on to the child.  After one, a child that hangs where nothing can end it is not waited for any longer.
    """
    came = _passed_on()
    number = 0
    while True:
        found = select.select([reading, came], [], [], GIVE_UP_S if number else None)[0]
        if came not in found:
            break
        number = os.read(came, 1)[0]
        os.kill(child, number)
    signalled = 128 + number if number else 0
    if not found or os.read(reading, 1):
        return signalled
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return (code if code >= 0 else 128 - code) or signalled or 1


def _passed_on() -> int:
    """From now on signals are to be read here; one that was ignored, as by nohup, still is."""
    came, coming = os.pipe()
    os.set_blocking(coming, False)
    signal.set_wakeup_fd(coming)
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, ignore)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    return came


def _leave_terminal() -> None:
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    if null > 2:
        os.close(null)
