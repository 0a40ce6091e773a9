"""The names of a read-write mount: one node for each URL and prefix, and beside them what is not stored.

Used by ``rwtree.py``, which adds what becomes of content.  What is not stored (files that are being written, an
editor's scratch files, directories without a page in them) is kept here until it is stored or until unmount.

Threading: one lock guards everything here.
"""

from __future__ import annotations

import hashlib
import threading
import time
import weakref
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from archivefs.formats.crystal.drafts import Drafts
from archivefs.formats.crystal.idents import Fixed
from archivefs.formats.crystal.nodes import BodyFile
from archivefs.formats.crystal.rwdirectories import RwDirectory
from archivefs.formats.crystal.rwfiles import RwFile, Spot
from archivefs.formats.crystal.tree import CrystalTree
from archivefs.formats.crystal.url_views import UrlDirectory, UrlRoot
from archivefs.formats.crystal.urls import Alias
from archivefs.tree import MAX_IDENT, ROOT_IDENT, Directory, Node, Tree

if TYPE_CHECKING:
    from archivefs.formats.crystal.rwtree import RwTree


class RwNames(Tree):
    """The half of the tree that knows names."""

    immutable = False
    writable = True
    open_needed = True

    def __init__(self, base: CrystalTree, drafts: Drafts) -> None:
        self.base = base
        self.folder = base.project.place.folder
        self.drafts = drafts
        self.lock = threading.RLock()
        self.last_change = time.monotonic()
        self.unsaved: dict[Spot, RwFile] = {}
        """Files that the project does not list yet, or never will (an editor's)."""
        self.hidden: dict[Spot, RwFile] = {}
        """Stored pages that an editor has moved out of the way, by where they belong."""
        self._made: dict[bytes, dict[str, bytes]] = {}
        """Directories that exist only here: by the prefix of the one they are in, then by name."""
        self._nodes: weakref.WeakValueDictionary[object, RwFile | RwDirectory] = weakref.WeakValueDictionary()
        self._idents: weakref.WeakValueDictionary[int, Node] = weakref.WeakValueDictionary()
        self._kept: set[Node] = set()
        self._unstored: set[RwFile] = set()
        """Files whose draft could not be made a revision, or not yet."""

    @abstractmethod
    def _whole(self) -> RwTree:
        """Itself, for the nodes."""

    # -- nodes --

    def directory(self, prefix: bytes) -> RwDirectory:
        """The directory of a prefix, one object as long as anybody has it."""
        with self.lock:
            found = self._nodes.get(("directory", prefix))
            if not isinstance(found, RwDirectory):
                found = RwDirectory(self._whole(), self._new_ident(b"d" + prefix), prefix)
                self._nodes["directory", prefix] = self._idents[found.ident] = found
            return found

    def ours(self, node: Node) -> Node:
        """Our node for one of the reading tree; links and flat directories are left as they are."""
        if isinstance(node, UrlDirectory):
            return self.directory(node.prefix)
        if not isinstance(node, BodyFile) or node.shown.url is None:
            return node
        with self.lock:
            found = self._nodes.get(("file", node.shown.url))
            if not isinstance(found, RwFile):
                return self._remember(
                    RwFile(self._whole(), self._new_ident(b"f" + node.shown.url), node.shown.url, node)
                )
            return found

    def _remember(self, file: RwFile) -> RwFile:
        if file.url is not None:
            self._nodes["file", file.url] = file
        self._idents[file.ident] = file
        return file

    def _new_ident(self, name: bytes) -> int:
        ident = int.from_bytes(hashlib.blake2b(name, digest_size=6).digest(), "big")
        while ident <= ROOT_IDENT or ident in self._idents:
            ident = ident % MAX_IDENT + 1
        return ident

    def base_directory(self, prefix: bytes) -> Directory:
        """What the reading tree lists there."""
        view = self.base.web
        return UrlDirectory(view, 0, prefix) if prefix else UrlRoot(view, Fixed.WEB)

    def base_child(self, prefix: bytes, name: str) -> Node | None:
        """What the reading tree has of that name."""
        view = self.base.web
        return view.child(prefix, name) if prefix else view.top(name) or view.extra_child(b"", name)

    def aliases(self) -> Sequence[Alias]:
        """The project's aliases."""
        return self.base.project.edition().aliases

    def keep_until_unmount(self, node: Node) -> None:
        """Hold on to a node that was given a time of its own."""
        with self.lock:
            self._kept.add(node)

    # -- what is not stored --

    def unsaved_names(self, prefix: bytes) -> dict[str, RwFile | RwDirectory]:
        """What is listed there beside what the project lists.  Hold the lock."""
        found: dict[str, RwFile | RwDirectory] = {}
        for name, inner in self._made.get(prefix, {}).items():
            found[name] = self.directory(inner)
        found.update({name: file for (above, name), file in self.unsaved.items() if above == prefix})
        return found

    def made_directory(self, prefix: bytes, name: str) -> RwDirectory | None:
        """A directory that exists only here."""
        inner = self._made.get(prefix, {}).get(name)
        return None if inner is None else self.directory(inner)

    def make_directory(self, prefix: bytes, name: str, inner: bytes) -> RwDirectory:
        """Make one; it lasts until unmount or until a page is stored in it."""
        self._made.setdefault(prefix, {})[name] = inner
        return self.directory(inner)

    def forget_directory(self, prefix: bytes, name: str) -> None:
        """Remove one that exists only here."""
        with self.lock:
            self._made.get(prefix, {}).pop(name, None)

    def new_file(self, url: bytes | None, spot: Spot) -> RwFile:
        """A file that is not stored yet.  Hold the lock."""
        name = b"f" + url if url is not None else b"s" + spot[0] + b"\0" + spot[1].encode("utf-8", "surrogateescape")
        file = RwFile(self._whole(), self._new_ident(name), url, None)
        file.spot = spot
        self.unsaved[spot] = file
        return self._remember(file)

    def move_unsaved(self, file: RwFile, spot: Spot) -> None:
        """Give an unsaved file another name that is an editor's.  Hold the lock."""
        if file.spot is not None:
            self.unsaved.pop(file.spot, None)
        if file.url is not None and file.draft is not None and file.draft.serial:
            self.drafts.area.append({"op": "done", "serial": file.draft.serial}, sync=True)
            file.draft = file.draft._replace(serial=0)
        self._become_scratch(file)
        file.spot = spot
        self.unsaved[spot] = file

    def put_aside(self, file: RwFile, home: Spot, spot: Spot) -> None:
        """An editor moves a stored page out of the way before it writes it anew.  Hold the lock."""
        self._become_scratch(file)
        file.aside, file.spot = home, spot
        self.hidden[home] = self.unsaved[spot] = file

    def put_back(self, file: RwFile) -> None:
        """The page that was moved out of the way is wanted after all.  Hold the lock."""
        assert file.aside is not None
        self.hidden.pop(file.aside, None)
        if file.spot is not None:
            self.unsaved.pop(file.spot, None)
        file.url = file.base.shown.url if file.base is not None else None
        file.aside = file.spot = None
        self._remember(file)

    def _become_scratch(self, file: RwFile) -> None:
        if file.url is not None and self._nodes.get(("file", file.url)) is file:
            del self._nodes["file", file.url]
        file.url = None
        self._unstored.discard(file)
