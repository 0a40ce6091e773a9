"""Which engine wrote a source, by its first bytes and names.

Apart from ``sources.py``, because every archive that is opened is looked at, of whatever format it is.
"""

from __future__ import annotations

import os

from archivefs.format import Probe

LMDB_MAGIC = b"\xde\xc0\xef\xbe"
MAGIC_AT = 16


def kind_of(probe: Probe) -> str:
    """``lmdb``, ``leveldb``, ``dump``, ``kyoto`` or nothing."""
    if probe.is_directory:
        if "data.mdb" in probe.names:
            return "lmdb" if _magic_in(os.path.join(probe.path, "data.mdb")) else ""
        return "leveldb" if "CURRENT" in probe.names and _names_manifest(probe.path) else ""
    head = probe.head
    if head[MAGIC_AT : MAGIC_AT + 4] == LMDB_MAGIC:
        return "lmdb"
    if head.startswith(b"VERSION=3") and b"HEADER=END" in head:
        return "dump"
    return "kyoto" if head.startswith(b"KC\n") or probe.name.endswith(".kct") else ""


def _magic_in(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(MAGIC_AT + 4)[MAGIC_AT:] == LMDB_MAGIC
    except OSError:
        return False


def _names_manifest(path: str) -> bool:
    try:
        with open(os.path.join(path, "CURRENT"), "rb") as file:
            return file.read(9) == b"MANIFEST-"
    except OSError:
        return False
