"""Problems that come again: told once a minute, and counted."""

from __future__ import annotations

import pytest

from archivefs.fuse import problems
from archivefs.fuse.problems import Repeats


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [5.0]  # as after a start: less than a minute
    monkeypatch.setattr(problems.time, "monotonic", lambda: now[0])
    return now


def test_a_problem_is_told_once_a_minute_with_how_often_it_came(clock: list[float]) -> None:
    repeats = Repeats()
    assert repeats.met("x") == 0
    assert {repeats.met("x") for _ in range(9999)} == {None}
    assert repeats.met("another") == 0
    clock[0] += 60
    assert repeats.met("x") == 9999
    assert repeats.met("x") is None
    assert problems.again(9999) == " (9,999 more like this)"
    assert problems.again(0) == ""


def test_what_was_not_told_again_is_told_at_the_end(clock: list[float]) -> None:
    repeats = Repeats()
    for number in range(15):
        for _ in range(1 + problems.OFTEN + number):
            repeats.met(f"problem {number}")
    for _ in range(problems.OFTEN):
        repeats.met("not often")
    *lines, rest = repeats.untold()
    assert lines == [f"problem {number} ({problems.OFTEN + number} more like this)" for number in range(14, 4, -1)]
    assert rest == "5 other problems came often as well"


def test_its_memory_is_bounded(clock: list[float]) -> None:
    repeats = Repeats()
    for number in range(5 * problems.KEPT):
        assert repeats.met(f"problem {number}") == 0
    assert len(repeats._told) <= problems.KEPT
