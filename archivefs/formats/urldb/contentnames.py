"""The listed names of a content view: a URL's own name wins, directory pages are ``index.html`` where that is free.

The rule is that of ``urlnames``; here it is applied to all paths of one domain at once.  Nothing changes after it is
made, so any thread may use it.
"""

from __future__ import annotations

from collections.abc import Mapping

from archivefs import urlnames
from archivefs.formats.urldb.naming import is_below
from archivefs.urlnames import DIRECTORY_PAGE, PAGE_SUFFIX

Found = tuple[str, bool]
"""A path and False, or the prefix of a directory and True."""


class ContentNames:
    """The directories of one domain, by prefix."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self._types = types
        self._paths = sorted(types)
        self._folders: dict[str, dict[str, Found]] = {"/": {}}
        self._unlisted: dict[tuple[str, str], str] = {}
        self._parts: dict[str, tuple[str, ...]] = {}
        for path in self._paths:
            self._place(path)
        self._sorted = {prefix: sorted(found.items()) for prefix, found in self._folders.items()}

    def find(self, prefix: str, name: str) -> Found | None:
        """What is called *name* in a directory, listed or not."""
        found = self._folders.get(prefix, {}).get(name)
        if found is None and (prefix, name) in self._unlisted:
            return self._unlisted[prefix, name], False
        return found

    def listed(self, prefix: str) -> list[tuple[str, bool]]:
        """The names in a directory, in order, and whether each is a directory."""
        return [(name, is_directory) for name, (_, is_directory) in self._sorted.get(prefix, ())]

    def parts(self, path: str) -> tuple[str, ...]:
        """Where a path is listed, below its domain."""
        return self._parts[path]

    def _place(self, path: str) -> None:
        pieces = urlnames.split_url(f"x://h{path}")
        prefix, names = "/", []
        for piece in pieces.directories[1:]:
            name, inner = urlnames.directory_name(piece), f"{prefix}{piece}/"
            self._folders[prefix][name] = (inner, True)
            self._folders.setdefault(inner, {})
            names.append(name)
            prefix = inner
        own, marked = urlnames.leaf_name(pieces.leaf), None
        index = urlnames.index_name(_media_type(self._types[path]))
        if not pieces.leaf:
            marked = own
            if self._is_free(prefix + index):
                own = index
        elif not pieces.has_tail and is_below(self._paths, path + "/"):
            marked = own = own + PAGE_SUFFIX
            inner = path + "/"
            self._unlisted[prefix, marked] = path
            if self._is_free(inner + index) and inner not in self._types:
                self._folders.setdefault(inner, {})[index] = (path, False)
                self._parts[path] = (*names, urlnames.directory_name(pieces.leaf), index)
                return
        if marked == DIRECTORY_PAGE:
            self._unlisted[prefix, marked] = path
        self._folders[prefix][own] = (path, False)
        self._parts[path] = (*names, own)

    def _is_free(self, path: str) -> bool:
        return path not in self._types and not is_below(self._paths, path + "/")


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()
