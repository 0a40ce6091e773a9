"""RwTree: a project that can be written.  Each change is in the project when the file is closed, as a revision.

``web/`` is made of the nodes of ``rwdirectories.py`` and ``rwfiles.py``; everything else is that of the tree that
only reads (``tree.py``).  Names that are not stored are in ``rwnames.py``; here is what becomes of content.

Threading: one lock guards the names.  A writer's lock is taken before it, the database's after it.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping

from archivefs.errors import ArchiveError, NotPermitted, quoted
from archivefs.format import no_progress
from archivefs.formats.crystal.drafts import Draft, Drafts
from archivefs.formats.crystal.nodes import BodyFile
from archivefs.formats.crystal.records import first
from archivefs.formats.crystal.revisions import NewRevision, RevisionStore, filled_by
from archivefs.formats.crystal.rwdirectories import RemovableRevisions, RwDirectory
from archivefs.formats.crystal.rwfiles import RwFile
from archivefs.formats.crystal.rwnames import RwNames
from archivefs.formats.crystal.tree import CrystalTree
from archivefs.formats.crystal.url_views import text
from archivefs.staging.locks import WriterLock
from archivefs.tree import ROOT_IDENT, Attributes, Capture, Directory, Entry, Node, Parts, Reader, Usage
from archivefs.urlnames import marked_path

LOG = logging.getLogger("archivefs.crystal")

WEB = "web"
_CHUNK = 1 << 20


class RwTree(RwNames):
    """A project opened for writing."""

    def __init__(self, base: CrystalTree, store: RevisionStore, drafts: Drafts, lock: WriterLock) -> None:
        super().__init__(base, drafts)
        self.may_delete = False
        self.may_rename = False
        self._store = store
        self._writer_lock = lock
        self._closed = False
        self._root = _Top(self)

    def _whole(self) -> RwTree:
        return self

    # -- the tree --

    def root(self) -> Directory:
        return self._root

    def usage(self) -> Usage:
        return self.base.usage()

    def facts(self) -> Mapping[str, object]:
        return self.base.facts()

    def extras(self) -> Mapping[str, Callable[[], Reader]]:
        return self.base.extras()

    def captures(self, url: str) -> Iterator[Capture]:
        """What is stored for a URL."""
        for capture in self.base.captures(url):
            yield capture._replace(node=self.ours(capture.node)) if capture.parts[0] == WEB else capture

    def sync(self) -> None:
        self.drafts.area.sync()

    def idle_s(self) -> float:
        return time.monotonic() - self.last_change

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            if not self._unstored:
                self.drafts.empty(set())
            self.drafts.area.close()
        finally:
            self.base.close()
            self._writer_lock.close()

    # -- storing --

    def store(self, file: RwFile) -> None:
        """Make a revision of a file's draft; raises what stops that, and then it stays pending."""
        assert file.url is not None
        if file.draft is None:
            return
        with self.lock:
            self._unstored.add(file)
        self._add(file, file.url, file.draft)
        self._stored(file)

    def store_as(self, file: RwFile, url: bytes, target: RwFile | None) -> None:
        """A file that is not stored takes the place of *target*, which is *url*.  Hold the file at rest."""
        draft = file.draft
        self._add(file, url, draft)
        if target is not None and target is not file:
            target.removed = True
            self._unstored.discard(target)
            if target.spot is not None:
                self.unsaved.pop(target.spot, None)
            if target.draft is not None:
                self.drafts.done(target.draft)
        if file.aside is not None:
            self.hidden.pop(file.aside, None)
            file.aside = None
        if file.url is not None and self._nodes.get(("file", file.url)) is file:
            del self._nodes["file", file.url]
        file.url = url
        self._remember(file)
        self._stored(file)
        if file.writer is not None:
            file.writer.stored()

    def _add(self, file: RwFile, url: bytes, draft: Draft | None) -> None:
        fill = self.drafts.fill(draft) if draft is not None else filled_by(lambda: _pieces(file.open_kept()))
        time_s = draft.time_s if draft is not None else int(time.time())
        self._store.add(NewRevision(url, fill, time_s, self._type_before(url)))
        self.last_change = time.monotonic()

    def _type_before(self, url: bytes) -> str | None:
        """The type that the page had until now, as its header says it."""
        resource = self.base.project.resource_by_url(url)
        shown = self.base.sight.shown(resource) if resource else None
        return first(shown.headers, "content-type") if shown else None

    def _stored(self, file: RwFile) -> None:
        """What was a draft is in the project."""
        with self.lock:
            draft, file.draft = file.draft, None
            assert file.url is not None
            node = self.base.web.leaf_node(file.url)
            file.base = node if isinstance(node, BodyFile) else None
            self._unstored.discard(file)
            if file.spot is not None:
                self.unsaved.pop(file.spot, None)
                file.spot = None
            if draft is not None:
                # If that fails a later mount may find it once more, and see that the page has these bytes already.
                with contextlib.suppress(OSError):
                    self.drafts.done(draft)
            if self.drafts.long and not self._unstored:
                self.drafts.empty(self._bodies_in_use())

    def _bodies_in_use(self) -> set[int]:
        files = [node for node in list(self._idents.values()) if isinstance(node, RwFile)]
        return {body for file in files for body in file.bodies_in_use}

    # -- removing and renaming --

    def remove_file(self, file: RwFile) -> None:
        """unlink: what is not stored goes; of what is stored all revisions, with ``-o delete``."""
        with self.lock:
            stored = file.base if file.spot is None or (file.aside and self.hidden.get(file.aside) is file) else None
            if stored is not None and not self.may_delete:
                raise NotPermitted(
                    "pages of a project are not removed: there would be no way back",
                    archive=self.folder,
                    member=stored.shown.url or b"",
                    advice="mount with -o delete to allow it",
                )
            if stored is not None:
                self.drafts.area.sync()
                self._keep_directories(stored.shown.url or b"")
                self._store.remove_resource(stored.shown.resource)
            self._forget(file)

    def _forget(self, file: RwFile) -> None:
        file.removed = True
        if file.aside is not None:
            self.hidden.pop(file.aside, None)
        if file.spot is not None:
            self.unsaved.pop(file.spot, None)
        if file.url is not None and self._nodes.get(("file", file.url)) is file:
            del self._nodes["file", file.url]
        self._unstored.discard(file)
        self._kept.discard(file)
        if file.draft is not None:
            self.drafts.done(file.draft)

    def _keep_directories(self, url: bytes) -> None:
        """The directories of a page stay until rmdir or unmount, also when nothing is left in them."""
        names = marked_path(text(url))[:-1]
        prefix = b""
        for name in names:
            node = self.directory(prefix).child_or_none(name)
            if not isinstance(node, RwDirectory):
                return
            self.make_directory(prefix, name, node.prefix)
            prefix = node.prefix

    def remove_revision(self, key: int) -> None:
        """Remove one revision from ``history/``."""
        with self.lock:
            if not self.may_delete:
                raise NotPermitted(archive=self.folder, advice="mount with -o delete to allow it")
            revision = self.base.project.revision(key)
            resource = self.base.project.resource(revision.resource) if revision else None
            self._store.remove(key)
            if resource is not None:
                file = self._nodes.get(("file", resource.url))
                if isinstance(file, RwFile):
                    node = self.base.web.leaf_node(resource.url)
                    file.base = node if isinstance(node, BodyFile) else None

    def rename_stored(self, file: RwFile, url: bytes, target: RwFile | None) -> None:
        """Another URL for a stored page, with ``-o rename``, if nothing has it.  Hold the lock."""
        if not self.may_rename:
            raise NotPermitted(
                "a stored page keeps its URL", archive=self.folder, advice="mount with -o rename to allow it"
            )
        if target is not None or file.base is None or file.draft is not None:
            raise NotPermitted("there is a page of that URL already", archive=self.folder, member=url)
        self._keep_directories(file.base.shown.url or b"")
        self._store.rename_resource(file.base.shown.resource, url)
        if file.url is not None and self._nodes.get(("file", file.url)) is file:
            del self._nodes["file", file.url]
        file.url = url
        self._remember(file)
        node = self.base.web.leaf_node(url)
        file.base = node if isinstance(node, BodyFile) else None

    # -- what is pending --

    def pending(self) -> Iterator[tuple[str, Parts]]:
        """What was written and is no revision yet."""
        with self.lock:
            found = [file for file in self._idents.values() if isinstance(file, RwFile) and _is_pending(file)]
        changes = [("changed" if file.base else "added", (WEB, *marked_path(text(file.url or b"")))) for file in found]
        yield from sorted(changes, key=lambda change: change[1])

    def commit(self, progress: Callable[[int, int], None] = no_progress) -> None:
        """Make revisions of what could not be stored when it was closed; raises the first problem."""
        with self.lock:
            waiting = [file for file in self._unstored if file.writer is None]
        problem: Exception | None = None
        for done, file in enumerate(waiting):
            progress(done, len(waiting))
            try:
                self.store(file)
            except (ArchiveError, OSError) as error:
                problem = problem or error
        self._mention_scratch()
        if problem is not None:
            raise problem
        with self.lock:
            if not self._unstored and not any(True for _ in self.pending()):
                self.drafts.empty(self._bodies_in_use())

    def _mention_scratch(self) -> None:
        with self.lock:
            names = sorted(name for (_, name), file in self.unsaved.items() if file.url is None and file.writer is None)
        if names:
            listed = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
            LOG.warning("%s", quoted(f"{self.folder}: not stored, since editors name their scratch files so: {listed}"))

    def discard_changes(self) -> None:
        """Throw away what is no revision yet."""
        with self.lock:
            for file in list(self._unstored):
                if file.base is None:
                    self._forget(file)
                else:
                    file.draft = None
            self._unstored.clear()
            self.drafts.empty(self._bodies_in_use())

    def recover(self) -> int:
        """Make revisions of what an earlier mount has left in the staging area; says how many."""
        count = 0
        for url, draft in list(self.drafts.left()):
            if not self._has_already(url, draft):
                self._store.add(NewRevision(url, self.drafts.fill(draft), draft.time_s, self._type_before(url)))
                count += 1
        self.drafts.empty(set())
        return count

    def _has_already(self, url: bytes, draft: Draft) -> bool:
        """Was the revision made before the crash?  Then the page has these bytes."""
        node = self.base.web.leaf_node(url)
        if not isinstance(node, BodyFile) or node.attributes().size != draft.size:
            return False
        with contextlib.closing(self.drafts.open(draft)) as new, contextlib.closing(node.open()) as old:
            pairs = zip(_pieces(new, close=False), _pieces(old, close=False), strict=False)
            return all(one == other for one, other in pairs)


class _Top(Directory):
    """The root: as the reading tree has it, but for ``web/``."""

    __slots__ = ("ident", "tree")

    def __init__(self, tree: RwTree) -> None:
        self.tree: RwTree = tree
        self.ident = ROOT_IDENT

    def attributes(self) -> Attributes:
        return self.tree.base.root().attributes()

    def child(self, name: str) -> Node:
        return self.tree.directory(b"") if name == WEB else self.tree.base.root().child(name)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        for entry in self.tree.base.root().entries(after):
            node = self.child(entry.name)
            yield Entry(entry.name, entry.kind, node.ident, node)


def allow_removal(tree: RwTree) -> None:
    """Let revisions in ``history/`` be removed."""
    tree.base.revisions_class = RemovableRevisions
    tree.base.remover = tree.remove_revision


def _is_pending(file: RwFile) -> bool:
    return file.url is not None and not file.removed and file.draft is not None


def _pieces(reader: Reader, *, close: bool = True) -> Iterator[bytes]:
    try:
        for offset in range(0, reader.attributes().size, _CHUNK):
            yield reader.read_at(offset, _CHUNK)
    finally:
        if close:
            reader.close()
