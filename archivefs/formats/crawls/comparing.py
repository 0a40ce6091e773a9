"""Which archives are compared with which, and the files that come of it.

Used by ``diffs/`` of the tree and by ``archivefs crawls diff``.  The baseline of a map file is the newest older crawl
of the domain that holds it and can be read; of a crawl that covers the same, what is gone counts as removed.  Any
thread may call; what is worked out is kept by the states of the files it was made of.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from archivefs.errors import ArchiveError
from archivefs.formats.crawls import diffing, unified
from archivefs.formats.crawls.diffing import Difference, Table
from archivefs.formats.crawls.maps import MapRows
from archivefs.formats.crawls.products import Product, Products
from archivefs.formats.crawls.storage import Item, Storage

SUMMARY = "summary.json"
NOBODY = "/dev/null"


class Pair(NamedTuple):
    """A map file and the two archives it is compared in; None where it is in only one of them."""

    member: str
    old: Item | None
    new: Item | None

    @property
    def baseline(self) -> str | None:
        """The id of the older archive."""
        return self.old.crawl_id if self.old else None


class Comparison(NamedTuple):
    """What is compared under one name of ``diffs/``."""

    crawl_id: str
    pairs: tuple[Pair, ...]
    readable: bool = True


class Comparer:
    """Compares archives of one storage."""

    def __init__(self, storage: Storage, products: Products, *, safe_csv: bool = False) -> None:
        self._storage = storage
        self._products = products
        self.safe_csv = safe_csv
        self._sound: dict[object, bool] = {}
        self._comparisons: dict[object, Comparison] = {}

    # -- what with what --

    def with_previous(self, item: Item) -> Comparison:
        """*item* and what was before it; nothing is compared if it cannot be read."""
        number = self._storage.snapshot().number
        key = (item, number)
        found = self._comparisons.get(key)
        if found is None:
            readable = self._storage.facts(item).metadata is not None
            found = Comparison(item.crawl_id, tuple(self._previous_pairs(item)), readable)
            if len(self._comparisons) > 1000:
                self._comparisons.clear()
            self._comparisons[key] = found
        return found

    def between(self, old: Item, new: Item) -> Comparison:
        """Any two archives, the first the baseline."""
        before = [member for member in self._map_files(old) if self.sound(old, member)]
        after = [member for member in self._map_files(new) if self.sound(new, member)]
        damaged = set(self._map_files(new)) - set(after)
        pairs = [Pair(member, old if member in before else None, new) for member in after]
        pairs += [Pair(member, old, None) for member in before if member not in after and member not in damaged]
        readable = self._storage.facts(old).metadata is not None and self._storage.facts(new).metadata is not None
        return Comparison(new.crawl_id, tuple(sorted(pairs, key=lambda pair: pair.member)), readable)

    def _previous_pairs(self, item: Item) -> Iterator[Pair]:
        facts = self._storage.facts(item)
        if facts.metadata is None:
            return
        same_domain = self._storage.snapshot().by_domain.get(item.name.domain_id, [])
        older = [other for other in same_domain if other.crawl_id < item.crawl_id]
        gone = {member: Pair(member, other, None) for other, member in self._gone(item, older)}
        for member in sorted({*facts.map_files, *gone}):
            if member in gone:
                yield gone[member]
            elif self.sound(item, member):
                yield Pair(member, self._holder(older, member), item)

    def _holder(self, older: Sequence[Item], member: str) -> Item | None:
        """The newest readable crawl that holds it undamaged."""
        for other, facts in self._storage.readable(older):
            if member in facts.map_files and self.sound(other, member):
                return other
        return None

    def _gone(self, item: Item, older: Sequence[Item]) -> Iterator[tuple[Item, str]]:
        """What the newest older crawl of the same scope and source had, and this one has no more."""
        mine = self._storage.facts(item)
        assert mine.metadata is not None
        for other, facts in self._storage.readable(older):
            assert facts.metadata is not None
            if (other.name.scope, facts.metadata.source_id) != (item.name.scope, mine.metadata.source_id):
                continue
            for member in set(facts.map_files) - set(mine.map_files):
                if self.sound(other, member):
                    yield other, member
            return

    def _map_files(self, item: Item) -> Sequence[str]:
        return self._storage.facts(item).map_files

    def sound(self, item: Item, member: str) -> bool:
        """Can the map file be read to its end?"""
        key = (item.path, item.state, member)
        found = self._sound.get(key)
        if found is None:
            try:
                for _ in self._storage.archive(item).map_pieces(member):
                    pass
                found = True
            except ArchiveError:
                found = False
            if len(self._sound) > 100_000:
                self._sound.clear()
            self._sound[key] = found
        return found

    # -- what comes of it --

    def difference(self, pair: Pair) -> Difference:
        """What changed; worked out anew at each call."""
        return diffing.compare(self._table(pair.old, pair.member), self._table(pair.new, pair.member))

    def diff_csv(self, pair: Pair) -> Product:
        """The ``.diff.csv`` of a map file."""
        return self._products.get(("diff.csv", pair), lambda product: self._write_csv(pair, product))

    def diff(self, pair: Pair) -> Product:
        """The ``.diff`` of a map file."""
        return self._products.get(("diff", pair), lambda product: self._write_diff(pair, product))

    def summary(self, comparison: Comparison) -> dict[str, object]:
        """What ``summary.json`` says."""
        members = {pair.member: self._summary_of(pair) for pair in comparison.pairs}
        return {"crawl_id": comparison.crawl_id, "members": members}

    def summary_file(self, comparison: Comparison) -> Product:
        """``summary.json``."""

        def write(product: Product) -> None:
            product.write_text(json.dumps(self.summary(comparison), indent=2) + "\n")

        return self._products.get(("summary", comparison), write)

    def _summary_of(self, pair: Pair) -> object:
        key = ("summary of", pair)

        def write(product: Product) -> None:
            product.write(json.dumps(self.difference(pair).summary(pair.baseline)).encode())

        return json.loads(self._products.get(key, write).whole())

    def _write_csv(self, pair: Pair, product: Product) -> None:
        difference = self.difference(pair)
        diffing.write_csv(difference, product.write_text, safe=self.safe_csv)
        summary = json.dumps(difference.summary(pair.baseline)).encode()
        self._products.get(("summary of", pair), lambda small: small.write(summary))

    def _write_diff(self, pair: Pair, product: Product) -> None:
        old, new = self._text(pair.old, pair.member), self._text(pair.new, pair.member)
        old = _header_of(new or "") if old is None else old
        new = _header_of(old) if new is None else new
        before, after = unified.split_lines(old), unified.split_lines(new)
        labels = {"from_label": pair.baseline or NOBODY, "to_label": pair.new.crawl_id if pair.new else NOBODY}
        for line in unified.unified_diff(before, after, **labels):
            product.write_text(line)

    def _table(self, item: Item | None, member: str) -> Table | None:
        if item is None:
            return None
        return diffing.load(MapRows(self._storage.archive(item).map_pieces(member)))

    def _text(self, item: Item | None, member: str) -> str | None:
        if item is None:
            return None
        return b"".join(self._storage.archive(item).map_pieces(member)).decode("utf-8-sig", "replace")


def _header_of(text: str) -> str:
    """The header as a file would have it that has nothing else: the first line of CSV, which may be several of text."""
    lines = unified.split_lines(text)
    reader = csv.reader(lines)
    for row in reader:
        if row:
            break
    return "".join(lines[: reader.line_num])
