"""CrawlsTree: a storage of crawl archives as a folder, and CrawlTree: one archive alone.

    crawls/ archives/ domains/ dates/ actions/ views/ diffs/ index.csv index.json broken/

``crawls``, ``archives``, ``domains``, ``dates`` and ``actions`` go by file names and open nothing, but that listing a
domain looks for its newest good crawl.  ``index.*`` and ``broken`` open each archive once; views and differences are
made when somebody asks for the size of such a file.  The storage lives: what others add, replace or delete is noticed
within a second.  Any thread may call anything; what is shared guards itself (``storage.py``, ``products.py``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from archivefs.errors import NotFound, SourceChanged
from archivefs.format import Opening
from archivefs.formats.crawls import products, views
from archivefs.formats.crawls.archive import CrawlArchive
from archivefs.formats.crawls.broken import BrokenDirectory
from archivefs.formats.crawls.comparing import Comparer, Comparison
from archivefs.formats.crawls.idents import KnownTree
from archivefs.formats.crawls.naming import CrawlName, parse_file_name
from archivefs.formats.crawls.nodes import (
    NANO,
    Built,
    BuiltDirectory,
    FixedDirectory,
    Key,
    Link,
    ListDirectory,
    MemberFolder,
    ProductFile,
)
from archivefs.formats.crawls.storage import Item, Storage
from archivefs.formats.crawls.writing import ArchivesDirectory, Staging
from archivefs.tree import Directory, Entry, Kind, Node, Usage

MAX_LAYOUTS = 200
LATEST, LATEST_OK = "latest", "latest-ok"
BETWEEN = ".."


class CrawlsTree(KnownTree):
    """An opened storage."""

    immutable = False

    def __init__(self, path: str, opening: Opening) -> None:
        """Raises UnreadableArchive, and SourceBusy where somebody else has it mounted read-write."""
        super().__init__(opening.cache)
        self.storage = Storage(path)
        self.products = products.Products()
        self.safe_csv = bool(opening.options.get("safe_csv"))
        self.comparer = Comparer(self.storage, self.products, safe_csv=self.safe_csv)
        self.writable = opening.read_write
        self.staging = Staging(self.storage) if opening.read_write else None
        self._layouts: dict[object, Built] = {}

    def root(self) -> Directory:
        children: Mapping[str, Callable[[], Node]] = {
            "crawls": lambda: CrawlsDirectory(self, ("crawls",), self.newest_ns()),
            "archives": lambda: ArchivesDirectory(self, self.storage, self.staging, self.newest_ns()),
            "domains": lambda: DomainsDirectory(self, ("domains",), self.newest_ns()),
            "dates": lambda: GroupsDirectory(self, "dates"),
            "actions": lambda: GroupsDirectory(self, "actions"),
            "views": lambda: ViewsDirectory(self, ("views",), self.newest_ns()),
            "diffs": lambda: DiffsDirectory(self, ("diffs",), self.newest_ns()),
            "index.csv": lambda: self._index("index.csv"),
            "index.json": lambda: self._index("index.json"),
            "broken": lambda: BrokenDirectory(self, self.storage, self.newest_ns()),
        }
        return FixedDirectory(self, (), self.newest_ns(), children)

    def generation(self) -> int:
        return self.storage.generation()

    def usage(self) -> Usage:
        items = self.storage.snapshot().items
        return Usage(size=sum(item.state.size for item in items), files=len(items))

    def facts(self) -> Mapping[str, object]:
        snapshot = self.storage.snapshot()
        newest = snapshot.items[0].crawl_id if snapshot.items else None
        return {
            "crawls": len(snapshot.items),
            "size": sum(item.state.size for item in snapshot.items),
            "newest": newest,
            "domains": {domain: len(snapshot.by_domain[domain]) for domain in sorted(snapshot.by_domain)},
            "not crawls": len(snapshot.odd),
        }

    def sync(self) -> None:
        """Names are made durable as they are changed."""

    def close(self) -> None:
        self.storage.close()
        self.products.clear()
        if self.staging is not None:
            self.staging.close()

    # -- for the directories --

    def newest_ns(self) -> int:
        """The time of the newest crawl: the directories above all of them have it."""
        items = self.storage.snapshot().items
        return items[0].name.time_s * NANO if items else 0

    def archive(self, crawl_id: str) -> CrawlArchive:
        """The opened archive of that id; raises NotFound and what opening raises."""
        try:
            return self.storage.archive(self.storage.item(crawl_id))
        except SourceChanged:
            self.storage.refresh()
            return self.storage.archive(self.storage.item(crawl_id))

    def layout(self, key: object, make: Callable[[], Built]) -> Built:
        """A layout that is kept for a while."""
        found = self._layouts.get(key)
        if found is None:
            found = make()
            if len(self._layouts) >= MAX_LAYOUTS:
                self._layouts.clear()
            self._layouts[key] = found
        return found

    def _index(self, name: str) -> Node:
        snapshot = self.storage.snapshot()
        key = (name, snapshot.number)
        write = views.write_index_csv if name.endswith(".csv") else views.write_index_json
        mtime_ns = max((item.state.mtime_ns for item in snapshot.items), default=0)
        return ProductFile(
            self,
            key,
            mtime_ns,
            lambda: self.products.get(key, lambda made: write(self.storage, snapshot, made, safe=self.safe_csv)),
            version=snapshot.number,
        )


class CrawlTree(KnownTree):
    """One archive, mounted alone: what ``crawls/<crawl_id>/`` would show.  A snapshot: its file stays open."""

    def __init__(self, path: str, opening: Opening) -> None:
        """Raises UnreadableArchive or CorruptArchive."""
        super().__init__(opening.cache)
        self._name: CrawlName | None = parse_file_name(os.path.basename(path))
        self._archive = CrawlArchive(path, self._name)

    def root(self) -> Directory:
        mtime_ns = self._name.time_s * NANO if self._name else self._archive.directory.source.mtime_ns
        return MemberFolder(self, (), mtime_ns, lambda: self._archive)

    def usage(self) -> Usage:
        members = self._archive.members
        return Usage(size=sum(map(self._archive.directory.size, members.values())), files=len(members))

    def facts(self) -> Mapping[str, object]:
        data = self._archive.metadata().data
        shown = ("domain_id", "action", "scope", "mode", "source_id", "started_utc", "finished_utc", "ok", "error")
        facts: dict[str, object] = {"crawl_id": self._name.crawl_id if self._name else None}
        facts |= {name: data[name] for name in shown if name in data}
        return {**facts, "map_files": len(self._archive.map_files()), "warnings": self._archive.warnings}

    def close(self) -> None:
        self._archive.close()
        self.cache.forget(self._archive.directory.cache_owner)


# -- by id --


class ByIdDirectory(ListDirectory):
    """A directory with one child for each crawl."""

    __slots__ = ()
    tree: CrawlsTree

    def items(self) -> Sequence[Item]:
        """The crawls that are listed, newest first."""
        return self.tree.storage.snapshot().items

    def names(self) -> Sequence[str]:
        return [item.crawl_id for item in self.items()]

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        for item in self.items():
            if after is None or item.crawl_id < after:
                node = self.node(item)
                yield Entry(item.crawl_id, node.kind, node.ident, node)

    def child(self, name: str) -> Node:
        return self.node(self.tree.storage.item(name))

    def node(self, item: Item) -> Node:
        """The child for a crawl."""
        raise NotImplementedError


class CrawlsDirectory(ByIdDirectory):
    """``crawls/``: the members of every archive; rmdir deletes an archive."""

    __slots__ = ()

    def node(self, item: Item) -> Node:
        tree, crawl_id = self.tree, item.crawl_id
        return MemberFolder(tree, (*self.key, crawl_id), item.name.time_s * NANO, lambda: tree.archive(crawl_id))

    def remove(self, name: str, *, kind: Kind) -> None:
        item = self.tree.storage.item(name)
        if self.tree.staging is None or kind is not Kind.DIRECTORY:
            self.refuse()
        self.tree.staging.delete(item)


class ViewsDirectory(ByIdDirectory):
    """``views/``: the map files of every archive as JSON and HTML."""

    __slots__ = ()

    def node(self, item: Item) -> Node:
        tree, key = self.tree, (*self.key, item.crawl_id)

        def layout() -> Built:
            now = tree.storage.item(item.crawl_id)
            return tree.layout(("views", now), lambda: views.layout(tree, tree.storage, tree.products, now, key))

        return BuiltDirectory(tree, key, item.name.time_s * NANO, layout)


class LinksDirectory(ByIdDirectory):
    """A link for each crawl of a group, such as all of a day."""

    __slots__ = ("_items",)
    inner = Kind.SYMLINK

    def __init__(self, tree: CrawlsTree, key: Key, mtime_ns: int, items: Callable[[], Sequence[Item]]) -> None:
        super().__init__(tree, key, mtime_ns)
        self._items = items

    def items(self) -> Sequence[Item]:
        return self._items()

    def child(self, name: str) -> Node:
        for item in self._items():
            if item.crawl_id == name:
                return self.node(item)
        raise NotFound(member=name)

    def node(self, item: Item) -> Node:
        return self.link(item.crawl_id, item)

    def link(self, name: str, item: Item) -> Link:
        """A link of that name to a crawl."""
        return Link(self.tree, (*self.key, name), item.name.time_s * NANO, f"../../crawls/{item.crawl_id}")


class GroupsDirectory(ListDirectory):
    """``dates/`` and ``actions/``."""

    __slots__ = ("_what",)
    tree: CrawlsTree

    def __init__(self, tree: CrawlsTree, what: str) -> None:
        super().__init__(tree, (what,), tree.newest_ns())
        self._what = what

    def _groups(self) -> Mapping[str, Sequence[Item]]:
        snapshot = self.tree.storage.snapshot()
        return snapshot.by_date if self._what == "dates" else snapshot.by_action

    def names(self) -> Sequence[str]:
        return sorted(self._groups(), reverse=True)

    def child(self, name: str) -> Node:
        items = self._groups().get(name)
        if not items:
            raise NotFound(member=name)
        newest_ns = items[0].name.time_s * NANO
        return LinksDirectory(self.tree, (*self.key, name), newest_ns, lambda: self._groups().get(name, ()))


class DomainsDirectory(ListDirectory):
    """``domains/``."""

    __slots__ = ()
    newest_first = False
    tree: CrawlsTree

    def names(self) -> Sequence[str]:
        return sorted(self.tree.storage.snapshot().by_domain)

    def child(self, name: str) -> Node:
        items = self.items(name)
        if not items:
            raise NotFound(member=name)
        return DomainDirectory(self.tree, (*self.key, name), items[0].name.time_s * NANO, lambda: self.items(name))

    def items(self, name: str) -> Sequence[Item]:
        """The crawls of a domain, newest first."""
        return self.tree.storage.snapshot().by_domain.get(name, ())


class DomainDirectory(LinksDirectory):
    """The crawls of one domain, and links to the newest and to the newest good one, which end the listing."""

    __slots__ = ()

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        if after not in (LATEST, LATEST_OK):
            yield from super().entries(after)
            yield Entry(LATEST, Kind.SYMLINK)
        if after != LATEST_OK and self._newest_ok() is not None:
            yield Entry(LATEST_OK, Kind.SYMLINK)

    def child(self, name: str) -> Node:
        item = self._special(name)
        return self.link(name, item) if item is not None else super().child(name)

    def _special(self, name: str) -> Item | None:
        if name == LATEST:
            return next(iter(self._items()), None)
        return self._newest_ok() if name == LATEST_OK else None

    def _newest_ok(self) -> Item | None:
        for item, facts in self.tree.storage.readable(self._items()):
            if facts.metadata is not None and facts.metadata.ok is True:
                return item
        return None


# -- differences --


class DiffsDirectory(DomainsDirectory):
    """``diffs/``."""

    __slots__ = ()

    def child(self, name: str) -> Node:
        items = self.items(name)
        if not items:
            raise NotFound(member=name)
        return DiffDomainDirectory(self.tree, (*self.key, name), items[0].name.time_s * NANO, lambda: self.items(name))


class DiffDomainDirectory(LinksDirectory):
    """The differences of one domain: the newest is listed; any other crawl, and any pair, opens by name."""

    __slots__ = ()
    inner = Kind.DIRECTORY

    def items(self) -> Sequence[Item]:
        return self._items()[:1]

    def child(self, name: str) -> Node:
        domain = self.key[-1]
        by_id = self.tree.storage.snapshot().by_id
        item = by_id.get(name)
        if item is not None and item.name.domain_id == domain:
            return self.node(item)
        for old, new in _pairs(name, by_id):
            if domain in (old.name.domain_id, new.name.domain_id):
                return self._directory(name, new, self._between(old, new))
        raise NotFound(member=name)

    def _between(self, old: Item, new: Item) -> Callable[[], Comparison]:
        tree = self.tree
        return lambda: tree.comparer.between(tree.storage.item(old.crawl_id), tree.storage.item(new.crawl_id))

    def node(self, item: Item) -> Node:
        tree, crawl_id = self.tree, item.crawl_id
        return self._directory(crawl_id, item, lambda: tree.comparer.with_previous(tree.storage.item(crawl_id)))

    def _directory(self, name: str, item: Item, compare: Callable[[], Comparison]) -> Node:
        tree, key, mtime_ns = self.tree, (*self.key, name), item.name.time_s * NANO

        def layout() -> Built:
            number = tree.storage.snapshot().number
            make = lambda: views.diff_layout(tree, tree.comparer, compare(), key, mtime_ns)  # noqa: E731
            return tree.layout(("diffs", key, number), make)

        return BuiltDirectory(tree, key, mtime_ns, layout)


def _pairs(name: str, by_id: Mapping[str, Item]) -> Sequence[tuple[Item, Item]]:
    """The two crawls that ``A..B`` names.  A domain may hold two dots itself, so every place is tried."""
    found = []
    at = name.find(BETWEEN)
    while at >= 0:
        old, new = by_id.get(name[:at]), by_id.get(name[at + len(BETWEEN) :])
        if old is not None and new is not None:
            found.append((old, new))
        at = name.find(BETWEEN, at + 1)
    return found
