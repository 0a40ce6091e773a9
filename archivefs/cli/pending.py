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
from archivefs.cli.sources import archive_source, plan_sources
from archivefs.errors import UsageError
from archivefs.fuse.remote import RemoteMount, refuse_dead, remote_mount, remote_mount_of
from archivefs.tree import Tree


def mounted_at_or_none(path: str) -> RemoteMount | None:
    """The mount at *path*, or the read-write mount of the archive at *path*; None for an archive nobody has mounted."""
    refuse_dead(path)
    at_it = remote_mount(path) if os.path.isdir(path) else None
    return at_it or remote_mount_of(path)


@contextmanager
def opened_for_changing(path: str, request: OpenRequest, *, ignore_pending: bool = False) -> Iterator[Tree]:
    """The archive at *path* with its pending changes; raises UsageError if its format has no such thing."""
    planned = plan_sources([archive_source(path, request.format)], request)
    planned.check_writable()
    format = planned.sources[0].format
    if format is None:
        raise UsageError("neither an archive nor a mount point", archive=path)
    opening = replace(planned.opening(read_write=True), ignore_pending=ignore_pending)
    tree = format.open(planned.sources[0].path, planned.settings.apply(opening, format))
    try:
        yield tree
    finally:
        tree.close()
