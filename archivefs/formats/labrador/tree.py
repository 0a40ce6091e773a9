"""LabradorTree: a site in one zip, as a tree of files.

The tree is made from the manifest and never from the zip's directory: suppressed files are not in the zip, and
what is there without a record is not shown.  Idents are dense: directories first, then the shown records, in
the order of ``manifest.py``, so a number leads back to its node without any table.

Any thread may call anything.  Nothing changes after opening except what is made when first needed: the names of a
directory, kept for large ones and in the shared cache for small ones.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from urllib.parse import quote, unquote

from archivefs.errors import CorruptMember, NotFound
from archivefs.format import Opening
from archivefs.formats.labrador import contents as states
from archivefs.formats.labrador.container import EXTMIME, Container
from archivefs.formats.labrador.contents import Contents, Place
from archivefs.formats.labrador.externals import External, Supply, open_external
from archivefs.formats.labrador.keys import is_index, url_path
from archivefs.formats.labrador.manifest import ROOT, Manifest
from archivefs.formats.labrador.naming import Names
from archivefs.formats.labrador.readers import CheckedReader, SiteReader
from archivefs.readers import BytesReader
from archivefs.tree import (
    ROOT_IDENT,
    Attributes,
    Capture,
    Directory,
    Entry,
    File,
    Node,
    Parts,
    Reader,
    Tree,
    Usage,
)
from archivefs.zips.directory import MAX_SIZE, ZipDirectory
from archivefs.zips.index import IndexFolder

LARGE_DIRECTORY = 256
"""From this many children on the names are kept for good: to make them again at each look-up would be slow."""
MAX_XATTR_BYTES = 65536
_PART = "manifest"
_SAFE_IN_PATHS = "/~!$&'()*+,;=:@"


class LabradorTree(Tree):
    """An opened Labrador archive."""

    leads_back = True

    def __init__(self, path: str, opening: Opening) -> None:
        self._opening = opening
        self._cache = opening.cache
        self._check = bool(opening.options.get("check"))
        self._base_url = str(opening.options.get("base_url") or "").rstrip("/")
        self._lock = threading.Lock()
        self._large: dict[int, Names] = {}
        self._usage: Usage | None = None
        self._externals: list[External] = []
        self._directory = self.directory = ZipDirectory.open(path, index=IndexFolder.chosen(opening.index))
        try:
            self.container = Container(self._directory)
            self.manifest = open_manifest(self.container)
            self.contents = Contents(self.container, self.manifest)
            self.types = self.container.types()
            for external in opening.externals:
                self._externals.append(open_external(external, self._cache, self._missing))
        except BaseException:
            self.close()
            raise

    # -- the contract --

    def root(self) -> Directory:
        return SiteDirectory(self, ROOT)

    def node(self, ident: int) -> Node:
        number = ident - ROOT_IDENT
        directories = self.manifest.directories
        if 0 <= number < directories:
            return SiteDirectory(self, number)
        if directories <= number < directories + self.manifest.shown:
            return SiteFile(self, number - directories)
        raise NotFound

    def usage(self) -> Usage:
        if self._usage is None:
            stored = sum(map(self._directory.size, range(len(self._directory))))
            files = self.manifest.directories + self.manifest.shown
            self._usage = Usage(size=min(stored, MAX_SIZE), files=files)
        return self._usage

    def extras(self) -> Mapping[str, Callable[[], Reader]]:
        mtime_ns = self.container.mtime_ns
        extras: dict[str, Callable[[], Reader]] = {
            "manifest": lambda: BytesReader(self.manifest.data[:], mtime_ns=mtime_ns),
        }
        member = self.container.find_special(EXTMIME)
        if member is not None:
            attributes = Attributes(self._directory.size(member), mtime_ns)
            extras["extmime"] = lambda: SiteReader(self.container.open(member, self._cache), attributes)
        return extras

    def facts(self) -> Mapping[str, object]:
        manifest = self.manifest
        size = 0
        by_state: Counter[str] = Counter()
        by_type: Counter[str] = Counter()
        for record in range(manifest.shown):
            place = self.contents.place_of(record)
            by_state[place.state] += 1
            by_type[self.types.type_of(manifest.name(record))] += 1
            size += self.attributes_of(record, place).size
        facts: dict[str, object] = {
            "files": manifest.shown,
            "directories": manifest.directories - 1,
            "site_size": size,
            "states": {state: by_state[state] for state in states.STATES if by_state[state]},
            "types": dict(sorted(by_type.items(), key=lambda item: (-item[1], item[0]))),
        }
        left_out = len(manifest) - manifest.shown + manifest.repeated
        return {**facts, "left_out": left_out} if left_out else facts

    def close(self) -> None:
        for external in self._externals:
            external.close()
        self._externals = []
        self._directory.close()
        self._cache.forget(self._directory.cache_owner)

    # -- sites --

    def captures(self, url: str) -> Iterator[Capture]:
        """The files at *url*: a path under the site's root, or a whole URL below ``base_url``."""
        for path in self._paths(url):
            found = list(self._captures_at(path))
            if found:
                yield from found
                return

    def _paths(self, url: str) -> Iterator[str]:
        """What *url* may mean, the likeliest first.  Names may hold "%" and "?", so the text itself comes first."""
        if self._base_url and url.startswith(self._base_url):
            rest = re.split("[?#]", url[len(self._base_url) :])[0]
            if rest[:1] in ("", "/"):
                yield unquote(rest or "/", errors="surrogateescape")
        elif url:
            path = url if url.startswith("/") else "/" + url
            yield path
            if "%" in path:
                yield unquote(path, errors="surrogateescape")

    def _captures_at(self, path: str) -> Iterator[Capture]:
        *directories, last = path.split("/")[1:]
        here: int = ROOT
        parts: Parts = ()
        for name in directories:
            names = self.names(here)
            child = next((child for child in names.meant(name) if names.directory(child) is not None), None)
            if child is None:
                return
            here = names.directory(child) or ROOT
            parts = (*parts, names.shown(child))
        names = self.names(here)
        for child in names.meant(last) if last else names.indexes:
            if names.directory(child) is None:
                yield self._capture(names.record(child), (*parts, names.shown(child)))

    def _capture(self, record: int, parts: Parts) -> Capture:
        place = self.contents.place_of(record)
        facts = {"key": self.manifest.key(record), "state": place.state, "digest": self.manifest.digest(record)}
        return Capture(SiteFile(self, record), parts, facts=facts)

    # -- for the nodes --

    def names(self, directory: int) -> Names:
        """The names in a directory."""
        names = self._large.get(directory)
        if names is not None:
            return names
        children = len(self.manifest.places(directory)) + len(self.manifest.files(directory))
        if children >= LARGE_DIRECTORY:
            with self._lock:
                if directory not in self._large:
                    self._large[directory] = Names(self.manifest, directory)
                return self._large[directory]
        key = (self._directory.cache_owner, "names", directory)
        names = self._cache.get(key)
        if names is None:
            names = Names(self.manifest, directory)
            self._cache.put(key, names, 500 + 8 * children)
        return names

    def child(self, names: Names, child: int) -> Node:
        """The node of a child."""
        number = names.directory(child)
        return SiteFile(self, names.record(child)) if number is None else SiteDirectory(self, number)

    def attributes_of(self, record: int, place: Place) -> Attributes:
        """Size, time and version of a record's file; nothing but size 0 is known of one that is not there."""
        if place.member is not None:
            crc = self._directory.crc(place.member)
            return Attributes(self._directory.size(place.member), self.container.mtime_ns, crc)
        supply = self._supply(record) if place.state == states.EXTERNAL else None
        if supply is None:
            return Attributes(0, self.container.mtime_ns)
        return Attributes(supply.size, self.container.mtime_ns, supply.version)

    def open_record(self, record: int) -> Reader:
        """Open a record's content; raises CorruptMember where nobody has it."""
        place = self.contents.place_of(record)
        attributes = self.attributes_of(record, place)
        digest = self.manifest.digest(record)
        inner = self._open_place(record, place)
        if self._check and digest:
            key = self.manifest.key(record)
            return _closing(inner, lambda: CheckedReader(inner, attributes, digest=digest, member=key))
        return SiteReader(inner, attributes)

    def _open_place(self, record: int, place: Place) -> Reader:
        if place.member is not None:
            return self.container.open(place.member, self._cache)
        if place.state == states.EMPTY:
            return BytesReader(b"")
        supply = self._supply(record)
        if supply is None:
            problem = "its content is not in this archive"
            advice = "name the archive or folder that has it with --external"
            raise CorruptMember(problem, archive=self._directory.path, member=self.manifest.key(record), advice=advice)
        return supply.open()

    def xattrs_of(self, record: int) -> Mapping[str, bytes]:
        """What the format knows of a record."""
        manifest = self.manifest
        name = manifest.name(record)
        values = {
            "user.xdg.origin.url": self.url_of(record),
            "user.mime_type": self.types.type_of(name),
            "user.archivefs.key": manifest.key(record),
            "user.archivefs.digest": manifest.digest(record),
            "user.archivefs.state": self.contents.place_of(record).state,
            "user.archivefs.index": "1" if is_index(name) else "0",
        }
        encoded = {attribute: value.encode() for attribute, value in values.items() if value is not None}
        return {attribute: value for attribute, value in encoded.items() if len(value) <= MAX_XATTR_BYTES}

    def url_of(self, record: int) -> str:
        """The record's URL path, or its whole URL where the site's is known."""
        return self.url_for(self.manifest.lower_key(record).decode("ascii"))

    def url_for(self, key: str) -> str:
        """The same for any lower-cased key."""
        path = url_path(key)
        return self._base_url + quote(path, safe=_SAFE_IN_PATHS) if self._base_url else path

    # -- taking the place of another --

    def reopened(self, path: str) -> LabradorTree:
        """Another archive, opened as this one was; what is left out of it is not looked for before ``succeed``."""
        return LabradorTree(path, replace(self._opening, externals=()))

    def succeed(self, old: LabradorTree, path: str) -> None:
        """This archive now has the *path* of *old*, and asks those that the old one has asked for what is left out."""
        self._directory.path = self._directory.source.path = self.manifest.archive = path
        self._externals, old._externals = old._externals, []

    # -- content that others have --

    def has_supply(self, record: int) -> bool:
        """Has one of the others the content of a record?"""
        return self._supply(record) is not None

    def _supply(self, record: int) -> Supply | None:
        digest = self.manifest.digest(record) if self._externals else None
        if digest is None:
            return None
        return next((supply for external in self._externals if (supply := external.find(digest))), None)

    def _missing(self) -> set[str]:
        """The digests of the records that nobody has so far."""
        missing = set()
        for record in range(self.manifest.shown):
            if self.contents.place_of(record).state == states.EXTERNAL and not self._supply(record):
                missing.add(self.manifest.digest(record) or "")
        return missing - {""}


class SiteDirectory(Directory):
    """A directory of the site: the manifest's of that number."""

    __slots__ = ("ident", "number", "tree")

    def __init__(self, tree: LabradorTree, number: int) -> None:
        self.tree: LabradorTree = tree
        self.number = number
        self.ident = ROOT_IDENT + number

    def attributes(self) -> Attributes:
        return Attributes(0, self.tree.container.mtime_ns)

    def child(self, name: str) -> Node:
        names = self.tree.names(self.number)
        child = names.find(name)
        if child is None:
            raise NotFound(member=name)
        return self.tree.child(names, child)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        names = self.tree.names(self.number)
        last = -1 if after is None else names.find(after)
        if last is None:  # nothing is ever removed, so this name was never listed
            return
        for child in range(last + 1, len(names)):
            node = self.tree.child(names, child)
            yield Entry(names.shown(child), node.kind, node.ident, node)


class SiteFile(File):
    """A file of the site: the manifest's record of that number."""

    __slots__ = ("ident", "record", "tree")

    def __init__(self, tree: LabradorTree, record: int) -> None:
        self.tree: LabradorTree = tree
        self.record = record
        self.ident = ROOT_IDENT + tree.manifest.directories + record

    def attributes(self) -> Attributes:
        return self.tree.attributes_of(self.record, self.tree.contents.place_of(self.record))

    def xattrs(self) -> Mapping[str, bytes]:
        return self.tree.xattrs_of(self.record)

    def open(self) -> Reader:
        return self.tree.open_record(self.record)


def open_manifest(container: Container) -> Manifest:
    """The archive's manifest, from the index where it is kept there; raises CorruptArchive and LimitExceeded."""
    directory = container.directory
    kept = directory.index.load(_PART) if directory.index else None
    if kept:
        return Manifest.recalled(kept, archive=directory.path)
    manifest = Manifest(container.manifest(), archive=directory.path)
    if directory.index and directory.index.worth(len(manifest)):
        directory.index.save(_PART, manifest.tables())
    return manifest


def _closing(inner: Reader, make: Callable[[], Reader]) -> Reader:
    """What *make* gives; if it fails, *inner* is closed."""
    try:
        return make()
    except BaseException:
        inner.close()
        raise
