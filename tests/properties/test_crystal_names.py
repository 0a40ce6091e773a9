"""Any set of URLs, fetched or only seen: each page is listed once, under a name that leads to it and back."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from archivefs.formats.crystal.tree import CrystalTree
from archivefs.tree import Directory, File
from archivefs.urlnames import marked_path
from tests.formats.crystal.projects import opened
from tests.samples.crystal import HTML, TEXT, ProjectWriter
from tests.walking import names_of, walk

TYPES = {"html": [HTML], "text": [TEXT], "none": []}

pieces = st.sampled_from(
    ["", "a", "a-", "a.b", "index.html", "index.txt", "index", "^index", "a^file", "b", "é", "s" * 260]
)
tails = st.sampled_from(["", "", "", "?", "?q=/x", "#f"])
paths = st.tuples(st.lists(pieces, max_size=4).map("/".join), tails).map("".join)
urls = st.one_of(
    paths.map(lambda path: f"https://h/{path}"),
    paths.map(lambda path: f"https://h/{path}"),
    paths.map(lambda path: f"https://{path}"),
    st.sampled_from(["https://h", "mailto:a", "mailto:a/b", "mailto:", "x y", "", "/a", "HTTP://h/a", "data:,//x/"]),
)
pages = st.dictionaries(
    urls, st.sampled_from(["html", "text", "none", "seen", "failed", "error-then-good"]), max_size=14
)


def write(folder: Path, chosen: dict[str, str]) -> Path:
    """A project with these pages; the body of each is its URL."""
    writer = ProjectWriter()
    for url, fate in chosen.items():
        body = url.encode()
        if fate == "seen":
            writer.resource(url)
        elif fate == "failed":
            writer.fail(url)
        elif fate == "error-then-good":
            writer.fetch(url, body)
            writer.fail(url)
        else:
            writer.fetch(url, body, headers=TYPES[fate])
    return writer.write(folder / "p.crystalproj")


@given(pages)
@example({"https://h/a": "html", "https://h/a/": "html", "https://h/a/b": "seen"})
@example({"https://h/a": "html", "https://h/a/index.html": "seen", "https://h/a/index.html/x": "seen"})
@example({"https://h/a": "html", "https://h/a-": "html", "https://h/a-/x": "html", "https://h/a/x": "html"})
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_page_is_listed_once_and_found(chosen: dict[str, str]) -> None:
    shown = {url for url, fate in chosen.items() if fate not in ("seen", "failed")}
    with tempfile.TemporaryDirectory() as folder, opened(write(Path(folder), chosen)) as tree:
        assert _listed(tree, "web") == sorted(shown)
        _check_history(tree, shown)
        _check_listings(tree)
    with tempfile.TemporaryDirectory() as folder, opened(write(Path(folder), chosen), "unfetched") as tree:
        expected = {url for url, fate in chosen.items() if fate != "failed"}
        assert _listed(tree, "web") == sorted(expected)
        _check_listings(tree)


def _listed(tree: CrystalTree, top: str) -> list[str]:
    """The URLs of all files, each checked for its name."""
    found = []
    for parts, entry, node, _ in walk(tree):
        if parts[0] != top or not isinstance(node, File):
            continue
        url = node.xattrs()["user.xdg.origin.url"]
        assert entry.ident == node.ident == tree.node(node.ident).ident
        assert tree.lookup(parts).ident == node.ident
        assert ("web", *tree.sight.listed_path(url)) == parts
        if tree.sight.shown_at(url).newest is not None:  # type: ignore[union-attr]
            reader = node.open()
            assert reader.read_at(0, 10_000) == url
            reader.close()
        found.append(url.decode())
    return sorted(found)


def _check_history(tree: CrystalTree, shown: set[str]) -> None:
    for url in shown:
        *folders, leaf = marked_path(url)
        node = tree.lookup(("history", *folders, f"{leaf}^revs"))
        assert node.xattrs()["user.archivefs.url"] == url.encode()


def _check_listings(tree: CrystalTree) -> None:
    """Nothing twice, and every listing goes on after each of its names."""
    for parts, _, node, _ in walk(tree):
        if isinstance(node, Directory) and parts[0] in ("web", "history"):
            names = names_of(node)
            assert len(names) == len(set(names)), parts
            assert all(len(name.encode()) <= 255 for name in names)
            for position, name in enumerate(names):
                assert names_of(node, name) == names[position + 1 :], (parts, name)
