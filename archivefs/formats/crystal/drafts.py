"""Content on its way to becoming a revision: in memory while it is small, in the staging area otherwise.

Used by the files of the read-write tree.  Bytes are durable in the staging area when a file is flushed; the record that
says so names the URL.  When the revision is made, a second record says that.  What a crash leaves between the two
becomes a revision at the next read-write mount.

Threading: the area has a lock of its own, the writer of a draft too (``rwfiles.py``).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import NamedTuple

from archivefs.formats.crystal.revisions import Fill, filled_with, linked_or_copied
from archivefs.readers import BytesReader, ExtentReader
from archivefs.staging.area import BODIES, StagingArea
from archivefs.tree import Extent, Reader

NANO = 1_000_000_000
MAX_JOURNAL = 16 << 20
"""A journal that has become longer is begun anew as soon as nothing in it is pending."""


class Draft(NamedTuple):
    """Content that is not in the project yet."""

    size: int
    time_s: int
    data: bytes | None = None
    """None: it lies in a body of the area."""
    body: int = 0
    serial: int = 0
    """The number of the record that names it; 0: none does."""


class Pending(NamedTuple):
    """A draft that an earlier mount has left."""

    url: bytes
    draft: Draft


class Drafts:
    """The staging area of a project."""

    def __init__(self, area: StagingArea) -> None:
        self.area = area
        self._serials = itertools.count(1)
        self._written = 0

    # -- keeping --

    def keep(self, url: bytes, draft: Draft) -> Draft:
        """Make a draft durable under the URL it is for."""
        serial = next(self._serials)
        fields = {"op": "put", "url": url.decode("utf-8", "surrogateescape"), "serial": serial, "time": draft.time_s}
        self.begin()
        if draft.data is None:
            fd = self.area.open_body(draft.body)
            try:
                self.area.keep_body(fd)
            finally:
                os.close(fd)
            self.area.append({**fields, "size": draft.size, "body": draft.body}, sync=True)
        else:
            self.area.append({**fields, "size": draft.size}, draft.data, sync=True)
            self._written += draft.size
        return draft._replace(serial=serial)

    def done(self, draft: Draft) -> None:
        """It is in the project, or not wanted any more."""
        if draft.serial:
            self.area.append({"op": "done", "serial": draft.serial}, sync=False)
        if draft.body:
            self.area.drop_body(draft.body)

    def begin(self) -> None:
        """Make the area if there is none."""
        self.area.begin({"op": "base", "format": "crystal"})

    @property
    def long(self) -> bool:
        """Is it time to begin the journal anew?"""
        return self._written > MAX_JOURNAL

    def empty(self, in_use: set[int]) -> None:
        """Nothing is pending: throw everything away but the bodies *in_use*."""
        self._written = 0
        if self.area.exists:
            self.area.discard(keep=in_use - {0})

    def left(self) -> Iterator[Pending]:
        """What an earlier mount has kept and not made a revision of: of each URL the last."""
        found: dict[bytes, Draft] = {}
        for fields, payload in self.area.replay():
            if fields["op"] == "put":
                data = None if fields.get("body") else os.pread(payload.fd, payload.length, payload.start)
                draft = Draft(fields["size"], fields["time"], data, fields.get("body", 0), fields["serial"])
                found[fields["url"].encode("utf-8", "surrogateescape")] = draft
                self._serials = itertools.count(fields["serial"] + 1)
            elif fields["op"] == "done":
                found = {url: draft for url, draft in found.items() if draft.serial != fields["serial"]}
        for url, draft in found.items():
            if draft.data is not None or os.path.lexists(self.body_path(draft.body)):
                yield Pending(url, draft)

    # -- using --

    def body_path(self, number: int) -> str:
        """Where a body of the area lies."""
        return os.path.join(self.area.folder, BODIES, str(number))

    def fill(self, draft: Draft) -> Fill:
        """How a draft becomes the file of a body."""
        return filled_with(draft.data) if draft.data is not None else linked_or_copied(self.body_path(draft.body))

    def open(self, draft: Draft) -> Reader:
        """Read a draft."""
        if draft.data is not None:
            return BytesReader(draft.data, mtime_ns=draft.time_s * NANO, version=draft.serial)
        fd = self.area.open_body(draft.body)
        return ExtentReader(Extent(fd, 0, draft.size), mtime_ns=draft.time_s * NANO, version=draft.serial, owned=True)
