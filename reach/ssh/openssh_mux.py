"""The socket on which a master of OpenSSH's takes requests, and the way to its connection's own channels.

Once it agreed to be a proxy, what goes over the socket is the SSH connection protocol in plain packets: exit signals,
windows and refusals are the server's own. Source: PROTOCOL.mux of OpenSSH 9.2; proxy mode is in OpenSSH since 7.4.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from reach.errors import ConnectionLostError, TransportError
from reach.ssh.remote_text import printable
from reach.ssh.wire_format import Reader, WireFormatError, string, uint32

VERSION = 4
ANSWER_TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 1 << 16

SESSION_TIMEOUT_S = 20.0
"""The server has to answer, and an account's start-up files to run."""

_HELLO = 0x00000001
_NEW_SESSION, _SESSION_OPENED = 0x10000002, 0x80000006
_DENIED, _FAILED = 0x80000002, 0x80000003
_NO_ESCAPE_CHARACTER = 0xFFFFFFFF
_ALIVE_CHECK, _ALIVE = 0x10000004, 0x80000005
_TERMINATE = 0x10000005
_PROXY, _PROXY_AGREED = 0x1000000F, 0x8000000F


@dataclass(frozen=True)
class ProxySocket:
    """A socket that carries the connection protocol from now on."""

    socket: socket.socket
    master_pid: int


def open_proxy(path: Path) -> ProxySocket:
    """Have the master that listens on PATH pass the connection protocol through.

    Raises: ConnectionLostError when no master answers there; TransportError when it can't do that.
    """
    connection = _connect(path)
    try:
        pid = _master_pid(connection)
        if _ask(connection, _PROXY) is None:
            raise TransportError("the running ssh has no proxy mode", fix="use OpenSSH 7.4 or later")
        connection.settimeout(None)
        return ProxySocket(connection, pid)
    except OSError as error:
        connection.close()
        raise _silent(error) from error
    except BaseException:
        connection.close()
        raise


def is_master(path: Path) -> bool:
    """Whether a master answers on PATH, as `ssh -O check` finds out."""
    try:
        with _connect(path) as connection:
            _master_pid(connection)
    except (OSError, TransportError):
        return False
    return True


def try_session(path: Path) -> str | None:
    """Have the master on PATH open a session that does nothing, and wait for its end; why it was refused, or None.

    Raises: ConnectionLostError, TransportError.
    """
    command = string("") + uint32(0) * 4 + uint32(_NO_ESCAPE_CHARACTER) + string("dumb") + string(":")
    with _connect(path) as connection, open(os.devnull, "r+b") as nothing:
        try:
            connection.settimeout(SESSION_TIMEOUT_S)
            _send(connection, uint32(_NEW_SESSION) + uint32(0) + command)
            for _ in range(3):
                socket.send_fds(connection, [b"\0"], [nothing.fileno()])
            answer = Reader(_receive(connection))
            kind, _ = answer.uint32(), answer.uint32()
            if kind in (_DENIED, _FAILED):
                return printable(answer.string())
            while connection.recv(1 << 12):  # how it ended, and then the end
                pass
        except (OSError, WireFormatError) as error:
            raise _silent(error) from error
    return None if kind == _SESSION_OPENED else "the ssh master gave an answer of another protocol"


def end_master(path: Path) -> bool:
    """Have the master on PATH end, as `ssh -O exit` does; False where none answers."""
    try:
        with _connect(path) as connection:
            _send(connection, uint32(_TERMINATE) + uint32(0))
            _receive(connection)
    except (OSError, TransportError):
        return False
    return True


def _connect(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(ANSWER_TIMEOUT_S)
        connection.connect(str(path))
        _send(connection, uint32(_HELLO) + uint32(VERSION))
        hello = Reader(_receive(connection))
        if (hello.uint32(), hello.uint32()) != (_HELLO, VERSION):
            raise TransportError("what answers on the ssh master's socket speaks another protocol")
    except (OSError, WireFormatError) as error:
        connection.close()
        raise _silent(error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _master_pid(connection: socket.socket) -> int:
    answer = _ask(connection, _ALIVE_CHECK)
    if answer is None:
        raise TransportError("what answers on the ssh master's socket speaks another protocol")
    return answer.uint32()


def _ask(connection: socket.socket, request: int) -> Reader | None:
    """Send REQUEST and read the answer to it; None when the master refused."""
    expected = {_ALIVE_CHECK: _ALIVE, _PROXY: _PROXY_AGREED}[request]
    _send(connection, uint32(request) + uint32(0))
    try:
        answer = Reader(_receive(connection))
        if answer.uint32() != expected or answer.uint32() != 0:
            return None
    except WireFormatError as error:
        raise _silent(error) from error
    return answer


def _send(connection: socket.socket, message: bytes) -> None:
    connection.sendall(string(message))


def _receive(connection: socket.socket) -> bytes:
    size = int.from_bytes(_receive_exactly(connection, 4), "big")
    if size > MAX_ANSWER_BYTES:
        raise TransportError("what answers on the ssh master's socket speaks another protocol")
    return _receive_exactly(connection, size)


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionLostError("the ssh master ended")
        received += chunk
    return received


def _silent(error: Exception) -> ConnectionLostError:
    return ConnectionLostError(f"the ssh master does not answer ({printable(str(error))})")
