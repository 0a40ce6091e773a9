"""What changed: by key and by row, against which baseline, and how it is written."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from archivefs.errors import LimitExceeded, NotFound
from archivefs.format import Opening
from archivefs.formats.crawls import diffing, unified
from archivefs.formats.crawls.diffing import Difference, compare, load
from archivefs.formats.crawls.maps import MapRows
from archivefs.formats.crawls.tree import CrawlsTree
from tests.samples import crawls
from tests.samples.crawls import FAILED, FILES_MAP, FIRST, LISTS_MAP, SECOND, SHAREPOINT_MAP
from tests.walking import content_of


def table(text: str) -> diffing.Table:
    return load(MapRows([text.encode()]))


def changes(difference: Difference) -> list[tuple[str, ...]]:
    return list(difference.lines())


def test_by_key() -> None:
    old = table("openai_file_id,file_size,note\nb,1,x\na,1,y\nc,1,z\n")
    new = table("openai_file_id,note,file_size,extra\nb,x,2,e\nd,n,1,e\nc,Z,3,e\n")
    difference = compare(old, new)
    assert changes(difference) == [
        ("removed", "a", "", "", ""),
        ("added", "d", "", "", ""),
        ("changed", "b", "file_size", "1", "2"),
        ("changed", "c", "note", "z", "Z"),
        ("changed", "c", "file_size", "1", "3"),
    ]
    assert difference.summary("base") == {
        "baseline": "base",
        "key": "openai_file_id",
        "added": 1,
        "removed": 1,
        "changed": 2,
        "changed_content": 2,
        "unchanged": 0,
        "columns_added": ["extra"],
        "columns_removed": [],
    }


def test_churn_is_not_content() -> None:
    difference = compare(table("openai_file_id,downloaded_utc\na,1\n"), table("openai_file_id,downloaded_utc\na,2\n"))
    assert (len(difference.changed), difference.changed_content) == (1, 0)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        (
            "sharepoint_unique_file_id,openai_file_id\na,1\n",
            "openai_file_id,sharepoint_unique_file_id\n1,a\n",
            "sharepoint_unique_file_id",
        ),
        (
            "sharepoint_unique_file_id,openai_file_id\na,1\na,2\n",
            "sharepoint_unique_file_id,openai_file_id\n",
            "openai_file_id",
        ),
        ("openai_file_id,file_relative_path\n,x\n", "openai_file_id,file_relative_path\n1,x\n", "file_relative_path"),
        ("server_relative_url\nx\n", "server_relative_url\n", "server_relative_url"),
        ("sharepoint_listitem_id\n1\n", "sharepoint_listitem_id\n2\n", "sharepoint_listitem_id"),
        ("filename\nx\n", "filename\nx\n", None),
        ("openai_file_id\n1\n", "filename\n1\n", None),
    ],
)
def test_which_key(old: str, new: str, key: str | None) -> None:
    assert compare(table(old), table(new)).key == key


def test_without_a_key_rows_come_and_go() -> None:
    difference = compare(table('a,b\n1,2\n1,2\n"x,y",\n'), table("a,b\n1,2\n3,\n"))
    assert changes(difference) == [
        ("removed", '"x,y",', "", "", ""),
        ("removed", "1,2", "", "", ""),
        ("added", "3,", "", "", ""),
    ]
    assert (difference.key, difference.unchanged) == (None, 1)


def test_a_missing_side_is_empty() -> None:
    new = table("openai_file_id,x\na,1\n")
    assert changes(compare(None, new)) == [("added", "a", "", "", "")]
    assert changes(compare(new, None)) == [("removed", "a", "", "", "")]
    assert compare(None, new).columns_added == []
    assert changes(compare(None, None)) == []


def test_keys_are_in_the_order_of_code_points() -> None:
    new = table("openai_file_id\nb\nä\nB\n\U0001f409\n\ufffe\n")
    assert compare(None, new).added == ["B", "b", "ä", "\ufffe", "\U0001f409"]


def test_the_csv_is_plain_and_may_be_safe() -> None:
    new = table('openai_file_id\n"=1+1"\n')
    text: list[str] = []
    diffing.write_csv(compare(None, new), text.append, safe=False)
    diffing.write_csv(compare(None, new), text.append, safe=True)
    assert "".join(text) == (
        "change,key,column,old,new\r\nadded,=1+1,,,\r\nchange,key,column,old,new\r\nadded,'=1+1,,,\r\n"
    )
    assert [diffing.safe_cell(cell) for cell in ("+", "-1", "@x", "\tx", "\rx", "x=", "", 5)] == [
        "'+",
        "'-1",
        "'@x",
        "'\tx",
        "'\rx",
        "x=",
        "",
        5,
    ]


def test_too_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diffing, "MAX_ROWS", 2)
    with pytest.raises(LimitExceeded):
        table("a\n1\n2\n3\n")


# -- baselines --


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[CrawlsTree]:
    crawls.write_storage(tmp_path)
    with closing(CrawlsTree(str(tmp_path), Opening())) as tree:
        yield tree


def summary(tree: CrawlsTree, name: str, domain: str = "WIKI") -> dict[str, dict[str, object]]:
    found = json.loads(content_of(tree.lookup(["diffs", domain, name, "summary.json"])))
    assert name.endswith(found["crawl_id"])
    return found["members"]


def baselines(tree: CrawlsTree, name: str) -> dict[str, object]:
    return {member: counts["baseline"] for member, counts in summary(tree, name).items()}


def test_the_previous_holder_is_the_baseline(tree: CrawlsTree) -> None:
    assert baselines(tree, SECOND) == {FILES_MAP: FIRST, SHAREPOINT_MAP: FIRST, LISTS_MAP: FIRST}
    assert baselines(tree, FIRST) == {FILES_MAP: None, SHAREPOINT_MAP: None, LISTS_MAP: None}
    # another scope: nothing counts as removed
    assert baselines(tree, FAILED) == {FILES_MAP: SECOND}
    assert summary(tree, SECOND)[FILES_MAP] == {
        "baseline": FIRST,
        "key": "sharepoint_unique_file_id",
        "added": 1,
        "removed": 1,
        "changed": 2,
        "changed_content": 1,
        "unchanged": 1,
        "columns_added": [],
        "columns_removed": [],
    }


def test_what_is_gone_is_removed(tmp_path: Path) -> None:
    names = [f"2025-03-0{day}_06-00-00_[WIKI]_crawl_all_full" for day in range(1, 6)]
    one = {FILES_MAP: b"openai_file_id\r\na\r\nb\r\n", LISTS_MAP: b"openai_file_id\r\nc\r\n"}
    crawls.write(tmp_path, names[0], one)
    crawls.write(tmp_path, names[1], {FILES_MAP: one[FILES_MAP]}, source_id="handbook")  # covers something else
    (tmp_path / f"{names[2]}.zip").write_bytes(b"unreadable")
    crawls.write(tmp_path, names[3], {FILES_MAP: one[FILES_MAP]})
    crawls.write(tmp_path, names[4], {FILES_MAP: one[FILES_MAP]})
    with closing(CrawlsTree(str(tmp_path), Opening())) as tree:
        assert baselines(tree, names[3]) == {FILES_MAP: names[1], LISTS_MAP: names[0]}
        assert summary(tree, names[3])[LISTS_MAP]["removed"] == 1
        assert baselines(tree, names[1]) == {FILES_MAP: names[0]}
        # told once: the next crawl has nothing to say of it
        assert baselines(tree, names[4]) == {FILES_MAP: names[3]}


def test_a_damaged_map_file_is_passed_over(tmp_path: Path) -> None:
    names = [f"2025-03-0{day}_06-00-00_[WIKI]_crawl_all_full" for day in range(1, 5)]
    for name in names:
        crawls.write(tmp_path, name, {FILES_MAP: b"openai_file_id\r\na\r\n"})
    for name in (names[1], names[3]):
        stored = crawls.zipped(
            {"crawl.json": json.dumps(crawls.metadata(name)).encode(), FILES_MAP: b"openai_file_id\r\nZZZZ\r\n"},
            method=0,
        )
        (tmp_path / f"{name}.zip").write_bytes(stored.replace(b"ZZZZ", b"YYYY"))
    with closing(CrawlsTree(str(tmp_path), Opening())) as tree:
        assert baselines(tree, names[2]) == {FILES_MAP: names[0]}
        assert baselines(tree, names[3]) == {}


def test_any_pair_by_name(tree: CrawlsTree) -> None:
    members = summary(tree, f"{SECOND}..{FAILED}")
    assert {member: (found["baseline"], found["removed"]) for member, found in members.items()} == {
        FILES_MAP: (SECOND, 3),
        SHAREPOINT_MAP: (SECOND, 4),
        LISTS_MAP: (SECOND, 1),
    }
    backwards = summary(tree, f"{SECOND}..{FIRST}")[FILES_MAP]
    assert (backwards["added"], backwards["removed"]) == (1, 1)
    assert summary(tree, f"{FIRST}..{FIRST}")[FILES_MAP]["unchanged"] == 4
    for wrong in (f"{FIRST}..", f"..{FIRST}", f"{FIRST}..x", f"{FIRST}...{SECOND}", FIRST + SECOND):
        with pytest.raises(NotFound):
            tree.lookup(["diffs", "WIKI", wrong])
    with pytest.raises(NotFound):
        tree.lookup(["diffs", "SHOP_eu-1", FIRST])


def test_a_domain_with_dots_can_be_paired(tmp_path: Path) -> None:
    one, two = (f"2025-03-0{day}_06-00-00_[a..b]_crawl_all_full" for day in (1, 2))
    for name in (one, two):
        crawls.write(tmp_path, name, {FILES_MAP: b"openai_file_id\r\na\r\n"})
    with closing(CrawlsTree(str(tmp_path), Opening())) as tree:
        assert summary(tree, f"{one}..{two}", "a..b")[FILES_MAP]["unchanged"] == 1


def test_the_files_of_a_difference(tree: CrawlsTree, tmp_path: Path) -> None:
    text = content_of(tree.lookup(["diffs", "WIKI", SECOND, *f"{FILES_MAP}.diff.csv".split("/")])).decode()
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows == [
        ["change", "key", "column", "old", "new"],
        ["removed", "id-0003", "", "", ""],
        ["added", "id-0005", "", "", ""],
        ["changed", "id-0001", "file_size", "1001", "2048"],
        ["changed", "id-0001", "last_modified_utc", "2025-02-20T10:00:00.000000Z", "2025-03-01T20:00:00.000000Z"],
        ["changed", "id-0002", "downloaded_utc", "2025-03-01T06:00:00.000000Z", "2025-03-02T06:00:00.000000Z"],
    ]
    patch = content_of(tree.lookup(["diffs", "WIKI", SECOND, *f"{FILES_MAP}.diff".split("/")]))
    assert patch.startswith(f"--- {FIRST}\n+++ {SECOND}\n@@ ".encode())
    old = content_of(tree.lookup(["crawls", FIRST, *FILES_MAP.split("/")]))
    new = content_of(tree.lookup(["crawls", SECOND, *FILES_MAP.split("/")]))
    assert patched(tmp_path, old, patch) == new


def test_the_difference_of_a_first_crawl(tree: CrawlsTree, tmp_path: Path) -> None:
    patch = content_of(tree.lookup(["diffs", "WIKI", FIRST, *f"{FILES_MAP}.diff".split("/")]))
    data = content_of(tree.lookup(["crawls", FIRST, *FILES_MAP.split("/")]))
    assert patch.startswith(f"--- /dev/null\n+++ {FIRST}\n".encode())
    assert patch.count(b"\n-") == 0
    assert data.splitlines()[1] in patch


# -- unified diffs --


def patched(folder: Path, old: bytes, patch: bytes) -> bytes:
    """What patch(1) makes of it."""
    program = shutil.which("patch")
    if program is None:
        pytest.skip("patch is not here")
    (folder / "text").write_bytes(old)
    (folder / "text.diff").write_bytes(patch)
    subprocess.run(
        [program, "--binary", "-s", "-u", str(folder / "text"), str(folder / "text.diff")], check=True, timeout=60
    )
    return (folder / "text").read_bytes()


def diff_of(old: str, new: str) -> bytes:
    lines = unified.unified_diff(unified.split_lines(old), unified.split_lines(new), from_label="a", to_label="b")
    return "".join(lines).encode()


@pytest.mark.parametrize("count", [10, 5000])
def test_large_texts_are_patched_right(tmp_path: Path, count: int) -> None:
    old = [f"line {number}\r\n" for number in range(count)] + ["same\n"] * 5
    new = [line for number, line in enumerate(old) if number % 97 != 3]
    new[count // 2 : count // 2] = ["new\n", "same\n", "new\n"]
    new[5] = "moved\n"
    new = [*new[:-1], "no end"]
    assert patched(tmp_path, "".join(old).encode(), diff_of("".join(old), "".join(new))) == "".join(new).encode()
    assert diff_of("".join(old), "".join(old)) == b""


def test_only_newlines_end_a_line() -> None:
    assert unified.split_lines("a\rb\x0bc\u2028d\ne") == ["a\rb\x0bc\u2028d\n", "e"]
    assert unified.split_lines("") == []
