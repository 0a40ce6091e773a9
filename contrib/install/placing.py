"""Putting a made tree in place and taking it away again, by a list of what was put.

The list is written first: an installation that was interrupted can be made again or taken away.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from contrib.install.places import Places, Refused, below


class Manifest(NamedTuple):
    """What was put, by the names that it has on the machine it is for."""

    files: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    """Those that were not there before, the outer ones first."""

    def text(self) -> str:
        """A line each; folders end in a slash."""
        return "".join([*(f"{path}/\n" for path in self.folders), *(f"{path}\n" for path in self.files)])


def read_manifest(places: Places) -> Manifest:
    """That of what is in place; an empty one where nothing is."""
    try:
        lines = places.now(places.manifest).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return Manifest()
    files = (Path(line) for line in lines if not line.endswith("/"))
    return Manifest(tuple(files), tuple(Path(line) for line in lines if line.endswith("/")))


def put(root: Path, places: Places) -> Manifest:
    """Put everything that is below *root* in place, and take away what an older version had and this one has not."""
    before = read_manifest(places)
    files = [*_files(root), places.manifest]
    _refuse_others(files, before, places)
    missing = (parent for file in files for parent in _parents(file) if not os.path.lexists(places.now(parent)))
    folders = tuple(sorted({*missing, *before.folders}))
    for folder in folders:
        places.now(folder).mkdir(mode=0o755, parents=True, exist_ok=True)
        places.now(folder).chmod(0o755)
    now = Manifest(tuple(files), folders)
    everything = Manifest(tuple(dict.fromkeys((*now.files, *before.files))), folders)
    _write(places.now(places.manifest), everything.text())
    for file in files[:-1]:
        _copy(below(root, file), places.now(file))
    _remove((file for file in before.files if file not in set(files)), places)
    kept = tuple(folder for folder in folders if _is_needed(folder, files) or not _removed_folder(folder, places))
    _write(places.now(places.manifest), now._replace(folders=kept).text())
    return now


def take_away(places: Places) -> Manifest:
    """Remove what is in the list, and the folders that were made for it, if nobody else uses them."""
    manifest = read_manifest(places)
    if not manifest.files:
        raise Refused(f"there is no archivefs in {places.now(places.prefix)}")
    _remove(manifest.files, places)
    return manifest


def remove_folders(manifest: Manifest, places: Places) -> None:
    """Those that are empty, inner ones first."""
    for folder in reversed(manifest.folders):
        _removed_folder(folder, places)


def _files(root: Path) -> Iterator[Path]:
    """Every file and link below *root*, by the name it will have."""
    for folder, folders, files in os.walk(root):
        names = [*files, *(name for name in folders if os.path.islink(os.path.join(folder, name)))]
        for name in sorted(names):
            yield Path("/") / Path(folder, name).relative_to(root)


def _parents(path: Path) -> Iterator[Path]:
    return (parent for parent in path.parents if parent != Path("/"))


def _refuse_others(files: Iterable[Path], before: Manifest, places: Places) -> None:
    """What somebody else has put there is not replaced."""
    known = set(before.files)
    for file in files:
        if file not in known and os.path.lexists(places.now(file)):
            raise Refused(f"{places.now(file)} is there already, and not of archivefs: remove it first")


def _copy(source: Path, target: Path) -> None:
    """At no moment is there half a file; the program may be running."""
    new = target.with_name(f".{target.name}.new")
    new.unlink(missing_ok=True)
    if source.is_symlink():
        new.symlink_to(os.readlink(source))
    else:
        shutil.copy2(source, new)
        new.chmod(0o755 if os.access(source, os.X_OK) and source.stat().st_mode & 0o111 else 0o644)
    os.replace(new, target)


def _write(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.chmod(0o644)
    os.replace(new, path)


def _remove(files: Iterable[Path], places: Places) -> None:
    for file in files:
        with suppress(FileNotFoundError, NotADirectoryError):
            places.now(file).unlink()


def _is_needed(folder: Path, files: Iterable[Path]) -> bool:
    return any(folder in file.parents for file in files)


def _removed_folder(folder: Path, places: Places) -> bool:
    try:
        places.now(folder).rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
