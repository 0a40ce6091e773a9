"""``SRC:/path``: which archive, and which path in it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from archivefs.errors import ArchiveError, CorruptArchive, DirectoryExpected, NotFound, UnreadableArchive
from archivefs.tree import Directory, Entry, Node, Parts, Symlink, Tree

MARK = ":/"
MAX_LINKS = 40
"""As many as Linux follows in one path."""


class Place(NamedTuple):
    """A path in an archive."""

    source: str
    parts: Parts

    def __str__(self) -> str:
        return f"{self.source}{MARK}{'/'.join(self.parts)}" if self.parts else self.source


class Found(NamedTuple):
    """A node, and where it really is once links have been followed."""

    node: Node
    parts: Parts


def parse_place(text: str) -> Place:
    """``SRC`` or ``SRC:/path``.

    A file's name may contain ``:/`` together with its folder, so the source is the longest prefix that
    exists.  Where none does, it is what stands before the first mark.
    """
    if os.path.lexists(text) or MARK not in text:
        return Place(text, ())
    cut = text.rfind(MARK)
    while cut > 0:
        if os.path.lexists(text[:cut]):
            return Place(text[:cut], _parts(text[cut + 1 :]))
        cut = text.rfind(MARK, 0, cut)
    source, _, path = text.partition(MARK)
    return Place(source, _parts(path))


def _parts(path: str) -> Parts:
    # Names in a tree are UTF-8, whatever the user's own locale makes of the command line.
    text = os.fsencode(path).decode("utf-8", "surrogateescape")
    return tuple(name for name in text.split("/") if name not in ("", "."))


def look_up(tree: Tree, place: Place, *, follow: bool = True) -> Found:
    """The node at a place, through symbolic links; the last one too if *follow*.

    Raises NotFound and DirectoryExpected, naming the archive and the whole path.
    """
    try:
        return _walk(tree, place.parts, follow=follow)
    except (NotFound, DirectoryExpected) as error:
        raise type(error)(error.problem, archive=place.source, member="/".join(place.parts)) from error


def _walk(tree: Tree, parts: Sequence[str], *, follow: bool) -> Found:
    path: list[tuple[str, Node]] = [("", tree.root())]
    ahead = list(reversed(parts))
    links = 0
    while ahead:
        name = ahead.pop()
        if name == "..":
            if len(path) > 1:
                path.pop()
            continue
        directory = path[-1][1]
        if not isinstance(directory, Directory):
            raise DirectoryExpected
        node = directory.child(name)
        if not isinstance(node, Symlink) or not (ahead or follow):
            path.append((name, node))
            continue
        links += 1
        ahead += _target(node, links)
    return Found(path[-1][1], tuple(name for name, _ in path[1:]))


def _target(link: Symlink, links: int) -> list[str]:
    """The names a link leads through, last one first."""
    if links > MAX_LINKS:
        raise NotFound("too many symbolic links")
    target = link.target()
    if target.startswith("/"):
        raise NotFound("the symbolic link leads out of the archive")
    return [name for name in reversed(target.split("/")) if name not in ("", ".")]


def node_of(directory: Directory, entry: Entry) -> Node:
    """The node of a line in a listing, which may have brought it along."""
    return directory.child(entry.name) if entry.node is None else entry.node


def located(error: ArchiveError, place: Place) -> ArchiveError:
    """*error*, telling at least which archive and which path it is about."""
    if error.archive and isinstance(error, (CorruptArchive, UnreadableArchive)):
        return error  # it is about that archive as a whole, perhaps one in a folder
    error.archive = error.archive or place.source
    error.member = error.member or "/".join(place.parts)
    return error
