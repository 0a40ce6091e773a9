"""Format ``zip``: any zip that nothing more specific knows, its members as they are.

Specification: APPNOTE.TXT 6.3 of PKWARE; where it leaves a choice, what Info-ZIP does.
"""

from __future__ import annotations

import codecs
import string
from collections.abc import Iterable

from archivefs.format import Finding, Format, Match, Opening, Probe, VerifyRequest
from archivefs.options import Option
from archivefs.tree import Tree

_SIGNATURES = (b"PK\3\4", b"PK\5\6", b"PK\7\x08PK\3\4")
_END_BYTES = 22
_ASCII = string.ascii_letters + string.digits + "/.-_+&" + "\\n\\x41"


def match(probe: Probe) -> Match:
    """A file with a zip's beginning or end; also one only called so, that its own error may be shown."""
    if probe.is_directory:
        return Match.NO
    if probe.head.startswith(_SIGNATURES) or probe.name.lower().endswith(".zip"):
        return Match.MAYBE
    end = probe.tail.rfind(b"PK\5\6")
    return Match.MAYBE if 0 <= end <= len(probe.tail) - _END_BYTES else Match.NO


def open_zip(path: str, opening: Opening) -> Tree:
    """Open it; raises UnreadableArchive or CorruptArchive."""
    from archivefs.formats.zip.tree import ZipTree

    return ZipTree(path, opening)


def verify(path: str, opening: Opening, request: VerifyRequest) -> Iterable[Finding]:
    """Structure, names and the CRC of every member; raises UnreadableArchive or CorruptArchive."""
    from archivefs.formats.zip.verify import verify_zip

    return verify_zip(path, opening, request)


def encoding(text: str) -> str:
    """The name of an encoding in which a zip may have its names: one that leaves ASCII as it is."""
    try:
        name = codecs.lookup(text).name
        decoded = _ASCII.encode("ascii").decode(name)
        bytes(range(128, 256)).decode(name, "surrogateescape")
    except (LookupError, UnicodeError):
        raise ValueError("an encoding such as cp437, cp932 or utf-8 is expected") from None
    if decoded != _ASCII:
        raise ValueError("an encoding that leaves ASCII as it is is expected")
    return name


FORMAT = Format(
    name="zip",
    summary="Zip archive, its members as they are",
    match=match,
    open=open_zip,
    verify=verify,
    options=(
        Option(
            name="encoding",
            help="how names without the UTF-8 flag are encoded",
            parse=encoding,
            default="utf-8",
            metavar="NAME",
        ),
    ),
)
