"""Getting a FUSE device that is mounted, and giving it back.

Root mounts with mount(2).  Everybody else asks ``fusermount3``, which is set-uid root: it mounts, checks what a
user may do (``/etc/fuse.conf``) and hands the open device back over a socket named by ``_FUSE_COMMFD``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import socket
import stat
import subprocess
from contextlib import suppress

from archivefs.errors import MountRefused
from archivefs.fuse.options import MountOptions
from archivefs.fuse.transport import TransportUnavailable
from archivefs.fuse.unmount import (
    MNT_DETACH,
    MNT_FORCE,
    UMOUNT_NOFOLLOW,
    mounted_at,
    real_mountpoint,
    umount2,
    unmount,
)

DEVICE = "/dev/fuse"
HELPERS = ("fusermount3", "fusermount")
HELPER_TIMEOUT_S = 20

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8


class MountedDevice:
    """An open FUSE device and where it is mounted."""

    def __init__(self, fd: int, mountpoint: str, number: str) -> None:
        self.fd = fd
        self.mountpoint = mountpoint
        self.number = number
        """The device number of the mount ("0:57"), which tells it from any other at the same place."""

    def still_mounted(self) -> bool:
        """Is the topmost mount at the mount point ours?"""
        return _number_of_mount(self.mountpoint) == self.number

    def unmount(self) -> None:
        """Take the mount away, also when it is busy; its users then get errors instead of waiting."""
        if not self.still_mounted():
            return
        try:
            umount2(self.mountpoint, UMOUNT_NOFOLLOW)
        except OSError:
            try:
                # "Force" ends the connection, so that no client waits for us; "detach" works on a busy mount.
                umount2(self.mountpoint, UMOUNT_NOFOLLOW | MNT_FORCE | MNT_DETACH)
            except OSError:
                self._unmount_as_user()

    def _unmount_as_user(self) -> None:
        try:
            unmount(self.mountpoint)
        except MountRefused:
            if self.still_mounted():
                unmount(self.mountpoint, lazy=True)

    def widen_readahead(self, kilobytes: int) -> None:
        """Let the kernel read that far ahead; INIT can only make it less.  Silent where only root may, and does not."""
        with suppress(OSError), open(f"/sys/class/bdi/{self.number}/read_ahead_kb", "w") as setting:
            setting.write(str(kilobytes))

    def close(self) -> None:
        """Close the device; when nobody else has it open, the kernel ends the connection."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def open_mounted(mountpoint: str, options: MountOptions) -> MountedDevice:
    """Mount at *mountpoint*; raises MountRefused, or TransportUnavailable where there is no way to the kernel."""
    at = real_mountpoint(mountpoint)
    if not os.path.exists(DEVICE):
        raise TransportUnavailable(f"there is no {DEVICE}", advice="load the module: modprobe fuse")
    fd = _mounted_by_root(at, options) if os.geteuid() == 0 else None
    if fd is None:
        fd = _mounted_by_helper(at, options)
    return MountedDevice(fd, at, _number_of_mount(at))


# -- root --


def _mounted_by_root(mountpoint: str, options: MountOptions) -> int | None:
    """The device, or None where this root may not mount (a container, say) and the helper is to be asked."""
    try:
        fd = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise TransportUnavailable(f"{DEVICE} cannot be opened: {error.strerror}") from None
    try:
        data = ",".join(_kernel_words(fd, mountpoint, options))
        _mount(options.fsname, mountpoint, f"fuse.{options.subtype}", _mount_flags(options), data)
    except OSError as error:
        os.close(fd)
        if error.errno == errno.EPERM:
            return None
        raise MountRefused(f"it cannot be mounted: {error.strerror}", archive=mountpoint) from None
    return fd


def _kernel_words(fd: int, mountpoint: str, options: MountOptions) -> list[str]:
    mode = stat.S_IFMT(os.stat(mountpoint).st_mode)
    words = [f"fd={fd}", f"rootmode={mode:o}", f"user_id={os.getuid()}", f"group_id={os.getgid()}"]
    return words + _permission_words(options)


def _permission_words(options: MountOptions) -> list[str]:
    words = []
    if options.allow_other or options.allow_root:
        # The kernel knows no "allow_root": the driver's permission bits keep everybody else out.
        words.append("allow_other")
    if options.default_permissions or options.allow_root:
        words.append("default_permissions")
    return words


def _mount_flags(options: MountOptions) -> int:
    flags = MS_NOSUID | MS_NODEV
    if not options.read_write:
        flags |= MS_RDONLY
    if options.no_exec:
        flags |= MS_NOEXEC
    return flags


def _mount(source: str, target: str, kind: str, flags: int, data: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    words = [os.fsencode(text) for text in (source, target, kind)]
    if libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(data)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


# -- everybody else --


def _mounted_by_helper(mountpoint: str, options: MountOptions) -> int:
    helper = next(filter(None, map(shutil.which, HELPERS)), None)
    if helper is None:
        raise TransportUnavailable("only root can mount without fusermount3", advice="install fuse3")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        command = [helper, "-o", ",".join(_helper_words(options)), "--", mountpoint]
        said = _run_helper(command, theirs)
        # Our copy of its end must go, or we would wait for a message nobody will send.
        theirs.close()
        fd = _received(ours)
    if fd is None:
        raise MountRefused(f"it cannot be mounted: {said}", archive=mountpoint, advice=_advice(said))
    return fd


def _helper_words(options: MountOptions) -> list[str]:
    words = ["rw" if options.read_write else "ro", "nosuid", "nodev"]
    if options.no_exec:
        words.append("noexec")
    words += _permission_words(options)
    return [*words, f"fsname={_escaped(options.fsname)}", f"subtype={_escaped(options.subtype)}"]


def _escaped(text: str) -> str:
    """A comma ends an option, and a backslash keeps it from doing so."""
    return text.replace("\\", "\\\\").replace(",", "\\,")


def _run_helper(command: list[str], theirs: socket.socket) -> str:
    """What the helper complained of, in one line."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())},
            pass_fds=[theirs.fileno()],
            timeout=HELPER_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    said = " ".join(done.stderr.decode("utf-8", "replace").split())
    return said or f"{command[0]} ended with {done.returncode}"


def _received(ours: socket.socket) -> int | None:
    """The descriptor the helper sent, or None when it sent none."""
    ours.settimeout(HELPER_TIMEOUT_S)
    with suppress(OSError):
        _, fds, _, _ = socket.recv_fds(ours, 1, 1)
        if fds:
            os.set_inheritable(fds[0], False)
            return fds[0]
    return None


def _advice(said: str) -> str:
    if "user_allow_other" in said:
        return "add the line user_allow_other to /etc/fuse.conf, or mount without allow_other and allow_root"
    if DEVICE in said:
        return f"ask for read and write permission on {DEVICE}"
    return ""


# -- the mount table --


def _number_of_mount(mountpoint: str) -> str:
    """The device number of the topmost mount at *mountpoint*; nothing when there is none."""
    mount = mounted_at(mountpoint)
    return mount.number if mount is not None else ""
