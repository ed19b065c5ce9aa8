"""The harness's terminal, while the target's one stands behind it: its size, and its raw mode."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


def terminal_size(descriptor: int) -> tuple[int, int]:
    """Shape: (columns, rows); 80 by 24 where the terminal doesn't say."""
    try:
        rows, columns, _, _ = struct.unpack("4H", fcntl.ioctl(descriptor, termios.TIOCGWINSZ, bytes(8)))
    except OSError:
        return 80, 24
    return (columns, rows) if columns and rows else (80, 24)


def is_terminal(descriptor: int) -> bool:
    return os.isatty(descriptor)


class _RawTerminals:
    """Which terminals are raw for commands of ours, and what they were before: several may share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: dict[int, tuple[int, list[Any]]] = {}

    def enter(self, handle: int) -> None:
        device = os.fstat(handle).st_rdev
        with self._lock:
            count, before = self._users.get(device, (0, []))
            if not count:
                before = termios.tcgetattr(handle)
                tty.setraw(handle, termios.TCSANOW)
            self._users[device] = (count + 1, before)

    def leave(self, handle: int) -> None:
        device = os.fstat(handle).st_rdev
        with self._lock:
            count, before = self._users.pop(device)
            if count > 1:
                self._users[device] = (count - 1, before)
            else:
                termios.tcsetattr(handle, termios.TCSANOW, before)


_raw = _RawTerminals()


@contextmanager
def raw_mode(descriptor: int) -> Iterator[None]:
    """The target's terminal edits lines, echoes and turns keys into signals; this one passes bytes meanwhile."""
    handle = os.dup(descriptor)
    try:
        try:
            _raw.enter(handle)
        except termios.error:  # hung up
            yield
            return
        try:
            yield
        finally:
            with suppress(termios.error):
                _raw.leave(handle)
    finally:
        os.close(handle)
