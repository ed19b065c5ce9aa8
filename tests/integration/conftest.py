from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.login import logging_in_by


@pytest.fixture(autouse=True)
def login_transport(request: pytest.FixtureRequest) -> Iterator[str]:
    """Which transport `connected` logs in by."""
    transport: str = getattr(request, "param", "paramiko")
    with logging_in_by(transport):
        yield transport
