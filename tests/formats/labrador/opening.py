"""Opening and looking at Labrador archives in tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from archivefs.errors import ArchiveError, CorruptArchive, UnreadableArchive
from archivefs.format import Finding, Level, Opening, VerifyRequest
from archivefs.formats.labrador import FORMAT
from archivefs.formats.labrador.tree import LabradorTree
from archivefs.tree import File
from tests.samples.labrador import Member, pack
from tests.walking import content_of, walk

ATTRIBUTES = ("url", "mime", "key", "digest", "state", "index")


@contextmanager
def opened_archive(path: Path, *externals: Path, **options: object) -> Iterator[LabradorTree]:
    """The tree of an archive, closed afterwards."""
    tree = FORMAT.open(str(path), Opening(options=options, externals=[str(external) for external in externals]))
    assert isinstance(tree, LabradorTree)
    try:
        yield tree
    finally:
        tree.close()


@contextmanager
def opened_members(folder: Path, members: list[Member], **options: object) -> Iterator[LabradorTree]:
    """The tree of an archive of these members."""
    path = folder / "archive.lbz"
    path.write_bytes(pack(members))
    with opened_archive(path, **options) as tree:
        yield tree


def shown(tree: LabradorTree) -> dict[str, object]:
    """Every file by its path: its content, or the name of the error that opening or reading it gives."""
    return {"/".join(parts): content_or_error(node) for parts, _, node, _ in walk(tree) if isinstance(node, File)}


def content_or_error(node: File) -> object:
    """Bytes, or the name of an error."""
    try:
        return content_of(node)
    except ArchiveError as error:
        return type(error).__name__


def attributes(tree: LabradorTree, path: str) -> dict[str, str]:
    """The extended attributes of a file, under short names."""
    found = tree.lookup(path.split("/")).xattrs()
    names = {"user.xdg.origin.url": "url", "user.mime_type": "mime"}
    return {names.get(name, name.removeprefix("user.archivefs.")): value.decode() for name, value in found.items()}


def findings(path: Path, *, externals: Sequence[Path] = (), complete: bool = False, jobs: int = 2) -> list[Finding]:
    """What verify has to say; an archive that cannot be opened is a finding under the format's own code."""
    request = VerifyRequest(complete=complete, jobs=jobs)
    assert FORMAT.verify is not None
    try:
        return list(FORMAT.verify(str(path), Opening(externals=[str(external) for external in externals]), request))
    except (UnreadableArchive, CorruptArchive) as error:
        return [Finding(FORMAT.unreadable_code, Level.ERROR, "", error.problem)]


def error_codes(found: list[Finding]) -> set[str]:
    """The codes of the rules that are broken."""
    return {finding.code for finding in found if finding.level is Level.ERROR}


def notices(found: list[Finding]) -> list[tuple[str, str]]:
    """Code and place of the notices."""
    return [(finding.code, finding.where) for finding in found if finding.level is Level.NOTICE]
