"""Every lint code, its level and its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archivefs.format import Level, Opening, VerifyRequest
from archivefs.formats.urldb import FORMAT
from archivefs.formats.urldb.database import Database
from archivefs.formats.urldb.domainfile import DomainFile
from archivefs.formats.urldb.lint import INFOS, WARNINGS, lint_file
from tests.samples.urldb import DATABASE, write
from tests.shared import shared_module

OK = "---\n_path: /fine\ncontent-type: text/html\n"
HEX = "0123456789abcdef" * 4

CASES: list[tuple[str, str | bytes, list[tuple[int, str]]]] = [
    ("nothing", "---\n" + OK, []),
    ("alias", "---\n---\n_path: /a\nx: &x [1]\n" + OK, [(4, "alias")]),
    ("bad-digest", f"---\n---\n_path: /a\ncontent-sha256: {HEX[:63]}\ncontent-type: x/y\n", [(4, "bad-digest")]),
    ("bad-length", "---\n---\n_path: /a\ncontent-length: 010\ncontent-type: x/y\n", [(4, "bad-length")]),
    ("underscore", "---\n---\n_path: /a\ncontent-length: 1_000\ncontent-type: x/y\n", [(4, "bad-length")]),
    ("sexagesimal", "---\n---\n_path: /a\ncontent-length: 1:30\ncontent-type: x/y\n", [(4, "bad-length")]),
    ("float", "---\n---\n_path: /a\ncontent-length: 1650240.0\ncontent-type: x/y\n", [(4, "bad-length")]),
    ("bool", "---\n---\n_path: /a\ncontent-length: true\ncontent-type: x/y\n", [(4, "bad-length")]),
    ("quoted", "---\n---\n_path: /a\ncontent-length: '5'\ncontent-type: x/y\n", [(4, "bad-length")]),
    ("zero", "---\n---\n_path: /a\ncontent-length: 0\ncontent-type: x/y\n", []),
    ("bad-path", "---\n---\n_path: a\ncontent-type: x/y\n", [(3, "bad-path")]),
    ("no path", "---\n---\ncontent-type: x/y\n", [(2, "bad-path")]),
    ("control", '---\n---\n_path: "/a\\0"\ncontent-type: x/y\n', [(3, "bad-path")]),
    ("c1", '---\n---\n_path: "/a\\x9F"\ncontent-type: x/y\n', [(3, "bad-path")]),
    ("block path", "---\n---\n_path: |\n  /a\ncontent-type: x/y\n", [(3, "bad-path")]),
    ("cname-self", "---\ncnames:\n- a.example\n" + OK, [(2, "cname-self")]),
    ("bad cname", "---\ncnames:\n- ../evil\n" + OK, [(2, "bad-domain-name")]),
    ("depth", "---\n---\n_path: /a\nx: " + "[" * 40 + "]" * 40 + "\n" + OK, [(4, "depth")]),
    (
        "duplicate-key",
        "---\n---\n_path: /a\ncontent-type: a/b\ncontent-type: x/y\n",
        [(1, "not-canonical"), (5, "duplicate-key")],
    ),
    ("duplicate-path", "---\n" + OK + OK, [(1, "unsorted"), (1, "not-canonical"), (6, "duplicate-path")]),
    ("fragment", "---\n---\n_path: /a#x\ncontent-type: x/y\n", [(3, "fragment")]),
    ("missing-metadata", OK, [(1, "missing-metadata"), (1, "not-canonical")]),
    ("empty", "", [(1, "missing-metadata"), (1, "not-canonical")]),
    ("not-a-bool", "---\nhttps: maybe\n" + OK, [(2, "not-a-bool")]),
    (
        "not-a-list",
        "---\n---\n_path: /a\ncategories: x\ncontent-type: x/y\n",
        [(1, "not-canonical"), (4, "not-a-list")],
    ),
    ("not-a-mapping", "---\n---\n- a\n" + OK, [(2, "not-a-mapping")]),
    ("metadata list", "---\n- a\n" + OK, [(1, "not-a-mapping")]),
    (
        "not-a-string",
        "---\n---\n_path: /a\ncategories:\n- 1\ncontent-type: x/y\n",
        [(1, "not-canonical"), (4, "not-a-string")],
    ),
    ("not-utf8", b"---\n---\n_path: /\xe9\n" + OK.encode(), [(2, "not-utf8")]),
    ("tag", "---\n---\n_path: !!str /a\n" + OK, [(3, "tag")]),
    ("too-big", "---\n---\n_path: /a\nx: " + "y" * (1 << 20) + "\n" + OK, [(2, "too-big")]),
    ("yaml", "---\n---\n_path: [\n" + OK, [(2, "yaml")]),
    ("list key", "---\n---\n? [a]\n: b\n" + OK, [(3, "yaml")]),
    ("digest-case", f"---\n---\n_path: /a\ncontent-sha256: {HEX.upper()}\ncontent-type: x/y\n", [(4, "digest-case")]),
    ("empty-record", "---\n" + OK + "---\n", [(1, "not-canonical"), (5, "empty-record")]),
    (
        "non-string-key",
        "---\n---\n_path: /a\ncontent-type: x/y\nyes: 1\n",
        [(1, "not-canonical"), (5, "non-string-key")],
    ),
    ("not-canonical", "---\n---\n'_path': /a\ncontent-type: x/y\n", [(1, "not-canonical")]),
    ("tab", "---\n---\n_path:\t/a\ncontent-type: x/y\n", [(1, "not-canonical"), (2, "tab")]),
    ("unsorted", "---\n" + OK + OK.replace("/fine", "/a"), [(1, "unsorted"), (1, "not-canonical")]),
    ("keys", "---\n---\ncontent-type: x/y\n_path: /a\n", [(1, "unsorted"), (1, "not-canonical")]),
    ("cnames", "---\ncnames:\n- z.example\n- b.example\n" + OK, [(1, "unsorted"), (1, "not-canonical")]),
    ("no-content-type", "---\n---\n_path: /a\n", [(2, "no-content-type")]),
    ("unknown-key", "---\nowner: me\n" + OK, [(2, "unknown-key")]),
    ("unknown key of a record", "---\n---\n_path: /a\ncontent-type: x/y\nowner: me\n", []),
    ("null cnames", "---\ncnames:\n" + OK, [(1, "not-canonical")]),
    ("bare NEL", "---\n---\n_path: /a\nx: a\x85b\n" + OK, [(2, "yaml")]),
]


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_findings(text: str | bytes, expected: list[tuple[int, str]], tmp_path: Path) -> None:
    database = Database(str(write(tmp_path / "db", {"a.example": text})))
    assert [(finding.line, finding.code) for finding in database.lint()] == expected


def test_between_files(tmp_path: Path) -> None:
    one = "---\ncnames:\n- shared.example\n" + OK
    two = "---\ncnames:\n- a.example\n- shared.example\n" + OK
    database = Database(str(write(tmp_path / "db", {"a.example": one, "b.example": two, "Bad Name": OK})))
    found = [str(finding) for finding in database.lint()]
    assert found == [
        "Bad Name.yaml:1: error: bad-domain-name: no name of a domain",
        "b.example.yaml:2: error: cname-shadows-domain: a.example has a file of its own",
        "b.example.yaml:2: error: cname-conflict: shared.example is an alias of a.example already",
    ]
    assert database.aliases() == {"shared.example": "a.example"}


def test_every_code_is_tried() -> None:
    words = (
        "alias bad-digest bad-domain-name bad-length bad-path cname-self depth duplicate-key duplicate-path fragment "
        "missing-metadata not-a-bool not-a-list not-a-mapping not-a-string not-utf8 tag too-big yaml"
    )
    errors = set(words.split())
    tried = {code for _, _, expected in CASES for _, code in expected}
    assert tried == errors | WARNINGS | INFOS


def test_verify_is_the_lint(tmp_path: Path) -> None:
    path = write(tmp_path / "db", {**DATABASE, "bad.example": "---\n---\n_path: [\n---\n_path: /a\n"})
    assert FORMAT.verify is not None
    found = list(FORMAT.verify(str(path), Opening(), VerifyRequest()))
    assert [(f.code, f.where) for f in found if f.level is Level.ERROR] == [("yaml", "bad.example.yaml:2")]
    assert {f.code for f in found if f.level is Level.NOTICE} == {"no-content-type"}


def test_the_given_bad_files_have_the_given_codes(tmp_path: Path) -> None:
    module = shared_module("samples", "make_urldb.py")
    module.bad(str(tmp_path))
    cases = json.loads((tmp_path / "bad" / "cases.json").read_text())
    assert len(cases) > 40
    for name, code in cases.items():
        database = Database(str(tmp_path / "bad" / name))
        assert code in [finding.code for finding in database.lint()], name
        if (tmp_path / "bad" / name / f"{name}.example.yaml").exists() and name not in ("empty-file",):
            paths = database.domain(f"{name}.example").by_path
            assert "/fine" in paths or name in ("no-metadata", "trailing-separator", "not-utf8"), name


WORDS = ["a", "b", "on", "z-1", "null", "true", "no"]
RECORD_LINES = st.tuples(
    st.sampled_from(["/a", "/b?x=1:2", "/a#b", "/c:", "/é"]),
    st.lists(st.sampled_from(WORDS), max_size=3),
    st.sampled_from(["", "content-length: 0\n", "content-length: 010\n", "content-length: 12\n"]),
    st.sampled_from(["", "0" * 64, HEX, HEX.upper(), "0b" + "1" * 62, "1e" + "5" * 62]),
    st.sampled_from(["", "content-type: text/html\n", "content-type: a/\n", "content-type: X/y\n"]),
)


@given(st.lists(RECORD_LINES, max_size=5), st.sampled_from(["\n", "\r\n"]))
@settings(max_examples=150, deadline=None)
def test_the_quick_way_finds_what_the_exact_way_finds(records: list[tuple[Any, ...]], eol: str) -> None:
    text = "---\n"
    for path, words, length, digest, kind in records:
        labels = "categories:\n" + "".join(f"- {word}\n" for word in words) if words else ""
        text += f"---\n_path: {path}\n{labels}{length}{f'content-sha256: {digest}' + chr(10) if digest else ''}{kind}"
    file = DomainFile("a.example", text.replace("\n", eol).encode())
    with pytest.MonkeyPatch.context() as patch:
        quick = lint_file(file)
        patch.setattr("archivefs.formats.urldb.lint._Linter._is_clean", lambda _self, _number: False)
        assert quick == lint_file(file)
