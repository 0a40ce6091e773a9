"""Directories of the tree: a domain and what is below it, the raw files, and the root (specification 4)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from archivefs.errors import (
    AlreadyExists,
    DirectoryExpected,
    DirectoryNotEmpty,
    FileExpected,
    NameNotHeld,
    NotFound,
    NotPermitted,
    OtherTree,
    TreeReadOnly,
)
from archivefs.formats.urldb import edits, naming
from archivefs.formats.urldb.domainfile import DomainFile
from archivefs.formats.urldb.files import AliasLink, DatabaseFile, ErrorsFile
from archivefs.formats.urldb.nodetable import Key, KeyedNode
from archivefs.formats.urldb.records import SUFFIX, domain_of_file, is_domain_name
from archivefs.formats.urldb.scratch import Place
from archivefs.tree import Attributes, Directory, Entry, Kind, Node, Symlink, WritableDirectory, WritableFile
from archivefs.urlnames import Shortened

METADATA = "^domain.yaml"
ERRORS = "^errors.txt"
RAW = "^raw"


class Folder(KeyedNode, WritableDirectory):
    """What all directories have in common."""

    __slots__ = ()

    @property
    def place(self) -> Place:
        """Where its scratch files are."""
        return "", ""

    def attributes(self) -> Attributes:
        return Attributes(mtime_ns=self.tree.mtime_ns(self.key))

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        listed = self.tree.listing(self.key, self._listed)
        start = bisect_right(listed, after, key=lambda entry: entry.name) if after is not None else 0
        yield from listed[start:]

    def _listed(self) -> dict[str, Kind]:
        """Everything in it."""
        raise NotImplementedError

    def key_named(self, name: str) -> Key:
        """The key of a file that is or could be called so; raises NameNotHeld and NotPermitted."""
        return ("scratch", *self.place, name)

    def child(self, name: str) -> Node:
        found = self._directory_named(name)
        if found is not None:
            return found
        try:
            key = self.key_named(name)
        except (NameNotHeld, NotPermitted):
            raise NotFound(member=name) from None
        if not self.tree.store.exists(key):
            raise NotFound(member=name)
        return self.tree.nodes.get(key, DatabaseFile)

    def _directory_named(self, name: str) -> KeyedNode | None:
        """A directory, or anything else that is no changeable file."""
        return None

    # -- changing --

    def _check_writable(self) -> None:
        if not self.tree.writable:
            raise TreeReadOnly

    def set_times(self, *, mtime_ns: int) -> None:
        self.tree.set_mtime(self.key, mtime_ns)

    def create(self, name: str, *, exclusive: bool) -> WritableFile:
        self._check_writable()
        there = self._directory_named(name)
        if there is not None:
            raise AlreadyExists(member=name) if exclusive else FileExpected(member=name)
        key = self.key_named(name)
        if self.tree.store.exists(key):
            if exclusive:
                raise AlreadyExists(member=name)
            return self.tree.nodes.get(key, DatabaseFile)
        self.tree.nodes.removed(key)
        node = self.tree.nodes.get(key, DatabaseFile)
        self.tree.store.create(key, node)
        return node

    def make_directory(self, name: str) -> Directory:
        self._check_writable()
        raise NotPermitted("there are no directories here", member=name)

    def remove(self, name: str, *, kind: Kind) -> None:
        self._check_writable()
        node = self.child(name)
        if kind is Kind.DIRECTORY:
            if not isinstance(node, Directory):
                raise DirectoryExpected(member=name)
            self._remove_directory(name, node)
        elif isinstance(node, Directory):
            raise FileExpected(member=name)
        else:
            self._remove_file(name, node)

    def _remove_directory(self, name: str, node: Directory) -> None:
        raise NotPermitted(member=name)

    def _remove_file(self, name: str, node: Node) -> None:
        if not isinstance(node, DatabaseFile):
            raise NotPermitted("that is made by archivefs", member=name)
        key = node.key
        self.tree.store.remove(key)
        self.tree.forget_mtime(key)

    def rename(self, name: str, to: Directory, to_name: str, *, replace: bool) -> None:
        self._check_writable()
        node = self.child(name)
        if not isinstance(to, Folder) or to.tree is not self.tree or to.place[0] != self.place[0]:
            raise OtherTree(member=name)
        if isinstance(node, Directory):
            self._rename_directory(name, node, to, to_name)
            return
        if not isinstance(node, DatabaseFile):
            raise NotPermitted("that is made by archivefs", member=name)
        if to._directory_named(to_name) is not None:
            raise FileExpected(member=to_name)
        key = to.key_named(to_name)
        if key == node.key:
            return
        if not replace and self.tree.store.exists(key):
            raise AlreadyExists(member=to_name)
        if node.writer is not None:
            node.writer.sync()
        old = node.key
        self.tree.store.rename(old, key)
        self.tree.move_mtime(old, key)
        self._keep_directory()

    def _rename_directory(self, name: str, node: Directory, to: Folder, to_name: str) -> None:
        raise NotPermitted("a domain is renamed by renaming its file", member=name)

    def _keep_directory(self) -> None:
        """A directory stays when its last record is taken out, until it is removed or the mount ends."""


class PathFolder(Folder):
    """A domain, or a directory of its paths."""

    __slots__ = ()

    @property
    def place(self) -> Place:
        return self.key[1], self.key[2]

    def _file(self) -> DomainFile | None:
        found = self.tree.database.find(self.key[1])
        return found if isinstance(found, DomainFile) else None

    @property
    def _is_top(self) -> bool:
        return self.key[2] == "/"

    def _listed(self) -> dict[str, Kind]:
        domain, prefix = self.place
        file, store = self._file(), self.tree.store
        found: dict[str, Kind] = {}
        if self._is_top and self.tree.database.hidden(domain):
            found[ERRORS] = Kind.FILE
        if file is None:
            return found
        if self._is_top and store.exists(("meta", domain)):
            found[METADATA] = Kind.FILE
        found.update(dict.fromkeys(self.tree.scratch.names(self.place), Kind.FILE))
        hidden = {key[2] for key in store.hidden if key[:2] == ("record", domain)}
        for path, is_directory in naming.children(file.sorted_paths, prefix):
            if is_directory:
                found[naming.directory_name(path[len(prefix) : -1])] = Kind.DIRECTORY
            elif path not in hidden:
                found[naming.leaf_name(path)] = Kind.FILE
        for path in store.pending_paths(domain, prefix):
            found[naming.leaf_name(path)] = Kind.FILE
        for inner in self.tree.scratch.directories(self.place):
            found[naming.directory_name(inner[len(prefix) : -1])] = Kind.DIRECTORY
        return found

    def key_named(self, name: str) -> Key:
        domain, prefix = self.place
        if self._is_top and name == METADATA:
            return "meta", domain
        if name == ERRORS:
            raise NotPermitted("that is made by archivefs", member=name)
        path = naming.record_named(prefix, name)
        if isinstance(path, Shortened):
            file = self._file()
            path = file.shortened.get((prefix, name)) if file else None
        if path is not None:
            return "record", domain, path
        if name.endswith(SUFFIX):
            raise NameNotHeld("no path of a URL is called so", member=name)
        if len(name.encode("utf-8", "surrogateescape")) > 255:
            raise NameNotHeld("too long", member=name[:40])
        return super().key_named(name)

    def _directory_named(self, name: str) -> KeyedNode | None:
        domain = self.key[1]
        if name == ERRORS and self._is_top:
            return self.tree.nodes.get(("errors", domain), ErrorsFile) if self.tree.database.hidden(domain) else None
        inner = self._inner_prefix(name)
        return self.tree.nodes.get(("dir", domain, inner), PathFolder) if inner and self._exists(inner) else None

    def _inner_prefix(self, name: str) -> str | None:
        prefix = self.key[2]
        inner = naming.directory_named(prefix, name)
        if isinstance(inner, Shortened):
            file = self._file()
            return file.shortened.get((prefix, name)) if file else None
        return inner

    def _exists(self, prefix: str) -> bool:
        file = self._file()
        if file is None:
            return False
        return naming.is_below(file.sorted_paths, prefix) or self.tree.scratch.has_directory((self.key[1], prefix))

    # -- changing --

    def make_directory(self, name: str) -> Directory:
        self._check_writable()
        inner = self._inner_prefix(name)
        if inner is None or self._file() is None:
            raise NameNotHeld("no directory of a URL is called so", member=name)
        if self._exists(inner) or self.tree.store.exists(("scratch", *self.place, name)):
            raise AlreadyExists(member=name)
        self.tree.scratch.add_directory((self.key[1], inner))
        return self.tree.nodes.get(("dir", self.key[1], inner), PathFolder)

    def _remove_directory(self, name: str, node: Directory) -> None:
        if not isinstance(node, PathFolder):
            raise NotPermitted(member=name)
        if next(node.entries(), None) is not None:
            raise DirectoryNotEmpty(member=name)
        self.tree.scratch.remove_directory(node.place)
        self.tree.nodes.removed(node.key)
        self._keep_directory()

    def _remove_file(self, name: str, node: Node) -> None:
        super()._remove_file(name, node)
        self._keep_directory()

    def _keep_directory(self) -> None:
        if not self._is_top:
            self.tree.scratch.add_directory(self.place)

    def _rename_directory(self, name: str, node: Directory, to: Folder, to_name: str) -> None:
        if not isinstance(to, PathFolder) or not isinstance(node, PathFolder):
            raise NotPermitted(member=name)
        old, new = node.key[2], to._inner_prefix(to_name)
        if new is None:
            raise NameNotHeld("no directory of a URL is called so", member=to_name)
        if new == old:
            return
        if new.startswith(old):
            raise NameNotHeld("a directory cannot be moved into itself", member=name)
        there = to._directory_named(to_name)
        if isinstance(there, Directory) and next(there.entries(), None) is not None:
            raise AlreadyExists(member=to_name)
        if to.tree.store.exists(("scratch", *to.place, to_name)):
            raise DirectoryExpected(member=to_name)
        self._move_below(old, new)
        self._keep_directory()

    def _move_below(self, old: str, new: str) -> None:
        domain = self.key[1]

        def move(file: DomainFile) -> DomainFile | None:
            paths = {path: new + path[len(old) :] for path in naming.below(file.sorted_paths, old)}
            if any(path in file.by_path for path in paths.values()):
                raise AlreadyExists(member=new)
            return edits.rename(file, paths) if paths else None

        self.tree.database.change(domain, move)
        self.tree.scratch.remove_directory((domain, new))
        self.tree.scratch.move_directory(domain, old, new)
        self.tree.nodes.removed(("dir", domain, new))
        self.tree.nodes.moved_below(domain, old, new)
        self.tree.scratch.add_directory((domain, new))


class RawFolder(Folder):
    """``^raw``: the files themselves."""

    __slots__ = ()

    @property
    def place(self) -> Place:
        return RAW, ""

    def _listed(self) -> dict[str, Kind]:
        names = [domain.name for domain in self.tree.database.domains()]
        shown = [name for name in names if self.tree.store.exists(("raw", name))]
        files = [name + SUFFIX for name in [*shown, *self.tree.store.pending_raw()]]
        return dict.fromkeys([*files, *self.tree.scratch.names(self.place)], Kind.FILE)

    def key_named(self, name: str) -> Key:
        domain = domain_of_file(name)
        if domain is not None:
            return "raw", domain
        if name.endswith(SUFFIX):
            raise NameNotHeld("no domain is called so", member=name)
        return super().key_named(name)


class RootFolder(Folder):
    """The root: a directory a domain, a link an alias, and the raw files."""

    __slots__ = ()

    def _listed(self) -> dict[str, Kind]:
        found = dict.fromkeys(self.tree.scratch.names(self.place), Kind.FILE)
        found.update(dict.fromkeys(self.tree.database.aliases(), Kind.SYMLINK))
        found.update(dict.fromkeys(self.tree.database.names(), Kind.DIRECTORY))
        found[RAW] = Kind.DIRECTORY
        return found

    def _directory_named(self, name: str) -> KeyedNode | None:
        database, nodes = self.tree.database, self.tree.nodes
        if name == RAW:
            return nodes.get(("rawdir",), RawFolder)
        if database.find(name) is not None:
            return nodes.get(("dir", name, "/"), PathFolder)
        return nodes.get(("alias", name), AliasLink) if name in database.aliases() else None

    def key_named(self, name: str) -> Key:
        if name.endswith(SUFFIX):
            raise NameNotHeld("the files themselves are in ^raw", member=name)
        return super().key_named(name)

    # -- changing --

    def make_directory(self, name: str) -> Directory:
        self._check_writable()
        if self._directory_named(name) is not None or self.tree.store.exists(self.key_named(name)):
            raise AlreadyExists(member=name)
        if not is_domain_name(name):
            raise NameNotHeld("no domain is called so", member=name)
        self.tree.database.create(name)
        return self.tree.nodes.get(("dir", name, "/"), PathFolder)

    def _remove_directory(self, name: str, node: Directory) -> None:
        if not isinstance(node, PathFolder):
            raise NotPermitted(member=name)
        with self.tree.database.locked():
            file = self.tree.database.find(name)
            held = len(file.paths) > file.first if isinstance(file, DomainFile) else True
            inside = {entry.name for entry in node.entries()} - {METADATA}
            if held or inside:
                raise DirectoryNotEmpty(member=name)
        self.tree.database.remove(name)
        self.tree.nodes.removed(node.key)
        self.tree.nodes.removed(("meta", name))
        self.tree.nodes.removed(("raw", name))

    def make_symlink(self, name: str, target: str) -> Symlink:
        self._check_writable()
        if self._directory_named(name) is not None or self.tree.store.exists(("scratch", "", "", name)):
            raise AlreadyExists(member=name)
        domain = target.removeprefix("./").rstrip("/")
        if not isinstance(self.tree.database.find(domain), DomainFile):
            raise NameNotHeld("an alias leads to a domain that is there", member=target)
        if not is_domain_name(name):
            raise NameNotHeld("no domain is called so", member=name)
        self.tree.database.change(domain, lambda file: edits.add_alias(file, name))
        return self.tree.nodes.get(("alias", name), AliasLink)

    def _remove_file(self, name: str, node: Node) -> None:
        if not isinstance(node, AliasLink):
            super()._remove_file(name, node)
            return
        self.tree.database.change(node.target(), lambda file: edits.remove_alias(file, name))
        self.tree.nodes.removed(node.key)
