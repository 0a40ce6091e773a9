"""A large Crystal project for the benchmark: rows by the million in a minute or two, bodies for a part of them.

What a crawl of a forum looks like: one directory with very many ``?query`` pages, one with very many files and small
directories, pictures two levels deep, thousands of small hosts, pages seen and never fetched.  Ids are in the order of
the crawl, which is not that of the URLs.  The pages of ``TEXTS`` have bodies, and so has ``LARGE``.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tests.samples.crystal import ProjectWriter, body_path

TEXTS = "https://text.example/"
LARGE = "https://text.example/large.bin"
LARGE_BYTES = 256 << 20
TEXTS_PER_FOLDER = 200
WIDEST = ("web", "https", "forum.example")
WIDEST_PREFIX = b"https://forum.example/"
_STEP = 7919
_HEADERS = '[["Content-Type", "text/html"], ["Date", "Fri, 17 May 2024 12:%02d:%02d GMT"], ["Server", "%s"]]'
_METADATA = '{"http_version": 11, "status_code": %d, "reason_phrase": "OK", "headers": ' + _HEADERS + "}"


def written(path: Path, *, revisions: int, texts: int) -> Path:
    """The project, made unless it is there already."""
    if not path.exists():
        partial = path.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        ProjectWriter().write(partial)
        _write_rows(partial / "database.sqlite", revisions, texts)
        _write_bodies(partial, texts)
        partial.rename(path)
    return path


def text_urls(texts: int) -> Iterator[str]:
    """The pages that have bodies."""
    for number in range(texts):
        yield f"{TEXTS}{number // TEXTS_PER_FOLDER:03}/{number:06}.html"


def text_body(number: int) -> bytes:
    """A page of two to six kilobytes."""
    return (f"<p>Page {number} of the harbour news, with boats and tides.\n".encode()) * (40 + number % 80)


def _write_rows(database: Path, revisions: int, texts: int) -> None:
    connection = sqlite3.connect(database, isolation_level=None)
    for pragma in ("journal_mode=off", "synchronous=off", "cache_size=-1000000"):
        connection.execute(f"pragma {pragma}")
    indexes = [row[0] for row in connection.execute("select sql from sqlite_master where sql like 'create index%'")]
    for name in connection.execute("select name from sqlite_master where sql like 'create index%'").fetchall():
        connection.execute(f"drop index {name[0]}")
    connection.execute("begin")
    fetched = revisions * 9 // 10
    connection.executemany("insert into resource values (?, ?)", enumerate(_urls(fetched, texts), 1))
    rows = _rows(revisions, fetched + texts + 1, texts)
    connection.executemany("insert into resource_revision (id, resource_id, error, metadata) values (?, ?, ?, ?)", rows)
    for sql in indexes:
        connection.execute(sql)
    connection.execute("commit")
    connection.close()


def _urls(fetched: int, texts: int) -> Iterator[str]:
    """The texts, the large one, the fetched pages, then those only seen."""
    yield from text_urls(texts)
    yield LARGE
    seen = fetched // 4
    total = fetched + seen
    step = _STEP if total % _STEP else _STEP + 2
    for number in range(total):
        yield _url(number * step % total)


def _url(number: int) -> str:
    kind = number % 20
    if kind < 6:
        return f"https://forum.example/topic/{number // 200}/post/{number}"
    if kind < 10:
        return f"https://forum.example/viewtopic.php?t={number // 40}&start={number % 40 * 20}&j={number}"
    if kind < 14:
        return f"https://img.example/{number % 251:02x}/{number % 241:02x}/{number:08x}.png"
    if kind < 17:
        return f"https://forum.example/user/{number}" + ("/posts" if kind == 16 else "")
    if kind < 19:
        return f"https://blog.example/{2000 + number % 25}/{number % 12 + 1:02}/entry-{number}/"
    return f"http://site{number % 5003:04}.example/p/{number}.html"


def _rows(revisions: int, fetched: int, texts: int) -> Iterator[tuple[int, int, str, str]]:
    server = "x" * 200
    for key in range(1, revisions + texts + 2):
        resource = key if key <= fetched else (key - fetched) * 7 % (fetched - texts - 1) + texts + 2
        if key % 500 == 0 and key > texts + 1:
            yield key, resource, '{"type": "TimeoutError", "message": "timed out"}', "null"
        else:
            status = 200 if key % 25 else 404
            yield key, resource, "null", _METADATA % (status, key % 60, key // 60 % 60, server)


def _write_bodies(path: Path, texts: int) -> None:
    folder = None
    for number in range(texts):
        place = body_path(path, number + 1, 2)
        if place.parent != folder:  # 4096 bodies share one
            folder = place.parent
            folder.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text_body(number))
    place = body_path(path, texts + 1, 2)
    place.parent.mkdir(parents=True, exist_ok=True)
    block = random.Random(5).randbytes(1 << 20)
    with open(place, "wb") as file:
        for number in range(LARGE_BYTES >> 20):
            file.write(number.to_bytes(8, "big") + block[8:])
