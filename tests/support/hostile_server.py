"""An SSH server in this process that misbehaves on request, and reach's own connection to it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import paramiko
from paramiko.common import MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA, MSG_CHANNEL_REQUEST, MSG_CHANNEL_SUCCESS

from reach.ssh.keepalive import KeepaliveRule
from reach.ssh.negotiation import NegotiatingTransport
from reach.ssh.transport import InboxTransport, ParamikoConnection

OnExec = Callable[["HostileServer", paramiko.Channel, bytes], None]


class HostileServer(paramiko.ServerInterface):
    """Lets anybody in. ON_EXEC is called, in a thread, with each channel whose command was accepted."""

    def __init__(self, on_exec: OnExec | None = None, *, max_channels: int = 1000) -> None:
        self.on_exec = on_exec
        self.max_channels = max_channels
        self.opened = 0
        self.transport: paramiko.Transport | None = None
        self.answers_requests = True

    def get_allowed_auths(self, username: str) -> str:
        return "none"

    def check_auth_none(self, username: str) -> int:
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        if self.opened >= self.max_channels:
            return paramiko.OPEN_FAILED_CONNECT_FAILED
        self.opened += 1
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        if self.on_exec:
            threading.Thread(target=self._serve, args=(channel, command), daemon=True).start()
        return True

    def _serve(self, channel: paramiko.Channel, command: bytes) -> None:
        assert self.on_exec
        assert isinstance(self.transport, _ServerTransport)
        self.transport.agreed.acquire(timeout=20)  # nothing of a command comes before the answer to its request
        self.on_exec(self, channel, command)

    def check_channel_pty_request(self, *_: Any) -> bool:
        return True

    def send_data(self, channel: paramiko.Channel, data: bytes, *, stderr: bool = False) -> None:
        """Send DATA whatever the window allows."""
        message = paramiko.Message()
        message.add_byte(bytes([MSG_CHANNEL_EXTENDED_DATA if stderr else MSG_CHANNEL_DATA]))
        message.add_int(channel.remote_chanid)  # type: ignore[attr-defined]
        if stderr:
            message.add_int(1)
        message.add_string(data)
        self._send(message)

    def send_request(self, channel: paramiko.Channel, kind: str, *fields: int) -> None:
        message = paramiko.Message()
        message.add_byte(bytes([MSG_CHANNEL_REQUEST]))
        message.add_int(channel.remote_chanid)  # type: ignore[attr-defined]
        message.add_string(kind)
        message.add_boolean(False)
        for field in fields:
            message.add_int(field)
        self._send(message)

    def _send(self, message: paramiko.Message) -> None:
        assert self.transport
        self.transport._send_message(message)  # type: ignore[attr-defined]


class _ServerTransport(paramiko.Transport):
    def __init__(self, stream: socket.socket) -> None:
        super().__init__(stream)
        self.agreed = threading.Semaphore(0)
        """Released for each request that was agreed to, once that was said."""

    def _send_user_message(self, message: paramiko.Message) -> None:
        super()._send_user_message(message)  # type: ignore[misc]
        if message.asbytes()[:1] == bytes([MSG_CHANNEL_SUCCESS]):
            self.agreed.release()


class _Transport(NegotiatingTransport, InboxTransport):
    """As a connection of a broker's has it."""


@contextmanager
def connected_to(server: HostileServer, rule: KeepaliveRule | None = None) -> Iterator[ParamikoConnection]:
    """Reach's connection to SERVER, logged in."""
    ours, theirs = socket.socketpair()
    there = _ServerTransport(theirs)
    there.add_server_key(paramiko.ECDSAKey.generate())
    server.transport = there
    there.start_server(server=server, event=threading.Event())
    here = _Transport(ours)
    here.start_client(timeout=20)
    here.auth_none("anybody")
    connection = ParamikoConnection(here, rule)
    try:
        yield connection
    finally:
        connection.close()
        there.close()
        here.join(20)
        there.join(20)
        ours.close()
        theirs.close()
