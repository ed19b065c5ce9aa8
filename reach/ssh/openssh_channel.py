"""One channel of an ssh master's connection: a remote process, its window and its requests. Source: RFC 4254.

Two threads meet here: the one that reads the connection, and the one that serves the process.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Protocol

from reach.errors import ChannelOpenError, ConnectionLostError, TransportError
from reach.ssh.process import STDERR, STDOUT, Closed, Event, Exited, Inbox, Output, OutputEnded, Sendable
from reach.ssh.remote_text import printable
from reach.ssh.wire_format import Reader, WireFormatError, string, uint32

WINDOW_BYTES = 2 << 20
"""How much output may be under way for one command: bounds the broker's memory."""
PACKET_BYTES = 32768
GRANT_BYTES = WINDOW_BYTES // 8
"""So much is acknowledged at a time."""
MAX_UNREAD_EVENTS = 1 << 16
"""Events of one channel that nobody has taken yet: only a server that floods comes to so many."""
ANSWER_TIMEOUT_S = 20.0


class Message(IntEnum):
    """Message numbers. Source: RFC 4254 section 9."""

    OPEN = 90
    OPEN_CONFIRMATION = 91
    OPEN_FAILURE = 92
    WINDOW_ADJUST = 93
    DATA = 94
    EXTENDED_DATA = 95
    EOF = 96
    CLOSE = 97
    REQUEST = 98
    SUCCESS = 99
    FAILURE = 100


class Wire(Protocol):
    """Where a channel's messages go."""

    knows_eow: bool

    def send(self, message: Message, body: bytes) -> None:
        """Raises: ConnectionLostError."""

    def send_or_drop(self, message: Message, body: bytes) -> None:
        """The same where the end is told by other ways."""

    def forget(self, channel: OpensshProcess) -> None:
        """Nothing more goes to CHANNEL."""


class FloodError(WireFormatError):
    """The server sends more than it was allowed to."""


class OpensshProcess:
    """A remote process on a channel of an ssh master's connection."""

    def __init__(self, wire: Wire, number: int) -> None:
        self.inbox = Inbox()
        self.number = number
        """The channel's number here; the server has its own."""
        self.has_ended = False
        self._wire = wire
        self._theirs: int | None = None
        self._changed = threading.Condition()
        self._requesting = threading.Lock()
        """Keeps requests in the order of their answers, and before a CLOSE."""
        self._refusal: str | None = None
        self._answers: deque[bool] = deque()
        self._ignored_answers: deque[bool] = deque()
        """For each request whose answer is still to come: whether nobody waits for it."""
        self._signs = 0
        """Answers that nobody waits for."""
        self._room = 0
        """Bytes of input that the server takes now."""
        self._packet_bytes = PACKET_BYTES
        self._received = 0
        self._granted = WINDOW_BYTES
        self._owed = 0
        """Bytes acknowledged here and not yet to the server."""
        self._eof_sent = self._close_sent = self._is_closed = self._is_lost = False

    @property
    def is_open(self) -> bool:
        return self._theirs is not None and not (self._is_closed or self._close_sent or self._is_lost)

    # --- opening, for the process's own thread

    def open(self) -> None:
        """Ask the server for the channel and wait for its answer. Once only.

        Raises: ChannelOpenError, ConnectionLostError; TransportError when it does not answer.
        """
        body = string("session") + uint32(self.number) + uint32(WINDOW_BYTES) + uint32(PACKET_BYTES)
        self._wire.send(Message.OPEN, body)
        self._await(lambda: self._theirs is not None or self._refusal is not None)
        refusal = self._refusal
        if refusal is not None:
            raise ChannelOpenError(f"the server refused one more channel ({refusal}); its MaxSessions limits them")

    def request(self, kind: str, fields: bytes) -> None:
        """Send a request that the server has to answer, without waiting for that. Raises: ConnectionLostError."""
        self._send_request(kind, fields, ignored=False)

    def await_answers(self, count: int) -> bool:
        """Whether the server agreed to each of COUNT requests.

        Raises: ConnectionLostError; TransportError when it does not answer.
        """
        self._await(lambda: len(self._answers) >= count or False in self._answers or self._is_closed)
        return len(self._answers) >= count and all(self._answers)

    def ask_for_a_sign(self) -> None:
        """Send a request whose answer, whichever, shows that the server is there. For any thread."""
        self._send_request("keepalive@openssh.com", b"", ignored=True)

    def gets_a_sign(self, timeout_s: float) -> bool:
        """Whether the server answers such a request in time."""
        with self._changed:
            before = self._signs
        with contextlib.suppress(ConnectionLostError):
            self.ask_for_a_sign()
        with self._changed:
            return self._changed.wait_for(lambda: self._signs != before, timeout_s)

    def _send_request(self, kind: str, fields: bytes, *, ignored: bool) -> None:
        with self._requesting:
            if not self.is_open:
                return
            self._ignored_answers.append(ignored)
            self._wire.send(Message.REQUEST, self._head() + string(kind) + b"\1" + fields)

    def _await(self, is_there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        with self._changed:
            while not is_there():
                if self._is_lost:
                    raise ConnectionLostError("the connection ended while a channel was opened")
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    raise TransportError(f"the server did not answer within {ANSWER_TIMEOUT_S:g} s")

    def _head(self) -> bytes:
        return uint32(self._theirs or 0)

    # --- what the server says, for the thread that reads the connection

    def take(self, message: Message, body: Reader) -> None:
        """Raises: WireFormatError when the server breaks the protocol: the connection ends."""
        if message is Message.DATA:
            self._take_output(STDOUT, body.string())
        elif message is Message.EXTENDED_DATA:
            code = body.uint32()
            self._take_output(STDERR if code == 1 else STDOUT, body.string())
        elif message is Message.WINDOW_ADJUST:
            self._note(room=body.uint32())
            self._put(Sendable())
        elif message is Message.REQUEST:
            self._take_request(body)
        elif message is Message.EOF:
            self._put(OutputEnded())
        elif message is Message.CLOSE:
            self._take_close()
        else:
            self._take_answer(message, body)

    def _take_answer(self, message: Message, body: Reader) -> None:
        with self._changed:
            if message is Message.OPEN_CONFIRMATION and self._theirs is None:
                self._theirs, self._room, self._packet_bytes = body.uint32(), body.uint32(), max(1, body.uint32())
                if self._close_sent:  # it came too late for whoever asked
                    self._wire.send_or_drop(Message.CLOSE, self._head())
            elif message is Message.OPEN_FAILURE and self._theirs is None:
                body.uint32()
                self._refusal = printable(body.string()) or "it gave no reason"
                self._wire.forget(self)
            elif message in (Message.SUCCESS, Message.FAILURE) and self._ignored_answers:
                if self._ignored_answers.popleft():
                    self._signs += 1
                else:
                    self._answers.append(message is Message.SUCCESS)
            self._changed.notify_all()

    def _take_output(self, stream: int, data: bytes) -> None:
        self._received += len(data)
        if self._received > self._granted:
            raise FloodError("the server sends more than the window that it was given")
        self._put(Output(stream, data))

    def _take_request(self, body: Reader) -> None:
        """Source: RFC 4254 section 6.10."""
        kind, wants_answer = body.string(), body.boolean()
        if kind == b"exit-status":
            self._put(Exited(body.uint32() & 0xFF))
        elif kind == b"exit-signal":
            self._put(Exited(None, body.string().decode("ascii", "replace")))
        elif wants_answer:
            self._wire.send_or_drop(Message.FAILURE, self._head())

    def _take_close(self) -> None:
        """Our own CLOSE is left to the process's thread. Sent by this one it could overtake what that one is just
        sending, and sshd ends the connection of who speaks of a channel that is gone."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._close_sent:
            self._wire.forget(self)
        self._put(Closed(lost=False))

    def lose(self) -> None:
        """The connection ended."""
        with self._changed:
            if self._is_closed:
                return
            self._is_lost = True
            self._changed.notify_all()
        self.inbox.put(Closed(lost=True))

    def _note(self, *, room: int) -> None:
        with self._changed:
            self._room += room
            self._changed.notify_all()

    def _put(self, event: Event) -> None:
        if isinstance(event, Exited) or (isinstance(event, Closed) and not event.lost):
            self.has_ended = True
        if self.inbox.unread > MAX_UNREAD_EVENTS:
            raise FloodError("the server floods a channel with messages")
        self.inbox.put(event)

    # --- the process's own thread

    def acknowledge(self, size: int) -> None:
        self._owed += size
        if self._owed >= GRANT_BYTES and self.is_open:
            granted, self._owed = self._owed, 0
            self._granted += granted
            self._wire.send_or_drop(Message.WINDOW_ADJUST, self._head() + uint32(granted))

    def sendable(self) -> int:
        return self._room if self.is_open and not self._eof_sent else 0

    def send(self, data: bytes) -> None:
        sent = 0
        while sent < len(data):
            with self._changed:
                self._changed.wait_for(lambda: self._room > 0 or not self.is_open)
                if not self.is_open or self._eof_sent:
                    raise ConnectionLostError("the channel closed while input was sent")
                step = min(self._room, self._packet_bytes, len(data) - sent)
                self._room -= step
            self._wire.send(Message.DATA, self._head() + string(data[sent : sent + step]))
            sent += step

    def send_eof(self) -> None:
        if self.is_open and not self._eof_sent:
            self._eof_sent = True
            self._wire.send_or_drop(Message.EOF, self._head())

    def resize(self, columns: int, rows: int) -> None:
        if self.is_open:
            fields = uint32(columns) + uint32(rows) + uint32(0) + uint32(0)
            self._wire.send_or_drop(Message.REQUEST, self._head() + string("window-change") + b"\0" + fields)

    def stop_output(self) -> bool:
        """Source: OpenSSH's PROTOCOL, section 2.1."""
        if self.is_open:
            self._wire.send_or_drop(Message.REQUEST, self._head() + string("eow@openssh.com") + b"\0")
        return self._wire.knows_eow

    def close(self) -> None:
        self.inbox.close()
        with self._requesting:  # nothing follows a CLOSE
            with self._changed:
                is_due = self._theirs is not None and not self._close_sent
                self._close_sent = True
                self._changed.notify_all()
            if is_due:
                self._wire.send_or_drop(Message.CLOSE, self._head())
        if self._is_closed:
            self._wire.forget(self)
