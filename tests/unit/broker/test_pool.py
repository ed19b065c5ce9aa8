from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from reach.broker import demand, lines, pool
from reach.broker.pool import Pool
from reach.errors import (
    AuthenticationError,
    BrokerUnavailableError,
    ChannelOpenError,
    ConnectError,
    ConnectionLostError,
    ReachError,
    TransportError,
)
from reach.ssh.process import PtySize
from unit.broker.fake_connection import FakeProcess, FakeServer

TTY = PtySize(80, 24)


@pytest.fixture
def make_pool() -> Iterator[Callable[..., Pool]]:
    """A pool over a FakeServer, with refillers unless told otherwise; closed at the end."""
    pools: list[tuple[Pool, list[threading.Thread]]] = []

    def make(server: FakeServer, *, refillers: int = 2) -> Pool:
        made = Pool(server.connect)
        made.adopt(server.connect(), "/bin/bash", {})
        threads = [threading.Thread(target=made.keep_warm) for _ in range(refillers)]
        for thread in threads:
            thread.start()
        pools.append((made, threads))
        return made

    yield make
    for made, threads in pools:
        made.close()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive(), "a refiller does not end"


def _until(is_so: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.002)


def _settled(made: Pool, plain: int, pty: int = 0) -> None:
    _until(lambda: made.warm_counts() == (plain, pty), f"{plain} and {pty} workers")


def _refilled(made: Pool) -> None:
    _until(lambda: made.warm_counts()[0] == made._shelves[False].demand.wanted(time.monotonic()), "as many as wanted")


def test_a_new_pool_keeps_the_least_number_ready(make_pool: Callable[..., Pool]) -> None:
    server = FakeServer()
    made = make_pool(server)
    _settled(made, demand.WARM_MIN)
    assert server.open_channels() == [demand.WARM_MIN]


def test_a_worker_is_given_to_one_taker_only(make_pool: Callable[..., Pool]) -> None:
    made = make_pool(FakeServer(max_sessions=50))
    with ThreadPoolExecutor(16) as takers:
        taken = list(takers.map(lambda _: made.take(), range(40)))
    assert len(set(map(id, taken))) == 40
    for worker in taken:
        made.discard(worker)


@pytest.mark.parametrize("max_sessions", [1, 2, 10])
def test_takers_get_as_many_connections_as_the_limit_asks_for(
    make_pool: Callable[..., Pool], max_sessions: int
) -> None:
    server = FakeServer(max_sessions=max_sessions)
    made = make_pool(server)
    with ThreadPoolExecutor(20) as takers:
        taken = list(takers.map(lambda _: made.take(), range(20)))
    assert all(count <= max_sessions for count in server.open_channels())
    for worker in taken:
        made.discard(worker)


def test_taken_one_after_another_a_single_channel_is_enough(make_pool: Callable[..., Pool]) -> None:
    server = FakeServer(max_sessions=1)
    made = make_pool(server, refillers=0)
    for _ in range(50):
        made.discard(made.take())
    assert len(server.connections) == 1


def test_a_channel_that_the_server_still_clears_away_is_waited_for(make_pool: Callable[..., Pool]) -> None:
    server = FakeServer(max_sessions=1)
    made = make_pool(server, refillers=0)
    server.lingering, server.clears_after = 1, 3
    made.discard(made.take())
    assert len(server.connections) == 1
    assert server.connections[0].refusals == 3


def test_a_server_that_allows_no_channel_is_told_without_more_connections(make_pool: Callable[..., Pool]) -> None:
    server = FakeServer(max_sessions=0)
    made = make_pool(server, refillers=0)
    with pytest.raises(ChannelOpenError):
        made.take()
    assert len(server.connections) == 1


def test_a_limit_that_was_learned_is_tried_again_later(make_pool: Callable[..., Pool]) -> None:
    server = FakeServer(max_sessions=2)
    made = make_pool(server, refillers=0)
    taken = [made.take() for _ in range(3)]
    assert server.open_channels() == [2, 1]
    server.max_sessions = 10
    made._lines[0].limit_until_s = time.monotonic()
    taken += [made.take() for _ in range(3)]
    assert server.open_channels() == [5, 1]
    for worker in taken:
        made.discard(worker)


def test_a_dead_worker_is_never_given(make_pool: Callable[..., Pool]) -> None:
    server = FakeServer()
    made = make_pool(server)
    _settled(made, 2)
    processes: list[FakeProcess] = list(server.connections[0].processes)
    for process in processes:
        process.die()
    worker = made.take()
    assert worker.process not in processes
    made.discard(worker)


def test_the_end_of_a_connection_is_noticed_without_a_taker(make_pool: Callable[..., Pool]) -> None:
    server = FakeServer()
    made = make_pool(server)
    _settled(made, 2)
    server.connections[0].close()
    _until(lambda: len(server.connections) == 2, "a new connection")
    _settled(made, 2)
    assert made.connections() == [server.connections[1]]


def test_a_silent_connection_gets_no_new_command_and_keeps_its_old_one(make_pool: Callable[..., Pool]) -> None:
    server = FakeServer()
    made = make_pool(server)
    old = made.take()
    made.plan_refill()
    _refilled(made)
    server.connections[0].is_silent = True
    new = made.take()
    assert new.connection is not old.connection
    assert server.connections[0].is_alive, "the old command still runs there"
    made.discard(old)
    _until(lambda: not server.connections[0].is_alive, "the silent connection to go with its last command")
    made.discard(new)


class CountedLock:
    """A lock that tells of everybody who comes to it."""

    def __init__(self) -> None:
        self.came = threading.Semaphore(0)
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self.came.release()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_takers_who_wait_for_a_failing_attempt_fail_with_it(make_pool: Callable[..., Pool]) -> None:
    server = FakeServer()
    made = make_pool(server, refillers=0)
    server.connections[0].close()
    standing, release, attempts = CountedLock(), threading.Event(), []

    def slow_failure() -> None:
        attempts.append(1)
        release.wait(20)
        raise ConnectError("no answer in time")

    made._connect = slow_failure  # type: ignore[assignment]
    made._attempts._lock = standing  # type: ignore[assignment]
    with ThreadPoolExecutor(8) as takers:
        results = [takers.submit(made.take) for _ in range(8)]
        for _ in range(8):
            assert standing.came.acquire(timeout=20)
        release.set()
        for result in results:
            with pytest.raises(ConnectError):
                result.result(20)
    assert len(attempts) == 1


def test_a_login_that_failed_is_not_tried_again_before_a_command_asks(make_pool: Callable[..., Pool]) -> None:
    server = FakeServer()
    made = make_pool(server)
    _settled(made, 2)
    server.failure = AuthenticationError("permission denied")
    server.connections[0].close()
    _until(lambda: server.attempts >= 2, "an attempt")
    assert made._retry.at_s == float("inf") or _soon_infinite(made)
    tried = server.attempts
    with pytest.raises(AuthenticationError):
        made.take()
    assert server.attempts <= tried + 2
    server.failure = None
    made.discard(made.take())
    _refilled(made)


def _soon_infinite(made: Pool) -> bool:
    _until(lambda: made._retry.at_s == float("inf"), "no more attempts")
    return True


def test_a_target_that_is_away_is_tried_again_by_itself(make_pool: Callable[..., Pool]) -> None:
    server = FakeServer()
    made = make_pool(server)
    made._retry._delay_s = 0.01
    _settled(made, 2)
    server.failure = ConnectError("connection refused")
    server.connections[0].close()
    _until(lambda: server.attempts >= 4, "more attempts")
    server.failure = None
    _settled(made, 2)


def test_a_burst_raises_what_waits_and_its_end_lowers_it(
    make_pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demand, "WINDOW_S", 0.5)
    monkeypatch.setattr(lines, "SPARE_LINE_S", 0.2)
    server = FakeServer(max_sessions=2)
    made = make_pool(server)
    for worker in [made.take() for _ in range(6)]:
        made.discard(worker)
    _settled(made, 2)
    _until(lambda: server.open_channels() == [2], f"one connection, not {server.open_channels()}")


def test_terminals_are_kept_warm_only_where_they_are_used(
    make_pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demand, "WINDOW_S", 0.5)
    made = make_pool(FakeServer())
    _settled(made, 2, 0)
    made.discard(made.take(pty=TTY))
    _until(lambda: made.warm_counts()[1], "terminals")
    _settled(made, 2, 0)


def test_where_all_is_full_a_waiting_terminal_makes_room_for_a_pipe(
    make_pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_CONNECTIONS", 1)
    server = FakeServer(max_sessions=2)
    made = make_pool(server, refillers=0)
    shelf = made._shelves[True]
    waiting = made._start(TTY, time.monotonic() + 5, waits=True)
    assert waiting
    shelf.waiting.append(waiting)
    taken = [made.take(), made.take()]
    assert not shelf.waiting
    for worker in taken:
        made.discard(worker)


def test_where_all_is_full_the_taker_is_told_in_the_end(
    make_pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_CONNECTIONS", 1)
    monkeypatch.setattr(pool, "ROOM_TIMEOUT_S", 0.2)
    made = make_pool(FakeServer(max_sessions=1), refillers=0)
    worker = made.take()
    with pytest.raises(ChannelOpenError, match="MaxSessions"):
        made.take()
    made.discard(worker)


def test_a_taker_who_waits_for_room_gets_the_worker_that_is_given_back(
    make_pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_CONNECTIONS", 1)
    made = make_pool(FakeServer(max_sessions=1), refillers=1)
    worker = made.take()
    with ThreadPoolExecutor(1) as taker:
        later = taker.submit(made.take)
        made.discard(worker)
        made.discard(later.result(20))


def test_a_closed_pool_gives_nothing_and_opens_nothing(make_pool: Callable[..., Pool]) -> None:
    server = FakeServer()
    made = make_pool(server)
    worker = made.take()
    made.close()
    assert not any(connection.is_alive for connection in server.connections)
    with pytest.raises(BrokerUnavailableError):
        made.take()
    made.discard(worker)


def test_a_pool_that_is_closed_while_it_connects_closes_that_too(make_pool: Callable[..., Pool]) -> None:
    server = FakeServer()
    made = make_pool(server, refillers=0)
    server.connections[0].close()
    begun, release = threading.Event(), threading.Event()
    connect = server.connect

    def slow() -> object:
        begun.set()
        release.wait(20)
        return connect()

    made._connect = slow  # type: ignore[assignment]
    with ThreadPoolExecutor(1) as taker:
        result = taker.submit(made.take)
        begun.wait(20)
        made.close()
        release.set()
        with pytest.raises(ReachError):
            result.result(20)
    assert not server.connections[-1].is_alive


def test_everything_taken_at_random_from_a_failing_server_is_given_back(make_pool: Callable[..., Pool]) -> None:
    """Many takers, channels refused, workers and connections that die: no worker twice, no channel left over."""
    server = FakeServer(max_sessions=3)
    made = make_pool(server, refillers=3)
    held: set[int] = set()
    lock = threading.Lock()

    def use(number: int) -> None:
        if number % 11 == 0:
            with made.lent(0) as lent:
                if lent and number % 2:
                    lent.process.die()  # type: ignore[attr-defined]
        try:
            worker = made.take(pty=TTY if number % 5 == 0 else None)
        except ReachError:
            return
        with lock:
            assert id(worker) not in held
            held.add(id(worker))
        if number % 7 == 0:
            server.connections[-1].close()
        if number % 3 == 0:
            worker.process.die()  # type: ignore[attr-defined]
        with lock:
            held.discard(id(worker))
        made.discard(worker)

    with ThreadPoolExecutor(12) as takers:
        list(takers.map(use, range(300)))
    assert made._in_use == 0
    _until(lambda: sum(server.open_channels()) == sum(made.warm_counts()), "all channels but the waiting ones closed")

    def is_balanced() -> bool:
        with made._lock:  # a refill under way holds a channel before it has a worker
            return sum(line.open_channels for line in made._lines) == len(made._owner)

    _until(is_balanced, "each channel to have its worker")


def test_a_terminal_that_costs_its_connection_is_asked_for_by_takers_alone(make_pool: Callable[..., Pool]) -> None:
    server = FakeServer()
    made = make_pool(server)
    _settled(made, 2)
    made.discard(made.take(pty=TTY))
    _until(lambda: made.warm_counts()[1] >= 2, "terminals that wait")
    server.terminals = "cost the connection"
    server.connections[0].close()
    _until(lambda: server.terminal_starts > 3, "an attempt to keep one ready")
    _refilled(made)
    tried = server.terminal_starts
    with pytest.raises(ConnectionLostError):  # which also wakes the refillers
        made.take(pty=TTY)
    _refilled(made)
    made.discard(made.take())
    _refilled(made)
    assert server.terminal_starts == tried + 2
    server.terminals = "work"
    made.discard(made.take(pty=TTY))
    _until(lambda: made.warm_counts()[1] >= 2, "terminals that wait")


def test_a_terminal_that_cost_connections_is_tried_where_no_command_runs(make_pool: Callable[..., Pool]) -> None:
    server = FakeServer()
    made = make_pool(server, refillers=0)
    server.terminals = "cost the connection"
    with pytest.raises(ConnectionLostError):
        made.take(pty=TTY)
    running = [made.take(), made.take()]
    with pytest.raises(ConnectionLostError):
        made.take(pty=TTY)
    assert all(worker.connection.is_alive for worker in running)
    server.terminals = "work"
    made.discard(made.take(pty=TTY))
    made.discard(made.take(pty=TTY))
    for worker in running:
        made.discard(worker)


def test_a_terminal_that_is_refused_does_not_keep_other_workers_waiting(make_pool: Callable[..., Pool]) -> None:
    server = FakeServer()
    made = make_pool(server)
    _settled(made, 2)
    server.terminals = "are refused"
    with pytest.raises(TransportError):
        made.take(pty=TTY)
    assert server.terminal_starts == 1
    assert made._retry.at_s == 0
    made.discard(made.take())
    _settled(made, 2)
    assert server.terminal_starts == 1


def test_a_worker_is_lent_only_beside_another_and_comes_back(make_pool: Callable[..., Pool]) -> None:
    server = FakeServer()
    made = make_pool(server)
    _settled(made, 2)
    with made.lent(20) as worker:
        assert worker is not None
        assert made.warm_counts() == (1, 0)
        with made.lent(0) as second:
            assert second is None
        mine = made.take()
        assert mine is not worker
    made.discard(mine)
    _settled(made, 2)
    assert worker in made._shelves[False].waiting


def test_nothing_is_started_in_place_of_a_worker_that_is_lent(make_pool: Callable[..., Pool]) -> None:
    server = FakeServer()
    made = make_pool(server, refillers=0)
    assert made._shortage() is False
    for _ in range(2):
        made._shelves[False].starting += 1
        made._refill(False)
    with made.lent(0) as worker:
        assert worker is not None
        assert made._shortage() is None
    assert (made.warm_counts(), made._shortage()) == ((2, 0), None)


@pytest.mark.parametrize("how", ["an-error", "a-lost-connection", "the-pool-is-closed"])
def test_a_lent_worker_that_is_of_no_use_any_more_is_closed(make_pool: Callable[..., Pool], how: str) -> None:
    server = FakeServer()
    made = make_pool(server)
    _settled(made, 2)
    try:
        with made.lent(20) as worker:
            assert worker is not None
            if how == "an-error":
                raise ConnectionLostError("the script failed")
            if how == "a-lost-connection":
                server.connections[0].close()
            else:
                made.close()
    except ConnectionLostError:
        assert how == "an-error"
    if how != "the-pool-is-closed":
        _settled(made, 2)
    assert worker not in made._shelves[False].waiting
    assert worker not in made._owner
    assert made._shelves[False].starting == 0
