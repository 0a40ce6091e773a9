"""``archivefs urldb``: every command, against a loopback server, against archives, and without asking anybody."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from archivefs.cli import main
from archivefs.formats.urldb.answers import on_the_wire
from archivefs.formats.urldb.normalising import normalised, normalised_path
from tests.samples import crystal, labrador
from tests.samples.urldb import HARBOUR, LOGO, LOGO_DIGEST, MINIMAL, REPLIES, Reply, served, write

HOST = "harbour.example"


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Iterator[object]:
    """Run ``archivefs urldb`` and give the exit code, what was printed, and what was said."""
    logger = logging.getLogger("archivefs")
    before = list(logger.handlers)

    def call(*words: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(["urldb", *map(str, words)])
        return (code, *capfd.readouterr())

    yield call
    for handler in logger.handlers[:]:
        if handler not in before:
            logger.removeHandler(handler)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return write(tmp_path / "db")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_words: object, **_more: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


# -- check --


def test_check(run, database: Path) -> None:
    with served() as (address, seen):
        code, out, _ = run("check", "--connect", address, database)
    lines = out.splitlines()
    assert code == 0, out
    assert lines[-1] == "success: 12 URLs validated"
    assert lines[0] == "http://harbour.example/ ... ok"
    assert "https://secure.example:8443/hello?Key=MiXed ... ok" in lines
    assert (HOST, "/pier%207/%C3%BC") in seen
    assert (HOST, "/wreck") not in seen
    assert (HOST, "/nowhere") not in seen


def test_check_finds_every_kind_of_fault(run, tmp_path: Path) -> None:
    records = {
        "/404": "",
        "/500": "",
        "/type": "content-type: text/html\n",
        "/charset": "content-type: text/html; charset=utf-8\n",
        "/redir": "content-type: text/html\n",
        "/redir-code": "content-type: X-302-Redirect\n",
        "/redir-ok": "categories:\n- redirect-ok\ncontent-type: text/html\n",
        "/change-ok": "categories:\n- content-type-change-ok\ncontent-type: text/html\n",
        "/js": "content-type: application/javascript\n",
        "/length": f"content-length: {len(LOGO) + 1}\n",
        "/bad-length": "content-length: 010\n",
        "/digest": f"content-sha256: '{'0' * 64}'\n",
        "/digest-only": f"content-sha256: {LOGO_DIGEST.upper()}\n",
        "/length-only": f"content-length: {len(LOGO)}\n",
        "/static-redirect": f"content-length: {len(LOGO)}\ncontent-type: image/png\n",
        "/loop": "content-length: 1\n",
        "/gzip": f"content-length: {len(LOGO)}\ncontent-sha256: {LOGO_DIGEST}\n",
    }
    text = "---\n" + "".join(f"---\n_path: {path}\n{records[path]}" for path in sorted(records))
    image = Reply(type="image/png", body=LOGO)
    replies = {
        "/404": Reply(404),
        "/500": Reply(500),
        "/type": Reply(type="text/plain"),
        "/charset": Reply(type="text/html; charset=latin1"),
        "/redir": Reply(302, "", b"", "/404"),
        "/redir-code": Reply(301, "", b"", "/404"),
        "/redir-ok": Reply(302, "", b"", "/404"),
        "/change-ok": Reply(type="text/plain"),
        "/js": Reply(type="Text/JavaScript; charset=utf-8"),
        "/length": image,
        "/bad-length": image,
        "/digest": image,
        "/digest-only": image,
        "/length-only": image,
        "/static-redirect": Reply(301, "", b"", "/length-only"),
        "/loop": Reply(302, "", b"", "/loop"),
        "/gzip": Reply(type="image/png", body=gzip.compress(LOGO), coding="gzip"),
    }
    path = write(tmp_path / "bad", {"a.example": text})
    with served({"a.example": replies}) as (address, _):
        code, out, _ = run("check", "--json", "--connect", address, path)
    found = json.loads(out)
    assert code == 1
    assert found["total"] == len(records)
    assert {one["path"]: one["code"] for one in found["broken"]} == {
        "/404": "status",
        "/500": "status",
        "/type": "type",
        "/charset": "type",
        "/redir": "redirect",
        "/redir-code": "redirect",
        "/length": "length",
        "/bad-length": "length",
        "/digest": "digest",
        "/loop": "no-answer",
    }
    assert set(found["broken"][0]) == {"domain", "path", "url", "code", "text"}
    with served({"a.example": replies}) as (address, _):
        code, out, _ = run("check", "-j", "8", "--path-prefix", "/dig", "--connect", address, path)
    assert (code, out.splitlines()) == (
        1,
        [
            f"http://a.example/digest ... error: digest {LOGO_DIGEST}, expected {'0' * 64}",
            "http://a.example/digest-only ... ok",
            "found 1 broken URLs out of 2",
        ],
    )


def test_check_with_filters_and_other_hosts(run, database: Path) -> None:
    with served({"127.0.0.1": {}}) as (address, seen):
        code, out, _ = run("check", "-d", "www.harbour.example", "-c", "static", "--map", f"{HOST}={address}", database)
    assert code == 1
    assert seen == [(address, "/logo.png")]
    with served() as (address, seen):
        code, out, _ = run("check", "--all", "--path-prefix", "/wreck", "--connect", address, database)
    assert (code, out.splitlines()[-1]) == (1, "found 1 broken URLs out of 1")


def test_nobody_answers(run, database: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        code, out, _ = run("check", "--json", "--connect", f"127.0.0.1:{free.getsockname()[1]}", "-d", HOST, database)
    assert code == 1
    assert {one["code"] for one in json.loads(out)["broken"]} == {"no-answer"}


def test_check_against_a_crystal_project(run, database: Path, tmp_path: Path, no_network: None) -> None:
    project = write_project(tmp_path)
    code, out, _ = run("check", "--json", "-d", HOST, "--archive", project, database)
    found = {one["path"]: one["code"] for one in json.loads(out)["broken"]}
    assert code == 1
    assert found == {
        "/about/crew": "status",
        "/pier 7/ü": "not-in-archive",
        "/search?q=a/b&from=1": "not-in-archive",
        "/tide.yaml": "not-in-archive",
        "/tide.yaml/today": "not-in-archive",
    }
    assert "error: not in archive" in run("check", "-d", HOST, "--archive", project, database)[1]


def write_project(tmp_path: Path) -> Path:
    """A Crystal project with some pages of the harbour."""
    writer = crystal.ProjectWriter()
    html = ("Content-Type", "text/html")
    writer.fetch(f"http://{HOST}/", b"<p>harbour", headers=[html])
    writer.fetch(f"https://{HOST}/about", gzip.compress(b"<p>about"), headers=[html, ("Content-Encoding", "gzip")])
    writer.fetch(f"http://{HOST}/about/crew", b"gone", headers=[html], status=404, reason="Not Found")
    writer.fetch(f"http://www.{HOST}/logo.png", LOGO, headers=[("Content-Type", "image/png")])
    writer.fetch(f"http://{HOST}/old", b"", headers=[("Location", "/about")], status=301, reason="Moved")
    writer.fetch(f"http://{HOST}/about/crew/", b"<p>crew", headers=[html])
    return writer.write(tmp_path / "Harbour.crystalproj")


def test_check_against_a_labrador_archive(run, tmp_path: Path, no_network: None) -> None:
    text = "---\n---\n_path: /\n---\n_path: /none.html\n---\n_path: /walks/north.html\n"
    path = write(tmp_path / "db", {"site.example": text})
    archive = labrador.write(tmp_path / "site.lbz", labrador.SITE)
    code, out, _ = run("check", "--archive", archive, path)
    assert (code, out.splitlines()) == (
        1,
        [
            "http://site.example/ ... ok",
            "http://site.example/none.html ... error: not in archive",
            "http://site.example/walks/north.html ... ok",
            "found 1 broken URLs out of 3",
        ],
    )


# -- add --


def test_add(run, database: Path) -> None:
    with served() as (address, seen):
        assert run("rm", database, f"http://{HOST}/logo.png")[0] == 0
        assert f"/{'logo.png'}" not in (database / f"{HOST}.yaml").read_text()
        words = ("-c", "static", "-c", "graphics", "--static", "--connect", address)
        assert run("add", *words, database, "HTTP://WWW.Harbour.example:80/x/../logo.png#top") == (0, "", "")
        assert (database / f"{HOST}.yaml").read_text() == HARBOUR
        assert seen == [(HOST, "/logo.png")]
        code, out, err = run("add", "--connect", address, database, f"http://{HOST}/logo.png")
        assert (code, out) == (0, "")
        assert "is there already" in err
        assert len(seen) == 1


def test_add_records_what_is_answered(run, tmp_path: Path) -> None:
    path = write(tmp_path / "db", {"a.example": "---\n"})
    replies = {
        "/page": Reply(type="text/html; charset=utf-8"),
        "/moved": Reply(307, "", b"", "/page"),
        "/gone": Reply(410),
    }
    with served({"a.example": replies}) as (address, _):
        assert run("add", "--connect", address, path, "http://a.example/page")[0] == 0
        assert run("add", "--connect", address, path, "http://a.example/moved")[0] == 0
        assert run("add", "--static", "--connect", address, path, "http://a.example/moved?")[0] == 0
        code, _, err = run("add", "--connect", address, path, "http://a.example/gone")
        assert code == 1
        assert "status 410" in err
    assert (path / "a.example.yaml").read_text() == (
        "---\n---\n_path: /moved\ncontent-type: X-307-Redirect\n---\n_path: /page\ncontent-type: text/html\n"
    )


def test_add_from_an_archive_and_offline(run, tmp_path: Path, no_network: None) -> None:
    path = write(tmp_path / "db", {HOST: "---\n"})
    project = write_project(tmp_path)
    assert run("add", "--static", "--archive", project, path, f"https://{HOST}/about")[0] == 0
    digest = hashlib.sha256(b"<p>about").hexdigest()
    assert (path / f"{HOST}.yaml").read_text() == (
        f"---\n---\n_path: /about\ncontent-length: 8\ncontent-sha256: {digest}\ncontent-type: text/html\n"
    )
    assert run("add", "--archive", project, path, f"http://{HOST}/none")[0] == 1
    code, _, err = run("add", "--offline", path, f"{HOST}/b c")
    assert code == 0
    assert "has no scheme" in err
    assert run("show", path, f"http://{HOST}/b%20c") == (0, "_path: /b%20c\n", "")


def test_add_to_an_unknown_domain(run, database: Path, no_network: None) -> None:
    code, _, err = run("add", "--offline", database, "http://new.example/")
    assert code == 2
    assert "--create-domain" in err
    for command in ("show", "rm"):
        said = "archivefs: new.example is no domain of this database\n"
        assert run(command, database, "http://new.example/") == (2, "", said)
    assert run("add", "--offline", "--create-domain", database, "http://new.example/")[0] == 0
    assert (database / "new.example.yaml").read_text() == MINIMAL


def test_add_where_case_does_not_count(run, database: Path, no_network: None) -> None:
    assert run("add", "--offline", database, "https://secure.example:8443/Some/Page?Q=A")[0] == 0
    assert run("show", database, "https://secure.example:8443/some/PAGE?Q=A") == (0, "_path: /some/page?Q=A\n", "")
    assert "already" in run("add", "--offline", database, "https://secure.example:8443/SOME/page?Q=A")[2]
    assert run("show", database, "https://secure.example:8443/some/page?q=a")[0] == 1


@pytest.mark.parametrize("words", [("--offline", "--static"), ("--offline", "--connect", "x:1"), ("--connect", "x")])
def test_add_with_words_that_make_no_sense(run, words: tuple[str, ...], database: Path, no_network: None) -> None:
    assert run("add", *words, database, f"http://{HOST}/new")[0] == 2


# -- the others --


def test_show_rm_and_dump(run, database: Path, no_network: None) -> None:
    assert run("show", database, "http://ferries.example/old") == (
        0,
        "_path: /old\ncontent-type: X-301-Redirect\n",
        "",
    )
    assert run("show", database, f"http://{HOST}/search?q=a/b&from=1")[0] == 0
    assert run("show", database, f"http://{HOST}/none")[0] == 1
    assert run("rm", database, f"http://{HOST}/none")[0] == 1
    assert run("rm", database, "http://nowhere.example/")[0] == 2
    assert run("rm", database, f"http://{HOST}/pier 7/ü")[0] == 0
    assert "pier" not in (database / f"{HOST}.yaml").read_text()
    assert run("dump-urls", "-d", HOST, "--path-prefix", "/about/", database)[1].splitlines() == [
        f"http://{HOST}/about/crew",
        f"http://{HOST}/about/crew/",
    ]
    assert run("dump-urls", "-c", "deprecated", database)[1] == ""
    assert run("dump-urls", "-c", "deprecated", "--all", database)[1] == f"http://{HOST}/wreck\n"
    assert run("dump-urls", "-d", "nowhere.example", database)[0] == 2


def test_lint(run, database: Path, no_network: None) -> None:
    code, out, _ = run("lint", database)
    assert code == 0
    assert "minimal.example.yaml:2: info: no-content-type: there is no content-type" in out.splitlines()
    (database / "bad.example.yaml").write_text("---\n---\n_path: [\n")
    code, out, _ = run("lint", "--json", database)
    assert code == 1
    assert json.loads(out)["findings"][0] == {
        "file": "bad.example.yaml",
        "line": 2,
        "level": "error",
        "code": "yaml",
        "text": "did not find expected node content (line 2 after its ---)",
    }
    assert run("lint", database / "nowhere")[0] == 2
    assert run("lint", database / "bad.example.yaml")[0] == 2


def test_format(run, database: Path, no_network: None) -> None:
    assert run("format", "--check", database) == (0, "", "")
    (database / "minimal.example.yaml").write_text("--- {}\n--- {_path: /}\n")
    assert run("format", "--check", database) == (1, "minimal.example.yaml: would be changed\n", "")
    assert run("format", database) == (0, "minimal.example.yaml: was changed\n", "")
    assert (database / "minimal.example.yaml").read_text() == MINIMAL
    assert run("format", "--eol", "crlf", database)[0] == 0
    assert (database / "minimal.example.yaml").read_bytes() == MINIMAL.replace("\n", "\r\n").encode()
    (database / "minimal.example.yaml").write_text("---\n---\n_path: / # c\n---\n_path: /\n")
    code, _, err = run("format", database)
    assert (code, "comments in line 3" in err) == (1, True)
    code, _, err = run("format", "--drop-comments", database)
    assert (code, "there twice" in err) == (1, True)
    assert run("format", "--drop-comments", "--dedupe", database)[0] == 0
    assert (database / "minimal.example.yaml").read_text() == MINIMAL


# -- URLs --


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", "/"),
        ("/", "/"),
        ("?", "/"),
        ("?q=1", "/?q=1"),
        ("/a/./b/../c", "/a/c"),
        ("/../a", "/a"),
        ("/a/..", "/"),
        ("/a/.", "/a/"),
        ("/a//b", "/a//b"),
        ("/%7euser%2f%c3%a9", "/~user%2F%C3%A9"),
        ("/é b", "/%C3%A9%20b"),
        ("/a?b=%7e&a=1&x= y", "/a?b=~&a=1&x=%20y"),
        ("/%zz", "/%zz"),
        ("/%2e%2e/a", "/a"),
    ],
)
def test_normalising(text: str, path: str) -> None:
    assert normalised_path(text) == path
    assert normalised_path(path) == path


def test_hosts_are_normalised() -> None:
    assert normalised("HTTPS://A.Example:443/x#f")[2:] == ("a.example", "/x")
    assert normalised("https://a.example:80")[2:] == ("a.example:80", "/")


def test_what_is_sent_is_what_is_stored() -> None:
    assert on_the_wire("/a/../b//c;p=1?q=%7e&x=[1]") == "/a/../b//c;p=1?q=%7e&x=[1]"
    assert on_the_wire("/é b|") == "/%C3%A9%20b%7C"


def test_every_reply_is_asked_for(run, database: Path) -> None:
    with served() as (address, seen):
        run("check", "--all", "--connect", address, database)
    assert {host: set(pages) for host, pages in REPLIES.items()} == {
        host: {target for asked, target in seen if asked == host} for host in REPLIES
    }
