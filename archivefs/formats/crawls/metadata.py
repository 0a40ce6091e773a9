"""The metadata of a crawl (``crawl.json``, or ``report.json`` in the last revision): read, checked, summed up.

Pure functions.  The JSON is passed on as it is; what is taken from it is only what listings show.  Where it and the
file name disagree the name wins, and that is a warning.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from archivefs.errors import CorruptMember
from archivefs.formats.crawls.naming import CrawlName

CRAWL_JSON = "crawl.json"
REPORT_JSON = "report.json"
MAX_BYTES = 16 << 20
MAX_DEPTH = 100

_TEXT, _TEXT_OR_NONE = (str,), (str, type(None))
_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("crawl_id", "crawl_result_id", "report_id", "domain_id", "action", "scope", "mode"), _TEXT),
    **dict.fromkeys(("started_utc", "finished_utc", "error"), _TEXT),
    **dict.fromkeys(("source_id", "job_id"), _TEXT_OR_NONE),
    "ok": (bool,),
    "sources": (list,),
}
_SHORT = frozenset({"started_utc", "finished_utc", "ok", "error", "source_id", "job_id"})
_NESTING = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


@dataclass(frozen=True)
class Metadata:
    """What the metadata of one crawl say."""

    data: Mapping[str, Any]
    """The JSON as it is stored."""
    warnings: list[str] = field(default_factory=list)

    def short(self) -> Metadata:
        """The same without what listings do not show."""
        return Metadata({key: value for key, value in self.data.items() if key in _SHORT}, self.warnings[:10])

    @property
    def started_utc(self) -> str | None:
        """As it is stored, or None."""
        return self.data.get("started_utc")

    @property
    def ok(self) -> bool | None:
        """As it is stored, or None."""
        return self.data.get("ok")

    @property
    def source_id(self) -> str | None:
        """The source filter."""
        return self.data.get("source_id")

    @property
    def duration_seconds(self) -> int | None:
        """Whole seconds from start to end, never less than 0; None where either is not known."""
        started, finished = _time(self.data.get("started_utc")), _time(self.data.get("finished_utc"))
        if started is None or finished is None:
            return None
        return max(0, math.floor((finished - started).total_seconds()))


def parse(raw: bytes, name: CrawlName | None) -> Metadata:
    """The metadata in *raw*; raises CorruptMember with one line that says what is wrong."""
    warnings: list[str] = []
    data = _loaded(raw, warnings)
    if not isinstance(data, dict):
        raise CorruptMember("it is not a JSON object")
    for key, types in _TYPES.items():
        value = data.get(key)
        if value is not None and not isinstance(value, types):
            raise CorruptMember(f"{key!r} has the wrong type")
    if name is not None:
        warnings += _disagreements(data, name)
    return Metadata(data, warnings)


def _loaded(raw: bytes, warnings: list[str]) -> Any:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CorruptMember("it is not UTF-8") from None
    _check_depth(text)

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(found)
        if len(made) != len(found):
            warnings.append("a key is there twice; the last counts")
        return made

    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise CorruptMember(f"it is not JSON: {str(error).splitlines()[0]}") from None


def _check_depth(text: str) -> None:
    depth = 0
    for match in _NESTING.finditer(text):
        mark = match[0]
        if mark in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise CorruptMember(f"its JSON is nested more than {MAX_DEPTH} deep")
        elif mark in "]}":
            depth -= 1


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is not allowed")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is too large")
    return number


def _disagreements(data: Mapping[str, Any], name: CrawlName) -> list[str]:
    said = {"domain_id": name.domain_id, "scope": name.scope, "mode": name.mode}
    if name.later:
        said["crawl_result_id"] = name.crawl_id
        said["report_id"] = f"crawls/{name.crawl_id}"
    else:
        said["crawl_id"], said["action"] = name.crawl_id, name.action
    return [
        f"{key!r} is {data[key]!r}, but the file name says {value!r}"
        for key, value in said.items()
        if data.get(key) is not None and data[key] != value
    ]


def _time(text: Any) -> datetime | None:
    """``2025-01-15T14:25:00.000000Z`` and what is like it."""
    if not isinstance(text, str):
        return None
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?", text, re.ASCII)
    if not match:
        return None
    date, clock, fraction, zone = match.groups()
    zone = "+0000" if zone in (None, "Z") else zone.replace(":", "")
    try:
        whole = datetime.strptime(f"{date} {clock} {zone}", "%Y-%m-%d %H:%M:%S %z")
        return whole.replace(microsecond=int(f"{fraction or 0:<06}"[:6])).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None
