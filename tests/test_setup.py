"""contrib/setup.sh asks for what is missing and for nothing else.

It runs here with a PATH of its own, in which only chosen programs exist and apt-get only writes down how it
was called.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SETUP = ROOT / "contrib" / "setup.sh"
ALWAYS = ("bash", "env", "dirname", "grep", "cat", "cksum", "rm", "touch", "chmod")
PROGRAMS = {
    "fusermount3": "fuse3",
    "rsync": "rsync",
    "getfattr": "attr",
    "unzip": "unzip",
    "zip": "zip",
    "git": "git",
    "vim": "vim",
    "nano": "nano",
    "gio": "libglib2.0-bin",
    "update-mime-database": "shared-mime-info",
    "desktop-file-validate": "desktop-file-utils",
    "xmllint": "libxml2-utils",
    "man": "man-db",
    "zsh": "zsh",
    "fish": "fish",
    "systemd-analyze": "systemd",
}


class Machine:
    """A folder that stands for the programs of a machine."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.log = folder / "log"
        for name in ALWAYS:
            os.symlink(shutil.which(name), self.bin / name)
        self.script("id", "echo 0")
        self.script("ldconfig", "echo '	libfuse.so.2 (libc6) => /lib/libfuse.so.2'")
        self.script("modprobe", "true")
        self.script("apt-cache", "exit 1")
        self.script("apt-get", f'echo "apt-get $*" >> "{self.log}"')

    def script(self, name: str, text: str) -> None:
        (self.bin / name).write_text(f"#!{shutil.which('bash')}\n{text}\n")
        (self.bin / name).chmod(0o755)

    def run(self, part: str = "system") -> subprocess.CompletedProcess[str]:
        # setup.sh adds the sbin folders itself; bash is started by its path, since PATH is our own
        return subprocess.run(
            [shutil.which("bash"), str(SETUP), part],
            env={"PATH": str(self.bin)},
            capture_output=True,
            text=True,
            check=False,
        )

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


INSTALL = "apt-get -qq install -y --no-install-recommends"


def test_nothing_is_asked_for_where_nothing_is_missing(machine: Machine) -> None:
    for name in PROGRAMS:
        machine.script(name, "true")
    assert machine.run().returncode == 0
    assert machine.calls() == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_missing_program_is_one_package(machine: Machine, name: str) -> None:
    for other in PROGRAMS:
        if other != name:
            machine.script(other, "true")
    assert machine.run().returncode == 0
    assert machine.calls() == [f"{INSTALL} {PROGRAMS[name]}"]


def test_the_peers_of_the_benchmark_are_asked_for_where_they_are_missing(machine: Machine) -> None:
    assert machine.run("peers").returncode == 0
    machine.script("fuse-zip", "true")
    assert machine.run("peers").returncode == 0
    machine.script("archivemount", "true")
    assert machine.run("peers").returncode == 0
    assert machine.calls() == [f"{INSTALL} fuse-zip archivemount", f"{INSTALL} archivemount"]


def test_a_file_manager_and_its_screen_are_asked_for_where_they_are_missing(machine: Machine) -> None:
    machine.script("xdotool", "true")
    assert machine.run("desktop").returncode == 0
    machine.script("Xvfb", "true")
    machine.script("pcmanfm", "true")
    assert machine.run("desktop").returncode == 0
    assert machine.calls() == [f"{INSTALL} xvfb pcmanfm adwaita-icon-theme"]


def test_the_old_libfuse_is_found_by_its_library(machine: Machine) -> None:
    for name in PROGRAMS:
        machine.script(name, "true")
    machine.script("ldconfig", "echo '	libfuse3.so.3 (libc6) => /lib/libfuse3.so.3'")
    assert machine.run().returncode == 0
    machine.script("apt-cache", "exit 0")  # as on Debian 13, where it has another name
    assert machine.run().returncode == 0
    assert machine.calls() == [f"{INSTALL} libfuse2", f"{INSTALL} libfuse2t64"]


def test_the_lists_are_fetched_only_when_an_install_failed(machine: Machine, tmp_path: Path) -> None:
    for name in PROGRAMS:
        if name != "zip":
            machine.script(name, "true")
    mark = tmp_path / "updated"
    machine.script(
        "apt-get",
        f'echo "apt-get $*" >> "{machine.log}"\n'
        f'case "$*" in *update*) touch "{mark}" ;; *) [ -e "{mark}" ] || exit 100 ;; esac',
    )
    assert machine.run().returncode == 0
    assert machine.calls() == [f"{INSTALL} zip", "apt-get -qq update", f"{INSTALL} zip"]


def test_a_user_goes_through_sudo_or_is_told(machine: Machine) -> None:
    for name in PROGRAMS:
        if name != "zip":
            machine.script(name, "true")
    machine.script("id", "echo 1000")
    told = machine.run()
    assert told.returncode == 1
    assert machine.calls() == []
    assert "setup: this needs root or sudo: " in told.stderr
    machine.script("sudo", f'echo "sudo $*" >> "{machine.log}"; exec "$@"')
    assert machine.run().returncode == 0
    assert machine.calls() == [f"sudo env DEBIAN_FRONTEND=noninteractive {INSTALL} zip", f"{INSTALL} zip"]


def test_a_machine_without_apt_is_told_what_to_install(machine: Machine) -> None:
    (machine.bin / "apt-get").unlink()
    told = machine.run()
    assert told.returncode == 1
    assert told.stderr == f"setup: please install: {' '.join(PROGRAMS.values())}\n"


def test_the_extra_called_all_names_every_other_one() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    section = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    extras = {line.split("=")[0].strip() for line in section.splitlines() if line[:1].isalpha()}
    every = next(line for line in section.splitlines() if line.startswith("all"))
    named = every.split("archivefs[")[1].split("]")[0].split(",")
    assert {name.strip() for name in named} == extras - {"all", "dev"}
