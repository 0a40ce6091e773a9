"""What ``status``, ``commit`` and ``discard`` have in common: a mount that is asked, or an archive that is opened.

Given a mount point, the driver there does the work.  Given an archive that nobody has mounted, it is opened here
with what an earlier mount has left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from archivefs.cli.shared import OpenRequest
from archivefs.cli.sources import Plan, archive_source, plan_sources
from archivefs.errors import ArchiveError
from archivefs.format import LEAVE_OUT_RW
from archivefs.fuse.remote import RemoteMount, refuse_dead, remote_mount, remote_mount_of
from archivefs.tree import Tree


def mounted_at_or_none(path: str) -> RemoteMount | None:
    """The mount at *path*, or the read-write mount of the archive at *path*; None for an archive nobody has mounted."""
    refuse_dead(path)
    at_it = remote_mount(path) if os.path.isdir(path) else None
    return at_it or remote_mount_of(path)


def plan_for_changing(path: str, request: OpenRequest) -> Plan:
    """How the archive at *path* is to be opened; raises UsageError if its format cannot be written."""
    planned = plan_sources([archive_source(path, request.format)], request)
    with _said_of_changes():
        planned.check_writable()
    return planned


@contextmanager
def opened_for_changing(planned: Plan, *, ignore_pending: bool = False) -> Iterator[Tree]:
    """The archive that was planned for, with its pending changes; raises what opening it raises."""
    format = planned.sources[0].format
    assert format is not None
    opening = replace(planned.opening(read_write=True), ignore_pending=ignore_pending)
    with _said_of_changes():
        tree = format.open(planned.sources[0].path, planned.settings.apply(opening, format))
    try:
        yield tree
    finally:
        tree.close()


@contextmanager
def _said_of_changes() -> Iterator[None]:
    """Errors inside do not speak of ``rw``, which nobody has asked for."""
    try:
        yield
    except ArchiveError as error:
        if LEAVE_OUT_RW in error.advice:
            error.problem, error.advice = f"{error.problem}, so nothing can be pending", ""
        raise
