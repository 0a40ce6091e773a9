"""How the tree names records: readable or in hex, and what such a name means.  Specification §9.1."""

from __future__ import annotations

import hashlib

from archivefs.errors import CorruptMember
from archivefs.formats.centidb import keynames, keys
from archivefs.formats.centidb.keynames import CutName
from archivefs.formats.centidb.keys import KeyTuple
from archivefs.formats.centidb.places import Named
from archivefs.formats.centidb.store import Store


class Naming:
    """Names of the records of a store."""

    def __init__(self, store: Store, *, hexed: bool) -> None:
        self._store = store
        self.hexed = hexed

    def name(self, key: KeyTuple, extension: str = "") -> str:
        """The name, cut if need be, with what is appended to it."""
        return self.shown(Named(key.data, "" if self.hexed else keynames.whole_name(key)), extension)

    def shown(self, named: Named, extension: str = "") -> str:
        """The same, of a record whose readable name is known."""
        whole = (named.data.hex() or keynames.EMPTY) if self.hexed else named.name
        return keynames.shortened(whole, named.data, keynames.MAX_BYTES - len(extension)) + extension

    def parse(self, name: str) -> bytes | CutName | None:
        """What a name says: a key, the beginning of one, or nothing."""
        try:
            name.encode()
        except UnicodeEncodeError:
            return None
        return keynames.parse_hex(name) if self.hexed else keynames.parse_flat(name, self._store.dialect)

    def key(self, idx: int, name: str, extension: str = "") -> KeyTuple | None:
        """The key of a record's name; whether there is such a record is not looked at, unless the name is cut."""
        parsed = self.parse(name[: len(name) - len(extension)])
        found = self._store.find_cut(idx, parsed) if isinstance(parsed, CutName) else self.one_tuple(parsed)
        return found if found is not None and self.name(found, extension) == name else None

    def one_tuple(self, data: bytes | None) -> KeyTuple | None:
        """The one tuple of some bytes, if they are one."""
        if data is None:
            return None
        try:
            return keys.decode_tuple(data, self._store.dialect)
        except CorruptMember:
            return None

    # -- layout=nested --

    def parts(self, key: KeyTuple) -> list[str]:
        """The components of a nested name; the last one is the file."""
        parts = []
        for at in range(len(key.ends)):
            part, is_file = self.component(key, at)
            parts.append(part)
            if is_file:
                break
        return parts or [keynames.EMPTY]

    def component(self, key: KeyTuple, at: int) -> tuple[str, bool]:
        """The name of element *at*, and whether it is a file's: the last one, or one with all that follows it.

        An element that has no name of its own (not canonical, or too long) stands for the rest of its tuple.
        """
        last = at == len(key.ends) - 1
        name = keynames.element_name(key.values[at]) + ("" if last else ",")
        if at not in key.flaws and len(name.encode()) <= keynames.MAX_BYTES:
            return name, last
        rest = key.data[key.ends[at - 1] if at else 0 :]
        if any(flaw >= at for flaw in key.flaws):
            whole = keynames.ODD + rest.hex()
        else:
            whole = ",".join(map(keynames.element_name, key.values[at:]))
        if len(whole.encode()) > keynames.MAX_BYTES:
            digest = hashlib.sha256(key.data).hexdigest()[:32]
            whole = keynames.stem(whole) + keynames.CUT + digest
        return whole, True
