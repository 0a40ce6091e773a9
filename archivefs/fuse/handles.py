"""Open files and directory cursors, shared by both transports.

One open file per inode, shared and counted, because the kernel's page cache is shared too.  A directory
handle turns a listing into offsets; it keeps a small directory whole and, of a large one, one name per page.

Threading: ``OpenFiles`` guards its tables with one lock that is never held while a tree is asked;
a ``DirectoryHandle`` has a lock of its own, since the kernel may read one directory from two threads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from itertools import islice

from archivefs.errors import StaleNode, quoted, reason
from archivefs.tree import Attributes, Directory, Entry, File, Reader, Writer

log = logging.getLogger("archivefs.fuse")

PAGE = 1000
"""Names between two remembered places of a large directory."""


class OpenFile:
    """An open file: its reader, how many handles share it, and whether a read of it hangs."""

    __slots__ = ("backing", "count", "inode", "node", "reader", "replaced", "seen", "stuck", "used", "writer")

    def __init__(self, inode: int, node: File, reader: Reader) -> None:
        self.inode = inode
        self.node = node
        self.reader = reader
        self.writer: Writer | None = None
        """The same object as the reader, where the file is open for writing."""
        self.replaced: Reader | None = None
        """The reader that was open before the writer; somebody may still be reading from it."""
        self.seen: Attributes | None = None
        """The node's attributes when it was opened, where they may change meanwhile."""
        self.count = 1
        self.stuck = False
        self.used = 0.0
        """When it was last given back, where a transport keeps it without a handle."""
        self.backing: int | None = None
        """The kernel's number for the file it may read by itself; 0 when it may not; None before that is decided."""

    def shown(self) -> Attributes | None:
        """What ``stat`` has to say of it while it is open, so that it fits the bytes; None: ask the node."""
        if self.seen is None or self.writer is not None:
            return None
        return self.seen._replace(size=self.reader.attributes().size)

    def close(self) -> None:
        """Close what is open of it."""
        self.reader.close()
        if self.replaced is not None:
            self.replaced.close()


def finish(file: OpenFile) -> None:
    """The last handle is gone: what was written becomes the file.  A failure reaches nobody but the log."""
    if file.writer is None:
        return
    try:
        file.writer.finish()
    except Exception as error:
        log.error("%s", quoted(f"close: {reason(error)}; the last changes to it were not saved"))


class OpenFiles:
    """All open files of a mount, by handle and by inode."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.writing = threading.Lock()
        """Held while a file is opened for writing, and while the last of its writers is closed."""
        self._by_inode: dict[int, OpenFile] = {}
        self._by_handle: dict[int, OpenFile] = {}
        self._last_handle = 0

    def open(self, inode: int, node: File, seen: Attributes | None = None) -> int:
        """A handle for *node*, sharing the reader that is open already, if one is and shows the same bytes.

        *seen*: its attributes now, where those may change.  Of two versions that are open at once only the first
        is found ``by_inode``, because the kernel has one size and one set of pages for both.
        """
        with self._lock:
            shared = self._shared(inode, node, seen)
            if shared is not None:
                return self._new_handle(shared)
        reader = node.open()
        with self._lock:
            shared = self._shared(inode, node, seen)
            if shared is None:
                file = OpenFile(inode, node, reader)
                file.seen = seen
                if not node.volatile:
                    self._by_inode.setdefault(inode, file)
                return self._new_handle(file)
            handle = self._new_handle(shared)
        reader.close()
        return handle

    def _shared(self, inode: int, node: File, seen: Attributes | None) -> OpenFile | None:
        """The open file to join, counted already, or None.  Hold the lock."""
        file = None if node.volatile else self._by_inode.get(inode)
        if file is None or (file.writer is None and file.seen != seen):
            return None
        file.count += 1
        return file

    def share_writer(self, inode: int) -> int | None:
        """Another handle for a file that is open for writing, or None.  Hold ``writing``."""
        with self._lock:
            file = self._by_inode.get(inode)
            if file is None or file.writer is None:
                return None
            file.count += 1
            return self._new_handle(file)

    def open_written(self, inode: int, node: File, writer: Writer) -> int:
        """A handle for *node* through *writer*, which those who have it open for reading share from now on."""
        with self._lock:
            file = self._by_inode.get(inode)
            if file is None:
                file = self._by_inode[inode] = OpenFile(inode, node, writer)
            else:
                file.count += 1
                file.replaced = file.reader
            file.reader = file.writer = writer
            return self._new_handle(file)

    def get(self, handle: int) -> OpenFile:
        """The open file behind *handle*; raises StaleNode."""
        try:
            return self._by_handle[handle]
        except KeyError:
            raise StaleNode from None

    def by_inode(self, inode: int) -> OpenFile | None:
        """The open file with that inode, if one is open."""
        return self._by_inode.get(inode)

    def inodes(self) -> list[int]:
        """The inodes of all open files."""
        with self._lock:
            return list(self._by_inode)

    def release(self, handle: int) -> OpenFile | None:
        """Give a handle back; the last one closes the reader, and then the file is returned."""
        with self._lock:
            file = self._by_handle.pop(handle, None)
            if file is None:
                return None
            file.count -= 1
            if file.count:
                return None
            if file.writer is None and self._by_inode.get(file.inode) is file:
                del self._by_inode[file.inode]
        return self._finish(file) if file.writer is not None else self._closed(file)

    def _finish(self, file: OpenFile) -> OpenFile | None:
        """What was written becomes the file; nothing is closed when somebody has opened it again meanwhile."""
        finish(file)
        # Closed under the lock of those who open for writing, or the next one would meet a writer half closed.
        with self.writing:
            with self._lock:
                if file.count:
                    return None
                if self._by_inode.get(file.inode) is file:
                    del self._by_inode[file.inode]
            return self._closed(file)

    @staticmethod
    def _closed(file: OpenFile) -> OpenFile:
        file.close()
        return file

    def sync_all(self) -> None:
        """Make durable what is being written; the first error is raised."""
        with self._lock:
            writers = [file.writer for file in set(self._by_handle.values()) if file.writer is not None]
        for writer in writers:
            writer.sync()

    def close_all(self) -> None:
        """Close every reader, whatever the handles say: the mount is gone."""
        with self._lock:
            files = set(self._by_handle.values())
            self._by_handle.clear()
            self._by_inode.clear()
        for file in files:
            if not file.stuck:
                finish(file)
                file.close()

    def __len__(self) -> int:
        return len(self._by_handle)

    def _new_handle(self, file: OpenFile) -> int:
        self._last_handle += 1
        self._by_handle[self._last_handle] = file
        return self._last_handle


class DirectoryHandle:
    """A listing by offset.  Entry number n (from 0) has offset n; asking for offset n yields from there on.

    Entries are fetched a page at a time and the page is kept, because the kernel refuses what no longer fits and
    asks for it again.  Of the pages before only the last name is remembered, so that ``seekdir`` may
    go back; ``rewinddir`` (offset 0) lists anew.
    """

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.lock = threading.Lock()
        self._last_names: list[str] = []
        """The last name of each whole page met, so that page p begins after ``_last_names[p - 1]``."""
        self._iterator: Iterator[Entry] = iter(())
        self._page: list[Entry] = []
        self._page_number = -1

    def page(self, offset: int) -> list[Entry]:
        """The entries from *offset* to the end of their page; none at the end.  Hold ``lock`` while using it."""
        if offset == 0:
            self._page_number = -1
        if not self._load(offset // PAGE):
            return []
        start = offset % PAGE
        return self._page[start:] if start else self._page

    def entries(self, offset: int) -> Iterator[tuple[int, Entry]]:
        """(offset of the next, entry) from *offset* on.  Hold ``lock`` while using it."""
        if offset == 0:
            self._page_number = -1
        while self._load(offset // PAGE):
            for entry in self._page[offset % PAGE :]:
                offset += 1
                yield offset, entry
            if offset % PAGE:
                return

    def _load(self, number: int) -> bool:
        """Make page *number* the current one; False when there is none."""
        if number == self._page_number:
            return True
        if number == 0 or number != self._page_number + 1:
            # Another page than the next one: begin after the last name of the nearest page known before it.
            known = min(number, len(self._last_names))
            after = self._last_names[known - 1] if known else None
            self._iterator = iter(self.directory.entries(after))
            self._page_number = known - 1
        while self._page_number < number:
            self._page = list(islice(self._iterator, PAGE))
            if not self._page:
                self._page_number = -1
                return False
            self._page_number += 1
            if len(self._page) == PAGE and self._page_number == len(self._last_names):
                self._last_names.append(self._page[-1].name)
        return True


class Directories:
    """All open directories of a mount, by handle."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_handle: dict[int, DirectoryHandle] = {}
        self._last_handle = 0

    def open(self, directory: Directory) -> int:
        """A handle for a new listing of *directory*."""
        with self._lock:
            self._last_handle += 1
            self._by_handle[self._last_handle] = DirectoryHandle(directory)
            return self._last_handle

    def get(self, handle: int) -> DirectoryHandle:
        """The listing behind *handle*; raises StaleNode."""
        try:
            return self._by_handle[handle]
        except KeyError:
            raise StaleNode from None

    def release(self, handle: int) -> None:
        """Give a handle back."""
        self._by_handle.pop(handle, None)
