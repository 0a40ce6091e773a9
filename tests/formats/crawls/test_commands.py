"""``archivefs crawls …``: what is printed, and the exit codes."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from archivefs.cli import main
from tests.samples import crawls
from tests.samples.crawls import FAILED, FILES_MAP, FIRST, SECOND, SHOP

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return crawls.write_storage(tmp_path)


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], caplog: pytest.LogCaptureFixture) -> Run:
    """Run a command of the group; gives its exit code, output and messages."""

    def call(name: str, *args: object) -> tuple[int, str, str]:
        capfdbinary.readouterr()
        code = main(["crawls", name, *map(str, args)])
        out, err = capfdbinary.readouterr()
        assert b"Traceback" not in err
        return code, out.decode(), err.decode()

    return call


def data(result: tuple[int, str, str]) -> Any:
    code, out, _ = result
    answer = json.loads(out)
    assert list(answer) == ["ok", "error", "data"]
    assert (code, answer["error"]) == (0, "")
    assert answer["ok"] is True
    return answer["data"]


def refused(result: tuple[int, str, str]) -> str:
    code, out, _ = result
    answer = json.loads(out)
    assert (code, answer["ok"]) == (1, False)
    return answer["error"]


def test_list(run: Run, root: Path) -> None:
    found = data(run("list", root, "--domain-id", "WIKI", "--json"))
    assert [crawl["crawl_id"] for crawl in found["crawls"]] == [FAILED, SECOND, FIRST]
    assert (
        data(run("list", root / "crawls", "--domain-id", "WIKI", "--limit", 1, "--action", "crawl", "--json"))["total"]
        == 2
    )
    code, out, _ = run("list", root, "--domain-id", "WIKI")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split() == ["CRAWL", "STARTED", "SECONDS", "OK"]
    assert lines[1].split() == [FAILED, "2025-03-03T05:55:00.000000Z", "300", "FAILED"]
    assert lines[-1] == "3 crawls"
    assert refused(run("list", root, "--domain-id", "WIKI", "--limit", 0, "--json")).startswith("Invalid value '0'")
    assert "<table>" in run("list", root, "--domain-id", "WIKI", "--format", "html")[1]


def test_a_bad_archive_is_named(run: Run, root: Path) -> None:
    (root / "crawls" / "2025-03-09_00-00-00_[WIKI]_crawl_all_full.zip").write_bytes(b"bad")
    assert (
        "not readable: 2025-03-09_00-00-00_[WIKI]_crawl_all_full: not a zip"
        in run("list", root, "--domain-id", "WIKI")[1]
    )


def test_get(run: Run, root: Path) -> None:
    assert data(run("get", root, "--crawl-id", FAILED, "--json"))["error"] == 'SharePoint said "no"'
    code, out, _ = run("get", root, "--crawl-id", SECOND)
    assert code == 0
    assert f"crawl_id      {SECOND}" in out.splitlines()
    assert "file_sources/handbook  4      1      0        0        0" in out.splitlines()
    rows = data(run("get", root, "--crawl-id", SHOP, "--file", "01_files/catalogue/vectorstore_map.csv", "--json"))
    assert rows["total"] == 1
    raw = run("get", root, "--crawl-id", FIRST, "--file", FILES_MAP, "--format", "csv")[1]
    assert raw.startswith("sharepoint_listitem_id,") and '"two\nlines.docx"' in raw
    assert run("get", root, "--crawl-id", FIRST, "--file", FILES_MAP)[1].splitlines()[-1] == "4 rows"
    assert refused(run("get", root, "--crawl-id", "x", "--json")) == "Crawl 'x' not found."
    code, out, err = run("get", root, "--crawl-id", FIRST, "--file", "x")
    assert (code, out, err) == (1, "", f"archivefs: File 'x' not found in crawl '{FIRST}'.\n")


def test_delete(run: Run, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = root / "crawls" / f"{FIRST}.zip"
    assert data(run("delete", root, "--crawl-id", FIRST, "--dry-run", "--json"))["deleted"] == [FIRST]
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    code, _, err = run("delete", root, "--crawl-id", FIRST)
    assert (code, path.exists()) == (1, True)
    assert "Delete 1 crawl?" in err
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert run("delete", root, "--crawl-id", FIRST)[0] == 0
    assert not path.exists()
    assert refused(run("delete", root, "--crawl-id", FIRST, "--yes", "--json")).endswith("not found.")
    assert refused(run("delete", root, "--domain-id", "WIKI", "--yes", "--json")) == "Missing 'older_than' parameter."
    assert run("delete", root, "--domain-id", "WIKI")[2] == "archivefs: Missing --older-than.\n"
    said = "archivefs: Use either --crawl-id, or --domain-id and --older-than.\n"
    assert run("delete", root, "--domain-id", "WIKI", "--crawl-id", SHOP)[2] == said
    assert refused(run("delete", root, "--yes", "--json"))
    assert data(run("delete", root, "--domain-id", "WIKI", "--older-than", 3, "--yes", "--json"))["total"] == 2
    assert os.listdir(root / "crawls") == [f"{SHOP}.zip"]


def create(run: Run, root: Path, *more: object, domain: str = "WIKI") -> tuple[int, str, str]:
    given = ["--domain-id", domain, "--action", "crawl", "--scope", "all", "--mode", "full"]
    return run("create", root, *given, "--started-utc", "a", "--finished-utc", "b", *more)


def test_create(run: Run, tmp_path: Path) -> None:
    crawls.write_live(tmp_path)
    assert data(create(run, tmp_path, "--dry-run", "--json")) == {"crawl_id": None}
    assert not (tmp_path / "crawls").exists()
    (tmp_path / "sources.json").write_text(json.dumps([crawls.source("handbook", 5, 5)]))
    made = data(
        create(run, tmp_path, "--json", "--error", "bad", "--job-id", "j", "--sources", tmp_path / "sources.json")
    )
    told = data(run("get", tmp_path, "--crawl-id", made["crawl_id"], "--json"))
    assert (told["ok"], told["error"], told["job_id"], told["sources"][0]["items_total"]) == (False, "bad", "j", 5)
    code, out, _ = create(run, tmp_path)
    assert code == 0
    assert (tmp_path / "crawls" / f"{out.strip()}.zip").is_file()
    assert refused(create(run, tmp_path, "--json", domain="a b")).startswith("domain_id 'a b'")
    assert create(run, tmp_path / "nowhere")[0] == 1
    assert not (tmp_path / "nowhere").exists()
    assert create(run, tmp_path, "--sources", tmp_path / "none.json")[0] == 2


def test_diff(run: Run, root: Path) -> None:
    summary = data(run("diff", root, FIRST, SECOND, "--json"))
    assert summary["crawl_id"] == SECOND
    assert summary["members"][FILES_MAP]["removed"] == 1
    code, out, _ = run("diff", root, FIRST, SECOND)
    assert code == 0
    assert out.splitlines()[:8] == [
        f"--- {FIRST}",
        f"+++ {SECOND}",
        "",
        f"{FILES_MAP}: 1 removed, 1 added, 2 changed, 1 unchanged",
        "  - id-0003",
        "  + id-0005",
        "  ~ id-0001",
        "      file_size: 1001 -> 2048",
    ]
    page = run("diff", root, FIRST, SECOND, "--html")[1]
    assert page.startswith("<!doctype html>") and "<td>id-0003</td>" in page
    assert refused(run("diff", root, FIRST, "x", "--json")) == "Crawl 'x' not found."


def test_cells_that_look_like_formulas(run: Run, tmp_path: Path) -> None:
    crawls.write(tmp_path / "crawls", FIRST)
    crawls.write(tmp_path / "crawls", SECOND, {FILES_MAP: b"openai_file_id\r\n=1+1\r\n\x1b[2J\r\n"})
    out = run("diff", tmp_path, FIRST, SECOND)[1]
    assert "  + =1+1" in out.splitlines()
    assert "\x1b" not in out
    assert "  + '=1+1" in run("diff", tmp_path, FIRST, SECOND, "--safe-csv")[1].splitlines()


def test_verify(run: Run, root: Path) -> None:
    code, out, _ = run("verify", root)
    assert (code, out) == (0, f"{root}: ok\n")
    (root / "crawls" / "notes.zip").write_bytes(b"notes")
    broken = "2025-03-09_00-00-00_[WIKI]_crawl_all_full.zip"
    (root / "crawls" / broken).write_bytes(b"bad")
    code, out, _ = run("verify", root, "--json")
    assert code == 1
    findings = {(finding["code"], finding["where"]) for finding in json.loads(out)["findings"]}
    assert findings == {("crawl-name", "crawls/notes.zip"), ("crawl-unreadable", f"crawls/{broken}")}
    assert main(["verify", "--format", "crawls", str(root)]) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("list", "."),
        ("get", "."),
        ("diff", ".", "a"),
        ("create", "."),
        ("nonsense",),
        ("list", "nowhere", "--domain-id", "x"),
    ],
)
def test_usage(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*arguments)[0] == 2
