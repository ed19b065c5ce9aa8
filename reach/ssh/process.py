"""One remote process on one channel: its output, its end and its input, as events for one reader.

The interface is what both transports offer; nothing here knows which one it is.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

STDOUT, STDERR = 1, 2
_ONE = (1).to_bytes(8, sys.byteorder)


@dataclass(frozen=True, slots=True)
class Output:
    """Bytes that the process wrote, as they came."""

    stream: int
    """STDOUT or STDERR; under a pty everything is STDOUT."""
    data: bytes


@dataclass(frozen=True, slots=True)
class Exited:
    """The process ended; its output may still be on the way."""

    status: int | None
    """0 to 255, or None when a signal ended it."""
    signal: str | None = None
    """The signal's name without SIG, as RFC 4254 section 6.10 has it (`KILL`), or what the server made of an unnamed
    one."""


@dataclass(frozen=True, slots=True)
class OutputEnded:
    """No more output on either stream."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The channel is closed: nothing follows."""

    lost: bool
    """The connection ended, and not the channel alone."""


@dataclass(frozen=True, slots=True)
class Sendable:
    """There is room for input again."""


Event = Output | Exited | OutputEnded | Closed | Sendable


class Inbox:
    """Events on their way from the thread that reads the connection to the one that serves the process."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        if hasattr(os, "eventfd"):
            self._reader = self._writer = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        else:
            self._reader, self._writer = os.pipe()
            os.set_blocking(self._reader, False)
            os.set_blocking(self._writer, False)
        self._is_open = True
        self._closing = threading.Lock()
        """A write after the close would reach whatever got the descriptor's number next."""

    def fileno(self) -> int:
        """Readable when an event waits."""
        return self._reader

    @property
    def unread(self) -> int:
        """How many events wait."""
        return len(self._events)

    def put(self, event: Event) -> None:
        with self._closing:
            if not self._is_open:
                return
            self._events.append(event)
            if len(self._events) > 1:
                return  # it is readable already, or whoever reads it has not come to the end
            try:
                os.write(self._writer, _ONE)
            except OSError:  # full, so it is readable
                pass

    def take(self) -> list[Event]:
        """Every event that waits, oldest first."""
        if self._is_open:
            try:
                os.read(self._reader, 4096)
            except OSError:
                pass
        taken = []
        while self._events:
            taken.append(self._events.popleft())
        return taken

    def close(self) -> None:
        with self._closing:
            if self._is_open:
                self._is_open = False
                os.close(self._reader)
                if self._writer != self._reader:
                    os.close(self._writer)


class RemoteProcess(Protocol):
    """A process on the target. Used by one thread; events come through its inbox."""

    inbox: Inbox

    @property
    def has_ended(self) -> bool:
        """Whether the server said that the process ended, whoever took that event."""

    def acknowledge(self, size: int) -> None:
        """SIZE bytes of output went on their way: the server may send as many more."""

    def sendable(self) -> int:
        """How many bytes of input the server takes now without making the caller wait."""

    def send(self, data: bytes) -> None:
        """Send input, waiting for room where there is none. Raises: ConnectionLostError."""

    def send_eof(self) -> None:
        """End the process's standard input."""

    def resize(self, columns: int, rows: int) -> None:
        """Tell the pty's new size."""

    def stop_output(self) -> bool:
        """Have the process find out, when it next writes, that nobody reads its standard output; False where the
        server may not know how."""

    def close(self) -> None:
        """Close the channel and give back what belongs to it. May be called twice."""


class Connection(Protocol):
    """An authenticated connection to the target."""

    @property
    def is_alive(self) -> bool:
        """False once the connection's end was noticed."""

    @property
    def label(self) -> str:
        """Which transport this is, for status and doctor."""

    def start(self, command: str, *, pty: PtySize | None = None) -> RemoteProcess:
        """Start COMMAND through the account's login shell.

        Raises: ChannelOpenError when the server refuses one more channel; ConnectionLostError; TransportError when
        it does not answer, or refuses the terminal or the command.
        """

    def answers(self) -> bool:
        """Whether the server is there as far as can be told: at once where it was heard lately, else by asking it."""

    def on_end(self, callback: Callable[[], None]) -> None:
        """Have CALLBACK called once when the connection ends, or at once where it has. It must not wait."""

    def close(self) -> None:
        """End the connection without waiting for the server. May be called twice."""


@dataclass(frozen=True, slots=True)
class PtySize:
    """A terminal's size, and its type."""

    columns: int
    rows: int
    term: str = "xterm-256color"


PTY_MODES = bytes([42]) + (1).to_bytes(4, "big") + bytes(1)
"""IUTF8 on, so that erasing a character erases all its bytes. Source: RFC 8160, RFC 4254 section 8."""
