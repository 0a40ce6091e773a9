"""Crystal projects, written as Crystal writes them: for the tests, the README and ``make demo``.

python tests/samples/crystal.py OUT.crystalproj     writes a small site that was fetched several times

Standard library only.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import sqlite3
import zipfile
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

START = datetime(2024, 5, 17, 12, 0, tzinfo=timezone.utc)
HTML, TEXT = ("Content-Type", "text/html; charset=utf-8"), ("Content-Type", "text/plain")

TABLES = """
    create table project_property (name text unique not null, value text);
    create table resource (id integer primary key, url text unique not null);
    create table root_resource (id integer primary key, name text not null, resource_id integer unique not null,
        foreign key (resource_id) references resource(id));
    create table resource_group (id integer primary key, name text not null, url_pattern text not null,
        source_type text, source_id integer);
    create table resource_revision (id integer primary key, resource_id integer not null, error text not null,
        metadata text not null);
    create index resource_revision__resource_id on resource_revision (resource_id);
"""
UPGRADES = {
    "1.3": "alter table resource_revision add column request_cookie text;",
    "1.6": """
        create index resource_revision__error_not_null on resource_revision (id, resource_id) where error != "null";
        create index resource_revision__request_cookie_not_null on resource_revision (id, request_cookie)
            where request_cookie is not null;
        create index resource_revision__status_code on resource_revision (
            json_extract(metadata, "$.status_code"), resource_id) where json_extract(metadata, "$.status_code") != 200;
    """,
    "1.10": "alter table resource_group add column do_not_download integer not null default 0;",
    "2.2": """
        create table alias (id integer primary key, source_url_prefix text unique not null,
            target_url_prefix text not null, target_is_external integer not null default 0);
    """,
}
"""What each release added to the schema of 1.0."""
RELEASES = ("1.0", *UPGRADES)


class Fetch(NamedTuple):
    """A row of ``resource_revision`` and its body."""

    resource: int
    cookie: str | None
    error: str
    metadata: str
    body: bytes | None


class ProjectWriter:
    """Collects rows and bodies, then writes a project."""

    def __init__(self, *, major: int | None = 2, release: str = "2.2") -> None:
        self.major = major
        self.release = release
        self.properties: dict[str, str] = {} if major is None else {"major_version": str(major)}
        self.urls: dict[str, int] = {}
        self.fetches: dict[int, Fetch] = {}
        self.roots: list[tuple[str, str]] = []
        self.groups: list[tuple[str, str, str | None, int | None, bool]] = []
        self.aliases: list[tuple[str, str, bool]] = []
        self.next_id = 1

    # -- rows --

    def resource(self, url: str) -> int:
        """The id of a URL; new ones are seen, but not fetched."""
        return self.urls.setdefault(url, len(self.urls) + 1)

    def fetch(
        self,
        url: str,
        body: bytes | None = b"",
        *,
        status: int = 200,
        reason: str = "OK",
        headers: Sequence[tuple[str, str]] = (HTML,),
        dated: bool = True,
        cookie: str | None = None,
        metadata: str | None = None,
        key: int | None = None,
    ) -> int:
        """An answer; a body of None is lost, *metadata* is that column as it is."""
        if metadata is None:
            minutes = timedelta(minutes=len(self.fetches))
            date = [("Date", (START + minutes).strftime("%a, %d %b %Y %H:%M:%S GMT"))] if dated else []
            document = {"http_version": 11, "status_code": status, "reason_phrase": reason}
            metadata = json.dumps({**document, "headers": [*headers, *date]})
        return self._add(Fetch(self.resource(url), cookie, "null", metadata, body), key)

    def fail(self, url: str, kind: str = "TimeoutError", message: str | None = "timed out") -> int:
        """A fetch that failed."""
        error = json.dumps({"type": kind, "message": message})
        return self._add(Fetch(self.resource(url), None, error, "null", None), None)

    def _add(self, fetch: Fetch, key: int | None) -> int:
        key = self.next_id if key is None else key
        self.fetches[key] = fetch
        self.next_id = key + 1
        return key

    # -- writing --

    def write(self, path: Path) -> Path:
        """Write the project as a folder."""
        shutil.rmtree(path, ignore_errors=True)
        (path / "revisions").mkdir(parents=True)
        (path / "tmp").mkdir()
        (path / "OPEN ME.crystalopen").write_bytes(b"CrOp")
        database = sqlite3.connect(path / "database.sqlite")
        database.execute("pragma synchronous=off")
        self.write_rows(database)
        database.close()
        for key, fetch in self.fetches.items():
            if fetch.body is not None:
                self.write_body(path, key, fetch.body)
        return path

    def write_rows(self, database: sqlite3.Connection) -> None:
        """Tables, indexes and rows, as the release of this project had them."""
        database.executescript(TABLES)
        for release in RELEASES[1 : RELEASES.index(self.release) + 1]:
            database.executescript(UPGRADES[release])
        database.executemany("insert into project_property values (?, ?)", self.properties.items())
        database.executemany("insert into resource (url, id) values (?, ?)", self.urls.items())
        roots = [(name, self.resource(url)) for name, url in self.roots]
        database.executemany("insert into root_resource (name, resource_id) values (?, ?)", roots)
        self._write_groups(database)
        if self.release == "2.2":
            columns = "source_url_prefix, target_url_prefix, target_is_external"
            database.executemany(f"insert into alias ({columns}) values (?, ?, ?)", self.aliases)
        columns = "id, resource_id, error, metadata" + ("" if self.release == "1.0" else ", request_cookie")
        for key, fetch in self.fetches.items():
            row = [key, fetch.resource, fetch.error, fetch.metadata, fetch.cookie][: columns.count(",") + 1]
            database.execute(f"insert into resource_revision ({columns}) values ({_marks(row)})", row)
        database.commit()

    def _write_groups(self, database: sqlite3.Connection) -> None:
        columns = "name, url_pattern, source_type, source_id"
        if self.release in ("1.10", "2.2"):
            columns += ", do_not_download"
        for group in self.groups:
            row = list(group)[: columns.count(",") + 1]
            database.execute(f"insert into resource_group ({columns}) values ({_marks(row)})", row)

    def write_body(self, path: Path, key: int, body: bytes) -> Path:
        """Put a body where this version has it, as a file of its own."""
        place = body_path(path, key, self.major)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(body)
        return place

    def pack(self, path: Path, first: int, *, but: Iterable[int] = (), suffix: str = "") -> Path:
        """Move the bodies of sixteen revisions from *first* on into a pack."""
        place = pack_path(path, first, suffix)
        entries = []
        for key in range(first, first + 16):
            body = self.fetches[key].body if key in self.fetches else None
            if body is not None and key not in but:
                body_path(path, key, self.major).unlink()
                entries.append((key, body))
        place.write_bytes(pack_bytes(entries))
        return place


def _marks(row: Sequence[object]) -> str:
    return ", ".join("?" * len(row))


def body_path(path: Path, key: int, major: int | None, *, base: str = "revisions") -> Path:
    """Where a body is."""
    if major in (None, 1) and base == "revisions":
        return path / base / str(key)
    digits = f"{key:015x}"
    return path.joinpath(base, *(digits[i : i + 3] for i in range(0, 15, 3)))


def pack_path(path: Path, key: int, suffix: str = "") -> Path:
    """Where the pack of a revision is."""
    place = body_path(path, key, 3)
    return place.with_name(f"{place.name[:2]}_.zip{suffix}")


def pack_bytes(entries: Iterable[tuple[int, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    """A pack."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for key, body in entries:
            member = zipfile.ZipInfo(f"{key % 4096:03x}")
            archive.writestr(member, body, compress_type=method)
    return buffer.getvalue()


# -- a small site --


def harbour(writer: ProjectWriter) -> ProjectWriter:
    """The site of the README: fetched twice, with a redirect, a missing page, a failure and a group."""
    site = "https://harbour.example"
    writer.fetch(f"{site}/", b"<h1>Harbour news</h1>\n<p>Fog.\n")
    writer.fetch(f"{site}/style.css", b"h1 { color: #046 }\n", headers=[("Content-Type", "text/css")])
    for day, text in (("storm", "It took two boats."), ("fog", "No boats went out."), ("calm", "All boats are back.")):
        writer.fetch(f"{site}/news/{day}", f"<p>{text}\n".encode())
    writer.fetch(f"{site}/news/", b"<h1>All news</h1>\n", headers=[HTML, ("ETag", '"n1"')])
    writer.fetch(f"{site}/tides?day=1", b"low 04:10, high 10:20\n", headers=[TEXT])
    writer.fetch(f"{site}/tides?day=2", b"low 05:00, high 11:08\n", headers=[TEXT])
    writer.fetch(f"{site}/old", b"", status=301, reason="Moved Permanently", headers=[("Location", "/news/storm")])
    writer.fetch(f"{site}/lost", b"<p>No such page.\n", status=404, reason="Not Found")
    writer.fetch(f"{site}/", b"<h1>Harbour news</h1>\n<p>Calm.\n")
    writer.fetch(f"{site}/news/", b"", status=304, reason="Not Modified", headers=[("ETag", '"n1"')])
    writer.fail(f"{site}/news/storm", "gaierror", "Name or service not known")
    writer.resource("https://elsewhere.example/ad.js")
    writer.roots.append(("Harbour", f"{site}/"))
    writer.groups.append(("News", f"{site}/news/*", "root_resource", 1, False))
    writer.groups.append(("Tides", f"{site}/tides?day=#", None, None, False))
    writer.aliases.append(("https://www.harbour.example/", f"{site}/", False))
    writer.properties["default_url_prefix"] = site
    return writer


def write(path: Path, **choices: Any) -> Path:
    """The small site as a project."""
    return harbour(ProjectWriter(**choices)).write(path)


def main() -> None:
    """Write the project named on the command line."""
    parser = argparse.ArgumentParser(description="Write a small Crystal project.")
    parser.add_argument("path", type=Path, metavar="OUT.crystalproj")
    parser.add_argument("--version", type=int, choices=(1, 2, 3), default=2, help="major version of the project")
    arguments = parser.parse_args()
    print(write(arguments.path, major=arguments.version))


if __name__ == "__main__":
    main()
