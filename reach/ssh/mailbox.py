"""What a server's messages on a channel become: events in an inbox, counted against what the server may send."""

from __future__ import annotations

import threading
from typing import Any

import paramiko
from paramiko.common import (
    MSG_CHANNEL_CLOSE,
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EOF,
    MSG_CHANNEL_EXTENDED_DATA,
    MSG_CHANNEL_FAILURE,
    MSG_CHANNEL_REQUEST,
    MSG_CHANNEL_SUCCESS,
    MSG_CHANNEL_WINDOW_ADJUST,
)

from reach.ssh.process import STDERR, STDOUT, Closed, Event, Exited, Inbox, Output, OutputEnded, Sendable

MAX_UNREAD_EVENTS = 1 << 16
"""Events of one channel that nobody has taken yet: only a server that floods comes to so many."""


class Mailbox:
    """The reach side of one channel. Filled by the thread that reads the connection."""

    def __init__(self, window_bytes: int) -> None:
        self.inbox = Inbox()
        self.has_ended = False
        self.received_bytes = 0
        self.granted_bytes = window_bytes
        """How much the server was allowed to send so far. Written by the process's own thread alone."""
        self.answered = threading.Event()
        self.accepted: list[bool] = []
        """The server's answers to our requests, in order."""

    def put_output(self, stream: int, data: bytes) -> None:
        """Raises: SSHException when the server sends more than it was allowed to: the connection ends."""
        self.received_bytes += len(data)
        if self.received_bytes > self.granted_bytes:
            raise paramiko.SSHException("the server sends more than the window that it was given")
        self._put(Output(stream, data))

    def put(self, event: Event) -> None:
        """Raises: SSHException when the server floods the channel."""
        if isinstance(event, Exited) or (isinstance(event, Closed) and not event.lost):
            self.has_ended = True
        self._put(event)

    def _put(self, event: Event) -> None:
        if self.inbox.unread > MAX_UNREAD_EVENTS:
            raise paramiko.SSHException("the server floods a channel with messages")
        self.inbox.put(event)

    def answer(self, accepted: bool) -> None:
        self.accepted.append(accepted)
        self.answered.set()


def _mailbox(channel: paramiko.Channel) -> Mailbox | None:
    return getattr(channel, "reach_mailbox", None)


def _put(channel: paramiko.Channel, event: Event) -> None:
    mailbox = _mailbox(channel)
    if mailbox is not None:
        mailbox.put(event)


def _on_data(channel: paramiko.Channel, message: paramiko.Message) -> None:
    mailbox = _mailbox(channel)
    if mailbox is not None:
        mailbox.put_output(STDOUT, message.get_binary())


def _on_extended_data(channel: paramiko.Channel, message: paramiko.Message) -> None:
    mailbox = _mailbox(channel)
    code = message.get_int()
    if mailbox is not None:
        mailbox.put_output(STDERR if code == 1 else STDOUT, message.get_binary())


def _on_request(channel: paramiko.Channel, message: paramiko.Message) -> None:
    """Source: RFC 4254 section 6.10."""
    kind = message.get_text()
    wants_reply = message.get_boolean()
    if kind == "exit-status":
        _put(channel, Exited(message.get_int() & 0xFF))
    elif kind == "exit-signal":
        _put(channel, Exited(None, message.get_text()))
    if not wants_reply:
        return
    message.rewind()
    message.get_int()
    channel._handle_request(message)  # type: ignore[attr-defined]


def _on_success(channel: paramiko.Channel, _message: paramiko.Message) -> None:
    mailbox = _mailbox(channel)
    if mailbox is not None:
        mailbox.answer(True)


def _on_failure(channel: paramiko.Channel, _message: paramiko.Message) -> None:
    mailbox = _mailbox(channel)
    if mailbox is not None:
        mailbox.answer(False)


def _on_eof(channel: paramiko.Channel, message: paramiko.Message) -> None:
    channel._handle_eof(message)  # type: ignore[attr-defined]
    _put(channel, OutputEnded())


def _on_close(channel: paramiko.Channel, message: paramiko.Message) -> None:
    """Our own CLOSE is left to the process's thread. Sent by this one it could overtake what that one is just sending,
    and sshd ends the connection of who speaks of a channel that is gone."""
    mailbox = _mailbox(channel)
    if mailbox is None:
        channel._handle_close(message)  # type: ignore[attr-defined]
    else:
        mark_closed(channel)
        channel.transport._unlink_channel(channel.chanid)  # type: ignore[union-attr]
        mailbox.put(Closed(lost=False))
        mailbox.answered.set()


def mark_closed(channel: paramiko.Channel) -> None:
    """Have every later use of CHANNEL fail, without a word to the server."""
    inner: Any = channel
    with inner.lock:
        if not channel.closed:
            inner._set_closed()


def _on_window_adjust(channel: paramiko.Channel, message: paramiko.Message) -> None:
    """Whoever waits for room found none: an event for each of the thousand adjustments of a long input would be read
    for nothing."""
    added = message.get_int()
    message.rewind()
    message.get_int()
    channel._window_adjust(message)  # type: ignore[attr-defined]
    if channel.out_window_size <= added:  # there was none, or somebody takes some just now
        _put(channel, Sendable())


CHANNEL_HANDLERS: dict[int, Any] = {
    MSG_CHANNEL_SUCCESS: _on_success,
    MSG_CHANNEL_FAILURE: _on_failure,
    MSG_CHANNEL_DATA: _on_data,
    MSG_CHANNEL_EXTENDED_DATA: _on_extended_data,
    MSG_CHANNEL_REQUEST: _on_request,
    MSG_CHANNEL_EOF: _on_eof,
    MSG_CHANNEL_CLOSE: _on_close,
    MSG_CHANNEL_WINDOW_ADJUST: _on_window_adjust,
}
"""By message number, as paramiko's Transport wants its handlers: called with the channel and the message."""
