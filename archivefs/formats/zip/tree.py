"""ZipTree: the members of a zip as they are.

Used by every front-end, by way of ``FORMAT``.  Nodes are made when asked for and hold nothing but their ident;
what they answer comes from the directory's bytes (``zips/directory.py``) and from ``folders.py``.

* A symbolic link is shown as one only if it stays inside (``names.link_stays_inside``); otherwise it is a file
  that holds the target as text.  One with a target longer than any system would follow gives an error.
* Devices, fifos and sockets are plain files; owners and permissions are the mount's business.
* A folder without an entry of its own has the time of the archive.

Any thread may call anything: what is shared guards itself.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice

from archivefs import names
from archivefs.errors import ArchiveError, LimitExceeded, NotFound, quoted
from archivefs.format import Opening
from archivefs.formats.zip.contenttypes import content_type
from archivefs.formats.zip.folders import Folders
from archivefs.tree import Attributes, Directory, Entry, File, Kind, Node, Reader, Symlink, Tree, Usage
from archivefs.zips.ahead import Ahead
from archivefs.zips.codecs import METHOD_NAMES, STORED
from archivefs.zips.directory import MAX_SIZE, ZipDirectory
from archivefs.zips.index import IndexFolder
from archivefs.zips.members import attributes_of, open_member, read_member

LOG = logging.getLogger(__name__)

LOOKED_AHEAD = 256
"""How many things in a folder are looked at for files to fetch ahead: all others may be folders."""
MAX_LINK_TEXT = 1 << 16
"""A link whose target is longer than this is a trap, not a text."""


class ZipTree(Tree):
    """An opened zip."""

    immutable = True
    leads_back = True

    def __init__(self, path: str, opening: Opening) -> None:
        self.encoding: str = opening.options.get("encoding") or "utf-8"
        self.cache = opening.cache
        self.directory = ZipDirectory.open(path, index=IndexFolder.chosen(opening.index))
        try:
            self.folders = Folders(self.directory, self.encoding, opening.progress)
        except BaseException:
            self.directory.close()
            raise
        self.directory.ahead = Ahead(self.directory, self._files_after)
        self._usage: Usage | None = None
        for problem in self.directory.problems:
            LOG.warning("%s: %s", quoted(path), problem.message)

    def root(self) -> Directory:
        return ZipFolder(self, 0)

    def node(self, ident: int) -> Node:
        number = ident >> 1
        if ident & 1 and number < len(self.folders):
            return ZipFolder(self, number)
        if not ident & 1 and 0 < number <= len(self.directory) and self.folders.folder_of(number - 1) is not None:
            return self._member(number - 1)
        raise NotFound

    def usage(self) -> Usage:
        if self._usage is None:
            sizes = map(self.directory.size, range(len(self.directory)))
            self._usage = Usage(size=min(sum(sizes), MAX_SIZE), files=self.folders.things + 1)
        return self._usage

    def facts(self) -> Mapping[str, object]:
        directory, every = self.directory, range(len(self.directory))
        files = [i for i in every if self.folders.folder_of(i) is not None]
        methods = Counter(map(directory.method, files))
        facts: dict[str, object] = {
            "files": len(files),
            "directories": len(self.folders) - 1,
            "size": sum(map(directory.size, every)),
            "compressed_size": sum(map(directory.compressed_size, every)),
            "methods": {METHOD_NAMES.get(method, str(method)): methods[method] for method in sorted(methods)},
            "encrypted": sum(map(directory.encrypted, files)),
            "comment": directory.comment.decode("utf-8", "backslashreplace"),
            "problems": [problem.message for problem in directory.problems],
        }
        return {name: value for name, value in facts.items() if value or name in ("files", "directories", "size")}

    def close(self) -> None:
        self.directory.close()
        self.cache.forget(self.directory.cache_owner)

    # -- members --

    def _files_after(self, entry: int) -> Iterator[int]:
        """Those that are listed after it in its folder, as far as the next few things in it."""
        folder, ident = self.folders.folder_of(entry), 2 * entry + 2
        if folder is not None:
            listing = self.folders.listing(folder, self.folders.settled_name(folder, ident))
            for other, _ in islice(listing, LOOKED_AHEAD):
                if not other & 1:
                    yield (other >> 1) - 1

    def _member(self, entry: int) -> Node:
        if self.directory.is_symlink(entry) and self.link_target(entry) is not None:
            return ZipLink(self, entry)
        return ZipFile(self, entry)

    def link_target(self, entry: int) -> str | None:
        """Where a link leads, if it may be shown as one; None if it is damaged, leads out, or is no link at all."""
        directory = self.directory
        folder = self.folders.folder_of(entry)
        if folder is None or not 0 < directory.size(entry) <= names.MAX_TARGET_BYTES:
            return None
        encoding = "utf-8" if directory.flags(entry) & 0x800 else self.encoding
        try:
            raw = read_member(directory, entry, self.cache, limit=names.MAX_TARGET_BYTES)
            target = raw.decode(encoding)
        except (ArchiveError, UnicodeDecodeError):
            return None
        return target if names.link_stays_inside(self.folders.parts_of(folder), target, self.top) else None

    def xattrs_of(self, entry: int) -> dict[str, bytes]:
        """What the archive says of an entry beside size and time."""
        directory = self.directory
        method = directory.method(entry)
        return {
            "user.archivefs.key": directory.name(entry),
            "user.archivefs.method": METHOD_NAMES.get(method, str(method)).encode(),
            "user.archivefs.compressed_size": str(directory.compressed_size(entry)).encode(),
            "user.archivefs.crc32": f"{directory.crc(entry):08x}".encode(),
        }


class ZipFolder(Directory):
    """A folder, with an entry of its own or only known from the names of others."""

    __slots__ = ("_folder", "ident", "tree")

    def __init__(self, tree: ZipTree, folder: int) -> None:
        self.tree: ZipTree = tree
        self.ident = 2 * folder + 1
        self._folder = folder

    def attributes(self) -> Attributes:
        directory, entry = self.tree.directory, self.tree.folders.entry_of(self._folder)
        return Attributes(0, directory.source.mtime_ns if entry is None else directory.mtime_ns(entry))

    def xattrs(self) -> Mapping[str, bytes]:
        entry = self.tree.folders.entry_of(self._folder)
        return {} if entry is None else {"user.archivefs.key": self.tree.directory.name(entry)}

    def child(self, name: str) -> Node:
        ident = self.tree.folders.find(self._folder, name)
        if ident is None:
            raise NotFound(archive=self.tree.directory.path, member=name)
        return self.tree.node(ident)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        tree = self.tree
        is_symlink = tree.directory.is_symlink
        for ident, name in tree.folders.listing(self._folder, after):
            if ident & 1:
                yield Entry(name, Kind.DIRECTORY, ident, ZipFolder(tree, ident >> 1))
            elif is_symlink((ident >> 1) - 1):
                node = tree.node(ident)
                yield Entry(name, node.kind, ident, node)
            else:
                yield Entry(name, Kind.FILE, ident, ZipFile(tree, (ident >> 1) - 1))


class ZipFile(File):
    """A member that is shown as a file."""

    __slots__ = ("_entry", "ident", "tree")

    def __init__(self, tree: ZipTree, entry: int) -> None:
        self.tree: ZipTree = tree
        self.ident = 2 * entry + 2
        self._entry = entry

    def attributes(self) -> Attributes:
        return attributes_of(self.tree.directory, self._entry)

    def xattrs(self) -> Mapping[str, bytes]:
        found = self.tree.xattrs_of(self._entry)
        type_ = content_type(found["user.archivefs.key"])
        return found if type_ is None else {**found, "user.mime_type": type_.encode()}

    @property
    def sure(self) -> bool:
        """No bytes are stored and none are promised: nothing could be wrong with them."""
        directory, entry = self.tree.directory, self._entry
        promised = directory.size(entry) or directory.compressed_size(entry) or directory.crc(entry)
        return not promised and directory.method(entry) == STORED and not directory.encrypted(entry)

    def open(self) -> Reader:
        directory, entry = self.tree.directory, self._entry
        if directory.is_symlink(entry) and directory.size(entry) > MAX_LINK_TEXT:
            problem = f"a symbolic link with a target of {directory.size(entry)} bytes"
            raise LimitExceeded(problem, archive=directory.path, member=directory.name(entry))
        return open_member(directory, entry, self.tree.cache)


class ZipLink(Symlink):
    """A member that is shown as a symbolic link."""

    __slots__ = ("_entry", "ident", "tree")

    def __init__(self, tree: ZipTree, entry: int) -> None:
        self.tree: ZipTree = tree
        self.ident = 2 * entry + 2
        self._entry = entry

    def attributes(self) -> Attributes:
        size = len(self.target().encode())
        return Attributes(size, self.tree.directory.mtime_ns(self._entry), self.tree.directory.crc(self._entry))

    def xattrs(self) -> Mapping[str, bytes]:
        return self.tree.xattrs_of(self._entry)

    def target(self) -> str:
        target = self.tree.link_target(self._entry)
        if target is None:
            raise self.tree.directory.corrupt(self._entry, "the link can no longer be read")
        return target
