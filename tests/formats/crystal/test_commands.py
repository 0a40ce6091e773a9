"""The commands of archivefs on projects, without a mount: what they print and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from archivefs.cli import main
from tests.samples import crystal
from tests.samples.crystal import ProjectWriter

SITE = "https://harbour.example"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return crystal.write(tmp_path / "harbour.crystalproj")


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str]:
    code = main([str(arg) for arg in args])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def json_of(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, Any]:
    code = main([str(arg) for arg in args])
    return code, json.loads(capsys.readouterr().out)


def test_find_tells_path_revision_and_status(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = json_of(capsys, "find", "--json", path, f"{SITE}/")
    older = found.pop("older")
    assert code == 0
    assert found == {
        "path": "web/https/harbour.example/index.html",
        "status": 200,
        "time": "2024-05-17T12:10:00Z",
        "url": f"{SITE}/",
        "revision": 11,
        "body": "revisions/000/000/000/000/00b",
    }
    assert [capture["path"] for capture in older] == [
        "history/https/harbour.example/^index^revs/11",
        "history/https/harbour.example/^index^revs/1",
    ]


@pytest.mark.parametrize(
    "url",
    [
        f"{SITE}/news/",
        f"{SITE}/news/#today",
        "HTTPS://Harbour.EXAMPLE/news/",
        f"{SITE}/%6Eews/",
        "https://www.harbour.example/news/",
        "https://WWW.harbour.example/%6Eews/#x",
    ],
)
def test_find_takes_a_url_in_any_form(path: Path, capsys: pytest.CaptureFixture[str], url: str) -> None:
    code, found = json_of(capsys, "find", "--json", path, url)
    assert (code, found["path"], found["revision"]) == (0, "web/https/harbour.example/news/index.html", 6)


def test_find_falls_back_and_says_so(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = json_of(capsys, "find", "--json", path, f"{SITE}/news/storm")
    assert (found["revision"], found["fallback"]) == (3, 13)


@pytest.mark.parametrize("url", [f"{SITE}/none", "https://elsewhere.example/ad.js", ""])
def test_find_says_when_a_url_is_not_there(path: Path, capsys: pytest.CaptureFixture[str], url: str) -> None:
    code, output = run(capsys, "find", path, url)
    assert code == 1
    assert "no such URL" in output


def test_info_shows_version_properties_and_migration(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = json_of(capsys, "info", "--json", path)
    assert code == 0
    assert found["format"] == "crystal"
    assert found["facts"]["version"] == 2
    assert found["facts"]["migration"] is None
    assert found["facts"]["properties"] == {"default_url_prefix": SITE}
    assert found["facts"]["largest_ids"]["resource_revision"] == 13


def test_ls_and_cat_without_a_mount(path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["ls", f"{path}:/web/https/harbour.example/news"]) == 0
    assert capsysbinary.readouterr().out.decode().split() == ["index.html", "calm", "fog", "storm"]
    opener = path / "OPEN ME.crystalopen"
    assert main(["cat", f"{opener}:/site/news/storm"]) == 0
    assert capsysbinary.readouterr().out == b"<p>It took two boats.\n"


def test_options_work_for_commands_too(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output = run(capsys, "ls", "-o", "unfetched", f"{path}:/web/https")
    assert (code, output.split()) == (0, ["elsewhere.example", "harbour.example", "www.harbour.example"])
    code, output = run(capsys, "ls", "-o", "prefer=other", f"{path}:/web")
    assert code == 2
    assert "one of content, crystal is expected" in output


def test_verify_says_what_is_wrong(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "verify", path) == (0, f"{path}: ok\n")
    crystal.body_path(path, 11, 2).unlink()
    code, found = json_of(capsys, "verify", "--json", path)
    assert code == 1
    assert [(finding["code"], finding["where"]) for finding in found["findings"]] == [("lost-body", "revision 11")]


def test_a_refusal_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = ProjectWriter(major=99).write(tmp_path / "new.crystalproj")
    for command in ("ls", "info", "verify"):
        code, output = run(capsys, command, path)
        assert code == 2
        assert "its version is 99" in output
        assert "Traceback" not in output


def test_a_lost_body_is_an_error_of_one_line(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crystal.body_path(path, 11, 2).unlink()
    code, output = run(capsys, "cat", f"{path}:/web/https/harbour.example/index.html")
    assert code == 1
    assert "the body of revision 11 is lost" in output
    assert len(output.splitlines()) == 1
