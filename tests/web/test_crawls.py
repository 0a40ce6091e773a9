"""The HTTP interface of crawls, by a real client against a running server."""

from __future__ import annotations

import html
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.samples import crawls
from tests.samples.crawls import FAILED, FILES_MAP, FIRST, SECOND, SHOP
from tests.web.serving import Answer, Server, query, serving

LIST, GET, DELETE = "/v2/crawler/crawls", "/v2/crawler/crawls/get", "/v2/crawler/crawls/delete"
ODD = "2025-03-01_07-00-00_[odd]_[id]_embed_files_full"
BAD = "2025-03-04_06-00-00_[WIKI]_crawl_all_full"
LATER = "2025-03-01_00-00-00_WIKI_all_full"
HOSTILE = "2025-03-01_08-00-00_[HOSTILE]_crawl_files_full"
CELLS = b'filename,url,file_size\r\n<script>alert(1)</script>,javascript:alert(1),12e3\r\n=1+1,"a""b",\r\n'


def write(root: Path) -> Path:
    crawls.write_storage(root)
    folder = root / "crawls"
    crawls.write(folder, ODD, {FILES_MAP: b"a\r\n1\r\n"})
    (folder / f"{BAD}.zip").write_bytes(b"not a zip")
    (folder / f"{LATER}.zip").write_bytes(crawls.zipped({"crawl.json": b'{"crawl_result_id": "x", "ok": true}'}))
    crawls.write(folder, HOSTILE, {"01_files/<i>/x_map.csv": CELLS, "notes.txt": b"notes"}, error="<b>&\"'")
    return root


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("crawls", "serve", write(tmp_path_factory.mktemp("read"))) as server:
        yield server


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path)


@pytest.fixture
def writable(root: Path) -> Iterator[Server]:
    with serving("crawls", "serve", root, "--rw") as server:
        yield server


class Refusing(NamedTuple):
    """A server that may delete, shared by tests in which it must not."""

    server: Server
    root: Path


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refusing]:
    root = write(tmp_path_factory.mktemp("refusing"))
    with serving("crawls", "serve", root, "--rw") as server:
        yield Refusing(server, root)


def failed(answer: Answer, status: int) -> str:
    """What went wrong, by an answer that must be an error."""
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert set(answer.json) == {"ok", "error", "data"}
    assert (answer.json["ok"], answer.json["data"]) == (False, {})
    assert "/tmp" not in answer.json["error"]
    return answer.json["error"]


def data(answer: Answer) -> dict:
    assert answer.status == 200, answer
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert (answer.json["ok"], answer.json["error"]) == (True, "")
    return answer.json["data"]


# -- list --


def test_a_listing(server: Server) -> None:
    found = data(server.ask(query(LIST, domain_id="WIKI")))
    assert found["domain_id"] == "WIKI"
    assert [crawl["crawl_id"] for crawl in found["crawls"]] == [FAILED, SECOND, FIRST, LATER]
    assert found["crawls"][0] == {
        "crawl_id": FAILED,
        "action": "download",
        "scope": "files",
        "mode": "incremental",
        "started_utc": "2025-03-03T05:55:00.000000Z",
        "duration_seconds": 300,
        "ok": False,
    }
    assert found["crawls"][3]["started_utc"] is None
    assert found["total"] == 4
    assert found["warnings"] == [{"crawl_id": BAD, "error": "not a zip: there is no end record"}]


def test_filters_and_limits(server: Server) -> None:
    assert data(server.ask(query(LIST, domain_id="WIKI", action="download")))["total"] == 1
    assert data(server.ask(query(LIST, domain_id="WIKI", scope="files")))["total"] == 1
    page = data(server.ask(query(LIST, domain_id="WIKI", limit=1)))
    assert ([crawl["crawl_id"] for crawl in page["crawls"]], page["total"]) == ([FAILED], 4)
    assert "warnings" in page
    assert data(server.ask(query(LIST, domain_id="odd]_[id")))["total"] == 1
    assert data(server.ask(f"{LIST}?domain_id=odd]_[id"))["total"] == 1
    nobody = data(server.ask(query(LIST, domain_id="wiki")))
    assert nobody == {"domain_id": "wiki", "crawls": [], "total": 0}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("format=json", "Missing 'domain_id' parameter."),
        ("domain_id=", "Missing 'domain_id' parameter."),
        ("domain_id=A&domain_id=", "Missing 'domain_id' parameter."),
        (
            "domain_id=A&action=x",
            "Invalid value 'x' for 'action' param. Valid: ['download', 'process', 'embed', 'crawl']",
        ),
        (
            "domain_id=A&scope=ALL",
            "Invalid value 'ALL' for 'scope' param. Valid: ['all', 'files', 'lists', 'sitepages']",
        ),
        ("domain_id=A&format=csv", "Format 'csv' not supported."),
        ("domain_id=A&format=xml", "Format 'xml' not supported."),
        *[
            (f"domain_id=A&limit={limit}", "Invalid value")
            for limit in ("0", "10001", "-1", "1.5", "x", "%D9%A3", "9" * 50)
        ],
    ],
)
def test_bad_parameters_of_a_listing(server: Server, parameters: str, message: str) -> None:
    assert failed(server.ask(f"{LIST}?{parameters}"), 400).startswith(message)


def test_the_last_of_several_counts_and_the_unknown_are_ignored(server: Server) -> None:
    assert data(server.ask(f"{LIST}?domain_id=x&domain_id=WIKI&limit=x&limit=2&what=ever"))["domain_id"] == "WIKI"


# -- get --


def test_metadata(server: Server, tmp_path: Path) -> None:
    crawls.write_storage(tmp_path)
    found = data(server.ask(query(GET, crawl_id=FIRST)))
    assert found == crawls.metadata(FIRST, sources=[crawls.source("handbook", 4, 4)])
    assert data(server.ask(f"{GET}?crawl_id={FIRST}")) == found  # brackets as they are
    assert data(server.ask(query(GET, crawl_id=FIRST, file="crawl.json"))) == found
    assert data(server.ask(query(GET, crawl_id=LATER))) == {"crawl_result_id": "x", "ok": True}


def test_a_map_file(server: Server) -> None:
    found = data(server.ask(query(GET, crawl_id=FIRST, file=FILES_MAP)))
    assert (found["crawl_id"], found["file"], found["total"], len(found["rows"])) == (FIRST, FILES_MAP, 4, 4)
    assert list(found["rows"][0]) == crawls.FILES_COLUMNS
    assert found["rows"][2]["filename"] == "two\nlines.docx"
    raw = server.ask(query(GET, crawl_id=HOSTILE, file="01_files/<i>/x_map.csv", format="csv"))
    assert raw.body == CELLS
    assert raw.headers["content-type"] == "text/csv; charset=utf-8"
    assert raw.headers["content-disposition"] == 'attachment; filename="x_map.csv"'
    rows = data(server.ask(query(GET, crawl_id=HOSTILE, file="01_files/<i>/x_map.csv")))["rows"]
    assert [row["file_size"] for row in rows] == ["12e3", None]


@pytest.mark.parametrize(
    ("parameters", "status", "message"),
    [
        ({"file": "x"}, 400, "Missing 'crawl_id' parameter."),
        ({"crawl_id": FIRST, "format": "csv"}, 400, "Format 'csv' requires 'file'."),
        ({"crawl_id": FIRST, "format": "xml"}, 400, "Format 'xml' not supported."),
        ({"crawl_id": "x"}, 404, "Crawl 'x' not found."),
        (
            {"crawl_id": FIRST, "file": "01_files/none_map.csv"},
            404,
            f"File '01_files/none_map.csv' not found in crawl '{FIRST}'.",
        ),
        ({"crawl_id": HOSTILE, "file": "notes.txt"}, 404, f"File 'notes.txt' not found in crawl '{HOSTILE}'."),
        ({"crawl_id": BAD}, 500, f"Crawl '{BAD}' is not readable: not a zip: there is no end record."),
    ],
)
def test_what_cannot_be_got(server: Server, parameters: dict[str, str], status: int, message: str) -> None:
    assert failed(server.ask(query(GET, **parameters)), status) == message


TRAVERSALS = [
    "../crawls/" + FIRST,
    "..%2fcrawls%2f" + FIRST,
    "%2e%2e/%2e%2e/etc/passwd",
    "%252e%252e%252fetc%252fpasswd",
    "..%5c..%5cetc%5cpasswd",
    "%c0%ae%c0%ae/etc/passwd",
    "/etc/passwd",
    "//etc/passwd",
    f"{FIRST}%00",
    f"{FIRST}.zip",
    f"./{FIRST}",
    f"{FIRST}/",
    f"{FIRST}/crawl.json",
    "%00",
    "%ff%fe",
    ".",
    "..",
    "*",
    f"{FIRST}%0a",
    "A" * 5000,
]


@pytest.mark.parametrize("text", TRAVERSALS)
def test_no_name_leads_out(server: Server, text: str) -> None:
    assert "not found" in failed(server.ask(f"{GET}?crawl_id={text}"), 404)
    assert "not found" in failed(server.ask(f"{GET}?crawl_id={FIRST}&file={text}"), 404)
    assert "not found" in failed(server.ask(f"{GET}?crawl_id={FIRST}&file=01_files/handbook/{text}_map.csv"), 404)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v2",
        LIST + "/",
        GET + "/",
        "/v2/crawler/crawls/../crawls",
        "/v2//crawler/crawls",
        LIST + "%00",
        LIST.upper(),
        "/etc/passwd",
    ],
)
def test_other_paths_are_not_found(server: Server, path: str) -> None:
    assert failed(server.ask(path), 404)


# -- methods, documentation, headers --


@pytest.mark.parametrize("path", [LIST, GET, DELETE])
def test_a_bare_get_explains_itself(server: Server, path: str) -> None:
    answer = server.ask(path)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    for word in ("Method:", "Parameters:", "Notes:", "Examples:", "Return:", path):
        assert word in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "OPTIONS", "DELETE", "HEAD", "TRACE"])
@pytest.mark.parametrize("path", [LIST, GET, DELETE])
def test_methods(server: Server, method: str, path: str) -> None:
    allowed = {DELETE: ("GET", "DELETE")}.get(path, ("GET", "HEAD"))
    answer = server.ask(query(path, crawl_id=FIRST, domain_id="WIKI"), method)
    assert (answer.status == 405) is (method not in allowed)
    if method not in allowed:
        assert answer.headers["allow"] == ", ".join(allowed)
    if method == "HEAD":
        assert answer.body == b""


def test_a_head_is_a_get_without_its_body(server: Server) -> None:
    for path in (LIST, query(LIST, domain_id="WIKI"), query(GET, crawl_id=FIRST, file=FILES_MAP, format="csv")):
        head, whole = server.ask(path, "HEAD"), server.ask(path)
        assert (head.status, head.body) == (200, b"")
        assert {**head.headers, "date": ""} == {**whole.headers, "date": ""}


@pytest.mark.parametrize(
    "path",
    [
        LIST,
        query(LIST, domain_id="WIKI"),
        query(LIST, domain_id="WIKI", format="html"),
        "/nothing",
        GET + "?x=1",
        DELETE + "?x=1",
    ],
)
def test_headers_of_every_answer(server: Server, path: str) -> None:
    headers = server.ask(path).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:80", "localhost", "LOCALHOST:1234", "[::1]", "[::1]:99"])
def test_hosts_that_are_served(server: Server, host: str) -> None:
    assert server.ask(LIST, headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "127.0.0.2", "", "localhost:x", "[::2]"],
)
@pytest.mark.parametrize("path", [LIST, "/nothing"])
def test_hosts_that_are_not(server: Server, host: str, path: str) -> None:
    answer = server.ask(path, headers={"Host": host})
    assert answer.status in ((403,) if host else (400, 403))


def test_it_listens_on_this_machine_alone(server: Server) -> None:
    with open("/proc/net/tcp") as table:
        lines = [line.split()[1] for line in table if line.split()[3] == "0A"]
    assert [place for place in lines if place.endswith(f":{server.port:04X}")] == [f"0100007F:{server.port:04X}"]


# -- pages --


class Page(HTMLParser):
    """The tags, links and cells of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.cells: list[str] = []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]
        if tag == "td":
            self.cells.append("")
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "td"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.cells[-1] += data


def page(answer: Answer) -> Page:
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    found = Page(answer.text)
    assert not {"script", "form", "button", "img", "iframe", "input", "link", "object"} & set(found.tags)
    assert "delete" not in answer.text.lower()
    assert re.search(r"\son[a-z]+=", answer.text) is None
    return found


def test_the_page_of_a_listing(server: Server) -> None:
    found = page(server.ask(query(LIST, domain_id="WIKI", format="html")))
    assert found.tags.count("table") == 1
    assert found.cells[:7] == [
        FAILED,
        "download",
        "files",
        "incremental",
        "2025-03-03T05:55:00.000000Z",
        "300",
        "false",
    ]
    assert found.links[0] == f"{GET}?crawl_id={FAILED}&format=html"
    assert page(server.ask(found.links[0])).tags.count("table") == 1


def test_the_page_of_a_hostile_map_file(server: Server) -> None:
    answer = server.ask(query(GET, crawl_id=HOSTILE, file="01_files/<i>/x_map.csv", format="html"))
    found = page(answer)
    assert [cell.strip() for cell in found.cells] == [
        "<script>alert(1)</script>",
        "javascript:alert(1)",
        "12e3",
        "=1+1",
        'a"b',
        "",
    ]
    assert found.links == []
    assert html.escape("<i>") in answer.text


def test_the_page_of_metadata(server: Server) -> None:
    found = page(server.ask(query(GET, crawl_id=HOSTILE, format="html")))
    assert "<b>&\"'" in [cell.strip() for cell in found.cells]


def test_errors_as_pages(server: Server) -> None:
    answer = server.ask(query(GET, crawl_id="<script>", format="html"))
    assert answer.status == 404
    assert "&lt;script&gt;" in answer.text
    assert page(answer).tags.count("script") == 0


# -- delete --


def names(root: Path) -> set[str]:
    return {path.stem for path in (root / "crawls").iterdir()}


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_deleting_one(writable: Server, root: Path, method: str) -> None:
    asked = query(DELETE, crawl_id=FIRST)
    assert data(writable.ask(asked + "&dry_run=true", method)) == {"deleted": [FIRST], "total": 1}
    assert FIRST in names(root)
    assert data(writable.ask(asked, method)) == {"deleted": [FIRST], "total": 1}
    assert FIRST not in names(root)
    assert failed(writable.ask(asked, method), 404) == f"Crawl '{FIRST}' not found."
    assert data(writable.ask(query(DELETE, crawl_id=BAD), method))["total"] == 1  # unreadable ones too


def test_deleting_the_old_ones(writable: Server, root: Path) -> None:
    future = "2999-01-01_00-00-00_[WIKI]_crawl_all_full"
    crawls.write(root / "crawls", future)
    asked = query(DELETE, domain_id="WIKI", older_than=1)
    assert data(writable.ask(asked + "&dry_run=true"))["deleted"] == [BAD, FAILED, SECOND, FIRST]
    assert data(writable.ask(query(DELETE, domain_id="WIKI", older_than=999_999)))["total"] == 0
    assert data(writable.ask(asked))["deleted"] == [BAD, FAILED, SECOND, FIRST]
    assert data(writable.ask(asked)) == {"deleted": [], "total": 0}
    assert names(root) == {future, LATER, SHOP, ODD, HOSTILE}


@pytest.mark.parametrize(
    ("parameters", "status"),
    [
        ("dry_run=false", 400),
        ("domain_id=WIKI", 400),
        ("older_than=0", 400),
        (f"crawl_id={FIRST}&domain_id=WIKI", 400),
        (f"crawl_id={FIRST}&older_than=1", 400),
        (f"crawl_id={FIRST}&domain_id=WIKI&older_than=1", 400),
        (f"crawl_id={FIRST}&dry_run=yes", 400),
        ("domain_id=WIKI&older_than=-1", 400),
        ("domain_id=WIKI&older_than=1.5", 400),
        ("domain_id=WIKI&older_than=%D9%A3", 400),
        ("domain_id=WIKI&older_than=x", 400),
        (f"crawl_id={FIRST}&format=html", 400),
        (f"crawl_id={LATER}", 403),
        ("crawl_id=../" + FIRST, 404),
        (f"crawl_id={FIRST}.zip", 404),
    ],
)
def test_deletions_that_are_refused(refusing: Refusing, parameters: str, status: int) -> None:
    server, root = refusing
    before = names(root)
    for method in ("GET", "DELETE"):
        failed(server.ask(f"{DELETE}?{parameters}", method), status)
    assert names(root) == before


def test_a_delete_without_parameters_deletes_nothing(refusing: Refusing) -> None:
    server, root = refusing
    before = names(root)
    assert failed(server.ask(DELETE, "DELETE"), 400)
    assert server.ask(DELETE).status == 200
    assert names(root) == before


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Purpose": "prefetch"},
        {"Sec-Purpose": "prefetch;prerender"},
        {"Host": "evil.example"},
    ],
)
def test_foreign_deletions_are_refused(refusing: Refusing, headers: dict[str, str]) -> None:
    server, root = refusing
    before = names(root)
    for method in ("GET", "DELETE"):
        failed(server.ask(query(DELETE, crawl_id=FIRST), method, headers), 403)
    failed(server.ask(query(DELETE, crawl_id=FIRST), "POST"), 405)
    failed(server.ask(query(DELETE, crawl_id=FIRST), "OPTIONS"), 405)
    assert server.ask(query(DELETE, crawl_id=FIRST), "HEAD").status == 405
    assert names(root) == before


def test_our_own_pages_may_delete(writable: Server) -> None:
    assert data(writable.ask(query(DELETE, crawl_id=FIRST), headers={"Sec-Fetch-Site": "same-origin"}))["total"] == 1


@pytest.mark.parametrize(
    "parameters", [f"crawl_id={FIRST}", f"crawl_id={FIRST}&dry_run=true", "nonsense", "crawl_id=x"]
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_read_only_server_deletes_nothing(server: Server, parameters: str, method: str) -> None:
    assert failed(server.ask(f"{DELETE}?{parameters}", method), 403) == "Server is read-only."


def test_delete_over_get_can_be_turned_off(root: Path) -> None:
    with serving("crawls", "serve", root, "--rw", "--no-get-delete") as server:
        assert failed(server.ask(query(DELETE, crawl_id=FIRST)), 403)
        assert FIRST in names(root)
        assert server.ask(DELETE).status == 200
        assert data(server.ask(query(DELETE, crawl_id=FIRST), "DELETE"))["total"] == 1


def test_two_deletions_at_once(writable: Server) -> None:
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(writable.ask(query(DELETE, crawl_id=FIRST)).status)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] + [404] * 7


def test_new_archives_are_seen_at_once(writable: Server, root: Path) -> None:
    assert data(writable.ask(query(LIST, domain_id="NEW")))["total"] == 0
    crawls.write(root / "crawls", "2025-05-01_00-00-00_[NEW]_crawl_all_full")
    end = time.monotonic() + 1
    while not (total := data(writable.ask(query(LIST, domain_id="NEW")))["total"]) and time.monotonic() < end:
        time.sleep(0.05)
    assert total == 1


# -- the server itself --


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_told(root: Path, number: int) -> None:
    with serving("crawls", "serve", root) as server:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", server.url)
        with socket.create_connection(("127.0.0.1", server.port)):  # an idle connection does not keep it
            assert server.ask(LIST).status == 200
            code, said = server.end(by=number)
        assert code == 0
        assert "Traceback" not in said


def test_a_port_can_be_chosen_and_may_be_taken(root: Path) -> None:
    with serving("crawls", "serve", root) as server, pytest.raises(AssertionError, match="Address already in use"):
        Server("crawls", "serve", str(root), "--port", str(server.port))
    with pytest.raises(AssertionError, match="no such folder"):
        Server("crawls", "serve", str(root / "nothing"))


def test_nothing_is_written_by_reading(root: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in (root / "crawls").iterdir()}
    with serving("crawls", "serve", root) as server:
        for path in (query(LIST, domain_id="WIKI"), query(GET, crawl_id=FIRST, file=FILES_MAP, format="html")):
            server.ask(path)
    assert {path.name: path.stat().st_mtime_ns for path in (root / "crawls").iterdir()} == before
    assert os.listdir(root) == ["crawls"]
