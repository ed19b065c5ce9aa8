"""Connections by each transport to a test's sshd, and a remote process followed to its end."""

from __future__ import annotations

import select
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from reach.broker.connector import Connector
from reach.paths import Paths
from reach.session import Session
from reach.ssh.operator import NobodyThere, Operator
from reach.ssh.process import STDERR, STDOUT, Closed, Connection, Exited, Output, OutputEnded, RemoteProcess
from support.sshd import Sshd

TRANSPORTS = ("paramiko", "openssh")
PATIENCE_S = 60.0


@contextmanager
def connector_to(server: Sshd, transport: str, *, agent: Path | None = None) -> Iterator[Connector]:
    """What a broker would connect with: the ssh_config of SERVER, and folders of its own."""
    with tempfile.TemporaryDirectory(prefix="rc-", dir="/tmp") as folder:
        home = Path(folder)
        session = Session(
            name="t",
            target=server.alias,
            created=datetime.now(UTC),
            ssh_config=str(server.config),
            ssh_agent_socket=str(agent) if agent else None,
            transport=cast(Any, transport),
        )
        connector = Connector(Paths(home / "state", home / "data", home / "cache", home / "run"), session)
        try:
            yield connector
        finally:
            connector.close()


@contextmanager
def connected_by(
    transport: str, server: Sshd, operator: Operator | None = None, *, agent: Path | None = None
) -> Iterator[Connection]:
    with connector_to(server, transport, agent=agent) as connector:
        connection = connector.connect(operator or NobodyThere())
        try:
            yield connection
        finally:
            connection.close()


@dataclass
class Course:
    """What is known of a process so far."""

    process: RemoteProcess
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    exited: Exited | None = None
    output_ended: bool = False
    closed: Closed | None = None
    acknowledges: bool = True
    keeps: bool = True
    received: int = 0

    def step(self, timeout_s: float) -> None:
        """Take what waits, waiting for it if nothing does."""
        poller = select.poll()
        poller.register(self.process.inbox.fileno(), select.POLLIN)
        poller.poll(timeout_s * 1000)
        for event in self.process.inbox.take():
            if isinstance(event, Output):
                self.received += len(event.data)
                if self.keeps:
                    {STDOUT: self.out, STDERR: self.err}[event.stream].extend(event.data)
                if self.acknowledges:
                    self.process.acknowledge(len(event.data))
            elif isinstance(event, Exited):
                assert self.exited is None
                self.exited = event
            elif isinstance(event, OutputEnded):
                self.output_ended = True
            elif isinstance(event, Closed):
                self.closed = self.closed or event

    def until(self, is_so: Any, what: str, timeout_s: float = PATIENCE_S) -> Course:
        """Follow it until IS_SO. Raises: TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while not is_so(self):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(f"waited for {what}; so far {bytes(self.out[-200:])!r} {bytes(self.err[-200:])!r}")
            self.step(min(left_s, 1.0))
        return self

    def to_end(self, timeout_s: float = PATIENCE_S) -> Course:
        return self.until(lambda course: course.closed, "the end of the channel", timeout_s)


def run_on(connection: Connection, command: str, data: bytes | None = None, **keywords: Any) -> Course:
    """Run COMMAND to its end with DATA as its input (none: its input ends at once)."""
    process = connection.start(command, **keywords)
    try:
        course, sent = Course(process), 0
        while data and sent < len(data) and course.closed is None:
            room = process.sendable()
            if room:
                process.send(data[sent : sent + room])
                sent += room
            course.step(0 if room else 1.0)
        if not keywords.get("pty"):
            process.send_eof()
        return course.to_end()
    finally:
        process.close()
