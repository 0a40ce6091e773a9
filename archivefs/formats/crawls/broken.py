"""``broken/``: what is in the folders and is no crawl, or cannot be read, each with a line that says why.

Looking into it opens every archive once.  On a read-write mount what is here can be removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from archivefs import names
from archivefs.errors import NotFound
from archivefs.formats.crawls.idents import KnownTree
from archivefs.formats.crawls.nodes import KeptDirectory, ProductFile, WholeFile
from archivefs.formats.crawls.products import made
from archivefs.formats.crawls.publishing import remove
from archivefs.formats.crawls.storage import Item, Odd, State, Storage
from archivefs.tree import Entry, Kind, Node

WHY = ".why"


class Bad(NamedTuple):
    """One thing that is wrong."""

    raw_name: bytes
    path: str
    state: State | None
    reason: str


class BrokenDirectory(KeptDirectory):
    """``broken/``."""

    __slots__ = ("_storage",)

    def __init__(self, tree: KnownTree, storage: Storage, mtime_ns: int) -> None:
        super().__init__(tree, ("broken",), mtime_ns)
        self._storage = storage

    def child(self, name: str) -> Node:
        files, reasons = self._shown()
        bad = files.get(name)
        if bad is not None and bad.state is not None:
            return WholeFile(self.tree, (*self.key, name), bad.path, bad.state)
        bad = reasons.get(name)
        if bad is None:
            raise NotFound(member=name)
        line = (bad.reason + "\n").encode("utf-8", "replace")
        mtime_ns = bad.state.mtime_ns if bad.state else self._mtime_ns
        product = made(lambda product: product.write(line))
        return ProductFile(self.tree, (*self.key, name, bad), mtime_ns, lambda: product)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        files, reasons = self._shown()
        for name in sorted({*files, *reasons}):
            if after is None or name > after:
                yield Entry(name, Kind.FILE)

    def remove(self, name: str, *, kind: Kind) -> None:
        files, reasons = self._shown()
        if name not in files and name not in reasons:
            raise NotFound(member=name)
        if not self.tree.writable or kind is not Kind.FILE or name not in files:
            self.refuse()
        remove(files[name].path)
        self._storage.changed()

    def _shown(self) -> tuple[dict[str, Bad], dict[str, Bad]]:
        """The files themselves, and the reasons, each by the name it is shown under."""
        files: dict[str, Bad] = {}
        reasons: dict[str, Bad] = {}
        found = list(self._bad())
        for bad in found:
            if bad.state is not None:
                files[_free(names.escape_component(bad.raw_name), files)] = bad
        for bad in found:
            shown = names.escape_component(bad.raw_name + WHY.encode())
            reasons[_free(shown, {*files, *reasons})] = bad
        return files, reasons

    def _bad(self) -> Iterator[Bad]:
        snapshot = self._storage.snapshot()
        for odd in snapshot.odd:
            yield _of_odd(odd)
        for item in snapshot.items:
            reason = self._storage.facts(item).reason
            if reason:
                yield _of_item(item, reason)


def _of_odd(odd: Odd) -> Bad:
    return Bad(os.fsencode(odd.file_name), odd.path, odd.state, odd.reason)


def _of_item(item: Item, reason: str) -> Bad:
    return Bad(item.name.file_name.encode(), item.path, item.state, reason)


def _free(name: str, taken: object) -> str:
    """The name, or the first of ``name~2``, ``name~3`` … that is not taken."""
    assert isinstance(taken, (dict, set))
    shown, number = name, 1
    while shown in taken:
        number += 1
        shown = f"{name}~{number}"
    return shown
