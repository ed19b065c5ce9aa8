from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.processes import eventually
from support.requirements import find_gemini, missing_for, must_have_all
from support.session import ReachSession, quiet_sshd
from support.sshd import Sshd
from support.suite import Suite


def pytest_configure() -> None:
    """A job that a script puts in the background ignores two signals, and so would everything that a test starts."""
    for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, default)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in ("sshd", "gemini", "kerberos", "pkcs11", "root"):
        if item.get_closest_marker(marker) and (reason := missing_for(marker)):
            (pytest.fail if must_have_all() else pytest.skip)(reason)


@pytest.fixture(scope="session")
def sshd() -> Iterator[Sshd]:
    """One real sshd with default options, shared by all tests: leave its keys and connections alone."""
    with Sshd() as server:
        yield server


@pytest.fixture
def make_sshd() -> Iterator[Callable[..., Sshd]]:
    """Start a real sshd of the test's own, with Sshd's arguments."""
    with ExitStack() as stack:

        def make(*args: Any, **kwargs: Any) -> Sshd:
            return stack.enter_context(Sshd(*args, **kwargs))

        yield make


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is marked `transports` by each of those that the nearest mark names."""
    marker = metafunc.definition.get_closest_marker("transports")
    for fixture in ("session_transport", "login_transport"):
        if marker and fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, marker.args, indirect=True, scope="module")
            break


@pytest.fixture(scope="module")
def session_transport(request: pytest.FixtureRequest) -> str | None:
    """Which transport the sessions of a test have: its mark says so, else the settings."""
    return getattr(request, "param", None)


@pytest.fixture(scope="module")
def session(session_transport: str | None) -> Iterator[ReachSession]:
    """A reach session against an sshd of its own, shared by the tests of a module."""
    with quiet_sshd() as server, ReachSession(server, transport=session_transport) as up:
        yield up


@pytest.fixture(scope="module")
def target() -> Iterator[Sshd]:
    """An sshd without any start-up files, shared by the tests of a module."""
    with quiet_sshd() as server:
        yield server


@pytest.fixture
def make_target() -> Iterator[Callable[..., Sshd]]:
    """Start such an sshd of the test's own, with Sshd's arguments."""
    with ExitStack() as stack:

        def make(*args: Any, **kwargs: Any) -> Sshd:
            return stack.enter_context(quiet_sshd(*args, **kwargs))

        yield make


@pytest.fixture
def make_session(session_transport: str | None) -> Iterator[Callable[..., ReachSession]]:
    """Bring up a session of the test's own, with ReachSession's arguments."""
    with ExitStack() as stack:

        def make(server: Sshd, **kwargs: Any) -> ReachSession:
            return stack.enter_context(ReachSession(server, **{"transport": session_transport, **kwargs}))

        yield make


@pytest.fixture
def suite(tmp_path: Path) -> Iterator[Suite]:
    """A test suite of somebody else's, still without a test. At the end nothing of its runs may be left."""
    suite = Suite(tmp_path)
    yield suite
    assert eventually(lambda: not suite.left_over()), suite.left_over()


@pytest.fixture(scope="session")
def gemini() -> str:
    """The path of the real Gemini CLI."""
    binary = find_gemini()
    assert binary, missing_for("gemini")
    return binary
