"""Many calls at once, more than the server takes on one connection."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Sequence

from benchmark.row import Goal, Row, Unit, at_most_value
from benchmark.stage import Stage

AT_ONCE = 64
COMMAND = "sleep 0.5; echo ok"
LIMIT_MS = 1500
LONGEST_S = 60.0


def burst(stage: Stage, *, quick: bool) -> list[Row]:
    """A session that has done nothing yet gets AT_ONCE calls; sshd has MaxSessions 10."""
    site = stage.another("near", "burst")
    ssh_ms, ssh_right = _at_once([*site.ssh, COMMAND], stage)
    reach_ms, reach_right = _at_once([site.shim, "-c", COMMAND], stage)
    return [
        Row("64 calls at once", reach_ms, ssh_ms, at_most_value(LIMIT_MS, Unit.MS)),
        Row("right answers of them", reach_right, ssh_right, Goal(AT_ONCE, of_ratio=False, at_least=True), Unit.COUNT),
    ]


def _at_once(argv: Sequence[str], stage: Stage) -> tuple[float, int]:
    """How long until all have ended, and how many were right."""
    began = time.perf_counter()
    running = dict(_start(argv, stage) for _ in range(AT_ONCE))
    said = dict.fromkeys(running, b"")
    poller = select.poll()
    for reader in running:
        poller.register(reader, select.POLLIN)
    open_readers = set(running)
    while open_readers and time.perf_counter() - began < LONGEST_S:
        for reader, _ in poller.poll(1000):
            data = os.read(reader, 4096)
            said[reader] += data
            if not data:
                poller.unregister(reader)
                open_readers.discard(reader)
    right = 0
    for reader, pid in running.items():
        if reader in open_readers:
            os.kill(pid, 9)
        _, status = os.waitpid(pid, 0)
        right += status == 0 and said[reader] == b"ok\n"
        os.close(reader)
    return (time.perf_counter() - began) * 1000, right


def _start(argv: Sequence[str], stage: Stage) -> tuple[int, int]:
    reader, writer = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, writer, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    pid = os.posix_spawn(argv[0], list(argv), stage.environment, file_actions=actions)
    os.close(writer)
    return reader, pid
