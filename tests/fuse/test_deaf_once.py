"""A signal that comes while changes are saved after an unmount."""

from __future__ import annotations

import os
import signal

import pytest

from archivefs.fuse.signals import SIGNALS, deaf_once


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_is_told_and_the_second_counts(
    number: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[int] = []

    def hear(came: int, _frame: object) -> None:
        heard.append(came)

    before = signal.signal(number, hear)
    try:
        with deaf_once({number: hear}):
            os.kill(os.getpid(), number)
            assert heard == []
            os.kill(os.getpid(), number)
            assert heard == [number]
        os.kill(os.getpid(), number)
        assert heard == [number, number]
        with deaf_once({number: hear}):
            pass
        os.kill(os.getpid(), number)
        assert heard == [number] * 3, "without a signal everything is as it was"
    finally:
        signal.signal(number, before)
    assert [record.getMessage() for record in caplog.records] == [
        f"{number.name}: changes are being saved; a second signal ends that"
    ]
