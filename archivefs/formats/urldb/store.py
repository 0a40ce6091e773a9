"""What the files of a tree hold and what becomes of changes to them, by key (specification 4.3).

Threading: one lock guards what is pending or hidden; changes of the database itself go through its own lock.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from archivefs.errors import ContentRefused, NotFound, NotPermitted, StaleNode, quoted
from archivefs.formats.urldb import canonical, edits
from archivefs.formats.urldb.database import Database
from archivefs.formats.urldb.domainfile import DomainFile, parse_bytes
from archivefs.formats.urldb.layout import BOM, scan, text_start
from archivefs.formats.urldb.limits import Limits
from archivefs.formats.urldb.lint import ERROR, lint_file
from archivefs.formats.urldb.naming import prefix_of
from archivefs.formats.urldb.nodetable import Key, KeyedNode
from archivefs.formats.urldb.records import PATH, SUFFIX, path_problem, with_path
from archivefs.formats.urldb.scratch import LIMIT, Scratch, ScratchFiles
from archivefs.formats.urldb.values import Mapping, Refused, Scalar, is_null

if TYPE_CHECKING:
    from archivefs.formats.urldb.nodetable import NodeTable

log = logging.getLogger("archivefs.formats.urldb")


class Store:
    """Reads and writes files by what they stand for."""

    def __init__(self, database: Database, scratch: ScratchFiles, nodes: NodeTable) -> None:
        self._database = database
        self._scratch = scratch
        self._nodes = nodes
        self._lock = threading.RLock()
        self._pending: dict[Key, KeyedNode] = {}
        """Created, open, and not yet anything that could be stored."""
        self.hidden: set[Key] = set()
        """Renamed to a scratch name, as editors do before they write the file anew: still stored, but not shown."""
        self.version = 0

    # -- looking --

    def exists(self, key: Key) -> bool:
        """Is it there, or about to be?"""
        return key in self._pending or (key not in self.hidden and self._is_stored(key))

    def _is_stored(self, key: Key) -> bool:
        if key[0] == "scratch":
            return self._scratch.find((key[1], key[2]), key[3]) is not None
        file = self._database.find(key[1])
        return isinstance(file, DomainFile) and (key[0] != "record" or key[2] in file.by_path)

    def is_pending(self, key: Key) -> bool:
        """Was it created, and never saved?"""
        return key in self._pending

    def pending_paths(self, domain: str, prefix: str) -> list[str]:
        """Records in a directory that were created and not saved."""
        with self._lock:
            keys = [key for key in self._pending if key[0] == "record" and key[1] == domain]
        return [key[2] for key in keys if prefix_of(key[2]) == prefix]

    def pending_raw(self) -> list[str]:
        """Raw files that were created and not saved."""
        with self._lock:
            return [key[1] for key in self._pending if key[0] == "raw"]

    def read(self, key: Key) -> bytes:
        """What a file holds; raises StaleNode when it is gone."""
        if key in self._pending:
            return b""
        if key[0] == "scratch":
            scratch = self._scratch.find((key[1], key[2]), key[3])
            if scratch is None:
                raise StaleNode(member=key[3])
            return bytes(scratch.data)
        try:
            domain = self._database.domain(key[1])
            if key[0] == "record":
                return domain.text(domain.by_path[key[2]])
        except (KeyError, NotFound):
            raise StaleNode(member=key[-1]) from None
        if key[0] == "raw":
            return domain.data
        return domain.text(0) if domain.first and domain.layout.starts else b""

    # -- writing --

    def limit(self, key: Key) -> int:
        """How large a file may become while it is written."""
        limits = self._database.limits
        return limits.file if key[0] == "raw" else LIMIT if key[0] == "scratch" else 2 * limits.document

    def reserve(self, key: Key, size: int) -> None:
        """Scratch is bounded as a whole; raises OutOfSpace."""
        if key[0] == "scratch":
            with self._scratch.lock:
                self._scratch.reserve(size)
                self._scratch.reserve(-size)

    def create(self, key: Key, node: KeyedNode) -> None:
        """A new file that holds nothing yet."""
        if key[0] == "scratch":
            self._scratch.add((key[1], key[2]), key[3], Scratch())
            return
        with self._lock:
            self._pending[key] = node
            self.version += 1

    def finished(self, key: Key) -> None:
        """Its writer is gone; what was never saved is no file."""
        with self._lock:
            node = self._pending.pop(key, None)
            if node is not None:
                self._nodes.removed(key)
                node.dropped = True
                self.version += 1

    def revive(self, node: KeyedNode) -> None:
        """A file that was dropped is opened again by one who has not noticed; raises StaleNode."""
        with self._lock:
            if not node.dropped or self.exists(node.key):
                raise StaleNode(member=node.key[-1])
            self._nodes.adopt(node)
            self._pending[node.key] = node
            self.version += 1

    def save(self, key: Key, data: bytes, *, mtime_ns: int | None = None) -> None:
        """Make *data* the content of a file; raises ContentRefused, and then nothing has changed."""
        try:
            self._save(key, data, mtime_ns)
        except ContentRefused as error:
            log.warning("%s", quoted(f"not saved: {error}"))
            raise
        with self._lock:
            self._pending.pop(key, None)
            self.hidden.discard(key)
            self.version += 1

    def _save(self, key: Key, data: bytes, mtime_ns: int | None) -> None:
        limits = self._database.limits
        if key[0] == "scratch":
            self._save_scratch(key, data, mtime_ns)
        elif key[0] == "record":
            record = record_from(data, key[2], limits)
            self._database.change(key[1], lambda domain: edits.put(domain, record), mtime_ns=mtime_ns)
        elif key[0] == "meta":
            metadata = metadata_from(data, limits, f"{key[1]}/^domain{SUFFIX}")
            self._database.change(key[1], lambda domain: edits.set_metadata(domain, metadata), mtime_ns=mtime_ns)
        else:
            check_raw(key[1], data, limits)
            self._database.create(key[1], data, mtime_ns=mtime_ns)

    def _save_scratch(self, key: Key, data: bytes, mtime_ns: int | None) -> None:
        place, name = (key[1], key[2]), key[3]
        with self._scratch.lock:
            old = self._scratch.find(place, name)
            if old is None:
                return  # removed while it was open
            made = Scratch(
                bytearray(data),
                mtime_ns or time.time_ns(),
                origin=old.origin,
                changes=old.changes + (bytes(old.data) != data),
            )
            self._scratch.add(place, name, made)

    # -- names --

    def remove(self, key: Key) -> None:
        """Remove a file."""
        with self._lock:
            if self._pending.pop(key, None) is not None:
                self.version += 1
            elif key[0] == "scratch":
                scratch = self._scratch.remove((key[1], key[2]), key[3])
                if scratch is not None and scratch.origin in self.hidden:
                    self._drop_hidden(scratch.origin)
            elif key[0] == "record":
                self._database.change(key[1], lambda domain: edits.remove(domain, key[2]))
            else:
                raise NotPermitted("this file belongs to its domain", advice="remove the domain's directory instead")
            self._nodes.removed(key)

    def _drop_hidden(self, key: Key | None) -> None:
        """The backup of a file is removed and no new file has taken its place: now it is really gone."""
        if key is None:
            return
        self.hidden.discard(key)
        self.version += 1
        if key[0] == "record" and self._is_stored(key):
            self._database.change(key[1], lambda domain: edits.remove(domain, key[2]))

    def rename(self, key: Key, to: Key) -> None:
        """Move a file; what was there is replaced."""
        with self._lock:
            if key in self._pending:
                self._pending[to] = self._pending.pop(key)
            elif key[0] == "scratch":
                self._rename_scratch(key, to)
            elif to[0] == "scratch":
                self._scratch.add((to[1], to[2]), to[3], Scratch(bytearray(self.read(key)), origin=key))
                self.hidden.add(key)
            elif key[0] == to[0] == "record":
                self._database.change(key[1], lambda domain: edits.rename(domain, {key[2]: to[2]}))
                self.hidden.discard(to)
            else:
                raise NotPermitted("this file belongs to its domain")
            self.version += 1
            self._nodes.moved(key, to)

    def _rename_scratch(self, key: Key, to: Key) -> None:
        place, name = (key[1], key[2]), key[3]
        scratch = self._scratch.find(place, name)
        if scratch is None:
            raise StaleNode(member=name)
        origin = scratch.origin if scratch.origin in self.hidden and not scratch.changes else None
        if to[0] == "scratch":
            self._scratch.move(place, name, (to[1], to[2]), to[3])
            return
        if origin == to:
            self.hidden.discard(to)
        elif origin is not None and origin[0] == to[0] == "record":
            self._database.change(to[1], lambda domain: edits.rename(domain, {origin[2]: to[2]}))
            self.hidden -= {origin, to}
        else:
            self.save(to, bytes(scratch.data), mtime_ns=scratch.mtime_ns)
        self._scratch.remove(place, name)


# -- what is written --


def record_from(data: bytes, path: str, limits: Limits) -> Mapping:
    """The record that somebody has written for *path*; raises ContentRefused."""
    value = _document_from(data, limits, path)
    if value is None:
        return with_path(Mapping([], 0), path)
    own = value.get(PATH)
    if own is None:
        return with_path(value, path)
    problem = path_problem(value)
    if problem is not None:
        raise ContentRefused(problem[1], member=path)
    if not isinstance(own, Scalar) or own.text != path:
        shown = own.text if isinstance(own, Scalar) else ""
        raise ContentRefused(f"its _path is {shown}, which is another file", member=path)
    return value


def metadata_from(data: bytes, limits: Limits, name: str) -> Mapping | None:
    """The metadata that somebody has written; raises ContentRefused."""
    value = _document_from(data, limits, name)
    if value is not None and value.get(PATH) is not None:
        raise ContentRefused("metadata have no _path", member=name)
    return value if value and value.items else None


def _document_from(data: bytes, limits: Limits, name: str) -> Mapping | None:
    """One mapping, or nothing at all."""
    data = data.removeprefix(BOM)
    if len(data) > limits.document:
        raise ContentRefused(f"larger than {limits.document} bytes", member=name)
    layout = scan(data)
    if len(layout.starts) > 1:
        raise ContentRefused("there is more than one document in it", member=name)
    if not layout.starts:
        return None
    try:
        text = data[text_start(data, layout, 0) : layout.ends[0]]
        value = parse_bytes(b"---\n" + text, limits)
    except Refused as error:
        raise ContentRefused(f"{error.text} ({error.code})", member=name) from None
    if is_null(value):
        return None
    if not isinstance(value, Mapping):
        raise ContentRefused("not a mapping", member=name)
    keys = [key.text for key, _ in value.items]
    if len(set(keys)) != len(keys):
        raise ContentRefused("a key is there twice", member=name)
    try:
        canonical.document(value).encode("utf-8")
    except UnicodeEncodeError:
        raise ContentRefused("not UTF-8", member=name) from None
    return value


def check_raw(name: str, data: bytes, limits: Limits) -> None:
    """Raises ContentRefused if the lint finds an error in it."""
    for finding in lint_file(DomainFile(name, data, limits=limits)):
        if finding.level == ERROR:
            raise ContentRefused(f"line {finding.line}: {finding.text} ({finding.code})", member=name + SUFFIX)
