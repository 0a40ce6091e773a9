"""``archivefs verify`` for Labrador: every rule of the format, each under its code.

The rules are in four modules: ``rules_members`` (the zip around the site), ``rules_texts`` (``extmime`` and the keys of
the manifest, one by one), ``rules_keys`` (keys compared with each other) and ``rules_contents`` (what is stored).
Findings come as they are met; nothing is kept but flat tables.
"""

from __future__ import annotations

from collections.abc import Iterator

from archivefs.errors import DamagedContent, EncryptedMember, UnsupportedMember
from archivefs.format import Finding, Opening, VerifyRequest
from archivefs.formats.labrador import extmime, rules_contents, rules_keys, rules_members, rules_texts
from archivefs.formats.labrador.container import EXTMIME, MANIFEST, MAX_MANIFEST_BYTES, Container
from archivefs.formats.labrador.findings import unreadable
from archivefs.formats.labrador.manifest import Manifest
from archivefs.formats.labrador.rules_members import Members
from archivefs.zips.directory import ZipDirectory


def verify(path: str, opening: Opening, request: VerifyRequest) -> Iterator[Finding]:
    """The findings for the archive at *path*.

    Raises UnreadableArchive or CorruptArchive, which the command reports under our code ``zip-unreadable``, and
    LimitExceeded for texts that are too large to look at.
    """
    directory = ZipDirectory.open(path)
    try:
        yield from _findings(Container(directory), opening, request)
    finally:
        directory.close()
        opening.cache.forget(directory.cache_owner)


def _findings(container: Container, opening: Opening, request: VerifyRequest) -> Iterator[Finding]:
    members = Members(container)
    yield from rules_members.findings(members)
    types, found = _read(container, EXTMIME, extmime.MAX_BYTES)
    yield from found
    if types is not None:
        yield from rules_texts.extmime_findings(types)
    data, found = _read(container, MANIFEST, MAX_MANIFEST_BYTES)
    yield from found
    manifest = None
    if data is not None:
        yield from rules_texts.manifest_findings(data)
        yield from rules_keys.findings(data)
        manifest = Manifest(data, archive=container.directory.path)
    yield from rules_contents.findings(members, manifest, opening, request)


def _read(container: Container, name: bytes, limit: int) -> tuple[bytes | None, list[Finding]]:
    """The content of a special file if it is there and can be read, and the finding if it cannot."""
    member = container.find(name)
    if member is None:
        return None, []
    try:
        return container.read_text(member, limit), []
    except (DamagedContent, EncryptedMember, UnsupportedMember) as problem:
        return None, [unreadable(container, member, problem)]
