"""Who hears the signals by which a mount is ended.  Only the main thread may ask for that."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

log = logging.getLogger("archivefs.fuse")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handlers = Mapping[signal.Signals, Any]
"""What is done at which signal, as ``signal.signal`` takes and gives it."""


def ignore(_number: int, _frame: object) -> None:
    """The number is in the pipe already."""


@contextmanager
def handled_by(handlers: Handlers) -> Iterator[Handlers]:
    """Let *handlers* have the signals for a while; gives what handled them before."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield before
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def deaf_once(handlers: Handlers) -> Iterator[None]:
    """A first signal does not end what is done here: somebody has unmounted, and changes are being saved.

    So a service that is stopped meanwhile, or a machine that is shut down, does not leave them for later.  A second
    one goes to *handlers*.
    """

    def told(number: int, _frame: object) -> None:
        for each, handler in handlers.items():
            signal.signal(each, handler)
        log.warning("%s: changes are being saved; a second signal ends that", signal.Signals(number).name)

    with handled_by(dict.fromkeys(SIGNALS, told)):
        yield
