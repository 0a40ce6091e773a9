"""What all tests share: FUSE or not, and no unexpected line in the log."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.contract", "tests.walking", "tests.mount.harness")

MOUNT_TESTS = Path(__file__).parent / "mount"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever lies in tests/mount needs a real mount."""
    for item in items:
        if MOUNT_TESTS in item.path.parents:
            item.add_marker("fuse")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Mount tests are skipped only where there is no FUSE, or none for this user, and never under CI=true."""
    if item.get_closest_marker("fuse") and not os.access("/dev/fuse", os.R_OK | os.W_OK):
        problem = "there is no /dev/fuse here, or it cannot be opened, so nothing can be mounted"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{problem}, and CI=true says that it must be")
        pytest.skip(problem)


@pytest.fixture(autouse=True, scope="session")
def folders_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The user's own cache and configuration are neither read nor written, also by commands that tests start."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))


@pytest.fixture(autouse=True)
def no_unexpected_log_lines(request: pytest.FixtureRequest) -> Iterator[None]:
    """A warning or an error in our log fails the test, unless the test looks at the log itself (``caplog``)."""
    if "caplog" in request.fixturenames:
        yield
        return
    keeper = _Keeper()
    logger = logging.getLogger("archivefs")
    logger.addHandler(keeper)
    yield
    logger.removeHandler(keeper)
    assert keeper.lines == [], "the log has lines that no one expected"


class _Keeper(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.name}: {record.getMessage()}")
