"""Listing, getting and deleting crawls: what the HTTP interface and the commands have in common.

Parameters come as text by name, the empty ones left out; answers are plain data, or a product where they may be large.
What is wrong is an ``ApiError`` with the status and the message of the specification, which never holds a path of the
machine.  Any thread may call.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from archivefs.errors import ArchiveError, NotFound
from archivefs.formats.crawls import publishing, rendering, views
from archivefs.formats.crawls.maps import MAP_SUFFIX, MapRows
from archivefs.formats.crawls.naming import ACTIONS, SCOPES
from archivefs.formats.crawls.products import Product, made
from archivefs.formats.crawls.storage import Item, Storage, one_line

DEFAULT_LIMIT, MAX_LIMIT = 50, 10_000
DAY_S = 86_400
_MAX_DAYS = 10**7

Parameters = Mapping[str, str]


class ApiError(Exception):
    """A request that is answered with ``ok=false``."""

    def __init__(self, status: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.data: Mapping[str, Any] = data or {}


class Api:
    """The operations on one storage."""

    def __init__(self, storage: Storage, *, now: Callable[[], float] = time.time) -> None:
        self._storage = storage
        self._now = now

    # -- list --

    def list(self, parameters: Parameters) -> dict[str, Any]:
        """The crawls of a domain, newest first; only those that are returned are opened."""
        domain_id = _required(parameters, "domain_id")
        action = _one_of(parameters, "action", ACTIONS)
        scope = _one_of(parameters, "scope", SCOPES)
        limit = _limit(parameters)
        matching = [
            item
            for item in self._storage.snapshot().by_domain.get(domain_id, ())
            if action in (None, item.name.action) and scope in (None, item.name.scope)
        ]
        crawls: list[dict[str, Any]] = []
        warnings: list[dict[str, str]] = []
        for item in matching:
            if len(crawls) == limit:
                break
            facts = self._storage.facts(item)
            if facts.metadata is None:
                warnings.append({"crawl_id": item.crawl_id, "error": facts.reason})
            else:
                crawls.append(views.listed(item, facts))
        data: dict[str, Any] = {"domain_id": domain_id, "crawls": crawls, "total": len(matching) - len(warnings)}
        return {**data, "warnings": warnings} if warnings else data

    # -- get --

    def get(self, parameters: Parameters, format: str) -> Product:
        """A crawl's metadata or a map file, as JSON with its envelope, as CSV or as a page."""
        crawl_id = _required(parameters, "crawl_id")
        file = parameters.get("file")
        if file is None and format == "csv":
            raise ApiError(400, "Format 'csv' requires 'file'.")
        item = self.item(crawl_id)
        try:
            archive = self._storage.archive(item)
            if file is None or file == archive.metadata_member():
                if format == "csv":
                    raise ApiError(400, "Format 'csv' requires 'file'.")
                return made(lambda product: self._write_metadata(item, format, product))
            if not file.endswith(MAP_SUFFIX) or file not in archive.members:
                raise ApiError(404, f"File '{file}' not found in crawl '{crawl_id}'.")
            return made(lambda product: self._write_map(item, file, format, product))
        except NotFound:
            raise _not_found(crawl_id) from None
        except ArchiveError as error:
            raise ApiError(500, f"Crawl '{crawl_id}' is not readable: {one_line(error)}.") from error

    def item(self, crawl_id: str) -> Item:
        """The archive of that id; raises ApiError."""
        try:
            return self._storage.item(crawl_id)
        except NotFound:
            raise _not_found(crawl_id) from None

    def metadata(self, crawl_id: str) -> Mapping[str, Any]:
        """The metadata of a crawl as they are stored."""
        item = self.item(crawl_id)
        try:
            return self._storage.archive(item).metadata().data
        except ArchiveError as error:
            raise ApiError(500, f"Crawl '{crawl_id}' is not readable: {one_line(error)}.") from error

    def _write_metadata(self, item: Item, format: str, product: Product) -> None:
        data = self._storage.archive(item).metadata().data
        if format == "html":
            rendering.write_metadata_page(data, product, crawl_id=item.crawl_id)
        else:
            product.write(envelope(data))

    def _write_map(self, item: Item, file: str, format: str, product: Product) -> None:
        pieces = self._storage.archive(item).map_pieces(file)
        if format == "csv":
            for piece in pieces:
                product.write(piece)
        elif format == "html":
            rendering.write_map_page(MapRows(pieces), product, crawl_id=item.crawl_id, member=file)
        else:
            crawl, name = json.dumps(item.crawl_id), json.dumps(file)
            product.write_text(f'{{"ok": true, "error": "", "data": {{"crawl_id": {crawl}, "file": {name}, "rows": ')
            total = rendering.write_rows(MapRows(pieces), product)
            product.write_text(f', "total": {total}}}}}')

    # -- delete --

    def delete(self, parameters: Parameters) -> dict[str, Any]:
        """Delete one crawl, or those of a domain that are older than so many days."""
        dry_run = _flag(parameters, "dry_run")
        chosen = self._chosen(parameters)
        deleted: list[str] = []
        failed: list[str] = []
        for item in chosen:
            try:
                if not dry_run:
                    publishing.remove(item.path)
                deleted.append(item.crawl_id)
            except NotFound:
                if "crawl_id" in parameters:
                    raise _not_found(item.crawl_id) from None
            except OSError as error:
                failed.append(f"{item.crawl_id}: {error.strerror}")
        if deleted and not dry_run:
            self._storage.changed()
        data = {"deleted": deleted, "total": len(deleted)}
        if failed:
            raise ApiError(500, f"{len(failed)} not deleted: {'; '.join(failed[:5])}.", data)
        return data

    def _chosen(self, parameters: Parameters) -> Sequence[Item]:
        crawl_id, domain_id = parameters.get("crawl_id"), parameters.get("domain_id")
        older_than = parameters.get("older_than")
        if crawl_id is not None:
            if domain_id is not None or older_than is not None:
                raise ApiError(400, "Use either 'crawl_id', or 'domain_id' and 'older_than'.")
            item = self.item(crawl_id)
            if item.name.later:
                raise ApiError(403, f"Crawl '{crawl_id}' is of a later revision and cannot be deleted.")
            return [item]
        if domain_id is None and older_than is None:
            raise ApiError(400, "Missing 'crawl_id' parameter.")
        if domain_id is None:
            raise ApiError(400, "Missing 'domain_id' parameter.")
        if older_than is None:
            raise ApiError(400, "Missing 'older_than' parameter.")
        before = self._now() - _days(older_than) * DAY_S
        items = self._storage.snapshot().by_domain.get(domain_id, ())
        return [item for item in items if item.name.time_s < before and not item.name.later]


def envelope(data: Any, *, ok: bool = True, error: str = "") -> bytes:
    """An answer as JSON, in ASCII: what an archive holds may not be text that UTF-8 can hold."""
    return json.dumps({"ok": ok, "error": error, "data": data}).encode()


# -- parameters --


def _required(parameters: Parameters, name: str) -> str:
    value = parameters.get(name)
    if value is None:
        raise ApiError(400, f"Missing '{name}' parameter.")
    return value


def _one_of(parameters: Parameters, name: str, valid: Sequence[str]) -> str | None:
    value = parameters.get(name)
    if value is not None and value not in valid:
        raise ApiError(400, f"Invalid value '{value}' for '{name}' param. Valid: {list(valid)}")
    return value


def _limit(parameters: Parameters) -> int:
    text = parameters.get("limit", str(DEFAULT_LIMIT))
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= MAX_LIMIT:
        raise ApiError(400, f"Invalid value '{text}' for 'limit' param. Valid: 1 to {MAX_LIMIT}")
    return int(text)


def _days(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ApiError(400, f"Invalid value '{text}' for 'older_than' param. Valid: a whole number of days")
    return min(int(text), _MAX_DAYS)


def _flag(parameters: Parameters, name: str) -> bool:
    text = parameters.get(name, "false")
    if text not in ("true", "false"):
        raise ApiError(400, f"Invalid value '{text}' for '{name}' param. Valid: ['true', 'false']")
    return text == "true"


def _not_found(crawl_id: str) -> ApiError:
    return ApiError(404, f"Crawl '{crawl_id}' not found.")
