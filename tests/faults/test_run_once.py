"""A command whose fate is unknown is never run again, and every call is told what is known: counted on the target."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from faults.injections import kill_broker_at_random, kill_shim_at_random, random_cut
from faults.stage import BOTH_TRANSPORTS, Stage, judge

pytestmark = pytest.mark.sshd


@pytest.mark.parametrize(("transport", "times"), [("paramiko", 200), ("openssh", 50)], indirect=["transport"])
def test_random_cuts_run_nothing_twice(make_stage: Callable[..., Stage], times: int) -> None:
    stage = make_stage()
    chance = random.Random(20240117)
    for _ in range(times):
        random_cut(stage, chance)
    outcomes = stage.tally().outcomes
    assert outcomes.keys() <= {"result", "did not run", "may have run"}
    assert outcomes["may have run"], "no cut met a command: the test tests nothing"


@BOTH_TRANSPORTS
def test_a_broker_killed_at_random_runs_nothing_twice(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage()
    chance = random.Random(5)
    for _ in range(10):
        kill_broker_at_random(stage, chance)
    assert stage.tally().outcomes.keys() <= {"result", "did not run", "may have run"}


def test_shims_killed_at_random_leave_nothing_running(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage()
    chance = random.Random(6)
    for _ in range(20):
        kill_shim_at_random(stage, chance)


@BOTH_TRANSPORTS
def test_a_command_that_came_to_half_is_not_run_at_all(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage()
    chance = random.Random(7)
    for _ in range(15):
        assert stage.run().outcome == "result"
        stage.proxy.cut_after(chance.randint(20_000, 100_000), "to_server")
        call = stage.run(f": {'x' * 115_000}")
        assert call.outcome == "may have run"
        assert not stage.runs()[call.number]


@pytest.mark.parametrize(
    ("outcome", "runs", "is_clean"),
    [
        ("result", 1, True),
        ("result", 0, False),
        ("result", 2, False),
        ("did not run", 0, True),
        ("did not run", 1, False),
        ("may have run", 0, True),
        ("may have run", 1, True),
        ("may have run", 2, False),
        ("hung", 1, False),
        ("exit code 1: bash: no", 0, False),
    ],
)
def test_the_judge_sees_a_lie(outcome: str, runs: int, is_clean: bool) -> None:
    class Told:
        number, said = 1, b""

    told = Told()
    told.outcome = outcome  # type: ignore[attr-defined]
    assert judge([told], {1: runs}).is_clean is is_clean  # type: ignore[list-item]
