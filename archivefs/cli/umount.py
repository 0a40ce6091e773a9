"""``archivefs umount``."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from archivefs.cli.configuration import configuration_for
from archivefs.cli.progress import Meter
from archivefs.errors import ArchiveError, MountRefused, reason
from archivefs.fuse.remote import RemoteMount, remote_mount
from archivefs.fuse.stale import ASK_S, asked
from archivefs.fuse.unmount import mounted_at, real_mountpoint, unmount

GONE_S = 5.0


@click.command(
    "umount",
    epilog="\b\nExamples:\n  archivefs umount /mnt/site\n  archivefs umount --lazy /mnt/site\n\n\b\n"
    "Exit codes: 0 unmounted, 1 it is in use, nothing is mounted there or changes could not be saved, 2 wrong usage.",
)
@click.argument("places", nargs=-1, required=True, metavar="MOUNTPOINT|NAME...")
@click.option("-z", "--lazy", is_flag=True, help="Take it away now, and let those who still use it finish.")
def command(places: Sequence[str], lazy: bool) -> None:
    """Unmount a folder that archivefs mounted, also one whose driver has died.

    Changes made on a read-write mount are put into the archive first; the command waits for that. A NAME is that of a
    mount in the configuration file, where nothing is mounted at a folder of that name.
    """
    for mountpoint in map(_meant, places):
        mount = None if _silent(mountpoint, lazy=lazy) else remote_mount(mountpoint)
        failure = _commit(mount) if mount is not None and mount.read_write else None
        unmount(mountpoint, lazy=lazy)
        _wait_until_gone(real_mountpoint(mountpoint))
        if mount is not None and not lazy:
            mount.wait_until_ended()
        if failure is not None:
            raise failure


def _meant(place: str) -> str:
    """The mount point at *place*, or that of the mount the configuration calls so."""
    if "/" in place or mounted_at(real_mountpoint(place)) is not None:
        return place
    named = configuration_for(()).mounts.get(place)
    return named.mountpoint if named else place


def _silent(mountpoint: str, *, lazy: bool) -> bool:
    """Does the driver not answer?  Then only a lazy unmount is possible; raises MountRefused for another."""
    at = real_mountpoint(mountpoint)
    silent = mounted_at(at) is not None and asked(at, limit_s=ASK_S) is None
    if silent and not lazy:
        advice = "wait for it, or use --lazy"
        raise MountRefused("its driver does not answer", archive=mountpoint, advice=advice)
    return silent


def _commit(mount: RemoteMount) -> ArchiveError | None:
    """Commit while the driver can still be asked how that went."""
    meter = Meter("saving changes")
    try:
        mount.commit(meter)
    except ArchiveError as error:  # which says already what to do
        return ArchiveError(f"unmounted, but the changes could not be saved: {error}")
    except OSError as error:
        return ArchiveError(
            f"unmounted, but the changes could not be saved: {reason(error)}",
            archive=mount.source,
            advice=f"they are kept; mend the cause and run: archivefs commit {mount.source}",
        )
    finally:
        meter.clear()
    return None


def _wait_until_gone(mountpoint: str) -> None:
    """The kernel is quick, but a script that unmounts and mounts again should not have to guess."""
    end = time.monotonic() + GONE_S
    while mounted_at(mountpoint) is not None and time.monotonic() < end:
        time.sleep(0.01)
