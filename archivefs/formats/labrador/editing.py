"""LabradorEditor: an archive that can be changed.  Changes lie in a staging area until they are committed.

The tree that is only read (``tree.py``) lies under an overlay (``staging/overlay.py``); here is what is special about
Labrador: which names it can hold and which keys they get (``newnames.py``), attributes, the type declarations.  How
changes get into the archive is in ``commit.py``.

Threading: the lock of the overlay guards everything here too.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from archivefs.errors import ArchiveError, NameTooLong, NotSupported, quoted
from archivefs.format import Opening
from archivefs.formats.labrador import mediatypes
from archivefs.formats.labrador.commit import commit, identity_of, longest_key_below
from archivefs.formats.labrador.container import EXTMIME
from archivefs.formats.labrador.extmime import MAX_BYTES, Types
from archivefs.formats.labrador.keys import ESCAPED_INDEX, MAX_KEY_LENGTH, is_index
from archivefs.formats.labrador.newnames import INDEX_NAMES, AnyNode, NewNames, encoded
from archivefs.formats.labrador.tree import LabradorTree, SiteDirectory, SiteFile
from archivefs.readers import BytesReader
from archivefs.staging.access import require_writable
from archivefs.staging.area import JOURNAL, StagingArea, area_of, default_folder
from archivefs.staging.journal import Record
from archivefs.staging.locks import WriterLock, holder
from archivefs.staging.overlay import OverlayDirectory, OverlayFile, OverlayTree
from archivefs.staging.replace import remove_leftovers
from archivefs.tree import Directory, Kind, Node, Parts, Reader, Tree

log = logging.getLogger("archivefs.labrador")

INDEX_ATTRIBUTE = "user.archivefs.index"
PENDING = "pending"
"""The state of a file whose content is not in the archive yet."""
EXTMIME_PARTS = (".archivefs", "extmime")
KEEP = "keep"
"""``-o extmime=keep``: add no type declarations."""


class LabradorEditor(OverlayTree):
    """An archive opened for changing."""

    base: LabradorTree

    def __init__(self, base: LabradorTree, lock: WriterLock, area: StagingArea, options: Mapping[str, Any]) -> None:
        self.path = base.directory.path
        self.names = NewNames(base, tuple(options.get("index_names", INDEX_NAMES)))
        self.adds_types = options.get("extmime") != KEEP
        self.commit_idle_s = options.get("commit_idle")
        self.writer_lock = lock
        self.new_extmime: bytes | None = None
        """What was written to ``.archivefs/extmime``."""
        self._types: Types | None = None
        self._identity: tuple[LabradorTree, Mapping[str, Any]] | None = None
        self.reported_empty: set[Parts] = set()
        """Empty directories that a commit has said are not kept."""
        super().__init__(base, area)

    def identity(self) -> Mapping[str, Any]:
        if self._identity is None or self._identity[0] is not self.base:
            self._identity = self.base, identity_of(self.base)
        return self._identity[1]

    def close(self) -> None:
        super().close()
        self.writer_lock.close()

    # -- names --

    def check_name(self, directory: OverlayDirectory, name: str, kind: Kind) -> None:
        self.names.check(directory, name)

    def check_move(self, node: AnyNode, directory: OverlayDirectory, name: str) -> None:
        self.names.moving(node)
        if isinstance(node, OverlayDirectory):
            above = self.names.key(directory)
            new = len(above) + bool(above) + len(encoded(name))
            old = len(self.names.key(node))
            if new > old and longest_key_below(self, node) + new - old > MAX_KEY_LENGTH:
                raise NameTooLong("the paths below it would be too long for the format", member=name)

    def named(self, node: AnyNode, replaced: AnyNode | None) -> None:
        self.names.named(node, replaced)

    def put_fields(self, file: OverlayFile) -> Mapping[str, Any]:
        # Which of several files is the document depends on the order they were made in, which the journal has not.
        component = self.names.component(file).lower()
        return {"key": component} if component.startswith(("index.", ESCAPED_INDEX)) else {}

    def restored(self, file: OverlayFile, fields: Mapping[str, Any]) -> None:
        if "key" in fields:
            try:
                self.names.switch(file, document=is_index(str(fields["key"])))
            except ArchiveError as error:
                log.warning("%s", quoted(f"{self.path}: {error}"))

    def find_again(self, base: Directory | None, node: AnyNode) -> tuple[str, Node] | None:
        if not isinstance(base, SiteDirectory):
            return None
        name = self.names.find_again(base, node)
        return (name, base.child(name)) if name is not None else None

    def rebase(self, base: Tree) -> None:
        assert isinstance(base, LabradorTree)
        with self.lock:
            super().rebase(base)
            self.names.rebased(base)
            self._take_extmime(None)

    def discard_changes(self) -> None:
        with self.lock:
            super().discard_changes()
            self.names.forget()
            self._take_extmime(None)

    # -- attributes --

    def file_xattrs(self, file: OverlayFile) -> Mapping[str, bytes]:
        with self.lock:
            unchanged = file.staged is None and isinstance(file.base, SiteFile)
            known = dict(file.base.xattrs()) if unchanged and file.base is not None else {}
            if known and self.new_extmime is None and not self.names.moved(file):
                return known
            key = self.names.key(file)
            component = key.rpartition("/")[2].lower()
            values = {
                "user.xdg.origin.url": self.base.url_for(key.lower()),
                "user.mime_type": self.types.type_of(component),
                "user.archivefs.key": key,
                "user.archivefs.state": known.get("user.archivefs.state", PENDING.encode()).decode(),
                INDEX_ATTRIBUTE: "1" if is_index(component) else "0",
            }
        return {**known, **{name: value.encode() for name, value in values.items()}}

    def set_file_xattr(self, file: OverlayFile, name: str, value: bytes | None) -> None:
        if name != INDEX_ATTRIBUTE or value not in (b"0", b"1"):
            raise NotSupported(f"the one attribute that can be set is {INDEX_ATTRIBUTE}, to 0 or 1", member=file.name)
        self.names.switch(file, document=value == b"1")

    # -- types --

    @property
    def types(self) -> Types:
        """The type declarations, with what was written to them."""
        return self._types if self._types is not None else self.base.types

    def extmime(self) -> bytes:
        """Their text."""
        if self.new_extmime is not None:
            return self.new_extmime
        member = self.base.container.find_special(EXTMIME)
        try:
            return self.base.container.read_text(member, MAX_BYTES) if member is not None else b""
        except ArchiveError:
            return b""

    def save_extmime(self, data: bytes) -> None:
        """Take *data* for the type declarations; raises ContentRefused if it breaks their rules."""
        mediatypes.checked(data)
        with self.lock:
            self.record({"op": "extmime"}, data, sync=True)
            self._take_extmime(data)

    def _take_extmime(self, data: bytes | None) -> None:
        self.new_extmime = data
        self._types = Types(data) if data is not None else None

    def apply_own(self, record: Record) -> None:
        if record.fields["op"] != "extmime":
            super().apply_own(record)
        fd, start, length = record.payload
        self._take_extmime(os.pread(fd, length, start))

    def extras(self) -> Mapping[str, Callable[[], Reader]]:
        # Asked anew at each call: a commit puts another archive underneath.
        return {
            "manifest": lambda: self.base.extras()["manifest"](),
            "extmime": lambda: BytesReader(self.extmime(), mtime_ns=self.base.container.mtime_ns),
        }

    def savers(self) -> Mapping[str, Callable[[bytes], None]]:
        return {"extmime": self.save_extmime}

    # -- what is pending --

    def pending(self) -> Iterator[tuple[str, Parts]]:
        with self.lock:
            if self.new_extmime is not None:
                yield "changed", EXTMIME_PARTS
        yield from super().pending()

    def commit(self, progress: Callable[[int, int], None]) -> None:
        commit(self, progress)


def open_editor(path: str, opening: Opening) -> LabradorEditor:
    """Open the archive at *path* for changing, with what an earlier mount has left.

    Raises SourceBusy if somebody else has it open so, NotPermitted if it cannot be replaced, CorruptArchive if the
    staging area belongs to another state of the archive.
    """
    path = os.path.realpath(path)
    require_writable(path, path, os.path.dirname(path))
    lock = WriterLock(path)
    try:
        remove_leftovers(path)
        area = area_of(path, opening.options.get("staging"))
        editor = LabradorEditor(LabradorTree(path, opening), lock, area, opening.options)
    except BaseException:
        lock.close()
        raise
    try:
        if not opening.ignore_pending:
            _pick_up(editor)
    except BaseException:
        editor.close()
        raise
    return editor


def _pick_up(editor: LabradorEditor) -> None:
    count = sum(1 for _ in editor.pending()) if editor.replay() else 0
    if count:
        what = "a change" if count == 1 else f"{count} changes"
        log.warning("%s", quoted(f"{editor.path}: picked up {what} that an earlier mount has left"))
    if editor.area.damaged_bytes:
        lost = editor.area.damaged_bytes
        log.warning("%s", quoted(f"{editor.path}: the last {lost} bytes of its journal were cut off, never saved"))


def mention_pending(path: str, opening: Opening) -> None:
    """For those who open the archive at *path* only to read it: say that there are changes they do not see."""
    folder = default_folder(path, opening.options.get("staging"))
    if not os.path.exists(os.path.join(folder, JOURNAL)):
        return
    pid = holder(path)
    if pid is not None:
        log.warning("%s", quoted(f"{path}: process {pid} is changing it; what is not committed is not shown"))
    else:
        advice = "mount it with -o rw, or see archivefs status"
        log.warning("%s", quoted(f"{path}: changes wait in {folder} and are not shown; {advice}"))
