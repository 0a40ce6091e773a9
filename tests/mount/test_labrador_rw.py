"""A Labrador archive mounted read-write: ordinary tools, what is refused, and what is in the archive afterwards."""

from __future__ import annotations

import errno
import mmap
import os
import pty
import random
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.formats.labrador.edits import findings, manifest, members, site
from tests.mount.harness import Mount, mounted, run_archivefs, tool, wait_until
from tests.mount.test_writing import Beside, make_folder, run, snapshot
from tests.samples import labrador as samples

INDEX = "user.archivefs.index"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    (tmp_path / "archives").mkdir()
    return samples.write(tmp_path / "archives" / "island.lbz", samples.SITE)


def writable(archive: Path, tmp_path: Path, transport: str, options: str = ""):
    return mounted(archive, at=tmp_path / "m", transport=transport, options="rw" + (options and f",{options}"))


@pytest.fixture
def mount(archive: Path, tmp_path: Path, transport: str) -> Iterator[Mount]:
    with writable(archive, tmp_path, transport) as mount:
        yield mount


def committed(mount: Mount, archive: Path) -> dict:
    """What is in the archive after the unmount that commits; it is clean, and nothing is left beside it."""
    assert mount.unmount() == 0, mount.said()
    assert os.listdir(archive.parent) == [archive.name]
    assert findings(archive) == []
    subprocess.run([tool("unzip"), "-tqq", str(archive)], check=True, capture_output=True)
    return site(archive)


def flat(tree: dict, prefix: str = "") -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name, value in tree.items():
        found.update(flat(value, f"{prefix}{name}/") if isinstance(value, dict) else {prefix + name: value})
    return found


def files_below(root: Path) -> dict[str, bytes]:
    return {name: data for name, data in snapshot(root).items() if data is not None}


# -- what people do --


def test_copying_in_and_out(mount: Mount, archive: Path, tmp_path: Path) -> None:
    source = make_folder(tmp_path / "source")
    run("cp", "-r", source, "copied", cwd=mount.path)
    run("rsync", "-a", f"{source}/", "synced/", cwd=mount.path)
    run("sh", "-c", f"tar cf - -C '{source}' . | (mkdir untarred; tar xf - -C untarred)", cwd=mount.path)
    run("mv", "copied", "moved", cwd=mount.path)
    run("rm", "-r", "synced", "walks", cwd=mount.path)
    run("rsync", "-a", f"{mount.path}/untarred/", tmp_path / "out", cwd=tmp_path)
    run("diff", "-r", source, tmp_path / "out", cwd=tmp_path)
    content = committed(mount, archive)
    assert flat(content["moved"]) == flat(content["untarred"]) == files_below(source)
    assert "synced" not in content and "walks" not in content


def test_editing(mount: Mount, archive: Path) -> None:
    before = samples.SITE["/style.css"]
    run("sed", "-i", "s/margin/MARGIN/", "style.css", cwd=mount.path)
    run("sed", "-i", "s/Walks/WALKS/", "walks/index.html", cwd=mount.path)
    run("sh", "-c", "(cat README.TXT; cat style.css) > both; echo more >> both", cwd=mount.path)
    run("sh", "-c", "cp both short; truncate -s 10 short; truncate -s 20 short", cwd=mount.path)
    run("sh", "-c", "echo new > people/tmp; mv people/tmp people/index.html", cwd=mount.path)
    with open(mount.path / "synced", "wb") as file:
        file.write(b"fsynced")
        file.flush()
        os.fsync(file.fileno())
    content = committed(mount, archive)
    edited = before.replace(b"margin", b"MARGIN")
    assert content["style.css"] == edited
    assert b"WALKS" in content["walks"]["index.html"]
    assert content["both"] == samples.SITE["/README.TXT"] + edited + b"more\n"
    assert content["short"] == content["both"][:10].ljust(20, b"\0")
    assert content["people"]["index.html"] == b"new\n"
    assert content["synced"] == b"fsynced"
    assert {"walks/index.html", "people/index.html"} <= set(manifest(archive))


def test_vim(mount: Mount, archive: Path) -> None:
    tool("vim")
    for name in ("walks/mühle.html", "index.html"):
        words = ["vim", "-u", "NONE", "-es", "-c", "set backup swapfile undofile", "-c", "%s/<h1>/<h1>Edited: /"]
        run(*words, "-c", "wq", name, cwd=mount.path)
    left = {str(path.relative_to(mount.path)) for path in mount.path.rglob("*") if path.name.startswith(".")}
    assert all(name.endswith(".un~") for name in left), left
    content = committed(mount, archive)
    assert b"<h1>Edited: To the old mill" in content["walks"]["mühle.html"]
    assert b"<h1>Edited: " in content["index.html"]


def test_nano(mount: Mount, archive: Path) -> None:
    tool("nano")
    pid, terminal = pty.fork()
    if not pid:
        os.environ["TERM"] = "xterm"
        os.execvp("nano", ["nano", "-I", str(mount.path / "style.css")])
    try:
        _wait_for(terminal, b"style.css")
        os.write(terminal, b"/* by nano */")
        _wait_for(terminal, b"nano */")
        os.write(terminal, b"\x0f")  # write
        _wait_for(terminal, b"Write")
        os.write(terminal, b"\r")
        _wait_for(terminal, b"Wrote")
        os.write(terminal, b"\x18")  # leave
        _wait_for(terminal, None)
    finally:
        os.waitpid(pid, 0)
        os.close(terminal)
    assert committed(mount, archive)["style.css"].startswith(b"/* by nano */")


def _wait_for(terminal: int, text: bytes | None) -> None:
    """Read what a program draws until *text* is there, or its end."""
    seen, end = b"", time.monotonic() + 20
    while text is None or text not in seen:
        assert time.monotonic() < end, seen
        if select.select([terminal], [], [], 1)[0]:
            try:
                piece = os.read(terminal, 4096)
            except OSError:
                piece = b""
            if not piece:
                assert text is None, seen
                return
            seen += piece


def test_git(mount: Mount, archive: Path, tmp_path: Path, transport: str) -> None:
    tool("git")
    source = make_folder(tmp_path / "source")
    git = ("git", "-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "safe.directory=*")
    run(*git, "init", "-q", "repo", cwd=mount.path)
    shutil.copytree(source / "sub", mount.path / "repo" / "sub")
    run(*git, "add", "-A", cwd=mount.path / "repo")
    run(*git, "commit", "-qm", "first", cwd=mount.path / "repo")
    run(*git, "fsck", "--strict", cwd=mount.path / "repo")
    assert run(*git, "status", "--short", cwd=mount.path / "repo") == ""
    committed(mount, archive)
    with writable(archive, tmp_path, transport) as again:
        # Empty directories are not kept; git needs two of its own.
        for name in ("refs/tags", "refs/heads", "objects/info"):
            (again.path / "repo" / ".git" / name).mkdir(parents=True, exist_ok=True)
        run(*git, "fsck", "--strict", cwd=again.path / "repo")
        assert run(*git, "log", "--format=%s", cwd=again.path / "repo") == "first\n"


def test_memory_maps_and_open_files(mount: Mount, archive: Path) -> None:
    with open(mount.path / "mapped", "w+b") as file:
        file.truncate(10_000)
        with mmap.mmap(file.fileno(), 0) as mapped:
            mapped[5000:5005] = b"hello"
    with open(mount.path / "gone", "w+b") as file:
        file.write(b"abc" * 50_000)
        file.flush()
        os.unlink(mount.path / "gone")
        file.seek(0)
        assert file.read() == b"abc" * 50_000
    with open(mount.path / "style.css", "rb") as old:
        (mount.path / "tmp").write_bytes(b"replaced")
        os.rename(mount.path / "tmp", mount.path / "style.css")
        assert old.read() == samples.SITE["/style.css"]
    content = committed(mount, archive)
    assert content["mapped"] == bytes(5000) + b"hello" + bytes(4995)
    assert content["style.css"] == b"replaced"
    assert "gone" not in content


def test_documents_of_directories(mount: Mount, archive: Path) -> None:
    (mount.path / "new").mkdir()
    (mount.path / "new" / "index.html").write_bytes(b"document")
    (mount.path / "new" / "index.js").write_bytes(b"script")
    assert os.getxattr(mount.path / "new" / "index.html", "user.xdg.origin.url") == b"/new/"
    run("setfattr", "-n", INDEX, "-v", "0", "walks/index.html", cwd=mount.path)
    with pytest.raises(FileExistsError):
        os.setxattr(mount.path / "new" / "index.js", INDEX, b"1")
    committed(mount, archive)
    keys = set(manifest(archive))
    assert {"new/index.html", "new/xq--index-x.js", "walks/xq--index-x.html"} <= keys
    assert "walks/index.html" not in keys


def test_type_declarations_can_be_written(mount: Mount, archive: Path) -> None:
    path = mount.path / ".archivefs" / "extmime"
    text = path.read_text()
    with pytest.raises(OSError) as caught:
        path.write_text("HTML nonsense\n")
    assert caught.value.errno == errno.EINVAL
    assert path.read_text() == text
    path.write_text(text + "xyz chemical/x-xyz\n")
    (mount.path / "a.xyz").write_text("1")
    assert os.getxattr(mount.path / "a.xyz", "user.mime_type") == b"chemical/x-xyz"
    committed(mount, archive)
    assert b"xyz chemical/x-xyz\n" in members(archive)["extmime"]


def test_what_cannot_be_is_refused(mount: Mount) -> None:
    root = mount.path
    cases = [
        (errno.EPERM, lambda: os.link(root / "style.css", root / "hard")),
        (errno.EPERM, lambda: os.symlink("style.css", root / "soft")),
        (errno.EPERM, lambda: os.mkfifo(root / "pipe")),
        (errno.EINVAL, lambda: (root / "new\nline").touch()),
        (errno.EINVAL, lambda: (root / "back\\slash").mkdir()),
        (errno.EINVAL, lambda: os.rename(root / "style.css", root / "tab\t")),
        (errno.ENAMETOOLONG, lambda: (root / ("x" * 256)).touch()),
        (errno.EEXIST, lambda: (root / "walks" / "mu\u0308hle.html").touch()),
        (errno.EOPNOTSUPP, lambda: os.setxattr(root / "style.css", "user.mine", b"x")),
        (errno.EOPNOTSUPP, lambda: os.setxattr(root / "style.css", INDEX, b"1")),
        (errno.ENOTEMPTY, lambda: os.rmdir(root / "walks")),
    ]
    if os.getuid() == 0:
        cases.append((errno.EPERM, lambda: os.chown(root / "style.css", 12345, -1)))
    for number, action in cases:
        with pytest.raises(OSError) as caught:
            action()
        assert caught.value.errno == number, (errno.errorcode[number], caught.value)
    assert (mount.path / ".archivefs" / "pending").read_text() == ""


def test_modes_and_times_are_kept_until_unmount(mount: Mount) -> None:
    path = mount.path / "style.css"
    os.chmod(path, 0o600)
    os.utime(path, ns=(1, 1_600_000_000_123_456_789))
    state = path.stat()
    assert (state.st_mode & 0o7777, state.st_mtime_ns) == (0o600, 1_600_000_000_123_456_789)


# -- commit, status, discard --


def test_status_commit_and_discard_of_a_mount(mount: Mount, archive: Path) -> None:
    (mount.path / "new.html").write_text("1")
    os.unlink(mount.path / "README.TXT")
    assert run_archivefs("status", mount.path).stdout.splitlines() == ["removed README.TXT", "added new.html"]
    done = run_archivefs("commit", mount.path)
    assert (done.returncode, done.stderr) == (0, "")
    assert run_archivefs("status", mount.path).stdout == "nothing is pending\n"
    assert os.listdir(archive.parent) == [archive.name]
    assert site(archive)["new.html"] == b"1"
    assert (mount.path / "new.html").read_text() == "1"
    (mount.path / "new.html").write_text("2")
    done = run_archivefs("discard", mount.path)
    assert (done.returncode, "given up" in done.stderr) == (1, True), "nobody has said yes"
    assert run_archivefs("status", mount.path).stdout == "changed new.html\n"
    assert run_archivefs("discard", "--yes", mount.path).returncode == 0
    assert wait_until(lambda: (mount.path / "new.html").read_text() == "1")
    (mount.path / "later").write_text("3")
    assert committed(mount, archive)["later"] == b"3"


def test_committing_when_idle(archive: Path, tmp_path: Path, transport: str) -> None:
    with writable(archive, tmp_path, transport, "commit_idle=0.5") as mount:
        (mount.path / "new").write_text("1")
        assert wait_until(lambda: os.listdir(archive.parent) == [archive.name])
        assert site(archive)["new"] == b"1"
        assert (mount.path / "new").read_text() == "1"


def test_umount_commits_and_waits(archive: Path, tmp_path: Path, transport: str) -> None:
    at = tmp_path / "m"
    done = run_archivefs("mount", "-o", f"rw,transport={transport}", archive, at)
    assert done.returncode == 0, done.stderr
    (at / "big").write_bytes(random.Random(6).randbytes(3_000_000))
    done = run_archivefs("umount", at)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.listdir(archive.parent) == [archive.name]
    assert len(site(archive)["big"]) == 3_000_000


def test_a_signal_after_the_unmount_does_not_end_the_commit(archive: Path, tmp_path: Path, transport: str) -> None:
    """As when a machine is shut down: what systemd has unmounted gets SIGTERM at once."""
    with writable(archive, tmp_path, transport) as mount:
        (mount.path / "big").write_bytes(random.Random(6).randbytes(3_000_000))
        subprocess.run(["fusermount3", "-u", str(mount.path)], check=True)
        mount.process.terminate()
        assert mount.wait_gone() == 0, mount.said()
    assert os.listdir(archive.parent) == [archive.name]
    assert len(site(archive)["big"]) == 3_000_000


def test_a_commit_that_fails_is_told_and_can_be_made_up_for(archive: Path, tmp_path: Path, transport: str) -> None:
    """The folder of the archive cannot be written any more: here a file is where the new archive should be."""
    mount = Mount(archive, at=tmp_path / "m", transport=transport, options="rw").wait_ready()
    try:
        (mount.path / "new").write_text("1")
        before = archive.read_bytes()
        obstacle = archive.parent / f".{archive.name}.{mount.process.pid}.archivefs-new"
        obstacle.mkdir()
        done = run_archivefs("umount", mount.path)
        assert done.returncode == 1
        assert "could not be saved" in done.stderr and "archivefs commit" in done.stderr
        assert mount.wait_gone() != 0
        assert archive.read_bytes() == before
        obstacle.rmdir()
    finally:
        mount.end()
    done = run_archivefs("status", archive)
    assert done.stdout == "added new\n"
    assert run_archivefs("commit", archive).returncode == 0
    assert site(archive)["new"] == b"1"
    assert os.listdir(archive.parent) == [archive.name]


def test_a_second_mount_is_refused_and_a_read_only_one_is_a_snapshot(
    mount: Mount, archive: Path, tmp_path: Path, transport: str
) -> None:
    (mount.path / "new").write_text("1")
    done = run_archivefs("mount", "-o", f"rw,transport={transport}", archive, tmp_path / "second")
    assert done.returncode != 0
    assert f"process {mount.process.pid}" in done.stderr
    with mounted(archive, at=tmp_path / "ro", transport=transport) as other:
        assert not (other.path / "new").exists()
        assert run_archivefs("commit", mount.path).returncode == 0
        assert (other.path / "style.css").read_bytes() == samples.SITE["/style.css"]
        assert f"process {mount.process.pid} is changing it" in other.said()


# -- at random, and killed --


@pytest.mark.parametrize("seed", [3])
def test_random_operations_with_commits(archive: Path, tmp_path: Path, transport: str, seed: int) -> None:
    plain = tmp_path / "plain"
    for number in range(4):
        with writable(archive, tmp_path, transport) as mount:
            if not number:
                shutil.copytree(mount.path, plain)
            beside = Beside(mount.path, plain, seed * 10 + number)
            for step in range(120):
                beside.step()
                if number % 2 and step % 40 == 39:
                    assert run_archivefs("commit", mount.path).returncode == 0
            beside.same()
        without_empty_folders(plain)
        assert flat(site(archive)) == files_below(plain)
        assert findings(archive) == []


def without_empty_folders(root: Path) -> None:
    """The format has none."""
    for path in sorted(root.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def test_acknowledged_writes_survive_kill_9(archive: Path, tmp_path: Path, transport: str) -> None:
    acknowledged: dict[str, bytes] = {}
    chance = random.Random(7)
    for number in range(5):
        mount = Mount(archive, at=tmp_path / "m", transport=transport, options="rw").wait_ready()
        try:
            for name, data in acknowledged.items():
                assert (mount.path / name).read_bytes() == data, f"{name} was lost"
            for count in range(chance.randrange(3, 12)):
                name, data = f"d{count % 3}/f{number}-{count}.bin", chance.randbytes(chance.choice([10, 5000, 60_000]))
                (mount.path / name).parent.mkdir(exist_ok=True)
                (mount.path / name).write_bytes(data)
                acknowledged[name] = data
            if number % 2:
                (mount.path / ".archivefs" / "control").write_text("commit")
                time.sleep(chance.uniform(0, 0.05))
            mount.process.send_signal(signal.SIGKILL)
            mount.process.wait(10)
        finally:
            mount.end()
        assert findings(archive) == []
    assert run_archivefs("commit", archive).returncode == 0
    content = flat(site(archive))
    assert {name: content.get(name) for name in acknowledged} == acknowledged
    assert os.listdir(archive.parent) == [archive.name]
