"""A URL database mounted: the contract, every row of the table of changes, and the programs people edit with."""

from __future__ import annotations

import errno
import os
import pty
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract import SitesContract
from tests.formats.urldb.test_tree import TREE
from tests.mount.contract import MountContract
from tests.mount.harness import Mount, mounted, run_archivefs, tool, wait_until
from tests.samples.urldb import HARBOUR, MINIMAL, write

HOST = "harbour.example"


class TestMounted(MountContract):
    """The promises of every tree, through a real mount."""

    expected = TREE

    def make_archive(self, tmp_path: Path) -> Path:
        return write(tmp_path / "db")


assert not issubclass(TestMounted, SitesContract)  # a mount knows no URLs


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return write(tmp_path / "db")


@pytest.fixture
def mount(database: Path, tmp_path: Path, transport: str) -> Iterator[Mount]:
    with mounted(database, at=tmp_path / "m", transport=transport, options="rw") as mount:
        yield mount


@pytest.fixture
def root(mount: Mount) -> Path:
    return mount.path


def run(*words: str | Path, cwd: Path, code: int = 0) -> str:
    done = subprocess.run([*map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, f"{words}: {done.stderr}"
    return done.stdout


def records(database: Path, name: str = HOST) -> list[str]:
    """The documents of a file, without their markers."""
    return (database / f"{name}.yaml").read_text().split("---\n")[1:]


def changed(database: Path, **by: str | None) -> None:
    """The file is as it was, but for records that are now others (or, None, gone); each key is a path without /."""
    paths = {f"/{name}": text for name, text in by.items()}
    old = {_path(text): text for text in HARBOUR.split("---\n")[2:]}
    new = {**old, **{path: text for path, text in paths.items() if text is not None}}
    gone = [path for path, text in paths.items() if text is None]
    expected = [HARBOUR.split("---\n")[1], *(new[path] for path in sorted(new) if path not in gone)]
    assert records(database) == expected


def _path(record: str) -> str:
    return record.splitlines()[0].removeprefix("_path: ")


def fails(number: int, action: Callable[[], object]) -> None:
    with pytest.raises(OSError) as caught:
        action()
    assert caught.value.errno == number, (errno.errorcode[number], caught.value)


# -- records --


def test_create_and_overwrite(root: Path, database: Path) -> None:
    (root / HOST / "new.yaml").write_text("content-type: text/html\ncategories: [b, a]\n")
    changed(database, new="_path: /new\ncategories:\n- a\n- b\ncontent-type: text/html\n")
    text = "_path: /new\ncategories:\n- a\n- b\ncontent-type: text/html\n"
    assert wait_until(lambda: (root / HOST / "new.yaml").read_text() == text, 5)
    (root / HOST / "new.yaml").write_text("---\nz: 1\n_path: /new\n")
    changed(database, new="_path: /new\nz: 1\n")
    assert wait_until(lambda: (root / HOST / "new.yaml").read_text() == "_path: /new\nz: 1\n", 5)


def test_what_is_no_record_is_refused_and_nothing_changes(root: Path, database: Path) -> None:
    before = (database / f"{HOST}.yaml").read_bytes()
    texts = (
        "a: [",
        "- list",
        "just text",
        "_path: /other\n",
        "a: 1\n---\nb: 2\n",
        "x: !!str 1",
        "a: &x 1",
        "\x00",
    )
    for number, text in enumerate(texts):
        fails(errno.EINVAL, lambda text=text: (root / HOST / "about.yaml").write_text(text))
        new = root / HOST / f"new{number}.yaml"
        fails(errno.EINVAL, lambda text=text, new=new: new.write_text(text))
        assert (database / f"{HOST}.yaml").read_bytes() == before
        assert wait_until(lambda new=new: not new.exists() and new.name not in os.listdir(root / HOST), 5)
    assert wait_until(lambda: (root / HOST / "about.yaml").read_text().startswith("_path: /about\n"), 5)


def test_touch_makes_a_record_with_a_path(root: Path, database: Path) -> None:
    run("touch", "empty.yaml", cwd=root / HOST)
    assert wait_until(lambda: "_path: /empty\n" in records(database))
    changed(database, empty="_path: /empty\n")


def test_append_truncate_and_patch(root: Path, database: Path) -> None:
    path = root / HOST / "wreck.yaml"
    with open(path, "a") as file:
        file.write("x-a: 1\n")
    changed(database, wreck="_path: /wreck\ncategories:\n- deprecated\nx-a: 1\n")
    with open(path, "r+b") as file:
        file.seek(file.read().index(b"x-a: 1"))
        file.write(b"x-b")
        file.flush()
        os.fsync(file.fileno())
        changed(database, wreck="_path: /wreck\ncategories:\n- deprecated\nx-b: 1\n")
    os.truncate(path, len("_path: /wreck\n"))
    assert wait_until(lambda: records(database)[-1] == "_path: /wreck\n")
    changed(database, wreck="_path: /wreck\n")


def test_a_shell_writes_in_one_change(root: Path, database: Path) -> None:
    inode = os.stat(database / f"{HOST}.yaml").st_ino
    run("sh", "-c", "(echo '_path: /both'; echo 'x: 1') > both.yaml", cwd=root / HOST)
    changed(database, both="_path: /both\nx: 1\n")
    assert os.stat(database / f"{HOST}.yaml").st_ino != inode


def test_unlink(root: Path, database: Path) -> None:
    os.unlink(root / HOST / "old.yaml")
    changed(database, old=None)
    assert not (root / HOST / "old.yaml").exists()
    fails(errno.ENOENT, lambda: os.unlink(root / HOST / "old.yaml"))
    run("rm", "-r", "about", cwd=root / HOST)
    changed(database, **{"old": None, "about/crew": None, "about/crew/": None})
    assert not (root / HOST / "about").exists()
    assert (root / HOST / "about.yaml").exists()


def test_rename_inside_a_domain(root: Path, database: Path) -> None:
    os.rename(root / HOST / "old.yaml", root / HOST / "about" / "older.yaml")
    changed(database, **{"old": None, "about/older": "_path: /about/older\ncontent-type: X-301-Redirect\n"})
    assert (root / HOST / "about" / "older.yaml").read_text() == "_path: /about/older\ncontent-type: X-301-Redirect\n"
    os.rename(root / HOST / "about" / "older.yaml", root / HOST / "wreck.yaml")
    changed(database, old=None, wreck="_path: /wreck\ncontent-type: X-301-Redirect\n")


def test_rename_of_a_directory(root: Path, database: Path) -> None:
    inode = (root / HOST / "about" / "crew.yaml").stat().st_ino
    os.rename(root / HOST / "about", root / HOST / "team")
    crew, page = "content-type: text/html\n", "content-type: text/html\n"
    moved = {"team/crew": f"_path: /team/crew\n{crew}", "team/crew/": f"_path: /team/crew/\n{page}"}
    changed(database, **{"about/crew": None, "about/crew/": None, **moved})
    assert sorted(os.listdir(root / HOST / "team")) == ["crew", "crew.yaml"]
    assert (root / HOST / "team" / "crew" / "^index.yaml").read_text() == "_path: /team/crew/\n" + page
    assert (root / HOST / "team" / "crew.yaml").stat().st_ino == inode
    fails(errno.EEXIST, lambda: os.rename(root / HOST / "team", root / HOST / "pier 7"))
    changed(database, **{"about/crew": None, "about/crew/": None, **moved})


def test_across_domains(root: Path, database: Path) -> None:
    other = root / "minimal.example"
    fails(errno.EXDEV, lambda: os.rename(root / HOST / "wreck.yaml", other / "wreck.yaml"))
    run("mv", f"{HOST}/wreck.yaml", "minimal.example/", cwd=root)
    changed(database, wreck=None)
    assert records(database, "minimal.example")[2] == "_path: /wreck\ncategories:\n- deprecated\n"


# -- directories, domains and aliases --


def test_directories(root: Path, database: Path) -> None:
    before = (database / f"{HOST}.yaml").read_bytes()
    os.makedirs(root / HOST / "a" / "b")
    assert os.listdir(root / HOST / "a") == ["b"]
    fails(errno.EEXIST, lambda: os.mkdir(root / HOST / "a"))
    fails(errno.EINVAL, lambda: os.mkdir(root / HOST / "x.yaml"))
    assert (database / f"{HOST}.yaml").read_bytes() == before
    (root / HOST / "a" / "b" / "c.yaml").write_text("x: 1\n")
    fails(errno.ENOTEMPTY, lambda: os.rmdir(root / HOST / "a" / "b"))
    changed(database, **{"a/b/c": "_path: /a/b/c\nx: 1\n"})
    os.unlink(root / HOST / "a" / "b" / "c.yaml")
    os.rmdir(root / HOST / "a" / "b")
    os.rmdir(root / HOST / "a")
    assert (database / f"{HOST}.yaml").read_bytes() == before


def test_domains(root: Path, database: Path) -> None:
    os.mkdir(root / "new.example")
    assert (database / "new.example.yaml").read_text() == "---\n"
    (root / "new.example" / "^index.yaml").touch()
    assert wait_until(lambda: (database / "new.example.yaml").read_text() == "---\n---\n_path: /\n")
    fails(errno.ENOTEMPTY, lambda: os.rmdir(root / "new.example"))
    os.unlink(root / "new.example" / "^index.yaml")
    os.rmdir(root / "new.example")
    assert not (database / "new.example.yaml").exists()
    fails(errno.EEXIST, lambda: os.mkdir(root / HOST))
    fails(errno.EINVAL, lambda: os.mkdir(root / "Not A Domain"))


def test_aliases(root: Path, database: Path) -> None:
    os.symlink(HOST, root / "new.example")
    assert records(database)[0] == "cnames:\n- ferries.example\n- new.example\n- www.harbour.example\n"
    assert os.readlink(root / "new.example") == HOST
    assert (root / "new.example" / "^index.yaml").read_text() == "_path: /\ncontent-type: text/html\n"
    fails(errno.EEXIST, lambda: os.symlink(HOST, root / "new.example"))
    fails(errno.EINVAL, lambda: os.symlink("nowhere.example", root / "other.example"))
    os.unlink(root / "new.example")
    assert (database / f"{HOST}.yaml").read_text() == HARBOUR
    os.symlink("minimal.example", root / "min.example")
    assert (database / "minimal.example.yaml").read_text() == "---\ncnames:\n- min.example\n---\n_path: /\n"
    os.unlink(root / "min.example")
    assert (database / "minimal.example.yaml").read_text() == MINIMAL


def test_metadata(root: Path, database: Path) -> None:
    (root / HOST / "^domain.yaml").write_text("https: true\n")
    assert records(database)[0] == "https: true\n"
    assert records(database)[1:] == HARBOUR.split("---\n")[2:]
    fails(errno.EINVAL, lambda: (root / HOST / "^domain.yaml").write_text("_path: /a\n"))
    fails(errno.EINVAL, lambda: (root / HOST / "^domain.yaml").write_text("a: [\n"))
    (root / HOST / "^domain.yaml").write_text("")
    assert wait_until(lambda: records(database)[0] == "")


def test_raw_files(root: Path, database: Path) -> None:
    raw = root / "^raw"
    text = "---\n# kept\n---\n_path:   /odd # too\n"
    (raw / "minimal.example.yaml").write_text(text)
    assert (database / "minimal.example.yaml").read_text() == text
    fails(errno.EINVAL, lambda: (raw / "minimal.example.yaml").write_text("_path: /x\n"))
    assert (database / "minimal.example.yaml").read_text() == text
    (raw / "fresh.example.yaml").write_text(MINIMAL)
    assert (database / "fresh.example.yaml").read_text() == MINIMAL
    (raw / "x.tmp").write_text("---\n---\n_path: /renamed\n")
    os.rename(raw / "x.tmp", raw / "fresh.example.yaml")
    assert (database / "fresh.example.yaml").read_text() == "---\n---\n_path: /renamed\n"
    (raw / "y.tmp").write_text("nonsense")
    fails(errno.EINVAL, lambda: os.rename(raw / "y.tmp", raw / "fresh.example.yaml"))
    fails(errno.EPERM, lambda: os.unlink(raw / "fresh.example.yaml"))


# -- everything else --


def test_scratch(root: Path, database: Path) -> None:
    before = sorted(os.listdir(database))
    state = (database / f"{HOST}.yaml").read_bytes()
    for name in (".about.yaml.swp", "4913", "about.yaml~", "noext"):
        (root / HOST / name).write_text("scratch")
        assert (root / HOST / name).read_text() == "scratch"
        assert name in os.listdir(root / HOST)
    os.rename(root / HOST / "4913", root / HOST / "4914")
    assert (root / HOST / "4914").read_text() == "scratch"
    fails(errno.EINVAL, lambda: os.rename(root / HOST / "4914", root / HOST / "new.yaml"))
    assert (database / f"{HOST}.yaml").read_bytes() == state
    (root / HOST / "4914").write_text("x: 1\n")
    os.rename(root / HOST / "4914", root / HOST / "new.yaml")
    changed(database, new="_path: /new\nx: 1\n")
    assert (root / HOST / "new.yaml").read_text() == "_path: /new\nx: 1\n"
    assert sorted(os.listdir(database)) == before
    fails(errno.ENOSPC, lambda: (root / HOST / "huge").write_bytes(bytes(17 << 20)))


def test_a_record_renamed_to_a_backup_is_not_lost(root: Path, database: Path) -> None:
    os.rename(root / HOST / "old.yaml", root / HOST / "old.yaml~")
    assert not (root / HOST / "old.yaml").exists()
    assert (database / f"{HOST}.yaml").read_text() == HARBOUR
    os.rename(root / HOST / "old.yaml~", root / HOST / "old.yaml")
    assert (root / HOST / "old.yaml").exists()
    assert (database / f"{HOST}.yaml").read_text() == HARBOUR
    os.rename(root / HOST / "old.yaml", root / HOST / "old.yaml~")
    os.unlink(root / HOST / "old.yaml~")
    changed(database, old=None)


def test_modes_times_owners_links(root: Path) -> None:
    path = root / HOST / "old.yaml"
    assert path.stat().st_mode & 0o777 == 0o644
    assert (root / HOST).stat().st_mode & 0o777 == 0o755
    os.chmod(path, 0o600)
    os.utime(path, ns=(1, 1_600_000_000_000_000_000))
    assert (path.stat().st_mode & 0o777, path.stat().st_mtime_ns) == (0o600, 1_600_000_000_000_000_000)
    if os.getuid() == 0:
        fails(errno.EPERM, lambda: os.chown(path, 12345, -1))
    fails(errno.EPERM, lambda: os.link(path, root / HOST / "hard.yaml"))
    fails(errno.EPERM, lambda: os.mkfifo(root / HOST / "pipe"))
    fails(errno.EOPNOTSUPP, lambda: os.setxattr(path, "user.mine", b"x"))
    fails(errno.EPERM, lambda: os.symlink("old.yaml", root / HOST / "soft"))


def test_a_read_only_mount_cannot_be_written(database: Path, tmp_path: Path, transport: str) -> None:
    with mounted(database, at=tmp_path / "m", transport=transport) as mount:
        root = mount.path
        assert (root / HOST / "old.yaml").stat().st_mode & 0o777 == 0o444
        fails(errno.EROFS, lambda: (root / HOST / "new.yaml").write_text("x"))
        fails(errno.EROFS, lambda: os.unlink(root / HOST / "old.yaml"))
        fails(errno.EROFS, lambda: os.mkdir(root / "new.example"))
        fails(errno.EROFS, lambda: os.symlink(HOST, root / "new.example"))
        fails(errno.EROFS, lambda: os.rename(root / HOST / "old.yaml", root / HOST / "x.yaml"))


# -- the programs people use --


def test_sed_cp_mv_and_rsync(root: Path, database: Path, tmp_path: Path) -> None:
    run("sed", "-i", "s/301/302/", "old.yaml", cwd=root / HOST)
    changed(database, old="_path: /old\ncontent-type: X-302-Redirect\n")
    (tmp_path / "x.yaml").write_text("x-by: cp\n")
    run("cp", tmp_path / "x.yaml", "copied.yaml", cwd=root / HOST)
    run("mv", "copied.yaml", "moved.yaml", cwd=root / HOST)
    changed(database, old="_path: /old\ncontent-type: X-302-Redirect\n", moved="_path: /moved\nx-by: cp\n")
    run("rsync", "-a", f"{root}/{HOST}/", tmp_path / "copy", cwd=tmp_path)
    (tmp_path / "copy" / "moved.yaml").unlink()
    (tmp_path / "copy" / "old.yaml").write_text("_path: /old\ncontent-type: X-301-Redirect\n")
    run("rsync", "-a", "-c", "--delete", f"{tmp_path}/copy/", f"{root}/{HOST}", cwd=tmp_path)
    assert (database / f"{HOST}.yaml").read_text() == HARBOUR
    run("rsync", "-a", "--inplace", "-I", f"{tmp_path}/copy/", f"{root}/{HOST}", cwd=tmp_path)
    assert (database / f"{HOST}.yaml").read_text() == HARBOUR


def test_sed_on_a_raw_file(root: Path, database: Path) -> None:
    run("sed", "-i", "s/301/307/", f"^raw/{HOST}.yaml", cwd=root)
    assert (database / f"{HOST}.yaml").read_text() == HARBOUR.replace("301", "307")


def test_vim(root: Path, database: Path) -> None:
    if not os.path.exists("/usr/bin/vim"):
        pytest.skip("vim is not installed")
    for extra in ([], ["-c", "set backup"], ["-c", "set backupcopy=yes"]):
        run("vim", "-u", "NONE", "-es", *extra, "-c", "%s/30./302/", "-c", "wq", "old.yaml", cwd=root / HOST)
        changed(database, old="_path: /old\ncontent-type: X-302-Redirect\n")
        run("vim", "-u", "NONE", "-es", *extra, "-c", "%s/30./301/", "-c", "wq", "old.yaml", cwd=root / HOST)
        assert (database / f"{HOST}.yaml").read_text() == HARBOUR


def test_vim_in_a_terminal(root: Path, database: Path) -> None:
    if not os.path.exists("/usr/bin/vim"):
        pytest.skip("vim is not installed")
    terminal(["vim", "-u", "NONE", "-N", "old.yaml"], [b"Gox-by: vim\x1b", b":wq\r"], root / HOST)
    changed(database, old="_path: /old\ncontent-type: X-301-Redirect\nx-by: vim\n")


def test_nano_in_a_terminal(root: Path, database: Path) -> None:
    if not os.path.exists("/usr/bin/nano"):
        pytest.skip("nano is not installed")
    terminal(["nano", "-I", "old.yaml"], [b"\x1b/", b"x-by: nano\r", b"\x0f", b"\r", b"\x18"], root / HOST)
    changed(database, old="_path: /old\ncontent-type: X-301-Redirect\nx-by: nano\n")


def terminal(command: list[str], keys: list[bytes], cwd: Path) -> None:
    """Run an editor in a terminal of its own, type, and wait for its end."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.environ["TERM"] = "xterm"
        os.execvp(tool(command[0]), command)
    out = b""
    try:
        for key in [b"", *keys]:
            os.write(fd, key) if key else None
            out += quiet(fd)
        end = time.monotonic() + 10
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            assert time.monotonic() < end, out
            out += quiet(fd)
    finally:
        os.close(fd)


def quiet(fd: int) -> bytes:
    """Read until nothing comes for a moment."""
    out = b""
    while select.select([fd], [], [], 0.4)[0]:
        try:
            data = os.read(fd, 65536)
        except OSError:
            return out
        if not data:
            return out
        out += data
    return out


def test_changes_from_outside_while_mounted(root: Path, database: Path) -> None:
    done = run_archivefs("urldb", "add", "--offline", database, f"http://{HOST}/outside")
    assert done.returncode == 0, done.stderr
    (root / HOST / "inside.yaml").write_text("x: 1\n")
    changed(database, outside="_path: /outside\n", inside="_path: /inside\nx: 1\n")
    assert wait_until(lambda: (root / HOST / "outside.yaml").exists(), 5)
