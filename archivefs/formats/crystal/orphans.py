"""Bodies that belong to no revision: left by crashes, ignored by Crystal and by us, worth a notice.

Used by ``verify.py``.  The folders of bodies are walked, one at a time; what lies there is compared with the rows.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from archivefs.format import Finding, Level
from archivefs.formats.crystal.bodies import IN_PROGRESS, REVISIONS
from archivefs.formats.crystal.history import number_of
from archivefs.formats.crystal.packs import pack_problem
from archivefs.formats.crystal.project import FLAT, Project

_THREE = re.compile("[0-9a-f]{3}")
_PACK = re.compile(r"[0-9a-f]{2}_\.zip(\.replacing)?")
_DEPTH = 4
_FOLDER_IDS = 4096


def orphans(project: Project) -> Iterator[Finding]:
    """The findings for all folders of bodies."""
    flat = project.edition().major == FLAT
    top = os.path.join(project.place.folder, REVISIONS)
    if flat:
        yield from _flat(project, top)
    else:
        yield from _hex(project, top, REVISIONS, ())
    yield from _hex(project, os.path.join(project.place.folder, IN_PROGRESS), IN_PROGRESS, ())


def _flat(project: Project, path: str) -> Iterator[Finding]:
    for name in _names(path):
        key = number_of(name)
        if key is None:
            yield _stray(f"{REVISIONS}/{name}")
        elif not _has_body(project, key):
            yield _orphan(f"{REVISIONS}/{name}")


def _has_body(project: Project, key: int) -> bool:
    revision = project.revision(key)
    return revision is not None and revision.error is None


def _hex(project: Project, path: str, base: str, parts: tuple[str, ...]) -> Iterator[Finding]:
    """A folder of folders, down to those with bodies."""
    if len(parts) == _DEPTH:
        yield from _bodies(project, path, base, parts)
        return
    for name in sorted(_names(path)):
        if _THREE.fullmatch(name):
            yield from _hex(project, os.path.join(path, name), base, (*parts, name))
        else:
            yield _stray("/".join((base, *parts, name)))


def _bodies(project: Project, path: str, base: str, parts: tuple[str, ...]) -> Iterator[Finding]:
    first = int("".join(parts), 16) * _FOLDER_IDS
    known = {key - first for (key,) in project.chunk_rows("kept_chunk", first - 1, first + _FOLDER_IDS - 1)}
    for name in sorted(_names(path)):
        where = "/".join((base, *parts, name))
        if _PACK.fullmatch(name):
            yield from _pack(os.path.join(path, name), where)  # an entry of no revision is nothing
            continue
        if not _THREE.fullmatch(name):
            yield _stray(where)
        elif int(name, 16) not in known:
            yield _orphan(where)


def _pack(path: str, where: str) -> Iterator[Finding]:
    """A pack that cannot be read; its bodies count as lost unless they lie beside it."""
    try:
        problem = pack_problem(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), where)
    except OSError as error:
        problem = f"it cannot be opened: {error.strerror}"
    if problem:
        yield Finding("damaged-pack", Level.ERROR, where, problem)


def _names(path: str) -> Iterator[str]:
    """The names in a folder that is no link; nothing if it is not there."""
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            return
        with os.scandir(path) as entries:
            for entry in entries:
                yield entry.name
    except OSError:
        return


def _orphan(where: str) -> Finding:
    return Finding("orphan-body", Level.NOTICE, where, "belongs to no revision")


def _stray(where: str) -> Finding:
    return Finding("stray-file", Level.NOTICE, where, "is not the name of a body")
