"""The server allows fewer channels or logins than are wanted: every command runs all the same."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from faults.stage import BOTH_TRANSPORTS, Stage

pytestmark = [pytest.mark.sshd, BOTH_TRANSPORTS]

MakeStage = Callable[..., Stage]


@pytest.mark.parametrize("max_sessions", [1, 2, 10])
def test_commands_back_to_back_never_meet_the_limit(make_stage: MakeStage, max_sessions: int) -> None:
    stage = make_stage({"MaxSessions": max_sessions})
    for _ in range(20):
        call = stage.run()
        assert (call.outcome, call.said) == ("result", b"")


@pytest.mark.parametrize(
    ("max_sessions", "at_once"), [(1, 5), (2, 5), (10, 32), (10, 64)], ids=["1-5", "2-5", "10-32", "10-64"]
)
def test_commands_at_once_get_as_many_connections_as_they_need(
    make_stage: MakeStage, max_sessions: int, at_once: int
) -> None:
    stage = make_stage({"MaxSessions": max_sessions, "MaxStartups": 100})
    calls = [stage.call(f"sleep 1; echo {number}") for number in range(at_once)]
    for number, call in enumerate(calls):
        stage.finish(call)
        assert (call.outcome, call.out, call.said) == ("result", b"%d\n" % number, b"")


def test_no_channel_at_all_is_said_and_no_connection_after_another_is_opened(make_stage: MakeStage) -> None:
    stage = make_stage()
    stage.server.options["MaxSessions"] = 0
    stage.end_connections(stage.server.restart)
    before = stage.proxy.connections_total
    call = stage.run()
    assert call.outcome == "did not run"
    assert b"MaxSessions" in call.said
    assert stage.proxy.connections_total - before <= 8


def test_sessions_that_start_together_pass_a_server_that_drops_logins(make_stage: MakeStage) -> None:
    stage = make_stage({"MaxStartups": "2:50:6"})
    with ThreadPoolExecutor(8) as pool:
        others = list(pool.map(lambda _: Stage(server=stage.server), range(8)))
        try:
            entered = list(pool.map(lambda other: other.__enter__(), others))
            outcomes = list(pool.map(lambda other: other.run().outcome, entered))
        finally:
            for other in others:
                other.__exit__()
    assert outcomes == ["result"] * 8
