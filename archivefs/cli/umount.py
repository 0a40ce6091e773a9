"""``archivefs umount``."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from archivefs.fuse.unmount import mounted_at, real_mountpoint, unmount

GONE_S = 5.0


@click.command(
    "umount",
    epilog="\b\nExamples:\n  archivefs umount /mnt/site\n  archivefs umount --lazy /mnt/site\n\n\b\n"
    "Exit codes: 0 unmounted, 1 it is in use or nothing is mounted there, 2 wrong usage.",
)
@click.argument("mountpoints", nargs=-1, required=True, metavar="MOUNTPOINT...")
@click.option("-z", "--lazy", is_flag=True, help="Take it away now, and let those who still use it finish.")
def command(mountpoints: Sequence[str], lazy: bool) -> None:
    """Unmount a folder that archivefs mounted, also one whose driver has died."""
    for mountpoint in mountpoints:
        unmount(mountpoint, lazy=lazy)
        _wait_until_gone(real_mountpoint(mountpoint))


def _wait_until_gone(mountpoint: str) -> None:
    """The kernel is quick, but a script that unmounts and mounts again should not have to guess."""
    end = time.monotonic() + GONE_S
    while mounted_at(mountpoint) is not None and time.monotonic() < end:
        time.sleep(0.01)
