"""How findings of ``verify`` are made."""

from __future__ import annotations

from archivefs.errors import ArchiveError, DamagedContent, EncryptedMember, SourceChanged, UnsupportedMember
from archivefs.format import Finding, Level
from archivefs.formats.labrador.container import Container


def error(code: str, where: str, message: str) -> Finding:
    """A rule that is broken."""
    return Finding(code, Level.ERROR, where, message)


def notice(code: str, where: str, message: str) -> Finding:
    """Something legal that is worth knowing."""
    return Finding(code, Level.NOTICE, where, message)


def line(file: str, number: int) -> str:
    """Where a finding in a text is."""
    return f"{file} line {number}"


def member_name(container: Container, member: int) -> str:
    """Where a finding in a member is."""
    return container.directory.name(member).decode("utf-8", "backslashreplace")


def unreadable(container: Container, member: int, problem: ArchiveError) -> Finding:
    """The finding for a member that cannot be read; raises *problem* again where the archive is not to blame."""
    if isinstance(problem, (EncryptedMember, UnsupportedMember)):
        return error("zip-unsupported", member_name(container, member), problem.problem)
    if isinstance(problem, SourceChanged) or not isinstance(problem, DamagedContent):
        raise problem
    return error("zip-corrupt", member_name(container, member), problem.problem)
