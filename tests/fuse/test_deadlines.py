"""Time limits: what hangs is answered for, and what comes too late is taken back."""

from __future__ import annotations

import threading
import time

import pytest

from archivefs.errors import OperationTimedOut
from archivefs.fuse.deadlines import Deadlines


def test_results_and_errors_come_through() -> None:
    deadlines = Deadlines(5)
    assert deadlines.run(lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        deadlines.run(lambda: 1 // 0)


def test_what_hangs_is_answered_and_does_not_hold_up_others() -> None:
    deadlines = Deadlines(0.2)
    release = threading.Event()
    failures = []

    def hang() -> None:
        try:
            deadlines.run(release.wait)
        except OperationTimedOut as error:
            failures.append(error)

    threads = [threading.Thread(target=hang) for _ in range(20)]
    for thread in threads:
        thread.start()
    assert deadlines.run(lambda: "quick") == "quick"
    for thread in threads:
        thread.join(5)
    release.set()
    assert len(failures) == 20


def test_a_late_result_is_taken_back() -> None:
    deadlines = Deadlines(0.1)
    undone = threading.Event()
    with pytest.raises(OperationTimedOut):
        deadlines.run(lambda: time.sleep(0.3), undo=lambda _: undone.set())
    assert undone.wait(5)


def test_closing_answers_everything_at_once() -> None:
    deadlines = Deadlines(60)
    waiting, release, outcome = threading.Event(), threading.Event(), []

    def hang() -> None:
        try:
            deadlines.run(lambda: (waiting.set(), release.wait()))
        except OperationTimedOut as error:
            outcome.append(error)

    thread = threading.Thread(target=hang)
    thread.start()
    assert waiting.wait(5)
    deadlines.close()
    thread.join(5)
    release.set()
    assert len(outcome) == 1
    with pytest.raises(OperationTimedOut):
        deadlines.run(lambda: 1)


def test_workers_are_used_again() -> None:
    deadlines = Deadlines(5)
    before = threading.active_count()
    for _ in range(200):
        deadlines.run(lambda: None)
    assert threading.active_count() <= before + 2
