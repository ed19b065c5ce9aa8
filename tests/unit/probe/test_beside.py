from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest

from reach.probe.beside import Beside
from reach.probe.observation import MAX_SILENCE_S, MIN_SILENCE_S, Subject, silence_limit_s


def subject() -> Subject:
    unused = cast(Any, None)
    return Subject(unused, unused, unused, Path("/harness"), "box")


def until_stopped(rough: Subject) -> str:
    assert rough.stop.wait(20)
    return "given up"


def test_a_run_that_nobody_waits_for_is_given_up_and_over_at_the_end() -> None:
    ended = threading.Event()

    def run(rough: Subject) -> None:
        until_stopped(rough)
        ended.set()

    whole = subject()
    with Beside(run) as beside:
        beside.start(whole)
    assert ended.is_set()
    assert not whole.stop.is_set()


def test_an_error_of_the_first_run_ends_the_other() -> None:
    ended = threading.Event()

    def run_both() -> None:
        with Beside(lambda rough: rough.stop.wait(20) and ended.set()) as beside:
            beside.start(subject())
            raise KeyError("of the first run")

    with pytest.raises(KeyError):
        run_both()
    assert ended.is_set()


def test_what_the_run_finds_or_raises_is_what_the_waiter_gets() -> None:
    def fail(_: Subject) -> None:
        raise LookupError("of the run")

    with Beside(lambda rough: rough.target_hostname) as beside:
        beside.start(subject())
        assert beside.wait(threading.Event()) == "box"
    with Beside(fail) as failing:
        failing.start(subject())
        with pytest.raises(LookupError, match="of the run"):
            failing.wait(threading.Event())


def test_whoever_stops_the_probe_stops_the_run_beside_it() -> None:
    whole = subject()
    with Beside(until_stopped) as beside:
        beside.start(whole)
        whole.stop.set()
        assert beside.wait(whole.stop) == "given up"


@pytest.mark.parametrize(
    ("answer_s", "limit_s"), [(0.001, MIN_SILENCE_S), (0.31, 4), (0.6, 6), (60.0, MAX_SILENCE_S)]
)
def test_a_slow_target_has_longer_to_answer(answer_s: float, limit_s: int) -> None:
    assert silence_limit_s(answer_s) == limit_s
