"""The tree of a URL database: what is shown, under which names, with which attributes and content."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from archivefs.errors import BadOption, NotFound, TreeReadOnly, UnreadableArchive, UsageError
from archivefs.format import Match, Opening, Probe
from archivefs.formats.urldb import FORMAT, database
from archivefs.tree import Directory, Symlink, Tree, WritableDirectory
from tests.contract import SitesContract
from tests.samples.urldb import DATABASE, HARBOUR, LOGO, LOGO_DIGEST, MINIMAL, SECURE, large, write
from tests.walking import as_dict, content_of, names_of

LONG = "/long?q=" + "x" * 300


def record(path: str) -> bytes:
    """A record's own text."""
    for text in HARBOUR.split("---\n")[2:]:
        if text.startswith(f"_path: {path}\n"):
            return text.encode()
    raise AssertionError(path)


TREE: dict[str, object] = {
    "^raw": {f"{name}.yaml": text.encode() for name, text in DATABASE.items()},
    "ferries.example": "harbour.example",
    "www.harbour.example": "harbour.example",
    "harbour.example": {
        "^domain.yaml": b"cnames:\n- ferries.example\n- www.harbour.example\n",
        "^index.yaml": record("/"),
        "about.yaml": record("/about"),
        "about": {"crew.yaml": record("/about/crew"), "crew": {"^index.yaml": record("/about/crew/")}},
        "logo.png.yaml": record("/logo.png"),
        "old.yaml": record("/old"),
        "pier 7": {"ü.yaml": record("/pier 7/ü")},
        "search?q=a^2Fb&from=1.yaml": record("/search?q=a/b&from=1"),
        "tide.yaml.yaml": record("/tide.yaml"),
        "tide.yaml^dir": {"today.yaml": record("/tide.yaml/today")},
        "wreck.yaml": record("/wreck"),
    },
    "minimal.example": {"^domain.yaml": b"", "^index.yaml": b"_path: /\n"},
    "secure.example:8443": {
        "^domain.yaml": b"case-sensitive-paths: false\nhttps: true\n",
        "hello?Key=MiXed.yaml": b"_path: /hello?Key=MiXed\ncontent-type: text/html\n",
    },
}


class TestContract(SitesContract):
    """The promises of every tree."""

    expected = TREE

    def make_archive(self, tmp_path: Path) -> Path:
        return write(tmp_path / "db")

    def open_archive(self, path: Path) -> Tree:
        return FORMAT.open(str(path), Opening())


class TestWritableContract(TestContract):
    """The same of a tree that may be changed."""

    def open_archive(self, path: Path) -> Tree:
        return FORMAT.open(str(path), Opening(read_write=True))


class TestLarge(SitesContract):
    """Many records, long names and broken ones."""

    def make_archive(self, tmp_path: Path) -> Path:
        broken = f"---\n---\n_path: [\n---\n_path: {LONG}\n---\n_path: /{'d' * 300}/x\n---\n_path: /a#b\n"
        return write(tmp_path / "db", {"big.example": large(400), "odd.example": broken})

    def open_archive(self, path: Path) -> Tree:
        return FORMAT.open(str(path), Opening())


def opened(folder: Path, files: dict[str, str | bytes] | None = None, **options: object) -> Tree:
    return FORMAT.open(str(write(folder, files)), Opening(options=options))


def xattrs(tree: Tree, *parts: str) -> dict[str, bytes]:
    return dict(tree.lookup(parts).xattrs())


def test_attributes_of_records(tmp_path: Path) -> None:
    tree = opened(tmp_path / "db")
    assert xattrs(tree, "harbour.example", "logo.png.yaml") == {
        "user.xdg.origin.url": b"http://harbour.example/logo.png",
        "user.archivefs.path": b"/logo.png",
        "user.archivefs.content-length": str(len(LOGO)).encode(),
        "user.archivefs.content-sha256": LOGO_DIGEST.encode(),
        "user.archivefs.content-type": b"image/png",
        "user.archivefs.categories": b"graphics\nstatic",
    }
    assert xattrs(tree, "secure.example:8443", "hello?Key=MiXed.yaml")["user.xdg.origin.url"] == (
        b"https://secure.example:8443/hello?Key=MiXed"
    )
    assert xattrs(tree, "harbour.example") == {}


def test_numbers_are_the_same_at_every_mount_and_times_are_the_files(tmp_path: Path) -> None:
    write(tmp_path / "db")
    one, two = (FORMAT.open(str(tmp_path / "db"), Opening()) for _ in range(2))
    parts = ("harbour.example", "about", "crew.yaml")
    assert one.lookup(parts).ident == two.lookup(parts).ident
    mtime_ns = os.stat(tmp_path / "db" / "harbour.example.yaml").st_mtime_ns
    assert one.lookup(parts).attributes().mtime_ns == mtime_ns
    assert one.lookup(("harbour.example", "about")).attributes().mtime_ns == mtime_ns


def test_what_cannot_be_shown_is_told(tmp_path: Path) -> None:
    text = "---\n---\n_path: [\n---\n_path: /a#b\n---\n_path: /fine\n---\n- a\n"
    tree = opened(tmp_path / "db", {"bad.example": text, "ok.example": MINIMAL})
    assert as_dict(tree.root())["bad.example"] == {
        "^domain.yaml": b"",
        "fine.yaml": b"_path: /fine\n",
        "^errors.txt": b"bad.example.yaml:2: error: yaml: did not find expected node content (line 2 after its ---)\n"
        b"bad.example.yaml:5: error: fragment: _path has a fragment in it\n"
        b"bad.example.yaml:8: error: not-a-mapping: a record is a mapping\n",
    }
    assert names_of(tree.lookup(("ok.example",))) == ["^domain.yaml", "^index.yaml"]


def test_a_file_that_is_too_large_shows_only_its_error(tmp_path: Path) -> None:
    tree = opened(tmp_path / "db", {"a.example": HARBOUR, "b.example": MINIMAL}, max_file=100)
    found = as_dict(tree.root())
    assert found["a.example"] == {"^errors.txt": b"a.example.yaml:1: error: too-big: larger than 100 bytes\n"}
    assert found["^raw"] == {"b.example.yaml": MINIMAL.encode()}


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_file_that_cannot_be_read_shows_only_its_error(tmp_path: Path) -> None:
    path = write(tmp_path / "db")
    (path / "minimal.example.yaml").chmod(0)
    tree = FORMAT.open(str(path), Opening())
    assert names_of(tree.lookup(("minimal.example",))) == ["^errors.txt"]


def test_long_names_are_found_again(tmp_path: Path) -> None:
    tree = opened(tmp_path / "db", {"a.example": f"---\n---\n_path: {LONG}\n---\n_path: /{'d' * 300}/x\n"})
    domain = tree.lookup(("a.example",))
    assert isinstance(domain, Directory)
    name = next(name for name in names_of(domain) if name.startswith("long"))
    assert len(name.encode()) <= 255
    assert domain.child(name).xattrs()["user.archivefs.path"] == LONG.encode()
    with pytest.raises(NotFound):
        domain.child(name.replace("q=x", "q=y"))
    inner = domain.child(next(name for name in names_of(domain) if name.startswith("d")))
    assert isinstance(inner, Directory)
    assert names_of(inner) == ["x.yaml"]


def test_aliases(tmp_path: Path) -> None:
    one = "---\ncnames: [shared.example, b.example]\n---\n_path: /\n"
    two = "---\ncnames: shared.example\n---\n_path: /\n"
    tree = opened(tmp_path / "db", {"a.example": one, "b.example": two})
    root = tree.root()
    assert names_of(root) == ["^raw", "a.example", "b.example", "shared.example"]
    link = root.child("shared.example")
    assert isinstance(link, Symlink)
    assert link.target() == "a.example"
    assert isinstance(root.child("b.example"), Directory)


def test_only_files_of_domains_count(tmp_path: Path) -> None:
    path = write(tmp_path / "db", {"a.example": MINIMAL})
    (path / "sub.yaml").mkdir()
    for name in ("README", ".hidden.yaml", "x.yml", "UPPER.example.yaml", ".a.example.yaml.1.archivefs-new"):
        (path / name).write_text(MINIMAL)
    tree = FORMAT.open(str(path), Opening())
    assert names_of(tree.root()) == ["^raw", "a.example"]


def test_changes_by_others_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LOOK_EVERY_S", 0.05)
    path = write(tmp_path / "db", {"a.example": MINIMAL})
    tree = FORMAT.open(str(path), Opening())
    before = tree.generation()
    node = tree.lookup(("a.example", "^index.yaml"))
    assert content_of(node) == b"_path: /\n"
    (path / "a.example.yaml").write_text("---\n---\n_path: /\nx: 1\n---\n_path: /new\n")
    (path / "b.example.yaml").write_text(MINIMAL)
    time.sleep(0.1)
    assert content_of(node) == b"_path: /\nx: 1\n"
    assert names_of(tree.lookup(("a.example",))) == ["^domain.yaml", "^index.yaml", "new.yaml"]
    assert "b.example" in names_of(tree.root())
    assert tree.generation() > before
    after = tree.generation()
    time.sleep(0.1)
    assert tree.generation() == after
    (path / "b.example.yaml").unlink()
    time.sleep(0.1)
    with pytest.raises(NotFound):
        tree.lookup(("b.example",))


def test_large_files_are_read_again_when_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "KEPT_BYTES", 100)
    tree = opened(tmp_path / "db")
    assert as_dict(tree.root()) == TREE


def test_a_tree_opened_for_reading_cannot_be_changed(tmp_path: Path) -> None:
    tree = opened(tmp_path / "db")
    domain = tree.lookup(("harbour.example",))
    assert isinstance(domain, WritableDirectory)
    with pytest.raises(TreeReadOnly):
        domain.create("x.yaml", exclusive=False)
    with pytest.raises(TreeReadOnly):
        domain.make_directory("x")
    with pytest.raises(TreeReadOnly):
        domain.set_times(mtime_ns=1)


def test_urls_are_found(tmp_path: Path) -> None:
    tree = opened(tmp_path / "db")
    [capture] = tree.captures("https://WWW.harbour.example/about/crew/")  # type: ignore[attr-defined]
    assert capture.parts == ("harbour.example", "about", "crew", "^index.yaml")
    assert list(tree.captures("http://harbour.example/none")) == []  # type: ignore[attr-defined]


# -- recognising --


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("a.example.yaml", MINIMAL, Match.YES),
        ("a.example.yaml", "# c\n\n%YAML 1.1\n---\n", Match.YES),
        ("a.example.yaml", "\ufeff---\n", Match.YES),
        ("a.example:80.yaml", SECURE, Match.YES),
        ("a.example.yaml", "a: 1\n---\n", Match.NO),
        ("a.example.yml", MINIMAL, Match.NO),
        ("Upper.yaml", MINIMAL, Match.NO),
        ("a.example.yaml", "", Match.NO),
    ],
)
def test_recognising(name: str, text: str, match: Match, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert FORMAT.match(Probe(str(tmp_path))) is match


def test_a_file_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "a.example.yaml").write_text(MINIMAL)
    assert FORMAT.match(Probe(str(tmp_path / "a.example.yaml"))) is Match.NO
    with pytest.raises(UnreadableArchive):
        FORMAT.open(str(tmp_path / "a.example.yaml"), Opening())


def test_the_content_view_needs_an_archive_and_is_only_read(tmp_path: Path) -> None:
    path = str(write(tmp_path / "db"))
    with pytest.raises(BadOption, match="join=ARCHIVE"):
        FORMAT.open(path, Opening(options={"view": "content"}))
    with pytest.raises(UsageError, match="cannot be written"):
        FORMAT.open(path, Opening(options={"view": "content", "join": "x"}, read_write=True))
