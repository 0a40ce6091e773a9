"""``archivefs verify``: the lint, with its errors as errors and the rest as notices."""

from __future__ import annotations

from collections.abc import Iterator

from archivefs.format import Finding, Level, Opening, VerifyRequest
from archivefs.formats.urldb.database import Database
from archivefs.formats.urldb.limits import from_options
from archivefs.formats.urldb.lint import ERROR


def verify(path: str, opening: Opening, request: VerifyRequest) -> Iterator[Finding]:
    """Every finding of the lint; raises UnreadableArchive."""
    for finding in Database(path, from_options(opening.options)).lint(request.progress):
        level = Level.ERROR if finding.level == ERROR else Level.NOTICE
        yield Finding(finding.code, level, f"{finding.file}:{finding.line}", finding.text)
