"""mount(8) itself: ``mount -t archivefs``, lines of /etc/fstab, and its exit codes.

mount(8) looks for helpers in /sbin alone.  Each test therefore has a mount namespace of its own, where /sbin has
nothing but our helper; it ends with all its processes and mounts, and the machine never sees it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mount.harness import tool
from tests.samples import labrador
from tests.samples.zips import write_tree

HELPER = f"""#!{sys.executable}
import sys
from archivefs.__main__ import mount_helper
sys.exit(mount_helper())
"""


class Machine:
    """A folder with an archive and a mount point, and a shell that sees our helper in /sbin."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.archive = write_tree(folder / "site.zip", {"hello.txt": b"hello"})
        (folder / "mnt").mkdir()
        sbin = folder / "sbin"
        sbin.mkdir()
        (sbin / "mount.archivefs").write_text(HELPER)
        (sbin / "mount.archivefs").chmod(0o755)
        (sbin / "mount.fuse.archivefs").symlink_to("mount.archivefs")
        # What is unmounted outside must not live on in here.
        self._unshare = [tool("unshare"), "--propagation", "slave", *([] if os.getuid() == 0 else ["--map-root-user"])]

    def fstab(self, options: str, *, source: str = "site.zip", kind: str = "archivefs") -> None:
        """Make the one line of the table ``fstab``."""
        line = f"{self.folder}/{source} {self.folder}/mnt {kind} {options} 0 0\n"
        (self.folder / "fstab").write_text(line)

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run *script* in the folder, with our /sbin and, if there is one, our fstab."""
        prepare = f"mount --bind {self.folder}/sbin $(realpath /sbin)\ncd {self.folder}\n"
        return subprocess.run(
            [
                *self._unshare,
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "bash",
                "-c",
                prepare + script,
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )

    def printed(self, script: str) -> str:
        """The output of a script that must go well and say nothing else."""
        done = self.run(f"set -e\n{script}")
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


SHOW = "cat mnt/hello.txt; echo; findmnt -no FSTYPE,OPTIONS mnt; umount mnt; ls mnt"


@pytest.mark.parametrize("kind", ["archivefs", "fuse.archivefs", "archivefs.zip"])
def test_mount_finds_the_helper_by_every_type(machine: Machine, kind: str) -> None:
    content, shown = machine.printed(f"mount -t {kind} site.zip mnt -o umask=077\n{SHOW}").splitlines()
    assert content == "hello"
    assert shown.startswith("fuse.archivefs ro,nosuid,nodev")


def test_a_line_of_fstab(machine: Machine) -> None:
    machine.fstab("noauto,user,nofail,_netdev,x-systemd.automount,comment=ours", kind="fuse.archivefs")
    content, shown = machine.printed(f"mount -T fstab {machine.folder}/mnt\n{SHOW}").splitlines()
    assert content == "hello"
    assert "noexec" in shown, "which is what user means"


def test_a_line_of_fstab_can_say_when_it_ends_and_where_it_is_told(machine: Machine) -> None:
    log = machine.folder / "mount.log"
    machine.fstab(f"noauto,idle=2,log_file={log}")
    script = "mount -T fstab mnt; cat mnt/hello.txt; while grep -q $PWD/mnt /proc/self/mounts; do sleep 0.1; done"
    assert machine.printed(script) == "hello"
    ends = [f"mounted on {machine.folder}/mnt", f"unmounted from {machine.folder}/mnt, not used for 2 s"]
    written = log.read_text().splitlines()
    assert written
    assert [line.split("site.zip ")[1] for line in written] == ends[: len(written)], "the last may not be there yet"


def test_the_example_for_systemd_mounts(machine: Machine) -> None:
    """systemd calls mount(8) with what the unit says."""
    unit = (Path(__file__).parents[2] / "contrib" / "systemd" / "srv-site.mount").read_text(encoding="utf-8")
    said = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line and not line.startswith("#"))
    content, shown = machine.printed(f"mount site.zip mnt -t {said['Type']} -o {said['Options']}\n{SHOW}").splitlines()
    assert content == "hello"
    assert {"ro", "noexec", "allow_other"} <= set(shown.split()[1].split(","))


def test_mount_all_knows_what_is_mounted_already(machine: Machine) -> None:
    machine.fstab("defaults")
    script = "mount -a -T fstab; mount -a -T fstab; grep -c $PWD/mnt /proc/self/mounts; umount mnt"
    assert machine.printed(script) == "1\n"


def test_writing_is_asked_for_and_ro_is_stronger(machine: Machine) -> None:
    labrador.write(machine.folder / "island.lbz", labrador.SITE)
    machine.fstab("write", source="island.lbz")
    show = "findmnt -no OPTIONS mnt | cut -d, -f1; umount mnt"
    script = f"mount -T fstab mnt; {show}; mount -T fstab -o ro mnt; {show}; mount -t archivefs island.lbz mnt; {show}"
    assert machine.printed(script) == "rw\nro\nro\n"


def test_a_dry_run_of_mount_mounts_nothing(machine: Machine) -> None:
    assert machine.printed("mount -f -t archivefs site.zip mnt; ls mnt; grep $PWD/mnt /proc/self/mounts || true") == ""


@pytest.mark.parametrize(
    ("call", "code", "says"),
    [
        ("mount -t archivefs site.zip mnt -o nosuch", 1, "archivefs: unknown option 'nosuch'"),
        ("mount -t archivefs fstab mnt", 32, "no format recognises it"),
        ("mount -f -t archivefs missing.zip mnt", 32, "missing.zip"),
        ("mount -t archivefs site.zip mnt && mount -o remount,rw mnt", 1, "cannot be changed"),
    ],
)
def test_what_fails_ends_as_mount_does(machine: Machine, call: str, code: int, says: str) -> None:
    machine.fstab("noauto")
    done = machine.run(call)
    assert done.returncode == code
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_mount_goes_into_another_namespace(machine: Machine) -> None:
    script = f"""
        unshare --mount sleep 30 & other=$!
        until [ "$(readlink /proc/$other/ns/mnt)" != "$(readlink /proc/self/ns/mnt)" ]; do sleep 0.01; done
        mount -N $other -t archivefs {machine.folder}/site.zip {machine.folder}/mnt
        ls mnt
        nsenter -t $other -m ls {machine.folder}/mnt
        nsenter -t $other -m umount {machine.folder}/mnt
        kill $other
    """
    assert machine.printed(script) == "hello.txt\n"


def test_verbose_says_where(machine: Machine) -> None:
    done = machine.run("mount -v -t archivefs site.zip mnt; umount mnt")
    assert f"archivefs: {machine.folder}/site.zip mounted on {machine.folder}/mnt\n" in done.stderr
