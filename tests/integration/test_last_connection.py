"""Where the server lets nobody in a second time, commands share the connection that there is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.processes import eventually
from support.session import ReachSession
from support.sshd import Sshd
from support.transports import TRANSPORTS

pytestmark = pytest.mark.sshd


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("sessions", [2, 3])
def test_commands_wait_for_each_other_where_nobody_can_log_in_again(
    make_target: Callable[..., Sshd], make_session: Callable[..., ReachSession], transport: str, sessions: int
) -> None:
    server = make_target({"MaxSessions": sessions})
    session = make_session(server, transport=transport)
    server.remove_authorized_key()
    processes = [session.start(f"sleep 0.3; echo {n}") for n in range(6)]
    results = [(process.communicate(), process.returncode) for process in processes]
    assert results == [((f"{n}\n".encode(), b""), 0) for n in range(6)]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_refusal_is_told_once_the_connection_is_gone(
    make_target: Callable[..., Sshd], make_session: Callable[..., ReachSession], transport: str
) -> None:
    server = make_target({"MaxSessions": 2})
    session = make_session(server, transport=transport)
    server.remove_authorized_key()
    assert [session.run("true").returncode for _ in range(4)] == [0] * 4
    server.kill_connections()

    def is_told() -> bool:
        done = session.run("true")
        assert (done.returncode, b"did not run" in done.stderr) == (125, True)
        return b"permission denied" in done.stderr

    assert eventually(is_told)  # the first may hear of a login that was broken off
