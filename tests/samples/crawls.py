"""Crawl archives for the tests: a storage of a few crawls of two domains, and archives made to order.

python -m tests.samples.crawls FOLDER      writes the storage that the README looks at
"""

from __future__ import annotations

import csv
import io
import json
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def columns(text: str) -> list[str]:
    """The names of a table's columns."""
    return text.split()


SHAREPOINT_COLUMNS = columns(
    """sharepoint_listitem_id sharepoint_unique_file_id filename file_type file_size url raw_url
    server_relative_url last_modified_utc last_modified_timestamp"""
)
FILES_COLUMNS = columns(
    """sharepoint_listitem_id sharepoint_unique_file_id filename file_type server_relative_url file_relative_path
    file_size last_modified_utc last_modified_timestamp downloaded_utc downloaded_timestamp sharepoint_error
    processing_error"""
)
OLD_FILES_COLUMNS = FILES_COLUMNS[5:]
VECTORS_COLUMNS = columns(
    """openai_file_id vector_store_id file_relative_path sharepoint_listitem_id sharepoint_unique_file_id filename
    file_type file_size last_modified_utc last_modified_timestamp downloaded_utc downloaded_timestamp uploaded_utc
    uploaded_timestamp embedded_utc embedded_timestamp sharepoint_error processing_error embedding_error"""
)

FILES_MAP = "01_files/handbook/files_map.csv"
SHAREPOINT_MAP = "01_files/handbook/sharepoint_map.csv"
LISTS_MAP = "02_lists/contacts/files_map.csv"

FIRST = "2025-03-01_06-00-00_[WIKI]_crawl_all_full"
SECOND = "2025-03-02_06-00-00_[WIKI]_crawl_all_full"
FAILED = "2025-03-03_06-00-00_[WIKI]_download_files_incremental"
SHOP = "2025-03-02_18-30-00_[SHOP_eu-1]_embed_files_full"
IDS = (FAILED, SHOP, SECOND, FIRST)
"""All crawls of the storage, newest first."""

Row = Mapping[str, Any]


def item(number: int, **more: Any) -> dict[str, Any]:
    """A crawled file, with a value for every column."""
    name = more.pop("filename", f"page {number}.docx")
    return {
        "sharepoint_listitem_id": number,
        "sharepoint_unique_file_id": f"id-{number:04}",
        "filename": name,
        "file_type": "docx",
        "file_size": 1000 + number,
        "url": f"https://wiki.example/docs/{number}",
        "raw_url": f"https://wiki.example/docs/{number}?raw",
        "server_relative_url": f"/docs/{name}",
        "last_modified_utc": "2025-02-20T10:00:00.000000Z",
        "last_modified_timestamp": 1740045600,
        "file_relative_path": f"WIKI\\01_files\\handbook\\{name}",
        "downloaded_utc": "2025-03-01T06:00:00.000000Z",
        "downloaded_timestamp": 1740808800,
        "openai_file_id": f"file-{number}",
        "vector_store_id": "vs_1",
        **more,
    }


def table(columns: Sequence[str], rows: Iterable[Row], *, end: str = "\r\n") -> bytes:
    """Rows as a map file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=end)
    writer.writerow(columns)
    writer.writerows([row.get(column, "") for column in columns] for row in rows)
    return text.getvalue().encode()


def metadata(crawl_id: str, **more: Any) -> dict[str, Any]:
    """What crawl.json says of a crawl that went well."""
    stamp, _, rest = crawl_id.partition("_[")
    domain, _, tail = rest.rpartition("]_")
    action, scope, mode = tail.split("_")
    day, _, clock = stamp.partition("_")
    finished = f"{day}T{clock.replace('-', ':')}"
    return {
        "crawl_id": crawl_id,
        "domain_id": domain,
        "action": action,
        "scope": scope,
        "mode": mode,
        "source_id": None,
        "job_id": "jb_7",
        "started_utc": f"{day}T05:55:00.000000Z",
        "finished_utc": f"{finished}.500000Z",
        "ok": True,
        "error": "",
        "sources": [],
        **more,
    }


def zipped(members: Mapping[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """The bytes of a zip."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2025, 3, 1, 6, 0, 0)), data, method)
    return buffer.getvalue()


def archive(crawl_id: str, members: Mapping[str, bytes] | None = None, **more: Any) -> bytes:
    """The bytes of a crawl archive."""
    described = json.dumps(metadata(crawl_id, **more), indent=2).encode()
    return zipped({"crawl.json": described, **(members or {})})


def write(folder: Path, crawl_id: str, members: Mapping[str, bytes] | None = None, **more: Any) -> Path:
    """A crawl archive in *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{crawl_id}.zip"
    path.write_bytes(archive(crawl_id, members, **more))
    return path


def write_storage(root: Path) -> Path:
    """A storage with four crawls; the second of WIKI has one file changed, one gone, one new and one fetched again."""
    folder = root / "crawls"
    rows = [item(1), item(2, filename='Plan "B", draft.docx'), item(3, filename="two\nlines.docx"), item(4)]
    contacts = [item(50, filename="Üsküdar.vcf")]
    first = {
        FILES_MAP: table(FILES_COLUMNS, rows),
        SHAREPOINT_MAP: table(SHAREPOINT_COLUMNS, rows),
        LISTS_MAP: table(OLD_FILES_COLUMNS, contacts),
    }
    write(folder, FIRST, first, sources=[source("handbook", 4, 4)])
    changed = {**rows[0], "file_size": 2048, "last_modified_utc": "2025-03-01T20:00:00.000000Z"}
    churned = {**rows[1], "downloaded_utc": "2025-03-02T06:00:00.000000Z"}
    rows = [changed, churned, rows[3], item(5, filename="news.docx")]
    second = {
        FILES_MAP: table(FILES_COLUMNS, rows),
        SHAREPOINT_MAP: table(SHAREPOINT_COLUMNS, rows),
        LISTS_MAP: table(OLD_FILES_COLUMNS, contacts),
    }
    write(folder, SECOND, second, sources=[source("handbook", 4, 1)])
    failed = {FILES_MAP: table(FILES_COLUMNS, [{**rows[0], "sharepoint_error": "HTTP 503 <b>retry</b>"}])}
    write(folder, FAILED, failed, ok=False, error='SharePoint said "no"', job_id=None)
    vectors = {"01_files/catalogue/vectorstore_map.csv": table(VECTORS_COLUMNS, [item(9)])}
    write(folder, SHOP, vectors)
    return root


def source(source_id: str, total: int, added: int) -> dict[str, Any]:
    """What crawl.json says of one source."""
    return {
        "source_type": "file_sources",
        "source_id": source_id,
        "items_total": total,
        "items_added": added,
        "items_changed": 0,
        "items_removed": 0,
        "items_failed": 0,
        "map_files": [],
    }


def write_live(root: Path, domain: str = "WIKI") -> Path:
    """The map files a crawler has left, with some that must stay out of an archive."""
    live = root / "crawler" / domain
    files = {
        "01_files/handbook/files_map.csv": table(FILES_COLUMNS, [item(1), item(2)]),
        "01_files/handbook/sharepoint_map.csv": table(SHAREPOINT_COLUMNS, [item(1), item(2), item(3)]),
        "01_files/handbook/files_failed_map.csv": table(FILES_COLUMNS, []),
        "01_files/other source/sharepoint_map.csv": table(SHAREPOINT_COLUMNS, [item(4)]),
        "02_lists/contacts/vectorstore_map.csv": table(VECTORS_COLUMNS, [item(5)]),
        "03_sitepages/handbook/files_map.csv": table(FILES_COLUMNS, []),
        "01_files/handbook/files_map_jb_7.csv": b"left by a dry run",
        "01_files/handbook/embedded/deep_map.csv": b"too deep",
        "04_other/x/files_map.csv": b"no such folder",
    }
    for name, data in files.items():
        path = live / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


if __name__ == "__main__":
    write_storage(Path(sys.argv[1]))
