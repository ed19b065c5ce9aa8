"""Output and input: how soon the first byte comes, and how fast many do."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from benchmark.row import Row, Unit, at_least, at_most_value
from benchmark.spawn import MeasurementError, median, wait
from benchmark.stage import DELAY_MS, Stage

VOLUME_MIB = 200
GRACE_MS = 15
GROWTH_MIB = 32
_TICKER = "for i in 1 2 3 4 5 6; do sleep 0.04; printf '%s\\n' $EPOCHREALTIME; done"


def first_byte(stage: Stage, *, quick: bool) -> list[Row]:
    """A command prints the time, and what arrives is compared with the clock: target and bench share one."""
    reach: list[float] = []
    ssh: list[float] = []
    for _ in range(2 if quick else 6):
        reach += _arrivals_ms([stage.far.shim, "-c", _TICKER], stage)
        ssh += _arrivals_ms([*stage.far.ssh, _TICKER], stage)
    detail = {"reach_ms": reach, "ssh_ms": ssh}
    goal = at_most_value(DELAY_MS + GRACE_MS, Unit.MS)
    return [Row("first byte after written, 50 ms", median(reach), median(ssh), goal, detail=detail)]


def _arrivals_ms(argv: Sequence[str], stage: Stage) -> list[float]:
    pid, reader = _start_reading(argv, stage)
    delays: list[float] = []
    while data := os.read(reader, 4096):
        now = time.time()
        delays += [(now - float(line)) * 1000 for line in data.split()]
    _finish(pid, reader, argv)
    return delays


def volume_out(stage: Stage, *, quick: bool) -> list[Row]:
    command = f"head -c {VOLUME_MIB}M /dev/zero"
    reach: list[float] = []
    ssh: list[float] = []
    growth_mib = 0.0
    broker = stage.broker_pid(stage.near.alias)
    for _ in range(1 if quick else 3):
        before = resident_mib(broker)
        reset_peak(broker)
        reach.append(_read_rate([stage.near.shim, "-c", command], stage))
        growth_mib = max(growth_mib, peak_mib(broker) - before)
        ssh.append(_read_rate([*stage.near.ssh, command], stage))
    detail = {"reach_mib_per_s": reach, "ssh_mib_per_s": ssh}
    return [
        Row("200 MB of output", median(reach), median(ssh), at_least(0.9), Unit.MIB_PER_S, detail),
        Row("the broker's growth meanwhile", growth_mib, None, at_most_value(GROWTH_MIB, Unit.MIB), Unit.MIB),
    ]


def volume_in(stage: Stage, *, quick: bool) -> list[Row]:
    command = "cat >/dev/null"
    reach: list[float] = []
    ssh: list[float] = []
    for _ in range(1 if quick else 3):
        reach.append(_write_rate([stage.near.shim, "-c", command], stage))
        ssh.append(_write_rate([*stage.near.ssh, command], stage))
    detail = {"reach_mib_per_s": reach, "ssh_mib_per_s": ssh}
    return [Row("200 MB of input", median(reach), median(ssh), at_least(0.8), Unit.MIB_PER_S, detail)]


def _read_rate(argv: Sequence[str], stage: Stage) -> float:
    began = time.perf_counter()
    pid, reader = _start_reading(argv, stage)
    size = 0
    while data := os.read(reader, 1 << 20):
        size += len(data)
    _finish(pid, reader, argv)
    took_s = time.perf_counter() - began
    if size != VOLUME_MIB << 20:
        raise MeasurementError(f"{size} bytes came, not {VOLUME_MIB << 20}")
    return VOLUME_MIB / took_s


def _write_rate(argv: Sequence[str], stage: Stage) -> float:
    reader, writer = os.pipe()
    head = ["/usr/bin/env", "head", "-c", f"{VOLUME_MIB}M", "/dev/zero"]
    began = time.perf_counter()
    feeder = os.posix_spawn(head[0], head, stage.environment, file_actions=[(os.POSIX_SPAWN_DUP2, writer, 1)])
    os.close(writer)
    pid = os.posix_spawn(argv[0], list(argv), stage.environment, file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0)])
    _finish(pid, reader, argv)
    took_s = time.perf_counter() - began
    os.waitpid(feeder, 0)
    return VOLUME_MIB / took_s


def _start_reading(argv: Sequence[str], stage: Stage) -> tuple[int, int]:
    reader, writer = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, writer, 1),
    ]
    pid = os.posix_spawn(argv[0], list(argv), stage.environment, file_actions=actions)
    os.close(writer)
    return pid, reader


def _finish(pid: int, descriptor: int, argv: Sequence[str]) -> None:
    status, _ = wait(pid)
    os.close(descriptor)
    if status:
        raise MeasurementError(f"{argv[0]} ended with {os.waitstatus_to_exitcode(status)}")


def resident_mib(pid: int) -> float:
    return _status_kib(pid, "VmRSS") / 1024


def peak_mib(pid: int) -> float:
    return _status_kib(pid, "VmHWM") / 1024


def reset_peak(pid: int) -> None:
    """Source: Linux, proc_pid_clear_refs(5)."""
    with open(f"/proc/{pid}/clear_refs", "w") as file:
        file.write("5")


def _status_kib(pid: int, name: str) -> int:
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name + ":"))
