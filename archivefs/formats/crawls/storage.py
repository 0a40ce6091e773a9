"""Storage: the folders of crawl archives, what is in them now, and the archives that are open.

Used by the tree, the HTTP API and the commands.  A scan reads names and sizes and opens nothing; it is repeated at once
when a folder has changed, and otherwise about twice a second, so that an archive rewritten in place is noticed too.
What an archive says of itself is read once for each state (name, size, time) of its file.

Any thread may call anything: one lock guards the tables and is not held while an archive is read.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from archivefs.errors import ArchiveError, NotFound, SourceChanged, UnreadableArchive, quoted
from archivefs.formats.crawls.archive import CrawlArchive
from archivefs.formats.crawls.metadata import Metadata
from archivefs.formats.crawls.naming import SUFFIX, CrawlName, parse_file_name, why_not

LOG = logging.getLogger(__name__)

SUBFOLDERS = ("crawls", "crawl_results", os.path.join("reports", "crawls"))
"""Where each revision keeps its archives; of equal ids the first folder's counts."""
TEMPORARY = ".archivefs-new"
"""How a file that is being written ends; such a file begins with a dot and is never shown."""
MIN_INTERVAL_S, MAX_INTERVAL_S = 0.4, 0.9
SCAN_SHARE = 10
"""A scan is not repeated before ten times the time it took has passed, within the two bounds above."""
UNSURE_S = 1.0
"""A folder changed so short ago may change again without another time."""
MAX_OPEN = 64
MAX_OPEN_WEIGHT = 64 << 20
MAX_FACTS_BYTES = 64 << 20


class State(NamedTuple):
    """What tells one content of a file from another."""

    size: int
    mtime_ns: int
    inode: int


class Item(NamedTuple):
    """A file that is a crawl by its name."""

    name: CrawlName
    path: str
    state: State

    @property
    def crawl_id(self) -> str:
        """The name without ``.zip``."""
        return self.name.crawl_id


class Odd(NamedTuple):
    """A file that is none by its name, or no file at all."""

    file_name: str
    path: str
    reason: str
    state: State | None
    """None for what is no regular file."""


class Facts(NamedTuple):
    """What an archive says of itself."""

    metadata: Metadata | None
    """None if it is unreadable."""
    reason: str
    """Why, then; one line."""
    map_files: tuple[str, ...] = ()

    @property
    def weight(self) -> int:
        """What it takes in memory, about."""
        values = self.metadata.data.values() if self.metadata else ()
        texts = [value for value in values if isinstance(value, str)]
        return 1000 + sum(map(len, texts)) + sum(map(len, self.map_files)) + 60 * len(self.map_files)


@dataclass(frozen=True)
class Snapshot:
    """What is in the folders, newest first everywhere."""

    items: Sequence[Item] = ()
    odd: Sequence[Odd] = ()
    by_id: dict[str, Item] = field(default_factory=dict)
    by_domain: dict[str, list[Item]] = field(default_factory=dict)
    by_date: dict[str, list[Item]] = field(default_factory=dict)
    by_action: dict[str, list[Item]] = field(default_factory=dict)
    number: int = 0
    """Another one for every content."""


class Storage:
    """The archives below one path."""

    def __init__(self, path: str, *, subfolders: bool | None = None) -> None:
        """*path* is the storage, or the folder of archives itself; raises UnreadableArchive if it is neither."""
        self.path = path
        if not os.path.isdir(path):
            raise UnreadableArchive("no such folder", archive=path)
        if subfolders is None:
            subfolders = has_subfolders(path) or not holds_archives(path)
        self.folders = tuple(os.path.join(path, name) for name in SUBFOLDERS) if subfolders else (path,)
        self._lock = threading.RLock()
        self._snapshot = Snapshot()
        self._times: tuple[object, ...] = ()
        self._scanned_at = -1e9
        self._scan_took = 0.0
        self._changes = 0
        self._open: OrderedDict[tuple[str, State], CrawlArchive] = OrderedDict()
        self._facts: OrderedDict[tuple[str, State], Facts] = OrderedDict()
        self._facts_weight = 0

    def close(self) -> None:
        """Close what is open; readers stay good."""
        with self._lock:
            archives = list(self._open.values())
            self._open.clear()
        for archive in archives:
            archive.close()

    @property
    def new_folder(self) -> str:
        """Where new archives are put."""
        return self.folders[0]

    # -- what is there --

    def snapshot(self) -> Snapshot:
        """What is there now; at most a second old."""
        with self._lock:
            times = tuple(_time_of(folder) for folder in self.folders)
            age = time.monotonic() - self._scanned_at
            interval = min(max(MIN_INTERVAL_S, SCAN_SHARE * self._scan_took), MAX_INTERVAL_S)
            if times != self._times or age > interval:
                self._scan(times)
            return self._snapshot

    def changed(self) -> None:
        """We have changed something ourselves: look again.

        That is a new generation all the same: one archive stands under many names, and whoever asked for the change
        knows of only one of them.
        """
        with self._lock:
            self._changes += 1
            self._scan(tuple(_time_of(folder) for folder in self.folders))

    def refresh(self) -> None:
        """Something is not as the last scan saw it: look again now."""
        with self._lock:
            self._scan(tuple(_time_of(folder) for folder in self.folders))

    def generation(self) -> int:
        """Grows when something has changed."""
        self.snapshot()
        return self._changes

    def item(self, crawl_id: str) -> Item:
        """The archive of that id; raises NotFound."""
        try:
            return self.snapshot().by_id[crawl_id]
        except KeyError:
            raise NotFound(member=crawl_id) from None

    def _scan(self, times: tuple[object, ...]) -> None:
        begun = time.monotonic()
        items: dict[str, Item] = {}
        odd: list[Odd] = []
        for folder in self.folders:
            for found in _scanned(folder):
                if isinstance(found, Item):
                    items.setdefault(found.crawl_id, found)
                else:
                    odd.append(found)
        ordered = sorted(items.values(), key=lambda item: item.crawl_id, reverse=True)
        odd.sort(key=lambda found: found.file_name)
        if ordered != self._snapshot.items or odd != self._snapshot.odd:
            if self._times:
                self._changes += 1
            self._snapshot = _arranged(ordered, odd, self._snapshot.number + 1)
        self._times = times
        self._scanned_at = time.monotonic()
        self._scan_took = self._scanned_at - begun

    # -- archives --

    def archive(self, item: Item) -> CrawlArchive:
        """The opened archive; raises UnreadableArchive, CorruptArchive, or SourceChanged if it is another one now."""
        key = (item.path, item.state)
        with self._lock:
            found = self._open.get(key)
            if found is not None:
                if state_of(os.fstat(found.directory.fd)) != item.state:
                    raise SourceChanged(archive=item.path)
                self._open.move_to_end(key)
                return found
        fd = open_regular(item.path)
        if state_of(os.fstat(fd)) != item.state:
            os.close(fd)
            raise SourceChanged(archive=item.path)
        return self._keep(key, CrawlArchive(item.path, item.name, fd=fd))

    def facts(self, item: Item) -> Facts:
        """What the archive says of itself, read once."""
        key = (item.path, item.state)
        with self._lock:
            facts = self._facts.get(key)
        if facts is None:
            facts = self._read_facts(item)
            with self._lock:
                self._facts[key] = facts
                self._facts_weight += facts.weight
                while len(self._facts) > 1 and self._facts_weight > MAX_FACTS_BYTES:
                    self._facts_weight -= self._facts.popitem(last=False)[1].weight
        return facts

    def readable(self, items: Sequence[Item]) -> Iterator[tuple[Item, Facts]]:
        """Those that can be read, with what they say; each is opened when it is asked for."""
        for item in items:
            facts = self.facts(item)
            if facts.metadata is not None:
                yield item, facts

    def _read_facts(self, item: Item) -> Facts:
        try:
            # not kept open: there may be ten thousand
            fd = open_regular(item.path)
            archive = CrawlArchive(item.path, item.name, fd=fd)
        except ArchiveError as error:
            return Facts(None, one_line(error))
        try:
            return Facts(archive.metadata().short(), "", tuple(archive.map_files()))
        except ArchiveError as error:
            return Facts(None, one_line(error))
        finally:
            archive.close()

    def _keep(self, key: tuple[str, State], archive: CrawlArchive) -> CrawlArchive:
        with self._lock:
            other = self._open.get(key)
            if other is not None:
                archive.close()
                return other
            self._open[key] = archive
            while len(self._open) > 1 and (
                len(self._open) > MAX_OPEN or sum(kept.weight for kept in self._open.values()) > MAX_OPEN_WEIGHT
            ):
                self._open.popitem(last=False)[1].close()
        return archive


def has_subfolders(path: str) -> bool:
    """Is it a storage: is there one of the folders that archives are kept in?"""
    return any(os.path.isdir(os.path.join(path, name)) for name in SUBFOLDERS)


def holds_archives(path: str) -> bool:
    """Is it a folder of archives: called so, or with nothing but crawls among its zips?"""
    parts = os.path.normpath(path).split(os.sep)
    if parts[-1] in SUBFOLDERS[:2]:
        return True
    with os.scandir(path) as entries:
        zips = [entry.name for entry in entries if entry.name.endswith(SUFFIX)]
    return bool(zips) and all(parse_file_name(name) for name in zips)


def open_regular(path: str) -> int:
    """A descriptor of a regular file, never through a link; raises UnreadableArchive, and NotFound if it is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise NotFound(archive=path) from None
    except OSError as error:
        raise UnreadableArchive(f"cannot be opened: {error.strerror}", archive=path) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UnreadableArchive("not a regular file", archive=path)
    return fd


def state_of(status: os.stat_result) -> State:
    """What tells this content of a file from another."""
    return State(status.st_size, status.st_mtime_ns, status.st_ino)


def one_line(error: ArchiveError) -> str:
    """What is wrong, without the path of the archive."""
    member = quoted(error.member) if error.member else ""
    return quoted(f"{member}: {error.problem}" if member else error.problem)


def _arranged(items: Sequence[Item], odd: Sequence[Odd], number: int) -> Snapshot:
    made = Snapshot(items=items, odd=odd, number=number)
    for item in items:
        name = item.name
        made.by_id[name.crawl_id] = item
        made.by_domain.setdefault(name.domain_id, []).append(item)
        made.by_date.setdefault(name.date, []).append(item)
        made.by_action.setdefault(name.action, []).append(item)
    return made


def _scanned(folder: str) -> Iterator[Item | Odd]:
    try:
        entries = os.scandir(folder)
    except OSError:
        return  # it is not there, or not any more
    with entries:
        for entry in entries:
            try:
                found = _seen(entry)
            except OSError:
                continue  # it has just gone
            if found is not None:
                yield found


def _seen(entry: os.DirEntry[str]) -> Item | Odd | None:
    name = entry.name
    if name.startswith(".") and name.endswith(TEMPORARY):
        return None
    if not entry.is_file(follow_symlinks=False):
        if not name.endswith(SUFFIX):
            return None
        what = "a symbolic link" if entry.is_symlink() else "a folder" if entry.is_dir() else "no regular file"
        return Odd(name, entry.path, f"not a crawl archive: it is {what}", None)
    state = state_of(entry.stat(follow_symlinks=False))
    crawl = parse_file_name(name)
    return Item(crawl, entry.path, state) if crawl else Odd(name, entry.path, why_not(name), state)


def _time_of(folder: str) -> object:
    try:
        status = os.stat(folder)
    except OSError:
        return None
    # A change within the same tick of the clock leaves the same time: while that may be, every look is another.
    age = time.time() - status.st_mtime
    return (status.st_ino, status.st_mtime_ns, int(age * 4) if 0 <= age < UNSURE_S else None)
