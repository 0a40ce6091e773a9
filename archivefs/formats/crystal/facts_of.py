"""What ``stat`` and ``getfattr`` say of a body.

Used by ``nodes.py``.  A page's time is when it was fetched, which only its headers tell.  Credentials are in none of
this: cookies that were sent are a flag, and headers that hold any never came further than ``records.py``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from archivefs.formats.crystal.records import Headers, Revision, fetch_time, first, http_time, iso_time
from archivefs.formats.crystal.sight import Shown
from archivefs.tree import Attributes

if TYPE_CHECKING:
    from archivefs.formats.crystal.bodies import Body
    from archivefs.formats.crystal.tree import CrystalTree

NANO = 1_000_000_000
MAX_XATTR_BYTES = 65_536
"""The kernel takes no longer value; a longer one is left out."""


def attributes_of(tree: CrystalTree, shown: Shown) -> Attributes:
    """Size, time and version; a body that is lost has size 0."""
    if shown.revision is None:
        return Attributes(0, tree.mtime_ns())
    body = tree.find_body(shown.revision.id)
    if body is None:
        return Attributes(0, mtime_ns(tree, shown, None))
    return Attributes(tree.size_of(body, shown.headers), mtime_ns(tree, shown, body), body.version)


def mtime_ns(tree: CrystalTree, shown: Shown, body: Body | None) -> int:
    """When the page was fetched (or last modified, if that is asked for), else the time of its file."""
    seconds = None
    if tree.sight.choices.mtime_last_modified:
        seconds = http_time(first(shown.headers, "last-modified"))
    if seconds is None:
        seconds = fetch_time(shown.headers)
    if seconds is not None:
        return seconds * NANO
    return body.mtime_ns if body and not body.entry else tree.mtime_ns()


def xattrs_of(tree: CrystalTree, shown: Shown) -> dict[str, bytes]:
    """The extended attributes; what is not known is not there."""
    facts: dict[str, object] = {"resource": shown.resource}
    revision = shown.revision
    if revision is None:
        facts["state"] = "unfetched"
    else:
        facts.update(_of_revision(revision, shown.headers))
        body = tree.find_body(revision.id)
        facts["state"] = None if body else "lost"
        facts["body"] = body.where if body else None
    facts["fallback"] = shown.fallback
    facts["content_type"] = shown.content_type
    found = {f"user.archivefs.{name}": _bytes(value) for name, value in facts.items() if value is not None}
    if shown.content_type:
        found["user.mime_type"] = _bytes(shown.content_type)
    if shown.url is not None:
        found["user.xdg.origin.url"] = found["user.archivefs.url"] = shown.url
    return {name: value for name, value in found.items() if len(value) <= MAX_XATTR_BYTES}


def _of_revision(revision: Revision, headers: Headers) -> dict[str, object]:
    date, modified = http_time(first(headers, "date")), http_time(first(headers, "last-modified"))
    return {
        "revision": revision.id,
        "status": revision.status,
        "reason": revision.reason,
        "content_encoding": first(headers, "content-encoding"),
        "date": iso_time(date) if date is not None else None,
        "last_modified": iso_time(modified) if modified is not None else None,
        "etag": first(headers, "etag"),
        "redirect": first(headers, "location") if revision.is_redirect else None,
        "error": revision.problem,
        "headers": json.dumps(headers, ensure_ascii=False) if headers else None,
        "has_cookie": 1 if revision.has_cookie else None,
    }


def _bytes(value: object) -> bytes:
    """Text as UTF-8; half a surrogate pair, which JSON may hold, as JSON writes it."""
    text = str(value)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")
