"""Which names can become URLs of a project, and which belong to an editor and never do.  Pure but for the aliases.

Used by the read-write tree.  A new name is a URL's own name; a URL that Crystal would store under another form, or that
an alias would lead elsewhere, cannot be made.  A name in whose look an editor or a copier works is scratch: it is kept
until it is renamed to what it is meant for, and is never stored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from archivefs.errors import NameTooLong, NotPermitted
from archivefs.formats.crystal.urls import Alias, normal_form
from archivefs.urlnames import NO_SCHEME, Shortened, directory_piece, leaf_piece, top_prefix

MAX_NAME_BYTES = 255
_SCRATCH = re.compile(
    r"\..*\.sw."  # vim's swap
    r"|4913"  # vim tries whether it can make a file
    r"|.*~"  # the version before, of vim, emacs and others
    r"|\.#.*"  # emacs' lock
    r"|\._.*|\.DS_Store"  # macOS
    r"|\.goutputstream-.*"  # GLib, for gedit and others
    r"|\..+\.[A-Za-z0-9]{6}"  # rsync
    r"|sed[A-Za-z0-9]{6}",  # sed -i
    re.DOTALL,
)


def is_scratch(name: str) -> bool:
    """Is it a name under which an editor works?"""
    return _SCRATCH.fullmatch(name) is not None


def new_url(prefix: bytes, name: str, aliases: Sequence[Alias]) -> bytes:
    """The URL that a new file of that name in the directory of *prefix* has; raises NotPermitted."""
    piece = leaf_piece(name)
    _check_length(name)
    if not isinstance(piece, str):
        raise NotPermitted("no URL has that name", member=name)
    url = prefix + piece.encode("utf-8", "surrogateescape")
    _check(url, name, aliases)
    return url


def new_prefix(prefix: bytes, name: str, aliases: Sequence[Alias]) -> bytes:
    """What the URLs in a new directory of that name begin with; raises NotPermitted."""
    _check_length(name)
    if not prefix:
        return _new_top(name)
    piece = directory_piece(name)
    if not isinstance(piece, str) or isinstance(piece, Shortened):
        raise NotPermitted("no URL has a directory of that name", member=name)
    inner = prefix + piece.encode("utf-8", "surrogateescape") + b"/"
    _check(inner, name, aliases)
    return inner


def _new_top(name: str) -> bytes:
    prefix = top_prefix(name)
    if name == NO_SCHEME or prefix is None or not prefix.endswith("//"):
        raise NotPermitted("the name of a scheme is expected, such as https", member=name)
    if name == "crystal" or (name != name.lower() and name.lower() in ("http", "https")):
        raise NotPermitted("there are no such URLs in a project", member=name)
    return prefix.encode("ascii")


def _check(url: bytes, name: str, aliases: Sequence[Alias]) -> None:
    text = url.decode("utf-8", "surrogateescape")
    if text.lower().startswith("crystal:"):
        raise NotPermitted("there are no such URLs in a project", member=name)
    normal = normal_form(text)
    if normal != text:
        raise NotPermitted(f"Crystal would store that URL as {normal}", member=text, advice="use that name")
    for alias in aliases:
        if text.startswith(alias.source):
            raise NotPermitted(f"an alias leads from there to {alias.target}", member=text)


def _check_length(name: str) -> None:
    if len(name.encode("utf-8", "surrogateescape")) > MAX_NAME_BYTES:
        raise NameTooLong(member=name)
