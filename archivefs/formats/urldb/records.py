"""What the keys of records and of a domain's metadata mean (specification 2.1 and 2.2).  Pure functions."""

from __future__ import annotations

import re
from typing import NamedTuple

from archivefs.formats.urldb.values import Mapping, Scalar, Sequence, Value, is_text, words_of

PATH = "_path"
LENGTH, DIGEST, TYPE, CATEGORIES = "content-length", "content-sha256", "content-type", "categories"
KNOWN_KEYS = (LENGTH, DIGEST, TYPE, CATEGORIES)
CNAMES, CASE, HTTPS = "cnames", "case-sensitive-paths", "https"
METADATA_KEYS = frozenset({CNAMES, CASE, HTTPS})
SUFFIX = ".yaml"

DOMAIN_NAME = re.compile(r"[a-z0-9._-]+(?::[0-9]+)?")
_LENGTH = re.compile(r"0|[1-9][0-9]*")
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_YES = frozenset({"y", "yes", "true", "on"})
_NO = frozenset({"n", "no", "false", "off"})


class Metadata(NamedTuple):
    """What a domain's first document says."""

    cnames: tuple[str, ...] = ()
    """As written, bad ones left out."""
    case_sensitive: bool = True
    https: bool = False

    @property
    def scheme(self) -> str:
        """The scheme by which its URLs are asked for."""
        return "https" if self.https else "http"


def is_domain_name(name: str) -> bool:
    """May a domain be called so?  A name of dots alone is none."""
    return DOMAIN_NAME.fullmatch(name) is not None and name.strip(".") != "" and len(name) <= 240


def domain_of_file(name: str) -> str | None:
    """The domain of a file of that name; None if it is no domain's."""
    domain = name.removesuffix(SUFFIX)
    return domain if domain != name and is_domain_name(domain) and not name.startswith(".") else None


def metadata_of(value: Value) -> Metadata:
    """What the first document says; whatever makes no sense counts as not said."""
    if not isinstance(value, Mapping):
        return Metadata()
    names = tuple(dict.fromkeys(name for name in words_of(value.get(CNAMES)) if is_domain_name(name)))
    sensitive, https = flag(value.get(CASE)), flag(value.get(HTTPS))
    return Metadata(names, True if sensitive is None else sensitive, bool(https))


def flag(value: Value | None) -> bool | None:
    """A YAML 1.1 bool, or None."""
    if not isinstance(value, Scalar) or not value.plain:
        return None
    word = value.text.lower()
    if value.text not in (word, word.upper(), word.capitalize()):
        return None
    return True if word in _YES else False if word in _NO else None


def path_problem(value: Value) -> tuple[str, str] | None:
    """Why a document is no record that can be shown, as a lint code and a sentence; None if it is one."""
    if not isinstance(value, Mapping):
        return "not-a-mapping", "a record is a mapping"
    path = value.get(PATH)
    if path is None:
        return "bad-path", "there is no _path"
    if not isinstance(path, Scalar) or not path.text.startswith("/"):
        return "bad-path", "_path is no path: it begins with /"
    if _CONTROL.search(path.text):
        return "bad-path", "_path has control characters in it"
    if "#" in path.text:
        return "fragment", "_path has a fragment in it"
    return None


def path_of(record: Mapping) -> str:
    """The path of a record that has one."""
    path = record.get(PATH)
    return path.text if isinstance(path, Scalar) else ""


def length_of(record: Mapping) -> int | None:
    """``content-length``, if it is there and valid."""
    value = record.get(LENGTH)
    valid = isinstance(value, Scalar) and value.plain and _LENGTH.fullmatch(value.text) and len(value.text) < 20
    return int(value.text) if valid and isinstance(value, Scalar) else None


def digest_of(record: Mapping) -> str | None:
    """``content-sha256`` in lower case, if it is there and valid."""
    value = record.get(DIGEST)
    valid = isinstance(value, Scalar) and _DIGEST.fullmatch(value.text)
    return value.text.lower() if valid and isinstance(value, Scalar) else None


def type_of(record: Mapping) -> str | None:
    """``content-type``, if it is there."""
    value = record.get(TYPE)
    return value.text if isinstance(value, Scalar) and value.text else None


def categories_of(record: Mapping) -> list[str]:
    """Its labels."""
    return list(words_of(record.get(CATEGORIES)))


def shown_value(value: Value | None) -> str | None:
    """A known key's value as an attribute shows it: a list has an item a line."""
    if isinstance(value, Sequence) or (isinstance(value, Scalar) and value.text):
        return "\n".join(words_of(value)) if isinstance(value, Sequence) or is_text(value) else value.text
    return None


def folded(path: str) -> str:
    """A path as it is compared where case does not count: the query keeps its own."""
    head, mark, query = path.partition("?")
    return head.lower() + mark + query


def with_path(record: Mapping, path: str) -> Mapping:
    """The record under another path."""
    items = [(key, value) for key, value in record.items if key.text != PATH]
    return Mapping([(Scalar(PATH, True, 0), Scalar(path, False, 0)), *items], record.line)
