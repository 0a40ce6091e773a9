"""KnownTree: what the nodes of both trees of crawls need of them.

An ident is a keyed hash of what the node is.  The key is chosen at random for each tree, so that no archive can be made
to have two of the same; among a million nodes the chance of one is about one in five hundred, and nothing is kept.
"""

from __future__ import annotations

import os
from hashlib import blake2b

from archivefs.caches import ByteCache
from archivefs.tree import ROOT_IDENT, Tree

_BYTES = 6


class KnownTree(Tree):
    """A tree whose idents are made from keys; the empty key is the root's."""

    open_needed = True

    def __init__(self, cache: ByteCache) -> None:
        self.cache = cache
        self.times: dict[int, int] = {}
        """Times that were set, by ident; kept until unmount."""
        self._salt = os.urandom(16)

    def ident(self, key: tuple[object, ...]) -> int:
        """The ident of what *key* says."""
        if not key:
            return ROOT_IDENT
        digest = blake2b(repr(key).encode("utf-8", "backslashreplace"), digest_size=_BYTES, key=self._salt).digest()
        return int.from_bytes(digest, "big") % (2**48 - 3) + 2
