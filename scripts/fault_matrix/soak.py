"""Many calls, and many sessions at once: what grows, and whether it stays within its bound."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from faults.stage import a_server
from support.session import ReachSession, wait_for
from support.sshd import Sshd

WARM_UP_CALLS = 500
CLIENTS = 4
CALLS_PER_SESSION = 20


@dataclass
class Growth:
    """One quantity, before and after."""

    what: str
    before: float
    after: float
    allowed: float
    """By how much it may have grown."""

    @property
    def is_bounded(self) -> bool:
        return self.after <= self.before + self.allowed

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "is_bounded": self.is_bounded}


def soak_calls(count: int, transport: str) -> Iterator[Growth]:
    """COUNT calls on one session, four at a time; every one is checked."""
    with a_server() as server, ReachSession(server, transport=transport) as session:
        _call(session, WARM_UP_CALLS)
        before = _measure(session)
        wrong = _call(session, count)
        after = _measure(session)
        yield Growth(f"wrong results of {count} calls", 0, wrong, 0)
        for what, allowed in (
            ("broker's memory (MiB)", 8.0),
            ("broker's descriptors", 12.0),
            ("broker's threads", 8.0),
            ("processes on the target", 8.0),
        ):
            yield Growth(f"{what}, {count} calls", before[what], after[what], allowed)


def soak_sessions(count: int, transport: str) -> Iterator[Growth]:
    """COUNT sessions at once on one sshd with default limits, each with commands of its own; then all go down."""
    with a_server() as server, ExitStack() as stack:
        before = len(server.pids())
        with ThreadPoolExecutor(count) as pool:
            sessions = list(pool.map(lambda _: ReachSession(server, transport=transport), range(count)))
            for session in sessions:
                stack.callback(session.close)
            list(pool.map(lambda session: session.up(), sessions))
            wrong = sum(pool.map(lambda session: _call(session, CALLS_PER_SESSION, clients=1), sessions))
        memory = max(_measure(session)["broker's memory (MiB)"] for session in sessions[:3])
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda session: session.down(), sessions))
        wait_for(lambda: len(server.pids()) <= before, "the sessions' processes on the target to end", 60)
        total = count * CALLS_PER_SESSION
        yield Growth(f"wrong results of {total} calls in {count} sessions at once", 0, wrong, 0)
        yield Growth(f"memory of one of {count} brokers (MiB)", 0, memory, 64)
        yield Growth(f"processes on the target after {count} sessions", before, len(server.pids()), 0)
        yield Growth(f"connections to the target after {count} sessions", 0, _connections(server), 0)


def _connections(server: Sshd) -> int:
    return server.connection_count()


def _call(session: ReachSession, count: int, *, clients: int = CLIENTS) -> int:
    """How many of COUNT calls gave anything but what they should."""

    def run(number: int) -> bool:
        done = session.run(f"echo out-{number}; echo err-{number} >&2; exit {number % 200}")
        told = (done.returncode, done.stdout, done.stderr)
        return told != (number % 200, b"out-%d\n" % number, b"err-%d\n" % number)

    with ThreadPoolExecutor(clients) as pool:
        return sum(pool.map(run, range(count)))


def _measure(session: ReachSession) -> dict[str, float]:
    """Of a session at rest."""
    wait_for(lambda: not session.status()["commands_running"], "the commands' end")
    pid = session.broker_pid
    threads = f"/proc/{pid}/task"
    wait_for(lambda: len(os.listdir(threads)) < 16, "the requests' threads to end", 60)
    with open(f"/proc/{pid}/status") as file:
        [resident] = [line.split()[1] for line in file if line.startswith("VmRSS")]
    return {
        "broker's memory (MiB)": round(int(resident) / 1024, 1),
        "broker's descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "broker's threads": len(os.listdir(threads)),
        "processes on the target": len(session.server.pids()),
    }
