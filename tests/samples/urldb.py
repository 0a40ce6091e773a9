"""URL databases, written by hand: for the tests, the README and the benchmark.

python -m tests.samples.urldb OUT [--rows N]     a small database, or one with N records in one domain

Also a loopback server that answers as the records say, or does not.  Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple


class Reply(NamedTuple):
    """What the server answers."""

    status: int = 200
    type: str = "text/html"
    body: bytes = b"<p>hello"
    location: str = ""
    coding: str = ""


LOGO = bytes(range(256)) * 3
LOGO_DIGEST = hashlib.sha256(LOGO).hexdigest()

HARBOUR = f"""---
cnames:
- ferries.example
- www.harbour.example
---
_path: /
content-type: text/html
---
_path: /about
categories:
- people
content-type: text/html
---
_path: /about/crew
content-type: text/html
---
_path: /about/crew/
content-type: text/html
---
_path: /logo.png
categories:
- graphics
- static
content-length: {len(LOGO)}
content-sha256: {LOGO_DIGEST}
content-type: image/png
---
_path: /old
content-type: X-301-Redirect
---
_path: /pier 7/ü
x-note: '12'
---
_path: /search?q=a/b&from=1
content-type: text/html
---
_path: /tide.yaml
---
_path: /tide.yaml/today
---
_path: /wreck
categories:
- deprecated
"""
MINIMAL = "---\n---\n_path: /\n"
SECURE = "---\ncase-sensitive-paths: false\nhttps: true\n---\n_path: /hello?Key=MiXed\ncontent-type: text/html\n"

DATABASE = {"harbour.example": HARBOUR, "minimal.example": MINIMAL, "secure.example:8443": SECURE}

REPLIES = {
    "harbour.example": {
        "/": Reply(),
        "/about": Reply(type="text/html; charset=utf-8"),
        "/about/crew": Reply(),
        "/about/crew/": Reply(),
        "/logo.png": Reply(type="image/png", body=LOGO),
        "/old": Reply(301, "", b"", "/about"),
        "/pier%207/%C3%BC": Reply(),
        "/search?q=a/b&from=1": Reply(),
        "/tide.yaml": Reply(204, "", b""),
        "/tide.yaml/today": Reply(302, "", b"", "/nowhere"),
        "/wreck": Reply(410),
    },
    "minimal.example": {"/": Reply()},
    "secure.example:8443": {"/hello?Key=MiXed": Reply()},
}


def write(folder: Path, files: Mapping[str, str | bytes] | None = None) -> Path:
    """A database with these domains."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (DATABASE if files is None else files).items():
        (folder / f"{name}.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def large(rows: int) -> str:
    """The file of a domain with many records."""
    paths = sorted(
        f"/d{i % 97:02d}/s{i % 1009:04d}/item{i:07d}.html" + (f"?n={i}" if i % 3 == 0 else "") for i in range(rows)
    )
    out = ["---\ncnames:\n- www.big.example\n"]
    for number, path in enumerate(paths):
        labels = "categories:\n- coreapp\n- frontend\n" if number % 5 == 0 else ""
        digest = "f" + hashlib.sha256(path.encode()).hexdigest()[1:]
        static = f"content-length: {number * 7}\ncontent-sha256: {digest}\n" if number % 2 == 0 else ""
        out.append(f"---\n_path: {path}\n{labels}{static}content-type: text/html\n")
    return "".join(out)


@contextlib.contextmanager
def served(replies: Mapping[str, Mapping[str, Reply]] = REPLIES) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A server on the loopback: its address, and the (Host, target) of every request so far."""
    seen: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            host, target = self.headers["Host"], self.requestline.split(" ")[1]
            seen.append((host, target))
            reply = replies.get(host, {}).get(target, Reply(404))
            self.send_response(reply.status)
            for name, value in (
                ("Content-Type", reply.type),
                ("Location", reply.location),
                ("Content-Encoding", reply.coding),
            ):
                if value:
                    self.send_header(name, value)
            if reply.status != 204:
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if reply.status != 204:
                self.wfile.write(reply.body)

        def log_message(self, *_words: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=0)
    given = parser.parse_args()
    write(given.out, {"big.example": large(given.rows)} if given.rows else None)


if __name__ == "__main__":
    main()
