"""Labrador: normalization, primaries, names and states against a naive reading of the format."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from archivefs.formats.labrador.bitsy import BitsyError, decode
from archivefs.formats.labrador.keys import EMPTY_DIGEST, normalize, rank
from archivefs.tree import File
from tests.formats.labrador.opening import attributes, error_codes, findings, opened_archive, shown
from tests.samples.labrador import (
    Member,
    digest_of,
    head,
    members_of,
    pack,
    path_normalization,
    primary_of,
    with_keys,
)
from tests.walking import walk

PLAIN_NAMES = ["a", "b", "A", "index", "foo", "x.tar.gz", "con", "-b", "b~2", "a*", ".", ".."]
INDEX_NAMES = ["index.html", "INDEX.txt", "Index.d", "xq--index-x.html", "xz--index-aa.html", "xz--index-aa.i"]
ENCODED_NAMES = ["xz--gq", "xz---gq", "xz--e-ngz", "xq--con-x", "xq--foo-x", "xz--zz", "xz--a3", "xz--a3ab"]
COMPONENTS = st.one_of(
    st.sampled_from([*PLAIN_NAMES, *INDEX_NAMES, *ENCODED_NAMES]),
    st.from_regex(r"x[zq]--[a-zA-Z0-9-]{1,8}(\.[a-z]{1,3})?", fullmatch=True),
    st.from_regex(r"[a-zA-Z0-9._-]{1,6}", fullmatch=True),
)
KEYS = st.lists(COMPONENTS, min_size=1, max_size=3).map("/".join)
CONTENTS = st.sampled_from([b"", b"one", b"two", b"three"])


@settings(deadline=None)
@given(KEYS)
def test_normalization_is_as_the_steps_say(key: str) -> None:
    assert normalize(key) == path_normalization(key)


@settings(deadline=None)
@given(st.lists(KEYS, min_size=1, max_size=6, unique_by=str.lower))
def test_the_primary_is_as_the_steps_say(keys: list[str]) -> None:
    assert min(keys, key=rank) == primary_of(keys)


# -- the tree --


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(KEYS, st.tuples(CONTENTS, st.booleans()), max_size=8))
def test_the_tree_is_as_a_naive_reading_says(records: dict[str, tuple[bytes, bool]]) -> None:
    stored = {key: data for key, (data, kept) in records.items() if kept}
    absent = {key: data for key, (data, kept) in records.items() if not kept}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.lbz"
        path.write_bytes(pack(with_keys(stored, absent=absent)))
        order = [*stored, *absent]
        with opened_archive(path) as tree:
            expected = naive_tree(order, {key: data for key, (data, _) in records.items()}, stored)
            found = shown(tree)
            assert found.keys() == expected.keys()
            for name, (key, state, content) in expected.items():
                facts = attributes(tree, name)
                assert (facts["key"], facts["state"]) == (key, state), name
                assert found[name] == ("CorruptMember" if content is None else content), name
            for parts, _, node, _ in walk(tree):
                assert tree.node(node.ident).ident == node.ident
                if isinstance(node, File):
                    url = node.xattrs()["user.xdg.origin.url"].decode()
                    assert parts in [capture.parts for capture in tree.captures(url)]


def naive_tree(
    order: list[str], contents: dict[str, bytes], stored: dict[str, bytes]
) -> dict[str, tuple[str, str, bytes | None]]:
    """By shown path: key, state and content of each record, by reading the rules one after the other."""
    records: dict[str, str] = {}
    for key in order:
        records.setdefault(key.lower(), key)  # a repeated key is left out
    members: dict[str, bytes] = {}
    for key, data in stored.items():
        members.setdefault(key.lower(), data)  # the first member of a name counts
    answers = {}
    for lower, key in records.items():
        answers[lower] = (key, *naive_content(lower, records, contents, members))
    shown_keys = [lower for lower in records if all(naive_name(name) for name in lower.split("/"))]
    return {path: answers[lower] for path, lower in naive_names(shown_keys, 0, "").items()}


def naive_content(
    lower: str, records: dict[str, str], contents: dict[str, bytes], members: dict[str, bytes]
) -> tuple[str, bytes | None]:
    if lower in members:
        return "stored", members[lower]
    digest = digest_of(contents[records[lower]])
    if digest == EMPTY_DIGEST:
        return "empty", b""
    same = [other for other, key in records.items() if digest_of(contents[key]) == digest]
    primary = primary_of(same)
    for candidate in [primary, *sorted(same)]:
        if candidate in members:
            return "duplicate", members[candidate]
    return "external", None


def naive_name(name: str) -> str | None:
    """The decoded name of a lower-cased component, or None if its record is left out."""
    if name in (".", "..") or not name or len(name) > 255 or set(name) - set("abcdefghijklmnopqrstuvwxyz0123456789._-"):
        return None
    try:
        decoded = decode(name)
    except BitsyError:
        return name
    return None if decoded in (".", "..") else decoded


def naive_names(keys: list[str], depth: int, above: str) -> dict[str, str]:
    """Shown path and key of all *keys*, which are in one directory or below it."""
    files = [key for key in keys if key.count("/") == depth]
    merged: dict[str, list[str]] = {}
    for key in keys:
        if key.count("/") > depth:
            merged.setdefault(str(naive_name(key.split("/")[depth])), []).append(key)
    lowest = {decoded: min(key.split("/")[depth] for key in below) for decoded, below in merged.items()}
    claims = [(0, name, key, [name]) for key in files if (name := key.split("/")[depth]).startswith("index.")]
    claims += [(1, lowest[decoded], decoded, [decoded, lowest[decoded]]) for decoded in merged]
    claims += [
        (2, name, key, [str(naive_name(name)), name])
        for key in files
        if not (name := key.split("/")[depth]).startswith("index.")
    ]
    taken: set[str] = set()
    found = {}
    for rank_of_class, _, what, candidates in sorted(claims):
        more = (f"{candidates[-1]}~{number}" for number in itertools.count(2))
        name = next(name for name in itertools.chain(candidates, more) if name not in taken)
        taken.add(name)
        if rank_of_class == 1:
            found.update(naive_names(merged[what], depth + 1, f"{above}{name}/"))
        else:
            found[above + name] = what
    return found


# -- verify --


URLS = st.lists(st.text("aBé.x~ 😀", min_size=1, max_size=4).filter(lambda name: name not in (".", "..")), max_size=3)
PAGES = st.dictionaries(st.tuples(URLS, st.booleans()).map(lambda url: url_of(*url)), CONTENTS, max_size=6)


def url_of(names: list[str], is_index: bool) -> str:
    return "/" + "/".join([*names, ""] if is_index or not names else names)


@settings(deadline=None, max_examples=100)
@given(PAGES)
def test_what_the_naive_writer_writes_is_valid(pages: dict[str, bytes]) -> None:
    urls = {url: data for url, data in pages.items() if not any(other.startswith(url + "/") for other in pages)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.lbz"
        path.write_bytes(pack(members_of(urls)))
        assert findings(path, complete=True) == []
        with opened_archive(path, check=True) as tree:
            for url, data in urls.items():
                (capture,) = tree.captures(url)
                assert shown(tree)["/".join(capture.parts)] == data


@settings(deadline=None, max_examples=150)
@given(st.lists(KEYS, max_size=6))
def test_uniqueness_is_as_the_rules_say(keys: list[str]) -> None:
    lines = "".join(f"{key} {digest_of(b'%d' % number)}\n" for number, key in enumerate(keys))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.lbz"
        path.write_bytes(pack([*head(lines), Member("www/", b"")]))
        rules = {"file-uniqueness", "directory-uniqueness", "decoded-collision"}
        assert error_codes(findings(path)) & rules == naive_uniqueness(keys)


def naive_uniqueness(keys: list[str]) -> set[str]:
    broken = set()
    trails = {key: ["/".join(key.split("/")[:length]) for length in range(1, key.count("/") + 1)] for key in keys}
    for number, one in enumerate(keys):
        for other in keys[number + 1 :]:
            if path_normalization(one) == path_normalization(other):
                broken.add("file-uniqueness")
            elif naive_url(one) is not None and naive_url(one) == naive_url(other):
                broken.add("decoded-collision")
        for other in keys:
            for directory in trails[other]:
                if path_normalization(directory) == path_normalization(one):
                    broken.add("directory-uniqueness")
                elif naive_url(one) is not None and naive_url(one) == naive_url(directory, is_directory=True):
                    broken.add("decoded-collision")
    return broken


def naive_url(key: str, *, is_directory: bool = False) -> str | None:
    *directories, name = key.lower().split("/")
    is_index = name.startswith("index.") and not is_directory
    try:
        return "/".join([*map(decode, directories), "" if is_index else decode(name)])
    except BitsyError:
        return None
