from __future__ import annotations

import errno
import socket

import paramiko
import pytest
from paramiko.ssh_exception import IncompatiblePeer, MessageOrderError, ProxyCommandFailure

from reach.errors import (
    AuthenticationError,
    ChannelOpenError,
    ConfigError,
    ConnectError,
    ConnectionLostError,
    ReachError,
    TransportError,
)
from reach.ssh.translation import translating

BANNER = "Error reading SSH protocol banner"


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), ConnectError, "connection refused"),
        (TimeoutError("timed out"), ConnectError, "no answer in time"),
        (socket.gaierror(-2, "Name or service not known"), ConnectError, "the name has no address"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), ConnectError, "No route to host"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), ConnectError, "Network is unreachable"),
        (ConnectionResetError(errno.ECONNRESET, "reset"), ConnectionLostError, "the connection ended"),
        (BrokenPipeError(errno.EPIPE, "pipe"), ConnectionLostError, "the connection ended"),
        (OSError("Socket is closed"), ConnectionLostError, "the connection ended"),
        (EOFError(), ConnectionLostError, "the connection ended"),
        (paramiko.SSHException("SSH session not active"), ConnectionLostError, "the connection ended"),
        (paramiko.SSHException("Channel closed."), ConnectionLostError, "the connection ended"),
        (paramiko.SSHException(BANNER), ConnectError, "no SSH server answered there"),
        (paramiko.SSHException(f"{BANNER}[Errno 104] reset"), ConnectError, "no SSH server answered there"),
        (paramiko.SSHException("Timeout opening channel."), TransportError, "no answer in time"),
        (paramiko.SSHException("odd \x1b[2J"), TransportError, "odd \\x1b[2J"),
        (IncompatiblePeer("Incompatible ssh server (no acceptable ciphers)"), ConnectError, "no acceptable ciphers"),
        (MessageOrderError("out of order"), TransportError, "out of order"),
        (ProxyCommandFailure("nc", "3"), ConnectError, "nc"),
        (paramiko.AuthenticationException("no"), AuthenticationError, "no"),
        (paramiko.ChannelException(1, "a\x07b"), ChannelOpenError, r"the server does not allow it (a\x07b)"),
        (paramiko.ChannelException(2, "Connect failed"), ChannelOpenError, "could not connect there"),
        (paramiko.ChannelException(4, ""), ChannelOpenError, "short of resources"),
        (paramiko.ChannelException(99, ""), ChannelOpenError, "code 99"),
    ],
    ids=lambda value: str(value)[:40].replace("\x1b", "").replace("\x07", "") if isinstance(value, Exception) else None,
)
def test_every_failure_has_its_error_and_its_words(error: Exception, kind: type[ReachError], words: str) -> None:
    with pytest.raises(TransportError) as raised, translating("opening the box"):
        raise error
    assert type(raised.value) is kind
    assert raised.value.message.startswith("opening the box: ")
    assert words in raised.value.message
    assert str(raised.value).isprintable()
    assert raised.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [ConnectionResetError(), BrokenPipeError(), EOFError(), paramiko.SSHException("Negotiation failed.")],
    ids=lambda error: type(error).__name__,
)
def test_end_before_the_login_is_no_loss(error: Exception) -> None:
    with pytest.raises(ConnectError, match="closed before the login"), translating("box", connecting=True):
        raise error


def test_errors_of_reach_pass_through() -> None:
    with pytest.raises(ConfigError, match="^mine$"), translating("box"):
        raise ConfigError("mine")


def test_mistakes_of_the_program_are_not_dressed_up() -> None:
    with pytest.raises(ZeroDivisionError), translating("box"):
        raise ZeroDivisionError
