"""Numbers and structures of the kernel's FUSE protocol, as ``linux/fuse.h`` gives them (up to version 7.45).

Everything is in the machine's own byte order.  Structures that are answered often exist in a second form that
takes what never changes (owner, lifetimes) as ready-made bytes.
"""

from __future__ import annotations

import enum
from struct import Struct

MAJOR = 7
OLDEST_MINOR = 23
"""The first with the INIT reply of 64 bytes; kernels before it (Linux 3.14 and older) are left to fusepy."""
NEWEST_MINOR = 45
INC_EPOCH_MINOR = 44
ROOT_ID = 1
MIN_READ_BUFFER = 8192


class Opcode(enum.IntEnum):
    """What the kernel may ask."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    READLINK = 5
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    SETXATTR = 21
    GETXATTR = 22
    LISTXATTR = 23
    REMOVEXATTR = 24
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    GETLK = 31
    SETLK = 32
    SETLKW = 33
    ACCESS = 34
    CREATE = 35
    INTERRUPT = 36
    BMAP = 37
    DESTROY = 38
    IOCTL = 39
    POLL = 40
    NOTIFY_REPLY = 41
    BATCH_FORGET = 42
    FALLOCATE = 43
    READDIRPLUS = 44
    RENAME2 = 45
    LSEEK = 46
    COPY_FILE_RANGE = 47
    SETUPMAPPING = 48
    REMOVEMAPPING = 49
    SYNCFS = 50
    TMPFILE = 51
    STATX = 52
    COPY_FILE_RANGE_64 = 53


CHANGING = frozenset(
    {
        Opcode.SETATTR,
        Opcode.SYMLINK,
        Opcode.MKNOD,
        Opcode.MKDIR,
        Opcode.UNLINK,
        Opcode.RMDIR,
        Opcode.RENAME,
        Opcode.LINK,
        Opcode.WRITE,
        Opcode.SETXATTR,
        Opcode.REMOVEXATTR,
        Opcode.CREATE,
        Opcode.FALLOCATE,
        Opcode.RENAME2,
        Opcode.COPY_FILE_RANGE,
        Opcode.COPY_FILE_RANGE_64,
        Opcode.TMPFILE,
    }
)
"""Requests that would change something."""

UNANSWERED = frozenset({Opcode.FORGET, Opcode.BATCH_FORGET, Opcode.INTERRUPT, Opcode.NOTIFY_REPLY})
"""Requests the kernel does not wait for: a reply to one would be refused."""


class Flag(enum.IntFlag):
    """INIT: what one side can and the other wants.  From bit 32 on they travel in a second word."""

    ASYNC_READ = 1 << 0
    ATOMIC_O_TRUNC = 1 << 3
    BIG_WRITES = 1 << 5
    AUTO_INVAL_DATA = 1 << 12
    DO_READDIRPLUS = 1 << 13
    NO_OPEN_SUPPORT = 1 << 17
    PARALLEL_DIROPS = 1 << 18
    ABORT_ERROR = 1 << 21
    MAX_PAGES = 1 << 22
    CACHE_SYMLINKS = 1 << 23
    NO_OPENDIR_SUPPORT = 1 << 24
    INIT_EXT = 1 << 30
    PASSTHROUGH = 1 << 37


FOPEN_DIRECT_IO = 1 << 0
FOPEN_KEEP_CACHE = 1 << 1
FOPEN_CACHE_DIR = 1 << 3
FOPEN_NOFLUSH = 1 << 5
FOPEN_PASSTHROUGH = 1 << 7
GETATTR_FH = 1 << 0
"""GETATTR on behalf of a read; stat and fstat never set it."""

NOTIFY_INVAL_INODE = 2
NOTIFY_INVAL_ENTRY = 3
NOTIFY_INC_EPOCH = 8
ONLY_ATTRIBUTES = -1

# -- requests --

IN_HEADER = Struct("=IIQQIIIHH")
"""len, opcode, unique, nodeid, uid, gid, pid, length of extensions, padding."""
IN_START = Struct("=IIQQ")
"""The part of it that every request needs."""
IN_SIZE = IN_HEADER.size

INIT_IN = Struct("=IIII")
"""major, minor, max_readahead, flags; newer kernels go on with the second word of flags."""
INIT_IN_FLAGS2 = Struct("=I")
FORGET_IN = Struct("=Q")
FORGET_ONE = Struct("=QQ")
BATCH_FORGET_IN = Struct("=II")
GETATTR_IN = Struct("=IIQ")
OPEN_IN = Struct("=II")
READ_IN = Struct("=QQI")
"""fh, offset, size; what follows is not used."""
READ_IN_SIZE = 40
RELEASE_IN = Struct("=Q")
RELEASE_IN_SIZE = 24
GETXATTR_IN = Struct("=II")
INTERRUPT_IN = Struct("=Q")

# -- replies --

OUT_HEADER = Struct("=IiQ")
"""len, error (negative), unique; in a notification the code, and unique 0."""
OUT_SIZE = OUT_HEADER.size

INIT_OUT = Struct("=IIIIHHIIHHIIH22x")
"""major, minor, max_readahead, flags, max_background, congestion_threshold, max_write, time_gran, max_pages,
map_alignment, flags2, max_stack_depth, request_timeout."""

ATTR_TAIL = Struct("=IIIIIII")
"""mode, nlink, uid, gid, rdev, blksize, flags: the same for all nodes of a kind."""
LIFETIMES = Struct("=QQQII")
"""generation, entry_valid, attr_valid, and the nanoseconds of both: the same for all nodes of a tree."""
_ATTR = f"QQQqqqIII{ATTR_TAIL.size}s"
"""ino, size, blocks, atime, mtime, ctime, their nanoseconds, ATTR_TAIL."""

ENTRY_REPLY = Struct(f"=IiQ Q{LIFETIMES.size}s {_ATTR}")
ATTR_REPLY = Struct(f"=IiQ QII {_ATTR}")
ENTRY = Struct(f"=Q{LIFETIMES.size}s {_ATTR}")
NO_NODE = Struct("=QQQQII88x")
"""An entry for a name that is not there: all zero but the third, which is how long it may be kept."""
NO_ENTRY = bytes(ENTRY.size)
"""The entry part of a READDIRPLUS line without a node."""
DIRENT = Struct("=QQII")
"""ino, offset of the next, length of the name, type; the name follows, padded to eight bytes."""
DIRENTPLUS = Struct(f"=Q{LIFETIMES.size}s {_ATTR} QQII")

OPEN_REPLY = Struct("=IiQ QIi")
"""fh, flags, backing id."""
STATFS_REPLY = Struct("=IiQ QQQQQIII28x")
"""blocks, bfree, bavail, files, ffree, bsize, namelen, frsize."""
GETXATTR_REPLY = Struct("=IiQ II")

INVAL_INODE = Struct("=IiQ Qqq")
INVAL_ENTRY = Struct("=IiQ QII")

# -- the device --

BACKING_MAP = Struct("=iIQ")
"""fd, flags, padding."""
BACKING_ID = Struct("=I")
IOC_BACKING_OPEN = 0x4010E501
IOC_BACKING_CLOSE = 0x4004E502


def error_reply(unique: int, number: int) -> bytes:
    """The reply that says errno *number*."""
    return OUT_HEADER.pack(OUT_SIZE, -number, unique)


def data_reply(unique: int, data: bytes) -> tuple[bytes, bytes]:
    """The reply that hands over *data*."""
    return OUT_HEADER.pack(OUT_SIZE + len(data), 0, unique), data


def inode_notification(nodeid: int, start: int) -> bytes:
    """Forget the attributes of an inode, and its pages from *start* on unless that is ONLY_ATTRIBUTES."""
    return INVAL_INODE.pack(INVAL_INODE.size, NOTIFY_INVAL_INODE, 0, nodeid, start, 0)


def entry_notification(parent: int, name: str) -> bytes:
    """Forget a name."""
    encoded = name.encode()
    size = INVAL_ENTRY.size + len(encoded) + 1
    return INVAL_ENTRY.pack(size, NOTIFY_INVAL_ENTRY, 0, parent, len(encoded), 0) + encoded + b"\0"
