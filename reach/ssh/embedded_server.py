"""The demo target's SSH server: one account, one key, commands and shells, nothing else.

It listens on 127.0.0.1 alone and trusts whoever holds the one client key. Everybody else is a stranger.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import socket
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import paramiko
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    MSG_CHANNEL_REQUEST,
    MSG_GLOBAL_REQUEST,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_SUCCEEDED,
    cMSG_CHANNEL_REQUEST,
)

from reach.ssh.embedded_program import Command, Program, Pty

_USER_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/games"
_ROOT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NAMED_SIGNALS = frozenset("ABRT ALRM FPE HUP ILL INT KILL PIPE QUIT SEGV TERM USR1 USR2".split())
"""Source: RFC 4254, section 6.10."""


class EmbeddedServer:
    """Accepts connections from its making until close()."""

    def __init__(self, home: Path, host_key: paramiko.PKey, client_key: paramiko.PKey) -> None:
        self._home = home
        self._host_key = host_key
        self._client_key = client_key
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._transports: set[paramiko.Transport] = set()
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept_each, name="accept", daemon=True).start()

    def close(self) -> None:
        """End the listening and all connections; what runs on the target stays."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for transport in list(self._transports):
            transport.close()

    def _accept_each(self) -> None:
        while True:
            try:
                connection, peer = self._listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError):  # it may be gone by now
                self._serve(connection, peer[1])

    def _serve(self, connection: socket.socket, peer_port: int) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = _Transport(connection)
        transport.add_server_key(self._host_key)
        account = _Connection(transport, self._home, self._client_key, peer_port, self.port)
        self._transports = {each for each in self._transports if each.is_alive()} | {transport}
        transport.start_server(event=threading.Event(), server=account)


class _Transport(paramiko.Transport):
    """paramiko's, with what it lacks of a server's side: hooks, a home for channels, the exit-signal message.

    And with one thing put right: what its own thread has to say about channels waits while keys are exchanged
    anew. paramiko (5.1.0) sends some of it, which ends the connection, or waits for what only this thread can end.
    """

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self._open_channels: dict[int, paramiko.Channel] = {}
        self._held_back: list[paramiko.Message] = []

    def _send_message(self, message: paramiko.Message) -> None:
        if not self._hold_back(message):
            super()._send_message(message)  # type: ignore[misc]

    def _send_user_message(self, message: paramiko.Message) -> None:
        if not self._hold_back(message):
            super()._send_user_message(message)  # type: ignore[misc]

    def _hold_back(self, message: paramiko.Message) -> bool:
        is_wrong_time = threading.current_thread() is self and not self.clear_to_send.is_set()
        is_about_channels = message.asbytes()[0] >= MSG_GLOBAL_REQUEST
        if is_wrong_time and is_about_channels:
            self._held_back.append(message)
        return is_wrong_time and is_about_channels

    def _parse_newkeys(self, message: paramiko.Message) -> None:
        super()._parse_newkeys(message)  # type: ignore[misc]
        held_back, self._held_back = self._held_back, []
        for each in held_back:
            self._send_user_message(each)

    def _queue_incoming_channel(self, channel: paramiko.Channel) -> None:
        # paramiko itself holds channels weakly, and would queue this one for an accept() that is never called.
        self._open_channels[channel.get_id()] = channel

    def _unlink_channel(self, chanid: int) -> None:
        super()._unlink_channel(chanid)  # type: ignore[misc]
        self._open_channels.pop(chanid, None)

    @staticmethod
    def _request_then_start(channel: paramiko.Channel, message: paramiko.Message) -> None:
        # A program may only start once the reply to its request has gone out, else its output could overtake it.
        channel._handle_request(message)  # type: ignore[attr-defined]
        connection = channel.get_transport().server_object
        if isinstance(connection, _Connection):
            connection.start_accepted()

    _channel_handler_table: ClassVar[dict[int, Callable[..., None]]] = {
        **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined]
        MSG_CHANNEL_REQUEST: _request_then_start,
    }

    def send_exit_signal(self, channel: paramiko.Channel, number: signal.Signals, has_core: bool) -> None:
        """Tell the client that a signal ended the program. Source: RFC 4254, section 6.10."""
        name = number.name.removeprefix("SIG")
        message = paramiko.Message()
        message.add_byte(cMSG_CHANNEL_REQUEST)
        message.add_int(channel.remote_chanid)
        message.add_string("exit-signal")
        message.add_boolean(False)
        message.add_string(name if name in _NAMED_SIGNALS else f"{name}@openssh.com")
        message.add_boolean(has_core)
        message.add_string("")
        message.add_string("")
        self._send_user_message(message)


class _Connection(paramiko.ServerInterface):
    """What one connection may do. Its methods are called in the transport's own thread."""

    def __init__(
        self, transport: _Transport, home: Path, client_key: paramiko.PKey, peer_port: int, port: int
    ) -> None:
        self._transport = transport
        self._home = home
        self._client_key = client_key
        self._ports = peer_port, port
        self._account = pwd.getpwuid(os.geteuid())
        self._shell = self._account.pw_shell or "/bin/sh"
        self._ptys: dict[int, Pty] = {}
        # A program that has ended is gone from here: its own thread was the last to hold it.
        self._programs: WeakValueDictionary[int, Program] = WeakValueDictionary()
        self._accepted: Program | None = None

    def start_accepted(self) -> None:
        """Start the program whose request was granted last."""
        if self._accepted:
            self._accepted.start()
            self._accepted = None

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        is_known = username == self._account.pw_name and key == self._client_key
        return AUTH_SUCCESSFUL if is_known else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED if kind == "session" else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_pty_request(
        self, channel: paramiko.Channel, term: bytes, width: int, height: int, *_: Any
    ) -> bool:
        self._ptys[channel.get_id()] = Pty(os.fsdecode(term), width, height)
        return True

    def check_channel_window_change_request(
        self, channel: paramiko.Channel, width: int, height: int, *_: Any
    ) -> bool:
        program = self._programs.get(channel.get_id())
        if program:
            program.resize(width, height)
        return program is not None

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        return self._accept(channel, [self._shell, "-c", command])

    def check_channel_shell_request(self, channel: paramiko.Channel) -> bool:
        return self._accept(channel, [self._shell, "-l"])

    def _accept(self, channel: paramiko.Channel, argv: list[str | bytes]) -> bool:
        number = channel.get_id()
        if number in self._programs:
            return False
        pty = self._ptys.pop(number, None)
        command = Command(argv, self._environment(), str(self._home))
        send_exit_signal = partial(self._transport.send_exit_signal, channel)
        self._accepted = self._programs[number] = Program(channel, command, pty, send_exit_signal)
        return True

    def _environment(self) -> dict[str, str]:
        """What a login has with Debian's sshd, and nothing of the environment that this server has."""
        peer_port, port = self._ports
        return {
            "USER": self._account.pw_name,
            "LOGNAME": self._account.pw_name,
            "HOME": str(self._home),
            "PATH": _USER_PATH if os.geteuid() else _ROOT_PATH,
            "SHELL": self._shell,
            "SSH_CLIENT": f"127.0.0.1 {peer_port} {port}",
            "SSH_CONNECTION": f"127.0.0.1 {peer_port} 127.0.0.1 {port}",
        }
