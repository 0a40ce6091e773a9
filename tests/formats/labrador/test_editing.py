"""An archive opened for changing: which names it takes, which keys they get, attributes, types, staging, locks."""

from __future__ import annotations

import logging
import multiprocessing
import os
import stat
import unicodedata
from pathlib import Path

import pytest

from archivefs.errors import (
    AlreadyExists,
    BadOption,
    CorruptArchive,
    CorruptMember,
    NameNotHeld,
    NameTooLong,
    NotPermitted,
    NotSupported,
    SourceBusy,
)
from archivefs.format import Opening
from archivefs.formats.labrador import FORMAT
from archivefs.staging.area import area_of, default_folder
from archivefs.tree import Kind
from tests.contract import TreeContract
from tests.formats.labrador import edits
from tests.formats.labrador.edits import content_of, edited, file, findings, folder, manifest, open_rw, site
from tests.samples import labrador as samples

INDEX = "user.archivefs.index"


@pytest.fixture
def island(tmp_path: Path) -> Path:
    return samples.write(tmp_path / "island.lbz", samples.SITE)


def with_keys(path: Path, *keys: str) -> Path:
    """An archive with these keys, each with its own content."""
    path.write_bytes(samples.pack(samples.with_keys({key: f"the content of {key}\n".encode() for key in keys})))
    return path


class TestEditor(TreeContract):
    """The tree that is opened for changing keeps the promises of any other."""

    def make_tree(self, tmp_path: Path):
        tree = open_rw(samples.write(tmp_path / "site.lbz", samples.SITE))
        edits.write(tree, "new/folder/file.txt", b"new")
        edits.write(tree, "people/keeper.html", b"changed" * 10_000)
        edits.remove(tree, "README.TXT")
        return tree


# -- W1: names --


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("page.html", "page.html"),
        ("Rotfüchse.png", "xz--Rotfchse-jboqb.png"),
        ("con.txt", "xq--con-x.txt"),
        ("index.html", "index.html"),
        ("index.htm", "index.htm"),
        ("index.xhtml", "index.xhtml"),
        ("index.js", "xq--index-x.js"),
        ("index.lock", "xq--index-x.lock"),
        ("index.HTML", "xz--index-eq.HTML"),
        ("index", "index"),
        ("xq--index-x.html", "xq--index-x-q.html"),
    ],
)
def test_the_key_of_a_new_file(tmp_path: Path, name: str, key: str) -> None:
    path = with_keys(tmp_path / "a.lbz", "other.txt")
    with edited(path) as tree:
        edits.write(tree, f"d/{name}", b"new")
    keys = set(manifest(path)) - {"other.txt"}
    assert {name.lower() for name in keys} == {f"d/{key}".lower()}
    assert content_of_one(path, "d") == {name: b"new"}
    assert findings(path) == []


def content_of_one(path: Path, name: str) -> dict[str, bytes]:
    return site(path)[name]


def test_a_new_directory_called_index_is_escaped(tmp_path: Path) -> None:
    path = with_keys(tmp_path / "a.lbz", "other.txt")
    with edited(path) as tree:
        edits.write(tree, "index.d/index.html/x", b"new")
    assert "xq--index-x.d/xq--index-x.html/x" in manifest(path)
    assert findings(path) == []


def test_a_second_document_is_an_ordinary_file(island: Path) -> None:
    with edited(island) as tree:
        edits.write(tree, "walks/index.htm", b"second")
        assert file(tree, "walks", "index.htm").xattrs()[INDEX] == b"0"
    keys = manifest(island)
    assert "walks/index.html" in keys and "walks/xq--index-x.htm" in keys


def test_when_the_document_is_gone_another_takes_its_place(island: Path) -> None:
    with edited(island) as tree:
        edits.remove(tree, "walks/index.html")
        edits.write(tree, "walks/index.htm", b"new document")
        assert file(tree, "walks", "index.htm").xattrs()["user.xdg.origin.url"] == b"/walks/"
    assert {key for key in manifest(island) if key.startswith("walks/index")} == {"walks/index.htm"}


def test_other_index_names_by_option(tmp_path: Path) -> None:
    path = with_keys(tmp_path / "a.lbz", "other.txt")
    with edited(path, "index_names=txt:php") as tree:
        edits.write(tree, "a/index.html", b"1")
        edits.write(tree, "b/index.txt", b"2")
    assert set(manifest(path)) == {"other.txt", "a/xq--index-x.html", "b/index.txt"}


def test_no_index_names_at_all(tmp_path: Path) -> None:
    path = with_keys(tmp_path / "a.lbz", "other.txt")
    with edited(path, "index_names=") as tree:
        edits.write(tree, "a/index.html", b"1")
    assert set(manifest(path)) == {"other.txt", "a/xq--index-x.html"}


def test_a_rename_follows_the_rule_of_its_new_name(island: Path) -> None:
    with edited(island) as tree:
        edits.move(tree, "walks/index.html", "walks/overview.html")
        edits.move(tree, "walks/north.html", "walks/index.html")
        edits.move(tree, "people/index.html", "people/index.htm")
    keys = manifest(island)
    assert {"walks/overview.html", "walks/index.html", "people/index.htm"} <= set(keys)
    assert keys["walks/index.html"] == samples.digest_of(samples.SITE["/walks/north.html"])
    assert findings(island) == []


def test_what_replaces_a_file_takes_its_key(tmp_path: Path) -> None:
    """As ``sed -i`` does it, the document ``index.txt`` must stay one, and an odd shown name its record."""
    path = with_keys(tmp_path / "a.lbz", "d/index.txt", "e/index.html", "e/xq--index-x.html")
    with edited(path) as tree:
        edits.write(tree, "d/tmp", b"new document")
        edits.move(tree, "d/tmp", "d/index.txt")
        edits.write(tree, "e/tmp", b"new file")
        edits.move(tree, "e/tmp", "e/xq--index-x.html")
    assert set(manifest(path)) == {"d/index.txt", "e/index.html", "e/xq--index-x.html"}
    assert site(path)["e"]["xq--index-x.html"] == b"new file"


def test_writing_to_a_shown_name_writes_to_its_record(tmp_path: Path) -> None:
    path = with_keys(tmp_path / "a.lbz", "e/index.html", "e/xq--index-x.html", "xz---gq", "F/README.txt")
    with edited(path) as tree:
        for shown in ("e/xq--index-x.html", "e/index.html", "é", "f/readme.txt"):
            edits.write(tree, shown, f"new {shown}".encode())
    assert set(manifest(path)) == {"e/index.html", "e/xq--index-x.html", "xz---gq", "F/README.txt"}
    assert site(path) == {
        "e": {"index.html": b"new e/index.html", "xq--index-x.html": b"new e/xq--index-x.html"},
        "f": {"readme.txt": b"new f/readme.txt"},
        "é": "new é".encode(),
    }


def test_the_attribute_switches_between_document_and_file(island: Path) -> None:
    with edited(island) as tree:
        page = file(tree, "walks", "index.html")
        page.set_xattr(INDEX, b"0")
        assert page.xattrs()["user.archivefs.key"] == b"walks/xq--index-x.html"
        assert page.xattrs()["user.xdg.origin.url"] == b"/walks/index.html"
        edits.write(tree, "walks/index.php", b"<?php")
        file(tree, "walks", "index.php").set_xattr(INDEX, b"1")
        with pytest.raises(AlreadyExists):
            page.set_xattr(INDEX, b"1")
    keys = {key for key in manifest(island) if "index" in key and key.startswith("walks")}
    assert keys == {"walks/index.php", "walks/xq--index-x.html"}
    assert findings(island) == []


@pytest.mark.parametrize(("name", "value"), [("user.other", b"1"), (INDEX, b"2"), (INDEX, None), (INDEX, b"")])
def test_no_other_attribute_can_be_set(island: Path, name: str, value: bytes | None) -> None:
    tree = open_rw(island)
    with pytest.raises(NotSupported):
        file(tree, "walks", "index.html").set_xattr(name, value)
    assert list(tree.pending()) == []
    tree.close()


def test_only_an_index_file_can_become_a_document(island: Path) -> None:
    tree = open_rw(island)
    with pytest.raises(NotSupported):
        file(tree, "style.css").set_xattr(INDEX, b"1")
    file(tree, "style.css").set_xattr(INDEX, b"0")
    tree.close()


# -- W2: what is refused --


@pytest.mark.parametrize("name", ["a\nb", "tab\t", "back\\slash", "\x7f"])
def test_a_name_that_cannot_be_encoded(island: Path, name: str) -> None:
    tree = open_rw(island)
    with pytest.raises(NameNotHeld):
        tree.root().create(name, exclusive=False)
    with pytest.raises(NameNotHeld):
        tree.root().make_directory(name)
    with pytest.raises(NameNotHeld):
        tree.root().rename("style.css", tree.root(), name, replace=True)
    assert list(tree.pending()) == []
    tree.close()


@pytest.mark.parametrize("name", ["x" * 256, "😀" * 200, "index." + "x" * 249])
def test_a_name_that_is_too_long(island: Path, name: str) -> None:
    tree = open_rw(island)
    with pytest.raises(NameTooLong):
        tree.root().create(name, exclusive=False)
    tree.close()


def test_a_path_that_is_too_long(island: Path) -> None:
    tree = open_rw(island)
    here = tree.root()
    for _ in range(4):
        here = here.make_directory("d" * 250)
    here.create("f" * 19, exclusive=True)
    with pytest.raises(NameTooLong):
        here.create("f" * 20, exclusive=True)
    with pytest.raises(NameTooLong):
        here.make_directory("f" * 20)
    tree.close()


def test_a_directory_whose_files_would_get_too_long_paths(tmp_path: Path) -> None:
    deep = "/".join(["d" * 200] * 4)
    tree = open_rw(with_keys(tmp_path / "a.lbz", f"{deep}/{'f' * 200}", "x/y"))
    with pytest.raises(NameTooLong):
        tree.root().rename("d" * 200, tree.root(), "e" * 255, replace=True)
    tree.root().rename("d" * 200, tree.root(), "e" * 210, replace=True)
    with pytest.raises(NameTooLong):
        tree.root().rename("e" * 210, folder(tree, "x"), "z" * 230, replace=True)
    tree.close()


def test_a_name_that_reads_as_another(island: Path) -> None:
    composed, decomposed = "mühle.html", unicodedata.normalize("NFD", "mühle.html")
    assert composed != decomposed
    tree = open_rw(island)
    walks = folder(tree, "walks")
    for make in (lambda: walks.create(decomposed, exclusive=False), lambda: walks.make_directory(decomposed)):
        with pytest.raises(AlreadyExists):
            make()
    # The other way round, with one that is new.
    edits.write(tree, f"new/{decomposed}", b"1")
    with pytest.raises(AlreadyExists):
        folder(tree, "new").create(composed, exclusive=False)
    # But it may be given its own name in the other spelling.
    edits.move(tree, f"new/{decomposed}", f"new/{composed}")
    edits.remove(tree, f"new/{composed}")
    edits.write(tree, f"new/{decomposed}", b"2")
    tree.close()


def test_a_hidden_twin_is_seen(tmp_path: Path) -> None:
    """``xz--index-aa.html`` and ``xq--index-x.html`` read as the same name."""
    path = with_keys(tmp_path / "a.lbz", "d/index.html", "d/xz--index-aa.html", "e/xz--index-aa.i")
    tree = open_rw(path)
    with pytest.raises(AlreadyExists):
        file(tree, "d", "index.html").set_xattr(INDEX, b"0")
    # It normalizes like a document.
    edits.write(tree, "e/index.html", b"ordinary")
    assert file(tree, "e", "index.html").xattrs()[INDEX] == b"0"
    with pytest.raises(AlreadyExists):
        file(tree, "e", "index.html").set_xattr(INDEX, b"1")
    tree.close()


def test_links_are_refused(island: Path) -> None:
    tree = open_rw(island)
    with pytest.raises(NotPermitted):
        tree.root().make_symlink("link", "style.css")
    tree.close()


def test_a_file_that_is_not_here_can_be_moved_and_removed_but_not_read(tmp_path: Path) -> None:
    path = samples.write_update(tmp_path / "update.lbz")
    before = manifest(path)
    with edited(path) as tree:
        with pytest.raises(CorruptMember):
            file(tree, "walks", "north.html").open()
        with pytest.raises(CorruptMember):
            file(tree, "walks", "north.html").open_writer(truncate=False)
        edits.move(tree, "walks/north.html", "north.html")
        edits.remove(tree, "people/keeper.html")
        edits.write(tree, "style.css", b"written over")
    after = manifest(path)
    assert after["north.html"] == before["walks/north.html"]
    assert set(after) == set(before) - {"walks/north.html", "people/keeper.html"} | {"north.html"}
    assert findings(path) == []


def test_content_that_comes_back_resolves_an_external_record(tmp_path: Path) -> None:
    path = samples.write_update(tmp_path / "update.lbz")
    with edited(path) as tree:
        edits.write(tree, "copy.html", samples.SITE["/walks/north.html"])
    assert site_file(path, "walks", "north.html") == samples.SITE["/walks/north.html"]
    assert "www/copy.html" in edits.members(path)


def site_file(path: Path, *parts: str) -> bytes:
    tree = FORMAT.open(str(path), Opening())
    reader = tree.lookup(parts).open()
    try:
        return reader.read_at(0, 1 << 20)
    finally:
        reader.close()
        tree.close()


# -- W3: directories --


def test_an_empty_directory_lives_as_long_as_the_mount(island: Path, caplog: pytest.LogCaptureFixture) -> None:
    tree = open_rw(island)
    tree.root().make_directory("empty")
    edits.write(tree, "x", b"x")
    tree.commit(edits.no_progress)
    assert "empty directories are not kept: empty" in caplog.text
    assert content_of(folder(tree, "empty")) == {}
    edits.write(tree, "empty/later", b"later")
    tree.close()
    again = open_rw(island)
    assert content_of(folder(again, "empty")) == {"later": b"later"}
    again.commit(edits.no_progress)
    again.close()
    assert site(island)["empty"] == {"later": b"later"}


def test_an_empty_directory_that_was_moved_after_a_commit_is_found_again(
    island: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tree = open_rw(island)
    tree.root().make_directory("one").make_directory("two")
    edits.write(tree, "x", b"x")
    tree.commit(edits.no_progress)
    edits.move(tree, "one", "three")
    edits.write(tree, "three/two/y", b"y")
    tree.close()
    again = open_rw(island)
    assert content_of(folder(again, "three")) == {"two": {"y": b"y"}}
    again.close()
    assert site(island).get("empty") is None


def test_a_directory_that_loses_its_last_file_is_gone_after_the_commit(
    island: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with edited(island) as tree:
        for name in ("index.html", "keeper.html"):
            edits.remove(tree, f"people/{name}")
    assert "people" not in site(island)
    assert "not kept: people" in caplog.text


# -- W4: types --


def test_types_of_new_extensions_are_declared(island: Path) -> None:
    with edited(island) as tree:
        edits.write(tree, "script.js", b"1")
        edits.write(tree, "a.tar.webp", b"2")
        edits.write(tree, "strange.xyzzy", b"3")
        edits.write(tree, "blank", b"4")
    lines = edits.members(island)["extmime"].decode().splitlines()
    assert lines == sorted(lines)
    assert set(lines) == {
        *samples.TYPES.splitlines(),
        "js text/javascript; charset=UTF-8",
        "webp image/webp",
    }


def test_existing_types_never_change(tmp_path: Path) -> None:
    path = tmp_path / "a.lbz"
    path.write_bytes(samples.pack([*samples.head("", "html text/x-mine\r\n\r\n"), samples.Member("www/", b"")]))
    with edited(path) as tree:
        edits.write(tree, "a.html", b"1")
        edits.write(tree, "b.png", b"2")
        assert file(tree, "a.html").xattrs()["user.mime_type"] == b"text/x-mine"
    assert edits.members(path)["extmime"] == b"html text/x-mine\npng image/png\n"


def test_a_catch_all_covers_every_extension(tmp_path: Path) -> None:
    path = tmp_path / "a.lbz"
    path.write_bytes(samples.pack([*samples.head("", ". text/plain\n"), samples.Member("www/", b"")]))
    with edited(path) as tree:
        edits.write(tree, "b.png", b"2")
    assert edits.members(path)["extmime"] == b". text/plain\n"


def test_extmime_keep_adds_nothing(island: Path) -> None:
    with edited(island, "extmime=keep") as tree:
        edits.write(tree, "script.js", b"1")
    assert set(edits.members(island)["extmime"].decode().splitlines()) == set(samples.TYPES.splitlines())


def test_extmime_can_be_written(island: Path) -> None:
    with edited(island) as tree:
        tree.savers()["extmime"](b"html text/x-new\n. text/plain\n")
        assert list(tree.pending()) == [("changed", (".archivefs", "extmime"))]
        assert tree.extras()["extmime"]().read_at(0, 100) == b"html text/x-new\n. text/plain\n"
        assert file(tree, "walks", "index.html").xattrs()["user.mime_type"] == b"text/x-new"
        assert file(tree, "style.css").xattrs()["user.mime_type"] == b"text/plain"
    assert edits.members(island)["extmime"] == b". text/plain\nhtml text/x-new\n"


def test_extmime_survives_a_crash(island: Path, caplog: pytest.LogCaptureFixture) -> None:
    tree = open_rw(island)
    tree.savers()["extmime"](b"html text/x-new\n")
    tree.close()
    again = open_rw(island)
    assert again.extmime() == b"html text/x-new\n"
    again.close()


@pytest.mark.parametrize("text", [b"html\n", b"HTML text/html\n", b"a b\na c\n", b"html text/html\r", b"\xff x\n"])
def test_extmime_that_is_wrong_is_refused(island: Path, text: bytes) -> None:
    from archivefs.errors import ContentRefused

    tree = open_rw(island)
    with pytest.raises(ContentRefused):
        tree.savers()["extmime"](text)
    assert list(tree.pending()) == []
    tree.close()


# -- W8: staging --


def test_the_staging_area_is_private_and_gone_once_nothing_is_pending(island: Path) -> None:
    tree = open_rw(island)
    assert os.listdir(island.parent) == ["island.lbz"]
    edits.write(tree, "new", b"x" * 100_000)
    area = Path(default_folder(str(island), None))
    assert stat.S_IMODE(area.stat().st_mode) == 0o700
    assert area.parent == island.parent and area.name.startswith(".")
    tree.commit(edits.no_progress)
    assert os.listdir(island.parent) == ["island.lbz"]
    tree.close()


def test_another_folder_for_staging(island: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    tree = open_rw(island, f"staging={elsewhere}")
    edits.write(tree, "new", b"new")
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "island.lbz"]
    assert len(os.listdir(elsewhere)) == 1
    tree.close()
    with open_rw_again(island, f"staging={elsewhere}") as again:
        assert content_of(again.root())["new"] == b"new"


def test_only_the_last_folder_of_a_place_for_staging_is_made(
    island: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadOption, match="nowhere: option 'staging' makes no sense: there is no such folder"):
        open_rw(island, f"staging={tmp_path / 'nowhere' / 'x'}")
    with pytest.raises(BadOption, match=r"island.lbz: option 'staging' makes no sense: it is no folder"):
        open_rw(island, f"staging={island}")
    (tmp_path / "disk").mkdir()
    tree = open_rw(island, f"staging={tmp_path / 'disk' / 'x'}")
    (tmp_path / "disk").rmdir()
    with pytest.raises(FileNotFoundError):
        edits.write(tree, "new", b"new")
    tree.close()
    assert os.listdir(tmp_path) == ["island.lbz"]
    asked = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(tmp_path) and asked(path, mode))
    with pytest.raises(BadOption, match="you may not write there"):
        area_of(str(island), str(tmp_path))


def open_rw_again(path: Path, *options: str):
    import contextlib

    logging.getLogger("archivefs.labrador").setLevel(logging.ERROR)
    try:
        return contextlib.closing(open_rw(path, *options))
    finally:
        logging.getLogger("archivefs.labrador").setLevel(logging.NOTSET)


def test_changes_are_picked_up_and_said_so(island: Path, caplog: pytest.LogCaptureFixture) -> None:
    tree = open_rw(island)
    edits.write(tree, "new/Ärger.html", b"new")
    edits.write(tree, "new/index.js", b"js")
    edits.move(tree, "walks", "wege")
    edits.remove(tree, "style.css")
    file(tree, "people", "index.html").set_xattr(INDEX, b"0")
    before, pending = content_of(tree.root()), list(tree.pending())
    tree.close()
    again = open_rw(island)
    assert "picked up" in caplog.text and "an earlier mount has left" in caplog.text
    assert (content_of(again.root()), list(again.pending())) == (before, pending)
    assert file(again, "people", "index.html").xattrs()[INDEX] == b"0"
    again.commit(edits.no_progress)
    again.close()
    assert site(island) == before
    assert findings(island) == []


def test_which_file_is_the_document_does_not_depend_on_the_order_they_were_saved_in(
    island: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tree = open_rw(island)
    new = tree.root().make_directory("new")
    first = new.create("index.htm", exclusive=True).open_writer(truncate=True)
    edits.put(new, "index.html", b"second")
    first.sync()
    first.close()
    assert file(tree, "new", "index.htm").xattrs()[INDEX] == b"1"
    tree.close()
    again = open_rw(island)
    assert [file(again, "new", name).xattrs()[INDEX] for name in ("index.htm", "index.html")] == [b"1", b"0"]
    again.close()


def test_a_read_only_mount_mentions_what_is_pending_and_shows_the_archive_alone(
    island: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = site(island)
    tree = open_rw(island)
    edits.write(tree, "new", b"new")
    assert site(island) == before
    assert f"process {os.getpid()} is changing it" in caplog.text
    tree.close()
    caplog.clear()
    assert site(island) == before
    assert "changes wait in" in caplog.text and "are not shown" in caplog.text


def test_changes_to_another_archive_are_not_taken(island: Path, caplog: pytest.LogCaptureFixture) -> None:
    tree = open_rw(island)
    edits.write(tree, "new", b"new")
    tree.close()
    samples.write(island, {"/": b"quite another site"})
    with pytest.raises(CorruptArchive, match="another state"):
        open_rw(island)
    again = open_rw(island, ignore_pending=True)
    again.discard_changes()
    again.close()
    assert os.listdir(island.parent) == ["island.lbz"]


def test_an_archive_that_was_only_touched_is_still_the_same(island: Path, caplog: pytest.LogCaptureFixture) -> None:
    tree = open_rw(island)
    edits.write(tree, "new", b"new")
    tree.close()
    os.utime(island, (1, 1))
    again = open_rw(island)
    assert content_of(again.root())["new"] == b"new"
    again.close()


def test_discarding(island: Path) -> None:
    tree = open_rw(island)
    before = content_of(tree.root())
    edits.write(tree, "new/index.html", b"new")
    edits.move(tree, "walks", "wege")
    file(tree, "index.html").set_xattr(INDEX, b"0")
    tree.savers()["extmime"](b"html text/x-new\n")
    tree.discard_changes()
    assert content_of(tree.root()) == before
    assert list(tree.pending()) == []
    assert file(tree, "index.html").xattrs()[INDEX] == b"1"
    assert os.listdir(island.parent) == ["island.lbz"]
    tree.close()


# -- W9: one writer --


def test_a_second_writer_is_refused_with_the_process_of_the_first(island: Path) -> None:
    tree = open_rw(island)
    with pytest.raises(SourceBusy, match=f"process {os.getpid()}"):
        open_rw(island, f"staging={island.parent / 'elsewhere'}")
    edits.write(tree, "new", b"new")
    tree.commit(edits.no_progress)
    with pytest.raises(SourceBusy):
        open_rw(island)
    tree.close()
    open_rw(island).close()


def test_the_lock_dies_with_its_process(island: Path) -> None:
    context = multiprocessing.get_context("fork")
    reading, writing = context.Pipe(duplex=False)

    def hold() -> None:
        tree = open_rw(island)
        writing.send("locked")
        tree.lock.acquire()
        multiprocessing.Event().wait()

    child = context.Process(target=hold)
    child.start()
    assert reading.recv() == "locked"
    with pytest.raises(SourceBusy, match=f"process {child.pid}"):
        open_rw(island)
    child.kill()
    child.join()
    open_rw(island).close()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everything")
def test_what_is_write_protected_is_refused(island: Path) -> None:
    os.chmod(island, 0o444)
    with pytest.raises(NotPermitted):
        open_rw(island)


# -- attributes of what was changed --


def test_attributes_of_changed_and_moved_files(island: Path) -> None:
    tree = open_rw(island, "base_url=https://island.example/")
    edits.write(tree, "walks/Neu hier.png", b"new")
    edits.move(tree, "ferries", "Boote")
    assert file(tree, "walks", "Neu hier.png").xattrs() == {
        "user.xdg.origin.url": b"https://island.example/walks/Neu%20hier.png",
        "user.mime_type": b"image/png",
        "user.archivefs.key": b"walks/xz--Neuhier-gggi.png",
        "user.archivefs.state": b"pending",
        "user.archivefs.index": b"0",
    } | {"user.archivefs.key": file(tree, "walks", "Neu hier.png").xattrs()["user.archivefs.key"]}
    moved = file(tree, "Boote", "index.html").xattrs()
    assert moved["user.xdg.origin.url"] == b"https://island.example/Boote/"
    assert moved["user.archivefs.digest"] == samples.digest_of(samples.SITE["/ferries/"]).encode()
    assert moved["user.archivefs.state"] == b"stored"
    tree.close()


def test_times_are_kept_until_the_tree_is_closed(island: Path) -> None:
    tree = open_rw(island)
    file(tree, "style.css").set_times(mtime_ns=10**18)
    edits.write(tree, "new", b"new")
    file(tree, "new").set_times(mtime_ns=10**17)
    tree.commit(edits.no_progress)
    assert file(tree, "style.css").attributes().mtime_ns == 10**18
    assert file(tree, "new").attributes().mtime_ns == 10**17
    tree.close()


def test_removing_a_directory_needs_it_empty(island: Path) -> None:
    from archivefs.errors import DirectoryNotEmpty

    tree = open_rw(island)
    with pytest.raises(DirectoryNotEmpty):
        edits.remove(tree, "people", Kind.DIRECTORY)
    tree.close()
