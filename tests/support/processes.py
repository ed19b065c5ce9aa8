"""Whether a process is still there, and waiting for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 20.0


def is_dead(pid: int) -> bool:
    """Whether PID has ended; one that nobody has waited for yet has."""
    return _state(pid) in "ZX"


def is_stopped(pid: int) -> bool:
    """Whether PID is stopped and has not been continued yet."""
    return _state(pid) == "T"


def _state(pid: int) -> str:
    """The letter in /proc, X for a process that is not there. Source: proc(5)."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "X"
    return status.rpartition(")")[2].split()[0]


def eventually(is_so: Callable[[], bool]) -> bool:
    """Whether IS_SO became true within 20 s; to be asserted where no event tells when."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
