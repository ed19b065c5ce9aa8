"""The course of one command: its output to the harness, the harness's input to it, signals, and its end.

One thread serves one command and waits in one place. Output is acknowledged to the server only when the harness has
taken it, so a harness that stops reading stalls its own command and no other, in bounded memory.
"""

from __future__ import annotations

import select
import signal
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from reach.broker.marks import Marks
from reach.broker.sink import Sink
from reach.broker.source import CHUNK_BYTES, Source
from reach.broker.terminal import terminal_size
from reach.errors import ConnectionLostError
from reach.ssh.process import STDERR, STDOUT, Closed, Event, Exited, Output, OutputEnded, RemoteProcess
from reach.wire.frames import Note

SMALL_BYTES = 4096
"""Pieces of output that wait are put together up to this size."""
BACKGROUND_GRACE_S = 0.1
"""How long, after the shell's end, its streams stay silent before something else is taken to hold them open."""
SIDE_GRACE_S = 2.0
"""The same while a harness's side file, which the shell wrote before its end, is still under way."""

MAX_STEPS = 8
"""Reads of input in a row, 1 MiB at most: then signals and the shim's end are looked for again."""


@dataclass
class Course:
    """What is known of a command so far."""

    started: bool = False
    refusal: bytes | None = None
    """A mark and what the target's shell said, when it could not begin."""
    exited: Exited | None = None
    output_ended: bool = False
    closed: Closed | None = None
    abandoned: bool = False
    """The shim is gone, or the harness that it ran for."""
    bytes_in: int = 0
    bytes_out: int = 0
    bytes_err: int = 0
    side: bytes | None = None
    """What the harness's wrapper wrote to its side file."""

    @property
    def is_over(self) -> bool:
        return self.closed is not None or (self.exited is not None and self.output_ended)


class Relay:
    """Serves one command from the moment its script was sent."""

    def __init__(
        self,
        process: RemoteProcess,
        marks: Marks,
        *,
        peer: socket.socket,
        harness: int | None,
        source: Source,
        sinks: dict[int, Sink],
        pty: bool,
        merged: bool,
        on_signal: Callable[[int], None],
        on_abandoned: Callable[[], None],
    ) -> None:
        """HARNESS is a descriptor that is readable once the harness has ended, whose shims may well live on."""
        self._process = process
        self._marks = marks
        self._peer = peer
        self._harness = harness
        self._source = source
        self._sinks = sinks
        self._pty = pty
        self._head_stream = STDOUT if pty or merged else STDERR
        self._on_signal = on_signal
        self._on_abandoned = on_abandoned
        self._waiting: dict[int, deque[memoryview]] = {STDOUT: deque(), STDERR: deque()}
        self._input_open = True
        self._notes = b""
        self.course = Course()

    def run(self, answer: Callable[[Course], None]) -> None:
        """Relay until the command is over and its output delivered.

        ANSWER is called once: at that point, or before it when the shell has ended and a background job goes on
        holding the streams.
        """
        if self._source.is_null and not self._pty:
            self._end_input()
        answered = False
        last_event = time.monotonic()
        while True:
            for event in self._process.inbox.take():
                last_event = time.monotonic()
                self._take(event)
            self._flush()
            course = self.course
            if (course.is_over and not self._has_output()) or (course.abandoned and course.exited):
                break
            holds = course.exited is not None and not self._has_output() and not answered
            left_s = last_event + (SIDE_GRACE_S if self._marks.awaits_side else BACKGROUND_GRACE_S) - time.monotonic()
            if holds and left_s <= 0:
                answered = True
                answer(course)
            self._wait(left_s if holds and not answered else None, answered)
        if held := self._marks.flush():
            self._deliver(self._head_stream, held)
            self._flush_all()
        self.close()
        if not answered:
            answer(self.course)

    def close(self) -> None:
        """Close the harness's descriptors, so that it sees their end."""
        self._source.close()
        for sink in set(self._sinks.values()):
            sink.close()

    # --- what comes from the target

    def _take(self, event: Event) -> None:
        course = self.course
        if isinstance(event, Output):
            self._take_output(event)
        elif isinstance(event, Exited):
            course.exited = event
        elif isinstance(event, OutputEnded):
            course.output_ended = True
        elif isinstance(event, Closed):
            course.closed = course.closed or event

    def _take_output(self, event: Output) -> None:
        data = event.data
        if event.stream == self._head_stream:
            data = self._marks.feed(data)
            course, marks = self.course, self._marks
            course.started, course.refusal, course.side = marks.started, marks.refusal, marks.side
        # Less than nothing when bytes held back earlier come out now: they are acknowledged once delivered.
        self._process.acknowledge(len(event.data) - len(data))
        if data:
            self._deliver(event.stream, data)

    def _deliver(self, stream: int, data: bytes) -> None:
        if stream == STDOUT:
            self.course.bytes_out += len(data)
        else:
            self.course.bytes_err += len(data)
        if self.course.abandoned:
            self._process.acknowledge(len(data))
        else:
            waiting = self._waiting[stream]
            if waiting and len(waiting[-1]) + len(data) <= SMALL_BYTES:
                # a window full of one-byte packets would take a hundred times its size
                waiting[-1] = memoryview(bytes(waiting[-1]) + data)
            else:
                waiting.append(memoryview(data))

    # --- what goes to the harness

    def _has_output(self) -> bool:
        return any(self._waiting.values())

    def _flush(self) -> None:
        for stream, waiting in self._waiting.items():
            sink = self._sinks[stream]
            while waiting:
                was_broken = sink.is_broken
                written = sink.write(waiting[0])
                if sink.is_broken and not was_broken:
                    self._stop_output(stream)
                if not written:
                    break
                self._process.acknowledge(written)
                if written == len(waiting[0]):
                    waiting.popleft()
                else:
                    waiting[0] = waiting[0][written:]

    def _stop_output(self, stream: int) -> None:
        """Nobody reads STREAM any more: the command is to find that out by writing to it, as it would here."""
        if self._pty:
            self._on_signal(signal.SIGHUP)
        elif stream == STDERR or not self._process.stop_output():
            self._on_signal(signal.SIGPIPE)

    def _flush_all(self) -> None:
        while self._has_output():
            self._flush()
            if self._has_output():
                self._wait(None, False)

    # --- waiting, and what comes from the harness

    def _wait(self, timeout_s: float | None, answered: bool) -> None:
        poller = select.poll()
        poller.register(self._process.inbox.fileno(), select.POLLIN)
        if is_awaited := not self.course.abandoned and not answered:
            poller.register(self._peer.fileno(), select.POLLIN)
            if self._harness is not None:
                poller.register(self._harness, select.POLLIN)
        room = self._wants_input()
        if room:
            poller.register(self._source.fileno(), select.POLLIN)
        for stream, waiting in self._waiting.items():
            if waiting:
                poller.register(self._sinks[stream].fileno(), select.POLLOUT)
        ready = dict(poller.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000))
        if is_awaited and self._peer.fileno() in ready:
            self._read_notes()
        if is_awaited and self._harness in ready and not self.course.abandoned:
            self._abandon()
        if room and self._source.fileno() in ready:
            self._read_input(room)

    def _wants_input(self) -> int:
        """How many bytes of input can go to the target now."""
        if not self._input_open or self.course.exited or (self._pty and not self.course.started):
            return 0
        return min(self._process.sendable(), CHUNK_BYTES)

    def _read_input(self, room: int) -> None:
        """Send what is there, in several steps while nothing else waits: looking around costs as much as a step."""
        for _ in range(MAX_STEPS if self._source.never_waits else 1):
            data = self._source.read(room)
            if data is None:
                return
            if not data:
                self._end_input()
                return
            self.course.bytes_in += len(data)
            try:
                self._process.send(data)
            except ConnectionLostError:
                self._input_open = False  # the command's end, or the connection's, is on its way through the inbox
                return
            room = self._wants_input()
            if not room or self._process.inbox.unread:
                return

    def _end_input(self) -> None:
        self._input_open = False
        if not self._pty:
            self._process.send_eof()

    def _read_notes(self) -> None:
        try:
            data = self._peer.recv(4096, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or len(self._notes) > 4096:
            self._abandon()
            return
        self._notes += data
        while len(self._notes) >= 4:
            size = int.from_bytes(self._notes[:4], "big")
            if len(self._notes) < 4 + size:
                break
            note, self._notes = self._notes[4 : 4 + size], self._notes[4 + size :]
            if note[:1] == Note.SIGNAL and len(note) == 2:
                self._on_signal(note[1])
            elif note[:1] == Note.RESIZE and self._pty:
                self._process.resize(*terminal_size(self._source.fileno()))

    def _abandon(self) -> None:
        """The shim or the harness is gone, by whatever means: nobody waits for this command any more."""
        self.course.abandoned = True
        self._input_open = False
        for stream, waiting in self._waiting.items():
            self._process.acknowledge(sum(map(len, waiting)))
            waiting.clear()
            self._sinks[stream].close()
        self._on_abandoned()
