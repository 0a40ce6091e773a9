"""Properties of URL databases: values survive the canonical text, an edit touches nothing else, no name is lost."""

from __future__ import annotations

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from archivefs.formats.urldb import canonical, edits, layout, naming
from archivefs.formats.urldb.domainfile import DomainFile, parse_bytes
from archivefs.formats.urldb.formatting import formatted
from archivefs.formats.urldb.limits import Limits
from archivefs.formats.urldb.lint import lint_file
from archivefs.formats.urldb.store import record_from
from archivefs.formats.urldb.values import Mapping, Scalar, Sequence, Value, simple
from archivefs.urlnames import Shortened

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    [
        "yes",
        "12",
        "~",
        "a: b",
        "- x",
        "#",
        " ",
        "\t",
        "'",
        '"',
        "---",
        "...",
        "\x85",
        "<<",
        "=",
        "1e3",
        "0o7",
        "2020-01-01",
    ]
)
PATHS = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="#"), max_size=12), min_size=1, max_size=4
).map(lambda pieces: "/" + "/".join(pieces))


def values() -> st.SearchStrategy[Value]:
    scalars: st.SearchStrategy[Value] = st.builds(Scalar, TEXT, st.just(False), st.just(0))
    return st.recursive(
        scalars,
        lambda inner: st.builds(Sequence, st.lists(inner, max_size=4), st.just(0)) | mappings(inner),
        max_leaves=12,
    )


def mappings(inner: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    items = st.dictionaries(TEXT, inner, max_size=4).map(
        lambda found: [(Scalar(key, False, 0), value) for key, value in found.items()]
    )
    return st.builds(Mapping, items, st.just(0))


def plain(value: Value) -> object:
    """As a YAML library would give it."""
    if isinstance(value, Mapping):
        return {key.text: plain(inner) for key, inner in value.items}
    return [plain(item) for item in value.items] if isinstance(value, Sequence) else value.text


@given(mappings(values()))
@settings(max_examples=150, deadline=None)
def test_canonical_text_reads_back(value: Value) -> None:
    assert isinstance(value, Mapping)
    items = [item for item in value.items if item[0].text not in ("cnames", "categories")]
    text = canonical.text(Mapping(items, 0))
    assert (yaml.safe_load(text) or {}) == plain(Mapping(items, 0))
    if items:
        again = parse_bytes(b"---\n" + text.encode(), Limits())
        assert isinstance(again, Mapping)
        assert canonical.text(again) == text


@given(st.lists(st.tuples(PATHS, TEXT), max_size=8), st.booleans())
@settings(max_examples=150, deadline=None)
def test_format_is_idempotent_and_what_it_writes_is_clean(records: list[tuple[str, str]], crlf: bool) -> None:
    text = "---\n" + "".join(f"---\n{record(path, word)}" for path, word in records)
    file = DomainFile("a.example", text.replace("\n", "\r\n").encode() if crlf else text.encode())
    once = formatted(file, dedupe=True, drop_comments=True)
    again = DomainFile("a.example", once)
    assert formatted(again) == once
    assert again.by_path.keys() == dict(records).keys()
    assert {finding.code for finding in lint_file(again)} <= {"no-content-type"}


def record(path: str, word: str) -> str:
    """A record in canonical text."""
    words = {"_path": path, "x": word}
    return canonical.text(Mapping([(Scalar(key, False, 0), Scalar(text, False, 0)) for key, text in words.items()], 0))


PIECES = st.sampled_from(
    [
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "# c\n",
        "\n",
        "_path: /a\n",
        "_path: /b\n",
        "x: 1\n",
        "- a\n",
        "---x\n",
        "--- {_path: /c}\n",
        "a: [\n",
        " ---\n",
    ]
)


@given(st.lists(PIECES, max_size=12), st.sampled_from(["\n", "\r\n", "\r"]))
@settings(max_examples=300, deadline=None)
def test_edits_leave_the_other_records_alone(pieces: list[str], eol: str) -> None:
    data = "".join(pieces).replace("\n", eol).encode()
    file = DomainFile("a.example", data)
    before = {path: file.text(number) for path, number in file.by_path.items()}
    for path in ("/0", "/b", "/z"):
        new = edits.put(file, record_from(b"k: v", path, Limits()))
        assert new is not None
        fresh = DomainFile("a.example", new.data)
        assert (new.layout, new.paths, new.faults.keys()) == (fresh.layout, fresh.paths, fresh.faults.keys())
        after = {name: fresh.text(number).rstrip(b"\r\n") for name, number in fresh.by_path.items()}
        assert after.pop(path).startswith(b"_path: " + path.encode())
        assert after == {name: text.rstrip(b"\r\n") for name, text in before.items() if name != path}
    for path in before:
        fresh = DomainFile("a.example", edits.remove(file, path).data)
        after = {name: fresh.text(number).rstrip(b"\r\n") for name, number in fresh.by_path.items()}
        assert after == {name: text.rstrip(b"\r\n") for name, text in before.items() if name != path}


@given(st.binary(max_size=300) | st.lists(PIECES, max_size=10).map(lambda pieces: "".join(pieces).encode()))
@settings(max_examples=200, deadline=None)
def test_any_bytes_can_be_looked_at(data: bytes) -> None:
    file = DomainFile("a.example", data)
    list(lint_file(file))
    formatted(file, dedupe=True, drop_comments=True)
    found = layout.scan(data)
    spans = list(zip(found.starts, found.ends, strict=True))
    assert all(start < end for start, end in spans)
    assert all(one[1] <= two[0] for one, two in zip(spans, spans[1:], strict=False))  # noqa: RUF007 - 3.10


SIMPLE_LINES = st.lists(
    st.sampled_from(
        ["content-type: text/html", "x: 'a b'", "categories:\n- a\n- b:c", "n: 12", "y: a:b", "z: 0x1", "on: off"]
    ),
    max_size=4,
)


@given(st.from_regex(r"\A/[!-~]{0,12}\Z"), SIMPLE_LINES)
@settings(max_examples=300, deadline=None)
def test_the_quick_way_is_the_exact_way(path: str, lines: list[str]) -> None:
    body = "".join(f"{line}\n" for line in ["---", f"_path: {path}", *lines]).encode()
    quick = simple(body, 0, len(body))
    if quick is not None:
        assert quick == parse_bytes(body, Limits())


@given(st.sets(PATHS, max_size=10))
@settings(max_examples=200, deadline=None)
def test_every_path_has_its_name_and_every_name_its_path(paths: set[str]) -> None:
    listed = sorted(paths)
    found: dict[tuple[str, ...], str] = {}
    pending = [((), "/")]
    while pending:
        parts, prefix = pending.pop()
        for inner, is_directory in naming.children(listed, prefix):
            if is_directory:
                name = naming.directory_name(inner[len(prefix) : -1])
                assert naming.directory_named(prefix, name) == inner
                pending.append(((*parts, name), inner))
            else:
                name = naming.leaf_name(inner)
                meant = naming.record_named(prefix, name)
                assert meant == inner or isinstance(meant, Shortened)
                found[(*parts, name)] = inner
    assert sorted(found.values()) == listed
    assert all(naming.names_of(path) == parts for parts, path in found.items())
