"""Every finding about a domain file (specification 3): for ``urldb lint``, ``verify``, ``^errors.txt`` and writes.

Pure functions; any thread may call them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from archivefs.errors import quoted
from archivefs.formats.urldb import canonical
from archivefs.formats.urldb.domainfile import DomainFile
from archivefs.formats.urldb.layout import BOM
from archivefs.formats.urldb.records import (
    CASE,
    CATEGORIES,
    CNAMES,
    DIGEST,
    HTTPS,
    LENGTH,
    METADATA_KEYS,
    PATH,
    SUFFIX,
    TYPE,
    digest_of,
    flag,
    folded,
    is_domain_name,
    length_of,
)
from archivefs.formats.urldb.values import (
    Mapping,
    Refused,
    Scalar,
    Sequence,
    Value,
    is_null,
    is_text,
    kind_of,
    words_of,
)

ERROR, WARNING, INFO = "error", "warning", "info"
WARNINGS = frozenset({"digest-case", "empty-record", "non-string-key", "not-canonical", "tab", "unsorted"})
INFOS = frozenset({"no-content-type", "unknown-key"})

_TAB = re.compile(rb"^(?:[ ]*(?:- )*[^\s#'\"\[{][^:\r\n]*:|---)[ ]*\t", re.MULTILINE)


def _clean(eol: bytes) -> re.Pattern[bytes]:
    """A record of which there is nothing to say, if its labels (group 1) are in order: nearly every record is one."""
    lines = (
        rb"---",
        rb"_path: /(?:[!\"$-~]*[!\"$-9;-~])?",
        rb"categories:(?P<words>(?:" + eol + rb"- [a-z][a-z0-9-]*)+)",
        rb"content-length: (?:0|[1-9][0-9]{0,17})",
        rb"content-sha256: (?=[0-9be]*[acdf])[0-9a-f]{64}",
        rb"content-type: [a-z]+/[a-z0-9.+-]*[a-z0-9]",
    )
    needed = (True, True, False, False, False, True)
    parts = (b"(?:" + line + eol + (b")" if must else b")?") for line, must in zip(lines, needed, strict=True))
    return re.compile(b"".join(parts))


_CLEAN = {eol: _clean(eol) for eol in (b"\n", b"\r\n")}


@functools.lru_cache(1024)
def _in_order(labels: bytes) -> bool:
    """Are these lines of a list sorted, unique and strings?"""
    words = labels.decode().replace("- ", "").split()
    return words == sorted(set(words)) and all(kind_of(word) == "str" for word in words)


class LintFinding(NamedTuple):
    """One line of the lint."""

    file: str
    line: int
    code: str
    text: str

    @property
    def level(self) -> str:
        """error, warning or info."""
        return WARNING if self.code in WARNINGS else INFO if self.code in INFOS else ERROR

    def __str__(self) -> str:
        return f"{quoted(self.file)}:{self.line}: {self.level}: {self.code}: {quoted(self.text)}"


def lint_file(domain: DomainFile) -> list[LintFinding]:
    """All findings about one file, by line; those between files are :func:`lint_names`."""
    return sorted(_Linter(domain).findings(), key=lambda finding: finding.line)


def hidden(domain: DomainFile) -> Iterator[LintFinding]:
    """The findings about what is not shown."""
    for number, fault in sorted(domain.faults.items()):
        yield LintFinding(domain.name + SUFFIX, domain.line(number) + fault.line, fault.code, fault.text)


class _Linter:
    """Goes through the documents of one file."""

    def __init__(self, domain: DomainFile) -> None:
        self._domain = domain
        self._file = domain.name + SUFFIX
        self._line = 1
        self._unsorted = not domain.is_sorted or domain.has_duplicates
        self._canonical = not domain.empty and domain.first == 1
        self._seen: set[str] = set()
        self._data = domain.data
        self._pattern = _CLEAN.get(domain.eol, _CLEAN[b"\n"])

    def findings(self) -> Iterator[LintFinding]:
        domain = self._domain
        if domain.first == 0:
            yield self._finding(0, "missing-metadata", "the first document must be the metadata of the domain")
        for number, line in enumerate(domain.lines()):
            self._line = line
            yield from self._document(number)
        if self._unsorted:
            yield LintFinding(self._file, 1, "unsorted", "records, keys or lists are not in order")
        if not self._canonical or self._unsorted or self._is_odd():
            yield LintFinding(self._file, 1, "not-canonical", "format would change this file")

    def _is_odd(self) -> bool:
        """Markers, directives, line ends: what is outside the documents' own text."""
        domain, layout = self._domain, self._domain.layout
        data = domain.data
        ends_together = all(end == start for end, start in zip(layout.ends, layout.starts[1:], strict=False))
        whole = bool(layout.ends) and layout.starts[0] == 0 and layout.ends[-1] == len(data)
        return bool(layout.odd) or data.startswith(BOM) or not ends_together or not whole

    def _finding(self, line: int, code: str, text: str) -> LintFinding:
        return LintFinding(self._file, self._line + line, code, text)

    def _document(self, number: int) -> Iterator[LintFinding]:
        domain = self._domain
        fault = domain.faults.get(number)
        if fault is not None and fault.code not in ("bad-path", "fragment"):
            yield self._finding(fault.line, fault.code, fault.text)
            self._canonical = self._canonical and domain.body(number).endswith(domain.eol)
            return
        if fault is None and self._is_clean(number):
            yield from self._duplicate(number, 1)
            return
        try:
            value = domain.value(number)
        except Refused as error:  # the file was changed on disk since it was looked at
            yield self._finding(error.line, error.code, error.text)
            return
        if number in domain.empty:
            yield self._finding(0, "empty-record", "there is nothing in this document")
            return
        body = domain.body(number)
        if b"\t" in body and _TAB.search(body):
            yield self._finding(0, "tab", "a tab where a space is expected")
        if fault is not None:
            yield self._finding(fault.line, fault.code, fault.text)
        if isinstance(value, Mapping):
            yield from self._keys(value)
            yield from self._metadata(value) if number < domain.first else self._record(value, number)
        if self._canonical and fault is None:
            mapping = value if isinstance(value, Mapping) else None
            self._canonical = canonical.document(mapping, domain.eol.decode()).encode("utf-8", "replace") == body

    def _is_clean(self, number: int) -> bool:
        domain = self._domain
        if number < domain.first or number in domain.layout.odd:
            return False
        start, end = domain.layout.starts[number], domain.layout.ends[number]
        match = self._pattern.fullmatch(self._data, start, end)
        return match is not None and (match["words"] is None or _in_order(match["words"]))

    def _keys(self, mapping: Mapping) -> Iterator[LintFinding]:
        names = [key.text for key, _ in mapping.items]
        if len(set(names)) != len(names):
            seen: set[str] = set()
            for key, _ in mapping.items:
                if key.text in seen:
                    yield self._finding(key.line, "duplicate-key", f"{key.text} is there twice")
                seen.add(key.text)
        if names != sorted(names):
            self._unsorted = True
        for key, value in mapping.items:
            if not is_text(key):
                yield self._finding(key.line, "non-string-key", f"the key {key.text or 'null'} is read as text")
            if not isinstance(value, Scalar):
                yield from self._inner_keys(value)

    def _inner_keys(self, value: Value) -> Iterator[LintFinding]:
        if isinstance(value, Mapping):
            yield from self._keys(value)
        elif isinstance(value, Sequence):
            for item in value.items:
                yield from self._inner_keys(item)

    def _metadata(self, metadata: Mapping) -> Iterator[LintFinding]:
        for key, _ in metadata.items:
            if key.text not in METADATA_KEYS:
                yield self._finding(key.line, "unknown-key", f"{key.text} is not a key of metadata")
        for name in (CASE, HTTPS):
            value = metadata.get(name)
            if value is not None and flag(value) is None:
                yield self._finding(metadata.line_of(name), "not-a-bool", f"{name} is neither true nor false")
        yield from self._words(metadata, CNAMES)
        line = metadata.line_of(CNAMES)
        for name in words_of(metadata.get(CNAMES)):
            if not is_domain_name(name):
                yield self._finding(line, "bad-domain-name", f"{name} is no name of a domain")
            elif name == self._domain.name:
                yield self._finding(line, "cname-self", "a domain is no alias of itself")

    def _record(self, record: Mapping, number: int) -> Iterator[LintFinding]:
        yield from self._duplicate(number, record.line_of(PATH))
        if record.get(LENGTH) is not None and length_of(record) is None:
            yield self._finding(record.line_of(LENGTH), "bad-length", f"{LENGTH} is no plain whole number")
        yield from self._digest(record)
        if is_null(record.get(TYPE)):
            yield self._finding(0, "no-content-type", f"there is no {TYPE}")
        elif not isinstance(record.get(TYPE), Scalar):
            yield self._finding(record.line_of(TYPE), "not-a-string", f"{TYPE} is no string")
        yield from self._words(record, CATEGORIES)

    def _duplicate(self, number: int, line: int) -> Iterator[LintFinding]:
        path = self._domain.paths[number]
        if path is None:
            return
        key = path if self._domain.metadata.case_sensitive else folded(path)
        if key in self._seen:
            yield self._finding(line, "duplicate-path", f"{path} is there twice")
        self._seen.add(key)

    def _digest(self, record: Mapping) -> Iterator[LintFinding]:
        value = record.get(DIGEST)
        if value is None:
            return
        if digest_of(record) is None:
            yield self._finding(record.line_of(DIGEST), "bad-digest", f"{DIGEST} is not 64 hexadecimal digits")
        elif isinstance(value, Scalar) and value.text != value.text.lower():
            yield self._finding(record.line_of(DIGEST), "digest-case", f"{DIGEST} is not in lower case")

    def _words(self, mapping: Mapping, name: str) -> Iterator[LintFinding]:
        """A list of strings, sorted and without repetition."""
        value = mapping.get(name)
        if value is None or is_null(value):
            return
        line = mapping.line_of(name)
        if not isinstance(value, Sequence):
            yield self._finding(line, "not-a-list", f"{name} is no list")
            return
        if not all(isinstance(item, Scalar) and is_text(item) for item in value.items):
            yield self._finding(line, "not-a-string", f"{name} has an item that is no string")
        words = list(words_of(value))
        self._unsorted = self._unsorted or words != sorted(set(words))


def lint_names(domains: Iterable[DomainFile]) -> Iterator[LintFinding]:
    """What is wrong between the files: aliases that are taken.  *domains* in order of their names."""
    listed = list(domains)
    primary = {domain.name for domain in listed}
    owner: dict[str, str] = {}
    for domain in listed:
        for name in domain.metadata.cnames:
            line = _cnames_line(domain)
            if name in primary and name != domain.name:
                yield LintFinding(domain.name + SUFFIX, line, "cname-shadows-domain", f"{name} has a file of its own")
            elif owner.setdefault(name, domain.name) != domain.name:
                text = f"{name} is an alias of {owner[name]} already"
                yield LintFinding(domain.name + SUFFIX, line, "cname-conflict", text)


def _cnames_line(domain: DomainFile) -> int:
    try:
        value = domain.value(0)
    except Refused:
        return 1
    return domain.line(0) + value.line_of(CNAMES) if isinstance(value, Mapping) else 1
