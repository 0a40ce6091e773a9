"""Is a URL as its record says?  (Specification 5, "Check of one record".)  Pure but for what the site does."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from archivefs.errors import ArchiveError
from archivefs.formats.urldb.answers import Answer, NoAnswer, NotInArchive, Site, follow
from archivefs.formats.urldb.records import DIGEST, LENGTH, categories_of, digest_of, length_of, type_of
from archivefs.formats.urldb.values import Mapping

_SAME = (
    frozenset({"application/javascript", "application/x-javascript", "text/javascript"}),
    frozenset({"application/zip", "application/x-zip-compressed"}),
)
_REDIRECT_TYPE = re.compile(r"[xX]-(\d{3})-[rR]edirect")


class Broken(NamedTuple):
    """What is wrong with a URL: the first rule that it fails."""

    code: str
    text: str


def check(site: Site, url: str, record: Mapping) -> Broken | None:
    """Ask for *url* and compare; None: it is as it should be."""
    try:
        answer = site.ask(url)
    except NotInArchive:
        return Broken("not-in-archive", "not in archive")
    except NoAnswer as error:
        return Broken("no-answer", error.problem)
    try:
        return _Check(site, record).answer(answer)
    except NotInArchive:
        return Broken("not-in-archive", "it redirects to what is not in archive")
    except ArchiveError as error:
        return Broken("no-answer", error.problem)


class _Check:
    def __init__(self, site: Site, record: Mapping) -> None:
        self._site = site
        self._record = record
        self._is_static = record.get(LENGTH) is not None or record.get(DIGEST) is not None

    def answer(self, answer: Answer) -> Broken | None:
        """All rules, in order; the answer is closed."""
        try:
            if answer.status >= 400 or answer.status < 200:
                return Broken("status", f"status {answer.status}")
            wanted = type_of(self._record)
            if 300 <= answer.status < 400 and not self._is_static:
                return self._redirect(answer, wanted)
            if answer.is_redirect:
                answer = follow(self._site, answer)
                if answer.status >= 400:
                    return Broken("status", f"status {answer.status} at {answer.url}")
            if wanted is not None and not self._is_same_type(wanted, answer.content_type):
                return Broken("type", f"content type {answer.content_type or 'none'}, expected {wanted}")
            return self._body(answer) if self._is_static else None
        finally:
            answer.close()

    def _redirect(self, answer: Answer, wanted: str | None) -> Broken | None:
        if wanted is None or "redirect-ok" in categories_of(self._record):
            return None
        match = _REDIRECT_TYPE.fullmatch(wanted.strip())
        if match and int(match[1]) == answer.status:
            return None
        return Broken("redirect", f"redirect with status {answer.status}, expected {wanted}")

    def _is_same_type(self, wanted: str, sent: str) -> bool:
        if "content-type-change-ok" in categories_of(self._record):
            return True
        one, two = media_type(wanted), media_type(sent)
        if one != two and not any(one in same and two in same for same in _SAME):
            return False
        return ";" not in wanted or _parameters(wanted) == _parameters(sent)

    def _body(self, answer: Answer) -> Broken | None:
        size, digest = 0, hashlib.sha256()
        for piece in answer.body():
            size += len(piece)
            digest.update(piece)
        if self._record.get(LENGTH) is not None:
            wanted = length_of(self._record)
            if wanted is None:
                return Broken("length", f"{LENGTH} in the record is no number")
            if size != wanted:
                return Broken("length", f"{size} bytes, expected {wanted}")
        if self._record.get(DIGEST) is not None:
            expected = digest_of(self._record)
            if expected is None:
                return Broken("digest", f"{DIGEST} in the record is no digest")
            if digest.hexdigest() != expected:
                return Broken("digest", f"digest {digest.hexdigest()}, expected {expected}")
        return None


def media_type(content_type: str) -> str:
    """A content type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def _parameters(content_type: str) -> dict[str, str]:
    found = {}
    for part in content_type.split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip():
            found[name.strip().lower()] = value.strip().strip('"').lower()
    return found
