"""Which engine a source is, and how it is opened so that reading leaves it as it was.  Specification §7.

LMDB is opened where it lies, without writing; LevelDB writes when it is opened, so a private copy is read.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

from archivefs.errors import BadOption, MissingLibrary, SourceBusy, SourceChanged, TreeReadOnly, UnreadableArchive
from archivefs.format import Probe
from archivefs.formats.centidb.client import Worker
from archivefs.formats.centidb.dump import Dump
from archivefs.formats.centidb.engine import Engine, Item
from archivefs.formats.centidb.recognition import kind_of
from archivefs.staging.access import require_writable

EXTRA = "archivefs[centidb]"
LIBRARIES = {"lmdb": "lmdb", "leveldb": "plyvel"}
KYOTO = "Kyoto Cabinet stores cannot be read: there is no library for it that works with current Python"
COPY_ATTEMPTS = 5
_TABLES = (".ldb", ".sst")


def main_file(path: str) -> str:
    """The file whose time is the time of everything in the store."""
    for name in ("data.mdb", "CURRENT"):
        inner = os.path.join(path, name)
        if os.path.isfile(inner):
            return inner
    return path


def open_engine(path: str, options: Mapping[str, Any], *, read_write: bool) -> Engine:
    """The engine of the store at *path*; raises UnreadableArchive, MissingLibrary, SourceBusy."""
    kind = kind_of(Probe(path))
    if kind == "kyoto":
        raise UnreadableArchive(KYOTO, archive=path, advice="dump it with the program that wrote it")
    if not kind:
        raise UnreadableArchive("it is neither LMDB nor LevelDB nor a dump of one", archive=path)
    db = str(options.get("db") or "")
    if db and kind == "leveldb":
        raise BadOption("the option db= has no meaning for LevelDB", archive=path)
    if kind == "dump":
        if read_write:
            raise TreeReadOnly("a dump cannot be changed", archive=path)
        return Dump(path, db=db)
    require(kind)
    if read_write:
        require_writable(path, *_written(path))
    if kind == "leveldb":
        return Worker(kind, path) if read_write else CopiedLevelDb(path)
    words = ["writable", "lock"] if read_write else []
    return Worker(kind, path, db=db, words=[*words, *(["consistent"] if options.get("consistent") else [])])


def _written(path: str) -> list[str]:
    """What an engine writes to."""
    if os.path.isdir(path):
        return [path, main_file(path)]
    lock = path + "-lock"
    return [path, lock if os.path.exists(lock) else os.path.dirname(path)]


def require(kind: str) -> None:
    """Raise MissingLibrary where the library of that engine is not there."""
    library = LIBRARIES[kind]
    if importlib.util.find_spec(library) is None:
        raise MissingLibrary(
            f"{kind} stores need the library {library}, which is not installed", advice=f"pip install '{EXTRA}'"
        )


class CopiedLevelDb(Engine):
    """A LevelDB store, read from a copy that is gone when it is closed."""

    kind = "leveldb"

    def __init__(self, path: str) -> None:
        self._folder = tempfile.mkdtemp(prefix="archivefs-leveldb-")
        try:
            _copy_leveldb(path, os.path.join(self._folder, "store"))
            self._worker = Worker("leveldb", os.path.join(self._folder, "store"))
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def get(self, key: bytes, limit: int) -> bytes | None:
        return self._worker.get(key, limit)

    def scan(self, start: bytes, within: bytes, count: int, value_limit: int = 0) -> tuple[list[Item], bool]:
        return self._worker.scan(start, within, count, value_limit)

    def close(self) -> None:
        self._worker.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _copy_leveldb(path: str, to: str) -> None:
    """A copy of one moment: if its writer has moved on meanwhile, try again."""
    for _attempt in range(COPY_ATTEMPTS):
        shutil.rmtree(to, ignore_errors=True)
        os.mkdir(to)
        before = _signature(path)
        try:
            # What the manifest names must be there when the manifest was copied first.
            for name in sorted(before, key=lambda name: (name.endswith(_TABLES), name != "CURRENT", name)):
                _copy_file(os.path.join(path, name), os.path.join(to, name))
        except FileNotFoundError:
            continue
        if _signature(path) == before:
            return
    raise SourceBusy("it is being written to", archive=path, advice="try again when its writer is idle")


def _signature(path: str) -> dict[str, tuple[int, int]]:
    found = {}
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_file() and entry.name not in ("LOCK", "LOG", "LOG.old"):
                state = entry.stat()
                found[entry.name] = (state.st_size, state.st_mtime_ns)
    if "CURRENT" not in found:
        raise SourceChanged("its file CURRENT is gone", archive=path)
    return found


def _copy_file(source: str, to: str) -> None:
    """Tables never change, so another name for them will do where that is possible."""
    if source.endswith(_TABLES):
        try:
            os.link(source, to)
            return
        except OSError:
            pass
    shutil.copyfile(source, to)
