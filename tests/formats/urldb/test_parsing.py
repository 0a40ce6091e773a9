"""Documents: where they lie, what they hold, what is refused, and the canonical text of it."""

from __future__ import annotations

import pytest
import yaml

from archivefs.formats.urldb import canonical
from archivefs.formats.urldb.domainfile import DomainFile, parse_bytes
from archivefs.formats.urldb.formatting import FormatRefused, formatted
from archivefs.formats.urldb.limits import Limits
from archivefs.formats.urldb.lint import lint_file
from archivefs.formats.urldb.records import path_of
from archivefs.formats.urldb.values import Mapping, Refused, simple
from tests.samples.urldb import DATABASE, HARBOUR, large

OK = "---\n_path: /fine\n"


def domain(text: str | bytes) -> DomainFile:
    return DomainFile("a.example", text if isinstance(text, bytes) else text.encode())


def shown(file: DomainFile) -> dict[str, bytes]:
    return {path: file.text(number) for path, number in file.by_path.items()}


# -- documents --


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ("---\n---\n_path: /\n", {"/": b"_path: /\n"}),
        ("---\n", {}),
        ("", {}),
        ("---", {}),
        ("--- {}\n--- {_path: /a}\n", {"/a": b"{_path: /a}\n"}),
        ("--- null\n---\n_path: /\n", {"/": b"_path: /\n"}),
        ("---\n# nothing\n---\n_path: /\n", {"/": b"_path: /\n"}),
        ("\ufeff---\n---\n_path: /\n", {"/": b"_path: /\n"}),
        ("---\r\n---\r\n_path: /\r\n", {"/": b"_path: /\r\n"}),
        ("---\r---\r_path: /\r", {"/": b"_path: /\r"}),
        ("---\n--- # why\n_path: /a # x\n", {"/a": b"_path: /a # x\n"}),
        ("---\n---\n_path: /b\nn: |\n  x\n  ---\n  y\n", {"/b": b"_path: /b\nn: |\n  x\n  ---\n  y\n"}),
        ("%YAML 1.1\n---\n...\n---\n_path: /a\n...\n", {"/a": b"_path: /a\n"}),
        (
            "---\n...\n_path: /bare\n...\n# c\n%YAML 1.1\n---\n_path: /b\n",
            {"/bare": b"_path: /bare\n", "/b": b"_path: /b\n"},
        ),
        ("_path: /first\n---\n_path: /b\n", {"/first": b"_path: /first\n", "/b": b"_path: /b\n"}),
        ("---\n---\n_path: /last", {"/last": b"_path: /last"}),
        ("---\n---\n---x: 1\n_path: /a\n", {"/a": b"---x: 1\n_path: /a\n"}),
    ],
)
def test_documents_are_found(text: str, records: dict[str, bytes]) -> None:
    assert shown(domain(text)) == records


def test_lines_are_counted_however_they_end() -> None:
    for eol in ("\n", "\r\n", "\r"):
        file = domain("---\n---\n_path: /\n---\n_path: /b\n".replace("\n", eol))
        assert list(file.lines()) == [1, 2, 4]
        assert [file.line(number) for number in range(3)] == [1, 2, 4]


# -- what is refused --


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: &x [1]\nb: *x", "alias"),
        ("a: &x 1", "alias"),
        ("&x a: 1", "alias"),
        ("<<: {a: 1}", "alias"),
        ("a: *nobody", "alias"),
        ("a: !!str x", "tag"),
        ("a: !x y", "tag"),
        ("a: !!binary aGk=", "tag"),
        ("!!map {a: 1}", "tag"),
        ("a: !!python/object/apply:os.system ['true']", "tag"),
        ("? [a]\n: b", "yaml"),
        ("? {a: b}\n: b", "yaml"),
        ("a: b: c", "yaml"),
        ("a: [1", "yaml"),
        ("a:\n\tb: c", "yaml"),
        ("a: '\x1b'", "yaml"),
        ("a: 1\x85--- \nb: 2", "yaml"),
        ("a: " + "[" * 200_000, "depth"),
        ("".join(" " * i + "a:\n" for i in range(100)), "depth"),
        ("a: " + "[" * 31 + "]" * 31, None),
        ("a: " + "[" * 32 + "]" * 32, "depth"),
        ("'<<': 1", None),
        ("a: '&x'", None),
    ],
)
def test_what_is_refused(text: str, code: str | None) -> None:
    data = b"---\n" + text.encode()
    if code is None:
        assert isinstance(parse_bytes(data, Limits()), Mapping)
        return
    with pytest.raises(Refused) as caught:
        parse_bytes(data, Limits())
    assert caught.value.code == code


def test_limits_can_be_set() -> None:
    file = DomainFile(
        "a.example", b"---\n---\n_path: /a\nx: [[1]]\n---\n_path: /b\n", limits=Limits(depth=2, document=40)
    )
    assert list(file.by_path) == ["/b"]
    assert file.faults[1].code == "depth"
    file = DomainFile("a.example", f"---\n---\n_path: /{'a' * 50}\n".encode(), limits=Limits(document=40))
    assert file.faults[1].code == "too-big"


def test_a_mistake_is_confined_to_its_record() -> None:
    file = domain('---\n---\n_path: /a\n---\n_path: "/b\n---\n_path: /c\n')
    assert list(file.by_path) == ["/a", "/c"]
    assert file.faults[2].code == "yaml"


def test_the_quick_way_reads_what_the_exact_way_reads() -> None:
    for text in DATABASE.values():
        file = domain(text)
        for number in range(file.first, len(file.paths)):
            body = file.body(number)
            quick = simple(body, 0, len(body))
            if quick is not None:
                assert quick == parse_bytes(body, Limits())


# -- canonical text --


@pytest.mark.parametrize("text", [*DATABASE.values(), large(300)])
def test_plain_files_are_canonical_and_agree_with_pyyaml(text: str) -> None:
    file = domain(text)
    assert formatted(file) == text.encode()
    documents = [document or {} for document in yaml.safe_load_all(text)]
    if all(documents) and "ü" not in text:
        assert yaml.safe_dump_all(documents, explicit_start=True, sort_keys=True, width=10**9) == text


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("/a", "/a"),
        ("12", "'12'"),
        ("yes", "'yes'"),
        ("null", "'null'"),
        ("~", "'~'"),
        ("", "''"),
        ("2020-01-01", "'2020-01-01'"),
        ("1:30", "'1:30'"),
        ("0" * 64, "'" + "0" * 64 + "'"),
        ("a: b", "'a: b'"),
        ("a #b", "'a #b'"),
        ("a#b", "a#b"),
        ("a:", "'a:'"),
        ("- a", "'- a'"),
        ("-a", "-a"),
        ("?x", "?x"),
        ("it's", "it's"),
        ("'x", "'''x'"),
        (" a", "' a'"),
        ("@a", "'@a'"),
        ("%a", "'%a'"),
        ("---", "'---'"),
        ("...", "'...'"),
        ("é", "é"),
        ("\U0001f600", "\U0001f600"),
        ("a\nb", '"a\\nb"'),
        ("\x00", '"\\0"'),
        ("\u2028", '"\\L"'),
        ("\ufeff", '"\\uFEFF"'),
        ("a\tb", '"a\\tb"'),
        ("<<", "'<<'"),
        ("=", "'='"),
        ("[a]", "'[a]'"),
    ],
)
def test_scalars_are_written_as_plainly_as_they_can_be(word: str, text: str) -> None:
    assert canonical.quoted(word) == text
    assert yaml.safe_load(f"a: {text}") == {"a": word}
    assert list(yaml.safe_load(f"{text}: 1")) == [word]


def test_nested_values_are_written_in_blocks() -> None:
    value = parse_bytes(b"---\n{z: [1, [a, b], {x: 1, b: []}], _path: /a, m: {k: {}, e: }, l: [[[]]]}\n", Limits())
    assert isinstance(value, Mapping)
    text = canonical.text(value)
    assert text == ("_path: /a\nl:\n- - []\nm:\n  e: null\n  k: {}\nz:\n- 1\n- - a\n  - b\n- b: []\n  x: 1\n")
    assert yaml.safe_load(text) == yaml.safe_load(
        "{z: [1, [a, b], {x: 1, b: []}], _path: /a, m: {k: {}, e: }, l: [[[]]]}"
    )


def test_a_long_key_is_written_so_that_it_reads_back() -> None:
    for length in (100, 127, 500, 3000):
        value = parse_bytes(f"---\n? {'k' * length}\n: [1, 2]\n".encode(), Limits())
        assert isinstance(value, Mapping)
        assert yaml.safe_load(canonical.text(value)) == {"k" * length: [1, 2]}


# -- format --


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\n_path: /b\n---\n_path: /a\n", "---\n---\n_path: /a\n---\n_path: /b\n"),
        ("---\n---\n---\n_path: /a\n---\nnull\n", "---\n---\n_path: /a\n"),
        ("--- {}\n--- {_path: /a, b: 1}\n", "---\n---\n_path: /a\nb: 1\n"),
        ("\ufeff---\n---\n_path: /\n", "---\n---\n_path: /\n"),
        ("%YAML 1.1\n---\n...\n---\n_path: /a\n...\n", "---\n---\n_path: /a\n"),
        ("---\n---\n_path: /last", "---\n---\n_path: /last\n"),
        ("---\r\n---\r\n'_path': /\r\n", "---\r\n---\r\n_path: /\r\n"),
        ("---\n---\n- a\n---\n_path: /a\n", "---\n---\n- a\n---\n_path: /a\n"),
        (
            "---\n---\n_path: /b\n---\n_path: [\n---\n_path: /a\n",
            "---\n---\n_path: /a\n---\n_path: /b\n---\n_path: [\n",
        ),
        ("---\ncnames: x.example\n" + OK, "---\ncnames:\n- x.example\n" + OK),
        ("---\ncnames:\n" + OK, "---\ncnames: []\n" + OK),
        ("---\n---\n_path: /a\ncategories: [on, b, 1, b]\n", "---\n---\n_path: /a\ncategories:\n- '1'\n- b\n- 'on'\n"),
        (
            "---\n---\n_path: /a\n1: x\ntrue: y\n",
            "---\n---\n'1': x\n_path: /a\n'true': y\n".replace("'1': x\n_path: /a\n", "'1': x\n_path: /a\n"),
        ),
        ("---\n---\n_path: /a\nx: 010\ny: '5'\nz: 5\n", "---\n---\n_path: /a\nx: 010\ny: '5'\nz: 5\n"),
    ],
)
def test_format(text: str, expected: str) -> None:
    new = formatted(domain(text))
    assert new.decode() == expected
    again = domain(new)
    assert formatted(again) == new
    assert "not-canonical" not in [finding.code for finding in lint_file(again)]


def test_format_can_change_line_ends() -> None:
    assert formatted(domain(HARBOUR), eol=b"\r\n") == HARBOUR.replace("\n", "\r\n").encode()
    assert formatted(domain(HARBOUR.replace("\n", "\r\n")), eol=b"\n") == HARBOUR.encode()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("# top\n---\n---\n_path: /a\n", "1"),
        ("---\n---\n# one\n_path: /a  # two\n", "3, 4"),
        ("---\n--- # here\n_path: /a\n", "2"),
        ("---\n---\n_path: /a\n...\n# end\n", "5"),
        ("---\n---\n_path: /a\nx: | # head\n  # no comment\n", "4"),
    ],
)
def test_format_refuses_to_lose_comments(text: str, lines: str) -> None:
    with pytest.raises(FormatRefused, match=f"comments in lines? {lines};"):
        formatted(domain(text))
    assert b"#" not in formatted(domain(text), drop_comments=True).replace(b"# no comment", b"")


def test_what_looks_like_a_comment_is_none() -> None:
    text = "---\n---\n_path: /a\nx: 'a #b'\ny: a#b\nz: |\n  # text\n"
    assert b"text" in formatted(domain(text))


def test_format_refuses_duplicates_unless_told_to_keep_the_last() -> None:
    file = domain("---\n---\n_path: /a\nx: 1\n---\n_path: /a\nx: 2\n")
    with pytest.raises(FormatRefused, match="/a is there twice"):
        formatted(file)
    assert formatted(file, dedupe=True) == b"---\n---\n_path: /a\nx: 2\n"


def test_the_last_of_two_keys_counts() -> None:
    file = domain("---\n---\n_path: /a\n_path: /b\n")
    assert list(file.by_path) == ["/b"]
    assert path_of(file.record(1)) == "/b"
