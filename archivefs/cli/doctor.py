"""``archivefs doctor``: does mounting work on this machine, and if not, what mends it?

Nothing is imported that could fail on a machine without libfuse, and nothing is mounted.
"""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterator
from typing import NamedTuple

from archivefs import registry
from archivefs.cli.configuration import default_path, load
from archivefs.cli.shared import cli_command, json_option
from archivefs.cli.shown import json_text, write
from archivefs.errors import ArchiveError, quoted
from archivefs.fuse.mount import TRANSPORTS
from archivefs.fuse.stale import stale_mounts
from archivefs.zips import index

DEVICE = "/dev/fuse"
CONFIGURATION = "/etc/fuse.conf"
PROCESS = "/proc/self/status"
CAP_SYS_ADMIN = 1 << 21
"""What mounting takes; outside of containers root always has it."""

OLDEST_KERNEL = (3, 15)
"""The first that the transport ``kernel`` can talk to."""
PASSTHROUGH_KERNEL = (6, 9)
"""The first that reads whole files of an archive itself."""
EXTRAS = {
    "zstandard": ("zstd", "members of zips compressed with it can be read"),
    "isal": ("fast", "it inflates small members of zips"),
    "zlib_ng": ("fast", "it inflates large members of zips"),
    "lmdb": ("centidb", "stores of centidb on LMDB can be read"),
    "plyvel": ("centidb", "stores of centidb on LevelDB can be read"),
    "starlette": ("web", "archives can be served over HTTP"),
    "uvicorn": ("web", "archives can be served over HTTP"),
}
"""Modules that may be missing: the extra that brings each, and what it is good for."""

OK, NOTE, PROBLEM = "ok", "note", "problem"


class Check(NamedTuple):
    """One line of the answer."""

    name: str
    state: str
    """``ok``, ``note`` (something is missing that a mount can do without) or ``problem``."""
    message: str
    mend: str = ""
    """The command that mends it."""


@cli_command("doctor", example="archivefs doctor")
@json_option
def command(as_json: bool) -> int:
    """Check whether mounting works on this machine.

    Every line says what was found and, where something is wrong or missing, the command that mends it. The exit
    code is 1 if there is a problem: mounting would not work, the configuration is wrong, or a mount is dead.
    """
    checks = list(_checks())
    if as_json:
        write(json_text([check._asdict() for check in checks], indent=2))
    else:
        for check in checks:
            mend = f"; mend it with: {check.mend}" if check.mend else ""
            write(quoted(f"{check.state:7}  {check.name}: {check.message}{mend}"))
    return int(any(check.state == PROBLEM for check in checks))


def _checks() -> Iterator[Check]:
    device, helper, permission = _device(), _helper(), _permission()
    library, binding = _library(), _binding()
    kernel = _kernel()
    works = {
        "kernel": device.state == kernel.state == permission.state == OK and helper.state != PROBLEM,
        "fusepy": all(check.state == OK for check in (device, permission, library, binding)),
    }
    usable = [name for name in TRANSPORTS if works.get(name, True)]
    yield device
    yield kernel
    yield helper
    yield permission
    # fusepy is only one way to the kernel: where another works, it can be done without.
    yield _softened(library) if usable else library
    yield _softened(binding) if usable else binding
    yield _transport(usable)
    yield _allow_other()
    yield _configuration()
    yield _cache()
    yield from _stale()
    for module, (extra, use) in EXTRAS.items():
        yield _extra(module, extra, use)
    yield from _formats()


# -- what a mount needs --


def _device() -> Check:
    try:
        mode = os.stat(DEVICE).st_mode
    except OSError:
        return Check("device", PROBLEM, f"{DEVICE} is missing", "sudo modprobe fuse")
    if not stat.S_ISCHR(mode):
        return Check("device", PROBLEM, f"{DEVICE} is no device", f"sudo rm {DEVICE} && sudo modprobe fuse")
    try:
        os.close(os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except PermissionError:
        return Check("device", PROBLEM, f"you may not use {DEVICE}", f"sudo chmod 666 {DEVICE}")
    except OSError as error:
        return Check("device", PROBLEM, f"{DEVICE} does not open: {error.strerror}", "sudo modprobe fuse")
    return Check("device", OK, f"{DEVICE} can be used")


def _kernel() -> Check:
    release = os.uname().release
    match = re.match(r"(\d+)\.(\d+)", release)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    if version < OLDEST_KERNEL:
        return Check("kernel", NOTE, f"{release} is too old for the transport kernel, which needs 3.15")
    if version < PASSTHROUGH_KERNEL:
        return Check(
            "kernel", OK, f"{release}; files that lie in an archive as they are go through archivefs before 6.9"
        )
    who = "as root it reads" if os.geteuid() == 0 else "for root it would read"
    return Check("kernel", OK, f"{release}; {who} files that lie in an archive as they are by itself (passthrough)")


def _helper() -> Check:
    path = shutil.which("fusermount3") or shutil.which("fusermount")
    root = os.geteuid() == 0
    if path is None:
        message = "fusermount3 is missing, and only root can do without"
        return Check("fusermount", NOTE if root else PROBLEM, message, "sudo apt install fuse3")
    if not root and not os.stat(path).st_mode & stat.S_ISUID:
        return Check("fusermount", PROBLEM, f"{path} does not run as root", f"sudo chmod u+s {path}")
    return Check("fusermount", OK, path)


def _permission() -> Check:
    """Is mounting taken from this process, whoever it belongs to?"""
    root = os.geteuid() == 0
    try:
        with open(PROCESS, encoding="ascii", errors="replace") as file:
            facts = {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
    except OSError:
        facts = {}
    if not root and facts.get("NoNewPrivs", "0") != "0":
        message = "what started this forbids fusermount3 to run as root (in a systemd unit: NoNewPrivileges=)"
        return Check("permission", PROBLEM, message)
    if not int(facts.get("CapEff" if root else "CapBnd", "-1"), 16) & CAP_SYS_ADMIN:
        mend = f"docker run --device {DEVICE} --cap-add SYS_ADMIN ..."
        return Check("permission", PROBLEM, "in this container nobody may mount (CAP_SYS_ADMIN is missing)", mend)
    return Check("permission", OK, "root may mount" if root else "fusermount3 may mount for you")


def _library() -> Check:
    name = os.environ.get("FUSE_LIBRARY_PATH") or ctypes.util.find_library("fuse")
    if name is None:
        return Check("libfuse", PROBLEM, "libfuse 2, which fusepy needs, is missing", "sudo apt install libfuse2")
    return Check("libfuse", OK, name)


def _binding() -> Check:
    if importlib.util.find_spec("fuse") is None:
        return Check("binding", PROBLEM, "fusepy is missing", "pip install fusepy")
    return Check("binding", OK, "fusepy is installed")


def _transport(usable: list[str]) -> Check:
    if not usable:
        return Check("transport", PROBLEM, "there is no way to the kernel: see above")
    return Check("transport", OK, f"a mount would use {usable[0]}")


def _softened(check: Check) -> Check:
    return check._replace(state=NOTE) if check.state == PROBLEM else check


# -- what a mount can do without --


def _allow_other() -> Check:
    if os.geteuid() == 0:
        return Check("allow_other", OK, "root may use it")
    try:
        with open(CONFIGURATION, encoding="utf-8", errors="replace") as file:
            allowed = any(line.strip() == "user_allow_other" for line in file)
    except OSError:
        allowed = False
    if allowed:
        return Check("allow_other", OK, f"{CONFIGURATION} allows it")
    mend = f"echo user_allow_other | sudo tee -a {CONFIGURATION}"
    return Check("allow_other", NOTE, f"{CONFIGURATION} does not allow -o allow_other and allow_root", mend)


def _configuration() -> Check:
    path = default_path()
    try:
        os.lstat(path)
        load(path)
    except PermissionError:
        return _unreadable(os.path.dirname(path))
    except OSError:
        return Check("config", OK, f"{path}: there is none, and none is needed")
    except ArchiveError as error:
        if not os.access(path, os.R_OK):
            return _unreadable(path)
        return Check("config", PROBLEM, str(error), f"${{EDITOR:-nano}} {shlex.quote(path)}")
    return Check("config", OK, path)


def _unreadable(path: str) -> Check:
    """What somebody has set there does not hold, or ends every command."""
    if not _at_home(path):
        advice = "set XDG_CONFIG_HOME to a folder of yours, or name a file with -o config=PATH"
        return Check("config", PROBLEM, f"you may not read {path}: {advice}")
    mend = f"sudo chown -R {os.geteuid()} {shlex.quote(path)} && chmod u+rwX {shlex.quote(path)}"
    return Check("config", PROBLEM, f"you may not read {path}", mend)


def _cache() -> Check:
    path = index.default_path()
    found = path
    while not os.path.lexists(found):
        found = os.path.dirname(found)
    elsewhere = "" if _at_home(found) else ": set XDG_CACHE_HOME to a folder of yours, or name one with -o index=PATH"
    if not os.path.isdir(found):
        mend = "" if elsewhere else f"rm {shlex.quote(found)}"
        return Check("cache", NOTE, f"{found} is no folder, so nothing is kept{elsewhere}", mend)
    if not os.access(found, os.W_OK | os.X_OK):
        if elsewhere:
            return Check("cache", NOTE, f"you may not write to {found}, so nothing is kept between mounts{elsewhere}")
        mend = f"sudo chown {os.geteuid()} {shlex.quote(found)} && chmod u+rwx {shlex.quote(found)}"
        return Check("cache", NOTE, f"you may not write to {found}, so nothing is kept between mounts", mend)
    return Check("cache", OK, path if found == path else f"{path}: will be made when it is needed")


def _at_home(path: str) -> bool:
    """Does *path* lie in the user's home folder, or is it that?  What lies elsewhere is not to be made his."""
    home = os.path.realpath(os.path.expanduser("~"))
    return home != "/" and os.path.commonpath([home, os.path.realpath(path)]) == home


def _stale() -> Iterator[Check]:
    found = [Check("mounts", PROBLEM, stale.message, stale.mend) for stale in stale_mounts()]
    yield from found or [Check("mounts", OK, "every mount answers")]


def _extra(module: str, extra: str, use: str) -> Check:
    if importlib.util.find_spec(module) is None:
        return Check(module, NOTE, f"it is missing; with it, {use}", f"pip install 'archivefs[{extra}]'")
    return Check(module, OK, use)


def _formats() -> Iterator[Check]:
    for format in registry.formats().values():
        missing = format.unavailable() if format.unavailable else None
        yield Check(f"format {format.name}", NOTE if missing else OK, missing or format.summary)
    for plugin in registry.broken():
        yield Check(f"format {plugin.name}", NOTE, str(plugin))
