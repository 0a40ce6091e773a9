"""The contract suite finds what it is there to find: each tree here breaks one promise, and one test says so."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from archivefs.errors import NotFound
from archivefs.memory import MemoryTree
from archivefs.readers import BytesReader, ExtentReader
from archivefs.tree import Attributes, Directory, Entry, Extent, File, Node, Reader, Symlink, Tree
from tests.contract import TreeContract
from tests.walking import stays_inside

CONTENT = {"a": b"first", "b": {"c": b"second", "up": "../a"}, "d": bytes(5000)}


class Lying(MemoryTree):
    """A MemoryTree whose nodes are replaced on their way out by *lie*, which may return them as they are."""

    def __init__(self, lie: Callable[[Node], Node], content: dict = CONTENT) -> None:
        super().__init__(content)
        self._lie = lie
        self.leads_back = False

    def root(self) -> Directory:
        return Wrapped(super().root(), self._lie)


class Wrapped(Directory):
    """A directory that lies about its children, but keeps their names."""

    def __init__(self, inner: Directory, lie: Callable[[Node], Node]) -> None:
        self.inner, self.tree, self.ident, self.lie = inner, inner.tree, inner.ident, lie

    def attributes(self) -> Attributes:
        return self.inner.attributes()

    def child(self, name: str) -> Node:
        return self._told(self.inner.child(name))

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        for entry in self.inner.entries(after):
            yield Entry(entry.name, entry.kind, entry.ident)

    def _told(self, node: Node) -> Node:
        return self.lie(Wrapped(node, self.lie) if isinstance(node, Directory) else node)


class Told(File):
    """A file that says what it is told to say."""

    def __init__(self, inner: Node, reader: Callable[[bytes], Reader], *, size: int = 0, ident: int = 0) -> None:
        self.tree, self.ident = inner.tree, ident or inner.ident
        self._data = inner.open().read_at(0, 10**6) if isinstance(inner, File) else b""
        self._reader, self._size, self.told = reader, size, {}

    def attributes(self) -> Attributes:
        return Attributes(len(self._data) + self._size)

    def xattrs(self) -> dict[str, bytes]:
        return self.told

    def open(self) -> Reader:
        return self._reader(self._data)


class Leading(Symlink):
    """A link to wherever it is told."""

    def __init__(self, inner: Node, target: str) -> None:
        self.tree, self.ident, self._target = inner.tree, inner.ident, target

    def attributes(self) -> Attributes:
        return Attributes(len(self._target))

    def target(self) -> str:
        return self._target


def files(make: Callable[[Node], Node]) -> Callable[[Node], Node]:
    return lambda node: make(node) if isinstance(node, File) else node


def links(target: str) -> Callable[[Node], Node]:
    return lambda node: Leading(node, target) if isinstance(node, Symlink) else node


def with_xattr(node: Node, name: str, value: bytes) -> Node:
    told = Told(node, BytesReader)
    told.told = {name: value}
    return told


class Shorter(BytesReader):
    def read_at(self, offset: int, size: int) -> bytes:
        return super().read_at(offset, size - 1 if size > 100 else size)


class Seeking(BytesReader):
    """Keeps a position that all readers of the file share."""

    def read_at(self, offset: int, size: int) -> bytes:
        return super().read_at(offset if offset == 0 or size > 4096 else offset + 1, size)


class PastTheEnd(BytesReader):
    def read_at(self, offset: int, size: int) -> bytes:
        return super().read_at(offset, size) or b"\0" * min(size, 1)


def elsewhere(data: bytes) -> Reader:
    fd = os.memfd_create("elsewhere")
    os.write(fd, data + b"x")

    class Reading(ExtentReader):
        def extent(self) -> Extent:
            return Extent(fd, 1, len(data))

    return Reading(Extent(fd, 0, len(data)), owned=True)


class Listing(Directory):
    """A root whose listing is what *entries* makes of the true one."""

    def __init__(self, inner: Directory, entries: Callable[[list[Entry], str | None], list[Entry]]) -> None:
        self.inner, self.tree, self.ident, self._entries = inner, inner.tree, inner.ident, entries

    def attributes(self) -> Attributes:
        return self.inner.attributes()

    def child(self, name: str) -> Node:
        return self.inner.child(name)

    def entries(self, after: str | None = None) -> Iterator[Entry]:
        yield from self._entries(list(self.inner.entries(after)), after)


class Listed(MemoryTree):
    def __init__(self, entries: Callable[[list[Entry], str | None], list[Entry]], content: dict = CONTENT) -> None:
        super().__init__(content)
        self._entries = entries

    def root(self) -> Directory:
        return Listing(super().root(), self._entries)


class Forgiving(Wrapped):
    def child(self, name: str) -> Node:
        try:
            return super().child(name)
        except NotFound:
            return super().child("a")


class Finding(Lying):
    def root(self) -> Directory:
        return Forgiving(MemoryTree.root(self), lambda node: node)


class LeadsAstray(MemoryTree):
    def node(self, ident: int) -> Node:
        return super().node(2)


def alternately() -> Callable[[list[Entry], str | None], list[Entry]]:
    turn = [0]

    def entries(true: list[Entry], _after: str | None) -> list[Entry]:
        turn[0] += 1
        return true[:: 1 if turn[0] % 2 else -1]

    return entries


def odd_name(name: str) -> MemoryTree:
    return MemoryTree({name: b"x", "z": b""})


BROKEN: dict[str, tuple[str, Callable[[], Tree]]] = {
    "size too large": ("test_sizes_are_exact", lambda: Lying(files(lambda n: Told(n, BytesReader, size=1)))),
    "size too small": ("test_sizes_are_exact", lambda: Lying(files(lambda n: Told(n, BytesReader, size=-1)))),
    "short read": ("test_reads_are_slices", lambda: Lying(files(lambda n: Told(n, Shorter)))),
    "moved read": ("test_reads_are_slices", lambda: Lying(files(lambda n: Told(n, Seeking)))),
    "moved read, backwards": (
        "test_reading_backwards_gives_the_same_bytes",
        lambda: Lying(files(lambda n: Told(n, Seeking))),
    ),
    "moved read, two": ("test_two_readers_of_one_file_do_not_meet", lambda: Lying(files(lambda n: Told(n, Seeking)))),
    "moved read, eight": ("test_eight_threads_read_the_same_bytes", lambda: Lying(files(lambda n: Told(n, Seeking)))),
    "past the end": ("test_nothing_is_read_beyond_the_end", lambda: Lying(files(lambda n: Told(n, PastTheEnd)))),
    "wrong extent": ("test_an_extent_is_what_is_read", lambda: Lying(files(lambda n: Told(n, elsewhere)))),
    "one ident for all": (
        "test_idents_are_unique_and_in_range",
        lambda: Lying(files(lambda n: Told(n, BytesReader, ident=7))),
    ),
    "ident too large": (
        "test_idents_are_unique_and_in_range",
        lambda: Lying(files(lambda n: Told(n, BytesReader, ident=2**48))),
    ),
    "other ident": (
        "test_what_is_listed_can_be_looked_up",
        lambda: Lying(files(lambda n: Told(n, BytesReader, ident=n.ident + 100))),
    ),
    "other kind": (
        "test_what_is_listed_can_be_looked_up",
        lambda: Lying(lambda n: Told(n, BytesReader) if isinstance(n, Symlink) else n),
    ),
    "xattr of the system": (
        "test_extended_attributes_are_ones_the_kernel_takes",
        lambda: Lying(files(lambda n: with_xattr(n, "security.x", b""))),
    ),
    "xattr too large": (
        "test_extended_attributes_are_ones_the_kernel_takes",
        lambda: Lying(files(lambda n: with_xattr(n, "user.x", bytes(70000)))),
    ),
    "absolute link": ("test_symbolic_links_stay_inside", lambda: Lying(links("/etc/passwd"))),
    "climbing link": ("test_symbolic_links_stay_inside", lambda: Lying(links("../../x"))),
    "all names found": ("test_what_is_not_there_is_not_found", lambda: Finding(lambda n: n)),
    "forbidden names found": ("test_names_that_no_listing_may_have_are_not_found", lambda: Finding(lambda n: n)),
    "long names found": ("test_a_name_too_long_is_refused_or_not_found", lambda: Finding(lambda n: n)),
    "leads astray": ("test_an_ident_leads_back", lambda: LeadsAstray(CONTENT)),
    "leads anywhere": ("test_an_ident_that_was_never_given_leads_nowhere", lambda: LeadsAstray(CONTENT)),
    "two of one name": ("test_names_are_legal_and_unique", lambda: Listed(lambda true, _: [*true, true[0]])),
    "slash in a name": ("test_names_are_legal_and_unique", lambda: odd_name("a/b")),
    "surrogate in a name": ("test_names_are_legal_and_unique", lambda: odd_name("a\udc80")),
    "name too long": ("test_names_are_legal_and_unique", lambda: odd_name("x" * 1021)),
    "dot": ("test_names_are_legal_and_unique", lambda: odd_name("..")),
    "order that changes": ("test_listing_twice_gives_the_same_order", lambda: Listed(alternately())),
    "starts over": (
        "test_a_listing_goes_on_after_any_name",
        lambda: Listed(lambda true, after: true if not after else true[1:]),
    ),
    "nothing after": (
        "test_a_listing_goes_on_after_any_name",
        lambda: Listed(lambda true, after: true if not after else []),
    ),
    "name left out": ("test_the_tree_is_as_expected", lambda: Listed(lambda true, _: true[1:])),
    "other bytes": ("test_the_tree_is_as_expected", lambda: MemoryTree({**CONTENT, "a": b"other"})),
}


class Case(TreeContract):
    expected = CONTENT


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_promise_is_found(broken: str) -> None:
    name, make = BROKEN[broken]
    with pytest.raises((AssertionError, UnicodeEncodeError, pytest.fail.Exception)):
        getattr(Case(), name)(make())


@pytest.mark.parametrize("name", sorted({name for name, _ in BROKEN.values()}))
def test_a_promise_kept_is_not_complained_of(name: str) -> None:
    getattr(Case(), name)(MemoryTree(CONTENT))


class Touching(TreeContract):
    """A tree that leaves a file beside its archive, as SQLite does."""

    def __init__(self, sidecar: str) -> None:
        self.sidecar = sidecar

    def make_archive(self, tmp_path: Path) -> Path:
        path = tmp_path / "archive"
        path.write_bytes(b"archive")
        return path

    def open_archive(self, path: Path) -> Tree:
        if self.sidecar == "touch":
            os.utime(path, (1, 1))
        elif self.sidecar == "leak":
            os.open(path, os.O_RDONLY)
        elif self.sidecar:
            path.with_name(self.sidecar).write_bytes(b"")
        return MemoryTree(CONTENT)


@pytest.mark.parametrize("sidecar", ["archive-wal", "touch"])
def test_a_trace_left_at_the_archive_is_found(tmp_path: Path, sidecar: str) -> None:
    with pytest.raises(AssertionError):
        Touching(sidecar).test_reading_leaves_the_archive_as_it_was(tmp_path)
    (tmp_path / "clean").mkdir()
    Touching("").test_reading_leaves_the_archive_as_it_was(tmp_path / "clean")


def test_a_descriptor_left_open_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        Touching("leak").test_closing_gives_every_descriptor_back(tmp_path)
    for number in os.listdir("/proc/self/fd"):
        if os.path.exists(f"/proc/self/fd/{number}") and str(tmp_path) in os.readlink(f"/proc/self/fd/{number}"):
            os.close(int(number))


@pytest.mark.parametrize(
    ("target", "depth", "inside"),
    [
        ("a", 0, True),
        ("../a", 1, True),
        ("../a", 0, False),
        ("b/../../a", 1, True),
        ("b/../../a", 0, False),
        ("/a", 5, False),
        ("", 5, False),
        ("..", 1, True),
        ("../..", 1, False),
    ],
)
def test_where_a_link_leads(target: str, depth: int, inside: bool) -> None:
    assert stays_inside(target, depth=depth) is inside
