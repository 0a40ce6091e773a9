"""A running server for tests, and a client that says what it sends."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

READY_S = 30.0


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class Server:
    """A server as a process of its own."""

    def __init__(self, *arguments: Path | str) -> None:
        command = [sys.executable, "-m", "archivefs", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], READY_S)
        self.url = self.process.stdout.readline().decode().strip() if readable else ""
        if not self.url:
            self.process.kill()
            raise AssertionError(self.process.communicate()[1].decode())
        self.port = urlsplit(self.url).port

    def ask(self, path: str, method: str = "GET", headers: dict[str, str] | None = None) -> Answer:
        """Send a request as it is given: nothing is encoded, nothing is added."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=bool(headers and "Host" in headers))
            for name, value in (headers or {}).items():
                if value:
                    connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def end(self, *, by: int) -> tuple[int, str]:
        """Send a signal; gives the exit code and what it said."""
        self.process.send_signal(by)
        _, said = self.process.communicate(timeout=15)
        return self.process.returncode, said.decode()


@contextlib.contextmanager
def serving(*arguments: Path | str) -> Iterator[Server]:
    """A server that is gone afterwards."""
    server = Server(*arguments)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.communicate()


def query(path: str, **parameters: object) -> str:
    """A path with parameters, encoded as a browser would."""
    return path + "?" + "&".join(f"{name}={quote(str(value), safe='')}" for name, value in parameters.items())
