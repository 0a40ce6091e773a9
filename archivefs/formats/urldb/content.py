"""``view=content``: the URLs of a database with what an archive holds for them, as a site (specification 4.2).

A domain is looked up in the archive whole, when it is first visited; it is done again when the database has changed.
Threading: one lock guards the table of domains, whose views never change once they are made.
"""

from __future__ import annotations

import hashlib
import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping

from archivefs.errors import ArchiveError, BadOption, LimitExceeded, NotFound, UsageError
from archivefs.format import LEAVE_OUT_RW, Opening
from archivefs.formats.urldb.answers import ArchiveSite, CaptureAnswer, follow
from archivefs.formats.urldb.contentnames import ContentNames
from archivefs.formats.urldb.database import Database
from archivefs.formats.urldb.domainfile import DomainFile
from archivefs.formats.urldb.limits import from_options
from archivefs.options import MEBIBYTE
from archivefs.readers import BytesReader
from archivefs.tree import (
    MAX_IDENT,
    ROOT_IDENT,
    Attributes,
    Capture,
    Directory,
    Entry,
    File,
    Kind,
    Reader,
    Symlink,
    Tree,
)
from archivefs.urlnames import split_url

MISSING = "^missing.txt"
MAX_DECODED = 64 * MEBIBYTE


def open_content(path: str, opening: Opening) -> Tree:
    """The database at *path*, joined with the archive that ``join`` names; raises BadOption and the like."""
    other = opening.options.get("join")
    if not other:
        raise BadOption("view=content needs an archive", advice="add join=ARCHIVE")
    if opening.read_write:
        raise UsageError("view=content cannot be written", archive=path, advice=f"{LEAVE_OUT_RW}, or view=content")
    if opening.open_other is None:
        raise UsageError("no other archive can be opened here", archive=path)
    database = Database(path, from_options(opening.options))
    single = len(database.names()) == 1
    return ContentTree(database, ArchiveSite(opening.open_other(other), bare_paths=single), opening)


def candidates(domain: DomainFile, path: str) -> Iterator[str]:
    """The URLs under which an archive may hold a record's content, the likeliest first."""
    schemes = ("https", "http") if domain.metadata.https else ("http", "https")
    for host in (domain.name, *domain.metadata.cnames):
        for scheme in schemes:
            yield f"{scheme}://{host}{path}"


class ContentTree(Tree):
    """Domains as sites."""

    immutable = False

    def __init__(self, database: Database, site: ArchiveSite, opening: Opening) -> None:
        self.database = database
        self.site = site
        self.cache = opening.cache
        self._lock = threading.Lock()
        self._views: dict[str, DomainView] = {}

    def root(self) -> Directory:
        return ContentRoot(self)

    def view(self, name: str) -> DomainView:
        """A domain, looked up in the archive; raises NotFound."""
        file = self.database.domain(name)
        with self._lock:
            view = self._views.get(name)
            if view is None or view.file is not file:
                view = self._views[name] = DomainView(self, file)
            return view

    def captures(self, url: str) -> Iterator[Capture]:
        """What the archive holds for a URL of the database."""
        pieces = split_url(url)
        if pieces.top.lower() not in ("http", "https") or not pieces.directories:
            return
        domain = self.database.domain_of_host(pieces.directories[0])
        path = url[len(pieces.top) + len("://") + len(pieces.directories[0]) :]
        answer = self.view(domain.name).hits.get(path) if domain is not None else None
        if domain is not None and answer is not None:
            view = self.view(domain.name)
            parts = (domain.name, *view.names.parts(path))
            yield Capture(
                view.file_node(path), parts, answer.status, tuple(answer.capture.headers), answer.capture.time_ns
            )

    def generation(self) -> int:
        self.database.refresh()
        return self.database.generation + self.site.tree.generation()

    def facts(self) -> Mapping[str, object]:
        return {"domains": len(self.database.names()), "aliases": len(self.database.aliases())}

    def close(self) -> None:
        self.site.tree.close()


class DomainView:
    """What is shown of one domain."""

    def __init__(self, tree: ContentTree, file: DomainFile) -> None:
        self.tree = tree
        self.file = file
        self.hits: dict[str, CaptureAnswer] = {}
        missing = []
        for path in file.sorted_paths:
            answer = self._look_up(path)
            if answer is None:
                missing.append(f"{file.metadata.scheme}://{file.name}{path}\n")
            else:
                self.hits[path] = answer
        self.missing = "".join(missing).encode("utf-8", "surrogateescape")
        self.names = ContentNames({path: answer.content_type for path, answer in self.hits.items()})
        self._sizes: dict[str, int] = {}

    def _look_up(self, path: str) -> CaptureAnswer | None:
        for url in candidates(self.file, path):
            try:
                answer = follow(self.tree.site, self.tree.site.ask(url))
            except ArchiveError:
                continue
            if (
                isinstance(answer, CaptureAnswer)
                and 200 <= answer.status < 300
                and isinstance(answer.capture.node, File)
            ):
                return answer
        return None

    def file_node(self, path: str) -> ContentFile:
        """The file of a record."""
        return ContentFile(self, path)

    def decoded(self, path: str) -> bytes | None:
        """A body whose content coding was undone; None if it has none."""
        answer = self.hits[path]
        if not answer.headers.get("content-encoding"):
            return None
        return self.tree.cache.bytes_for((id(self), path), lambda: _joined(answer))

    def size(self, path: str) -> int:
        """How large a body is."""
        if path not in self._sizes:
            data = self.decoded(path)
            size = self.hits[path].capture.node.attributes().size if data is None else len(data)
            self._sizes[path] = size
        return self._sizes[path]


def _joined(answer: CaptureAnswer) -> bytes:
    pieces, size = [], 0
    try:
        for piece in answer.body():
            size += len(piece)
            if size > MAX_DECODED:
                raise LimitExceeded(f"larger than {MAX_DECODED} bytes when decoded", member=answer.url)
            pieces.append(piece)
    except LimitExceeded:
        raise
    except ArchiveError:
        return b"".join(answer.raw())  # a coding nobody knows: as it was sent
    return b"".join(pieces)


def _ident(*words: str) -> int:
    digest = hashlib.blake2b("\0".join(words).encode("utf-8", "surrogatepass"), digest_size=6).digest()
    return min(max(int.from_bytes(digest, "big"), ROOT_IDENT + 1), MAX_IDENT - 1)


class ContentFile(File):
    """The content of one URL."""

    __slots__ = ("ident", "path", "tree", "view")

    def __init__(self, view: DomainView, path: str) -> None:
        self.tree: Tree = view.tree
        self.view = view
        self.path = path
        self.ident = _ident("file", view.file.name, path)

    def attributes(self) -> Attributes:
        capture = self.view.hits[self.path].capture
        inner = capture.node.attributes()
        mtime_ns = capture.time_ns if capture.time_ns is not None else inner.mtime_ns
        return Attributes(self.view.size(self.path), mtime_ns, inner.version)

    def xattrs(self) -> Mapping[str, bytes]:
        file = self.view.file
        url = f"{file.metadata.scheme}://{file.name}{self.path}".encode("utf-8", "surrogateescape")
        found = {"user.xdg.origin.url": url, "user.archivefs.path": self.path.encode("utf-8", "surrogateescape")}
        return {name: value for name, value in found.items() if len(value) <= 65536}

    def open(self) -> Reader:
        data = self.view.decoded(self.path)
        if data is not None:
            return BytesReader(data, mtime_ns=self.attributes().mtime_ns)
        node = self.view.hits[self.path].capture.node
        assert isinstance(node, File)
        return node.open()


class MissingFile(File):
    """``^missing.txt``: the URLs for which the archive holds nothing."""

    __slots__ = ("ident", "tree", "view")

    def __init__(self, view: DomainView) -> None:
        self.tree: Tree = view.tree
        self.view = view
        self.ident = _ident("missing", view.file.name)

    def attributes(self) -> Attributes:
        return Attributes(len(self.view.missing), self.view.file.stamp.mtime_ns)

    def open(self) -> Reader:
        return BytesReader(self.view.missing, mtime_ns=self.view.file.stamp.mtime_ns)


class ContentFolder(Directory):
    """A directory of a domain's site."""

    __slots__ = ("ident", "name", "prefix", "tree")

    def __init__(self, tree: ContentTree, name: str, prefix: str) -> None:
        self.tree: ContentTree = tree
        self.name = name
        self.prefix = prefix
        self.ident = _ident("dir", name, prefix)

    def attributes(self) -> Attributes:
        return Attributes(mtime_ns=self.tree.database.domain(self.name).stamp.mtime_ns)

    def child(self, name: str) -> ContentFolder | ContentFile | MissingFile:
        view = self.tree.view(self.name)
        if name == MISSING and self.prefix == "/" and view.missing:
            return MissingFile(view)
        found = view.names.find(self.prefix, name)
        if found is None:
            raise NotFound(member=name)
        where, is_directory = found
        return ContentFolder(self.tree, self.name, where) if is_directory else ContentFile(view, where)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        view = self.tree.view(self.name)
        listed = [(name, Kind.DIRECTORY if is_dir else Kind.FILE) for name, is_dir in view.names.listed(self.prefix)]
        if self.prefix == "/" and view.missing:
            listed = sorted([*listed, (MISSING, Kind.FILE)])
        start = bisect_right(listed, after, key=lambda item: item[0]) if after is not None else 0
        yield from (Entry(name, kind) for name, kind in listed[start:])


class AliasLink(Symlink):
    """A cname."""

    __slots__ = ("ident", "name", "tree")

    def __init__(self, tree: ContentTree, name: str) -> None:
        self.tree: ContentTree = tree
        self.name = name
        self.ident = _ident("alias", name)

    def target(self) -> str:
        found = self.tree.database.aliases().get(self.name)
        if found is None:
            raise NotFound(member=self.name)
        return found

    def attributes(self) -> Attributes:
        return Attributes(len(self.target().encode()))


class ContentRoot(Directory):
    """All domains."""

    __slots__ = ("ident", "tree")

    def __init__(self, tree: ContentTree) -> None:
        self.tree: ContentTree = tree
        self.ident = ROOT_IDENT

    def attributes(self) -> Attributes:
        return Attributes(mtime_ns=max((file.stamp.mtime_ns for file in self.tree.database.domains()), default=0))

    def child(self, name: str) -> ContentFolder | AliasLink:
        if isinstance(self.tree.database.find(name), DomainFile):
            return ContentFolder(self.tree, name, "/")
        if name in self.tree.database.aliases():
            return AliasLink(self.tree, name)
        raise NotFound(member=name)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        found = dict.fromkeys(self.tree.database.aliases(), Kind.SYMLINK)
        found.update((domain.name, Kind.DIRECTORY) for domain in self.tree.database.domains())
        for name in sorted(found):
            if after is None or name > after:
                yield Entry(name, found[name])
