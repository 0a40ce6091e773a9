"""What is mounted where, and taking it down.  Never touches the mount point itself: its driver may be dead."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import subprocess
from typing import NamedTuple

from archivefs.errors import MountRefused

UNMOUNT_TIMEOUT_S = 10

MNT_FORCE, MNT_DETACH, UMOUNT_NOFOLLOW = 1, 2, 8


class Mount(NamedTuple):
    """One line of the mount table."""

    mountpoint: str
    type: str
    source: str
    number: str = ""
    """The number of its device, which tells it from an earlier mount at the same place."""


def mounts() -> list[Mount]:
    """The mount table of this process, in the order of mounting."""
    found = []
    with open("/proc/self/mountinfo", "rb") as table:
        for line in table:
            words, _, rest = line.partition(b" - ")
            kind, source = rest.split()[:2]
            number, _, where = words.split()[2:5]
            found.append(Mount(_unescaped(where), _unescaped(kind), _unescaped(source), number.decode("ascii")))
    return found


def mounted_at(mountpoint: str) -> Mount | None:
    """The topmost mount at *mountpoint* (an absolute path without symbolic links), or None."""
    return next((mount for mount in reversed(mounts()) if mount.mountpoint == mountpoint), None)


def real_mountpoint(path: str) -> str:
    """*path*, absolute and with the links of its folder resolved; the last component is not looked at."""
    folder, name = os.path.split(os.path.abspath(path).rstrip("/") or "/")
    return os.path.join(os.path.realpath(folder), name)


def unmount(mountpoint: str, *, lazy: bool = False) -> None:
    """Unmount by whatever means there are; raises MountRefused with the reason of the last one tried."""
    at = real_mountpoint(mountpoint)
    mount = mounted_at(at) or mounted_at(os.path.realpath(at))
    if mount is None:
        raise MountRefused("nothing is mounted there", archive=mountpoint)
    if not mount.type.startswith("fuse"):
        raise MountRefused(f"that is a mount of type {mount.type}, not one of archivefs", archive=mountpoint)
    reason = "no program to unmount with was found"
    for command in _commands(mount.mountpoint, lazy=lazy):
        reason = _tried(command)
        if not reason or mounted_at(mount.mountpoint) is None:
            return
    advice = "close what uses it and try again, or use --lazy" if "busy" in reason else ""
    raise MountRefused(f"it cannot be unmounted: {reason}", archive=mountpoint, advice=advice)


def unmount_unused(mountpoint: str) -> bool:
    """Unmount what nobody uses; False if somebody does.  Raises MountRefused when it fails for another reason."""
    try:
        umount2(mountpoint, UMOUNT_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        return _unmount_unused_as_user(mountpoint)
    return True


def _unmount_unused_as_user(mountpoint: str) -> bool:
    try:
        unmount(mountpoint)
    except MountRefused as error:
        if "busy" in str(error):
            return False
        raise
    return True


def umount2(target: str, flags: int) -> None:
    """The system call; raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(os.fsencode(target), flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _commands(mountpoint: str, *, lazy: bool) -> list[list[str]]:
    fusermount = [["fusermount3", "-u"], ["fusermount", "-u"]]
    umount = [["umount"]]
    tools = umount + fusermount if os.getuid() == 0 else fusermount + umount
    flag = {"fusermount3": "-z", "fusermount": "-z", "umount": "-l"}
    return [
        [*tool, *([flag[tool[0]]] if lazy else []), "--", mountpoint]
        for tool in tools
        if shutil.which(tool[0]) is not None
    ]


def _tried(command: list[str]) -> str:
    """Nothing when *command* worked, otherwise what it said, in one line."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=UNMOUNT_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    return " ".join(done.stderr.split()).rstrip(".") or f"{command[0]} failed with exit code {done.returncode}"


def _unescaped(word: bytes) -> str:
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), word))
