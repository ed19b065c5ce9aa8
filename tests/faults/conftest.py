from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from faults.stage import Stage


@pytest.fixture
def transport(request: pytest.FixtureRequest) -> str | None:
    """Which transport the stages have; BOTH_TRANSPORTS asks for each."""
    return getattr(request, "param", None)


@pytest.fixture
def make_stage(transport: str | None) -> Iterator[Callable[..., Stage]]:
    """Set a stage with Stage's arguments; at the end every call's word is held against what ran."""
    with ExitStack() as stack:
        stages: list[Stage] = []

        def make(*args: Any, **kwargs: Any) -> Stage:
            stages.append(stack.enter_context(Stage(*args, **{"transport": transport, **kwargs})))
            return stages[-1]

        yield make
        for stage in stages:
            tally = stage.tally()
            assert tally.is_clean, tally


@pytest.fixture
def stage(make_stage: Callable[..., Stage]) -> Stage:
    return make_stage()
