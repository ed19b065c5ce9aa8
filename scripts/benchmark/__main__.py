"""The command line of scripts/bench."""

from __future__ import annotations

import argparse
import json
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from benchmark import picture, table
from benchmark.figures import FIGURES
from benchmark.lasting import Rest
from benchmark.row import Row
from benchmark.spawn import MeasurementError
from benchmark.stage import Stage

LIMIT_S = 280
"""Leaves time for cleaning up within five minutes."""


class _Ended(BaseException):
    """Told to stop, or out of time."""


def main() -> int:
    """Measure and print. The exit code says whether everything was measured, not whether goals are met."""
    options = _parse()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGHUP):
        signal.signal(number, _end)
    signal.alarm(LIMIT_S)
    rows: list[Row] = []
    failures: dict[str, str] = {}
    began = time.monotonic()
    try:
        with Stage() as stage:
            print(table.header(), flush=True)
            names = options.only or list(FIGURES)
            if "rest" in names:
                stage.kept("rest", Rest)
            for name in names:
                _measure(name, stage, options.quick, rows, failures)
    except _Ended as reason:
        failures["the rest"] = str(reason)
        print(f"bench: ended early: {reason}", file=sys.stderr)
    finally:
        signal.alarm(0)
    took_s = round(time.monotonic() - began, 1)
    print(f"{sum(row.is_met for row in rows)} of {len(rows)} goals met, in {took_s:.0f} s")
    if options.svg and (panels := picture.panels_of(rows)):
        caption = "`bash -c true`, one after another: reach against ssh with a ControlMaster"
        Path(options.svg).write_text(picture.draw(panels, caption))
    if options.json:
        report = {**_machine(), "took_s": took_s, "rows": [row.as_json() for row in rows], "failures": failures}
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    return 1 if failures else 0


def _measure(name: str, stage: Stage, quick: bool, rows: list[Row], failures: dict[str, str]) -> None:
    try:
        measured = FIGURES[name](stage, quick=quick)
    except (MeasurementError, OSError, subprocess.SubprocessError) as error:
        failures[name] = str(error)
        print(table.failure_line(name, str(error)), flush=True)
        return
    rows += measured
    for row in measured:
        print(table.line(row), flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measure reach against ssh, side by side.")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, and no long figures")
    parser.add_argument("--only", action="append", choices=list(FIGURES), metavar="FIGURE", help=" ".join(FIGURES))
    parser.add_argument("--json", metavar="FILE", help="write the figures with every sample there")
    parser.add_argument("--svg", metavar="FILE", help="draw the distribution of the calls' latency there")
    return parser.parse_args()


def _machine() -> dict[str, Any]:
    ssh = subprocess.run(["ssh", "-V"], capture_output=True, text=True).stderr.strip()
    cpus = [line for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "ssh": ssh,
        "kernel": platform.release(),
        "cpus": len(cpus),
        "cpu": cpus[0].partition(":")[2].strip() if cpus else platform.machine(),
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _end(number: int, _frame: FrameType | None) -> None:
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise _Ended("out of time" if number == signal.SIGALRM else signal.Signals(number).name)


if __name__ == "__main__":
    sys.exit(main())
