"""The desktop around us: showing a folder in the file manager, and a message to who has no terminal."""

from __future__ import annotations

import html
import os
import shutil
import subprocess
from collections.abc import Sequence

OPENERS = (("xdg-open",), ("gio", "open"))
STARTED_S = 5.0
"""An opener that still runs after so long is itself the file manager."""


def has_display() -> bool:
    """Is there a desktop to show something on?"""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def show_folder(path: str) -> bool:
    """Open *path*, which is absolute, in the file manager; says whether one was found."""
    return any(_started([*opener, path]) for opener in OPENERS)


def show_message(message: str) -> None:
    """A message in a window of its own or as a notification, by the first program that can."""
    title = "archivefs"
    _ = (
        _started(["notify-send", "--icon=dialog-error", title, html.escape(message, quote=False)])
        or _started(["zenity", "--error", "--no-markup", f"--title={title}", f"--text={message}"])
        or _started(["kdialog", "--title", title, "--error", html.escape(message, quote=False)])
    )


def _started(command: Sequence[str]) -> bool:
    """Run *command* apart from us; True when it ends well, or goes on."""
    if shutil.which(command[0]) is None:
        return False
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(STARTED_S) == 0
    except subprocess.TimeoutExpired:
        return True
