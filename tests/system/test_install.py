"""``make install-system`` into a folder that stands for another machine, the program in it, and its end."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from archivefs import __version__
from archivefs.registry import formats
from contrib.install import __main__ as command
from contrib.install import places as install_places
from contrib.install import telling
from contrib.install.building import closed_folder
from contrib.install.extras import EXAMPLES, UNITS, units
from contrib.install.places import Places, Refused
from contrib.install.placing import put, read_manifest, remove_folders, take_away
from tests.mount.harness import mount_points, tool
from tests.samples.site import write_all

ROOT = Path(__file__).parents[2]


class Machine:
    """The folders of a machine that is not there yet, and DESTDIR, where it is made."""

    def __init__(self, folder: Path) -> None:
        self.destdir = folder / "staged"
        self.prefix = folder / "usr"
        self.sbin = folder / "sbin"

    def make(self, target: str) -> subprocess.CompletedProcess[str]:
        words = [f"DESTDIR={self.destdir}", f"PREFIX={self.prefix}", f"SBINDIR={self.sbin}"]
        command = [tool("make"), "-s", "-C", ROOT, target, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    def staged(self, path: Path) -> Path:
        return self.destdir / path.relative_to("/")

    def everything(self) -> list[Path]:
        return sorted(self.destdir.rglob("*"))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    done = machine.make("install-system")
    assert done.returncode == 0, done.stderr
    # As a package is unpacked: what was made in DESTDIR is copied to where it belongs.
    for folder in (machine.prefix, machine.sbin):
        shutil.copytree(machine.staged(folder), folder, symlinks=True)
    return machine


def run(machine: Machine, *words: str | Path, cwd: Path) -> str:
    """What an installed command prints; a module of ours that lies in the way, or in PYTHONPATH, must not count."""
    (cwd / "archivefs.py").write_text("raise SystemExit('the wrong module')")
    env = {"PATH": f"{machine.prefix}/bin:/usr/bin:/bin", "PYTHONPATH": str(cwd), "HOME": str(cwd), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_nothing_in_it_knows_where_it_was_made(machine: Machine) -> None:
    marks = (os.fsencode(machine.destdir), os.fsencode(ROOT))
    files = [path for path in machine.everything() if path.is_file()]
    assert [path for path in files if any(mark in path.read_bytes() for mark in marks)] == []


def test_everything_is_where_it_is_looked_for(machine: Machine) -> None:
    share = machine.prefix / "share"
    for name in (
        "man/man1/archivefs.1",
        "man/man8/mount.fuse.archivefs.8",
        "bash-completion/completions/archivefs",
        "zsh/site-functions/_archivefs",
        "fish/vendor_completions.d/archivefs.fish",
        "mime/packages/archivefs.xml",
        "applications/archivefs.desktop",
        "kio/servicemenus/archivefs-servicemenu.desktop",
        "archivefs/Mount with archivefs",
        "doc/archivefs/README.md",
    ):
        assert (share / name).is_file(), name
    for path, folder in units(ROOT / "contrib" / "systemd"):
        assert (machine.prefix / folder / path.name).is_file()
    for path in machine.everything():
        assert path.is_symlink() or path.stat().st_mode & 0o777 in (0o755, 0o644), path
    assert os.access(share / "archivefs" / "Mount with archivefs", os.X_OK)


def test_units_are_sorted_by_kind(tmp_path: Path) -> None:
    for name in ("archivefs@.service", "site.mount", "site.automount", "notes.txt"):
        (tmp_path / name).touch()
    assert {path.name: folder for path, folder in units(tmp_path)} == {
        "archivefs@.service": UNITS,
        "site.mount": EXAMPLES,
        "site.automount": EXAMPLES,
        "notes.txt": EXAMPLES,
    }


def test_a_python_that_others_cannot_reach_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "home" / "bin").mkdir(parents=True)
    (tmp_path / "home").chmod(0o700)
    assert closed_folder(tmp_path / "home" / "bin" / "python3") == tmp_path / "home"
    assert closed_folder(Path("/usr/bin/python3")) is None


def test_the_installed_program_has_everything_it_needs(machine: Machine, tmp_path: Path) -> None:
    write_all(tmp_path)
    assert run(machine, machine.prefix / "bin" / "archivefs", "--version", cwd=tmp_path) == f"archivefs {__version__}\n"
    assert "style.css" in run(machine, "archivefs", "tree", "site.zip", cwd=tmp_path)
    told = run(machine, "archivefs", "formats", cwd=tmp_path)
    assert all(f"{name}: " in told for name in formats())
    assert "cannot be" not in told
    # a process of its own, which looks for its libraries by itself
    assert "people" in run(machine, "archivefs", "tree", "-L", "2", "library.lmdb", cwd=tmp_path)


@pytest.fixture
def point(tmp_path: Path) -> Iterator[Path]:
    point = tmp_path / "point"
    yield point
    if str(point) in mount_points():
        subprocess.run(["fusermount3", "-uz", point], timeout=10, check=False)


@pytest.mark.fuse
@pytest.mark.parametrize("name", ["mount.archivefs", "mount.fuse.archivefs"])
def test_the_installed_helper_mounts(machine: Machine, tmp_path: Path, point: Path, name: str) -> None:
    write_all(tmp_path)
    run(machine, machine.sbin / name, "site.zip", str(point), "-o", "rw,nofail", cwd=tmp_path)
    assert (point / "style.css").is_file()
    run(machine, "archivefs", "umount", str(point), cwd=tmp_path)
    assert not point.exists()


def test_man_and_the_shells_find_what_was_installed(machine: Machine) -> None:
    env = {**os.environ, "MANPATH": str(machine.prefix / "share" / "man"), "LC_ALL": "C.UTF-8"}
    for name in ("archivefs", "archivefs-mount", "mount.fuse.archivefs", "archivefs.yaml"):
        found = subprocess.run(
            [tool("man"), "-w", name], env=env, capture_output=True, text=True, timeout=30, check=True
        )
        assert str(machine.prefix) in found.stdout
    path = f"{machine.prefix}/bin:{os.environ['PATH']}"
    env = {**os.environ, "XDG_DATA_DIRS": str(machine.prefix / "share"), "PATH": path}
    offered = subprocess.run(
        [tool("fish"), "-c", "complete -C 'archivefs unp'"],
        env=env,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert offered.stdout.startswith("unpack\t")


def test_a_second_time_replaces_it_and_the_end_leaves_nothing(machine: Machine) -> None:
    old = machine.staged(machine.prefix / "share" / "older" / "file")
    old.parent.mkdir()
    old.touch()
    manifest = machine.staged(machine.prefix / "lib" / "archivefs" / "manifest")
    lines = manifest.read_text()
    manifest.write_text(f"{machine.prefix}/share/older/\n{lines}{machine.prefix}/share/older/file\n")
    done = machine.make("install-system")
    assert (done.returncode, done.stdout) == (
        0,
        f"archivefs is installed: {machine.staged(machine.prefix)}/bin/archivefs\n",
    )
    assert not old.parent.exists()
    assert sorted(manifest.read_text().splitlines()) == sorted(lines.splitlines())
    done = machine.make("uninstall-system")
    assert (done.returncode, done.stdout) == (0, f"archivefs is gone from {machine.staged(machine.prefix)}\n")
    assert machine.everything() == []
    done = machine.make("uninstall-system")
    assert done.returncode != 0
    assert f"archivefs: there is no archivefs in {machine.staged(machine.prefix)}\n" in done.stderr


# -- small trees --


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(prefix=Path("/usr"), sbin=Path("/sbin"), destdir=tmp_path / "there")


def made(tmp_path: Path, *names: str) -> Path:
    root = tmp_path / "made"
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def test_what_others_have_put_into_our_folders_stays(places: Places, tmp_path: Path) -> None:
    put(made(tmp_path, "usr/share/a/ours", "usr/share/b/ours"), places)
    theirs = places.now(Path("/usr/share/a/theirs"))
    theirs.touch()
    remove_folders(take_away(places), places)
    assert sorted(path.name for path in places.now(Path("/usr/share")).rglob("*")) == ["a", "theirs"]
    assert read_manifest(places).files == ()


def test_lists_go_with_us_and_what_others_have_put_beside_them_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the machine itself, where the tools of desktops make lists of what is there."""
    really_run = telling._run
    monkeypatch.setattr(telling, "_run", lambda name, *words: None if name == "mandb" else really_run(name, *words))
    for others in (False, True):
        prefix = tmp_path / f"others-{others}"
        places = Places(prefix=prefix, sbin=prefix / "sbin", destdir=None)
        root = tmp_path / f"root-{others}"
        for source, folder in (
            ("mime/archivefs.xml", "share/mime/packages"),
            ("desktop/archivefs.desktop", "share/applications"),
        ):
            target = root / prefix.relative_to("/") / folder / Path(source).name
            target.parent.mkdir(parents=True)
            shutil.copy(ROOT / "contrib" / source, target)
        put(root, places)
        telling.tell(places)
        assert (prefix / "share/mime/mime.cache").exists() and (prefix / "share/applications/mimeinfo.cache").exists()
        theirs = [prefix / "share/applications" / name for name in ("mimeapps.list", "kde/own.desktop")]
        for path in theirs if others else ():
            path.parent.mkdir(exist_ok=True)
            path.write_text("[Default Applications]\n")
        gone = take_away(places)
        telling.tell_of_the_end(places, gone)
        remove_folders(gone, places)
        left = sorted(path for path in prefix.rglob("*") if not path.is_dir())
        assert left == (theirs[::-1] if others else [])
        assert prefix.exists() == others


def test_what_others_have_put_in_our_place_is_not_replaced(places: Places, tmp_path: Path) -> None:
    theirs = places.now(Path("/usr/bin/archivefs"))
    theirs.parent.mkdir(parents=True)
    theirs.write_text("theirs")
    with pytest.raises(Refused, match="is there already, and not of archivefs"):
        put(made(tmp_path, "usr/bin/archivefs", "usr/bin/b"), places)
    assert [path.name for path in theirs.parent.iterdir()] == ["archivefs"]
    assert theirs.read_text() == "theirs"


def test_an_interrupted_installation_can_be_taken_away(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = made(tmp_path, "usr/a", "usr/b", "usr/c")
    with monkeypatch.context() as patch:
        patch.setattr("shutil.copy2", lambda source, target: (_ for _ in ()).throw(OSError("no space")))
        with pytest.raises(OSError, match="no space"):
            put(root, places)
    remove_folders(take_away(places), places)
    assert list(places.now(Path("/")).rglob("*")) == []


@pytest.mark.parametrize(
    ("prefix", "told"),
    [
        (
            "/usr/local",
            "you may not write in /usr/local and /sbin: use sudo, or another PREFIX and SBINDIR, or DESTDIR",
        ),
        ("usr", "usr: an absolute path without spaces is needed"),
        ("/my programs", "/my programs: an absolute path without spaces is needed"),
    ],
)
def test_one_line_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], prefix: str, told: str
) -> None:
    monkeypatch.setattr(install_places.os, "access", lambda path, mode: False)  # as for a user who is not root
    monkeypatch.setattr("sys.argv", ["install", "--prefix", prefix])
    assert command.main() == 1
    assert capsys.readouterr() == ("", f"archivefs: {told}\n")
