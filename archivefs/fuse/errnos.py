"""The one table from our errors to errnos, and the total function that uses it.

fusepy answers *success* for an OSError without an errno and EINVAL for any other exception, so nothing but a
plain ``OSError(errno)`` made from this table may leave the driver.
"""

from __future__ import annotations

import errno

from archivefs import errors

ERRNOS: dict[type[errors.ArchiveError], int] = {
    errors.ArchiveError: errno.EIO,
    errors.NotFound: errno.ENOENT,
    errors.StaleNode: errno.ESTALE,
    errors.DirectoryExpected: errno.ENOTDIR,
    errors.FileExpected: errno.EISDIR,
    errors.SymlinkExpected: errno.EINVAL,
    errors.AttributeMissing: errno.ENODATA,
    errors.NotSupported: errno.EOPNOTSUPP,
    errors.TreeReadOnly: errno.EROFS,
    errors.NameNotAllowed: errno.EILSEQ,
    errors.NameNotHeld: errno.EINVAL,
    errors.NameTooLong: errno.ENAMETOOLONG,
    errors.ContentRefused: errno.EINVAL,
    errors.AlreadyExists: errno.EEXIST,
    errors.DirectoryNotEmpty: errno.ENOTEMPTY,
    errors.OtherTree: errno.EXDEV,
    errors.NotPermitted: errno.EPERM,
    errors.DamagedContent: errno.EIO,
    errors.CorruptMember: errno.EIO,
    errors.CorruptArchive: errno.EIO,
    errors.SourceChanged: errno.EIO,
    errors.EncryptedMember: errno.EACCES,
    errors.UnsupportedMember: errno.EOPNOTSUPP,
    errors.LimitExceeded: errno.EFBIG,
    errors.OutOfSpace: errno.ENOSPC,
    errors.SourceBusy: errno.EBUSY,
    errors.OperationTimedOut: errno.ETIMEDOUT,
    errors.UsageError: errno.EIO,
    errors.UnreadableArchive: errno.EIO,
    errors.UnknownFormat: errno.EIO,
    errors.AmbiguousFormat: errno.EIO,
    errors.UnknownOption: errno.EIO,
    errors.BadOption: errno.EIO,
    errors.MissingLibrary: errno.EIO,
    errors.MountRefused: errno.EIO,
}

PASSED_ON = frozenset(
    {
        errno.EIO,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.ENOMEM,
        errno.EMFILE,
        errno.ENFILE,
        errno.EACCES,
        errno.EROFS,
    }
)
"""Errnos of the archive's own disk that mean the same to the caller.  Any other (ENOENT of a body file, say) is EIO."""

EXPECTED = frozenset(
    {
        errno.ENOENT,
        errno.ESTALE,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EINVAL,
        errno.ENODATA,
        errno.EOPNOTSUPP,
        errno.EROFS,
        errno.EILSEQ,
        errno.ENAMETOOLONG,
        errno.EEXIST,
        errno.ENOTEMPTY,
        errno.EXDEV,
        errno.EPERM,
    }
)
"""Answers that are part of ordinary life: counted, not logged."""


def to_errno(error: BaseException) -> int:
    """The errno for *error*; never 0, and EIO for whatever is not known."""
    for cls in type(error).__mro__:
        if cls in ERRNOS:
            return ERRNOS[cls]
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    if isinstance(error, TimeoutError):
        return errno.ETIMEDOUT
    if isinstance(error, OSError) and error.errno in PASSED_ON:
        return error.errno
    return errno.EIO
