"""A project of any URLs: what is listed is found, under that kind and number, and whatever is fetched is listed."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from archivefs.formats.crystal import walk as walk_module
from archivefs.tree import Directory, File
from tests.formats.crystal.projects import directory, node, opened
from tests.samples.crystal import HTML, TEXT, ProjectWriter
from tests.walking import names_of, walk

pieces = st.sampled_from(
    ["a", "b", "A", "/", "/", "?", "#", "%", "_", "*", "[", "^", "~", ".", "..", "index.html", "ü", "\n"]
)
paths = st.lists(pieces, max_size=6).map("".join)
urls = st.one_of(
    paths.map("https://h.example/".__add__),
    paths.map("https://h.example/a".__add__),
    paths.map("http://".__add__),
    paths,
)
fates = st.sampled_from(["fetched", "fetched", "fetched", "plain", "failed", "then failed", "seen"])


def filled(rows: dict[str, str]) -> ProjectWriter:
    writer = ProjectWriter()
    for url, fate in rows.items():
        if fate == "seen":
            writer.resource(url)
        elif fate == "failed":
            writer.fail(url)
        else:
            writer.fetch(url, url.encode(), headers=[TEXT if fate == "plain" else HTML])
            if fate == "then failed":
                writer.fail(url)
    return writer


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(urls, fates, max_size=14))
def test_listings_and_look_ups_agree(rows: dict[str, str]) -> None:
    folder = Path(tempfile.mkdtemp())
    largest, walk_module.LARGEST_PAGE = walk_module.LARGEST_PAGE, 4
    try:
        filled(rows).write(folder / "it.crystalproj")
        with opened(folder / "it.crystalproj") as tree:
            read = []
            for found in walk(tree):
                assert (found.node.kind, found.node.ident) == (found.entry.kind, found.entry.ident or found.node.ident)
                if isinstance(found.node, File) and found.parts[0] == "web":
                    reader = found.node.open()
                    read.append(reader.read_at(0, 1 << 16).decode())
                    reader.close()
                if isinstance(found.node, Directory):
                    names = names_of(found.node)
                    assert len(set(names)) == len(names)
                    for number, name in enumerate(names):
                        assert names_of(found.node, name) == names[number + 1 :]
            kept = sorted(url for url, fate in rows.items() if fate not in ("seen", "failed"))
            assert sorted(read) == kept
            assert isinstance(node(tree, "web"), Directory) and directory(tree, "web").ident
    finally:
        walk_module.LARGEST_PAGE = largest
        shutil.rmtree(folder)
