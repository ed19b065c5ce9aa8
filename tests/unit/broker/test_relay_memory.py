"""A harness that stops reading stalls its own command, in bounded memory, however small the pieces are."""

from __future__ import annotations

import os
import socket
import threading
import tracemalloc

from reach.broker.marks import Marks
from reach.broker.relay import Course, Relay
from reach.broker.remote_script import STARTED
from reach.broker.sink import Sink
from reach.broker.source import Source
from reach.ssh.process import STDERR, STDOUT, Exited, Inbox, Output, OutputEnded

TOKEN = "0123456789abcdef" * 2
COUNT = 200_000


class Process:
    """Its output came in single bytes."""

    def __init__(self) -> None:
        self.inbox = Inbox()
        self.has_ended = True
        self.acknowledged = 0

    def acknowledge(self, size: int) -> None:
        self.acknowledged += size

    def sendable(self) -> int:
        return 0

    def send_eof(self) -> None: ...


def test_output_in_single_bytes_waits_in_about_its_size_and_arrives_whole() -> None:
    process, (ours, theirs) = Process(), socket.socketpair()
    reader, writer = os.pipe()
    relay = Relay(
        process,  # type: ignore[arg-type]
        Marks(TOKEN, expects_side=False),
        peer=ours,
        harness=None,
        source=Source(os.open("/dev/null", os.O_RDONLY)),
        sinks={STDOUT: Sink(writer), STDERR: Sink(os.open("/dev/null", os.O_WRONLY))},
        pty=False,
        merged=False,
        on_signal=lambda number: None,
        on_abandoned=lambda: None,
    )
    process.inbox.put(Output(STDERR, TOKEN.encode() + STARTED))
    tracemalloc.start()
    for number in range(COUNT):
        relay._take(Output(STDOUT, bytes([number % 251])))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 2 * COUNT, f"{held} bytes for {COUNT}"
    process.inbox.put(Exited(0))
    process.inbox.put(OutputEnded())
    courses: list[Course] = []
    thread = threading.Thread(target=relay.run, args=(courses.append,))
    thread.start()
    received = b""
    while chunk := os.read(reader, 1 << 16):
        received += chunk
    thread.join(20)
    os.close(reader)
    ours.close()
    theirs.close()
    process.inbox.close()
    assert received == bytes(number % 251 for number in range(COUNT))
    assert courses[0].bytes_out == COUNT
    assert process.acknowledged >= COUNT
