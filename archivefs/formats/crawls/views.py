"""The files that are made of archives: the index, the views of one crawl, and how differences are laid out.

Plain functions, used by ``tree.py``; what they make is kept in ``products``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from archivefs.errors import ArchiveError
from archivefs.formats.crawls import rendering
from archivefs.formats.crawls.comparing import SUMMARY, Comparer, Comparison
from archivefs.formats.crawls.diffing import csv_line, safe_cell
from archivefs.formats.crawls.idents import KnownTree
from archivefs.formats.crawls.maps import MapRows
from archivefs.formats.crawls.nodes import NANO, Built, Key, ProductFile, put
from archivefs.formats.crawls.products import Product, Products
from archivefs.formats.crawls.storage import Facts, Item, Snapshot, Storage

INDEX_COLUMNS = (*rendering.LIST_COLUMNS, "domain_id", "source_id", "job_id", "error", "file_size")
CRAWL_PAGE = "crawl.html"


# -- index --


def listed(item: Item, facts: Facts) -> dict[str, Any]:
    """A crawl as listings show it."""
    name, metadata = item.name, facts.metadata
    assert metadata is not None
    return {
        "crawl_id": name.crawl_id,
        "action": name.action,
        "scope": name.scope,
        "mode": name.mode,
        "started_utc": metadata.started_utc,
        "duration_seconds": metadata.duration_seconds,
        "ok": metadata.ok,
    }


def _indexed(storage: Storage, snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    for item, facts in storage.readable(snapshot.items):
        assert facts.metadata is not None
        data = facts.metadata.data
        yield {
            **listed(item, facts),
            "domain_id": item.name.domain_id,
            "source_id": data.get("source_id"),
            "job_id": data.get("job_id"),
            "error": data.get("error"),
            "file_size": item.state.size,
        }


def write_index_json(storage: Storage, snapshot: Snapshot, product: Product, *, safe: bool) -> None:
    """A list of all crawls that can be read, newest first."""
    before = "["
    for row in _indexed(storage, snapshot):
        product.write_text(before + json.dumps(row))
        before = ",\n "
    product.write_text("[]\n" if before == "[" else "]\n")


def write_index_csv(storage: Storage, snapshot: Snapshot, product: Product, *, safe: bool) -> None:
    """The same as a table; what is not known is empty."""
    product.write_text(csv_line(INDEX_COLUMNS))
    for row in _indexed(storage, snapshot):
        cells = [_cell(row[column]) for column in INDEX_COLUMNS]
        product.write_text(csv_line([safe_cell(cell) for cell in cells] if safe else cells))


def _cell(value: object) -> object:
    return "" if value is None else json.dumps(value) if isinstance(value, bool) else value


# -- views of one crawl --


def layout(tree: KnownTree, storage: Storage, products: Products, item: Item, key: Key) -> Built:
    """``views/<crawl_id>/``: two files for each map file, and a page for the metadata."""
    made: Built = {}
    mtime_ns = item.name.time_s * NANO
    facts = storage.facts(item)

    def add(name: str, write: Callable[[Product], object]) -> None:
        product_key = ("view", item, name)
        put(
            made,
            name,
            lambda: ProductFile(
                tree,
                (*key, name, item.state),
                mtime_ns,
                lambda: products.get(product_key, write),
                version=item.state.inode,
            ),
        )

    if facts.metadata is not None:
        add(CRAWL_PAGE, partial(write_metadata, storage, item))
    for member in _map_files(storage, item):
        add(f"{member}.json", partial(write_rows, storage, item, member))
        add(f"{member}.html", partial(write_page, storage, item, member))
    return made


def _map_files(storage: Storage, item: Item) -> list[str]:
    try:
        return storage.archive(item).map_files()
    except ArchiveError:
        return []


def write_rows(storage: Storage, item: Item, member: str, product: Product) -> int:
    """The rows of a map file as a JSON list; gives how many."""
    return rendering.write_rows(MapRows(storage.archive(item).map_pieces(member)), product)


def write_page(storage: Storage, item: Item, member: str, product: Product) -> None:
    """A map file as a page."""
    rows = MapRows(storage.archive(item).map_pieces(member))
    rendering.write_map_page(rows, product, crawl_id=item.crawl_id, member=member)


def write_metadata(storage: Storage, item: Item, product: Product) -> None:
    """The metadata of a crawl as a page."""
    data = storage.archive(item).metadata().data
    rendering.write_metadata_page(data, product, crawl_id=item.crawl_id)


# -- differences --


def diff_layout(tree: KnownTree, comparer: Comparer, comparison: Comparison, key: Key, mtime_ns: int) -> Built:
    """What is under one name of ``diffs/``; nothing where the crawl cannot be read and nothing is compared."""
    made: Built = {}

    def add(name: str, about: object, make: Callable[[], Product]) -> None:
        put(made, name, lambda: ProductFile(tree, (*key, name, about), mtime_ns, make))

    for pair in comparison.pairs:
        add(f"{pair.member}.diff.csv", pair, partial(comparer.diff_csv, pair))
        add(f"{pair.member}.diff", pair, partial(comparer.diff, pair))
    if comparison.readable:
        add(SUMMARY, comparison, partial(comparer.summary_file, comparison))
    return made
