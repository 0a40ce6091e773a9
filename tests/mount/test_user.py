"""Mounting as an ordinary user, who goes through fusermount3.

Where the tests run as root, the user is made here: archivefs is copied to where ``nobody`` can read it, and
/dev/fuse is opened to everybody for as long as these tests run.  Where they run as a user, all mount tests are
tests of this already.
"""

from __future__ import annotations

import errno
import importlib.metadata
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.mount.harness import Mount, mount_points, wait_until
from tests.samples.zips import write_tree

NOBODY = 65534
NEEDED = ("click", "PyYAML", "cachetools", "fusepy")
LINES = {"kernel": 1, "fusepy": 2}
"""libfuse prints its reason itself, and only its failure reaches us."""
CONTENT = {"hello.txt": b"hello", "folder": {"deep.txt": b"deep"}}

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="every mount test is one of an ordinary user here")


class User:
    """Where the user's things are and how archivefs is started for them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        os.chown(self.home, NOBODY, NOBODY)
        self.library = folder / "lib"
        copy_packages(self.library)
        self.environment = {"PYTHONPATH": str(self.library), "HOME": str(self.home), "PATH": "/usr/bin:/bin"}
        self.python = self._python()
        self.archive = write_tree(folder / "archive.zip", CONTENT)
        self.archive.chmod(0o644)

    def _python(self) -> str:
        for python in (os.path.realpath(sys.executable), "/usr/bin/python3"):
            try:
                done = self.run("-c", "import archivefs.tree, click, yaml, cachetools", python=python)
            except OSError:
                continue
            if done.returncode == 0:
                return python
        pytest.skip("no Python is readable to an ordinary user here")

    def run(self, *arguments: str | Path, python: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python or self.python, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **self.identity(),
        )

    def identity(self) -> dict:
        return {
            "user": NOBODY,
            "group": NOBODY,
            "extra_groups": [],
            "env": self.environment,
            "cwd": self.home,
            "stdin": subprocess.DEVNULL,
        }

    def mount(self, point: Path, transport: str, options: str = "", **more: object) -> Mount:
        identity = {**self.identity(), **more}
        return Mount(self.archive, at=point, transport=transport, options=options, python=self.python, **identity)


def copy_packages(library: Path) -> None:
    """archivefs and what it needs, where everybody can read it."""
    library.mkdir()
    root = Path(__file__).parents[2]
    shutil.copytree(root / "archivefs", library / "archivefs", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("archivefs", *NEEDED):
        distribution = importlib.metadata.distribution(name)
        for file in distribution.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts and not file.name.startswith("__editable__"):
                target = library / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(distribution.locate_file(file), target)
    for path in [library, *library.rglob("*")]:
        path.chmod(0o755)


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    before = stat.S_IMODE(os.stat("/dev/fuse").st_mode)
    folder = Path(tempfile.mkdtemp(prefix="archivefs-user-"))
    try:
        folder.chmod(0o755)
        os.chmod("/dev/fuse", before | 0o666)
        yield User(folder)
    finally:
        os.chmod("/dev/fuse", before)
        shutil.rmtree(folder)


@pytest.fixture
def mount(user: User, transport: str) -> Iterator[Mount]:
    mount = user.mount(user.home / "mnt", transport).wait_ready()
    yield mount
    mount.end()


def look(user: User, code: str) -> str:
    done = user.run("-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_user_can_mount_read_and_unmount(user: User, mount: Mount) -> None:
    assert look(user, "import os; print(sorted(os.listdir('mnt')))") == "['folder', 'hello.txt']\n"
    assert look(user, "print(open('mnt/folder/deep.txt').read())") == "deep\n"
    assert look(user, "import os; s = os.stat('mnt/hello.txt'); print(s.st_uid, s.st_gid)") == f"{NOBODY} {NOBODY}\n"
    done = user.run("-m", "archivefs", "umount", "mnt")
    assert (done.returncode, done.stderr) == (0, "")
    assert mount.wait_gone() == 0
    assert mount.said() == ""
    assert not (user.home / "mnt").exists()


def test_others_may_not_look_even_root(user: User, mount: Mount) -> None:
    with pytest.raises(PermissionError):
        os.listdir(mount.path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_unmounts_for_a_user_too(mount: Mount, number: signal.Signals) -> None:
    mount.process.send_signal(number)
    assert mount.wait_gone() == 0
    assert str(mount.path) not in mount_points()


def test_a_killed_driver_leaves_nothing_that_hangs(user: User, mount: Mount) -> None:
    mount.process.kill()
    mount.process.wait(10)
    done = user.run("-c", "import os; os.listdir('mnt')")
    assert done.returncode == 1
    assert os.strerror(errno.ENOTCONN) in done.stderr
    assert user.run("-m", "archivefs", "umount", "mnt").returncode == 0
    assert str(mount.path) not in mount_points()
    mount.path.rmdir()  # a killed driver cannot


def test_detaching_works_for_a_user(user: User, transport: str) -> None:
    done = user.run("-m", "archivefs", "mount", "-o", f"transport={transport}", user.archive, "mnt")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    try:
        assert look(user, "print(open('mnt/hello.txt').read())") == "hello\n"
    finally:
        assert user.run("-m", "archivefs", "umount", "mnt").returncode == 0


def test_an_unused_mount_ends_for_a_user_too(user: User, transport: str) -> None:
    mount = user.mount(user.home / "mnt", transport, "idle=2", arguments=["-d"]).wait_ready()
    try:
        standing = subprocess.Popen(
            ["sleep", "60"], **{**user.identity(), "cwd": "/"}, preexec_fn=_stand_in(mount.path)
        )
        try:
            assert wait_until(lambda: "still in use" in mount.said()), mount.said()
            assert mount.is_mounted()
        finally:
            standing.kill()
            standing.wait()
        assert mount.wait_gone() == 0
        assert f"unmounted from {mount.path}, not used for 2 s" in mount.said()
        assert "warning" not in mount.said()
    finally:
        mount.end()


def _stand_in(folder: Path) -> Callable[[], None]:
    """What goes there as the user: root, who starts it, may not."""
    return lambda: os.chdir(folder)


def test_allow_other_needs_leave_of_the_machine(user: User, transport: str) -> None:
    with open("/etc/fuse.conf", encoding="utf-8") as lines:
        allowed = any(line.strip() == "user_allow_other" for line in lines)
    mount = user.mount(user.home / "mnt", transport, "allow_other")
    try:
        if allowed:
            mount.wait_ready()
            assert os.listdir(mount.path)
        else:
            assert mount.process.wait(30) == 1
            assert "user_allow_other" in mount.said()
            assert mount.said().count("\n") == LINES[transport]
            assert not mount.is_mounted()
    finally:
        mount.end()


def test_without_access_to_the_device_the_message_says_so(user: User, transport: str) -> None:
    mode = stat.S_IMODE(os.stat("/dev/fuse").st_mode)
    os.chmod("/dev/fuse", 0o600)
    try:
        done = user.run("-m", "archivefs", "mount", "-o", f"transport={transport}", user.archive, "refused")
    finally:
        os.chmod("/dev/fuse", mode)
    assert done.returncode == 1
    assert "/dev/fuse" in done.stderr
    assert done.stderr.count("\n") == LINES[transport], done.stderr
    assert not (user.home / "refused").exists()
