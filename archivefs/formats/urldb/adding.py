"""The record of a new URL, as the site answers for it (specification 5, ``add``)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence as AnySequence

from archivefs.errors import ArchiveError
from archivefs.formats.urldb.answers import Site, follow
from archivefs.formats.urldb.checking import media_type
from archivefs.formats.urldb.records import CATEGORIES, DIGEST, LENGTH, PATH, TYPE
from archivefs.formats.urldb.values import Mapping, Scalar, Sequence, Value


class NotWorking(ArchiveError):
    """The URL does not work, so it is not added."""


def record_for(site: Site | None, base: str, path: str, *, static: bool, categories: AnySequence[str]) -> Mapping:
    """The record for ``base + path``; *site* None: nobody is asked.  Raises NotWorking and what asking raises."""
    values: dict[str, Value] = {PATH: _text(path)}
    if categories:
        values[CATEGORIES] = Sequence([_text(word) for word in sorted(set(categories))], 0)
    if site is not None:
        values |= _answered(site, base + path, static=static)
    return Mapping([(Scalar(key, True, 0), value) for key, value in sorted(values.items())], 0)


def _answered(site: Site, url: str, *, static: bool) -> dict[str, Value]:
    answer = site.ask(url)
    if answer.status < 400 and static:
        answer = follow(site, answer)
    try:
        if answer.status >= 400:
            raise NotWorking(f"status {answer.status}; nothing is added", member=url)
        found: dict[str, Value] = {}
        if 300 <= answer.status < 400:
            found[TYPE] = _text(f"X-{answer.status}-Redirect")
        elif media_type(answer.content_type):
            found[TYPE] = _text(media_type(answer.content_type))
        if static:
            size, digest = 0, hashlib.sha256()
            for piece in answer.body():
                size += len(piece)
                digest.update(piece)
            found[LENGTH] = Scalar(str(size), True, 0)
            found[DIGEST] = _text(digest.hexdigest())
        return found
    finally:
        answer.close()


def _text(text: str) -> Scalar:
    return Scalar(text, False, 0)
