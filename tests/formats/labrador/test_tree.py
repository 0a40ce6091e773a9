"""The tree of a Labrador archive: what is shown, under which names, with which attributes and content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from archivefs.errors import (
    CorruptArchive,
    CorruptMember,
    EncryptedMember,
    NotFound,
    SourceChanged,
    UnreadableArchive,
    UnsupportedMember,
)
from archivefs.format import Opening
from archivefs.formats.labrador import FORMAT
from archivefs.formats.labrador.tree import LARGE_DIRECTORY
from archivefs.tree import File, Tree
from tests.contract import SitesContract
from tests.formats.labrador.opening import attributes, opened_archive, opened_members, shown
from tests.samples.labrador import (
    SITE,
    TYPES,
    Member,
    digest_of,
    head,
    members_of,
    pack,
    patched,
    with_keys,
    write,
    write_update,
)
from tests.walking import content_of, names_of, opened, walk


class TestContract(SitesContract):
    """The promises of every tree, on the sample site."""

    expected = {
        "README.TXT": SITE["/README.TXT"],
        "index.html": SITE["/"],
        "style.css": SITE["/style.css"],
        "ferries": {
            "index.html": SITE["/ferries/"],
            "summer.html": SITE["/ferries/summer.html"],
            "winter.html": SITE["/ferries/winter.html"],
            "archive": {
                "index.html": SITE["/ferries/archive/"],
                "2019.html": SITE["/ferries/archive/2019.html"],
                "2020.html": b"",
            },
        },
        "images": {"index.html": SITE["/images/"], "waves.png": SITE["/images/waves.png"]},
        "people": {"index.html": SITE["/people/"], "keeper.html": SITE["/people/keeper.html"]},
        "walks": {
            "index.html": SITE["/walks/"],
            "mühle.html": SITE["/walks/mühle.html"],
            "north.html": SITE["/walks/north.html"],
            "waves.png": SITE["/walks/waves.png"],
        },
    }

    def make_archive(self, tmp_path: Path) -> Path:
        return write(tmp_path / "site.lbz", SITE)

    def open_archive(self, path: Path) -> Tree:
        return FORMAT.open(str(path), Opening())


class TestLargeContract(SitesContract):
    """The same where a directory is too large to make its names anew each time, and digests are checked."""

    def make_archive(self, tmp_path: Path) -> Path:
        pages = {f"/many/Seite {number}": b"x" * number for number in range(LARGE_DIRECTORY + 50)}
        return write(tmp_path / "large.lbz", {**pages, "/big.txt": bytes(range(256)) * 9000, "/": b"root"})

    def open_archive(self, path: Path) -> Tree:
        return FORMAT.open(str(path), Opening(options={"check": True, "base_url": "https://example.org/a"}))


# -- names --


def test_an_index_document_and_the_file_of_its_name(tmp_path: Path) -> None:
    contents = {"d/index.html": b"page", "d/xq--index-x.html": b"file", "e/xq--index-x.html": b"alone"}
    with opened_members(tmp_path, with_keys(contents)) as tree:
        assert shown(tree) == {"d/index.html": b"page", "d/xq--index-x.html": b"file", "e/index.html": b"alone"}
        assert attributes(tree, "d/index.html")["url"] == "/d/"
        assert attributes(tree, "d/xq--index-x.html")["url"] == "/d/index.html"
        assert attributes(tree, "d/index.html")["index"] == "1"
        assert attributes(tree, "e/index.html")["index"] == "0"


def test_names_that_clash_give_way_in_order(tmp_path: Path) -> None:
    contents = {
        "INDEX.html": b"root page",
        "xq--index-x.html/x": b"in a directory called index.html",
        "xz--index-aa.html/y": b"in the same one",
        "xz--index-aa.html": b"a file called index.html",
        "a": b"file a",
        "a/b": b"in directory a",
        "xz--a-aa": b"file a again",
        "xz--gq": b"first",
        "xz---gq": b"second",
    }
    with opened_members(tmp_path, with_keys(contents)) as tree:
        assert shown(tree) == {
            "index.html": b"root page",
            "xq--index-x.html/x": b"in a directory called index.html",
            "xq--index-x.html/y": b"in the same one",
            "xz--index-aa.html": b"a file called index.html",
            "a/b": b"in directory a",
            "a~2": b"file a",
            "xz--a-aa": b"file a again",
            "é": b"second",
            "xz--gq": b"first",
        }


def test_a_number_is_added_where_nothing_else_is_left(tmp_path: Path) -> None:
    contents = {
        "xz--gq/index.html": b"1",
        "xz---gq/index.html": b"2",
        "xz--e-ngz/index.html": b"3",
        "xz--gq/index.txt": b"4",
    }
    with opened_members(tmp_path, with_keys(contents)) as tree:
        assert shown(tree) == {
            "é/index.html": b"2",
            "é/index.html~2": b"3",
            "é/index.html~3": b"1",
            "é/index.txt": b"4",
        }


def test_a_directory_takes_the_lowest_of_its_encoded_names(tmp_path: Path) -> None:
    contents = {"index.html": b"page", "xz--index-aa.html/p/x": b"1", "xq--index-x.html/p/y": b"2"}
    with opened_members(tmp_path, with_keys(contents)) as tree:
        assert sorted(shown(tree)) == ["index.html", "xq--index-x.html/p/x", "xq--index-x.html/p/y"]


def test_pass_through_keys_mean_lower_case(tmp_path: Path) -> None:
    with opened_members(tmp_path, with_keys({"Docs/README.txt": b"x"})) as tree:
        assert shown(tree) == {"docs/readme.txt": b"x"}
        assert attributes(tree, "docs/readme.txt")["key"] == "Docs/README.txt"


def test_what_cannot_be_decoded_is_shown_as_it_is(tmp_path: Path) -> None:
    keys = ["xz--ZZ.txt", "con/x", "xq--con-x/y", "b-.c", "x" * 255]
    with opened_members(tmp_path, with_keys({key: key.encode() for key in keys})) as tree:
        assert sorted(shown(tree)) == sorted(["xz--zz.txt", "con/x", "con/y", "b-.c", "x" * 255])


LEFT_OUT = [
    "a/../b",
    "./b",
    "..",
    "a//b",
    "a/",
    "/a",
    "a/xz--a3ab/b",
    "xz--a3",
    "xz---a3",
    "a*b",
    "a:b",
    "x" * 256,
    "a\\b",
]


@pytest.mark.parametrize("key", LEFT_OUT)
def test_what_cannot_be_named_is_left_out(tmp_path: Path, key: str) -> None:
    with opened_members(tmp_path, with_keys({"ok": b"1"}, absent={key: b"2", f"{key}/ok": b"3"})) as tree:
        assert shown(tree) == {"ok": b"1"}
        assert tree.facts()["left_out"] == 2


def test_a_key_that_is_repeated_counts_once(tmp_path: Path) -> None:
    lines = f"b.txt {digest_of(b'first')}\nB.TXT {digest_of(b'second')}\n"
    with opened_members(tmp_path, [*head(lines), Member("www/b.txt", b"first")]) as tree:
        assert shown(tree) == {"b.txt": b"first"}
        assert attributes(tree, "b.txt")["digest"] == digest_of(b"first")


def test_long_decoded_names(tmp_path: Path) -> None:
    encodable = "\U0001f600" * 124
    pages = {f"/{encodable}": b"496 bytes", f"/{'d/' * 300}x": b"deep"}
    with opened_archive(write(tmp_path / "a.lbz", pages)) as tree:
        assert content_of(tree.root().child(encodable)) == b"496 bytes"
        assert shown(tree)["d/" * 300 + "x"] == b"deep"
    longest = "xz--ut7p" + "ab" * 84  # 85 times U+1D164, which NFC makes 255 characters of four bytes
    with opened_members(tmp_path, with_keys({longest: b"1020 bytes"})) as tree:
        (name,) = names_of(tree.root())
        assert len(name.encode()) == 1020
        assert content_of(tree.root().child(name)) == b"1020 bytes"


def test_the_zip_is_never_walked(tmp_path: Path) -> None:
    members = [*with_keys({"a": b"a"}), Member("www/stray", b"x"), Member("../up", b"x"), Member("extra", b"x")]
    with opened_members(tmp_path, members) as tree:
        assert shown(tree) == {"a": b"a"}


def test_members_are_found_ignoring_case_and_the_first_counts(tmp_path: Path) -> None:
    lines = f"A.txt {digest_of(b'one')}\n"
    members = [*head(lines), Member("WWW/a.TXT", b"one"), Member("www/A.txt", b"two")]
    with opened_members(tmp_path, members) as tree:
        assert shown(tree) == {"a.txt": b"one"}


def test_the_special_files_may_be_anywhere_and_in_any_case(tmp_path: Path) -> None:
    mimetype, types, manifest, *site = with_keys({"a.txt": b"a"})
    members = [*site, Member("MANIFEST", manifest.data), Member("ExtMime", types.data), mimetype]
    with opened_members(tmp_path, members) as tree:
        assert attributes(tree, "a.txt")["mime"] == "text/plain; charset=UTF-8"


def test_without_types_everything_is_bytes(tmp_path: Path) -> None:
    mimetype, _, *rest = with_keys({"a.txt": b"a"})
    with opened_members(tmp_path, [mimetype, *rest]) as tree:
        assert attributes(tree, "a.txt")["mime"] == "application/octet-stream"
        assert sorted(tree.extras()) == ["manifest"]


def test_without_a_manifest_there_is_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.lbz"
    path.write_bytes(pack(with_keys({})[:2]))
    with pytest.raises(CorruptArchive, match="no manifest"), opened_archive(path):
        pass


# -- states and content --


def test_states_and_attributes(tmp_path: Path) -> None:
    pages = {"/": b"root", "/b/Rotfüchse.png": b"same", "/b/c/d.txt": b"same", "/leer.css": b"", "/gone.png": b"gone"}
    with opened_archive(write(tmp_path / "a.lbz", pages, external=["/gone.png"])) as tree:
        found = {"/".join(parts): node for parts, _, node, _ in walk(tree) if isinstance(node, File)}
        assert {path: attributes(tree, path)["state"] for path in found} == {
            "index.html": "stored",
            "b/Rotfüchse.png": "stored",
            "b/c/d.txt": "duplicate",
            "leer.css": "empty",
            "gone.png": "external",
        }
        assert attributes(tree, "b/Rotfüchse.png") == {
            "url": "/b/Rotfüchse.png",
            "mime": "image/png",
            "key": "b/xz--Rotfchse-jboqb.png",
            "digest": digest_of(b"same"),
            "state": "stored",
            "index": "0",
        }
        assert shown(tree) == {
            "index.html": b"root",
            "b/Rotfüchse.png": b"same",
            "b/c/d.txt": b"same",
            "leer.css": b"",
            "gone.png": "CorruptMember",
        }
        assert found["gone.png"].attributes().size == 0
        mtime_ns = os.stat(tmp_path / "a.lbz").st_mtime_ns
        assert {node.attributes().mtime_ns for node in found.values()} == {mtime_ns}


def test_a_base_url_makes_whole_urls(tmp_path: Path) -> None:
    pages = {"/": b"root", "/b/50% für alle?.txt": b"x"}
    with opened_archive(write(tmp_path / "a.lbz", pages), base_url="https://example.org/site/") as tree:
        url = "https://example.org/site/b/50%25%20f%C3%BCr%20alle%3F.txt"
        assert attributes(tree, "b/50% für alle?.txt")["url"] == url
        assert attributes(tree, "index.html")["url"] == "https://example.org/site/"
        assert [capture.parts for capture in tree.captures(url)] == [("b", "50% für alle?.txt")]
        assert [capture.parts for capture in tree.captures(url + "?q#f")] == [("b", "50% für alle?.txt")]
        assert [capture.parts for capture in tree.captures("https://example.org/site")] == [("index.html",)]
        assert list(tree.captures("https://example.org/siteb/")) == []


@pytest.mark.parametrize("text", ["example.org", "https://", "https://a b/", "https://a/?q", ""])
def test_a_base_url_must_be_one(text: str) -> None:
    option = next(option for option in FORMAT.options if option.name == "base_url")
    assert option.parse is not None
    with pytest.raises(ValueError, match="a URL"):
        option.parse(text)


def test_of_two_that_are_stored_the_primary_gives_the_content(tmp_path: Path) -> None:
    digest = digest_of(b"promised")
    lines = "".join(f"{key} {digest}\n" for key in ("b/second", "b/first", "c/third"))
    members = [*head(lines), Member("www/b/second", b"of second"), Member("www/b/first", b"of first")]
    with opened_members(tmp_path, members) as tree:
        assert shown(tree) == {"b/second": b"of second", "b/first": b"of first", "c/third": b"of first"}
        assert attributes(tree, "c/third")["state"] == "duplicate"


def test_without_the_primary_any_other_gives_the_content(tmp_path: Path) -> None:
    with opened_members(tmp_path, with_keys({"b/second": b"x"}, absent={"b": b"x", "c/x": b"x"})) as tree:
        assert shown(tree) == {"b/second": b"x", "b~2": b"x", "c/x": b"x"}
        assert attributes(tree, "b~2")["state"] == "duplicate"


def test_a_record_that_is_not_shown_still_gives_its_content(tmp_path: Path) -> None:
    with opened_members(tmp_path, with_keys({"a*b": b"x"}, absent={"c": b"x"})) as tree:
        assert shown(tree) == {"c": b"x"}


def test_a_bad_digest_matches_nothing(tmp_path: Path) -> None:
    members = [*head("a x\nb x\nc xyz\n"), Member("www/a", b"a")]
    with opened_members(tmp_path, members) as tree:
        assert shown(tree) == {"a": b"a", "b": "CorruptMember", "c": "CorruptMember"}
        assert "digest" not in attributes(tree, "a")
        assert attributes(tree, "b")["state"] == "external"


def test_digests_of_any_case_are_the_same(tmp_path: Path) -> None:
    lines = f"a {digest_of(b'x').upper()}\nb/c {digest_of(b'x')}\n"
    with opened_members(tmp_path, [*head(lines), Member("www/a", b"x")]) as tree:
        assert shown(tree) == {"a": b"x", "b/c": b"x"}
        assert attributes(tree, "a")["digest"] == digest_of(b"x")


def test_members_that_cannot_be_read_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "a.lbz"
    data = pack(with_keys({"locked": b"a" * 99, "strange": b"b" * 99}))
    path.write_bytes(patched(patched(data, "www/locked", flags=1), "www/strange", method=12))
    with opened_archive(path) as tree:
        assert shown(tree) == {"locked": EncryptedMember.__name__, "strange": UnsupportedMember.__name__}
        assert tree.lookup(["strange"]).attributes().size == 99


# -- -o check --


def test_a_wrong_digest_is_found_before_the_last_byte_is_handed_out(tmp_path: Path) -> None:
    large = bytes(range(256)) * 8000
    manifest = with_keys({"a": b"promised", "big": large})[2]
    members = [*with_keys({})[:2], manifest, Member("www/a", b"tampered"), Member("www/big", large[:-1] + b"x")]
    with opened_members(tmp_path, members) as tree:
        assert shown(tree) == {"a": b"tampered", "big": large[:-1] + b"x"}
    with opened_members(tmp_path, members, check=True) as tree:
        assert shown(tree) == {"a": "CorruptMember", "big": "CorruptMember"}
        big = tree.lookup(["big"])
        assert isinstance(big, File)
        with opened(big) as reader:
            assert reader.read_at(1000, 5000) == large[1000:6000]
            assert reader.extent() is None
            for _ in range(2):
                with pytest.raises(CorruptMember, match="digest"):
                    reader.read_at(len(large) - 10, 10)


def test_a_right_digest_passes_in_any_order(tmp_path: Path) -> None:
    large = os.urandom(300_000)
    with opened_members(tmp_path, with_keys({"big": large}), check=True) as tree:
        big = tree.lookup(["big"])
        assert isinstance(big, File)
        with opened(big) as reader:
            for start in (290_000, 0, 100_000, 50_000, 299_999):
                assert reader.read_at(start, 60_000) == large[start : start + 60_000]


def test_an_empty_file_with_a_wrong_digest_cannot_be_opened(tmp_path: Path) -> None:
    members = [*head(f"a {digest_of(b'not empty')}\n"), Member("www/a", b"")]
    with opened_members(tmp_path, members, check=True) as tree:
        assert shown(tree) == {"a": "CorruptMember"}


# -- --external --


def versions(folder: Path) -> tuple[Path, Path]:
    first = write(folder / "first.lbz", {"/": b"one", "/logo": b"logo", "/old/news": b"news"})
    pages = {"/": b"two", "/img/logo": b"logo", "/copy/of/logo": b"logo", "/archive/news": b"news", "/new": b"new"}
    return first, write(folder / "second.lbz", pages, external=["/img/logo", "/copy/of/logo", "/archive/news"])


WHOLE = {"index.html": b"two", "img/logo": b"logo", "copy/of/logo": b"logo", "archive/news": b"news", "new": b"new"}


def test_another_archive_gives_what_is_left_out(tmp_path: Path) -> None:
    first, second = versions(tmp_path)
    with opened_archive(second) as tree:
        errors = [path for path, content in shown(tree).items() if content == "CorruptMember"]
        assert sorted(errors) == ["archive/news", "copy/of/logo", "img/logo"]
    with opened_archive(second, first, check=True) as tree:
        assert shown(tree) == WHOLE
        assert tree.lookup(["img", "logo"]).attributes().size == 4
        assert attributes(tree, "img/logo")["state"] == "external"


def test_a_folder_gives_what_is_left_out(tmp_path: Path) -> None:
    _, second = versions(tmp_path)
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "empty").write_bytes(b"")
    (folder / "other").write_bytes(b"something else")
    (folder / "deep" / "whatever").write_bytes(b"logo")
    (folder / "link").symlink_to(tmp_path / "news")
    (tmp_path / "news").write_bytes(b"news")
    with opened_archive(second, folder) as tree:
        assert shown(tree) == {**WHOLE, "archive/news": "CorruptMember"}
    (folder / "news.txt").write_bytes(b"news")
    with opened_archive(second, folder) as tree:
        assert shown(tree) == WHOLE
        (folder / "news.txt").write_bytes(b"old news")
        with pytest.raises(SourceChanged):
            content_of(tree.lookup(["archive", "news"]))


def test_the_sample_site_and_its_update(tmp_path: Path) -> None:
    first, later = write(tmp_path / "island.lbz", SITE), write_update(tmp_path / "update.lbz")
    with opened_archive(first) as tree:
        before = shown(tree)
    with opened_archive(later, first) as tree:
        after = shown(tree)
    assert {name for name, data in after.items() if before.get(name) != data} == {"index.html", "ferries/new-boat.html"}
    with opened_archive(later) as tree:
        assert list(shown(tree).values()).count("CorruptMember") == len(SITE) - 2  # the page that is empty needs nobody


def test_several_sources_are_asked_in_order(tmp_path: Path) -> None:
    _, second = versions(tmp_path)
    logo = write(tmp_path / "logo.lbz", {"/x": b"logo"})
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "n").write_bytes(b"news")
    with opened_archive(second, logo, folder) as tree:
        assert shown(tree) == WHOLE


def test_a_source_that_is_none_is_told(tmp_path: Path) -> None:
    _, second = versions(tmp_path)
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("no archive")
    with pytest.raises(UnreadableArchive, match=r"wrong\.txt"), opened_archive(second, wrong):
        pass


# -- what it tells of itself --


def test_captures_by_url_path(tmp_path: Path) -> None:
    contents = {
        "d/index.html": b"page",
        "d/xq--index-x.html": b"file",
        "d/xz--50-efas.txt": b"odd",
        "xz--gq/x": b"1",
        "xz---gq/xz--x-aa": b"2",
    }
    with opened_members(tmp_path, with_keys(contents)) as tree:

        def paths(url: str) -> list[str]:
            return ["/".join(capture.parts) for capture in tree.captures(url)]

        assert paths("/d/") == ["d/index.html"]
        assert paths("/d/index.html") == ["d/xq--index-x.html"]
        assert paths("d/index.html") == ["d/xq--index-x.html"]
        assert paths("/d") == paths("/") == paths("/d/xq--index-x.html") == paths("/D/") == []
        assert sorted(paths("/é/x")) == ["é/x", "é/xz--x-aa"]
        assert paths("/%C3%A9/x") == paths("/é/x")
        (capture,) = tree.captures("/d/")
        assert capture.facts == {"key": "d/index.html", "state": "stored", "digest": digest_of(b"page")}


def test_the_originals_are_shown(tmp_path: Path) -> None:
    members = members_of(SITE)
    with opened_members(tmp_path, members) as tree:
        extras = {}
        for name, open_extra in tree.extras().items():
            reader = open_extra()
            extras[name] = reader.read_at(0, reader.attributes().size)
            reader.close()
    assert extras == {"manifest": members[2].data, "extmime": TYPES.encode()}


def test_facts(tmp_path: Path) -> None:
    with opened_archive(write(tmp_path / "a.lbz", SITE)) as tree:
        facts = tree.facts()
    assert facts["files"] == len(SITE)
    assert facts["site_size"] == sum(map(len, SITE.values()))
    assert facts["directories"] == 5
    assert "left_out" not in facts
    assert facts["states"] == {"stored": 15, "empty": 1, "duplicate": 1}
    assert facts["types"] == {
        "text/html; charset=UTF-8": 13,
        "image/png": 2,
        "text/css": 1,
        "text/plain; charset=UTF-8": 1,
    }


def test_idents_that_were_never_given(tmp_path: Path) -> None:
    with opened_members(tmp_path, with_keys({"a/b": b"x"})) as tree:
        assert [tree.node(ident).ident for ident in (1, 2, 3)] == [1, 2, 3]
        for ident in (0, 4, -1):
            with pytest.raises(NotFound):
                tree.node(ident)
