"""cp: what is copied is what is in the archive, and nothing is ever written elsewhere."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from archivefs.cli.copying import Copier, leads_out
from archivefs.errors import ArchiveError, OutOfSpace
from archivefs.memory import MemoryTree
from archivefs.readers import BytesReader
from archivefs.tree import Directory
from tests.cli.conftest import CONTENT, Run
from tests.fakes import MTIME_NS, fake, register, write_fake


def as_dict(path: Path) -> object:
    """A folder in MemoryTree's notation."""
    if path.is_symlink():
        return os.readlink(path)
    if path.is_dir():
        return {name: as_dict(path / name) for name in sorted(os.listdir(path))}
    return path.read_bytes()


def takes_xattrs(folder: Path) -> bool:
    try:
        os.setxattr(folder, "user.test", b"")
    except OSError:
        return False
    return True


def test_a_file(run: Run, archive: Path, tmp_path: Path) -> None:
    assert run("cp", f"{archive}:/index.html", tmp_path / "copy") == (0, b"", "")
    copy = tmp_path / "copy"
    assert copy.read_bytes() == b"<h1>hi</h1>"
    assert copy.stat().st_mtime_ns == MTIME_NS
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o666 & ~mask
    if takes_xattrs(tmp_path):
        assert os.getxattr(copy, "user.fake") == b"yes"


def test_into_a_folder_it_keeps_its_name(run: Run, archive: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert run("cp", f"{archive}:/index.html", f"{archive}:/link", tmp_path / "out").code == 0
    assert as_dict(tmp_path / "out") == {"index.html": b"<h1>hi</h1>", "link": b"<p>a"}


def test_a_whole_archive(run: Run, archive: Path, tmp_path: Path) -> None:
    assert run("cp", "-r", archive, tmp_path / "out") == (0, b"", "")
    assert as_dict(tmp_path / "out") == CONTENT
    for folder, _, files in os.walk(tmp_path / "out"):
        assert os.stat(folder).st_mtime_ns == MTIME_NS
        for name in files:
            assert os.lstat(f"{folder}/{name}").st_mtime_ns == MTIME_NS


def test_a_whole_archive_into_a_folder(run: Run, archive: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert run("cp", "-r", archive, tmp_path / "out").code == 0
    assert as_dict(tmp_path / "out") == {"site.fake": CONTENT}


def test_relative_to_where_we_are(run: Run, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("cp", "-r", "site.fake:/docs", "out").code == 0
    assert as_dict(tmp_path / "out") == CONTENT["docs"]


# -- refusing --


def test_a_directory_needs_r(run: Run, archive: Path, tmp_path: Path) -> None:
    outcome = run("cp", f"{archive}:/docs", tmp_path / "out")
    assert outcome == (1, b"", f"archivefs: {archive}: docs: a directory; copy it with -r\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("what", ["index.html", "link"])
def test_what_is_there_is_not_overwritten(run: Run, archive: Path, tmp_path: Path, what: str) -> None:
    (tmp_path / "mine").write_text("mine")
    outcome = run("cp", f"{archive}:/{what}", tmp_path / "mine")
    assert outcome.code == 1
    assert outcome.err == f"archivefs: {archive}: {what}: there is something of that name already; see --force\n"
    assert (tmp_path / "mine").read_text() == "mine"
    assert run("cp", "--force", f"{archive}:/{what}", tmp_path / "mine").code == 0
    assert (tmp_path / "mine").read_bytes() in (b"<h1>hi</h1>", b"<p>a")


def test_again_with_force_and_without(run: Run, archive: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for force, code, lines in (([], 0, 0), ([], 1, 6), (["-f"], 0, 0)):
        outcome = run("cp", "-r", *force, archive, tmp_path / "out")
        assert (outcome.code, len(outcome.err.splitlines())) == (code, lines)
        assert as_dict(tmp_path / "out") == {"site.fake": CONTENT}


@pytest.mark.parametrize("where", ["gone/x", "gone/", "site.fake/x"])
def test_a_destination_that_cannot_be(run: Run, archive: Path, tmp_path: Path, where: str) -> None:
    outcome = run("cp", f"{archive}:/index.html", f"{tmp_path}/{where}")
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert os.listdir(tmp_path) == ["site.fake"]


def test_several_files_need_a_folder(run: Run, archive: Path, tmp_path: Path) -> None:
    outcome = run("cp", f"{archive}:/index.html", f"{archive}:/link", tmp_path / "gone")
    assert outcome == (2, b"", f"archivefs: {tmp_path}/gone: no folder, so it cannot take several files\n")


# -- damage --


def test_it_goes_on_past_what_is_damaged(run: Run, tmp_path: Path) -> None:
    damaged = {"!lost": b"", "a": {"bad": b"!damaged" * 100, "good": b"1"}, "z": b"2"}
    archive = write_fake(tmp_path / "x.fake", damaged)
    outcome = run("cp", "-r", archive, tmp_path / "out")
    assert outcome.code == 1
    assert outcome.err.splitlines() == [
        f"archivefs: {archive}: !lost: its record is damaged",
        f"archivefs: {archive}: a/bad: its checksum is wrong",
    ]
    assert as_dict(tmp_path / "out") == {"a": {"good": b"1"}, "z": b"2"}


def test_a_damaged_file_leaves_what_it_would_replace(run: Run, tmp_path: Path) -> None:
    archive = write_fake(tmp_path / "x.fake", {"bad": b"!damaged" * 100})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "bad").write_text("old")
    assert run("cp", "-f", f"{archive}:/bad", tmp_path / "out").code == 1
    assert as_dict(tmp_path / "out") == {"bad": b"old"}


def test_one_that_is_missing_does_not_keep_the_others(run: Run, archive: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    outcome = run("cp", f"{archive}:/gone", f"{archive}:/index.html", tmp_path / "out")
    assert (outcome.code, outcome.err) == (1, f"archivefs: {archive}: gone: no such file or directory\n")
    assert os.listdir(tmp_path / "out") == ["index.html"]


def test_a_name_too_long_for_the_disk(run: Run, tmp_path: Path) -> None:
    archive = write_fake(tmp_path / "x.fake", {"n" * 300: b"", "ok": b""})
    outcome = run("cp", "-r", archive, tmp_path / "out")
    assert outcome.code == 1
    assert outcome.err.endswith(": cannot be written: File name too long\n")
    assert os.listdir(tmp_path / "out") == ["ok"]


def test_a_short_file_is_damage(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Short(BytesReader):
        def read_at(self, offset: int, size: int) -> bytes:
            return b"12"[offset : offset + size]

    tree = MemoryTree({"x": b"1234"})
    tree.lookup(["x"]).open = lambda: Short(b"1234")  # type: ignore[attr-defined]
    register(monkeypatch, [fake(open=lambda path, opening: tree)])
    archive = write_fake(tmp_path / "x.fake", {})
    outcome = run("cp", f"{archive}:/x", tmp_path / "out")
    assert outcome == (1, b"", f"archivefs: {archive}: x: it ends after 2 of 4 bytes\n")
    assert not (tmp_path / "out").exists()


# -- never elsewhere --


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious").write_text("precious")
    return folder


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_no_link_in_the_destination_is_followed(run: Run, tmp_path: Path, outside: Path, force: list[str]) -> None:
    archive = write_fake(tmp_path / "x.fake", {"d": {"precious": b"evil"}, "f": b"evil"})
    out = tmp_path / "out" / "x.fake"
    out.mkdir(parents=True)
    (out / "d").symlink_to(outside)
    (out / "f").symlink_to(outside / "precious")
    outcome = run("cp", "-r", *force, archive, tmp_path / "out")
    assert outcome.code == 1
    assert f"archivefs: {archive}: d: a file or link is where the directory should be\n" in outcome.err
    assert as_dict(outside) == {"precious": b"precious"}
    if force:
        assert not (out / "f").is_symlink()
        assert (out / "f").read_bytes() == b"evil"


@pytest.mark.parametrize("name", ["../evil", "..", ".", "", "a/b", "a\0b", "/evil"])
def test_a_format_with_a_bug_cannot_write_elsewhere(tmp_path: Path, name: str) -> None:
    problems: list[str] = []
    copier = Copier(force=False, report=lambda parts, error: problems.append(str(error)), progress=lambda *_: None)
    (tmp_path / "in").mkdir()
    fd = os.open(tmp_path / "in", os.O_RDONLY)
    copier.copy(MemoryTree({name: b"evil"}).root(), (), fd=fd, name="out")
    os.close(fd)
    assert len(problems) == 1
    assert "is no name for a file" in problems[0]
    assert as_dict(tmp_path) == {"in": {"out": {}}}


def test_links_that_would_lead_out_are_left_out(run: Run, tmp_path: Path) -> None:
    content = {
        "d": {"up": "../secret", "in": "e/x", "e": {"x": b"x", "two": "../../secret", "one": "../in"}},
        "secret": b"",
    }
    archive = write_fake(tmp_path / "x.fake", content)
    outcome = run("cp", "-r", f"{archive}:/d", tmp_path / "out")
    assert outcome.code == 1
    assert outcome.err.splitlines() == [
        f"archivefs: {archive}: d/e/two: the link leads out of what is copied, to ../../secret",
        f"archivefs: {archive}: d/up: the link leads out of what is copied, to ../secret",
    ]
    assert as_dict(tmp_path / "out") == {"e": {"x": b"x", "one": "../in"}, "in": "e/x"}
    assert run("cp", "-r", archive, tmp_path / "whole").code == 0


@pytest.mark.parametrize(
    ("target", "depth", "out"),
    [
        ("x", 0, False),
        ("../x", 0, True),
        ("../x", 1, False),
        ("a/../../x", 0, True),
        ("a/../x", 0, False),
        ("/x", 9, True),
        ("./.././x", 0, True),
    ],
)
def test_where_links_lead(target: str, depth: int, out: bool) -> None:
    assert leads_out(target, depth=depth) is out


def test_no_descriptor_is_left_open(run: Run, archive: Path, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    run("cp", "-r", archive, tmp_path / "out")
    run("cp", "-r", archive, tmp_path / "out")
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_error_in_the_midst_of_a_listing_is_reported(tmp_path: Path) -> None:
    tree = MemoryTree({"a": b"1", "b": b"2"})
    root = tree.root()
    assert isinstance(root, Directory)
    true = root.entries

    def half(after: str | None = None) -> object:
        yield next(true())
        raise OutOfSpace("no more")

    root.entries = half  # type: ignore[method-assign, assignment]
    problems: list[tuple[object, ArchiveError | OSError]] = []
    copier = Copier(force=False, report=lambda parts, error: problems.append((parts, error)), progress=lambda *_: None)
    fd = os.open(tmp_path, os.O_RDONLY)
    copier.copy(root, ("top",), fd=fd, name="out")
    os.close(fd)
    assert as_dict(tmp_path) == {"out": {"a": b"1"}}
    assert [(parts, str(error)) for parts, error in problems] == [(("top",), "no more")]
