"""Key/value texts, types, keys: the small parts."""

from __future__ import annotations

import pytest

from archivefs.formats.labrador.extmime import Types
from archivefs.formats.labrador.keys import is_plain, normalize, normalize_name, rank, url_path
from archivefs.formats.labrador.keyvalue import records, wrong_lines


def test_records_are_found_among_blank_and_wrong_lines() -> None:
    data = b"\r\n   \r\n  a    1 2   3  \r\nb x\nc\nd\te\n\n \ne f"
    assert [tuple(record) for record in records(data)] == [(3, "a", "1 2   3"), (4, "b", "x"), (9, "e", "f")]
    assert list(wrong_lines(data)) == [(5, b"c"), (6, b"d\te")]


@pytest.mark.parametrize("line", [b"a b\r\r\n", b"a b\r", b"a b\rc d\n", b"\xefa b\n", b"a \x7f\n", b"a\0 b\n", b"\r"])
def test_what_is_no_record_is_wrong(line: bytes) -> None:
    assert list(records(line)) == []
    assert len(list(wrong_lines(line))) == 1


def test_a_text_without_an_end_is_read_in_linear_time() -> None:
    assert list(records(b" " * 500_000 + b"a" * 500_000)) == []
    assert list(records(b"a " + b"b " * 500_000 + b"\t")) == []
    assert len(list(records(b"a" + b" " * 500_000 + b"b"))) == 1


def test_the_longest_extension_gives_the_type() -> None:
    types = Types(b"gz application/gzip\ntar.gz application/x-tgz\n- text/x-blank\n")
    named = {
        "x.tar.gz": "application/x-tgz",
        "xtar.gz": "application/gzip",
        "tar.gz": "application/gzip",
        "a.b.tar.gz": "application/x-tgz",
        ".gz": "application/gzip",
        "gz": "text/x-blank",
        "x.zip": "application/octet-stream",
        "xz--filetar-i9aeobm.gz": "application/gzip",
    }
    assert {name: types.type_of(name) for name in named} == named


def test_a_catch_all_type_takes_blank_names_too() -> None:
    types = Types(b". text/html\n")
    assert types.type_of("x") == types.type_of("x.png") == "text/html"


def test_bad_type_lines_are_skipped_and_the_first_of_equal_ones_counts() -> None:
    types = Types(b"PNG image/x-bad\npng image/png\npng image/x-second\nlonely\n.gif image/gif\n")
    assert types.type_of("a.png") == "image/png"
    assert types.type_of("a.gif") == "application/octet-stream"


NORMALIZATIONS = {
    "INDEX.HTML": "index.i",
    "XQ--Index-X.HTML": "xq--index-x.html",
    "xz--index-aa.html": "index.html",
    "xz--index-aa.i": "index.i",
    "xz--rotfchse-jboqb.png": "xz--Rotfchse-jboqb.png",
    "xz---gq": "xz--gq",
    "xq--foo-x": "foo",
    "Index": "index",
}


@pytest.mark.parametrize(("name", "normalized"), NORMALIZATIONS.items())
def test_normalization(name: str, normalized: str) -> None:
    assert normalize_name(name) == normalized
    assert normalize(f"D/{name}") == f"d/{normalized}"


@pytest.mark.parametrize("key", ["con.txt", "a/xz--zz/b", "a//b", "A b", "x" * 300])
def test_without_a_normalization_the_lower_cased_key_stands_for_it(key: str) -> None:
    assert normalize(key) == key.lower()


PRIMARIES = [
    ("longest-name-but-no-slash.txt", "z/y"),
    ("g/index.xhtml", "g/abc.html"),
    ("f/ab.html", "f/index.xhtml"),
    ("e/xz--Zaaaa-g8.png", "e/xz--aaaa-nvv.png"),
    ("h/xz---gq", "h/xz--gr"),
    ("xz---gq", "xz--gq"),
]


@pytest.mark.parametrize(("primary", "other"), PRIMARIES)
def test_the_primary_copy(primary: str, other: str) -> None:
    assert min([other, primary], key=rank) == min([primary, other], key=rank) == primary


def test_url_paths() -> None:
    assert url_path("index.html") == "/"
    assert url_path("my/subdir/index.txt") == "/my/subdir/"
    assert url_path("index/index") == "/index/index"
    assert url_path("xz--index-ec.txt") == "/index.TXT"
    assert url_path("d/xq--index-x.html") == "/d/index.html"


@pytest.mark.parametrize("key", ["a", "a/b.c", ".a/_/x--y", "indexed/index"])
def test_plain_keys_mean_themselves(key: str) -> None:
    assert is_plain(key)
    assert normalize(key) == key
    assert url_path(key) == "/" + key


@pytest.mark.parametrize("key", ["", "A", "index.x", "d/index.x", "xz--a", "con", "d/nul.x/e", "a/", "a//b", ".", "a-"])
def test_keys_that_are_not_plain(key: str) -> None:
    assert not is_plain(key)
