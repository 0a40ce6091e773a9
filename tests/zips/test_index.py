"""The index: what is kept between mounts is used, and only where it can be believed."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archivefs.format import Opening
from archivefs.formats.zip.tree import ZipTree
from archivefs.zips import directory as directory_module
from archivefs.zips import index as index_module
from archivefs.zips.index import MIN_ENTRIES, ArchiveIndex, IndexFolder, default_path
from archivefs.zips.source import SourceFile
from tests.samples.zips import CONTENT, write_many, write_tree
from tests.walking import as_dict
from tests.zips.forge import Forge

SECTIONS = {"numbers": array("I", range(3000)), "text": b"abc", "nothing": array("Q")}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    return write_tree(tmp_path / "site" / "archive.zip")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def kept(archive: Path, folder: Path) -> Iterator[ArchiveIndex]:
    source = SourceFile(str(archive))
    found = IndexFolder(str(folder)).of(source)
    assert found is not None
    yield found
    source.release()


def shown(archive: Path, index: object) -> dict[str, object]:
    tree = ZipTree(str(archive), Opening(options={"encoding": "utf-8"}, index=str(index)))
    try:
        return as_dict(tree.root())
    finally:
        tree.close()


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


@pytest.fixture
def unparsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """From now on a parsed zip is noted here."""
    parsed: list[str] = []
    parse = directory_module.ZipDirectory._parse

    def noted(self: directory_module.ZipDirectory, *rest: object) -> None:
        parsed.append(self.path)
        parse(self, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(directory_module.ZipDirectory, "_parse", noted)
    return parsed


# -- one file --


def test_what_is_saved_is_loaded(kept: ArchiveIndex) -> None:
    kept.save("part", SECTIONS)
    loaded = kept.load("part")
    assert loaded is not None
    assert list(loaded.numbers("numbers")) == list(range(3000))
    assert loaded.bytes("text")[0:3] == b"abc"
    assert len(loaded.numbers("nothing")) == 0
    assert kept.load("other") is None


def test_changes_stay_in_memory(kept: ArchiveIndex) -> None:
    kept.save("part", SECTIONS)
    loaded = kept.load("part")
    assert loaded is not None
    numbers = loaded.numbers("numbers", changeable=True)
    numbers[0:2] = array("I", [7, 8])
    assert list(numbers[0:3]) == [7, 8, 2]
    again = kept.load("part")
    assert again is not None
    assert again.numbers("numbers")[0] == 0


def test_loaded_sections_outlive_the_file(kept: ArchiveIndex, folder: Path) -> None:
    kept.save("part", SECTIONS)
    loaded = kept.load("part")
    assert loaded is not None
    numbers = loaded.numbers("numbers")
    files(folder)[0].unlink()
    assert numbers[2999] == 2999


def test_folder_and_files_are_the_users_alone(kept: ArchiveIndex, folder: Path) -> None:
    kept.save("part", SECTIONS)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in files(folder)] == [0o600]


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_write_is_not_believed(kept: ArchiveIndex, folder: Path, mode: int) -> None:
    kept.save("part", SECTIONS)
    files(folder)[0].chmod(mode)
    assert kept.load("part") is None


def test_a_folder_that_others_may_write_is_not_used(kept: ArchiveIndex, folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    kept.save("part", SECTIONS)
    assert files(folder) == []


def test_a_file_of_another_user_is_not_believed(kept: ArchiveIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.save("part", SECTIONS)
    monkeypatch.setattr(index_module.os, "geteuid", lambda: os.getuid() + 1)
    assert kept.load("part") is None


def test_a_link_is_not_believed(kept: ArchiveIndex, folder: Path) -> None:
    kept.save("part", SECTIONS)
    file = files(folder)[0]
    file.rename(folder / "moved")
    file.symlink_to(folder / "moved")
    assert kept.load("part") is None


def test_a_fifo_is_not_waited_for(kept: ArchiveIndex, folder: Path) -> None:
    kept.save("part", SECTIONS)
    file = files(folder)[0]
    file.unlink()
    os.mkfifo(file, 0o600)
    assert kept.load("part") is None


def test_another_version_is_not_believed(kept: ArchiveIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.save("part", SECTIONS)
    monkeypatch.setattr(index_module, "_VERSION", index_module._VERSION + 1)
    assert kept.load("part") is None


def test_a_file_of_another_part_is_not_believed(kept: ArchiveIndex, folder: Path) -> None:
    kept.save("part", SECTIONS)
    file = files(folder)[0]
    file.rename(folder / file.name.replace(".part.", ".other."))
    assert kept.load("other") is None


@pytest.mark.parametrize("cut", [0, 10, 4096, -1])
def test_a_cut_file_is_not_believed(kept: ArchiveIndex, folder: Path, cut: int) -> None:
    kept.save("part", SECTIONS)
    file = files(folder)[0]
    file.write_bytes(file.read_bytes()[:cut])
    assert kept.load("part") is None


def test_the_oldest_are_thrown_out(archive: Path, folder: Path) -> None:
    source = SourceFile(str(archive))
    kept = IndexFolder(str(folder), max_total=3 * 8192).of(source)
    assert kept is not None
    for number, part in enumerate("abc"):
        kept.save(part, {"text": b"x" * 4096})
        os.utime(folder / kept._file(part), ns=(number, number))
    assert kept.load("a") is not None  # which makes it the one used last
    kept.save("d", {"text": b"x" * 4096})
    assert [part for part in "abcd" if kept.load(part)] == ["a", "c", "d"]
    kept.save("e", {"text": b"x" * 3 * 8192})
    assert kept.load("e") is None
    source.release()


def test_forgotten_scratch_files_are_removed(kept: ArchiveIndex, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder / ".new-old").write_bytes(b"")
    (folder / ".new-now").write_bytes(b"")
    os.utime(folder / ".new-old", (1, 1))
    kept.save("part", SECTIONS)
    assert [path.name for path in files(folder) if path.name.startswith(".new")] == [".new-now"]


def test_the_folder_is_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/cache")
    assert default_path() == "/some/cache/archivefs/index"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_path() == "/home/somebody/.cache/archivefs/index"


# -- a zip --


def test_the_second_tree_is_the_same_and_not_parsed(archive: Path, folder: Path, unparsed: list[str]) -> None:
    expected = shown(archive, "off")
    assert shown(archive, folder) == expected
    assert len(unparsed) == 2
    assert shown(archive, folder) == expected
    assert len(unparsed) == 2
    assert set(expected) >= set(CONTENT)
    assert [path.name for path in archive.parent.iterdir()] == ["archive.zip"]


def test_names_that_clash_or_are_odd_are_the_same(tmp_path: Path, folder: Path) -> None:
    forge = Forge()
    for name in (b"b/x", b"a/x", b"a/x", b"a/x/y", b".archivefs", b"\xff\xfe", b"c\\d", b"b/"):
        forge.add(name=name, data=b"" if name.endswith(b"/") else name)
    path = tmp_path / "odd.zip"
    path.write_bytes(forge.end())
    expected = shown(path, "off")
    assert [shown(path, folder) for _ in range(3)] == [expected] * 3


def test_a_changed_archive_is_parsed_again(archive: Path, folder: Path, unparsed: list[str]) -> None:
    shown(archive, folder)
    status = archive.stat()
    os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    shown(archive, folder)
    assert len(unparsed) == 2
    assert len(files(folder)) == 2  # the directory and its folders, not those of before


def test_auto_leaves_small_archives_alone(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shown(archive, "auto")
    assert not (tmp_path / "cache").exists()
    many = write_many(tmp_path / "many.zip", MIN_ENTRIES)
    tree = ZipTree(str(many), Opening(index="auto"))
    tree.close()
    assert len(files(tmp_path / "cache" / "archivefs" / "index")) == 2


def test_a_folder_that_cannot_be_made_does_no_harm(archive: Path) -> None:
    assert shown(archive, archive / "index") == shown(archive, "off")


def test_a_full_disk_does_no_harm(archive: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    expected = shown(archive, "off")
    monkeypatch.setattr(index_module.os, "write", full)
    assert shown(archive, folder) == expected
    assert files(folder) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255), which=st.integers(0, 1))
def test_a_damaged_index_changes_nothing(archive: Path, folder: Path, at: float, change: int, which: int) -> None:
    expected = shown(archive, "off")
    shown(archive, folder)
    file = files(folder)[which]
    data = bytearray(file.read_bytes())
    data[int(at * len(data))] ^= change
    file.write_bytes(data)
    assert shown(archive, folder) == expected
