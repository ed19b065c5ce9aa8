"""A program on a terminal of its own, as a person or a harness's interactive shell has it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self


class Terminal:
    """Runs ARGV with a new pty as its controlling terminal; use as a context manager."""

    def __init__(
        self,
        argv: Sequence[str | bytes],
        *,
        columns: int = 112,
        rows: int = 10,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stderr: int | None = None,
    ) -> None:
        self._argv = list(argv)
        self._env = dict(env or {"PATH": "/usr/bin:/bin", "TERM": "xterm-256color"})
        self._cwd = cwd
        self._stderr = stderr
        self._size = (columns, rows)
        self.seen = b""

    def __enter__(self) -> Self:
        self._master, slave = pty.openpty()
        self.resize(*self._size, tell=False)
        self.modes = termios.tcgetattr(slave)
        # setsid -c makes the terminal the controlling one, and becomes the program
        self.process = subprocess.Popen(
            ["setsid", "-c", *self._argv],
            stdin=slave,
            stdout=slave,
            stderr=slave if self._stderr is None else self._stderr,
            env=self._env,
            cwd=self._cwd,
        )
        self._slave = slave
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._slave)
        os.close(self._master)

    def current_modes(self) -> list[Any]:
        return termios.tcgetattr(self._slave)

    def resize(self, columns: int, rows: int, *, tell: bool = True) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
        if tell:
            os.kill(self.process.pid, signal.SIGWINCH)

    def send(self, data: bytes) -> None:
        os.write(self._master, data)

    def expect(self, text: bytes, timeout_s: float = 20.0) -> bytes:
        """Read until TEXT came; what came up to its end, which is then taken as seen. Raises: TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while text not in self.seen:
            left = deadline - time.monotonic()
            if left <= 0 or not self._read(left):
                raise TimeoutError(f"no {text!r} in {self.seen!r}")
        end = self.seen.index(text) + len(text)
        before, self.seen = self.seen[:end], self.seen[end:]
        return before

    def finish(self, timeout_s: float = 20.0) -> tuple[int, bytes]:
        """Read until the program ended: its exit code and what else it printed."""
        deadline = time.monotonic() + timeout_s
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"it goes on, after {self.seen!r}")
            self._read(0.05)
        while self._read(0.05):
            pass
        return self.process.returncode, self.seen

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self._master], [], [], timeout_s)[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self.seen += data
        return bool(data)
