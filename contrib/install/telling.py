"""Telling the machine's own lists of types, programs and manual pages that something has come or gone."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from contrib.install.places import Places
from contrib.install.placing import Manifest

MIME_LISTS = (
    *("XMLnamespaces", "aliases", "generic-icons", "globs", "globs2", "icons", "magic", "mime.cache"),
    *("subclasses", "treemagic", "types", "version"),
)
UPDATED = {
    "share/mime": ("update-mime-database", "packages/*", MIME_LISTS),
    "share/applications": ("update-desktop-database", "*.desktop", ("mimeinfo.cache",)),
}
"""A folder, what brings its lists up to date, what they are made of, and the lists."""


def tell(places: Places) -> None:
    """After installing.  Where the machine is another one, it is for that one to do."""
    if places.destdir is None:
        for folder, (tool, *_) in UPDATED.items():
            _run(tool, str(places.prefix / folder))
        _run("mandb", "--quiet")


def tell_of_the_end(places: Places, gone: Manifest) -> None:
    """After uninstalling.  In a folder that was made for us the lists go too, if they are of nothing any more."""
    if places.destdir is not None:
        return
    for name, (tool, content, lists) in UPDATED.items():
        folder = places.prefix / name
        if folder.is_dir():
            _run(tool, str(folder))
            if folder in gone.folders and not any(folder.glob(content)):
                remove_lists(folder, lists)
    _run("mandb", "--quiet")


def remove_lists(folder: Path, lists: Iterable[str]) -> None:
    """Remove files of these names, and the folders in which nothing is left; whatever else is there stays."""
    for name in lists:
        (folder / name).unlink(missing_ok=True)
    for inner in folder.iterdir():
        with suppress(OSError):
            inner.rmdir()


def _run(tool: str, *words: str) -> None:
    """If it is there; its complaints are about others."""
    found = shutil.which(tool, path="/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    if found:
        subprocess.run([found, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
