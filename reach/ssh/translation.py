"""paramiko's and the socket's exceptions as reach's: the one place that tells them apart."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import paramiko
from paramiko.ssh_exception import IncompatiblePeer, MessageOrderError, ProxyCommandFailure

from reach.errors import (
    AuthenticationError,
    ChannelOpenError,
    ConnectError,
    ConnectionLostError,
    ReachError,
    TransportError,
)
from reach.ssh.remote_text import printable

_CHANNEL_REFUSALS = {
    1: "the server does not allow it",
    2: "the server could not connect there",
    3: "the server does not know that kind of channel",
    4: "the server is short of resources",
}
"""Source: RFC 4254, section 5.1."""

_UNREACHABLE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL}
_NO_SERVER = ("Error reading SSH protocol banner", "Indecipherable protocol version", "Invalid SSH banner")


@contextmanager
def translating(what: str, *, connecting: bool = False) -> Iterator[None]:
    """Turn what paramiko or a socket raises inside into a TransportError whose message begins with WHAT.

    CONNECTING: the connection's end means that it never came about (ConnectError), not that it was lost.
    """
    try:
        yield
    except ReachError:
        raise
    except (paramiko.SSHException, OSError, EOFError) as error:
        raise as_reach_error(error, what, connecting=connecting) from error


def as_reach_error(error: Exception, what: str, *, connecting: bool = False) -> TransportError:
    """The TransportError that stands for ERROR, which WHAT ran into."""
    if isinstance(error, paramiko.SSHException):
        return _from_ssh_exception(error, what, connecting)
    if isinstance(error, EOFError):
        return _ended(what, connecting)
    if isinstance(error, OSError):
        return _from_os_error(error, what, connecting)
    return TransportError(f"{what}: {printable(str(error))}")


def _from_ssh_exception(error: paramiko.SSHException, what: str, connecting: bool) -> TransportError:
    text = printable(str(error))
    if isinstance(error, paramiko.ChannelException):
        reason = _CHANNEL_REFUSALS.get(error.code, f"refused with code {error.code}")
        said = printable(str(error.text or ""))
        return ChannelOpenError(f"{what}: {reason}" + (f" ({said})" if said else ""))
    if isinstance(error, IncompatiblePeer):
        return ConnectError(
            f"{what}: no algorithm in common with the server ({_after_peer(text)})",
            fix="choose --transport openssh, whose ssh may have one; or widen Ciphers, MACs, KexAlgorithms or "
            "HostKeyAlgorithms in ssh_config",
        )
    if isinstance(error, paramiko.AuthenticationException):
        return AuthenticationError(f"{what}: {text}")
    if isinstance(error, ProxyCommandFailure):
        return ConnectError(f"{what}: {text}")
    if isinstance(error, MessageOrderError):
        return TransportError(f"{what}: the server broke the order of the key exchange ({text})")
    if text.startswith(_NO_SERVER):
        return _hung_up(
            ConnectError(f"{what}: no SSH server answered there", fix="check the port and what listens on it")
        )
    if text in ("SSH session not active", "No existing session", "Channel closed.", "Negotiation failed."):
        return _ended(what, connecting)
    if text.startswith("Timeout"):
        return TransportError(f"{what}: no answer in time")
    return (ConnectError if connecting else TransportError)(f"{what}: {text}")


def _after_peer(text: str) -> str:
    return text.partition("(")[2].rstrip(")") or text


def _from_os_error(error: OSError, what: str, connecting: bool) -> TransportError:
    if isinstance(error, socket.gaierror):
        return ConnectError(
            f"{what}: the name has no address ({error.strerror})",
            fix="check the spelling, or set HostName in ssh_config",
        )
    if isinstance(error, ConnectionRefusedError):
        return ConnectError(f"{what}: connection refused", fix="check that sshd runs there and listens on that port")
    if isinstance(error, TimeoutError):
        return ConnectError(f"{what}: no answer in time", fix="check that the machine is up and reachable")
    if error.errno in _UNREACHABLE:
        return ConnectError(f"{what}: {error.strerror}", fix="check the network, a VPN perhaps")
    if isinstance(error, (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)):
        return _ended(what, connecting)
    if str(error) == "Socket is closed":
        return _ended(what, connecting)
    reason = error.strerror or printable(str(error)) or type(error).__name__
    return (ConnectError if connecting else TransportError)(f"{what}: {reason}")


def _ended(what: str, connecting: bool) -> TransportError:
    if connecting:
        return _hung_up(
            ConnectError(
                f"{what}: the connection was closed before the login",
                fix="check what listens there; a busy sshd closes connections too (MaxStartups)",
            )
        )
    return ConnectionLostError(f"{what}: the connection ended")


def _hung_up(error: ConnectError) -> ConnectError:
    error.may_pass = True
    return error
