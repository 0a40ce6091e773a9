"""``archivefs verify``: check archives for damage."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

import click

from archivefs import registry
from archivefs.cli.progress import Meter
from archivefs.cli.shared import OpenRequest, cli_command, json_option, opening_options
from archivefs.cli.shown import json_text, write
from archivefs.cli.sources import Plan, Source, archive_source, plan_sources
from archivefs.errors import ArchiveError, CorruptArchive, UnreadableArchive, UsageError, quoted
from archivefs.format import Finding, Level, VerifyRequest

UNREADABLE = "unreadable"
"""The code of the finding that says why an archive could not be looked at, unless its format has one of its own."""


@cli_command("verify", example="archivefs verify site.zip\narchivefs verify --json -j 4 *.zip")
@click.argument("archives", metavar="ARCHIVE...", nargs=-1, required=True)
@click.option("--complete", is_flag=True, help="Demand that nothing is left out of the archive.")
@click.option("-j", "--jobs", type=click.IntRange(min=0), default=0, metavar="N", help="Threads; 0: one for each core.")
@json_option
@opening_options
def command(archives: tuple[str, ...], complete: bool, jobs: int, as_json: bool, request: OpenRequest) -> int:
    """Check archives for damage.

    Every finding is a line: archive, place, what is wrong and a code.  The exit code is 1 if there are
    errors, 2 if an archive cannot be read at all; notices alone leave it 0.
    """
    if request.format is not None:
        registry.format_named(request.format)
    sources = [_source_or_error(archive, request.format) for archive in archives]
    planned = plan_sources([source for source in sources if isinstance(source, Source)], request)
    verdicts = []
    for archive, source in zip(archives, sources, strict=True):
        verdict = Verdict(archive, quiet=as_json)
        verdict.reach(source, planned, complete=complete, jobs=jobs)
        verdicts.append(verdict)
    if as_json:
        described = [verdict.described() for verdict in verdicts]
        write(json_text(described if len(described) > 1 else described[0], indent=2))
    return max(verdict.exit_code for verdict in verdicts)


def _source_or_error(archive: str, forced: str | None) -> Source | ArchiveError:
    """What is wrong with one archive must not keep the others from being checked."""
    try:
        return archive_source(archive, forced)
    except ArchiveError as error:
        return error


@dataclass
class Verdict:
    """What was found in one archive; unless *quiet*, each finding is printed as it is met."""

    archive: str
    quiet: bool
    findings: list[Finding] = field(default_factory=list)
    unreadable: bool = False

    def reach(self, source: Source | ArchiveError, planned: Plan, *, complete: bool, jobs: int) -> None:
        """Check the archive."""
        meter = Meter(os.path.basename(self.archive.rstrip("/")))
        asked = VerifyRequest(complete=complete, jobs=jobs, progress=meter)
        try:
            for finding in _findings(source, planned, asked):
                self._add(finding, meter)
        except (ArchiveError, OSError) as error:
            self.unreadable = True
            self._add(_as_finding(error, source), meter)
        meter.clear()
        if not self.quiet:
            write(self._summary())

    def _add(self, finding: Finding, meter: Meter) -> None:
        self.findings.append(finding)
        if not self.quiet:
            meter.clear()
            write(self._line(finding))

    @property
    def errors(self) -> int:
        """How many of the findings count."""
        return sum(finding.level is Level.ERROR for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """0, or 1 for errors, or 2 where it could not be read."""
        return 2 if self.unreadable else int(self.errors > 0)

    def described(self) -> dict[str, object]:
        """As JSON shows it."""
        findings = [{**finding._asdict(), "level": finding.level.value} for finding in self.findings]
        return {"archive": self.archive, "ok": not self.errors, "findings": findings}

    def _line(self, finding: Finding) -> str:
        level = "notice: " if finding.level is Level.NOTICE else ""
        parts = [self.archive, finding.where, f"{level}{finding.message} [{finding.code}]"]
        return ": ".join(quoted(part) for part in parts if part)

    def _summary(self) -> str:
        if self.unreadable:
            return f"{quoted(self.archive)}: could not be checked"
        errors = self.errors
        counts = ", ".join(filter(None, (_count(errors, "error"), _count(len(self.findings) - errors, "notice"))))
        return f"{quoted(self.archive)}: {'damaged' if errors else 'ok'}{counts and f' ({counts})'}"


def _findings(source: Source | ArchiveError, planned: Plan, asked: VerifyRequest) -> Iterable[Finding]:
    if isinstance(source, ArchiveError):
        raise source
    path, format = source
    if format is None or format.verify is None:
        raise UsageError(f"the format {source.format_name} has no check")
    registry.check_available(format)
    return format.verify(path, planned.settings.apply(planned.opening(), format), asked)


def _as_finding(error: ArchiveError | OSError, source: Source | ArchiveError) -> Finding:
    if isinstance(error, OSError):
        return Finding(UNREADABLE, Level.ERROR, "", error.strerror or str(error))
    where = error.member if isinstance(error.member, str) else quoted(error.member)
    message = f"{error.problem}; {error.advice}" if error.advice else error.problem
    cannot_open = isinstance(error, (UnreadableArchive, CorruptArchive))
    code = source.format.unreadable_code if cannot_open and isinstance(source, Source) and source.format else UNREADABLE
    return Finding(code, Level.ERROR, where, message)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number > 1 else ''}" if number else ""
