"""What a manifest key means: its decoded names, its URL path, its normalization, its rank among equals.

Pure functions, safe from any thread.  Keys are ASCII text with "/" between the components; case carries no
information.  See the Labrador format, "Manifest file" and "Uniqueness".
"""

from __future__ import annotations

import re
from functools import lru_cache

from archivefs.formats.labrador import bitsy
from archivefs.formats.labrador.bitsy import MAX_LENGTH, BitsyError

INDEX = "index."
"""A file whose name begins so is the document of its directory."""
ESCAPED_INDEX = "xq--index-x."
"""An ordinary file or directory whose name begins with ``index.`` is written so."""
NORMAL_INDEX = "index.i"
"""What every index document normalizes to."""
EMPTY_DIGEST = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""SHA-256 of no bytes."""
MAX_KEY_LENGTH = 1023

_PREFIXES = ("xz--", "xq--")
_PLAIN_COMPONENT = (
    r"(?!xz--|xq--|index\.|(?:aux|con|nul|prn|com[0-9]|lpt[0-9])(?:[./]|\Z))\.?[a-z0-9_]+(?:(?:-+|\.)[a-z0-9_]+)*"
)
_PLAIN = re.compile(f"{_PLAIN_COMPONENT}(?:/{_PLAIN_COMPONENT})*")


def is_plain(key: str) -> bool:
    """Does every component of a lower-cased key mean just itself?  Most do, and this is the quick way to know."""
    return len(key) <= MAX_LENGTH and bool(_PLAIN.fullmatch(key))


def is_index(name: str) -> bool:
    """Is a file of this lower-cased name its directory's document?"""
    return name.startswith(INDEX)


def decoded_name(name: str) -> str:
    """What a lower-cased component means; one that cannot be decoded means itself."""
    return _decoded(name) if name.startswith(_PREFIXES) else name


@lru_cache(4096)
def _decoded(name: str) -> str:
    try:
        return bitsy.decode(name)
    except BitsyError:
        return name


def url_path(key: str) -> str:
    """The path of a lower-cased key under the site's root, with "/" before it, not percent-encoded."""
    *directories, name = key.split("/")
    names = [decoded_name(directory) for directory in directories]
    return "/".join(["", *names, "" if is_index(name) else decoded_name(name)])


def normalize_name(name: str) -> str:
    """The encoded normalization of one component; raises BitsyError where there is none."""
    return _normalized(name.lower())


@lru_cache(4096)
def _normalized(name: str) -> str:
    if name.startswith(ESCAPED_INDEX):
        return name
    if name.startswith(INDEX):
        return NORMAL_INDEX
    return bitsy.encode(bitsy.decode(name))


def normalize(key: str) -> str:
    """The encoded normalization of a whole key or directory; without one it is the lower-cased text."""
    key = key.lower()
    if is_plain(key):
        return key
    try:
        return "/".join([_normalized(name) for name in key.split("/")])
    except BitsyError:
        return key


Rank = tuple[int, int, str, str]


def rank(key: str) -> Rank:
    """The lowest of the keys that share a digest is the primary copy."""
    normalized = normalize(key)
    return normalized.count("/"), len(normalized), normalized, key.lower()
