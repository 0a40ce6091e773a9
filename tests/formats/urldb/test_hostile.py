"""Hostile files: each must be answered quickly and in little memory, whatever the answer is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared import shared_module

LOOK = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
from archivefs.format import Opening, VerifyRequest
from archivefs.formats.urldb import FORMAT
from tests.walking import as_dict
tree = FORMAT.open(sys.argv[1], Opening())
as_dict(tree.root())
tree.facts()
list(FORMAT.verify(sys.argv[1], Opening(), VerifyRequest()))
usage = resource.getrusage(resource.RUSAGE_SELF)
# Not ru_maxrss: that also counts what the process had before it became this program.
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(peak, usage.ru_utime + usage.ru_stime)
"""
MAX_KIB = 256 * 1024
MAX_CPU_S = 2.0

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 9) + "]\n" for i in range(1, 10)
)
MERGES = "m0: &m0 {k: v}\n" + "".join(f"m{i}: &m{i} {{<<: [*m{i - 1}, *m{i - 1}]}}\n" for i in range(1, 40))
OURS: dict[str, str | bytes] = {
    "laughs": "---\n---\n_path: /a\n" + LAUGHS,
    "merges": "---\n---\n_path: /a\n" + MERGES,
    "deep flow": "---\n---\n_path: /a\nx: " + "[" * 400_000,
    "deep maps": "---\n---\n_path: /a\nx: " + "{a: " * 200_000,
    "deep block": "---\n---\n_path: /a\n" + "".join(" " * i + "a:\n" for i in range(1400)),
    "deep lists": "---\n---\n_path: /a\nx:\n" + "- " * 200_000,
    "many markers": "---\n" * 100_000,
    "many ends": "...\n" * 200_000,
    "many comments": "# c\n" * 200_000 + "---\n",
    "many directives": "%D\n" * 100_000 + "---\n---\n_path: /a\n",
    "many keys": "---\n---\n_path: /a\n" + "".join(f"k{i}: v\n" for i in range(60_000)),
    "many directories": "---\n---\n_path: /" + "a/" * 150,
    "long path": "---\n---\n_path: /" + "a" * 1_000_000,
    "huge number": "---\n---\n_path: /a\ncontent-length: " + "9" * 900_000,
    "quotes": '---\n---\n_path: "' + "\\n" * 400_000,
    "tabs": "---\n---\n_path: /a\n" + "\t" * 900_000,
    "binary": b"---\n---\n" + bytes(range(256)) * 3000,
    "nul": b"---\n---\n_path: /\x00\n",
    "no marker": "x" * 5_000_000,
    "carriage returns": "---\r" * 100_000,
    "same stem": "---\n" + "".join(f"---\n_path: /{'x' * 300}{i:05d}\n" for i in range(5_000)),
}


def look_at(folder: Path) -> tuple[int, float]:
    """The memory (KiB) and the processor time (s) that it takes to show and check a database."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(folder)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    memory, seconds = done.stdout.split()
    return int(memory), float(seconds)


@pytest.fixture(scope="module")
def start_up(tmp_path_factory: pytest.TempPathFactory) -> float:
    """What it takes to do nothing."""
    folder = tmp_path_factory.mktemp("nothing")
    (folder / "a.example.yaml").write_text("---\n")
    return look_at(folder)[1]


@pytest.mark.parametrize("name", list(OURS))
def test_ours(name: str, tmp_path: Path, start_up: float) -> None:
    text = OURS[name]
    (tmp_path / "a.example.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    memory, seconds = look_at(tmp_path)
    assert memory < MAX_KIB
    assert seconds < MAX_CPU_S + start_up


def test_the_given_ones(tmp_path: Path, start_up: float) -> None:
    module = shared_module("faults", "badyaml.py")
    for kind, (_, _, text) in module.K.items():
        folder = tmp_path / kind
        folder.mkdir()
        data = text if isinstance(text, bytes) else text.encode()
        (folder / "a.example.yaml").write_bytes(data)
        (folder / "b.example.yaml").write_bytes(b"---\n---\n" + data)
        memory, seconds = look_at(folder)
        assert memory < MAX_KIB, kind
        assert seconds < MAX_CPU_S + start_up, kind
        assert not os.path.exists("pwned.txt")
