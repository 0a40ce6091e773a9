"""Telling the service manager (systemd) how far a mount is, by its protocol: datagrams of NAME=VALUE lines."""

from __future__ import annotations

import os
from contextlib import suppress

from archivefs.errors import quoted

VARIABLE = "NOTIFY_SOCKET"
PATIENCE_S = 5.0
"""For a manager that does not read; longer than that it is not waited for."""


class ServiceManager:
    """Who started us, if that waits to be told; otherwise nothing happens."""

    def __init__(self, address: str) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address

    @classmethod
    def of_environment(cls) -> ServiceManager:
        """The one our environment names; what we start ourselves does not inherit it."""
        return cls(os.environ.pop(VARIABLE, ""))

    def tell(self, status: str, **values: object) -> None:
        """Send *values*, and one line for people; never raises."""
        if not self._address.startswith(("/", "\0")):
            return
        import socket

        lines = [*(f"{name}={value}" for name, value in values.items()), f"STATUS={quoted(status)}"]
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sending:
            sending.settimeout(PATIENCE_S)
            sending.sendto(os.fsencode("\n".join(lines)), os.fsencode(self._address))
