"""The pytest plugin: fixtures for test suites of anybody's. What they need is imported once one of them is used."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from reach.testing.mock_gemini import MockGemini
    from reach.testing.session import LiveSession
    from reach.testing.target import LiveTarget

VARIABLE = "REACH_TEST_TARGET"


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = f"the target of reach's fixtures, as `reach up` takes it; else {VARIABLE}, else an embedded one"
    parser.getgroup("reach").addoption("--reach-target", metavar="TARGET", help=help_text)
    parser.addini("reach_target", help_text)


@contextmanager
def _failing_in_one_line() -> Iterator[None]:
    """What reach has to say is for the person; where in reach it was said is not."""
    from reach.errors import ReachError

    try:
        yield
    except ReachError as error:
        # Not pytest.fail(): it would keep the error as the context, and pytest shows that too.
        raise pytest.fail.Exception(f"reach: {error}", pytrace=False) from None


@pytest.fixture(scope="session")
def _reach_folder() -> Iterator[Path]:
    """Where everything of this run lies; the verdicts in it spare later tests the verification."""
    from reach.testing.home import private_folder

    with private_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def reach_target(pytestconfig: pytest.Config, _reach_folder: Path) -> Iterator[LiveTarget]:
    """An SSH target: embedded in this run, or the host that --reach-target, REACH_TEST_TARGET or reach_target names."""
    from reach.testing.target import live_target

    config = pytestconfig
    named = config.getoption("--reach-target") or os.environ.get(VARIABLE) or config.getini("reach_target")
    folder = _reach_folder / "target"
    folder.mkdir()
    with ExitStack() as stack:
        with _failing_in_one_line():
            target = stack.enter_context(live_target(named or None, folder))
        yield target


@pytest.fixture(scope="session")
def _reach_number() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def reach_session(reach_target: LiveTarget, _reach_folder: Path, _reach_number: Iterator[int]) -> Iterator[LiveSession]:
    """A session against reach_target, up, in a REACH_HOME of its own: run(), environment, verify(), launch()."""
    from reach.testing.home import HOME
    from reach.testing.session import LiveSession

    session = LiveSession(_reach_folder / HOME, reach_target, f"test-{next(_reach_number)}")
    try:
        with _failing_in_one_line():
            session.up()
        yield session
    finally:
        session.close()


@pytest.fixture
def mock_gemini(_reach_folder: Path, _reach_number: Iterator[int]) -> Iterator[MockGemini]:
    """A Gemini API that takes the turns that a test gives to play(); an `expect` that is not met fails the test."""
    from reach.testing.mock_gemini import MockGemini

    with MockGemini(_reach_folder / f"mock-{next(_reach_number)}") as mock:
        yield mock
    if mock.failures:
        pytest.fail("mock_gemini: " + "\n".join(mock.failures), pytrace=False)
