"""Changes get into the archive: a new one is written beside it, checked, and put in its place in one step.

The order is what keeps everything: the staging area is durable; the new archive is written and made durable; it is
read back; the journal says, durably, which archive is about to come; the lock is taken on it; it is renamed; the
folder is made durable; only then the staging area is emptied.  Whatever ends this half-way leaves the old archive
with the changes in the staging area, or the new one.

Runs under the lock of the overlay.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from archivefs.errors import ArchiveError, CorruptArchive, SourceChanged, quoted
from archivefs.format import Progress
from archivefs.formats.labrador import mediatypes
from archivefs.formats.labrador.site import Site, SiteRecord, digest_of
from archivefs.formats.labrador.tree import LabradorTree, SiteDirectory, SiteFile
from archivefs.formats.labrador.writing import Content, pieces_of, pieces_of_fd
from archivefs.staging import durable
from archivefs.staging.locks import WriterLock
from archivefs.staging.overlay import OverlayDirectory, OverlayFile
from archivefs.staging.replace import replacing
from archivefs.tree import Parts
from archivefs.zips.members import stream_member

if TYPE_CHECKING:
    from archivefs.formats.labrador.editing import LabradorEditor

log = logging.getLogger("archivefs.labrador")

SHOWN_EMPTY = 5
PARTS = 1000
"""Progress is told in thousandths of each of the three parts: digests, writing, reading back."""


def commit(editor: LabradorEditor, progress: Progress) -> None:
    """Put every change into the archive.  Raises ArchiveError, and then everything is still pending."""
    with editor.lock:
        _report_empty_directories(editor)
        if not _has_changes(editor):
            editor.empty_area()
            return
        try:
            _commit(editor, progress)
        except (ArchiveError, OSError) as error:
            raise _failed(editor, error) from error


def _has_changes(editor: LabradorEditor) -> bool:
    return editor.new_extmime is not None or any(
        kind != "added" or not _is_new(editor, parts) for kind, parts in editor.pending()
    )


def _is_new(editor: LabradorEditor, parts: Parts) -> bool:
    node = editor.lookup(parts)
    return isinstance(node, OverlayFile) and node.is_new


def _failed(editor: LabradorEditor, error: ArchiveError | OSError) -> ArchiveError:
    why = str(error) if isinstance(error, ArchiveError) else error.strerror or str(error)
    return ArchiveError(
        f"the changes could not be put into the archive: {why}",
        archive=editor.path,
        advice=f"they are kept in {editor.area.folder}; mend the cause and run: archivefs commit {editor.path}",
    )


def _commit(editor: LabradorEditor, progress: Progress) -> None:
    _check_still_ours(editor)
    editor.area.sync()
    with ExitStack() as stack:
        site = _site(editor, _part(progress, 0), stack)
        successor = _Successor(editor, site, _part(progress, 2))
        try:
            with replacing(editor.path, last=successor.prepare) as file:
                site.write(file.fileno(), _part(progress, 1))
        except BaseException:
            successor.give_up()
            raise
    successor.take_over()


def _check_still_ours(editor: LabradorEditor) -> None:
    """Raises SourceChanged when somebody has put another archive in the place of ours, or has changed ours where it is:
    neither must be overwritten.

    One that is gone is written anew.
    """
    editor.base.directory.source.watch(now=True)
    if editor.writer_lock.is_overtaken(editor.path):
        raise SourceChanged("another archive was put in its place while it was open: move that one away")


def identity_of(tree: LabradorTree) -> Mapping[str, Any]:
    """What tells this state of an archive from others: its size, and its directory with the CRC of every member."""
    directory = tree.directory
    return {"size": directory.file_size, "directory": zlib.crc32(directory.records)}


def _part(progress: Progress, number: int) -> Progress:
    def of_all(done: int, total: int) -> None:
        progress(number * PARTS + (PARTS * done // total if total else PARTS), 3 * PARTS)

    return of_all


class _Successor:
    """The new archive, from when it is written to when it has taken over."""

    def __init__(self, editor: LabradorEditor, site: Site, progress: Progress) -> None:
        self._editor = editor
        self._site = site
        self._progress = progress
        self._tree: LabradorTree | None = None
        self._lock: WriterLock | None = None

    def prepare(self, path: str) -> None:
        """Check what was written to *path*, announce it in the journal, and lock it."""
        editor = self._editor
        self._tree = tree = editor.base.reopened(path)
        if tree.manifest.data[:] != self._site.manifest():
            raise CorruptArchive("the new archive has another manifest than it should have", archive=path)
        self._site.check(tree.directory, self._progress)
        _check_still_ours(editor)
        editor.begin()
        editor.area.append({"op": "committing", "identity": identity_of(tree)}, sync=True)
        self._lock = WriterLock(path)

    def take_over(self) -> None:
        """The new archive is in its place."""
        editor, tree, lock = self._editor, self._tree, self._lock
        assert tree is not None and lock is not None
        editor.writer_lock.close()
        editor.writer_lock = lock
        tree.succeed(editor.base, editor.path)
        editor.rebase(tree)

    def give_up(self) -> None:
        """Something went wrong.  If it did so after the renaming, the archive at our path is the new one: the journal
        knows that, and the lock must be there."""
        if self._lock is not None and self._tree is not None:
            if self._is_in_place(self._tree):
                self._editor.writer_lock.close()
                self._editor.writer_lock = self._lock
            else:
                self._lock.close()
        if self._tree is not None:
            self._tree.close()

    def _is_in_place(self, tree: LabradorTree) -> bool:
        try:
            return os.path.samestat(os.fstat(tree.directory.fd), os.stat(self._editor.path))
        except OSError:
            return False


# -- what goes into it --


def _site(editor: LabradorEditor, progress: Progress, stack: ExitStack) -> Site:
    old = editor.base
    records = [*_records(editor, progress, stack), *_hidden(old)]
    extmime = editor.extmime()
    if editor.adds_types:
        extmime = mediatypes.completed(extmime, (record.key.rpartition("/")[2].lower() for record in records))
    else:
        extmime = mediatypes.tidied(extmime)
    return Site(_unique(records), extmime, old.directory)


def _unique(records: list[SiteRecord]) -> Iterator[SiteRecord]:
    """Of keys that are the same but for case, the first: one that cannot be shown may be in the way of a new one."""
    seen: set[str] = set()
    for record in records:
        key = record.key.lower()
        if key not in seen:
            seen.add(key)
            yield record


def _records(editor: LabradorEditor, progress: Progress, stack: ExitStack) -> Iterator[SiteRecord]:
    changed: list[tuple[str, OverlayFile]] = []
    for key, file in keys_below(editor, editor.root(), None):
        if isinstance(file, int):
            yield _old_record(editor.base, file, key)
        elif file.staged is not None:
            changed.append((key, file))
        elif isinstance(file.base, SiteFile):
            yield _old_record(editor.base, file.base.record, key)
    total = sum(file.staged.size for _, file in changed if file.staged is not None)
    done = 0
    for key, file in changed:
        progress(done, total)
        content = _content(editor, file, stack)
        done += content.size
        yield SiteRecord(key, digest_of(content.pieces()), content)


def _old_record(tree: LabradorTree, record: int, key: str) -> SiteRecord:
    place = tree.contents.place_of(record)
    digest = tree.manifest.digest(record)
    if digest is None:
        if place.member is None:
            return SiteRecord(key, tree.manifest.value(record))
        digest = digest_of(stream_member(tree.directory, place.member))
    return SiteRecord(key, digest, place.member)


def _hidden(tree: LabradorTree) -> Iterator[SiteRecord]:
    """Records that cannot be shown stay as they are."""
    for record in range(tree.manifest.shown, len(tree.manifest)):
        yield _old_record(tree, record, tree.manifest.key(record))


def keys_below(
    editor: LabradorEditor, directory: OverlayDirectory, prefix: str | None
) -> Iterator[tuple[str, int | OverlayFile]]:
    """Every file below *directory*: its key, and the record of the archive or the file of the overlay.

    *prefix* is the directory's key where it is not what it was when the archive was opened, else None.
    """
    stack: list[tuple[OverlayDirectory | int, str | None]] = [(directory, prefix)]
    while stack:
        here, prefix = stack.pop()
        if isinstance(here, int):
            stack += yield from _keys_of_base(editor.base, here, prefix)
        else:
            stack += yield from _keys_of_overlay(editor, here, prefix)


_Below = list[tuple[OverlayDirectory | int, str | None]]
_Keys = Generator[tuple[str, int | OverlayFile], None, _Below]


def _keys_of_base(tree: LabradorTree, number: int, prefix: str | None) -> _Keys:
    """A directory where nothing was changed; gives the directories in it."""
    manifest = tree.manifest
    for record in manifest.files(number):
        key = manifest.key(record)
        yield (key if prefix is None else f"{prefix}/{key.rpartition('/')[2]}"), record
    below: _Below = []
    for place in manifest.places(number):
        child = manifest.at_place(place)
        below.append((child, None if prefix is None else f"{prefix}/{manifest.written_directory_name(child)}"))
    return below


def _keys_of_overlay(editor: LabradorEditor, directory: OverlayDirectory, prefix: str | None) -> _Keys:
    below: _Below = []
    placed, seen = directory.placed, directory.seen
    if isinstance(directory.base, SiteDirectory):
        tree = editor.base
        names = tree.names(directory.base.number)
        for child in range(len(names)):
            shown = names.shown(child)
            if shown in placed:
                continue
            number = names.directory(child)
            if number is None:
                key = tree.manifest.key(names.record(child))
                yield (key if prefix is None else f"{prefix}/{key.rpartition('/')[2]}"), names.record(child)
                continue
            component = tree.manifest.written_directory_name(number)
            below.append((seen.get(shown, number), None if prefix is None else f"{prefix}/{component}"))
    for node in placed.values():
        if isinstance(node, OverlayFile):
            yield editor.names.key(node), node
        elif node is not None:
            below.append((node, editor.names.key(node)))
    return below


def longest_key_below(editor: LabradorEditor, directory: OverlayDirectory) -> int:
    """The length of the longest key below *directory*, or 0."""
    prefix = editor.names.key(directory) if editor.names.moved(directory) else None
    return max((len(key) for key, _ in keys_below(editor, directory, prefix)), default=0)


# -- content from the staging area --


def _content(editor: LabradorEditor, file: OverlayFile, stack: ExitStack) -> Content:
    staged = file.staged
    assert staged is not None
    if staged.body and staged.body == file.body_in_use:
        return _snapshot(editor, staged.body, staged.size, stack)
    return Content(staged.size, partial(pieces_of, file.open))


def _snapshot(editor: LabradorEditor, body: int, size: int, stack: ExitStack) -> Content:
    """A copy of content that somebody may be writing: it is read three times, and must be the same each time."""
    area = editor.area
    source = area.open_body(body)
    try:
        number, fd = area.new_body()
        stack.callback(area.drop_body, number)
        stack.callback(os.close, fd)
        at = 0
        for piece in pieces_of_fd(source, size):
            durable.write_all(fd, piece, at)
            at += len(piece)
    finally:
        os.close(source)
    return Content(at, partial(pieces_of_fd, fd, at))


# -- what cannot be kept --


def _report_empty_directories(editor: LabradorEditor) -> None:
    """Directories are implied by files: an empty one lives as long as the mount."""
    empty = [parts for parts in _empty_directories(editor.root()) if parts not in editor.reported_empty]
    if not empty:
        return
    editor.reported_empty.update(empty)
    shown = ", ".join("/".join(parts) for parts in sorted(empty)[:SHOWN_EMPTY])
    more = f" and {len(empty) - SHOWN_EMPTY} more" if len(empty) > SHOWN_EMPTY else ""
    log.warning("%s", quoted(f"{editor.path}: empty directories are not kept: {shown}{more}"))


def _empty_directories(directory: OverlayDirectory) -> Iterator[Parts]:
    """Those that were made or emptied; an archive has none, so only what hangs in the overlay can be one."""
    for node in (*directory.placed.values(), *directory.seen.values()):
        if isinstance(node, OverlayDirectory):
            if node.is_empty():
                yield node.parts()
            else:
                yield from _empty_directories(node)
