from __future__ import annotations

import logging
import threading

import pytest

from reach.broker import threads
from reach.broker.attempts import Attempts, Retry
from reach.broker.demand import WARM_MAX, WARM_MIN, WINDOW_S, Demand
from reach.broker.threads import Threads
from reach.errors import AuthenticationError, ConnectError
from support.processes import eventually


def test_no_request_waits_for_another_ones_end() -> None:
    pool, everybody = Threads(), threading.Barrier(101)
    for _ in range(100):
        pool.submit(lambda: everybody.wait(20))
    everybody.wait(20)


def test_a_thread_is_kept_for_the_next_request_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE_S", 0.05)
    pool, used, done = Threads(), [], threading.Semaphore(0)

    def work() -> None:
        used.append(threading.current_thread())
        done.release()

    for _ in range(20):
        pool.submit(work)
        assert done.acquire(timeout=20)
    for thread in used:
        thread.join(20)
        assert not thread.is_alive()
    pool.submit(work)
    assert done.acquire(timeout=20)


def test_work_that_comes_as_a_thread_gives_up_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE_S", 0.0)
    pool, done = Threads(), threading.Semaphore(0)
    for _ in range(2000):
        pool.submit(done.release)
    for _ in range(2000):
        assert done.acquire(timeout=20)


def test_a_request_that_fails_is_logged_and_takes_nothing_along(caplog: pytest.LogCaptureFixture) -> None:
    pool, done = Threads(), threading.Semaphore(0)

    def fail() -> None:
        done.release()
        raise ValueError("the reason")

    with caplog.at_level(logging.ERROR):
        pool.submit(fail)
        pool.submit(done.release)
        for _ in range(2):
            assert done.acquire(timeout=20)
        pool.submit(done.release)
        assert done.acquire(timeout=20)
        assert eventually(lambda: "the reason" in caplog.text)


def test_an_attempt_after_a_failure_that_nobody_waited_for_is_its_own() -> None:
    attempts = Attempts()
    with pytest.raises(ConnectError), attempts.alone():
        raise ConnectError("away")
    with attempts.alone():
        pass


def test_an_operators_attempt_does_not_share_what_failed_without_one() -> None:
    attempts, inside, waiting = Attempts(), threading.Event(), threading.Event()

    def fail() -> None:
        with attempts.alone():
            inside.set()
            waiting.wait(20)
            raise AuthenticationError("nobody there to ask")

    thread = threading.Thread(target=lambda: pytest.raises(AuthenticationError, fail))
    thread.start()
    inside.wait(20)
    threading.Timer(0.1, waiting.set).start()
    with attempts.alone(share_failure=False):
        asked = True
    thread.join(20)
    assert asked


def test_retries_come_later_and_later_and_a_refused_login_not_at_all() -> None:
    retry = Retry()
    assert not retry.succeeded()
    delays = []
    for _ in range(12):
        retry.failed(ConnectError("away"))
        delays.append(retry._delay_s)
    assert delays == sorted(delays)
    assert delays[-1] == 60.0
    retry.failed(AuthenticationError("no"))
    assert retry.at_s == float("inf")
    assert retry.succeeded()
    assert retry.at_s == 0.0


def test_demand_follows_the_last_minutes_peak() -> None:
    demand = Demand(always=True)
    assert demand.wanted(0.0) == WARM_MIN
    for in_use in (1, 5, 3):
        demand.note_take(10.0, in_use, 0.0)
    assert demand.wanted(10.0) == 5
    demand.note_take(11.0, 100, 0.0)
    assert demand.wanted(12.0) == WARM_MAX
    demand.note_take(30.0, 4, 0.0)
    assert demand.wanted(11.5 + WINDOW_S) == 4
    assert demand.wanted(31.0 + WINDOW_S) == WARM_MIN
    assert demand.next_change_s(31.0 + WINDOW_S) is None


def test_demand_follows_how_long_a_worker_takes_to_start() -> None:
    """On a slow link commands follow each other faster than workers start: more of them have to wait."""
    slow, quick = Demand(always=True), Demand(always=True)
    for second in range(20):
        slow.note_take(second * 0.2, 1, 1.0)
        quick.note_take(second * 0.2, 1, 0.05)
    assert slow.wanted(4.0) == 7
    assert quick.wanted(4.0) == WARM_MIN


def test_a_kind_that_is_not_used_has_nobody_waiting() -> None:
    assert Demand(always=False).wanted(0.0) == 0
