"""What a transport is: a way to the kernel, under the one driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from archivefs.errors import MountRefused
from archivefs.fuse.driver import Driver


class TransportUnavailable(MountRefused):
    """This way to the kernel does not work here."""


class Transport(ABC):
    """Carries the kernel's questions to a driver and its answers back.

    ``serve`` runs in a thread of its own, so that the main thread can wait for signals; ``stop`` may be
    called from any thread, at any time, more than once.
    """

    name: ClassVar[str]

    def __init__(self, driver: Driver, mountpoint: str) -> None:
        self.driver = driver
        self.mountpoint = mountpoint
        driver.transport = self.name

    @abstractmethod
    def serve(self, ready: Callable[[], None]) -> None:
        """Mount, call *ready* when the mount can be used, and return when it is gone.  Raises MountRefused."""

    @abstractmethod
    def stop(self) -> None:
        """Answer what is under way with an error, and unmount, lazily where it is busy; ``serve`` then returns."""
