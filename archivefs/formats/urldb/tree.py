"""A URL database as a tree of records (specification 4): a directory a domain, a file a record.

Front-ends use it through ``archivefs.tree``.  Threading: nothing here changes but the table of set times and the kept
listings, which have a lock; the database, the scratch files and the table of nodes have locks of their own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping

from archivefs.errors import TreeReadOnly
from archivefs.format import Opening
from archivefs.formats.urldb import naming
from archivefs.formats.urldb.database import Database
from archivefs.formats.urldb.domainfile import DomainFile
from archivefs.formats.urldb.files import DatabaseFile
from archivefs.formats.urldb.folders import RootFolder
from archivefs.formats.urldb.limits import from_options
from archivefs.formats.urldb.nodetable import Key, NodeTable
from archivefs.formats.urldb.records import KNOWN_KEYS, shown_value
from archivefs.formats.urldb.scratch import ScratchFiles
from archivefs.formats.urldb.store import Store
from archivefs.staging.access import require_writable
from archivefs.tree import Capture, Directory, Entry, Kind, Tree, Usage
from archivefs.urlnames import split_url

LISTINGS_KEPT = 64
MAX_XATTR = 65536


class UrldbTree(Tree):
    """The records of a URL database."""

    immutable = False

    def __init__(self, path: str, opening: Opening) -> None:
        self.database = Database(path, from_options(opening.options))
        self.writable = opening.read_write
        if self.writable:
            require_writable(path, path)
        self.scratch = ScratchFiles()
        self.nodes = NodeTable(self)
        self.store = Store(self.database, self.scratch, self.nodes)
        self._lock = threading.Lock()
        self._times: dict[Key, int] = {}
        self._listings: dict[Key, tuple[tuple[int, int, int], list[Entry]]] = {}
        self._root = RootFolder(self, ("root",), 1)

    def root(self) -> Directory:
        return self._root

    def generation(self) -> int:
        self.database.refresh()
        return self.database.generation

    def usage(self) -> Usage:
        domains = self.database.domains()
        state = os.statvfs(self.database.path)
        size = sum(domain.stamp.size for domain in domains)
        return Usage(size, state.f_bavail * state.f_frsize, sum(len(domain.by_path) for domain in domains))

    def facts(self) -> Mapping[str, object]:
        domains = self.database.domains()
        return {
            "domains": len(domains),
            "aliases": len(self.database.aliases()),
            "records": sum(len(domain.by_path) for domain in domains),
            "not shown": sum(len(self.database.hidden(name)) for name in self.database.names()),
        }

    def close(self) -> None:
        """No descriptor is held."""

    # -- URLs --

    def captures(self, url: str) -> Iterator[Capture]:
        """The record of a URL."""
        pieces = split_url(url)
        if pieces.top.lower() not in ("http", "https") or not pieces.directories:
            return
        domain = self.database.domain_of_host(pieces.directories[0])
        path = url[len(pieces.top) + len("://") + len(pieces.directories[0]) :]
        if domain is not None and self.store.exists(("record", domain.name, path)):
            parts = (domain.name, *naming.names_of(path))
            yield Capture(self.nodes.get(("record", domain.name, path), DatabaseFile), parts, facts={"path": path})

    def xattrs_of(self, key: Key) -> Mapping[str, bytes]:
        """The attributes of a file: those of a record."""
        domain = self.database.find(key[1]) if key[0] == "record" else None
        number = domain.by_path.get(key[2]) if isinstance(domain, DomainFile) else None
        if not isinstance(domain, DomainFile) or number is None:
            return {}
        url = f"{domain.metadata.scheme}://{domain.name}{key[2]}"
        found = {"user.xdg.origin.url": url, "user.archivefs.path": key[2]}
        record = domain.record(number)
        for name in KNOWN_KEYS:
            value = shown_value(record.get(name))
            if value is not None:
                found[f"user.archivefs.{name}"] = value
        encoded = {name: value.encode("utf-8", "replace") for name, value in found.items()}
        return {name: value for name, value in encoded.items() if len(value) <= MAX_XATTR}

    # -- times --

    def mtime_ns(self, key: Key) -> int:
        """When something changed: as somebody has set it, or as its domain's file says."""
        found = self._times.get(key)
        if found is not None:
            return found
        if key[0] == "scratch":
            scratch = self.scratch.find((key[1], key[2]), key[3])
            return scratch.mtime_ns if scratch else 0
        if key[0] in ("root", "rawdir"):
            return max((domain.stamp.mtime_ns for domain in self.database.domains()), default=0)
        name = self.database.aliases().get(key[1], "") if key[0] == "alias" else key[1]
        file = self.database.find(name)
        return file.stamp.mtime_ns if file is not None else 0

    def set_mtime(self, key: Key, mtime_ns: int) -> None:
        """Keep a time until unmount."""
        if not self.writable:
            raise TreeReadOnly
        with self._lock:
            self._times[key] = mtime_ns

    def forget_mtime(self, key: Key) -> None:
        """What had that time is gone, or changed."""
        with self._lock:
            self._times.pop(key, None)

    def move_mtime(self, key: Key, to: Key) -> None:
        """A renamed file keeps its time."""
        with self._lock:
            found = self._times.pop(key, None)
            if found is not None:
                self._times[to] = found

    # -- listings --

    def listing(self, key: Key, make: Callable[[], dict[str, Kind]]) -> list[Entry]:
        """A directory's entries by name, made anew only when something has changed."""
        self.database.refresh()
        state = (self.database.version, self.scratch.version, self.store.version)
        found = self._listings.get(key)
        if found is None or found[0] != state:
            entries = [Entry(name, kind) for name, kind in sorted(make().items())]
            found = (state, entries)
            with self._lock:
                if len(self._listings) >= LISTINGS_KEPT:
                    self._listings.clear()
                self._listings[key] = found
        return found[1]
