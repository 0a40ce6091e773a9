"""Running commands in this process, on archives of a fake format."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from archivefs.cli import main
from tests.fakes import fake, fakery, register, write_fake

CONTENT = {
    "docs": {"a.html": b"<p>a", "deep": {"b.txt": b"bbb"}},
    "index.html": b"<h1>hi</h1>",
    "link": "docs/a.html",
    "older.html": b"old",
    "round": "round",
}


class Outcome(NamedTuple):
    """What a command did."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Outcome]


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Iterator[Run]:
    """Run a command line."""
    logger = logging.getLogger("archivefs")
    # One that an earlier call of main() has left is no concern of this test.
    others = [handler for handler in logger.handlers if type(handler).__name__ != "StderrHandler"]
    before = [(handler, handler.level) for handler in others]

    def call(*args: object) -> Outcome:
        capfdbinary.readouterr()
        code = main([str(arg) for arg in args])
        out, err = capfdbinary.readouterr()
        return Outcome(code, out, err.decode())

    yield call
    logger.setLevel(logging.NOTSET)
    for handler in list(logger.handlers):
        if type(handler).__name__ == "StderrHandler":
            logger.removeHandler(handler)
    assert [(handler, handler.level) for handler in logger.handlers] == before


@pytest.fixture(autouse=True)
def fake_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one format there is in these tests."""
    register(monkeypatch, [fake(commands=lambda: [fakery], command_names=("fakery",))])


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive without damage."""
    return write_fake(tmp_path / "site.fake", CONTENT)
