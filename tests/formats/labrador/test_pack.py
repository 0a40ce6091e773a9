"""``archivefs pack``, ``complete``, ``unpack``, ``create``, and ``status``, ``commit``, ``discard`` without a mount."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.formats.labrador import edits
from tests.formats.labrador.edits import findings, manifest, members, open_rw, site
from tests.samples import labrador as samples

FILES = {
    "index.html": b"<p>Home\n" * 50,
    "Read Me.TXT": b"read me\n",
    "empty.txt": b"",
    "pics/a.png": b"\x89PNG" + bytes(100),
    "pics/copy of a.png": b"\x89PNG" + bytes(100),
    "d/index.htm": b"document of d\n",
    "d/index.js": b"a script\n",
    "d/con.txt": b"a device name\n",
    "both/index.html": b"html\n",
    "both/index.htm": b"htm\n",
    "index.d/x": b"in a directory called index.d\n",
    "größe/mühle.html": b"names\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return filled(tmp_path / "site", FILES)


def filled(path: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def files_in(path: Path) -> dict[str, bytes]:
    return {str(found.relative_to(path)): found.read_bytes() for found in path.rglob("*") if found.is_file()}


def test_packing_a_folder(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.lbz"
    assert run("pack", str(folder), str(out)).code == 0
    assert findings(out) == []
    keys = {key.lower() for key in manifest(out)}
    assert {
        "index.html",
        "d/index.htm",
        "d/xq--index-x.js",
        "d/xq--con-x.txt",
        "both/index.html",
        "both/xq--index-x.htm",
        "xq--index-x.d/x",
    } < keys
    lines = members(out)["extmime"].decode().splitlines()
    assert lines == sorted(lines)
    assert {line.split()[0] for line in lines} == {"html", "htm", "js", "png", "txt"}
    assert run("verify", "--complete", str(out)).code == 0


def test_the_same_folder_gives_the_same_bytes(run: Run, folder: Path, tmp_path: Path) -> None:
    other = filled(tmp_path / "other", dict(reversed(FILES.items())))
    for path in other.rglob("*"):
        os.utime(path, (1, 1))
        os.chmod(path, 0o700)
    for source, out in ((folder, "1"), (other, "2")):
        assert run("pack", str(source), str(tmp_path / out)).code == 0
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_packing_what_was_unpacked_gives_the_same_bytes(run: Run, folder: Path, tmp_path: Path) -> None:
    first, second, again = tmp_path / "1.lbz", tmp_path / "2.lbz", tmp_path / "again"
    assert run("pack", str(folder), str(first)).code == 0
    assert run("unpack", str(first), str(again)).code == 0
    assert files_in(again) == FILES
    assert run("pack", str(again), str(second)).code == 0
    assert first.read_bytes() == second.read_bytes()


def test_a_mounted_edit_and_a_pack_give_the_same_bytes(run: Run, folder: Path, tmp_path: Path) -> None:
    packed, edited = tmp_path / "packed.lbz", tmp_path / "edited.lbz"
    assert run("pack", str(folder), str(packed)).code == 0
    assert run("create", "labrador", str(edited)).code == 0
    with edits.edited(edited) as tree:
        for name, data in sorted(FILES.items(), reverse=True):
            edits.write(tree, name, data)
    assert edited.read_bytes() == packed.read_bytes()


def test_a_marked_file_is_the_document(run: Run, tmp_path: Path) -> None:
    source = filled(tmp_path / "site", {"index.php": b"1", "index.html": b"2", "d/index.html": b"3"})
    try:
        os.setxattr(source / "index.php", "user.archivefs.index", b"1")
        os.setxattr(source / "d" / "index.html", "user.archivefs.index", b"0")
    except OSError:
        pytest.skip("no extended attributes here")
    assert run("pack", str(source), str(tmp_path / "out.lbz")).code == 0
    assert set(manifest(tmp_path / "out.lbz")) == {"index.php", "xq--index-x.html", "d/xq--index-x.html"}


def test_types_from_a_file(run: Run, folder: Path, tmp_path: Path) -> None:
    types = tmp_path / "types"
    types.write_text("png image/x-mine\r\nzip application/zip\n")
    out = tmp_path / "out.lbz"
    assert run("pack", "--extmime", str(types), str(folder), str(out)).code == 0
    lines = members(out)["extmime"].decode().splitlines()
    assert "png image/x-mine" in lines and "zip application/zip" in lines
    types.write_text("png\n")
    outcome = run("pack", "-f", "--extmime", str(types), str(folder), str(out))
    assert outcome.code == 2
    assert "line 1" in outcome.err


def test_other_index_names(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.lbz"
    assert run("pack", "--index-names", "htm:js", str(folder), str(out)).code == 0
    assert {"xq--index-x.html", "both/index.htm", "d/index.htm"} <= set(manifest(out))


def test_an_update_and_the_whole(run: Run, tmp_path: Path) -> None:
    old = filled(tmp_path / "old", FILES)
    new = filled(tmp_path / "new", {**FILES, "news.html": b"news\n", "index.html": b"changed\n"})
    (new / "d" / "index.js").unlink()
    names = {name: str(tmp_path / f"{name}.lbz") for name in ("old", "update", "whole", "completed", "from-folder")}
    assert run("pack", str(old), names["old"]).code == 0
    assert run("pack", "--base", names["old"], str(new), names["update"]).code == 0
    assert run("pack", str(new), names["whole"]).code == 0
    stored = {name for name in members(Path(names["update"])) if name.startswith("www/")}
    assert stored == {"www/index.html", "www/news.html"}
    assert findings(Path(names["update"])) == []
    for out, external in (("completed", names["old"]), ("from-folder", str(old))):
        assert run("complete", names["update"], names[out], "--external", external).code == 0
        assert Path(names[out]).read_bytes() == Path(names["whole"]).read_bytes()


def test_completing_with_several(run: Run, tmp_path: Path) -> None:
    parts = [{"a": b"one"}, {"b": b"two"}]
    for number, files in enumerate(parts):
        assert run("pack", str(filled(tmp_path / str(number), files)), str(tmp_path / f"{number}.lbz")).code == 0
    whole = filled(tmp_path / "whole", {"a": b"one", "b": b"two", "c": b"three"})
    bases = [word for number in (0, 1) for word in ("--base", str(tmp_path / f"{number}.lbz"))]
    assert run("pack", *bases, str(whole), str(tmp_path / "update.lbz")).code == 0
    outcome = run(
        "complete", str(tmp_path / "update.lbz"), str(tmp_path / "out"), "--external", str(tmp_path / "0.lbz")
    )
    assert outcome.code == 1
    assert outcome.err.count("\n") == 1 and "its content is missing" in outcome.err and "b:" in outcome.err
    assert not (tmp_path / "out").exists()
    externals = [word for number in (0, 1) for word in ("--external", str(tmp_path / f"{number}.lbz"))]
    assert run("complete", str(tmp_path / "update.lbz"), str(tmp_path / "out"), *externals).code == 0
    assert run("pack", str(whole), str(tmp_path / "packed")).code == 0
    assert (tmp_path / "out").read_bytes() == (tmp_path / "packed").read_bytes()


def test_an_external_archive_with_a_wrong_content_is_noticed(run: Run, tmp_path: Path) -> None:
    old = tmp_path / "old.lbz"
    wrong = samples.with_keys({"a.txt": b"promised\n"})
    old.write_bytes(samples.pack([*wrong[:-1], samples.Member("www/a.txt", b"tampered\n")]))
    update = tmp_path / "update.lbz"
    update.write_bytes(samples.pack(samples.with_keys({}, absent={"a.txt": b"promised\n"})))
    outcome = run("complete", str(update), str(tmp_path / "out"), "--external", str(old))
    assert outcome.code == 1 and "a.txt" in outcome.err
    assert sorted(os.listdir(tmp_path)) == ["old.lbz", "update.lbz"]


def test_what_cannot_be_packed_is_named_and_nothing_is_made(run: Run, folder: Path, tmp_path: Path) -> None:
    (folder / "link").symlink_to("index.html")
    (folder / "bad\nname").write_bytes(b"")
    os.mkfifo(folder / "pipe")
    (folder / "e\u0301").write_bytes(b"1")
    (folder / "\u00e9").write_bytes(b"2")
    out = tmp_path / "out.lbz"
    outcome = run("pack", str(folder), str(out))
    assert outcome.code == 1
    for word in ("link: a symbolic link", "bad\\nname", "pipe: neither a file", "cannot tell the name", "--skip"):
        assert word in outcome.err
    assert not out.exists()
    assert run("pack", "--skip", str(folder), str(out)).code == 1
    assert len(manifest(out)) == len(FILES) + 1


def test_an_existing_file_is_not_replaced_unasked(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.lbz"
    out.write_bytes(b"precious")
    for words in (("pack", str(folder), str(out)), ("create", "labrador", str(out))):
        outcome = run(*words)
        assert outcome.code == 1 and "already" in outcome.err
        assert out.read_bytes() == b"precious"
    assert run("pack", "--force", str(folder), str(out)).code == 0
    assert findings(out) == []


def test_an_archive_inside_the_folder_is_refused(run: Run, folder: Path) -> None:
    outcome = run("pack", str(folder), str(folder / "d" / "out.lbz"))
    assert outcome.code == 2 and "in the folder that is packed" in outcome.err


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    source = tmp_path / "site"
    source.mkdir()
    for number in range(30):
        (source / f"{number}.bin").write_bytes(os.urandom(4 << 20))
    command = [sys.executable, "-m", "archivefs", "pack", str(source), str(tmp_path / "out.lbz")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    end = time.monotonic() + 30
    while not any(name.endswith("-new") for name in os.listdir(tmp_path)) and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130, error
    assert os.listdir(tmp_path) == ["site"]


# -- create, unpack --


def test_an_empty_archive(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "new.lbz"
    assert run("create", "labrador", str(out)).code == 0
    assert site(out) == {}
    assert findings(out) == []
    assert list(members(out)) == ["mimetype", "extmime", "manifest", "www/"]


def test_formats_that_cannot_be_made(run: Run, tmp_path: Path) -> None:
    outcome = run("create", "zip", str(tmp_path / "x"))
    assert outcome.code == 2 and "labrador" in outcome.err
    assert run("create", "nonsense", str(tmp_path / "x")).code == 2


def test_unpacking(run: Run, tmp_path: Path) -> None:
    source = samples.write(tmp_path / "island.lbz", samples.SITE)
    (tmp_path / "there").mkdir()
    for name in ("new", "there"):
        assert run("unpack", str(source), str(tmp_path / name)).code == 0
        assert len(files_in(tmp_path / name)) == len(samples.SITE)
    outcome = run("unpack", str(source), str(tmp_path / "there"))
    assert outcome.code == 1 and "already" in outcome.err
    assert run("unpack", str(source), str(tmp_path / "no" / "such")).code == 2
    assert sorted(os.listdir(tmp_path)) == ["island.lbz", "new", "there"]


def test_unpacking_what_is_not_all_there(run: Run, tmp_path: Path) -> None:
    old = samples.write(tmp_path / "island.lbz", samples.SITE)
    update = samples.write_update(tmp_path / "update.lbz")
    outcome = run("unpack", str(update), str(tmp_path / "some"))
    assert outcome.code == 1 and "not in this archive" in outcome.err
    assert (tmp_path / "some" / "ferries" / "new-boat.html").exists()
    assert run("unpack", "--external", str(old), str(update), str(tmp_path / "all")).code == 0
    assert len(files_in(tmp_path / "all")) == len(samples.UPDATE)


# -- what a mount has left --


def left(path: Path) -> Path:
    """An archive with changes that an earlier mount has left."""
    samples.write(path, samples.SITE)
    tree = open_rw(path)
    edits.write(tree, "new/page.html", b"new")
    edits.write(tree, "style.css", b"changed")
    edits.remove(tree, "README.TXT")
    tree.close()
    return path


def test_status(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = left(tmp_path / "island.lbz")
    outcome = run("status", str(path))
    assert outcome.code == 0
    assert outcome.text.splitlines() == ["removed README.TXT", "added new/page.html", "changed style.css"]
    shown = json.loads(run("status", "--json", str(path)).text)
    assert {"change": "added", "path": "new/page.html"} in shown
    assert run("status", str(path)).text.splitlines() == outcome.text.splitlines()


def test_commit(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = left(tmp_path / "island.lbz")
    assert run("commit", str(path)).code == 0
    assert os.listdir(tmp_path) == ["island.lbz"]
    assert site(path)["style.css"] == b"changed"
    assert run("status", str(path)).text == "nothing is pending\n"
    assert run("commit", str(path)).code == 0


def test_discard(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = left(tmp_path / "island.lbz")
    before = path.read_bytes()
    assert run("discard", "--yes", str(path)).code == 0
    assert os.listdir(tmp_path) == ["island.lbz"]
    assert path.read_bytes() == before
    assert run("status", str(path)).text == "nothing is pending\n"


@pytest.mark.parametrize("answer", ["", "n\n", "\n", "yesterday\n"])
def test_discard_takes_whatever_is_no_yes_for_a_no(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    path = left(tmp_path / "island.lbz")
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    outcome = run("discard", str(path))
    assert outcome.code == 1
    assert f"Throw away the changes to {path}? [y/N]" in outcome.err
    assert outcome.err.endswith("archivefs: given up\n")
    assert "changed style.css" in run("status", str(path)).lines


def test_discard_takes_yes_for_an_answer(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = left(tmp_path / "island.lbz")
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert run("discard", str(path)).code == 0
    assert os.listdir(tmp_path) == ["island.lbz"]


def test_discard_of_changes_that_belong_elsewhere(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = left(tmp_path / "island.lbz")
    samples.write(path, {"/": b"another"})
    for command in ("status", "commit"):
        outcome = run(command, str(path))
        assert outcome.code == 2 and "archivefs discard" in outcome.err
    assert run("discard", "-y", str(path)).code == 0
    assert os.listdir(tmp_path) == ["island.lbz"]


def test_changes_that_cancel_each_other_are_not_counted(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = left(tmp_path / "island.lbz")
    tree = open_rw(path)
    edits.write(tree, "new/other.html", b"other")
    edits.remove(tree, "new/other.html")
    tree.close()
    caplog.clear()
    outcome = run("status", str(path))
    assert len(outcome.lines) == 3
    assert "picked up 3 changes" in caplog.text


def test_the_same_with_a_staging_folder(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = samples.write(tmp_path / "island.lbz", samples.SITE)
    staging = f"staging={tmp_path / 'staging'}"
    tree = open_rw(path, staging)
    edits.write(tree, "new", b"new")
    tree.close()
    assert run("status", str(path)).text == "nothing is pending\n"
    assert run("status", "-o", staging, str(path)).text == "added new\n"
    assert run("commit", "-o", staging, str(path)).code == 0
    assert site(path)["new"] == b"new"


def test_formats_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x", "y")
    for command in ("status", "commit", "discard"):
        outcome = run(command, str(tmp_path / "a.zip"))
        said = f"archivefs: {tmp_path / 'a.zip'}: the format zip cannot be written, so nothing can be pending\n"
        assert (outcome.code, outcome.err) == (2, said)


@pytest.mark.parametrize("command", ["status", "commit", "discard"])
def test_an_archive_that_is_write_protected(
    run: Run, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = samples.write(tmp_path / "island.lbz", samples.SITE)
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    outcome = run(command, *(["--yes"] if command == "discard" else []), str(path))
    said = f"archivefs: {path}: cannot be written: it is write-protected, so nothing can be pending\n"
    assert (outcome.code, outcome.err) == (1, said)


def test_an_archive_that_is_in_use(run: Run, tmp_path: Path) -> None:
    path = samples.write(tmp_path / "island.lbz", samples.SITE)
    tree = open_rw(path)
    for command in ("status", "commit", "discard"):
        outcome = run(command, *(["--yes"] if command == "discard" else []), str(path))
        assert outcome.code == 1 and f"process {os.getpid()}" in outcome.err
    tree.close()
