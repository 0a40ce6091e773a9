"""Attributes and directory entries as the bytes the kernel wants.

What is the same for all nodes of a kind (owner, permission bits) or of a tree (lifetimes) is packed once.
Threading: the tables only grow, and by answers that are always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from archivefs.fuse.driver import UNKNOWN_INODE, Driver
from archivefs.fuse.handles import DirectoryHandle
from archivefs.fuse.kernel import protocol
from archivefs.fuse.kernel.inodes import Inodes
from archivefs.fuse.kernel.negotiation import Session
from archivefs.fuse.kernel.protocol import ATTR_REPLY, DIRENT, DIRENTPLUS, ENTRY_REPLY, LIFETIMES, NO_ENTRY
from archivefs.tree import Attributes, Directory, Entry, File, Kind, Node, Tree

BLOCK = 4096
SECOND_NS = 10**9
PADDING = tuple(bytes(-length & 7) for length in range(8))
DOTS = (".", "..")
FILE = Kind.FILE


class Replies:
    """Packs what the driver says of nodes."""

    def __init__(self, driver: Driver, session: Session, inodes: Inodes) -> None:
        self._driver = driver
        self._session = session
        self._inodes = inodes
        owner = (driver.options.uid, driver.options.gid)
        self._tails = {kind: protocol.ATTR_TAIL.pack(driver.mode(kind), 1, *owner, 0, BLOCK, 0) for kind in Kind}
        self._immutable_s = int(driver.kept_s)
        self._living_s = int(min(session.living_lifetime_s, driver.kept_s))
        self._lifetimes: dict[tuple[int, int], bytes] = {}

    def _tail(self, node: Node) -> bytes:
        """What is the same for all nodes of a kind, unless somebody has changed the mode of this one."""
        changed = self._driver.modes_set
        mode = changed.get(self._driver.inode(node)) if changed else None
        if mode is None:
            return self._tails[node.kind]
        options = self._driver.options
        return protocol.ATTR_TAIL.pack(mode, 1, options.uid, options.gid, 0, BLOCK, 0)

    # -- one node --

    def entry(self, unique: int, parent: Node, nodeid: int, node: Node) -> bytes:
        """The answer to a look-up."""
        attributes, lasting = self._driver.attributes(node)
        second, rest = divmod(attributes.mtime_ns, SECOND_NS)
        return ENTRY_REPLY.pack(
            ENTRY_REPLY.size,
            0,
            unique,
            nodeid,
            self._lifetimes_of(parent, node, attributes, lasting=lasting),
            self._driver.inode(node),
            attributes.size,
            attributes.size + 511 >> 9,
            second,
            second,
            second,
            rest,
            rest,
            rest,
            self._tail(node),
        )

    def no_entry(self, unique: int, parent: Node) -> bytes | None:
        """The answer to a look-up of what is not there, as one the kernel may keep; None where it may not."""
        seconds = self.lifetime_s(parent)
        if not seconds:
            return None
        head = protocol.OUT_HEADER.pack(ENTRY_REPLY.size, 0, unique)
        return head + protocol.NO_NODE.pack(0, 0, seconds, 0, 0, 0)

    def attributes(
        self, unique: int, node: Node, attributes: Attributes, *, checked: bool = False, lasting: bool = True
    ) -> bytes:
        """The answer to GETATTR.  *checked*: an empty file that was found to be readable."""
        seconds = self.lifetime_s(node) if checked else self._attributes_lifetime_s(node, attributes)
        second, rest = divmod(attributes.mtime_ns, SECOND_NS)
        return ATTR_REPLY.pack(
            ATTR_REPLY.size,
            0,
            unique,
            seconds if lasting else 0,
            0,
            0,
            self._driver.inode(node),
            attributes.size,
            attributes.size + 511 >> 9,
            second,
            second,
            second,
            rest,
            rest,
            rest,
            self._tail(node),
        )

    # -- lifetimes --

    def lifetime_s(self, node: Node) -> int:
        """How long the kernel may keep what it is told about *node*."""
        if node.tree.immutable:
            return self._immutable_s
        return self._living_s if self._driver.lifetime_s(node) else 0

    def _attributes_lifetime_s(self, node: Node, attributes: Attributes) -> int:
        if not attributes.size and self._session.no_open and isinstance(node, File) and not node.sure:
            # The kernel would not even ask to read it; so that a file which cannot be opened
            # can say so, it has to ask for the attributes at each read.
            return 0
        return self.lifetime_s(node)

    def _lifetimes_of(self, parent: Node, node: Node, attributes: Attributes, *, lasting: bool) -> bytes:
        """The name's lifetime is its directory's, the attributes' is the node's own."""
        name_s = 0 if isinstance(node, File) and node.volatile else self.lifetime_s(parent)
        key = (name_s, self._attributes_lifetime_s(node, attributes) if lasting else 0)
        packed = self._lifetimes.get(key)
        if packed is None:
            packed = self._lifetimes[key] = LIFETIMES.pack(0, *key, 0, 0)
        return packed

    # -- listings --

    def names(
        self, handle: DirectoryHandle, nodeid: int, offset: int, room: int, given: list[int]
    ) -> tuple[list[bytes], int]:
        """READDIR: the lines from *offset* on that fit into *room* bytes, and the offset after them."""
        pieces, offset, room = self._dots(nodeid, offset, room, b"")
        directory = handle.directory
        entry_inode = self._driver.entry_inode
        while offset >= 2:
            page = handle.page(offset - 2)
            if not page:
                break
            for entry in page:
                name = entry.name.encode()
                size = DIRENT.size + len(name) + 7 & ~7
                if size > room:
                    return pieces, offset
                room -= size
                offset += 1
                pieces.append(DIRENT.pack(entry_inode(directory, entry), offset, len(name), entry.kind))
                pieces.append(name)
                pieces.append(PADDING[len(name) & 7])
        return pieces, offset

    def names_and_nodes(
        self, handle: DirectoryHandle, nodeid: int, offset: int, room: int, given: list[int]
    ) -> tuple[list[bytes], int]:
        """READDIRPLUS: the same, with the node of each; the numbers handed out are added to *given*."""
        pieces, offset, room = self._dots(nodeid, offset, room, NO_ENTRY)
        plain = self._plain_lines(handle.directory)
        while offset >= 2:
            page = handle.page(offset - 2)
            if not page:
                break
            for entry in page:
                name = entry.name.encode()
                length = len(name)
                size = DIRENTPLUS.size + length + 7 & ~7
                if size > room:
                    return pieces, offset
                room -= size
                offset += 1
                line = plain(entry, offset, length) or self._line(handle, nodeid, entry, offset, length, given)
                pieces += (line, name, PADDING[length & 7])
        return pieces, offset

    def _plain_lines(self, directory: Directory) -> Callable[[Entry, int, int], bytes | None]:
        """A quick way for the many: names without a node, and nodes of the directory's own tree, where that leads back.

        A walk of a million files spends most of its time here; what depends on the tree alone is found out once.
        """
        tree = directory.tree
        tails, pack = self._tails, DIRENTPLUS.pack
        base = self._driver.base(tree)
        seconds = self.lifetime_s(directory)
        usual = LIFETIMES.pack(0, seconds, seconds, 0, 0)
        leads_back, unsure = tree.leads_back, self._session.no_open
        special = self._special_inodes(tree)

        def line(entry: Entry, offset: int, name_size: int) -> bytes | None:
            node = entry.node
            if node is None:
                inode = base | entry.ident if entry.ident else UNKNOWN_INODE
                return NO_ENTRY + DIRENT.pack(inode, offset, name_size, entry.kind)
            if node.tree is not tree or not leads_back:
                return None
            try:
                size, mtime_ns, _ = node.attributes()
            except Exception:
                return None  # one bad entry must not hide the others: whoever looks it up is told
            kind = entry.kind
            if kind == FILE and _needs_care(node, size=size, unsure=unsure):  # isinstance() would cost more
                return None
            inode = base | node.ident
            if inode in special:
                return None
            second, rest = divmod(mtime_ns, SECOND_NS)
            blocks = size + 511 >> 9
            # fmt: off
            return pack(
                inode, usual, inode, size, blocks, second, second, second, rest, rest, rest, tails[kind],
                inode, offset, name_size, kind,
            )
            # fmt: on

        return line

    def _special_inodes(self, tree: Tree) -> Container[int]:
        """Those whose attributes are not simply the node's: open ones that may have changed, and after chmod."""
        changed = self._driver.modes_set
        if tree.immutable and not changed:
            return ()
        return {*self._driver.files.inodes(), *changed}

    def _line(
        self, handle: DirectoryHandle, parent: int, entry: Entry, offset: int, name_size: int, given: list[int]
    ) -> bytes:
        """Any other line: without a node where there is none, or none that could be told about."""
        node = entry.node
        assert node is not None
        told = self._told(node)
        if told is None:
            inode = self._driver.entry_inode(handle.directory, entry)
            return NO_ENTRY + DIRENT.pack(inode, offset, name_size, entry.kind)
        attributes, lasting = told
        nodeid = self._inodes.hand_out(node, parent, entry.name)
        given.append(nodeid)
        second, rest = divmod(attributes.mtime_ns, SECOND_NS)
        return DIRENTPLUS.pack(
            nodeid,
            self._lifetimes_of(handle.directory, node, attributes, lasting=lasting),
            nodeid,
            attributes.size,
            attributes.size + 511 >> 9,
            second,
            second,
            second,
            rest,
            rest,
            rest,
            self._tail(node),
            nodeid,
            offset,
            name_size,
            entry.kind,
        )

    def _told(self, node: Node) -> tuple[Attributes, bool] | None:
        """What the driver says of a node, if that is of use in a listing."""
        if isinstance(node, File) and node.volatile:
            return None
        try:
            return self._driver.attributes(node)
        except Exception:
            return None

    def _dots(self, nodeid: int, offset: int, room: int, start: bytes) -> tuple[list[bytes], int, int]:
        """ "." and "..": the kernel does not add them.  Their nodes are never handed out: it would not forget them."""
        pieces: list[bytes] = []
        size = len(start) + DIRENT.size + 8
        while offset < len(DOTS) and room >= size:
            name = DOTS[offset].encode()
            inode = UNKNOWN_INODE if offset else nodeid
            pieces += (start, DIRENT.pack(inode, offset + 1, len(name), Kind.DIRECTORY), name, PADDING[len(name)])
            offset += 1
            room -= size
        return pieces, offset, room


def _needs_care(file: Any, *, size: int, unsure: bool) -> bool:
    """Is it volatile, or perhaps only seems to be empty?"""
    return file.volatile or (not size and unsure and not file.sure)
