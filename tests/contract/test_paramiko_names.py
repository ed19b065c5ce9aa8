"""reach leans on names of paramiko that are not its public ones: they are there, and do what they did."""

from __future__ import annotations

import inspect
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import paramiko
import pytest
from paramiko.common import MSG_CHANNEL_WINDOW_ADJUST
from paramiko.packet import Packetizer

from reach.errors import ChannelOpenError, ConnectionLostError, TransportError
from reach.ssh import transport
from reach.ssh.keepalive import KeepaliveRule
from reach.ssh.mailbox import CHANNEL_HANDLERS
from reach.ssh.process import Closed, Exited, Output, OutputEnded, Sendable
from support.hostile_server import HostileServer, connected_to

QUICK = KeepaliveRule(0.05, 3)


@pytest.mark.parametrize(
    "name",
    [
        "_channel_handler_table", "_next_channel", "_parse_channel_open_failure",
        "_parse_disconnect", "_parse_newkeys", "_parse_request_failure", "_parse_request_success",
        "_send_user_message", "is_active", "run",
    ],
)  # fmt: skip
def test_a_transport_has(name: str) -> None:
    assert hasattr(paramiko.Transport, name)


@pytest.mark.parametrize(
    "name",
    [
        "_check_add_window", "_handle_close", "_handle_eof", "_handle_request", "_set_transport", "_set_window",
        "_wait_for_send_window", "_window_adjust", "resize_pty", "shutdown_write",
    ],
)  # fmt: skip
def test_a_channel_has(name: str) -> None:
    assert hasattr(paramiko.Channel, name)


def test_every_message_that_is_handled_anew_is_one_of_paramikos() -> None:
    assert CHANNEL_HANDLERS.keys() <= paramiko.Transport._channel_handler_table.keys()  # type: ignore[attr-defined]


def test_a_packetizer_reads_through_the_methods_that_are_bounded() -> None:
    assert "packetizer_class" in inspect.signature(paramiko.Transport.__init__).parameters
    assert "self.read_all(" in inspect.getsource(Packetizer.read_message)
    assert "self._read_timeout(" in inspect.getsource(Packetizer.readline)


def test_instances_have_what_is_set_and_read_on_them() -> None:
    with connected_to(HostileServer(lambda *_: None)) as connection:
        here = connection._transport
        for name in ("channel_events", "channels_seen", "_channels", "lock", "packetizer", "sock", "clear_to_send"):
            assert hasattr(here, name), name
        process = connection.start("x")
        for name in ("remote_chanid", "out_window_size", "out_max_packet_size", "eof_sent", "closed", "lock"):
            assert hasattr(process._channel, name), name
        process.close()


def test_output_exit_and_close_come_as_events() -> None:
    def run(server: HostileServer, channel: paramiko.Channel, command: bytes) -> None:
        channel.recv(2)  # the server's answer to the request is out then
        channel.sendall(b"out")
        channel.sendall_stderr(b"err")
        channel.send_exit_status(3)
        channel.close()

    with connected_to(HostileServer(run)) as connection:
        process = connection.start("x")
        process.send(b"go")
        seen: list[object] = []
        while Closed(lost=False) not in seen:
            seen += process.inbox.take()
        for event in (Output(1, b"out"), Output(2, b"err"), Exited(3), OutputEnded()):
            assert event in seen
        assert process.has_ended
        process.close()


def test_each_of_many_who_are_refused_at_once_is_told() -> None:
    """paramiko keeps one refusal for all of them, and its own open_session would tell one."""
    with connected_to(HostileServer(lambda *_: None, max_channels=3)) as connection:

        def ask(_: int) -> bool:
            try:
                connection.start("x")
            except ChannelOpenError:
                return False
            return True

        with ThreadPoolExecutor(20) as pool:
            assert sorted(pool.map(ask, range(20))) == [False] * 17 + [True] * 3


def test_the_end_of_a_connection_is_told_to_whoever_watches() -> None:
    server, ended = HostileServer(lambda *_: None), threading.Event()
    with connected_to(server) as connection:
        process = connection.start("x")
        connection.on_end(ended.set)
        assert server.transport
        server.transport.close()
        assert ended.wait(20)
        assert Closed(lost=True) in process.inbox.take()
        assert not process.has_ended
        with pytest.raises(ConnectionLostError):
            connection.start("y")
        again = threading.Event()
        connection.on_end(again.set)
        assert again.is_set()


def test_a_keepalive_is_answered_and_counts_as_a_sign_of_life() -> None:
    with connected_to(HostileServer(), QUICK) as connection:
        heard = connection._transport.heard_s()
        deadline = time.monotonic() + 20
        while connection._transport.heard_s() == heard:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert connection.answers()


def test_channel_numbers_are_forgotten_and_late_messages_for_them_ignored() -> None:
    with connected_to(HostileServer(lambda *_: None)) as connection:
        for _ in range(50):
            connection.start("x").close()
        assert connection.is_alive
        assert 49 in connection._transport.channels_seen
        assert 50_000 not in connection._transport.channels_seen
        assert not connection._transport.channel_events


def test_a_server_that_never_answers_an_open_or_a_request_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "OPEN_TIMEOUT_S", 0.2)
    monkeypatch.setattr(transport, "REQUEST_TIMEOUT_S", 0.2)
    hold = threading.Event()

    class Mute(HostileServer):
        def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
            hold.wait(20)
            return True

    with connected_to(Mute()) as connection:
        with pytest.raises(TransportError, match="did not answer"):
            connection.start("x")
        with pytest.raises(TransportError, match="did not open"):  # the server's thread is still held
            connection.start("y")
        hold.set()


def test_room_is_told_of_to_whoever_found_none_and_to_nobody_else() -> None:
    def adjust(server: HostileServer, channel: paramiko.Channel) -> None:
        message = paramiko.Message()
        message.add_byte(bytes([MSG_CHANNEL_WINDOW_ADJUST]))
        message.add_int(channel.remote_chanid)  # type: ignore[attr-defined]
        message.add_int(10)
        server._send(message)

    def run(server: HostileServer, channel: paramiko.Channel, command: bytes) -> None:
        adjust(server, channel)
        channel.sendall(b"first")
        channel.recv(1)
        adjust(server, channel)

    with connected_to(HostileServer(run)) as connection:
        process = connection.start("x")
        seen: list[object] = []
        while Output(1, b"first") not in seen:
            seen += process.inbox.take()
        assert Sendable() not in seen
        channel: Any = process._channel
        channel.out_window_size = 7
        process.send(b"1234567")
        while not process.sendable():
            time.sleep(0.01)
        seen, deadline = [], time.monotonic() + 20
        while Sendable() not in seen:
            assert time.monotonic() < deadline
            seen += process.inbox.take()
        assert process.sendable() == 10
        process.close()
