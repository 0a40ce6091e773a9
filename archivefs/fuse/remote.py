"""Talking to a mount from another process, through its ``.archivefs/``: what is pending, commit, discard."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable
from typing import Any

from archivefs.errors import ArchiveError, MountRefused
from archivefs.fuse.control import CONTROL_NAME
from archivefs.fuse.unmount import Mount, mounted_at, mounts, real_mountpoint

POLL_S = 0.1
DEAD = (errno.ENOTCONN, errno.ECONNABORTED)
"""What a mount whose driver has died answers."""


class RemoteMount:
    """A mount of archivefs, seen from outside."""

    def __init__(self, mountpoint: str, status: dict[str, Any]) -> None:
        self.mountpoint = mountpoint
        self.pid = int(status.get("pid", 0))
        self.read_write = status.get("mode") == "rw"
        self.source = str(status.get("source", ""))

    def pending(self) -> list[str]:
        """A line for each change that is not in the archive yet."""
        with open(self._path("pending"), encoding="utf-8") as file:
            return file.read().splitlines()

    def commit(self, progress: Callable[[int, int], None]) -> None:
        """Commit and wait until that is done; raises with the driver's own words when it fails."""
        try:
            self._command("commit")
            self._follow(progress)
        except OSError as error:
            if error.errno not in DEAD:
                raise
            raise _died(self.mountpoint, f"archivefs commit {self.source}") from None

    def _follow(self, progress: Callable[[int, int], None]) -> None:
        while True:
            commit = self.status()["commit"]
            progress(commit["done"], commit["total"])
            if commit["state"] == "failed":
                raise ArchiveError(commit["error"])
            if commit["state"] != "running":
                return
            time.sleep(POLL_S)

    def check_writable(self) -> None:
        """Raises MountRefused for a read-only mount."""
        if not self.read_write:
            raise MountRefused("it is mounted read-only, so nothing is pending", archive=self.mountpoint)

    def discard(self) -> None:
        """Throw away what is pending."""
        self._command("discard")

    def status(self) -> dict[str, Any]:
        """What ``status.json`` says now."""
        with open(self._path("status.json"), encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
        return found

    def wait_until_ended(self) -> None:
        """Return when the driver's process is gone."""
        while self.pid and _runs(self.pid):
            time.sleep(0.02)

    def _command(self, text: str) -> None:
        self.check_writable()
        with open(self._path("control"), "w", encoding="utf-8") as file:
            file.write(text)

    def _path(self, name: str) -> str:
        return os.path.join(self.mountpoint, CONTROL_NAME, name)


def _runs(pid: int) -> bool:
    """Is the process there?  One that has ended and that nobody has asked about (a zombie) is not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except (OSError, IndexError):
        return False


def refuse_dead(path: str) -> None:
    """Raises MountRefused if *path* is a mount whose driver has died."""
    try:
        os.stat(path)
    except OSError as error:
        if error.errno in DEAD:
            raise _died(path, "try again with the archive") from None


def _died(mountpoint: str, then: str) -> MountRefused:
    advice = f"what was saved is kept; run archivefs umount {mountpoint}, then {then}"
    return MountRefused("the driver of this mount has died", archive=mountpoint, advice=advice)


def remote_mount(path: str) -> RemoteMount | None:
    """The mount at *path*, or None when nothing of ours that answers is mounted there."""
    at = real_mountpoint(path)
    mount = mounted_at(at) or mounted_at(os.path.realpath(at))
    return _asked(mount) if mount is not None and mount.type.startswith("fuse") else None


def remote_mount_of(archive: str) -> RemoteMount | None:
    """A read-write mount of *archive*, wherever it is, or None."""
    path = os.path.abspath(archive)
    # The source in the mount table may have been named otherwise (-o fsname), so that one is not found.
    candidates = (mount for mount in mounts() if mount.type.startswith("fuse.") and mount.source == path)
    found = (remote for remote in map(_asked, candidates) if remote is not None)
    return next((remote for remote in found if remote.read_write and remote.source == path), None)


def _asked(mount: Mount) -> RemoteMount | None:
    try:
        with open(os.path.join(mount.mountpoint, CONTROL_NAME, "status.json"), encoding="utf-8") as file:
            return RemoteMount(mount.mountpoint, json.load(file))
    except (OSError, ValueError):
        return None
