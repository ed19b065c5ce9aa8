"""Starting a program the cheap way and timing it to its end."""

from __future__ import annotations

import os
import pty
import resource
import signal
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

GRACE_S = 5.0


class MeasurementError(Exception):
    """A figure that could not be measured, with the reason."""


class Pipes:
    """Standard descriptors as a harness gives them: nothing to read, one pipe for each kind of output."""

    def __init__(self) -> None:
        self._readers: list[int] = []
        self._writers: list[int] = []
        for _ in range(2):
            reader, writer = os.pipe()
            self._readers.append(reader)
            self._writers.append(writer)
        self._null = os.open(os.devnull, os.O_RDONLY)

    def actions(self) -> list[tuple[int, int, int]]:
        sources = (self._null, *self._writers)
        return [(os.POSIX_SPAWN_DUP2, source, number) for number, source in enumerate(sources)]

    def close(self) -> None:
        for descriptor in (self._null, *self._readers, *self._writers):
            os.close(descriptor)


def time_ms(argv: Sequence[str], pipes: Pipes, environment: Mapping[str, str]) -> float:
    """Run ARGV, which must exit 0, to its end. Raises: MeasurementError."""
    actions = pipes.actions()
    began = time.perf_counter()
    pid = os.posix_spawn(argv[0], list(argv), environment, file_actions=actions)
    status, _ = wait(pid)
    took_s = time.perf_counter() - began
    _check(argv, status)
    return took_s * 1000


def time_on_terminal_ms(argv: Sequence[str], environment: Mapping[str, str]) -> float:
    """Run ARGV to its end in a session of its own whose terminal is its three descriptors."""
    master, slave = pty.openpty()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.ttyname(slave), os.O_RDWR, 0),
        (os.POSIX_SPAWN_DUP2, 0, 1),
        (os.POSIX_SPAWN_DUP2, 0, 2),
    ]
    try:
        began = time.perf_counter()
        pid = os.posix_spawn(argv[0], list(argv), environment, file_actions=actions, setsid=True)
        status, _ = wait(pid)
        took_s = time.perf_counter() - began
    finally:
        os.close(slave)
        os.close(master)
    _check(argv, status)
    return took_s * 1000


def cpu_ms(argv: Sequence[str], pipes: Pipes, environment: Mapping[str, str]) -> float:
    """The processor time, user and system, that ARGV takes to its end."""
    pid = os.posix_spawn(argv[0], list(argv), environment, file_actions=pipes.actions())
    status, usage = wait(pid)
    _check(argv, status)
    return (usage.ru_utime + usage.ru_stime) * 1000


def wait(pid: int) -> tuple[int, resource.struct_rusage]:
    """The wait status of a child and what it used; one that we can't wait for any longer is told to clean up."""
    try:
        _, status, usage = os.wait4(pid, 0)
    except BaseException:
        os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + GRACE_S
        while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < deadline:
            time.sleep(0.02)
        raise
    return status, usage


def _check(argv: Sequence[str], status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    if code:
        raise MeasurementError(f"{argv[0]} ended with {code}")


def in_turn(rounds: int, in_a_row: int, *measures: Callable[[], float]) -> list[list[float]]:
    """Samples of each of MEASURES: IN_A_ROW of one, then of the next, ROUNDS times over.

    Load that others put on the machine then falls on all of them alike. The first of each row is no sample: it
    finds caches that the row before it has emptied.
    """
    samples: list[list[float]] = [[] for _ in measures]
    for number in range(rounds):
        order = list(enumerate(measures))
        for index, measure in order if number % 2 == 0 else reversed(order):
            measure()
            samples[index] += [measure() for _ in range(in_a_row)]
    return samples


def median(samples: Sequence[float]) -> float:
    """Raises: MeasurementError where there are none."""
    if not samples:
        raise MeasurementError("nothing came")
    return statistics.median(samples)
