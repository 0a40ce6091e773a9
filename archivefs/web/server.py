"""A loopback HTTP server for a format's own interface: Starlette for the messages, uvicorn for the connections.

Imported only by ``archivefs … serve``; needs the extra ``archivefs[web]``.  The handler is plain and runs in threads,
so that a slow archive does not hold up others.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import uvicorn
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from archivefs.format import WebAnswer, WebHandler, WebRequest

HOST = "127.0.0.1"
GRACE_S = 3
"""How long requests under way may take at the end."""


class Application:
    """The handler as an ASGI application."""

    def __init__(self, handle: WebHandler) -> None:
        self._handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        answer = await run_in_threadpool(self._handle, _plain(request))
        await _response(answer)(scope, receive, send)


def _plain(request: Request) -> WebRequest:
    query = request.scope["query_string"].decode("latin-1")
    return WebRequest(request.method, request.scope["path"], query, dict(request.headers.items()))


def _response(answer: WebAnswer) -> Response:
    headers = {**answer.headers, "Content-Length": str(answer.length)}
    return StreamingResponse(iterate_in_threadpool(answer.pieces), answer.status, headers=headers)


class Server(uvicorn.Server):
    """Ends quietly on SIGTERM and SIGINT, where uvicorn would raise the signal again."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals for as long as it runs."""
        numbers = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(handle: WebHandler, *, port: int, announce: Callable[[str], None]) -> None:
    """Serve until told to end; *announce* is called with the URL as soon as the socket listens."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen(128)
        _log_to_stderr()
        config = uvicorn.Config(
            Application(handle),
            log_config=None,
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=GRACE_S,
        )
        announce(f"http://{HOST}:{listening.getsockname()[1]}/")
        Server(config).run(sockets=[listening])
    finally:
        listening.close()


def _log_to_stderr() -> None:
    logger = logging.getLogger("uvicorn")
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
