"""One run of a harness: its own process group, its own time limit, nothing left over."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from reach.errors import HarnessError
from reach.ssh.remote_text import printable

MAX_KEPT_BYTES = 64 * 1024
"""Of each stream, its end: a harness that floods its stderr must not fill the memory."""
MAX_LAST_WORDS_CHARS = 300
_POLL_S = 0.1
_KILL_TIMEOUT_S = 5.0
"""A process that is stuck in the kernel does not even go at SIGKILL."""
_DRAIN_TIMEOUT_S = 0.5
"""For the rest of the output of a harness that has ended; what it left behind may hold the stream open for ever."""


@dataclass(frozen=True)
class Ended:
    """A run that is over."""

    exit_code: int
    """Negative: the number of the signal that ended it."""
    timed_out: bool
    given_up: bool
    """It was ended because nothing more could come of it."""
    stdout: bytes
    stderr: bytes
    duration_s: float

    @property
    def last_words(self) -> str:
        """The last line of stderr, else of stdout, printable; empty where it said nothing."""
        for stream in (self.stderr, self.stdout):
            lines = [line for line in stream.decode("utf-8", "replace").splitlines() if line.strip()]
            unindented = [line for line in lines if not line[0].isspace()]  # a stack trace says less than its head
            if lines:
                return printable((unindented or lines)[-1].strip()[:MAX_LAST_WORDS_CHARS])
        return ""

    @property
    def how(self) -> str:
        """How it ended, to stand after "it"."""
        if self.timed_out:
            return f"did not end within {self.duration_s:.0f} s and was killed"
        if self.given_up:
            return "could not reach the mock API"
        if self.exit_code < 0:
            return f"was ended by signal {-self.exit_code}"
        return f"ended with exit code {self.exit_code}"


class HarnessProcess:
    """A started harness, its output collected; use it as a context manager, at whose end all of it is dead."""

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, token: str) -> None:
        """TOKEN stands in the environment of every process of this run, and in no other's.

        Raises: HarnessError when it can't be started.
        """
        self._token = token
        self._started = time.monotonic()
        try:
            self._process = subprocess.Popen(
                argv,
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise HarnessError(f"{argv[0]} can't be started: {error.strerror}") from None
        assert self._process.stdout
        assert self._process.stderr
        self._out, self._err = _Tail(self._process.stdout), _Tail(self._process.stderr)

    def __enter__(self) -> HarnessProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._process.wait()
        self._out.join()
        self._err.join()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(
        self,
        timeout_s: float,
        is_hopeless: Callable[[str], bool] | None = None,
        count_progress: Callable[[], int] | None = None,
    ) -> Ended:
        """Wait for its end, or put one to it: when COUNT_PROGRESS has said the same for TIMEOUT_S, or as soon as
        IS_HOPELESS accepts its stderr.

        What it leaves behind when it ends by itself lives on until the block's end.
        """
        given_up = False
        deadline, progress = self._started + timeout_s, 0
        while self._process.poll() is None and not given_up:
            if count_progress is not None and (now := count_progress()) != progress:
                deadline, progress = time.monotonic() + timeout_s, now
            if time.monotonic() >= deadline:  # asked last: this process may itself have stood still meanwhile
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_POLL_S)
            given_up = is_hopeless is not None and is_hopeless(self._err.kept.decode("utf-8", "replace"))
        timed_out = self._process.poll() is None and not given_up
        duration_s = time.monotonic() - self._started
        if timed_out or given_up:
            self.kill()
        exit_code = self._process.wait()
        return Ended(exit_code, timed_out, given_up, self._out.join(), self._err.join(), duration_s)

    def kill(self) -> None:
        """SIGKILL everything that this run started, those included that made a group of their own."""
        self._signal_group(signal.SIGKILL)
        kill_all_with(self._token)

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


class _Tail:
    """Reads a stream to its end in a thread of its own and keeps the last part."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.kept = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._stream:
            while chunk := os.read(self._stream.fileno(), 65536):
                self.kept = (self.kept + chunk)[-MAX_KEPT_BYTES:]

    def join(self) -> bytes:
        self._thread.join(_DRAIN_TIMEOUT_S)
        return self.kept


def kill_all_with(token: str) -> None:
    """SIGKILL the processes of this user that have TOKEN in their environment: none where there is no /proc."""
    deadline = time.monotonic() + _KILL_TIMEOUT_S
    while (pids := _pids_with(os.fsencode(token))) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _pids_with(token: bytes) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:  # gone, or another user's
            continue
        if token in environment and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found
