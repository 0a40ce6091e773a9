"""Bitsy: every vector, the examples of the specification, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from archivefs.cli import main
from archivefs.formats.labrador.bitsy import BitsyError, decode, encode, is_strict_name
from archivefs.formats.labrador.commands import bitsy

VECTORS = Path(__file__).parents[2] / "vectors" / "labrador" / "bitsy.tsv"


def vectors() -> list[list[str]]:
    lines = VECTORS.read_text(encoding="ascii").split("\n")[1:]
    return [line.split("\t") for line in lines if line]


def answer(translate, text: str) -> str:
    try:
        return json.dumps(translate(text))
    except BitsyError as error:
        return f"ERROR:{error.kind}"


def test_there_are_vectors_of_both_kinds() -> None:
    assert {row[2] for row in vectors()} == {"encode", "decode"}
    assert len(vectors()) == 420


@pytest.mark.parametrize("number", range(420))
def test_vector(number: int) -> None:
    original, encoded, direction, note = vectors()[number]
    if direction == "encode":
        assert answer(encode, json.loads(original)) == encoded, note
    else:
        assert answer(decode, json.loads(encoded)) == original, note


EXAMPLES = {
    "example.txt": "example.txt",
    "xz--prefix.txt": "xq--prefix-z.txt",
    "xq--reflexive-q": "xq--reflexive-q-q",
    "nul.txt": "xq--nul-x.txt",
    "Rotfüchse.png": "xz--Rotfchse-jboqb.png",
    "Hello World.TXT": "xz--HelloWorld-gfevagda.TXT",
    "日本語.html": "xz---vm1mn1wtuar.html",
    "a..b.txt": "xz--a-gr.b.txt",
    "a.b.": "xz--ab-cqac",
    "file.tar.é.gz": "xz--filetar-i9aeobm.gz",
    ".Foo.txt": "xz--Foo-fuba.txt",
    "aBCde": "xz--aBCde-cjaf",
    "foo-.bar": "xz--foo--aa.bar",
    "-": "xz----aa",
    "é": "xz--gq",
}


@pytest.mark.parametrize(("original", "encoded"), EXAMPLES.items())
def test_worked_example(original: str, encoded: str) -> None:
    assert encode(original) == encoded
    assert decode(encoded) == decode(encoded.upper()) == original


def test_a_letter_that_comes_through_the_numbers_takes_the_case_of_its_place() -> None:
    assert decode("xz--fo-fn") == "fao"  # the published programs give fAo


@pytest.mark.parametrize("name", ["a", ".a", "a-b", "a--b", "_", ".", "..", ".con", "com10", "x" * 255, "a.b-c.d"])
def test_strict_names(name: str) -> None:
    assert is_strict_name(name)
    assert is_strict_name(name.upper())


NOT_STRICT = [
    "",
    "-a",
    "a-",
    "a.",
    "a..b",
    "a.-b",
    "a-.b",
    "...",
    "con",
    "Lpt0.x",
    "x" * 256,
    "a\n",
    "\u212a",
    "a\u0663",
]


@pytest.mark.parametrize("name", NOT_STRICT)
def test_names_that_are_not_strict(name: str) -> None:
    assert not is_strict_name(name)


def test_decoding_many_numbers_takes_no_time_to_speak_of() -> None:
    with pytest.raises(BitsyError):
        decode("xz--" + "ab" * 60 + "999999" * 20)


# -- the command --


def test_the_command_translates_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bitsy", "encode", "Hello World.TXT", "plain"]) == 0
    assert capsys.readouterr().out == "xz--HelloWorld-gfevagda.TXT\nplain\n"
    assert main(["bitsy", "decode", "xz--hELLOworld-gfevagda.txt"]) == 0
    assert capsys.readouterr().out == "Hello World.TXT\n"


def test_a_name_that_cannot_be_translated_is_told_and_the_others_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bitsy", "decode", "con", "ok"]) == 1
    said = capsys.readouterr()
    assert said.out == "ok\n"
    assert said.err == "archivefs: con: not a StrictName\n"


def test_the_command_without_names_is_told_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bitsy", "encode"]) == 2
    assert "names are expected" in capsys.readouterr().err


def test_json_lines_are_answered_line_by_line() -> None:
    lines = ['"\\u00e9"', '"\\ud83d\\ude00.png"', '"a/b"', "42", "no json", '"\\ud800"', '""', "[" * 100000, '"x"']
    result = CliRunner().invoke(bitsy, ["encode", "--json-lines"], input="\n".join(lines), standalone_mode=False)
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.return_value == 0
    assert answers[:2] == [{"name": "xz--gq"}, {"name": "xz---yn121.png"}]
    assert [list(one) for one in answers[2:-1]] == [["error"]] * 6
    assert answers[-1] == {"name": "x"}


def test_json_lines_decode_every_vector() -> None:
    rows = [row for row in vectors() if row[2] == "decode"]
    text = "\n".join(row[1] for row in rows)
    result = CliRunner().invoke(bitsy, ["decode", "--json-lines"], input=text, standalone_mode=False)
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(answers) == len(rows)
    for row, one in zip(rows, answers, strict=True):
        assert ("error" in one) == row[0].startswith("ERROR:"), row
        assert "error" in one or json.dumps(one["name"]) == row[0]
