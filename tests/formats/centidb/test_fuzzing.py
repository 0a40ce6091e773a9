"""What ``make torture`` does at length, in short: damaged input to every decoder."""

from __future__ import annotations

import random

import pytest

from archivefs.errors import ArchiveError
from contrib.torture import centidb


@pytest.mark.parametrize("name", centidb.TARGETS)
def test_damaged_input_raises_nothing_but_our_own_errors(name: str) -> None:
    target, known, chance = centidb.TARGETS[name], centidb.seeds(name), random.Random(0)
    read = 0
    for data in [*known, *(centidb.mutated(chance.choice(known), known, chance) for _ in range(150))]:
        try:
            target(data)
            read += 1
        except ArchiveError:
            pass
    assert read >= len(known) // 2


def test_what_goes_wrong_is_told(monkeypatch, capsys) -> None:
    monkeypatch.setitem(centidb.TARGETS, "key", lambda data: data[1000])
    assert centidb.main(["key", "--seconds", "5"]) == 1
    assert "key: run 1: IndexError: " in capsys.readouterr().err
