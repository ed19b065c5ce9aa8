"""Connections whose servers exist in memory only: they open channels, refuse them, go silent or end when told to."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Literal

from reach.errors import ChannelOpenError, ConnectionLostError, TransportError
from reach.ssh.process import Closed, Exited, Inbox, Output, PtySize


class FakeServer:
    """What all connections to one target share."""

    def __init__(self, *, max_sessions: int = 10) -> None:
        self.max_sessions = max_sessions
        self.connections: list[FakeConnection] = []
        self.failure: Exception | None = None
        """Raised by the next attempts to connect."""
        self.attempts = 0
        self.lingering = 0
        """So many channels stay taken after they were closed."""
        self.clears_after = 0
        """Until a connection has refused so many others."""
        self.terminals: Literal["work", "are refused", "cost the connection"] = "work"
        self.terminal_starts = 0
        self.lock = threading.Lock()

    def connect(self) -> FakeConnection:
        self.attempts += 1
        if self.failure:
            raise self.failure
        connection = FakeConnection(self)
        self.connections.append(connection)
        return connection

    def open_channels(self) -> list[int]:
        return [len(connection.processes) for connection in self.connections if connection.is_alive]


class FakeConnection:
    label = "fake"

    def __init__(self, server: FakeServer) -> None:
        self._server = server
        self.processes: set[FakeProcess] = set()
        self.is_alive = True
        self.is_silent = False
        self.refusals = 0
        self._callbacks: list[Callable[[], None]] = []

    def start(self, command: str, *, pty: PtySize | None = None) -> FakeProcess:
        if not self.is_alive:
            raise ConnectionLostError("the connection ended while a channel was opened")
        with self._server.lock:
            if len(self.processes) + self._server.lingering >= self._server.max_sessions:
                self.refusals += 1
                if self.refusals == self._server.clears_after:
                    self._server.lingering = 0
                raise ChannelOpenError("the server refused one more channel; its MaxSessions limits them")
            process = FakeProcess(self, command, is_pty=pty is not None)
            self.processes.add(process)
        if pty:
            self._start_terminal(process)
        return process

    def _start_terminal(self, process: FakeProcess) -> None:
        self._server.terminal_starts += 1
        if self._server.terminals == "cost the connection":
            self.close()
            raise ConnectionLostError("the connection ended while a channel was opened")
        if self._server.terminals == "are refused":
            process.close()
            raise TransportError("the server refused a terminal")

    def answers(self) -> bool:
        return self.is_alive and not self.is_silent

    def on_end(self, callback: Callable[[], None]) -> None:
        if self.is_alive:
            self._callbacks.append(callback)
        else:
            callback()

    def close(self) -> None:
        """What closes it here and what ends it there look the same."""
        if self.is_alive:
            self.is_alive = False
            for process in list(self.processes):
                process.inbox.put(Closed(lost=True))
            self.processes.clear()
            for callback in self._callbacks:
                callback()


class FakeProcess:
    """Announces itself as a worker does, and takes every script."""

    def __init__(self, connection: FakeConnection, command: str, *, is_pty: bool) -> None:
        self._connection = connection
        self.inbox = Inbox()
        self.has_ended = False
        self.sent = b""
        found = re.search(r"[0-9a-f]{32}", command)
        assert found, command
        token = found[0].encode()
        self.inbox.put(Output(1, token + b" 4242 ,5;" + (token + token + b"." if is_pty else b"")))
        self.inbox.put(Output(2, token))
        self._prompt = token + b"." if is_pty else b""

    def die(self) -> None:
        """Its shell is killed on the target."""
        self.has_ended = True
        self.inbox.put(Exited(None, "KILL"))
        self.inbox.put(Closed(lost=False))

    def send(self, data: bytes) -> None:
        self.sent += data
        if self._prompt:
            self.inbox.put(Output(1, self._prompt))

    def sendable(self) -> int:
        return 1 << 20

    def acknowledge(self, size: int) -> None: ...

    def send_eof(self) -> None: ...

    def resize(self, columns: int, rows: int) -> None: ...

    def close(self) -> None:
        self._connection.processes.discard(self)
        self.inbox.close()
