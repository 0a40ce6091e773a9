"""What a server, or an archive in its place, answers to a URL (specification 4.2 and 5); following redirects; bodies.

Threading: an ``ArchiveSite`` may be asked from any thread; an ``Answer`` belongs to the thread that asked.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import quote, urljoin

from archivefs.errors import ArchiveError, LimitExceeded, UnsupportedMember, UsageError
from archivefs.tree import Capture, File, Sites, Tree

MAX_REDIRECTS = 10
PIECE_BYTES = 1 << 16
MAX_BODY = 1 << 32
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SENT_AS_THEY_ARE = "!#$%&'()*+,/:;=?@[]~-._"


class NoAnswer(ArchiveError):
    """The server did not answer."""


class NotInArchive(ArchiveError):
    """Not in archive."""


class Answer(ABC):
    """One response: its status, its headers, and its body when it is asked for."""

    def __init__(self, url: str, status: int, headers: Sequence[tuple[str, str]]) -> None:
        self.url = url
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}

    @property
    def is_redirect(self) -> bool:
        """Does it send the client elsewhere?"""
        return self.status in REDIRECTS and "location" in self.headers

    @property
    def content_type(self) -> str:
        """The content type as it was sent."""
        return self.headers.get("content-type", "")

    @abstractmethod
    def raw(self) -> Iterator[bytes]:
        """The body as it was sent."""

    def body(self) -> Iterator[bytes]:
        """The body without its content coding; raises LimitExceeded, UnsupportedMember."""
        size = 0
        for piece in decoded(self.raw(), self.headers.get("content-encoding", "")):
            size += len(piece)
            if size > MAX_BODY:
                raise LimitExceeded(f"the body is larger than {MAX_BODY} bytes")
            yield piece

    @abstractmethod
    def close(self) -> None:
        """Give back what is held."""


class Site(ABC):
    """Who answers."""

    @abstractmethod
    def ask(self, url: str) -> Answer:
        """The answer to one request, no redirect followed; raises NoAnswer or NotInArchive."""


def follow(site: Site, answer: Answer) -> Answer:
    """The last answer of a chain of redirects; the answers before it are closed."""
    for _ in range(MAX_REDIRECTS):
        if not answer.is_redirect:
            return answer
        target = urljoin(answer.url, on_the_wire(answer.headers["location"]))
        answer.close()
        if not target.startswith(("http://", "https://")):
            raise NoAnswer(f"a redirect leads to {target}")
        answer = site.ask(target)
    if answer.is_redirect:
        answer.close()
        raise NoAnswer(f"more than {MAX_REDIRECTS} redirects")
    return answer


def on_the_wire(path: str) -> str:
    """A path as it is sent: verbatim, but for characters that cannot be in a URL."""
    return quote(path, safe=_SENT_AS_THEY_ARE)


# -- content codings --


def decoded(pieces: Iterator[bytes], coding: str) -> Iterator[bytes]:
    """A body without its content coding."""
    for name in reversed([name.strip().lower() for name in coding.split(",") if name.strip()]):
        if name in ("gzip", "x-gzip", "deflate"):
            pieces = _inflated(pieces)
        elif name != "identity":
            raise UnsupportedMember(f"the content coding {name} is not known")
    return pieces


def _inflated(pieces: Iterator[bytes]) -> Iterator[bytes]:
    first = next(pieces, b"")
    is_gzip, is_zlib = first.startswith(b"\x1f\x8b"), first[:1] == b"\x78"
    if not first or not (is_gzip or is_zlib or _is_deflate(first)):
        yield first  # somebody has undone the coding and left the header
        yield from pieces
        return
    machine = zlib.decompressobj(31 if is_gzip else 15 if is_zlib else -15)
    try:
        for piece in _chained(first, pieces):
            while piece:
                yield machine.decompress(piece, PIECE_BYTES)
                piece = machine.unconsumed_tail
        yield machine.flush()
    except zlib.error as error:
        raise UnsupportedMember(f"the body cannot be decoded: {error}") from None


def _is_deflate(first: bytes) -> bool:
    try:
        zlib.decompressobj(-15).decompress(first, 64)
    except zlib.error:
        return False
    return True


def _chained(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


# -- an archive in the place of a server --


class CaptureAnswer(Answer):
    """What an archive holds for a URL."""

    def __init__(self, url: str, capture: Capture) -> None:
        super().__init__(url, capture.status, capture.headers)
        self.capture = capture
        if "content-type" not in self.headers and 200 <= capture.status < 300:
            self._take_type(capture.node.xattrs().get("user.mime_type", b""))

    def _take_type(self, content_type: bytes) -> None:
        """An archive that keeps no headers may still know the type of its files."""
        if content_type:
            self.headers["content-type"] = content_type.decode("utf-8", "replace")

    def raw(self) -> Iterator[bytes]:
        node = self.capture.node
        if not isinstance(node, File):
            return
        reader, offset = node.open(), 0
        try:
            while piece := reader.read_at(offset, PIECE_BYTES):
                offset += len(piece)
                yield piece
        finally:
            reader.close()

    def close(self) -> None:
        """Nothing is held."""


class ArchiveSite(Site):
    """An archive that plays the server."""

    def __init__(self, tree: Tree, *, bare_paths: bool = False) -> None:
        if not isinstance(tree, Sites):
            tree.close()
            raise UsageError("this archive knows no URLs, so nothing can be looked up in it")
        self.tree: Tree = tree
        self._captures: Callable[[str], Iterator[Capture]] = tree.captures
        self._bare_paths = bare_paths
        """Some archives hold one site and do not know where it was; that is of use where there is only one domain."""

    def ask(self, url: str) -> Answer:
        for known in self._spellings(url):
            for capture in self._captures(known):
                if capture.status:
                    return CaptureAnswer(url, capture)
        raise NotInArchive("not in archive")

    def _spellings(self, url: str) -> Iterator[str]:
        yield url
        sent = on_the_wire(url)
        if sent != url:
            yield sent
        if self._bare_paths:
            yield "/" + url.partition("://")[2].partition("/")[2]
