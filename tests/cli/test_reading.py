"""info, ls, tree, cat and find on an archive that is not mounted."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from archivefs.cli.paths import Place, parse_place
from archivefs.cli.shown import fact_lines, local_time, utc_time
from archivefs.format import Match
from archivefs.memory import MemoryTree
from archivefs.tree import Directory, Entry, Kind
from tests.cli.conftest import Run
from tests.fakes import OPENED, fake, register, write_fake

TIME = "2020-09-13T12:26:40.123456789Z"
ODD = "a\x1b[31m\nb\u202e"
QUOTED = "a\\x1b[31m\\nb\\u202e"


# -- SRC:/path --


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.zip").touch()
    (tmp_path / "a:").mkdir()
    (tmp_path / "a:" / "b.zip").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "source", "parts"),
    [
        ("a.zip", "a.zip", ()),
        ("a.zip:/", "a.zip", ()),
        ("a.zip:/x//y/./z/", "a.zip", ("x", "y", "z")),
        ("a:/b.zip", "a:/b.zip", ()),
        ("a:/b.zip:/x", "a:/b.zip", ("x",)),
        ("a:/b.zip:/x:/y", "a:/b.zip", ("x:", "y")),
        ("gone.zip:/x:/y", "gone.zip", ("x:", "y")),
        ("gone.zip", "gone.zip", ()),
        (":/x", "", ("x",)),
    ],
)
def test_the_source_is_the_longest_prefix_that_exists(here: Path, text: str, source: str, parts: tuple[str]) -> None:
    assert parse_place(text) == Place(source, parts)


# -- info --


def test_info(run: Run, archive: Path) -> None:
    outcome = run("info", archive)
    size = f"{os.path.getsize(archive):,}"
    assert outcome.lines == [
        f"source  {archive}",
        "format  fake",
        f"size    {size}",
        "sites   yes",
        "colour  grey",
        "states",
        "  stored  3",
    ]
    assert [tree.closed for tree in OPENED] == [1]


def test_info_as_json(run: Run, archive: Path) -> None:
    assert run("info", "--json", "-o", "colour=red", archive).json == {
        "source": str(archive),
        "format": "fake",
        "size": os.path.getsize(archive),
        "sites": True,
        "facts": {"colour": "red", "states": {"stored": 3}},
    }


def test_info_of_a_path(run: Run, archive: Path) -> None:
    assert run("info", "--json", f"{archive}:/docs/a.html").json == {
        "path": "docs/a.html",
        "name": "a.html",
        "kind": "file",
        "size": 4,
        "mtime": TIME,
        "xattrs": {"user.fake": "yes"},
    }
    assert "user.fake  yes" in run("info", f"{archive}:/docs/a.html").lines
    assert run("info", "--json", f"{archive}:/link").json["target"] == "docs/a.html"


def test_info_of_a_folder_of_archives(run: Run, archive: Path) -> None:
    outcome = run("info", archive.parent)
    assert outcome.lines[1] == "format    folder"
    assert "archives  1" in outcome.lines


# -- ls --


def test_ls(run: Run, archive: Path) -> None:
    assert run("ls", archive)[:2] == (0, b"docs\nindex.html\nlink\nolder.html\nround\n")
    assert run("ls", f"{archive}:/docs")[:2] == (0, b"a.html\ndeep\n")
    assert run("ls", f"{archive}:/docs/a.html")[:2] == (0, b"a.html\n")


def test_ls_in_full(run: Run, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    outcome = run("ls", "-l", archive)
    monkeypatch.undo()
    time.tzset()
    assert outcome.lines[:3] == [
        "d               0 2020-09-13 14:26:40 docs",
        "-              11 2020-09-13 14:26:40 index.html",
        "l              11 2020-09-13 14:26:40 link -> docs/a.html",
    ]


def test_ls_as_json(run: Run, archive: Path) -> None:
    outcome = run("ls", "--json", archive)
    assert outcome.json[:3] == [
        {"name": "docs", "kind": "directory", "mtime": TIME},
        {"name": "index.html", "kind": "file", "size": 11, "mtime": TIME},
        {"name": "link", "kind": "symlink", "size": 11, "mtime": TIME, "target": "docs/a.html"},
    ]
    assert len(outcome.lines) == len(outcome.json)


def test_ls_of_an_empty_archive(run: Run, tmp_path: Path) -> None:
    empty = write_fake(tmp_path / "empty", {})
    assert run("ls", empty)[:2] == (0, b"")
    assert run("ls", "--json", empty).json == []


def test_names_are_quoted(run: Run, tmp_path: Path) -> None:
    odd = write_fake(tmp_path / "odd", {ODD: b"", "link": ODD, "ä ß": b""})
    assert run("ls", odd).lines == [QUOTED, "link", "ä ß"]
    assert run("ls", "-l", odd).lines[1].endswith(f" link -> {QUOTED}")
    outcome = run("ls", "--json", odd)
    assert outcome.out.isascii()
    assert outcome.json[0]["name"] == ODD
    assert f"├── {QUOTED}" in run("tree", odd).lines


def test_ls_follows_links(run: Run, tmp_path: Path) -> None:
    content = {"d": {"e": {"x": b""}, "up": "../l"}, "l": "d/e", "out": "/etc", "high": "../../../d"}
    archive = write_fake(tmp_path / "links", content)
    assert run("ls", f"{archive}:/l").lines == ["x"]
    assert run("ls", f"{archive}:/d/up").lines == ["x"]
    assert run("ls", "-l", f"{archive}:/d/up").lines[0].endswith("up -> ../l")
    assert run("ls", f"{archive}:/d/up/../up/x").lines == ["x"]
    assert run("ls", f"{archive}:/out").err == (
        f"archivefs: {archive}: out: the symbolic link leads out of the archive\n"
    )


def test_a_loop_of_links_ends(run: Run, archive: Path) -> None:
    outcome = run("ls", f"{archive}:/round")
    assert (outcome.code, outcome.err) == (1, f"archivefs: {archive}: round: too many symbolic links\n")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("gone", "gone: no such file or directory"),
        ("docs/gone/x", "docs/gone/x: no such file or directory"),
        ("index.html/x", "index.html/x: not a directory"),
        ("a\udcffb", "a\\xffb: no such file or directory"),
    ],
)
def test_a_path_that_is_not_there(run: Run, archive: Path, path: str, message: str) -> None:
    for command in ("ls", "tree", "cat", "info"):
        outcome = run(command, f"{archive}:/{path}")
        assert (outcome.code, outcome.out, outcome.err) == (1, b"", f"archivefs: {archive}: {message}\n")


def test_ls_goes_on_past_what_is_damaged(run: Run, tmp_path: Path) -> None:
    archive = write_fake(tmp_path / "a", {"!lost": b"", "good": b"x"})
    outcome = run("ls", "-l", archive)
    assert outcome.code == 1
    assert [line.split()[-1] for line in outcome.lines] == ["good"]
    assert outcome.err == f"archivefs: {archive}: !lost: its record is damaged\n"
    assert [item["name"] for item in run("ls", "--json", archive).json] == ["good"]
    assert run("ls", archive)[:2] == (0, b"!lost\ngood\n"), "for names alone nothing is looked up"


def test_a_folder_of_archives_with_a_damaged_one(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.fake").write_bytes(b"FAKE {{{")
    write_fake(tmp_path / "good.fake", {"x": b""})
    (tmp_path / "notes.txt").write_text("no archive")
    assert run("ls", tmp_path).lines == ["bad.fake", "good.fake"]
    outcome = run("ls", f"{tmp_path}:/bad.fake")
    assert (outcome.code, outcome.err) == (1, f"archivefs: {tmp_path}/bad.fake: nobody could read this\n")
    outcome = run("tree", tmp_path)
    assert outcome.code == 1
    assert outcome.lines[1:] == ["├── bad.fake", "└── good.fake", "    └── x", "", "2 directories, 1 files"]


def test_an_archive_two_formats_claim_is_listed_in_a_folder(
    run: Run, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch, [fake("one"), fake("two")])
    assert run("ls", archive.parent).lines == ["site.fake"]
    outcome = run("ls", f"{archive.parent}:/site.fake")
    assert "it could be any of one, two" in outcome.err
    assert run("ls", "--format", "two", archive).code == 0


def test_a_folder_that_a_format_claims_is_that_archive(
    run: Run, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def match(probe: object) -> Match:
        return Match.YES if "site.fake" in probe.names else Match.NO  # type: ignore[attr-defined]

    def open_inside(path: str, opening: object) -> object:
        return fake().open(f"{path}/site.fake", opening)  # type: ignore[arg-type]

    register(monkeypatch, [fake(match=match, open=open_inside)])
    assert run("ls", archive.parent).lines[0] == "docs"


# -- options --


def test_options_reach_the_format(run: Run, archive: Path) -> None:
    (archive.parent / "more").mkdir()
    outcome = run("ls", "--external", archive.parent / "more", "-o", "colour=red,loud", "-o", "cache_size=1M", archive)
    assert outcome.code == 0
    opening = OPENED[0].opening
    assert opening.options == {"colour": "red", "depth": None, "loud": True}
    assert opening.cache.limit == 1 << 20
    assert opening.externals == [str(archive.parent / "more")]
    assert not opening.read_write


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-o", "color=1"], "unknown option 'color'; did you mean colour?"),
        (["-o", "depth=x"], "option depth='x' makes no sense: a whole number is expected, 0 or more"),
        (
            ["-o", "index=on"],
            "option index='on' makes no sense: auto, off or a folder is expected; write ./on for a folder of that name",
        ),
        (["--format", "fak"], "no format is called 'fak'; did you mean fake?"),
        (["--external", "/gone"], "/gone: no such file or directory"),
        (["--external", "/dev/null"], "/dev/null: neither a file nor a folder"),
    ],
)
def test_a_bad_option_is_told_before_anything_is_opened(run: Run, archive: Path, args: list[str], message: str) -> None:
    outcome = run("ls", *args, archive)
    assert (outcome.code, outcome.err) == (2, f"archivefs: {message}\n")
    assert OPENED == []


@pytest.mark.parametrize("word", ["yes", "No", "none", "true", "FALSE", "1", "0", ""])
def test_a_switch_is_no_folder_for_tables(run: Run, archive: Path, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(archive.parent)
    assert run("ls", "-o", f"index={word}", archive).code == 2
    assert os.listdir() == [archive.name]


def test_a_folder_for_tables_that_cannot_be_made_is_told_of_once(
    run: Run, archive: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(archive.parent)
    for warning in (f"archivefs: index={archive}/x: not a directory, so nothing is kept between mounts\n", ""):
        assert run("ls", "-o", f"index={archive}/x", archive)[::2] == (0, warning)
    assert run("ls", "-o", "index=./on", archive).err == ""


# -- tree --


def test_tree(run: Run, archive: Path) -> None:
    assert run("tree", archive).lines == [
        str(archive),
        "├── docs",
        "│   ├── a.html",
        "│   └── deep",
        "│       └── b.txt",
        "├── index.html",
        "├── link -> docs/a.html",
        "├── older.html",
        "└── round -> round",
        "",
        "2 directories, 4 files, 2 links",
    ]


def test_tree_of_a_directory_to_a_depth(run: Run, archive: Path) -> None:
    assert run("tree", "-L", 1, f"{archive}:/docs").lines == [
        "docs",
        "├── a.html",
        "└── deep",
        "",
        "1 directories, 1 files",
    ]
    assert run("tree", f"{archive}:/index.html").lines == ["index.html", "", "0 directories, 0 files"]


def test_tree_as_json(run: Run, archive: Path) -> None:
    whole = run("tree", "--json", archive).json
    assert whole["name"] == str(archive)
    assert [child["name"] for child in whole["children"]] == ["docs", "index.html", "link", "older.html", "round"]
    assert whole["children"][0]["children"][1]["children"][0]["name"] == "b.txt"
    shallow = run("tree", "--json", "-L", 1, archive).json
    assert "children" not in shallow["children"][0]


class Bottomless(MemoryTree):
    """A directory in a directory in a directory; MemoryTree itself is made by recursion."""

    def __init__(self, depth: int) -> None:
        super().__init__({"d": {}})
        top = self.lookup(["d"])
        assert isinstance(top, Directory)
        left = [depth]

        def entries(after: str | None = None) -> Iterator[Entry]:
            left[0] -= 1
            return iter([Entry("d", Kind.DIRECTORY, node=top)] if left[0] >= 0 else [])

        top.entries = entries  # type: ignore[method-assign]


def test_a_tree_deeper_than_python_goes(run: Run, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    depth = 2 * sys.getrecursionlimit()
    register(monkeypatch, [fake(open=lambda path, opening: Bottomless(depth))])
    outcome = run("tree", archive)
    assert (outcome.code, outcome.lines[-1]) == (0, f"{depth + 1} directories, 0 files")
    assert run("tree", "--json", archive).out.count(b'"children": [') == depth + 2


# -- cat --


def test_cat(run: Run, archive: Path) -> None:
    outcome = run("cat", f"{archive}:/index.html", f"{archive}:/link", f"{archive}:/docs/deep/b.txt")
    assert outcome == (0, b"<h1>hi</h1><p>abbb", "")
    assert len(OPENED) == 1
    assert OPENED[0].closed == 1


def test_cat_of_bytes_of_every_kind(run: Run, tmp_path: Path) -> None:
    data = bytes(range(256)) * 5000
    assert run("cat", f"{write_fake(tmp_path / 'a', {'x': data})}:/x").out == data


def test_cat_goes_on_past_what_is_damaged(run: Run, tmp_path: Path) -> None:
    archive = write_fake(tmp_path / "a", {"bad": b"!damaged but half of it", "good": b"good", "d": {}})
    outcome = run("cat", f"{archive}:/bad", f"{archive}:/d", f"{archive}:/gone", f"{archive}:/good")
    assert outcome.code == 1
    assert outcome.out == b"!damaged bu" + b"good"
    assert outcome.err.splitlines() == [
        f"archivefs: {archive}: bad: its checksum is wrong",
        f"archivefs: {archive}: d: a directory, not a file",
        f"archivefs: {archive}: gone: no such file or directory",
    ]


def test_cat_of_an_archive_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"FAKE {{{")
    outcome = run("cat", f"{tmp_path}/bad:/x")
    assert (outcome.code, outcome.err) == (2, f"archivefs: {tmp_path}/bad: nobody could read this\n")


# -- find --


def test_find(run: Run, archive: Path) -> None:
    assert run("find", archive, "/").lines == [
        "index.html",
        "  key     index.html",
        "  state   stored",
        "  digest  00ff",
        "older.html",
        "  key     older.html",
        "  state   stored",
        "  digest  00ff",
    ]


def test_find_as_json(run: Run, archive: Path) -> None:
    newest = {"path": "index.html", "key": "index.html", "state": "stored", "digest": "00ff"}
    older = {"path": "older.html", "key": "older.html", "state": "stored", "digest": "00ff"}
    assert run("find", "--json", archive, "/").json == {**newest, "older": [older]}


def test_find_what_is_not_there(run: Run, archive: Path) -> None:
    outcome = run("find", archive, "/gone")
    assert outcome == (1, b"", f"archivefs: {archive}: /gone: no such URL in this archive\n")


def test_find_where_there_are_no_urls(run: Run, archive: Path) -> None:
    outcome = run("find", archive.parent, "/")
    assert outcome == (2, b"", f"archivefs: {archive.parent}: the format folder knows no URLs\n")


# -- how things are shown --


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (1_500_000_000, "1970-01-01T00:00:01.5Z"),
        (10**30, None),
        (-(10**30), None),
    ],
)
def test_times(time_ns: int, text: str | None) -> None:
    assert utc_time(time_ns) == text
    assert len(local_time(time_ns)) == 19


def test_facts_in_columns() -> None:
    facts = {"a": 1234, "long name": None, "on": True, "list": [1, "x\n"], "inner": {"b": b"\xff"}, "empty": []}
    assert fact_lines(facts) == [
        "a          1,234",
        "long name  -",
        "on         yes",
        "list       1, x\\n",
        "inner",
        "  b  \\xff",
        "empty      -",
    ]
