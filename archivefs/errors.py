"""The exceptions of archivefs.  Imports nothing of ours.

    ArchiveError
     ├── NotFound                 no such name in the tree
     │    └── StaleNode           it was there, and is gone
     ├── DirectoryExpected        a file or link where a directory is needed
     ├── FileExpected             a directory or link where a file is needed
     ├── SymlinkExpected          not a symbolic link
     ├── AttributeMissing         no such extended attribute
     ├── NotSupported             the format gives this no meaning
     ├── TreeReadOnly             a change to what cannot be changed
     ├── NameNotAllowed           a name the format cannot hold
     │    ├── NameNotHeld         well-formed, but the format has no way to write it
     │    └── NameTooLong
     ├── ContentRefused           a file whose content must keep to rules does not
     ├── AlreadyExists
     ├── DirectoryNotEmpty
     ├── OtherTree                a rename from one archive to another
     ├── NotPermitted             chown and the like
     ├── DamagedContent           bytes that are not what the archive promises
     │    ├── CorruptMember       one member or record
     │    ├── CorruptArchive      the archive as a whole
     │    └── SourceChanged       rewritten or truncated under us
     ├── EncryptedMember
     ├── UnsupportedMember        a compression method nobody has
     ├── LimitExceeded            more than the limits allow
     ├── OutOfSpace
     ├── SourceBusy               locked by somebody else
     ├── OperationTimedOut
     └── UsageError               the command was asked for something it cannot do
          ├── UnreadableArchive   cannot be opened at all
          │    ├── UnknownFormat
          │    └── AmbiguousFormat
          ├── UnknownOption
          ├── BadOption
          ├── MissingLibrary
          └── MountRefused

Formats raise these and never an errno or an exit code: each front-end has one total table
(``fuse/errnos.py`` for errnos), and ``tests/test_errors.py`` finds every class in each of them.

A message reads: which archive, which member, what is wrong, what to do.  It is one line: what comes
from an archive is quoted with :func:`quoted`, since names may hold newlines and escape sequences.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from contextlib import contextmanager


class ArchiveError(Exception):
    """Something is wrong that a person should be told in one line."""

    exit_code = 1

    def __init__(
        self,
        problem: str = "",
        *,
        archive: str | os.PathLike[str] = "",
        member: str | bytes = "",
        advice: str = "",
        code: str = "",
    ) -> None:
        super().__init__(problem)
        self.problem = problem or type(self).default_problem()
        self.archive = os.fspath(archive)
        self.member = member
        self.advice = advice
        self.code = code
        """What ``verify`` calls it, where the format has a word for it."""

    @classmethod
    def default_problem(cls) -> str:
        """The first line of the class's docstring, as a message."""
        text = (cls.__doc__ or cls.__name__).strip().splitlines()[0].rstrip(".")
        return text[:1].lower() + text[1:]

    def __str__(self) -> str:
        parts = [quoted(part) for part in (self.archive, self.member) if part]
        text = ": ".join([*parts, quoted(self.problem)])
        return f"{text}; {quoted(self.advice)}" if self.advice else text


def reason(error: BaseException) -> str:
    """What *error* says; of the system's errors the file and the words, without the number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
    return where + error.strerror


@contextmanager
def told_as(path: str, temporary: str) -> Iterator[None]:
    """The system's errors about *temporary* are told as ones about *path*, which is the name that people know."""
    try:
        yield
    except OSError as error:
        if error.filename != temporary:
            raise
        raise OSError(error.errno, error.strerror, path) from error


def quoted(text: str | bytes) -> str:
    """*text* safe for one line of a log or a terminal: control characters and what is not UTF-8 escaped.

    Nothing else is changed, a backslash neither.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(_escape(character) for character in text)


def _escape(character: str) -> str:
    if character.isprintable():
        return character
    return _byte(character) or character.encode("unicode_escape", "backslashreplace").decode("ascii")


def _byte(character: str) -> str:
    """``\\xNN`` for what Python has in the place of a byte that is not UTF-8, otherwise nothing."""
    return f"\\x{ord(character) - 0xDC00:02x}" if "\udc80" <= character <= "\udcff" else ""


def _escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_byte(c) or c.encode("ascii", "backslashreplace").decode("ascii") for c in missing), error.end


ESCAPED = "archivefs-escaped"
"""How a stream encodes what its encoding lacks, as Python's error handlers are named: like ``quoted``."""
codecs.register_error(ESCAPED, _escape_unencodable)


# -- looking things up --


class NotFound(ArchiveError):
    """No such file or directory."""


class StaleNode(NotFound):
    """It was there, and is gone."""


class DirectoryExpected(ArchiveError):
    """Not a directory."""


class FileExpected(ArchiveError):
    """Not a file."""


class SymlinkExpected(ArchiveError):
    """Not a symbolic link."""


class AttributeMissing(ArchiveError):
    """No such attribute."""


# -- changing things --


class NotSupported(ArchiveError):
    """The format has no place for that."""


class TreeReadOnly(ArchiveError):
    """The archive is mounted read-only."""


class NameNotAllowed(ArchiveError):
    """The format cannot hold that name."""


class NameNotHeld(NameNotAllowed):
    """The format has no way to write that name."""


class NameTooLong(NameNotAllowed):
    """The name is too long."""


class ContentRefused(ArchiveError):
    """The content breaks the rules that this file has."""


class AlreadyExists(ArchiveError):
    """The name is taken."""


class DirectoryNotEmpty(ArchiveError):
    """The directory is not empty."""


class OtherTree(ArchiveError):
    """The two names belong to different archives."""


class NotPermitted(ArchiveError):
    """Not permitted."""


# -- reading --


class DamagedContent(ArchiveError):
    """The bytes are not what the archive promises."""


class CorruptMember(DamagedContent):
    """A member of the archive is damaged."""


class CorruptArchive(DamagedContent):
    """The archive is damaged."""

    exit_code = 2


class SourceChanged(DamagedContent):
    """The archive was changed while it was open."""


class EncryptedMember(ArchiveError):
    """The member is encrypted."""


class UnsupportedMember(ArchiveError):
    """The member is stored by a method that is not known."""


class LimitExceeded(ArchiveError):
    """More than the limits allow."""


class OutOfSpace(ArchiveError):
    """No space is left."""


class SourceBusy(ArchiveError):
    """The archive is locked by another program."""


class OperationTimedOut(ArchiveError):
    """The archive did not answer in time."""


# -- commands --


class UsageError(ArchiveError):
    """That cannot be done."""

    exit_code = 2


class UnreadableArchive(UsageError):
    """The archive cannot be opened."""


class UnknownFormat(UnreadableArchive):
    """No format recognises it."""


class AmbiguousFormat(UnreadableArchive):
    """More than one format recognises it."""


class UnknownOption(UsageError):
    """No such option."""


class BadOption(UsageError):
    """The option has a value that makes no sense."""


class MissingLibrary(UsageError):
    """A library is missing."""


class MountRefused(UsageError):
    """It cannot be mounted there."""

    exit_code = 1
