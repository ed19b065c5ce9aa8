"""Ways to a server that are no plain TCP connection: through another SSH connection, or through a command."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import threading

import paramiko

from reach.errors import ChannelOpenError, ConnectError
from reach.ssh.host_settings import HostSettings
from reach.ssh.remote_text import printable
from reach.ssh.translation import translating

IDLE_WAKE_S = 15.0
"""How often the thread of a jump host's connection looks around when nothing comes; paramiko's own is 0.1 s."""
END_GRACE_S = 0.5
"""A proxy ends by itself when its standard input does; one that does not is killed."""
KILL_GRACE_S = 2.0
MAX_STDERR_BYTES = 4096
MAX_COMPLAINT_CHARACTERS = 400


class JumpStream:
    """A channel through a jump host's connection, as paramiko wants a socket; both close together."""

    def __init__(self, channel: paramiko.Channel, hop: paramiko.Transport) -> None:
        self._channel = channel
        self._hop = hop

    def send(self, data: bytes) -> int:
        return self._channel.send(data)

    def recv(self, count: int) -> bytes:
        return self._channel.recv(count)

    def shutdown(self, how: int) -> None:
        """Wake whoever reads, whatever HOW says: the end of this stream is the end of the connection."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()

    def settimeout(self, timeout_s: float | None) -> None:
        self._channel.settimeout(timeout_s)

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()
        with contextlib.suppress(OSError):
            self._hop.sock.shutdown(socket.SHUT_RDWR)  # else its thread notices at its next waking only
        self._hop.close()

    @property
    def _closed(self) -> bool:
        return self._channel.closed


def open_through(hop: paramiko.Transport, settings: HostSettings, timeout_s: float) -> JumpStream:
    """Have HOP's server connect to the host of SETTINGS.

    Raises: ConnectError, ConnectionLostError, ChannelOpenError as ConnectError.
    """
    way = settings.jump.label if settings.jump else "the jump host"
    there = (settings.hostname, settings.port)
    try:
        with translating(f"connecting to {settings.label} through {way}", connecting=True):
            channel = hop.open_channel("direct-tcpip", there, ("127.0.0.1", 0), timeout=timeout_s)
    except ChannelOpenError as error:
        hop.close()
        raise ConnectError(error.message, fix=f"check from {way}; its sshd needs AllowTcpForwarding") from error
    except BaseException:
        hop.close()
        raise
    interval_s = settings.jump.keepalive_interval_s if settings.jump else 0
    hop.set_keepalive(interval_s)
    hop.sock.settimeout(min(interval_s, IDLE_WAKE_S) or IDLE_WAKE_S)
    return JumpStream(channel, hop)


class CommandStream:
    """A ProxyCommand and the socket to its standard input and output, as paramiko wants one.

    paramiko's own ProxyCommand reads in a loop that never sees the end of the command's output.
    """

    def __init__(self, command: str) -> None:
        """Start COMMAND by `exec` in the operator's shell, as ssh does.

        Raises: OSError.
        """
        self._closing = threading.Lock()
        self._last_words = ""
        self._stderr = tempfile.TemporaryFile()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [os.environ.get("SHELL") or "/bin/sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._stderr,
                start_new_session=True,
            )

    def send(self, data: bytes) -> int:
        return self._socket.send(data)

    def recv(self, count: int) -> bytes:
        return self._socket.recv(count)

    def shutdown(self, how: int) -> None:
        self._socket.shutdown(how)

    def settimeout(self, timeout_s: float | None) -> None:
        self._socket.settimeout(timeout_s)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        """End the command and everything it started."""
        with self._closing:
            if not self._stderr.closed:
                self._end()

    def _end(self) -> None:
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=END_GRACE_S)
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=KILL_GRACE_S)
        self._last_words = self._read_complaint()
        self._stderr.close()

    @property
    def _closed(self) -> bool:
        return self._socket.fileno() == -1

    def complaint(self) -> str:
        """What the command wrote to its standard error, made short, and its exit code if it ended."""
        with self._closing:
            return self._last_words if self._stderr.closed else self._read_complaint()

    def _read_complaint(self) -> str:
        written = os.pread(self._stderr.fileno(), MAX_STDERR_BYTES, 0).strip()
        said = printable(written)[-MAX_COMPLAINT_CHARACTERS:] or "it said nothing"
        code = self._process.poll()
        return f"{said} (exit code {code})" if code is not None and code >= 0 else said


def open_command(settings: HostSettings) -> CommandStream:
    """Start the ProxyCommand of SETTINGS.

    Raises: ConnectError.
    """
    assert settings.proxy_command is not None
    try:
        return CommandStream(settings.proxy_command)
    except OSError as error:
        raise ConnectError(
            f"connecting to {settings.label}: the ProxyCommand can't be run ({error.strerror})"
        ) from error
