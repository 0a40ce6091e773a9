"""Mounting without mounting: what root tells the kernel, what a user tells fusermount3, what comes back."""

from __future__ import annotations

import errno
import os
import shlex
import stat
import sys
from pathlib import Path

import pytest

from archivefs.errors import MountRefused
from archivefs.fuse.kernel import device
from archivefs.fuse.kernel.device import MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY, MountedDevice, open_mounted
from archivefs.fuse.options import MountOptions
from archivefs.fuse.transport import TransportUnavailable

HELPER = """
import array, os, socket, sys
with open({log!r}, "w") as log:
    print(*sys.argv[1:], sep="\\n", file=log)
if {complaint!r}:
    sys.exit("fusermount3: " + {complaint!r})
end = socket.socket(fileno=int(os.environ["_FUSE_COMMFD"]))
fd = os.open(os.devnull, os.O_RDWR)
end.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
"""


@pytest.fixture
def no_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(device, "DEVICE", os.devnull)


def install_helper(folder: Path, monkeypatch: pytest.MonkeyPatch, *, complaint: str = "") -> Path:
    helper = folder / "bin" / "fusermount3"
    helper.parent.mkdir()
    program = helper.with_suffix(".py")
    program.write_text(HELPER.format(log=str(folder / "asked"), complaint=complaint))
    # By way of the shell: a line with #! cannot name a Python in a folder with a space.
    helper.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -IS {shlex.quote(str(program))} "$@"\n')
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{helper.parent}:{os.environ['PATH']}")
    return folder / "asked"


# -- a user --


def test_the_helper_hands_over_a_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_root: None) -> None:
    asked = install_helper(tmp_path, monkeypatch)
    options = MountOptions(fsname="a,b\\c", subtype="x", allow_other=True, default_permissions=True, no_exec=True)
    mounted = open_mounted(str(tmp_path / "m"), options)
    try:
        assert stat.S_ISCHR(os.fstat(mounted.fd).st_mode)
        assert not os.get_inheritable(mounted.fd)
        assert asked.read_text().splitlines() == [
            "-o",
            "ro,nosuid,nodev,noexec,allow_other,default_permissions,fsname=a\\,b\\\\c,subtype=x",
            "--",
            str(tmp_path / "m"),
        ]
    finally:
        mounted.close()
    mounted.close()  # twice is fine


@pytest.mark.parametrize(
    ("complaint", "advice"),
    [
        (
            "option allow_other only allowed if 'user_allow_other' is set in /etc/fuse.conf",
            "add the line user_allow_other",
        ),
        (f"failed to open {os.devnull}: Permission denied", "ask for read and write permission"),
        ("mount failed: Invalid argument", ""),
    ],
)
def test_what_the_helper_says_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_root: None, complaint: str, advice: str
) -> None:
    install_helper(tmp_path, monkeypatch, complaint=complaint)
    with pytest.raises(MountRefused) as caught:
        open_mounted(str(tmp_path / "m"), MountOptions())
    assert complaint in str(caught.value)
    assert caught.value.advice.startswith(advice)
    assert bool(caught.value.advice) is bool(advice)
    assert not isinstance(caught.value, TransportUnavailable)


def test_without_a_helper_there_is_no_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_root: None) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TransportUnavailable, match="only root can mount"):
        open_mounted(str(tmp_path / "m"), MountOptions())


def test_without_the_device_there_is_no_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "DEVICE", str(tmp_path / "fuse"))
    with pytest.raises(TransportUnavailable, match="there is no"):
        open_mounted(str(tmp_path / "m"), MountOptions())


# -- root --


@pytest.fixture
def asked_of_kernel(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    asked: list[tuple] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(device, "DEVICE", os.devnull)
    monkeypatch.setattr(device, "_mount", lambda *words: asked.append(words))
    return asked


def test_root_asks_the_kernel(tmp_path: Path, asked_of_kernel: list[tuple]) -> None:
    mounted = open_mounted(str(tmp_path), MountOptions(fsname="site.zip", subtype="archivefs"))
    mounted.close()
    [(source, target, kind, flags, data)] = asked_of_kernel
    assert (source, target, kind) == ("site.zip", str(tmp_path), "fuse.archivefs")
    assert flags == MS_RDONLY | MS_NOSUID | MS_NODEV
    words = data.split(",")
    assert words[1:] == ["rootmode=40000", f"user_id={os.getuid()}", f"group_id={os.getgid()}"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"allow_other": True, "default_permissions": True}, ["allow_other", "default_permissions"]),
        ({"allow_root": True}, ["allow_other", "default_permissions"]),
        ({"default_permissions": True}, ["default_permissions"]),
    ],
)
def test_permissions_are_words(tmp_path: Path, asked_of_kernel: list[tuple], options: dict, words: list[str]) -> None:
    open_mounted(str(tmp_path), MountOptions(**options)).close()
    assert asked_of_kernel[0][4].split(",")[4:] == words


def test_flags(tmp_path: Path, asked_of_kernel: list[tuple]) -> None:
    open_mounted(str(tmp_path), MountOptions(read_write=True, no_exec=True)).close()
    assert asked_of_kernel[0][3] == MS_NOSUID | MS_NODEV | MS_NOEXEC


def test_root_only_means_root_and_the_owner() -> None:
    """The kernel knows no such thing, so it is the permission bits that say it."""
    options = MountOptions.from_values({"allow_root": True, "umask": 0o002})
    assert (options.fmask, options.dmask) == (0o077, 0o077)
    options = MountOptions.from_values({"allow_root": True, "allow_other": True, "umask": 0o002})
    assert (options.fmask, options.dmask) == (0o002, 0o002)


def test_a_root_that_may_not_mount_asks_the_helper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_of_kernel: list[tuple]
) -> None:
    def refuse(*_words: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(device, "_mount", refuse)
    asked = install_helper(tmp_path, monkeypatch)
    open_mounted(str(tmp_path), MountOptions()).close()
    assert asked.exists()


def test_a_reason_of_the_kernel_is_told(tmp_path: Path, monkeypatch, asked_of_kernel: list[tuple]) -> None:
    def refuse(*_words: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(device, "_mount", refuse)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(MountRefused, match="busy"):
        open_mounted(str(tmp_path), MountOptions())
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_not_ours_is_not_unmounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_words: object) -> None:
        raise AssertionError("something else would have been unmounted")

    monkeypatch.setattr(device, "umount2", forbidden)
    monkeypatch.setattr(device, "unmount", forbidden)
    MountedDevice(-1, str(tmp_path), "0:12345").unmount()
    MountedDevice(-1, "/proc", "0:12345").unmount()
