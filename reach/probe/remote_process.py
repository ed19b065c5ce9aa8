"""Asking the target about a process there."""

from __future__ import annotations


def is_running(pid: str) -> str:
    """A shell command for the target that is true while process PID runs there.

    A process that ended still takes signals until its parent reaps it, which the first process of a container may
    never do: where the system tells the state, that counts.
    """
    return f"{{ kill -0 {pid} 2>/dev/null && ! grep -qs '^State:.Z' /proc/{pid}/status; }}"
