"""Counts at how many moments a process did something. Runs as a program of its own beside the other figures.

    python -m benchmark.watch PID SECONDS

begins after SECONDS, and prints, when its standard input ends, the number of moments and the seconds that it watched.
"""

from __future__ import annotations

import select
import sys
import time
from pathlib import Path

STEP_S = 0.5
"""What happens within this time is one moment: a keepalive's question and its answer, for example."""


def main() -> None:
    pid, settle_s = int(sys.argv[1]), float(sys.argv[2])
    select.select([sys.stdin], [], [], settle_s)
    began, moments, before = time.monotonic(), 0, _switches(pid)
    while not select.select([sys.stdin], [], [], STEP_S)[0]:
        now = _switches(pid)
        moments += now != before
        before = now
    print(moments, time.monotonic() - began)


def _switches(pid: int) -> dict[str, str]:
    """How often each thread of PID went to sleep, which is how often it was woken."""
    found = {}
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        try:
            lines = status.read_text().splitlines()
        except OSError:
            continue  # it has just ended
        found[status.parent.name] = next(line for line in lines if line.startswith("voluntary_ctxt_switches"))
    return found


if __name__ == "__main__":
    main()
