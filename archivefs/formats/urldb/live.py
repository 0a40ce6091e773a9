"""Asking a live server (specification 5).  Used by ``urldb add`` and ``urldb check`` and by nothing else.

The target is sent as it is stored: http.client changes nothing in it.  Every request has a time limit; nothing is
read from a body but what is asked for.  Threading: any thread may ask; each request has a connection of its own.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from archivefs.errors import UsageError
from archivefs.formats.urldb.answers import PIECE_BYTES, Answer, NoAnswer, Site, on_the_wire

TIMEOUT_S = 30.0
PORTS = {"http": 80, "https": 443}


class LiveSite(Site):
    """The network."""

    def __init__(
        self,
        *,
        hosts: Mapping[str, str] | None = None,
        connect: tuple[str, int] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._hosts = hosts or {}
        """Other hosts to ask, by host, also in the Host header."""
        self._connect = connect
        """Where every request is sent instead, in plain HTTP and with the original Host header."""
        self._timeout_s = timeout_s

    def ask(self, url: str) -> Answer:
        scheme, rest = url.split("://", 1)
        cut = min((at for at in map(rest.find, "/?#") if at >= 0), default=len(rest))
        authority, target = rest[:cut], rest[cut:].partition("#")[0]
        authority = self._hosts.get(authority.lower(), authority)
        connection = self._connection(scheme, authority)
        try:
            connection.putrequest("GET", on_the_wire(target) or "/", skip_host=True, skip_accept_encoding=True)
            connection.putheader("Host", authority.encode("idna") if not authority.isascii() else authority)
            connection.putheader("Accept-Encoding", "identity")
            connection.putheader("User-Agent", "archivefs")
            connection.putheader("Connection", "close")
            connection.endheaders()
            return LiveAnswer(url, connection, connection.getresponse())
        except (OSError, http.client.HTTPException, ValueError, UnicodeError) as error:
            connection.close()
            raise NoAnswer(_problem(error)) from None

    def _connection(self, scheme: str, authority: str) -> http.client.HTTPConnection:
        if self._connect is not None:
            return http.client.HTTPConnection(*self._connect, timeout=self._timeout_s)
        try:
            place = urlsplit(f"//{authority}")
            host, port = place.hostname or "", place.port or PORTS[scheme]
        except (ValueError, KeyError) as error:
            raise NoAnswer(f"{authority} is no address of a server: {error}") from None
        if scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=context)
        return http.client.HTTPConnection(host, port, timeout=self._timeout_s)


class LiveAnswer(Answer):
    """A response whose body is read from the network."""

    def __init__(self, url: str, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        super().__init__(url, response.status, response.getheaders())
        self._connection = connection
        self._response = response

    def raw(self) -> Iterator[bytes]:
        try:
            while piece := self._response.read(PIECE_BYTES):
                yield piece
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(_problem(error)) from None

    def close(self) -> None:
        self._response.close()
        self._connection.close()


def _problem(error: Exception) -> str:
    if isinstance(error, (socket.timeout, TimeoutError)):
        return "no answer in time"
    if isinstance(error, OSError):
        return f"no answer: {error.strerror or error}".lower()
    return f"no answer: {type(error).__name__}: {error}".rstrip(": ")


def parse_map(texts: tuple[str, ...]) -> dict[str, str]:
    """``HOST=OTHER[:PORT]`` …; raises UsageError."""
    found = {}
    for text in texts:
        host, equals, other = text.partition("=")
        if not (host and equals and other):
            raise UsageError(f"--map {text!r} makes no sense", advice="write HOST=OTHER or HOST=OTHER:PORT")
        found[host.lower()] = other
    return found


def parse_address(text: str) -> tuple[str, int]:
    """``HOST:PORT``; raises UsageError."""
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) < 65536):
        raise UsageError(f"--connect {text!r} makes no sense", advice="write HOST:PORT")
    return host.strip("[]"), int(port)
