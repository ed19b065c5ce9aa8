"""The paramiko transport: connections whose channels report into inboxes.

paramiko keeps exit signals to itself, wakes ten times a second to look whether it was stopped, and waits without end
for a server that does not answer; all three are changed here, by the message table and the socket time-out of its
Transport. A contract test holds paramiko to these names. Nothing that the server sends is trusted: it is kept to the
window that it was given, and to packets of a sensible size.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import paramiko
from paramiko.common import (
    MSG_CHANNEL_CLOSE,
    MSG_CHANNEL_OPEN,
    MSG_CHANNEL_REQUEST,
    MSG_CHANNEL_WINDOW_ADJUST,
    MSG_GLOBAL_REQUEST,
)

from reach.errors import ChannelOpenError, ConnectionLostError, TransportError
from reach.ssh.keepalive import Keepalive, KeepaliveRule
from reach.ssh.mailbox import CHANNEL_HANDLERS, Mailbox, mark_closed
from reach.ssh.packetizer import BoundedPacketizer, ChannelData
from reach.ssh.process import PTY_MODES, Closed, PtySize
from reach.ssh.remote_text import printable

WINDOW_BYTES = 2 << 20
"""How much output may be under way for one command: bounds the broker's memory."""
PACKET_BYTES = 32768
MARGIN_BYTES = 64
"""What paramiko stays below the size of a packet that the server allows. OpenSSH means the data alone, as RFC 4254 says
in section 5.2; and two packets then take what a pipe holds, not two and a third that is nearly empty."""
OPEN_TIMEOUT_S = 20.0
REQUEST_TIMEOUT_S = 20.0
IDLE_WAKE_S = 15.0

_GONE = (OSError, EOFError, paramiko.SSHException)


class _SeenChannels:
    """Which channel numbers were ever in use: paramiko keeps a dictionary of all of them, which only grows."""

    def __init__(self) -> None:
        self._top = -1

    def __setitem__(self, number: int, _seen: bool) -> None:
        self._top = max(self._top, number)

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and 0 <= number <= self._top


class InboxTransport(paramiko.Transport):
    """A client transport that hands what its channels receive to their inboxes."""

    _channel_handler_table: ClassVar[dict[int, Any]] = {
        **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined]
        **CHANNEL_HANDLERS,
    }

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **{"packetizer_class": BoundedPacketizer, **keywords})
        self.channels_seen: Any = _SeenChannels()
        self._refusals: dict[int, str] = {}
        """What the server said when it refused a channel, by our number, until the one who asked has read it."""
        self._watchers: dict[object, Callable[[], None]] = {}
        self._watchers_lock = threading.Lock()
        self._has_ended = False

    def heard_s(self) -> float:
        """When the server's last packet came, by awake_clock_s."""
        packetizer: Any = self.packetizer
        return float(packetizer.heard_s)

    def run(self) -> None:
        try:
            super().run()
        finally:
            with self._watchers_lock:
                self._has_ended = True
                watchers, self._watchers = list(self._watchers.values()), {}
            for watcher in watchers:
                watcher()

    def _parse_request_success(self, message: paramiko.Message) -> None:
        """Answers to a keepalive: that they came is all there is to know."""

    _parse_request_failure = _parse_request_success

    def open_process_channel(self) -> paramiko.Channel:
        """A new session channel. paramiko keeps one refusal for all who ask at once, so that some are told nothing.

        Raises: ChannelOpenError, ConnectionLostError; TransportError when the server does not answer.
        """
        mine: Any = self
        answered = threading.Event()
        with mine.lock:
            number: int = mine._next_channel()
            channel = paramiko.Channel(number)
            mine._channels.put(number, channel)
            mine.channel_events[number] = answered
            mine.channels_seen[number] = True
            window: Any = channel
            window._set_transport(self)
            window._set_window(WINDOW_BYTES, PACKET_BYTES)
        message = paramiko.Message()
        message.add_byte(bytes([MSG_CHANNEL_OPEN]))
        message.add_string("session")
        for field in (number, WINDOW_BYTES, PACKET_BYTES):
            message.add_int(field)
        self.watch(answered, answered.set)
        try:
            self.send_or_drop(message)
            in_time = answered.wait(OPEN_TIMEOUT_S)
        finally:
            self.unwatch(answered)
        return self._opened(channel, number, in_time)

    def _opened(self, channel: paramiko.Channel, number: int, in_time: bool) -> paramiko.Channel:
        mine: Any = self
        with mine.lock:
            refusal = self._refusals.pop(number, None)
            is_open = number not in mine.channel_events
            mine.channel_events.pop(number, None)
        if refusal is not None:
            raise ChannelOpenError(f"the server refused one more channel ({refusal}); its MaxSessions limits them")
        if not self.is_active():
            raise ConnectionLostError("the connection ended while a channel was opened")
        if not in_time or not is_open:
            mine._channels.delete(number)
            raise TransportError(f"the server did not open a channel within {OPEN_TIMEOUT_S:g} s")
        if "OpenSSH" in mine.remote_version:
            opened: Any = channel
            opened.out_max_packet_size += MARGIN_BYTES
        return channel

    def _parse_channel_open_failure(self, message: paramiko.Message) -> None:
        number, _reason, text = message.get_int(), message.get_int(), message.get_text()
        mine: Any = self
        with mine.lock:
            answered = mine.channel_events.pop(number, None)
            if answered is None:
                return  # nobody asked for that one
            mine._channels.delete(number)
            self._refusals[number] = printable(text)
        answered.set()

    def watch(self, key: object, callback: Callable[[], None]) -> None:
        """Have CALLBACK called once at the connection's end, or at once where it has ended."""
        with self._watchers_lock:
            if not self._has_ended:
                self._watchers[key] = callback
                return
        callback()

    def unwatch(self, key: object) -> None:
        with self._watchers_lock:
            self._watchers.pop(key, None)

    def send_or_drop(self, message: paramiko.Message) -> None:
        """Send MESSAGE; where the connection is gone, its end is told by other ways."""
        try:
            self._send_user_message(message)  # type: ignore[attr-defined]
        except _GONE:
            pass


class ParamikoProcess:
    """A remote process on a paramiko channel."""

    def __init__(self, transport: InboxTransport, channel: paramiko.Channel) -> None:
        self._transport = transport
        self._channel = channel
        self._mailbox = Mailbox(WINDOW_BYTES)
        self._close_sent = False
        self.inbox = self._mailbox.inbox
        channel.reach_mailbox = self._mailbox  # type: ignore[attr-defined]
        transport.watch(self, self._connection_ended)

    def _connection_ended(self) -> None:
        self.inbox.put(Closed(lost=True))
        self._mailbox.answered.set()

    @property
    def has_ended(self) -> bool:
        return self._mailbox.has_ended

    def request(self, kind: str, *fields: str | int | bytes) -> None:
        """Send a channel request that the server has to answer, without waiting for that. Source: RFC 4254, 6.2, 6.5"""
        message = self._message(MSG_CHANNEL_REQUEST)
        message.add_string(kind)
        message.add_boolean(True)
        for each in fields:
            if isinstance(each, int):
                message.add_int(each)
            else:
                message.add_string(each)
        transport: Any = self._transport
        transport._send_user_message(message)

    def await_answers(self, count: int) -> bool:
        """Whether the server agreed to each of COUNT requests.

        Raises: ConnectionLostError; TransportError when it does not answer.
        """
        mailbox, deadline = self._mailbox, time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            mailbox.answered.clear()
            was_closed = self._channel.closed  # asked first: whatever was answered came before the close
            if False in mailbox.accepted:
                return False
            if len(mailbox.accepted) >= count:
                return True
            if not self._transport.is_active():
                raise ConnectionLostError("the connection ended while a channel was opened")
            if was_closed:
                return False
            if not mailbox.answered.wait(deadline - time.monotonic()):
                raise TransportError(f"the server did not answer within {REQUEST_TIMEOUT_S:g} s")

    def _message(self, kind: int) -> paramiko.Message:
        message = paramiko.Message()
        message.add_byte(bytes([kind]))
        message.add_int(self._channel.remote_chanid)
        return message

    def acknowledge(self, size: int) -> None:
        channel: Any = self._channel
        credit = channel._check_add_window(size)
        if credit > 0:
            self._mailbox.granted_bytes += credit
            message = self._message(MSG_CHANNEL_WINDOW_ADJUST)
            message.add_int(credit)
            self._transport.send_or_drop(message)

    def sendable(self) -> int:
        channel: Any = self._channel
        return 0 if channel.closed or channel.eof_sent else max(0, channel.out_window_size)

    def send(self, data: bytes) -> None:
        transport: Any = self._transport
        left = memoryview(data)
        try:
            while left:
                step = self._take_room(len(left))
                if not step:  # the channel takes no more
                    raise ConnectionLostError("the channel closed while input was sent")
                transport._send_user_message(ChannelData(self._channel.remote_chanid, left[:step]))
                left = left[step:]
        except _GONE:
            raise ConnectionLostError("the channel closed while input was sent") from None

    def _take_room(self, size: int) -> int:
        """Wait for room for input; how much of SIZE goes into one packet, 0 where the channel is closed."""
        channel: Any = self._channel
        with channel.lock:
            return int(channel._wait_for_send_window(size))

    def send_eof(self) -> None:
        with _ignoring_the_end():
            self._channel.shutdown_write()

    def resize(self, columns: int, rows: int) -> None:
        with _ignoring_the_end():
            self._channel.resize_pty(columns, rows)

    def stop_output(self) -> bool:
        """Source: OpenSSH's PROTOCOL, section 2.1."""
        message = self._message(MSG_CHANNEL_REQUEST)
        message.add_string("eow@openssh.com")
        message.add_boolean(False)
        self._transport.send_or_drop(message)
        transport: Any = self._transport
        return "OpenSSH" in transport.remote_version

    def close(self) -> None:
        self._transport.unwatch(self)
        self.inbox.close()
        if not self._close_sent:
            self._close_sent = True
            mark_closed(self._channel)
            self._transport.send_or_drop(self._message(MSG_CHANNEL_CLOSE))


@contextmanager
def _ignoring_the_end() -> Iterator[None]:
    """For what means nothing any more where the channel or the connection is gone."""
    try:
        yield
    except _GONE:
        pass


class ParamikoConnection:
    """An authenticated connection through paramiko.

    A keepalive asks for an answer, so that a peer whose machine still acknowledges TCP is noticed too. Source:
    OpenSSH's keepalive@openssh.com; RFC 4254 section 4: every server answers a request that it does not know.
    """

    label = "paramiko"

    def __init__(self, transport: InboxTransport, rule: KeepaliveRule | None = None) -> None:
        self._transport = transport
        # The socket's time-out is how often an idle connection's thread wakes to look whether it was stopped.
        self._socket: Any = transport.sock
        self._socket.settimeout(IDLE_WAKE_S)
        self._keepalive = Keepalive(
            rule or KeepaliveRule(),
            heard_s=transport.heard_s,
            ask=self._ask,
            is_alive=lambda: self.is_alive,
            give_up=self.close,
        )

    @property
    def is_alive(self) -> bool:
        return bool(self._transport.is_active())

    def answers(self) -> bool:
        return self._keepalive.answers()

    def on_end(self, callback: Callable[[], None]) -> None:
        self._transport.watch(callback, callback)

    def _ask(self) -> None:
        message = paramiko.Message()
        message.add_byte(bytes([MSG_GLOBAL_REQUEST]))
        message.add_string("keepalive@openssh.com")
        message.add_boolean(True)
        self._transport.send_or_drop(message)

    def start(self, command: str, *, pty: PtySize | None = None) -> ParamikoProcess:
        channel = self._transport.open_process_channel()
        try:
            process = ParamikoProcess(self._transport, channel)
        except BaseException:
            channel.close()
            raise
        try:
            self._request_shell(process, command, pty)
        except BaseException:
            process.close()
            raise
        return process

    def _request_shell(self, process: ParamikoProcess, command: str, pty: PtySize | None) -> None:
        """Ask for everything at once: one round trip."""
        try:
            if pty:
                process.request("pty-req", pty.term, pty.columns, pty.rows, 0, 0, PTY_MODES)
            process.request("exec", command)
        except _GONE:
            raise ConnectionLostError("the connection ended while a channel was opened") from None
        if not process.await_answers(2 if pty else 1):
            what = "a terminal, or to run a shell in it" if pty else "to run a shell"
            raise TransportError(f"the server refused {what}; its PermitTTY or ForceCommand may say why")

    def close(self) -> None:
        self._keepalive.stop()
        try:
            # paramiko's own close waits for its thread, which wakes when the socket is shut down
            self._socket.shutdown(socket.SHUT_RDWR)
        except (OSError, AttributeError):
            pass
        self._transport.close()
