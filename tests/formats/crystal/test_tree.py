"""The tree of a project: the contract, in every version and state, and what each view shows."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from archivefs.errors import CorruptMember, NotFound
from archivefs.tree import Kind, Tree
from tests.contract import SitesContract
from tests.formats.crystal.projects import (
    SITE,
    directory,
    file,
    names,
    node,
    opened,
    opening,
    project,
    read,
    shape,
    target,
    xattr,
)
from tests.samples import crystal
from tests.samples.crystal import HTML, TEXT, ProjectWriter
from tests.walking import names_of

WEB = {
    "https": {
        "harbour.example": {
            "index.html": b"<h1>Harbour news</h1>\n<p>Calm.\n",
            "lost": b"<p>No such page.\n",
            "news": {
                "index.html": b"<h1>All news</h1>\n",
                "calm": b"<p>All boats are back.\n",
                "fog": b"<p>No boats went out.\n",
                "storm": b"<p>It took two boats.\n",
            },
            "old": b"",
            "style.css": b"h1 { color: #046 }\n",
            "tides?day=1": b"low 04:10, high 10:20\n",
            "tides?day=2": b"low 05:00, high 11:08\n",
        },
        "www.harbour.example": "harbour.example",
    }
}


class Contract(SitesContract):
    """The small site; a subclass says in which state it is found."""

    major: int | None = 2
    release = "2.2"

    def make_archive(self, tmp_path: Path) -> Path:
        path = crystal.write(tmp_path / "site.crystalproj", major=self.major, release=self.release)
        self.disturb(path)
        return path

    def disturb(self, path: Path) -> None:
        """What happened to it."""

    def open_archive(self, path: Path) -> Tree:
        from archivefs.formats.crystal.tree import CrystalTree

        return CrystalTree(str(path), opening())

    def test_the_site_is_there(self, tree: Tree) -> None:
        web = dict(WEB["https"])
        if self.release != "2.2":
            del web["www.harbour.example"]
        assert shape(tree, "web/https") == web  # type: ignore[arg-type]


class TestVersion2(Contract):
    pass


class TestVersionNotSaid(Contract):
    major = None
    release = "1.0"


class TestVersion3(Contract):
    major = 3

    def disturb(self, path: Path) -> None:
        crystal.harbour(ProjectWriter(major=3)).pack(path, 0)


class TestLogLeftBehind(Contract):
    """Crystal died: rows only in the log, no ``-shm``."""

    def disturb(self, path: Path) -> None:
        original = path / "database.sqlite"
        copy = path.parent / "copy.sqlite"
        original.unlink()
        database = sqlite3.connect(copy)
        database.execute("pragma journal_mode=wal")
        crystal.harbour(ProjectWriter()).write_rows(database)
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{copy}{suffix}", f"{original}{suffix}")
        database.close()


class TestLogHeaderAlone(Contract):
    """Closed while something else had it open: the header says log, and there is none."""

    def disturb(self, path: Path) -> None:
        database = sqlite3.connect(path / "database.sqlite")
        database.execute("pragma journal_mode=wal")
        database.close()


class TestNoIndexOfRevisions(Contract):
    """Never seen in a real project: the index is made in a private database."""

    @pytest.fixture(autouse=True)
    def _expect_a_warning(self, caplog: pytest.LogCaptureFixture) -> None:
        """It is said in the log."""

    def disturb(self, path: Path) -> None:
        database = sqlite3.connect(path / "database.sqlite")
        database.execute("drop index resource_revision__resource_id")
        database.close()


@pytest.mark.parametrize("release", crystal.RELEASES)
@pytest.mark.parametrize("major", [1, 2, 3])
def test_every_version_with_every_schema(tmp_path: Path, major: int, release: str) -> None:
    with opened(crystal.write(tmp_path / "p.crystalproj", major=major, release=release)) as tree:
        site = WEB["https"]["harbour.example"]
        assert shape(tree, "web/https/harbour.example") == site
        assert names(tree, "errors/status") == ["301", "304", "404"]
        assert names(tree, "errors/fetch") == ["13.json"]


# -- web/ --


def test_what_is_never_fetched_is_hidden_unless_asked_for(tmp_path: Path) -> None:
    def fill(writer: ProjectWriter) -> None:
        writer.fetch(f"{SITE}/a", b"a")
        writer.resource(f"{SITE}/seen")
        writer.resource("https://elsewhere.example/x")
        writer.resource("mailto:someone@site.example")

    path = project(tmp_path, fill)
    with opened(path) as tree:
        assert names(tree, "web") == ["https"]
        assert names(tree, "web/https") == ["site.example"]
        assert names(tree, "web/https/site.example") == ["a"]
        with pytest.raises(NotFound):
            node(tree, "web/https/elsewhere.example")
    with opened(path, "unfetched") as tree:
        assert names(tree, "web") == ["https", "mailto:"]
        assert shape(tree, "web/https/site.example") == {"a": b"a", "seen": b""}
        assert read(tree, "web/mailto:/someone@site.example") == b""
        assert xattr(tree, "web/https/site.example/seen", "state") == "unfetched"


def test_a_directory_is_hidden_only_when_it_is_certain_that_nothing_was_fetched(tmp_path: Path) -> None:
    def fill(writer: ProjectWriter) -> None:
        for number in range(70):
            writer.resource(f"https://late.example/{number:02}")
            writer.resource(f"https://never.example/{number:02}")
        for number in range(63):
            writer.resource(f"https://empty.example/{number:02}")
        writer.fetch("https://late.example/99", b"late")
        writer.resource("https://page.example/d/below")
        writer.fetch("https://page.example/d", b"page")

    with opened(project(tmp_path, fill)) as tree:
        assert names(tree, "web/https") == ["late.example", "never.example", "page.example"]
        assert names(tree, "web/https/late.example") == ["99"]
        assert shape(tree, "web/https/page.example") == {"d": {"index.html": b"page"}}
        with pytest.raises(NotFound):
            node(tree, "web/https/empty.example")


def test_an_error_falls_back_to_what_was_there_before(tmp_path: Path) -> None:
    def fill(writer: ProjectWriter) -> None:
        writer.fetch(f"{SITE}/a", b"good")
        writer.fail(f"{SITE}/a")
        writer.fail(f"{SITE}/only-errors")
        writer.fail(f"{SITE}/b")
        writer.fetch(f"{SITE}/b", b"good again")
        writer.fetch(f"{SITE}/tagged", b"one", headers=[HTML, ("ETag", "1")])
        writer.fetch(f"{SITE}/tagged", b"two", headers=[HTML, ("ETag", "2")])
        writer.fetch(f"{SITE}/tagged", b"", status=304, headers=[("ETag", "1")])
        writer.fail(f"{SITE}/tagged")
        writer.fetch(f"{SITE}/lost", b"older")
        writer.fetch(f"{SITE}/lost", None)
        writer.fail(f"{SITE}/lost")

    path = project(tmp_path, fill)
    site = "web/https/site.example"
    with opened(path) as tree:
        assert names(tree, site) == ["a", "b", "lost", "tagged"]
        assert read(tree, f"{site}/a") == b"good"
        assert xattr(tree, f"{site}/a", "fallback") == "2"
        assert xattr(tree, f"{site}/a", "revision") == "1"
        assert xattr(tree, f"{site}/b", "fallback") is None
        assert read(tree, f"{site}/tagged") == b"one"
        assert xattr(tree, f"{site}/lost", "state") == "lost"
        assert names(tree, "errors/fetch") == ["2.json", "3.json", "4.json", "9.json", "12.json"]
    with opened(path, "prefer=crystal") as tree:
        assert names(tree, site) == ["b"]
        with pytest.raises(NotFound):
            node(tree, f"{site}/a")


def test_a_304_stands_for_the_page_with_its_tag(tmp_path: Path) -> None:
    def fill(writer: ProjectWriter) -> None:
        tag = ("ETag", '"x"')
        writer.fetch(f"{SITE}/a", b"first", headers=[HTML, tag, ("Expires", "never"), ("Vary", "a")])
        writer.fetch(f"{SITE}/a", b"second", headers=[HTML, tag, ("X-Kept", "yes")])
        writer.fetch(f"{SITE}/a", b"", status=304, headers=[tag, ("Vary", "b"), ("X-New", "no")])
        writer.fetch(f"{SITE}/unmatched", b"y", headers=[TEXT, ("ETag", "1")])
        writer.fetch(f"{SITE}/unmatched", b"", status=304, headers=[("ETag", "2")])
        writer.fetch(f"{SITE}/untagged", b"z", headers=[TEXT])
        writer.fetch(f"{SITE}/untagged", b"", status=304, headers=[])

    with opened(project(tmp_path, fill)) as tree:
        page = "web/https/site.example/a"
        assert read(tree, page) == b"second"
        assert (xattr(tree, page, "revision"), xattr(tree, page, "status")) == ("2", "200")
        assert xattr(tree, page, "date") == "2024-05-17T12:02:00Z"
        headers = dict(json.loads(xattr(tree, page, "headers") or ""))
        assert (headers["X-Kept"], headers["Vary"]) == ("yes", "b")
        assert "X-New" not in headers
        for unmatched in ("unmatched", "untagged"):
            assert read(tree, f"web/https/site.example/{unmatched}") == b""
            assert xattr(tree, f"web/https/site.example/{unmatched}", "status") == "304"


def test_redirects_are_bodies_or_links(tmp_path: Path) -> None:
    def fill(writer: ProjectWriter) -> None:
        writer.fetch(f"{SITE}/d/new", b"here")
        for name, location in (
            ("rel", "d/new"),
            ("abs", f"{SITE}/d/new#part"),
            ("away", "https://other.example/"),
            ("loop", "/loop"),
            ("bad", "http://["),
        ):
            writer.fetch(f"{SITE}/{name}", b"moved", status=302, headers=[("Location", location)])
        writer.fetch(f"{SITE}/d/up", b"", status=301, headers=[("location", "../rel")])

    path = project(tmp_path, fill)
    site = "web/https/site.example"
    with opened(path) as tree:
        assert read(tree, f"{site}/rel") == b"moved"
        assert xattr(tree, f"{site}/rel", "redirect") == "d/new"
    with opened(path, "redirects=symlink") as tree:
        kinds = {entry.name: entry.kind for entry in directory(tree, site).entries()}
        assert kinds["rel"] is kinds["abs"] is Kind.SYMLINK
        assert kinds["away"] is kinds["loop"] is kinds["bad"] is Kind.FILE
        assert target(tree, f"{site}/rel") == "d/new"
        assert target(tree, f"{site}/d/up") == "../rel"


def test_a_lost_body_is_listed_and_says_so(tmp_path: Path) -> None:
    path = project(tmp_path, lambda writer: writer.fetch(f"{SITE}/gone", None))
    with opened(path) as tree:
        page = file(tree, "web/https/site.example/gone")
        assert page.attributes().size == 0
        with pytest.raises(CorruptMember, match="body of revision 1 is lost"):
            page.open()
        assert xattr(tree, "web/https/site.example/gone", "body") is None


# -- aliases --


def test_aliases_are_links_where_nothing_is_stored(tmp_path: Path) -> None:
    def fill(writer: ProjectWriter) -> None:
        writer.fetch(f"{SITE}/a/x", b"x")
        writer.fetch("https://taken.example/y", b"y")
        writer.fetch("https://bare.example", b"no path")
        for source, destination in (
            ("https://www.site.example/", f"{SITE}/"),
            ("https://taken.example/", f"{SITE}/"),
            ("https://bare.example/", f"{SITE}/"),
            (f"{SITE}/b/", f"{SITE}/a/"),
            ("http://site.example/", f"{SITE}/"),
            ("https://deep.example/one/two/", f"{SITE}/a/"),
            ("https://odd", f"{SITE}/"),
            ("https://loop.example/", "https://loop.example/"),
        ):
            writer.aliases.append((source, destination, False))
        writer.aliases.append(("https://out.example/", "https://live.example/", True))

    with opened(project(tmp_path, fill)) as tree:
        assert target(tree, "web/https/www.site.example") == "site.example"
        assert target(tree, "web/https/site.example/b") == "a"
        assert target(tree, "web/http/site.example") == "../https/site.example"
        assert target(tree, "web/https/deep.example/one/two") == "../../site.example/a"
        assert target(tree, "web/https/loop.example") == "loop.example"
        assert names(tree, "web") == ["https", "http"]
        assert names(tree, "web/https") == [
            "bare.example",
            "site.example",
            "taken.example",
            "deep.example",
            "loop.example",
            "www.site.example",
        ]
        assert names(tree, "web/https/taken.example") == ["y"]
        assert target(tree, "aliases/https:^2F^2Fwww.site.example^2F") == "../web/https/site.example"
        assert read(tree, "aliases/https:^2F^2Fout.example^2F.url") == b"https://live.example/\n"


# -- roots, groups, site --


def test_roots_and_their_labels(tmp_path: Path) -> None:
    def fill(writer: ProjectWriter) -> None:
        writer.fetch(f"{SITE}/", b"home")
        for number in range(5):
            writer.fetch(f"{SITE}/{number}", b"x")
        writer.roots = [
            ("Home", f"{SITE}/"),
            ("Home", f"{SITE}/0"),
            ("", f"{SITE}/1"),
            ("..", f"{SITE}/2"),
            ("a/b", f"{SITE}/3"),
            ("x.json", f"{SITE}/4"),
        ]

    path = project(tmp_path, fill)
    with opened(path) as tree:
        assert shape(tree, "roots") == {
            "Home": "../web/https/site.example/index.html",
            "Home^2": "../web/https/site.example/0",
            "https:^2F^2Fsite.example^2F1": "../web/https/site.example/1",
            "^2E^2E": "../web/https/site.example/2",
            "a^2Fb": "../web/https/site.example/3",
            "x.json^6": "../web/https/site.example/4",
        }


def test_groups_their_members_and_what_is_said_of_them(tmp_path: Path) -> None:
    def fill(writer: ProjectWriter) -> None:
        for number in range(1, 13):
            writer.fetch(f"{SITE}/topic/{number}", b"t")
        writer.fetch(f"{SITE}/topic/", b"all")
        writer.fetch(f"{SITE}/topic/x/y", b"t")
        writer.resource(f"{SITE}/topic/99")
        writer.roots = [("Home", f"{SITE}/topic/1")]
        writer.groups = [
            ("Topics", f"{SITE}/topic/#", "root_resource", 1, False),
            ("All", f"{SITE}/topic/**", "resource_group", 1, True),
            ("Gone", "https://nowhere.example/*", "resource_group", 77, False),
            ("Odd", f"{SITE}/topic/1", "martian", 1, False),
        ]

    with opened(project(tmp_path, fill)) as tree:
        assert names(tree, "groups/Topics") == ["1", "10", "11", "12", *"23456789"]
        assert target(tree, "groups/Topics/12") == "../../web/https/site.example/topic/12"
        assert names(tree, "groups/All")[0] == "^index"
        assert "x^2Fy" in names(tree, "groups/All")
        assert target(tree, "groups/All/^index") == "../../web/https/site.example/topic/index.html"
        assert names(tree, "groups/Gone") == []
        assert names(tree, "groups/Odd") == ["^index"]
        with pytest.raises(NotFound):
            node(tree, "groups/Topics/99")
        assert json.loads(read(tree, "groups/Topics.json")) == {
            "name": "Topics",
            "pattern": f"{SITE}/topic/#",
            "source": "roots/Home",
            "do_not_download": False,
        }
        assert json.loads(read(tree, "groups/All.json"))["source"] == "groups/Topics"
        assert json.loads(read(tree, "groups/All.json"))["do_not_download"] is True
        assert json.loads(read(tree, "groups/Gone.json"))["source"] is None
        assert json.loads(read(tree, "groups/Odd.json"))["source"] is None


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [(SITE, "web/https/site.example"), (f"{SITE}/a", "web/https/site.example/a"), (f"{SITE}/", None), ("x", None)],
)
def test_site_is_a_link_to_the_default_prefix(tmp_path: Path, prefix: str, expected: str | None) -> None:
    def fill(writer: ProjectWriter) -> None:
        writer.fetch(f"{SITE}/a/b", b"b")
        writer.properties["default_url_prefix"] = prefix

    with opened(project(tmp_path, fill)) as tree:
        assert ("site" in names_of(tree.root())) == (expected is not None)
        if expected:
            assert target(tree, "site") == expected


# -- history/, by-id/, errors/ --


def test_history_has_every_answer_and_by_id_finds_any(tmp_path: Path) -> None:
    def fill(writer: ProjectWriter) -> None:
        writer.fetch(f"{SITE}/a", b"one")
        writer.fail(f"{SITE}/a")
        writer.fetch(f"{SITE}/a", b"two", status=500)
        writer.fetch(f"{SITE}/a/", b"slash")
        writer.fail(f"{SITE}/never")

    with opened(project(tmp_path, fill)) as tree:
        assert names(tree, "history/https/site.example") == ["a^revs", "a"]
        assert shape(tree, "history/https/site.example/a^revs") == {"1": b"one", "3": b"two", "latest": "3"}
        assert names(tree, "history/https/site.example/a") == ["^index^revs"]
        assert names(tree, "by-id") == []
        assert read(tree, "by-id/1") == b"one"
        for missing in ("2", "9", "01", "-1", "+1", "1.0", "latest", "9" * 30):
            with pytest.raises(NotFound):
                node(tree, f"by-id/{missing}")
        with pytest.raises(NotFound):
            node(tree, "history/https/site.example/a^revs/4")


@pytest.mark.parametrize("release", ["1.0", "1.3", "2.2"])
def test_errors_by_kind(tmp_path: Path, release: str) -> None:
    def fill(writer: ProjectWriter) -> None:
        writer.fetch(f"{SITE}/ok", b"")
        writer.fetch(f"{SITE}/a", b"", status=404, cookie="sid=SECRET")
        writer.fetch(f"{SITE}/b", b"", status=404)
        writer.fetch(f"{SITE}/c", b"", status=500)
        writer.fail(f"{SITE}/d", "SSLError", None)

    with opened(project(tmp_path, fill, release=release)) as tree:
        assert json.loads(read(tree, "errors/fetch/5.json")) == {
            "url": f"{SITE}/d",
            "type": "SSLError",
            "message": None,
            "revision": 5,
        }
        assert names(tree, "errors/status") == ["404", "500"]
        assert shape(tree, "errors/status/404") == {
            "2": "../../../history/https/site.example/a^revs/2",
            "3": "../../../history/https/site.example/b^revs/3",
        }
        for missing in ("errors/status/200", "errors/status/404/4", "errors/status/999", "errors/fetch/1.json"):
            with pytest.raises(NotFound):
                node(tree, missing)
        if release == "1.0":
            assert names(tree, "errors") == ["fetch", "status"]
            return
        assert names(tree, "errors/no-cookie") == ["1", "3", "4", "5"]
        assert target(tree, "errors/no-cookie/3") == "../../history/https/site.example/b^revs/3"
        assert target(tree, "errors/no-cookie/5") == "../fetch/5.json"


def test_no_cookie_is_there_only_where_some_were_fetched_with_one(tmp_path: Path) -> None:
    with opened(project(tmp_path, lambda writer: writer.fetch(f"{SITE}/a", b""))) as tree:
        assert names(tree, "errors") == ["fetch", "status"]


def test_project_json_says_what_it_is(tmp_path: Path) -> None:
    def fill(writer: ProjectWriter) -> None:
        writer.fetch(f"{SITE}/a", b"")
        writer.properties["entity_title_format"] = "url_name"
        writer.properties["hibernated_state"] = "[" * 100

    with opened(project(tmp_path, fill)) as tree:
        document = json.loads(read(tree, "project.json"))
        assert document["version"] == 2
        assert document["migration"] is None
        assert document["properties"] == {"entity_title_format": "url_name"}
        assert document["largest_ids"]["resource_revision"] == 1
        assert dict(tree.facts()) == document
