"""``archivefs centidb key`` and the general commands on a store."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.formats.centidb.test_keys import ALL
from tests.samples import centidb as sample
from tests.samples.centidb import write_dump


def run(*arguments: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "archivefs", *map(str, arguments)]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)


def test_decoding_prints_names_and_tuples() -> None:
    done = run("centidb", "key", "decode", sample.key("user", 613).hex() + "66" + "5cfda05369693444", "15f100")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Tuser,Pc613\t('user', 613)",
        "W2013-08-22T16:19:29.000Z068\t(2013-08-22T17:19:29.000+01:00,)",
        "x-15f100\t(240,)",
    ]


def test_encoding_takes_names() -> None:
    done = run("centidb", "key", "encode", "--dialect", "acid", "Tuser,Mb42", "()")
    assert (done.returncode, done.stdout) == (0, sample.key("user", -42, acid=True).hex() + "\n\n")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("decode", "28b0"), 1),
        (("decode", "xyz"), 1),
        (("encode", "nonsense"), 1),
        (("decode",), 2),
        (("decode", "--json-lines", "15"), 2),
        (("decode", "--dialect", "other", "15"), 2),
    ],
)
def test_what_is_refused_is_one_line(arguments: tuple[str, ...], code: int) -> None:
    done = run("centidb", "key", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("archivefs: ")


@pytest.mark.parametrize("dialect", ["centidb", "acid"])
def test_all_vectors_as_json_lines(dialect: str) -> None:
    chosen = [vector for vector in ALL if vector.dialect.name == dialect]
    given = "".join(json.dumps(vector.data.hex()) + "\n" for vector in chosen)
    done = run("centidb", "key", "decode", "--dialect", dialect, "--json-lines", given=given)
    assert done.returncode == 0
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(chosen)
    back = []
    for vector, answer in zip(chosen, answers, strict=True):
        assert ("error" in answer) == (vector.mode == "error"), vector
        if vector.mode != "error":
            assert answer["canonical"] == (vector.mode != "decode")
            if vector.mode == "both":
                back.append((json.dumps(answer["tuples"]), vector.data.hex()))
    done = run(
        "centidb", "key", "encode", "--dialect", dialect, "--json-lines", given="\n".join(one for one, _ in back)
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"key": digits} for _, digits in back]


def test_each_line_is_answered_before_the_next_one_is_read() -> None:
    command = [sys.executable, "-m", "archivefs", "centidb", "key", "decode", "--json-lines"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        stop = threading.Timer(60, running.kill)
        stop.start()
        assert running.stdin and running.stdout
        for number in (1, 2):
            running.stdin.write(b'"150%d"\n' % number)
            running.stdin.flush()
            answer = {"tuples": [[["int", str(number)]]], "canonical": True}
            assert json.loads(running.stdout.readline()) == answer
        running.stdin.close()
        assert running.wait() == 0
        stop.cancel()


def test_bad_lines_are_answered_and_the_next_one_is_read() -> None:
    lines = [
        "nonsense",
        "[]",
        "[[[]]]",
        '[[["int", 5]]]',
        '[[["int", "18446744073709551616"]]]',
        '[[["bool", 1]]]',
        '[[["text", "ff"]]]',
        '[[["uuid", "00000000000000000000000000000007"]]]',
        '[[["time", 0, 99999]]]',
        '[[["time", 1e99, 0]]]',
        '[[["time", 999999999999999999, 0]]]',
        '[[["none"], ["time", 0, 59]]]',
    ]
    done = run("centidb", "key", "encode", "--json-lines", given="\n".join(lines))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert [list(answer) for answer in answers[:-1]] == [["error"]] * (len(lines) - 1)
    assert answers[-1] == {"key": "0f5c43"}


def test_the_general_commands(tmp_path: Path) -> None:
    path = write_dump(tmp_path / "library.dump", sample.library().entries)
    info = json.loads(run("info", "--json", path).stdout)
    assert info["format"] == "centidb"
    assert (info["facts"]["engine"], info["facts"]["dialect"], info["facts"]["indices"]) == ("dump", "centidb", 2)
    assert run("ls", f"{path}:/collections/people/records").stdout.split() == ["Pa1", "Pa2", "Pa3"]
    assert run("cat", f"{path}:/counters/visits").stdout == "42\n"
    verified = run("verify", path)
    assert verified.returncode == 0, verified.stdout
    listed = run("ls", "-o", "names=hex", f"{path}:/collections/people/records")
    assert listed.stdout.split() == ["1501", "1502", "1503"]
