"""Telling the machine's own lists of types, programs and manual pages that something has come or gone."""

from __future__ import annotations

import shutil
import subprocess

from contrib.install.places import Places
from contrib.install.placing import Manifest

UPDATED = {
    "share/mime": ("update-mime-database", "packages/*"),
    "share/applications": ("update-desktop-database", "*.desktop"),
}
"""A folder, what brings its lists up to date, and what they are made of."""


def tell(places: Places) -> None:
    """After installing.  Where the machine is another one, it is for that one to do."""
    if places.destdir is None:
        for folder, (tool, _) in UPDATED.items():
            _run(tool, str(places.prefix / folder))
        _run("mandb", "--quiet")


def tell_of_the_end(places: Places, gone: Manifest) -> None:
    """After uninstalling: a folder that was made for us and in which only lists are left goes, with its lists."""
    if places.destdir is not None:
        return
    for name, (tool, content) in UPDATED.items():
        folder = places.prefix / name
        if folder in gone.folders and not any(folder.glob(content)):
            shutil.rmtree(folder, ignore_errors=True)
        elif folder.is_dir():
            _run(tool, str(folder))
    _run("mandb", "--quiet")


def _run(tool: str, *words: str) -> None:
    """If it is there; its complaints are about others."""
    found = shutil.which(tool, path="/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    if found:
        subprocess.run([found, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
