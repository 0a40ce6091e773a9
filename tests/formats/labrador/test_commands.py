"""The commands of archivefs on Labrador archives: what they print and their exit codes."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from archivefs.cli import main
from tests.samples.labrador import MAGIC, SITE, digest_of, write, write_update


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write(tmp_path / "island.lbz", SITE)


def json_of(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, Any]:
    code = main([str(arg) for arg in args])
    return code, json.loads(capsys.readouterr().out)


def test_find_tells_path_key_state_and_digest(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert json_of(capsys, "find", "--json", archive, "/walks/mühle.html") == (
        0,
        {
            "path": "walks/mühle.html",
            "key": "walks/xz--mhle-n71.html",
            "state": "stored",
            "digest": digest_of(SITE["/walks/mühle.html"]),
        },
    )


def test_find_takes_a_whole_url_where_the_base_is_known(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = "https://island.example/walks/m%C3%BChle.html"
    code, found = json_of(capsys, "find", "--json", "-o", "base_url=https://island.example/", archive, url)
    assert (code, found["path"]) == (0, "walks/mühle.html")


def test_find_says_when_it_is_not_there(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", str(archive), "/no/such/page"]) == 1
    assert capsys.readouterr().err == f"archivefs: {archive}: /no/such/page: no such URL in this archive\n"


def test_info_counts_files_states_and_types(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, known = json_of(capsys, "info", "--json", archive)
    assert (code, known["format"], known["sites"]) == (0, "labrador", True)
    assert known["facts"]["site_size"] == sum(map(len, SITE.values()))
    assert known["facts"]["states"] == {"stored": 15, "empty": 1, "duplicate": 1}


def test_verify_of_a_good_archive(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert json_of(capsys, "verify", "--json", archive) == (0, {"archive": str(archive), "ok": True, "findings": []})


def test_verify_demands_completeness_only_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    later = write_update(tmp_path / "update.lbz")
    first = write(tmp_path / "island.lbz", SITE)
    code, said = json_of(capsys, "verify", "--json", later)
    assert (code, {finding["level"] for finding in said["findings"]}) == (0, {"notice"})
    code, said = json_of(capsys, "verify", "--json", "--complete", later)
    assert (code, {(finding["code"], finding["level"]) for finding in said["findings"]}) == (1, {("external", "error")})
    assert json_of(capsys, "verify", "--json", "--complete", "--external", first, later)[0] == 0


def test_what_cannot_be_read_is_one_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut = tmp_path / "cut.lbz"
    cut.write_bytes(write(tmp_path / "whole.lbz", SITE).read_bytes()[:-100])
    code, said = json_of(capsys, "verify", "--json", cut)
    assert (code, [finding["code"] for finding in said["findings"]]) == (2, ["zip-unreadable"])
    text = tmp_path / "text.txt"
    text.write_bytes(b"mimetype" + MAGIC)
    code, said = json_of(capsys, "verify", "--json", "--format", "labrador", text)
    assert (code, [finding["code"] for finding in said["findings"]]) == (2, ["zip-unreadable"])


def test_a_plain_zip_is_judged_as_labrador_on_demand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plain.zip"
    with zipfile.ZipFile(path, "w") as plain:
        plain.writestr("hello.txt", "hello")
    code, said = json_of(capsys, "verify", "--json", "--format", "labrador", path)
    codes = [finding["code"] for finding in said["findings"]]
    assert (code, sorted(codes)) == (1, ["extra-member", *["missing-file"] * 3, "www-missing"])


def test_content_that_is_not_there_is_told_with_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    later = write_update(tmp_path / "update.lbz")
    first = write(tmp_path / "island.lbz", SITE)
    assert main(["cat", f"{later}:/README.TXT"]) == 1
    assert "name the archive or folder that has it with --external" in capsys.readouterr().err
    assert main(["cat", "--external", str(first), f"{later}:/README.TXT"]) == 0
    assert capsys.readouterr().out.encode() == SITE["/README.TXT"]
