"""The broker's child processes: proxy commands and logins by ssh, some of them still under way when it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

GRACE_S = 2.0


def end_children() -> None:
    """End every child's process group, or the child alone where it shares ours, for good. Without /proc: nothing."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _children(os.getpid()):
            _signal(pid, number)
        if _reap(GRACE_S):
            return


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        group = os.getpgid(pid)
        if group == os.getpgrp():
            os.kill(pid, number)
        else:
            os.killpg(group, number)


def _reap(timeout_s: float) -> bool:
    """Whether no child is left in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.01)
        except ChildProcessError:
            return True
    return False


def _children(parent: int) -> list[int]:
    found = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in filter(str.isdecimal, names):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # the name in parentheses may hold anything; the parent is the second field behind it
            if int((Path("/proc") / name / "stat").read_bytes().rpartition(b")")[2].split()[1]) == parent:
                found.append(int(name))
    return found
