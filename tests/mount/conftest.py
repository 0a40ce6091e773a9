"""Every mount test runs on every transport."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mount.harness import LIVE, TRANSPORTS, require_transport


@pytest.fixture(scope="session", autouse=True)
def no_mount_is_left() -> Iterator[None]:
    """Whatever a failing test has left mounted is taken down at the end."""
    yield
    for mount in list(LIVE):
        mount.end()


@pytest.fixture(scope="session", params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    """The name of a transport; skipped where archivefs does not have it."""
    require_transport(request.param)
    return request.param
