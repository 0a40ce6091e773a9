"""The options of a mount, as the user writes them after ``-o``."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from archivefs import options
from archivefs.options import DEFAULT_CACHE_SIZE, DEFAULT_TIMEOUT_S, Option


def _option(name: str, help: str, **more: Any) -> Option:
    return Option(name=name, help=help, **more)


MOUNT_OPTIONS = (
    _option("ro", "read-only (the default)"),
    _option("rw", "read-write, for formats that can be written"),
    _option("uid", "owner of everything", parse=options.owner, metavar="UID"),
    _option("gid", "group of everything", parse=options.owner, metavar="GID"),
    _option("umask", "permission bits taken away", parse=options.octal, metavar="MASK"),
    _option("fmask", "the same, for files", parse=options.octal, metavar="MASK"),
    _option("dmask", "the same, for directories", parse=options.octal, metavar="MASK"),
    _option("allow_other", "other users may look too"),
    _option("allow_root", "root may look too"),
    _option("default_permissions", "the kernel checks the permission bits"),
    _option("fsname", "what /proc/mounts calls the source", parse=str, metavar="NAME"),
    _option("subtype", "what /proc/mounts calls the type", parse=str, metavar="NAME", default="archivefs"),
    _option(
        "transport",
        "how to speak to the kernel",
        parse=options.one_of("auto", "kernel", "fusepy"),
        metavar="auto|kernel|fusepy",
        default="auto",
    ),
    _option(
        "timeout",
        "seconds after which an operation that hangs is answered with an error",
        parse=options.seconds,
        metavar="SECONDS",
        default=DEFAULT_TIMEOUT_S,
    ),
    _option("clean_stale", "first unmount what a driver that has died left at the mount point"),
    _option(
        "idle",
        "unmount when nobody has used it for so many seconds; 0: never",
        parse=options.whole_number,
        metavar="SECONDS",
        default=0,
    ),
    _option("log_file", "append what --verbose shows, and problems, to this file", parse=options.path, metavar="PATH"),
)

OPEN_OPTIONS = (
    _option(
        "cache_size",
        "bound of the cache, for all archives of a mount together",
        parse=options.size,
        metavar="SIZE",
        default=DEFAULT_CACHE_SIZE,
    ),
    _option(
        "index",
        "keep the tables of large archives in the user's cache folder, nowhere, or in a folder",
        parse=options.index,
        metavar="auto|off|PATH",
        default="auto",
    ),
    _option("config", "the configuration file; off: none", parse=str, metavar="PATH|off"),
)
"""General options that also make sense where an archive is opened without being mounted."""

MOUNT8_WORDS = frozenset(
    {
        "auto",
        "noauto",
        "user",
        "nouser",
        "users",
        "owner",
        "group",
        "nofail",
        "_netdev",
        "defaults",
        "async",
        "sync",
        "atime",
        "noatime",
        "relatime",
        "norelatime",
        "strictatime",
        "diratime",
        "nodiratime",
        "dev",
        "nodev",
        "suid",
        "nosuid",
        "exec",
        "noexec",
        "dirsync",
        "iversion",
        "noiversion",
        "lazytime",
        "nolazytime",
        "loud",
        "silent",
        "mand",
        "nomand",
    }
)
"""Words of mount(8) that are accepted; ``dev`` and ``suid`` without effect."""
MOUNT8_PREFIXES = ("x-", "X-", "comment=", "user=", "helper=", "uhelper=")
"""How further ones begin, which are meant for others."""


@dataclass(frozen=True, kw_only=True)
class MountOptions:
    """What the driver and the transports need to know."""

    read_write: bool = False
    uid: int = field(default_factory=os.getuid)
    gid: int = field(default_factory=os.getgid)
    fmask: int = 0
    dmask: int = 0
    allow_other: bool = False
    allow_root: bool = False
    default_permissions: bool = False
    no_exec: bool = False
    fsname: str = "archivefs"
    subtype: str = "archivefs"
    transport: str = "auto"
    timeout_s: float = DEFAULT_TIMEOUT_S
    clean_stale: bool = False
    idle_s: float = 0.0
    """Unmount after so long without use; 0: never."""
    log_file: str | None = None
    shown: dict[str, object] = field(default_factory=dict)
    """What the user gave, for ``status.json``."""
    source: str = ""
    format: str = ""

    @classmethod
    def from_values(cls, values: dict[str, Any], **more: Any) -> MountOptions:
        """From parsed options; masks fall back on ``umask``."""
        umask = values.get("umask") or 0
        # "Root too, but nobody else" is a matter of permission bits, which root may always pass.
        private = 0o077 if values.get("allow_root") and not values.get("allow_other") else 0
        given = {name: values[name] for name in ("uid", "gid") if values.get(name) is not None}
        return cls(
            read_write=bool(values.get("rw")) and not values.get("ro"),
            fmask=(umask if values.get("fmask") is None else values["fmask"]) | private,
            dmask=(umask if values.get("dmask") is None else values["dmask"]) | private,
            allow_other=bool(values.get("allow_other")),
            allow_root=bool(values.get("allow_root")),
            # Other users see only what the permission bits allow.
            default_permissions=any(values.get(n) for n in ("default_permissions", "allow_other", "allow_root")),
            subtype=values.get("subtype") or "archivefs",
            transport=values.get("transport") or "auto",
            timeout_s=values.get("timeout") or DEFAULT_TIMEOUT_S,
            clean_stale=bool(values.get("clean_stale")),
            idle_s=values.get("idle") or 0.0,
            log_file=values.get("log_file"),
            **given,
            **more,
        )
