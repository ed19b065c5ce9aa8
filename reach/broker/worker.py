"""A worker: a remote shell that waits on a channel of its own, its process id already known here."""

from __future__ import annotations

import re
import select
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reach.broker.remote_group import RemoteGroup, parse_group
from reach.broker.remote_script import bootstrap, framed, is_posix_only, new_token, preparation
from reach.errors import ConnectionLostError, TransportError
from reach.ssh.process import (
    STDOUT,
    Closed,
    Connection,
    Event,
    Exited,
    Output,
    OutputEnded,
    PtySize,
    RemoteProcess,
)

ANNOUNCE_TIMEOUT_S = 20.0
MAX_NOISE_BYTES = 1 << 20
"""What a login shell's start-up files may print before the announcement."""
MAX_SCRIPT_BYTES = 4 << 20
"""What a script of ours may print: an environment is the longest."""


@dataclass(frozen=True)
class Announcement:
    """What a worker's shell says of itself."""

    group: RemoteGroup
    version: int
    """bash's major version, 0 where it is no bash."""


class ShellEndedError(TransportError):
    """The channel's shell ended before it announced itself: it may not be there."""


class Worker:
    """Serves one command, or any number of short scripts that don't replace the shell."""

    def __init__(
        self, process: RemoteProcess, connection: Connection, token: str, announced: Announcement, *, pty: bool
    ) -> None:
        self.process = process
        self.connection = connection
        self.token = token
        self.group = announced.group
        """On the target; the shell leads its own session and process group."""
        self._version = announced.version
        self.pty = pty

    @property
    def is_posix_only(self) -> bool:
        """Whether its shell is the sh of a target without bash."""
        return not self._version

    def send_script(self, script: bytes) -> None:
        """Have its shell evaluate SCRIPT. Raises: ConnectionLostError."""
        self.process.send(framed(script.removesuffix(b"\0"), self.token, version=self._version, pty=self.pty))

    @property
    def pid(self) -> int:
        """On the target."""
        return self.group.pid

    def is_usable(self) -> bool:
        """Whether it still waits for a script, as far as is known here."""
        if not self.connection.is_alive:
            return False
        return not any(isinstance(event, Closed | Exited | OutputEnded) for event in self.process.inbox.take())

    def run_script(self, script: bytes, done: str, timeout_s: float) -> bytes:
        """Run a script that ends by printing DONE; return what it printed before that.

        Raises: ConnectionLostError, TransportError when DONE does not come in time.
        """
        self.send_script(script)
        seen = b""
        end = done.encode()
        for event in _events(self.process, timeout_s):
            if isinstance(event, Output):
                self.process.acknowledge(len(event.data))
                seen += event.data if event.stream == STDOUT else b""
                if end in seen:
                    return seen[: seen.index(end)]
                if len(seen) > MAX_SCRIPT_BYTES:
                    raise TransportError("the target's shell prints without end where it was asked for little")
            elif isinstance(event, Closed):
                raise ConnectionLostError("the target's shell went away")
        raise TransportError(f"the target's shell did not answer within {timeout_s:g} s")

    def close(self) -> None:
        self.process.close()


def start_worker(
    connection: Connection,
    shell: str | None,
    login_environment: Mapping[bytes, bytes],
    *,
    pty: PtySize | None = None,
    side_file: bool = True,
) -> Worker:
    """Open a channel and wait until its shell announces itself.

    Raises: ChannelOpenError, ConnectionLostError, TransportError when the shell does not start.
    """
    token = new_token()
    process = connection.start(bootstrap(token, shell, pty=pty is not None), pty=pty)
    try:
        announced = _await_announcement(process, token, pty=pty is not None)
        worker = Worker(process, connection, token, announced, pty=pty is not None)
        worker.send_script(preparation(login_environment, token, side_file=side_file, posix=is_posix_only(shell)))
        if pty:
            _await_prompt(process, token)
    except BaseException:
        process.close()
        raise
    return worker


def _await_announcement(process: RemoteProcess, token: str, *, pty: bool) -> Announcement:
    """Skip the start-up files' noise on both streams; return what the shell says of itself."""
    out, err = b"", b""
    for event in _events(process, ANNOUNCE_TIMEOUT_S):
        if isinstance(event, Output):
            process.acknowledge(len(event.data))
            if event.stream == STDOUT:
                out += event.data
            else:
                err += event.data
            found = _announcement_in(out, token.encode(), pty=pty)
            if found is not None and (pty or token.encode() in err):
                return _parse_announcement(found)
            if len(out) + len(err) > MAX_NOISE_BYTES:
                raise TransportError("the account's start-up files print without end; the target's shell never began")
        elif isinstance(event, Exited | Closed):
            if isinstance(event, Closed) and event.lost:
                raise ConnectionLostError("the connection ended while a shell was started")
            raise ShellEndedError(f"the target's shell ended at once{_quoted(err or out)}")
    raise TransportError(
        f"the target's shell did not start within {ANNOUNCE_TIMEOUT_S:g} s; its start-up files may wait for input"
    )


def _announcement_in(said: bytes, token: bytes, *, pty: bool) -> bytes | None:
    """What stands after TOKEN, up to a semicolon; None before all of it, and on a terminal the prompt, has come."""
    begin = said.find(token + b" ")
    end = said.find(b";", begin) if begin >= 0 else -1
    if end < 0 or (pty and said.find(token + b".", end) < 0):
        return None
    return said[begin + len(token) + 1 : end]


def _parse_announcement(text: bytes) -> Announcement:
    head, _, version = text.rpartition(b",")
    group = parse_group(head)
    if group is None:
        raise TransportError("the target's shell announced itself with no process id")
    return Announcement(group, int(version) if re.fullmatch(rb"[0-9]{1,3}", version) else 0)


def _await_prompt(process: RemoteProcess, token: str) -> None:
    """On a terminal: until the shell reads again, its echo off."""
    seen = b""
    for event in _events(process, ANNOUNCE_TIMEOUT_S):
        if isinstance(event, Output):
            process.acknowledge(len(event.data))
            seen = (seen + event.data)[-MAX_NOISE_BYTES:]
            if token.encode() + b"." in seen:
                return
        elif isinstance(event, Closed):
            raise ConnectionLostError("the connection ended while a shell was started")
    raise TransportError(f"the target's shell did not answer within {ANNOUNCE_TIMEOUT_S:g} s")


def _events(process: RemoteProcess, timeout_s: float) -> Iterator[Event]:
    deadline = time.monotonic() + timeout_s
    poller = select.poll()
    poller.register(process.inbox.fileno(), select.POLLIN)
    while (left := deadline - time.monotonic()) > 0:
        yield from process.inbox.take()
        poller.poll(left * 1000)


def _quoted(said: bytes) -> str:
    """What the target said last, fit for one line."""
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return f", saying {lines[-1][:200]!r}" if lines else ""
