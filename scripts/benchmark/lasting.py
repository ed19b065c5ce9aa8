"""A broker over time: at rest, and after ten thousand calls."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping

from benchmark.output import resident_mib
from benchmark.row import Row, Unit, at_most, at_most_value
from benchmark.spawn import MeasurementError, median
from benchmark.stage import Site, Stage
from shim import client

REST_LIMIT_MIB = 45
REST_WINDOW_S = 60.0
SETTLE_S = 65.0
"""Until what the calls before left has ended: threads, and workers wanted since so many were in use."""
KEEPALIVES_A_MINUTE = 4.5
"""One every 15 s, and half a one for the edges of the time that was watched."""
CALLS, CALLS_QUICK = 10_000, 2_000
LIMIT_S = 100.0
GROWTH_LIMIT_MIB = 5


class Rest:
    """A session that has done some calls and then nothing: watched while other figures are measured."""

    def __init__(self, stage: Stage) -> None:
        site = stage.another("near", "rest")
        self._pid = stage.broker_pid("rest")
        for _ in range(50):
            call_directly(site, stage.environment)
        self._since = time.monotonic() + SETTLE_S
        argv = [sys.executable, "-m", "benchmark.watch", str(self._pid), str(SETTLE_S)]
        self._watch = stage.start(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def rows(self) -> list[Row]:
        time.sleep(max(0.0, self._since + REST_WINDOW_S - time.monotonic()))
        said, _ = self._watch.communicate(b"")
        moments, seconds = map(float, said.split())
        wakes = moments * 60 / seconds
        limit = at_most_value(KEEPALIVES_A_MINUTE, Unit.COUNT)
        return [
            Row(
                "broker at rest, resident",
                resident_mib(self._pid),
                None,
                at_most_value(REST_LIMIT_MIB, Unit.MIB),
                Unit.MIB,
            ),
            Row("broker at rest, wakes a minute", round(wakes, 1), None, limit, Unit.COUNT),
        ]


def rest(stage: Stage, *, quick: bool) -> list[Row]:
    return stage.kept("rest", Rest).rows()


def endurance(stage: Stage, *, quick: bool) -> list[Row]:
    """Calls one after another, put to the broker as the shim puts them, but without a shim's start."""
    site = stage.another("near", "endurance")
    pid = stage.broker_pid("endurance")
    samples: list[float] = []
    began, at_first = time.monotonic(), 0.0
    for number in range(CALLS_QUICK if quick else CALLS):
        if number == 500:
            at_first = resident_mib(pid)
        samples.append(call_directly(site, stage.environment))
        if time.monotonic() - began > LIMIT_S:
            break
    part = min(1000, len(samples) // 3)
    first, last = median(samples[:part]), median(samples[-part:])
    count = f"{len(samples):,}"
    growth = resident_mib(pid) - at_first
    return [
        Row(f"call {count}, by the first", last, first, at_most(1.1), detail={"calls": len(samples)}),
        Row(f"growth over {count} calls", growth, None, at_most_value(GROWTH_LIMIT_MIB, Unit.MIB), Unit.MIB),
    ]


def call_directly(site: Site, environment: Mapping[str, str]) -> float:
    """Milliseconds for `bash -c true` from the connection to the broker's last word."""
    request = client.encode_run(
        site.session.encode(), b"", os.getcwd().encode(), 1, [b"-c", b"true"], _entries(environment)
    )
    began = time.perf_counter()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, open(os.devnull, "r+b") as null:
        connection.settimeout(20)
        connection.connect(site.socket)
        socket.send_fds(connection, [client.frame(request)], [null.fileno()] * 3)
        said = b""
        while data := connection.recv(4096):
            said += data
    took_ms = (time.perf_counter() - began) * 1000
    if not said.endswith(client.frame(client.ANSWER_STATUS + b"\0")):
        raise MeasurementError(f"the broker answered {said!r}")
    return took_ms


def _entries(environment: Mapping[str, str]) -> list[bytes]:
    return [os.fsencode(f"{name}={value}") for name, value in environment.items()]
