"""A Labrador archive of the pages of another archive.

Used by ``archivefs convert``.  A page gets the name under which it is listed there, with percent escapes undone: that
is how its URL reads when the archive is served.  Where two pages would then have one name, the escapes stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from urllib.parse import unquote

from archivefs.errors import AlreadyExists, ArchiveError, NameTooLong
from archivefs.format import Page, no_progress
from archivefs.formats.labrador import mediatypes
from archivefs.formats.labrador.keys import EMPTY_DIGEST, INDEX, MAX_KEY_LENGTH, decoded_name
from archivefs.formats.labrador.newnames import INDEX_NAMES, document_name, encoded
from archivefs.formats.labrador.packing import write
from archivefs.formats.labrador.site import Site, SiteRecord, digest_of
from archivefs.formats.labrador.writing import Content, pieces_of
from archivefs.tree import Parts


def build(path: str, site: str, pages: Iterable[Page]) -> None:
    """Write the archive, whole or not at all; raises what reading a page raises, and what a name is refused for."""
    names = _Names()
    records = []
    for page in pages:
        content = Content(page.size, partial(pieces_of, page.open))
        digest = digest_of(content.pieces())
        records.append(SiteRecord(names.key(page), digest, None if digest == EMPTY_DIGEST else content))
    last = (record.key.rpartition("/")[2].lower() for record in records)
    write(Site(records, mediatypes.completed(b"", last)), path, no_progress)


class _Names:
    """The keys given so far, and what each means."""

    def __init__(self) -> None:
        self._taken: dict[Parts, Parts] = {}

    def key(self, page: Page) -> str:
        """The key of a page; raises NameNotHeld, NameTooLong and AlreadyExists."""
        try:
            key = self._key(page)
        except ArchiveError as error:
            raise type(error)(error.problem, member=page.url) from None
        if len(key) > MAX_KEY_LENGTH:
            raise NameTooLong("the path is too long for the format", member=page.url)
        return key

    def _key(self, page: Page) -> str:
        components = [self._component(page.parts[: depth + 1]) for depth in range(len(page.parts))]
        if page.url.endswith("/"):
            components[-1] = _document(page.parts[-1])
        return "/".join(components)

    def _component(self, parts: Parts) -> str:
        name = _plain(parts[-1])
        for candidate in (name, parts[-1]):
            component = encoded(candidate)
            meaning = (*parts[:-1], decoded_name(component.lower()))
            if self._taken.setdefault(meaning, parts) == parts:
                return component
        raise AlreadyExists("the format cannot tell its name from that of another page")


def _document(name: str) -> str:
    """The name of a directory's document: the one it is listed by, where that says so, else the most usual one."""
    return document_name(name, (name.removeprefix(INDEX),)) or INDEX + INDEX_NAMES[0]


def _plain(name: str) -> str:
    """*name* with percent escapes undone, where that gives a name."""
    try:
        plain = unquote(name, errors="strict")
    except UnicodeDecodeError:
        return name
    return plain if plain.isprintable() and "/" not in plain and plain not in ("", ".", "..") else name
