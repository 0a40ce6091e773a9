"""A mount under a service manager: what it is told and when, and the units in contrib/systemd.

The manager is a socket of the test's own, which speaks the protocol of sd_notify.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from archivefs.cli.notifying import ServiceManager
from tests.mount.harness import Mount, mount_points, run_archivefs, tool
from tests.samples.zips import write_tree

UNITS = Path(__file__).parents[2] / "contrib" / "systemd"
PATIENCE_S = 20.0


class Manager:
    """What systemd is to a service that it waits for."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(PATIENCE_S)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)

    def told(self) -> dict[str, str]:
        """The next message."""
        lines = self._socket.recv(1 << 16).decode().split("\n")
        return dict(line.split("=", 1) for line in lines)

    def told_all(self) -> list[dict[str, str]]:
        """What has come, when no more will."""
        self._socket.settimeout(0.0)
        found = []
        while True:
            try:
                found.append(self.told())
            except BlockingIOError:
                return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    path = str(tmp_path / "notify")
    manager = Manager(path if request.param == "path" else f"@archivefs-test-{os.getpid()}-{tmp_path.name}")
    yield manager
    manager.close()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "archive.zip", {"hello.txt": b"hello"})


def test_ready_is_told_when_it_can_be_used_and_stopping_at_the_end(
    manager: Manager, archive: Path, tmp_path: Path, transport: str
) -> None:
    mount = Mount(archive, at=tmp_path / "mnt", transport=transport, env={"NOTIFY_SOCKET": manager.address})
    try:
        assert manager.told() == {
            "READY": "1",
            "MAINPID": str(mount.process.pid),
            "STATUS": f"{archive} mounted on {mount.path}",
        }
        assert (mount.path / "hello.txt").read_bytes() == b"hello"
        mount.process.send_signal(signal.SIGTERM)
        assert manager.told() == {"STOPPING": "1", "STATUS": f"{archive} is being unmounted from {mount.path}"}
        assert mount.wait_gone() == 0
        assert manager.told_all() == []
    finally:
        mount.end()


def test_a_mount_in_the_background_says_which_process_it_is(manager: Manager, archive: Path, tmp_path: Path) -> None:
    at = tmp_path / "mnt"
    try:
        done = run_archivefs("mount", archive, at, env={**os.environ, "NOTIFY_SOCKET": manager.address})
        assert (done.returncode, done.stderr) == (0, "")
        (told,) = manager.told_all()  # before the process that the manager started has ended
        assert told["READY"] == "1"
        assert told["MAINPID"] == str(json.loads((at / ".archivefs" / "status.json").read_bytes())["pid"])
        assert run_archivefs("umount", at).returncode == 0
        assert manager.told()["STOPPING"] == "1"
    finally:
        if str(at) in mount_points():
            subprocess.run(["fusermount3", "-uz", str(at)], check=False)


@pytest.mark.parametrize("foreground", [True, False])
def test_ready_is_not_told_when_the_mount_fails(
    manager: Manager, archive: Path, tmp_path: Path, foreground: bool
) -> None:
    at = tmp_path / "mnt"
    at.mkdir()
    (at / "something").touch()
    words = ["mount", *(["-f"] if foreground else []), archive, at]
    done = run_archivefs(*words, env={**os.environ, "NOTIFY_SOCKET": manager.address})
    assert done.returncode == 1
    assert manager.told_all() == [{"STATUS": f"{at}: the mount point is not empty; name an empty or new folder"}]


def test_what_we_start_is_not_told_of_the_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = Manager(str(tmp_path / "notify"))
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    service = ServiceManager.of_environment()
    assert "NOTIFY_SOCKET" not in os.environ
    service.tell("a\nREADY=1")
    assert manager.told_all() == [{"STATUS": "a\\nREADY=1"}]
    manager.close()


@pytest.mark.parametrize(
    "address", ["", "nothing", "/nowhere/notify", "@nobody-listens-here", "vsock:2:3", "/" + "x" * 200]
)
def test_a_manager_that_is_not_there_is_no_failure(address: str) -> None:
    ServiceManager(address).tell("on we go", READY=1)


# -- the units --


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units, with the archivefs of this checkout in them, which need not be installed."""
    program = tmp_path / "archivefs"
    program.write_text(f"#!{sys.executable}\n")
    program.chmod(0o755)
    folder = tmp_path / "units"
    folder.mkdir()
    for unit in UNITS.iterdir():
        text = unit.read_text(encoding="utf-8")
        (folder / unit.name).write_text(text.replace("ExecStart=archivefs ", f"ExecStart={program} "), encoding="utf-8")
    return folder


@pytest.mark.parametrize("call", ["--user archivefs@island.service", "--system srv-site.mount srv-site.automount"])
def test_systemd_has_nothing_to_say_against_the_units(units: Path, call: str) -> None:
    flag, *names = call.split()
    done = subprocess.run(
        [tool("systemd-analyze"), "verify", "--man=no", flag, *(str(units / name) for name in names)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "XDG_RUNTIME_DIR": str(units)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_service_says_what_can_be_said_on_the_command_line(archive: Path, tmp_path: Path) -> None:
    """Its words, run as they are, with a mount of that name in the configuration."""
    (line,) = re.findall(
        r"^ExecStart=archivefs (.*)$", (UNITS / "archivefs@.service").read_text(encoding="utf-8"), re.M
    )
    config = tmp_path / "archivefs" / "config.yaml"
    config.parent.mkdir()
    at = tmp_path / "mnt"
    config.write_text(f"mounts: {{island: {{sources: {archive}, mountpoint: {at}}}}}\n")
    manager = Manager(str(tmp_path / "notify"))
    process = subprocess.Popen(
        [sys.executable, "-m", "archivefs", *line.replace("%i", "island").split()],
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "NOTIFY_SOCKET": manager.address},
        stderr=subprocess.DEVNULL,
    )
    try:
        assert manager.told()["MAINPID"] == str(process.pid)
        assert (at / "hello.txt").read_bytes() == b"hello"
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
        assert str(at) not in mount_points()
    finally:
        process.kill()
        process.wait()
        if str(at) in mount_points():
            subprocess.run(["fusermount3", "-uz", str(at)], check=False)
        manager.close()
