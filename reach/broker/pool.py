"""Workers kept ready, over as many connections as the server's limits ask for.

How many wait is Demand's rule. A channel that the server refuses sets that connection's limit, and the next one opens
another connection; connections that nobody needs any more are closed. Nothing here runs a command, so everything here
may be tried again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from reach.broker.attempts import Attempts, Retry
from reach.broker.lines import REFUSAL_PAUSE_MAX_S, REFUSAL_PAUSE_S, Line, Lines
from reach.broker.shelf import Shelf
from reach.broker.worker import Worker, start_worker
from reach.errors import (
    AuthenticationError,
    BrokerUnavailableError,
    ChannelOpenError,
    ConnectionLostError,
    ReachError,
    TransportError,
)
from reach.ssh.process import Connection, PtySize

ROOM_TIMEOUT_S = 60.0
START_GUESS_S = 0.2

log = logging.getLogger("reach.pool")


class Pool:
    """Thread-safe. `take` gives a worker that nobody else has; `discard` gives its channel back."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self.shell: str | None = None
        self.login_environment: Mapping[bytes, bytes] = {}
        self._lines = Lines()
        self._owner: dict[Worker, Line] = {}
        self._shelves = {False: Shelf(always=True), True: Shelf(always=False)}
        self._in_use = 0
        self._start_s = START_GUESS_S
        """How long a worker took to start lately."""
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        """For takers: a worker or a channel may be had."""
        self._work = threading.Condition(self._lock)
        """For the threads that keep warm."""
        self._attempts = Attempts()
        self._closed = False
        self._ready = False
        self._retry = Retry()

    def adopt(self, connection: Connection, shell: str, login_environment: Mapping[bytes, bytes]) -> None:
        """Begin to keep workers warm, on CONNECTION first."""
        with self._lock:
            self.shell, self.login_environment = shell, login_environment
            self._ready = True
        self._add_line(Line(connection))

    def take(self, *, pty: PtySize | None = None) -> Worker:
        """A worker that waits, or a new one.

        Raises: TransportError's kinds when none can be had; BrokerUnavailableError once the pool is closed.
        """
        shelf = self._shelves[pty is not None]
        with self._lock:
            self._in_use += 1
            shelf.note_take(time.monotonic(), self._in_use, self._start_s)
        try:
            return self._take(shelf, pty)
        except BaseException:
            with self._lock:
                self._in_use -= 1
            raise

    def _take(self, shelf: Shelf, pty: PtySize | None) -> Worker:
        deadline = time.monotonic() + ROOM_TIMEOUT_S
        while True:
            with self._lock:
                worker = shelf.waiting.popleft() if shelf.waiting else None
                line = self._owner.get(worker) if worker else None
                if not shelf.waiting:
                    self._work.notify_all()
            if worker is None:
                worker = self._start(pty, deadline, waits=True)
                if worker is None:
                    continue
                return worker
            if not worker.is_usable():
                self._drop(worker)
            elif not worker.connection.answers():
                self._take_back(worker, line, shelf)
            else:
                if pty:
                    worker.process.resize(pty.columns, pty.rows)
                return worker

    def _take_back(self, worker: Worker, line: Line | None, shelf: Shelf) -> None:
        """WORKER's server is silent: neither it nor what else waits on that connection is of use."""
        with self._lock:
            is_known = line in self._lines
            if is_known:
                shelf.waiting.append(worker)
        if line and is_known:
            self._retire(line)
        else:
            self._drop(worker)

    def plan_refill(self) -> None:
        """A worker that was taken has its command: from now on its replacement costs that command no time."""
        with self._lock:
            self._work.notify()

    def discard(self, worker: Worker) -> None:
        """Close WORKER, whose use is over."""
        with self._lock:
            self._in_use -= 1
            for shelf in self._shelves.values() if not self._in_use else ():
                shelf.end_pause()
        self._drop(worker)

    @contextmanager
    def lent(self, timeout_s: float) -> Iterator[Worker | None]:
        """A worker for a script that leaves it as it was. None where none comes to wait beside another within
        TIMEOUT_S: the last one is the next command's. An error in this context ends the worker."""
        shelf = self._shelves[False]
        with self._lock:
            self._room.wait_for(lambda: len(shelf.waiting) > 1 or self._closed, timeout_s)
            worker = shelf.waiting.pop() if len(shelf.waiting) > 1 else None
            shelf.starting += worker is not None  # it comes back: no other is started in its place
        is_usable = False
        try:
            yield worker
            is_usable = worker is not None and worker.is_usable()
        finally:
            if worker and is_usable:
                self._shelve(worker, shelf)
            elif worker:
                with self._lock:
                    shelf.starting -= 1
                self._drop(worker)

    def _drop(self, worker: Worker) -> None:
        worker.close()
        with self._lock:
            line = self._owner.pop(worker, None)
        if line:
            self._give_back(line)

    def _give_back(self, line: Line, *, refused: bool = False) -> None:
        """One channel of LINE is closed, or did not come to be."""
        with self._lock:
            now_s = time.monotonic()
            line.gave_back(now_s)
            if refused:
                line.refused(now_s)
            is_over = not line.open_channels and line not in self._lines
            self._room.notify_all()
            self._work.notify()
        if is_over:
            line.connection.close()

    # --- starting workers

    def _start(self, pty: PtySize | None, deadline_s: float, *, waits: bool) -> Worker | None:
        """Start a worker on a connection that has room, opening another where none has.

        A taker WAITS, for room or for a worker on the shelf; None then says that one is there. A refiller does not;
        None then says that there is no room. A lost connection is replaced once.
        """
        shelf = self._shelves[pty is not None]
        lost = False
        while True:
            line = self._reserve(shelf, deadline_s, waits=waits)
            if line is None:
                return None
            if not line.connection.answers():
                self._retire(line)
                self._give_back(line)
                continue
            began_s = time.monotonic()
            try:
                worker = start_worker(line.connection, self.shell, self.login_environment, pty=pty)
            except ChannelOpenError:
                hopeless = line.open_channels == 1 and line.pause_s >= REFUSAL_PAUSE_MAX_S
                self._give_back(line, refused=True)
                if hopeless or time.monotonic() > deadline_s:
                    raise
            except ConnectionLostError:
                self._give_back(line)
                shelf.failed(cost_connection=True)
                if lost or (shelf.is_barred and not waits):
                    raise
                lost = True
            except BaseException as error:
                self._give_back(line)
                if isinstance(error, TransportError):
                    shelf.failed(cost_connection=False)
                raise
            else:
                self._started(worker, line, shelf, time.monotonic() - began_s)
                return worker

    def _started(self, worker: Worker, line: Line, shelf: Shelf, took_s: float) -> None:
        with self._lock:
            self._owner[worker] = line
            line.opened()
            self._start_s += (took_s - self._start_s) / 4
            if self._retry.succeeded() or shelf.is_barred:
                self._work.notify_all()
            shelf.succeeded()

    def _reserve(self, shelf: Shelf, deadline_s: float, *, waits: bool) -> Line | None:
        """A connection with room, one channel of it taken. None as for `_start`."""
        while True:
            with self._lock:
                line = self._find_room(shelf, waits)
                if line or (waits and shelf.waiting):
                    return line
                full = self._lines.must_wait()
            if not full:
                with self._attempts.alone():  # servers limit how many may be logging in (MaxStartups)
                    with self._lock:
                        line = self._find_room(shelf, waits)
                        if line or (waits and shelf.waiting):
                            return line
                        full = self._lines.must_wait()
                    if not full and (line := self._another_line()):
                        return line
            if waits:
                self._make_room(shelf)
            with self._lock:
                paused = self._lines.is_any_paused()
                if not waits and not paused:
                    return None
                if not (waits and shelf.waiting) and not self._find_room(shelf, waits, reserve=False):
                    self._room.wait(REFUSAL_PAUSE_S if paused else 1.0)
            if time.monotonic() > deadline_s:
                raise ChannelOpenError("no connection has room; the server's MaxSessions limits the commands at once")

    def _another_line(self) -> Line | None:
        """One more connection; None where nobody is there to log in for it, while others will have room again."""
        try:
            line = Line(self._connect(), open_channels=1)
        except AuthenticationError:
            with self._lock:
                if not self._lines.are_all():
                    raise
            return None
        self._add_line(line)
        return line

    def _find_room(self, shelf: Shelf, waits: bool, *, reserve: bool = True) -> Line | None:
        """The lock is held. A worker on the shelf is better than a channel, for who WAITS."""
        if self._closed:
            raise BrokerUnavailableError("the session is being taken down")
        if waits and shelf.waiting:
            return None
        # a shell that may end its connection must not take somebody's command along
        line = self._lines.with_room(alone=shelf.costs_connections)
        if line and reserve:
            line.open_channels += 1
        return line

    def _make_room(self, shelf: Shelf) -> None:
        """Close a worker of the other kind that only waits."""
        other = self._shelves[shelf is self._shelves[False]]
        with self._lock:
            worker = other.waiting.popleft() if other.waiting else None
        if worker:
            self._drop(worker)

    # --- connections

    def _add_line(self, line: Line) -> None:
        with self._lock:
            closed = self._closed
            if not closed:
                self._lines.add(line)
                self._room.notify_all()
                self._work.notify_all()
        if closed:
            line.connection.close()
            raise BrokerUnavailableError("the session is being taken down")
        line.connection.on_end(lambda: self._retire(line))

    def _retire(self, line: Line) -> None:
        """Give LINE no new work; its waiting workers go, and with its last command the connection itself."""
        with self._lock:
            if line not in self._lines:
                return
            self._lines.remove(line)
            shelves = self._shelves.values()
            useless = [w for shelf in shelves for w in shelf.take_if(lambda w: self._owner.get(w) is line)]
            for worker in useless:
                del self._owner[worker]
                line.open_channels -= 1
            is_over = not line.open_channels
            self._room.notify_all()
            self._work.notify_all()
        if is_over:
            line.connection.close()
        if useless:  # closing a channel may wait for a server that no longer reads
            threading.Thread(target=_close_each, args=(useless,), name="close", daemon=True).start()

    def connections(self) -> list[Connection]:
        with self._lock:
            return [line.connection for line in self._lines if line.connection.is_alive]

    # --- keeping warm

    def keep_warm(self) -> None:
        """Start workers as they are wanted, and close what is not, until the pool is closed. For threads of its own."""
        while True:
            surplus: list[Worker] = []
            spare: list[Line] = []
            with self._lock:
                while True:
                    if self._closed:
                        return
                    surplus, spare = self._surplus(time.monotonic()), self._lines.spare()
                    kind = self._shortage()
                    if surplus or spare or (kind is not None and time.monotonic() >= self._start_at_s(kind)):
                        break
                    self._work.wait(self._nap_s(kind))
                if not surplus and not spare and kind is not None:
                    self._shelves[kind].starting += 1
                    if self._shortage() is not None:
                        self._work.notify()  # for another of these threads
            for worker in surplus:
                self._drop(worker)
            for line in spare:
                self._retire(line)
            if not surplus and not spare and kind is not None:
                self._refill(kind)

    def _refill(self, kind: bool) -> None:
        shelf, worker = self._shelves[kind], None
        failure: Exception | None = None
        try:
            worker = self._start(PtySize(80, 24) if kind else None, time.monotonic() + ROOM_TIMEOUT_S, waits=False)
        except Exception as error:  # this thread serves every later refill
            failure = error
            if not isinstance(error, ReachError | OSError):
                log.exception("a worker could not be started")
        self._shelve(worker, shelf, failure)

    def _shelve(self, worker: Worker | None, shelf: Shelf, failure: Exception | None = None) -> None:
        """Let WORKER wait, which was starting and may have lost its connection since; or note that there is none."""
        with self._lock:
            shelf.starting -= 1
            too_late = self._closed or (worker is not None and self._owner.get(worker) not in self._lines)
            if worker and not too_late:
                shelf.waiting.append(worker)
                self._room.notify_all()
            elif failure and not too_late:
                if not shelf.is_barred:
                    self._retry.failed(failure)
            elif not too_late:  # no room: whoever gives some back says so
                self._work.wait(1.0)
        if worker and too_late:
            self._drop(worker)

    def _shortage(self) -> bool | None:
        """Which kind (pty or not) lacks a worker, or None. The lock is held."""
        if not self._ready:
            return None
        now_s = time.monotonic()
        return next((kind for kind, shelf in self._shelves.items() if shelf.lacks(now_s)), None)

    def _start_at_s(self, kind: bool) -> float:
        return max(self._retry.at_s, self._shelves[kind].refill_at_s())

    def _surplus(self, now_s: float) -> list[Worker]:
        """Workers that are not wanted, off their shelf: those of the last connections first. The lock is held."""
        return [
            worker
            for shelf in self._shelves.values()
            for worker in shelf.take_surplus(now_s, lambda each: self._lines.rank(self._owner.get(each)))
        ]

    def _nap_s(self, kind: bool | None) -> float | None:
        """How long nothing is to be done, unless somebody wakes us. The lock is held."""
        now_s = time.monotonic()
        naps = [shelf.demand.next_change_s(now_s) for shelf in self._shelves.values() if shelf.waiting]
        naps += self._lines.next_spare_s()
        if kind is not None and self._retry.at_s < float("inf"):
            naps.append(self._start_at_s(kind) - now_s)
        known = [nap for nap in naps if nap is not None]
        return max(0.0, min(known)) if known else None

    def warm_counts(self) -> tuple[int, int]:
        """How many workers wait (without, with a pty)."""
        with self._lock:
            return len(self._shelves[False].waiting), len(self._shelves[True].waiting)

    def close(self) -> None:
        """Close every connection, without waiting for the server, and with them every worker."""
        with self._lock:
            self._closed = True
            lines = self._lines.take_all()
            waiting = [worker for shelf in self._shelves.values() for worker in shelf.waiting]
            for shelf in self._shelves.values():
                shelf.waiting.clear()
            self._room.notify_all()
            self._work.notify_all()
        for line in lines:
            line.connection.close()
        _close_each(waiting)


def _close_each(workers: list[Worker]) -> None:
    for worker in workers:
        worker.close()
