"""Every mount test runs on every transport."""

from __future__ import annotations

import pytest

from tests.mount.harness import TRANSPORTS, require_transport


@pytest.fixture(scope="session", params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    """The name of a transport; skipped where archivefs does not have it."""
    require_transport(request.param)
    return request.param
