"""``view=content``: the URLs of a database with what an archive holds for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from archivefs.cli.sources import open_archive
from archivefs.errors import UsageError
from archivefs.format import Opening
from archivefs.formats.urldb import FORMAT
from archivefs.formats.urldb.contentnames import ContentNames
from archivefs.tree import Directory, Tree
from tests.contract import SitesContract
from tests.formats.urldb.test_commands import HOST, write_project
from tests.samples import labrador
from tests.samples.urldb import HARBOUR, LOGO, MINIMAL, write
from tests.samples.zips import write_tree
from tests.walking import as_dict, content_of, names_of

SHOWN: dict[str, object] = {
    "ferries.example": HOST,
    f"www.{HOST}": HOST,
    HOST: {
        "^missing.txt": f"""\
http://{HOST}/about/crew
http://{HOST}/old
http://{HOST}/pier 7/ü
http://{HOST}/search?q=a/b&from=1
http://{HOST}/tide.yaml
http://{HOST}/tide.yaml/today
http://{HOST}/wreck
""".encode(),
        "index.html": b"<p>harbour",
        "about": {"index.html": b"<p>about", "crew": {"index.html": b"<p>crew"}},
        "logo.png": LOGO,
    },
    "minimal.example": {"^missing.txt": b"http://minimal.example/\n"},
}


class TestContract(SitesContract):
    """The promises of every tree."""

    expected = SHOWN

    def make_archive(self, tmp_path: Path) -> Path:
        self.project = write_project(tmp_path)
        return write(tmp_path / "db", {HOST: HARBOUR, "minimal.example": MINIMAL})

    def open_archive(self, path: Path) -> Tree:
        options = {"view": "content", "join": str(self.project)}
        return FORMAT.open(str(path), Opening(options=options, open_other=open_archive))


def test_a_redirect_is_followed_inside_the_archive(tmp_path: Path) -> None:
    # /old leads to http://…/about, and the archive has that page by https only: not found, so not shown
    text = "---\nhttps: true\n---\n_path: /about\n---\n_path: /old\n"
    tree = opened(write(tmp_path / "db", {HOST: text}), write_project(tmp_path))
    assert names_of(tree.lookup((HOST,))) == ["^missing.txt", "about"]


def opened(path: Path, archive: Path) -> Tree:
    return FORMAT.open(str(path), Opening(options={"view": "content", "join": str(archive)}, open_other=open_archive))


def test_with_a_labrador_archive(tmp_path: Path) -> None:
    text = "---\n---\n_path: /\n---\n_path: /none.html\n---\n_path: /walks/north.html\n"
    path = write(tmp_path / "db", {"site.example": text})
    tree = opened(path, labrador.write(tmp_path / "site.lbz", labrador.SITE))
    assert as_dict(tree.root()) == {
        "site.example": {
            "^missing.txt": b"http://site.example/none.html\n",
            "index.html": labrador.SITE["/"],
            "walks": {"north.html": labrador.SITE["/walks/north.html"]},
        }
    }
    tree.close()


def test_the_marked_names_always_open(tmp_path: Path) -> None:
    tree = opened(write(tmp_path / "db", {HOST: HARBOUR}), write_project(tmp_path))
    domain = tree.lookup((HOST,))
    assert isinstance(domain, Directory)
    assert content_of(domain.child("^index")) == b"<p>harbour"
    assert content_of(domain.child("about^file")) == b"<p>about"
    tree.close()


def test_an_archive_without_urls_cannot_be_joined(tmp_path: Path) -> None:
    archive = write_tree(tmp_path / "plain.zip")
    with pytest.raises(UsageError, match="knows no URLs"):
        opened(write(tmp_path / "db"), archive)


@pytest.mark.parametrize(
    ("paths", "listed"),
    [
        (["/"], {"/": "index.html"}),
        (["/", "/index.html"], {"/": "^index", "/index.html": "index.html"}),
        (["/", "/index.html/x"], {"/": "^index", "/index.html/x": "index.html/x"}),
        (["/d", "/d/x"], {"/d": "d/index.html", "/d/x": "d/x"}),
        (["/d", "/d/", "/d/x"], {"/d": "d^file", "/d/": "d/index.html", "/d/x": "d/x"}),
        (["/d", "/d/index.html"], {"/d": "d^file", "/d/index.html": "d/index.html"}),
        (["/d?q", "/d/x"], {"/d?q": "d?q", "/d/x": "d/x"}),
        (["/a/../b", "/a//c"], {"/a/../b": "a/^2E^2E/b", "/a//c": "a/^empty/c"}),
    ],
)
def test_listed_names(paths: list[str], listed: dict[str, str]) -> None:
    names = ContentNames(dict.fromkeys(paths, "text/html; charset=utf-8"))
    assert {path: "/".join(names.parts(path)) for path in paths} == listed
