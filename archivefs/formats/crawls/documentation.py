"""What the HTTP interface says of itself when it is asked without any parameter."""

from __future__ import annotations

PAGES = {
    "/v2/crawler/crawls": """\
List the crawl archives of a domain, newest first.

Method: GET

Parameters:
  domain_id   required: the domain
  action      download | process | embed | crawl
  scope       all | files | lists | sitepages
  limit       how many at most, 1 to 10000 (default: 50)
  format      json | html (default: json)

Notes:
  Crawls are chosen by their file names alone; total counts all of them, before limit.
  Archives that cannot be read are left out and named under "warnings".

Examples:
  GET /v2/crawler/crawls?domain_id=TEST01
  GET /v2/crawler/crawls?domain_id=TEST01&action=crawl&limit=10&format=html

Return:
  {"ok": true, "error": "", "data": {"domain_id": ..., "crawls": [{"crawl_id", "action", "scope", "mode",
   "started_utc", "duration_seconds", "ok"}, ...], "total": ...}}
""",
    "/v2/crawler/crawls/get": """\
Get what is known of a crawl, or one of its map files.

Method: GET

Parameters:
  crawl_id    required: the archive's file name without .zip
  file        a map file, such as 01_files/source01/files_map.csv
  format      json | csv | html (default: json); csv needs file

Notes:
  Columns that hold whole numbers are numbers in JSON, empty ones null; all others stay text.
  csv gives the bytes as they are stored: cells that look like formulas are left as they are.

Examples:
  GET /v2/crawler/crawls/get?crawl_id=2025-01-15_14-25-00_[TEST01]_crawl_all_full
  GET /v2/crawler/crawls/get?crawl_id=2025-01-15_14-25-00_[TEST01]_crawl_all_full&file=01_files/source01/files_map.csv

Return:
  {"ok": true, "error": "", "data": {... crawl.json ...}}
  {"ok": true, "error": "", "data": {"crawl_id": ..., "file": ..., "rows": [{...}, ...], "total": ...}}
""",
    "/v2/crawler/crawls/delete": """\
Delete one crawl archive, or the old ones of a domain.

Method: GET or DELETE

Parameters:
  crawl_id    delete this archive
or
  domain_id   delete archives of this domain
  older_than  that are older than so many days, by the time in their names
and
  dry_run     true | false (default: false): say what would be deleted, and delete nothing

Notes:
  Only on a server that was started with --rw.  Refused when a browser prefetches it or another site asks for it.

Examples:
  DELETE /v2/crawler/crawls/delete?crawl_id=2025-01-15_14-25-00_[TEST01]_crawl_all_full
  GET /v2/crawler/crawls/delete?domain_id=TEST01&older_than=30&dry_run=true

Return:
  {"ok": true, "error": "", "data": {"deleted": [crawl ids, newest first], "total": ...}}
""",
}
