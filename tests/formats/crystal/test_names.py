"""The names in web/: a URL's own name wins, the page of a directory is its index, nothing collides."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from archivefs.errors import NotFound
from archivefs.formats.crystal import walk as walk_module
from archivefs.formats.crystal.tree import CrystalTree
from archivefs.tree import Kind
from tests.formats.crystal.projects import SITE, directory, names, node, opened, project, read, shape, xattr
from tests.samples.crystal import HTML, TEXT, ProjectWriter

WEB = "web/https/site.example"


def urls(*paths: str, headers: tuple[str, str] = HTML) -> dict[str, tuple[str, str]]:
    return {f"{SITE}{path}": headers for path in paths}


def fetched(tmp_path: Path, pages: dict[str, tuple[str, str]], *seen: str) -> Path:
    """A project with these pages, each with its URL as its body."""

    def fill(writer: ProjectWriter) -> None:
        for url, header in pages.items():
            writer.fetch(url, url.encode("utf-8", "surrogateescape"), headers=[header])
        for url in seen:
            writer.resource(url)

    return project(tmp_path, fill)


def shown(tmp_path: Path, pages: dict[str, tuple[str, str]], *seen: str) -> dict[str, object]:
    """The site as a dict, each page with the path of its URL."""
    with opened(fetched(tmp_path, pages, *seen)) as tree:
        return _paths(shape(tree, WEB))


def _paths(found: dict[str, object]) -> dict[str, object]:
    return {
        name: _paths(value) if isinstance(value, dict) else value.decode().removeprefix(SITE)  # type: ignore[attr-defined]
        for name, value in found.items()
    }


def test_the_page_of_a_directory_is_its_index(tmp_path: Path) -> None:
    assert shown(tmp_path, urls("/", "/d/", "/d/x")) == {
        "index.html": "/",
        "d": {"index.html": "/d/", "x": "/d/x"},
    }


@pytest.mark.parametrize(
    ("content_type", "name"),
    [
        ("text/html", "index.html"),
        ("Text/HTML; charset=x", "index.html"),
        ("text/plain", "index.txt"),
        ("application/json", "index.json"),
        ("application/rss+xml", "index.xml"),
        ("image/svg+xml", "index.svg"),
        ("application/octet-stream", "index"),
        ("nonsense", "index.txt"),
    ],
)
def test_the_index_is_named_by_its_type(tmp_path: Path, content_type: str, name: str) -> None:
    assert list(shown(tmp_path, urls("/", headers=("Content-Type", content_type)))) == [name]


def test_an_index_name_that_is_taken_gives_way(tmp_path: Path) -> None:
    assert shown(tmp_path, urls("/f/", "/f/index.html")) == {"f": {"^index": "/f/", "index.html": "/f/index.html"}}


def test_an_index_name_below_which_something_is_stored_is_taken(tmp_path: Path) -> None:
    found = shown(tmp_path, urls("/h/", "/h/index.html/x"), f"{SITE}/g/index.html/never", f"{SITE}/g/")
    assert found == {"h": {"^index": "/h/", "index.html": {"x": "/h/index.html/x"}}}


def test_a_name_that_is_seen_but_not_shown_is_free(tmp_path: Path) -> None:
    assert shown(tmp_path, urls("/m/"), f"{SITE}/m/index.html") == {"m": {"index.html": "/m/"}}


def test_a_page_and_a_directory_of_one_name(tmp_path: Path) -> None:
    assert shown(tmp_path, urls("/a", "/a/b")) == {"a": {"index.html": "/a", "b": "/a/b"}}


def test_a_page_beside_a_directory_that_has_a_page(tmp_path: Path) -> None:
    assert shown(tmp_path, urls("/a", "/a/", "/a/b")) == {
        "a^file": "/a",
        "a": {"index.html": "/a/", "b": "/a/b"},
    }


def test_a_page_whose_index_name_is_taken(tmp_path: Path) -> None:
    assert shown(tmp_path, urls("/k", "/k/index.html/x")) == {
        "k^file": "/k",
        "k": {"index.html": {"x": "/k/index.html/x"}},
    }


def test_leaves_that_begin_alike_with_directories_between(tmp_path: Path) -> None:
    """``a``, ``a-b`` and ``a.c`` come before ``a/``, and each may have a directory of its own."""
    paths = ["/a", "/a-", "/a-/x", "/a-b", "/a.c", "/a.c/y", "/a/z", "/a0", "/a?q", "/a?q/r"]
    assert shown(tmp_path, urls(*paths)) == {
        "a-": {"index.html": "/a-", "x": "/a-/x"},
        "a-b": "/a-b",
        "a.c": {"index.html": "/a.c", "y": "/a.c/y"},
        "a": {"index.html": "/a", "z": "/a/z"},
        "a0": "/a0",
        "a?q": "/a?q",
        "a?q^2Fr": "/a?q/r",
    }


def test_a_leaf_far_from_its_directory_is_held_back(tmp_path: Path) -> None:
    """More leaves between ``a`` and ``a/`` than fit into a page."""
    between = [f"/a-{number:05}" for number in range(3000)]
    with opened(fetched(tmp_path, urls("/a", *between, "/a/x"))) as tree:
        found = names(tree, WEB)
        assert found == [*(path[1:] for path in between), "a"]
        assert names(tree, f"{WEB}/a") == ["index.html", "x"]
        for after in ("a-00007", "a-02999", "a"):
            rest = [entry.name for entry in directory(tree, WEB).entries(after)]
            assert rest == found[found.index(after) + 1 :]


def test_marked_names_open_whether_listed_or_not(tmp_path: Path) -> None:
    with opened(fetched(tmp_path, urls("/", "/a", "/a/b", "/c"))) as tree:
        assert node(tree, f"{WEB}/^index").ident == node(tree, f"{WEB}/index.html").ident
        assert node(tree, f"{WEB}/a^file").ident == node(tree, f"{WEB}/a/index.html").ident
        for wrong in ("c^file", "^file", "a/^index", "index.txt", "c/index.html", "^empty", "^63"):
            with pytest.raises(Exception, match=r"no such file|not a directory"):
                node(tree, f"{WEB}/{wrong}")


def test_an_empty_path_is_a_leaf_or_the_page_of_its_host(tmp_path: Path) -> None:
    with opened(fetched(tmp_path, {"https://bare.example": TEXT, "https://c.example?q": TEXT})) as tree:
        assert names(tree, "web/https") == ["bare.example", "c.example?q"]
    pages = {"https://h.example": TEXT, "https://h.example/x": TEXT}
    with opened(fetched(tmp_path, pages)) as tree:
        assert shape(tree, "web/https") == {
            "h.example": {"index.txt": b"https://h.example", "x": b"https://h.example/x"}
        }
    with opened(fetched(tmp_path, {**pages, "https://h.example/": TEXT})) as tree:
        assert names(tree, "web/https") == ["h.example^file", "h.example"]


def test_other_schemes_and_none(tmp_path: Path) -> None:
    pages = dict.fromkeys(
        [
            "mailto:a@b.example",
            "mailto:a@b.example/c",
            "mailto://odd/x",
            "data:,a/b?c",
            "data:,https://x/",
            "no scheme",
            "/rooted",
            "",
            "://",
            "1:2",
            "x" * 65 + "://y/",
            "file:///etc/passwd",
            "HTTPS://site.example/up",
        ],
        TEXT,
    )
    with opened(fetched(tmp_path, pages)) as tree:
        assert names(tree, "web") == ["HTTPS", "data:", "file", "mailto", "mailto:", "^noscheme"]
        assert names(tree, "web/mailto:") == ["a@b.example", "a@b.example^2Fc"]
        assert names(tree, "web/data:") == [",a^2Fb?c", ",https:^2F^2Fx^2F"]
        long = "x" * 65 + ":^2F^2Fy^2F"
        assert names(tree, "web/^noscheme") == ["^index", "^2Frooted", "1:2", ":^2F^2F", "no scheme", long]
        assert read(tree, "web/file/^empty/etc/passwd") == b"file:///etc/passwd"
        assert read(tree, f"web/^noscheme/{long}") == ("x" * 65 + "://y/").encode()
        for parent in ("web", "history"):
            for name in names(tree, parent):
                found = names(tree, f"{parent}/{name}")
                for after in found:
                    rest = [entry.name for entry in directory(tree, f"{parent}/{name}").entries(after)]
                    assert rest == found[found.index(after) + 1 :]
        for wrong in ("web/mailto:/^2F^2Fodd^2Fx", "web/^noscheme/mailto:a@b.example", "web/^noscheme/a^20b"):
            with pytest.raises(NotFound):
                node(tree, wrong)


def test_names_too_long_keep_their_beginning_and_are_found_again(tmp_path: Path) -> None:
    long = "s" * 300
    pages = urls(f"/{long}X", f"/{long}Y", f"/{long}Y/below", f"/?{'q' * 2000}", "/" + "\u2603" * 100)
    with opened(fetched(tmp_path, pages)) as tree:
        found = shape(tree, WEB)
        contents = [value for value in found.values() if isinstance(value, bytes)]
        inside = next(value for value in found.values() if isinstance(value, dict))
        assert sorted([*contents, *inside.values()]) == sorted(url.encode() for url in pages)  # type: ignore[type-var]
        for name in found:
            assert len(name.encode()) <= 255
            entries = [entry.name for entry in directory(tree, WEB).entries(name)]
            assert entries == list(found)[list(found).index(name) + 1 :]
        with pytest.raises(NotFound):
            node(tree, f"{WEB}/{'s' * 224}^~{'0' * 24}")


def test_hostile_rows(tmp_path: Path) -> None:
    """Newlines, NUL, invalid UTF-8, dots, and names that only look like ours."""
    path = fetched(tmp_path, urls("/new\nline", "/nul\0x", "/..", "/./x", "/^index", "/a^file", "/\u202egpj.exe"))
    from tests.formats.crystal.projects import change

    change(path, "insert into resource values (900, cast(x'68747470733a2f2f736974652e6578616d706c652fff' as text))")
    change(path, "insert into resource_revision (id, resource_id, error, metadata) values (901, 900, 'null', 'null')")
    with opened(path) as tree:
        assert sorted(names(tree, WEB)) == sorted(
            ["new^0Aline", "nul^00x", "^2E^2E", "^2E", "^5Eindex", "a^5Efile", "^E2^80^AEgpj.exe", "^FF"]
        )
        assert node(tree, f"{WEB}/^FF").xattrs()["user.xdg.origin.url"] == b"https://site.example/\xff"
        assert xattr(tree, f"{WEB}/new^0Aline", "url") == f"{SITE}/new\nline"
        assert all(entry.kind is Kind.DIRECTORY for entry in directory(tree, f"history/https/{SITE[8:]}").entries())


@pytest.mark.parametrize("seed", range(6))
def test_the_quick_listing_of_large_directories_lists_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Pages of nothing but leaves are listed another way: wherever a page may end, with odd names between."""
    monkeypatch.setattr(walk_module, "LARGEST_PAGE", 16)
    chance = random.Random(seed)

    def fill(writer: ProjectWriter) -> None:
        stems = [f"{SITE}/{chance.randrange(6)}" + chance.choice(["", "a", "b", "ab"]) for _ in range(40)]
        stems += [f"{SITE}/{chance.choice(['v?t=', 'w'])}{number:03}" for number in range(150)]
        odd = ["/", "/x", "/x/y", "?q=/", "^", "\n", ".", "\u00fc", "#", "c" * 251] + [""] * chance.choice([150, 400])
        urls = {stem + chance.choice(odd) for stem in stems} | {f"{SITE}/.", f"{SITE}/..", f"{SITE}/"}
        for stem in "tuxyz":  # a page, many that sort behind it, and only then its directory
            urls |= {f"{SITE}/{stem}", *(f"{SITE}/{stem}!{number:02}" for number in range(40)), f"{SITE}/{stem}/x"}
        for url in sorted(urls, key=lambda _: chance.random()):
            fate = chance.random()
            if fate < 0.1:
                writer.resource(url)
            elif fate < 0.2:
                writer.fail(url)
            else:
                writer.fetch(url, b"")
                if fate < 0.3:
                    writer.fail(url)

    path = project(tmp_path, fill)
    with opened(path) as quick, opened(path, "redirects=symlink") as slow:  # which looks at each leaf
        assert quick.web.lists_flat_pages and not slow.web.lists_flat_pages
        flat = [page for page in _pages_of(quick) if isinstance(page, walk_module.Flat)]
        listed = [entry[:3] for entry in directory(quick, WEB).entries()]
        assert listed == [entry[:3] for entry in directory(slow, WEB).entries()]
        for number in range(0, len(listed), 7):
            after = directory(quick, WEB).entries(listed[number][0])
            assert [entry[:3] for entry in after] == listed[number + 1 :]
        assert flat, "nothing was tested"


def _pages_of(tree: CrystalTree) -> list[object]:
    return list(walk_module.walk_pages(tree.project, f"{SITE}/".encode(), start=f"{SITE}/\0".encode(), flat=True))
