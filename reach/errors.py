"""Every failure that reach reports, as one tree.

ReachError
├── ConfigError ─ TargetSyntaxError
├── SessionError ─ SessionNotFoundError, SessionExistsError, SessionRecordError
├── BrokerError ─ BrokerUnavailableError, BrokerProtocolError, BrokerVersionError
├── TransportError ─ ConnectError, AuthenticationError, HostKeyUnknownError, HostKeyMismatchError,
│                    ChannelOpenError, ConnectionLostError
└── HarnessError ─ HarnessNotFoundError, SeamBypassedError, SurfaceLeakyError

A message says what happened; `fix` says what to type next. A non-zero exit status is a value, never one of these.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar


class ErrorCode(StrEnum):
    """The closed list of failure codes that travel between processes."""

    CONFIG = "config"
    TARGET_SYNTAX = "target-syntax"
    SESSION = "session"
    SESSION_NOT_FOUND = "session-not-found"
    SESSION_EXISTS = "session-exists"
    SESSION_RECORD = "session-record"
    BROKER = "broker"
    BROKER_UNAVAILABLE = "broker-unavailable"
    BROKER_PROTOCOL = "broker-protocol"
    BROKER_VERSION = "broker-version"
    TRANSPORT = "transport"
    CONNECT = "connect"
    AUTHENTICATION = "authentication"
    HOST_KEY_UNKNOWN = "host-key-unknown"
    HOST_KEY_MISMATCH = "host-key-mismatch"
    CHANNEL_OPEN = "channel-open"
    CONNECTION_LOST = "connection-lost"
    HARNESS = "harness"
    HARNESS_NOT_FOUND = "harness-not-found"
    SEAM_BYPASSED = "seam-bypassed"
    SURFACE_LEAKY = "surface-leaky"


class ReachError(Exception):
    """A failure with one line for the person who reads it."""

    code: ClassVar[ErrorCode]
    exit_code: ClassVar[int] = 125
    """The local process's exit code when this error ends it."""

    def __init__(self, message: str, *, fix: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        """What to type or do next, without a final full stop."""

    def __str__(self) -> str:
        return f"{self.message}; {self.fix}" if self.fix else self.message


class ConfigError(ReachError):
    code = ErrorCode.CONFIG
    exit_code = 2


class TargetSyntaxError(ConfigError):
    code = ErrorCode.TARGET_SYNTAX


class SessionError(ReachError):
    code = ErrorCode.SESSION


class SessionNotFoundError(SessionError):
    code = ErrorCode.SESSION_NOT_FOUND
    exit_code = 2

    def __init__(self, name: str | None) -> None:
        """NAME is None where none was named and there is none at all."""
        if name is None:
            super().__init__("there is no session yet", fix="type: reach up TARGET")
        else:
            super().__init__(f"no session named {name!r}", fix=f"type: reach up TARGET --name {name}")


class SessionExistsError(SessionError):
    code = ErrorCode.SESSION_EXISTS
    exit_code = 2


class SessionRecordError(SessionError):
    code = ErrorCode.SESSION_RECORD


class BrokerError(ReachError):
    code = ErrorCode.BROKER


class BrokerUnavailableError(BrokerError):
    code = ErrorCode.BROKER_UNAVAILABLE


class BrokerProtocolError(BrokerError):
    code = ErrorCode.BROKER_PROTOCOL


class BrokerVersionError(BrokerError):
    code = ErrorCode.BROKER_VERSION


class TransportError(ReachError):
    code = ErrorCode.TRANSPORT


class ConnectError(TransportError):
    """The target could not be reached, or what answered is no SSH server."""

    code = ErrorCode.CONNECT
    may_pass: bool = False
    """The server hung up before it said who it is, as a busy one does (MaxStartups): trying again soon may do."""


class AuthenticationError(TransportError):
    code = ErrorCode.AUTHENTICATION


class HostKeyUnknownError(TransportError):
    code = ErrorCode.HOST_KEY_UNKNOWN


class HostKeyMismatchError(TransportError):
    code = ErrorCode.HOST_KEY_MISMATCH


class ChannelOpenError(TransportError):
    """The server refused one more channel on this connection; another connection may do."""

    code = ErrorCode.CHANNEL_OPEN


class ConnectionLostError(TransportError):
    """The connection ended while something was under way on it."""

    code = ErrorCode.CONNECTION_LOST


class HarnessError(ReachError):
    code = ErrorCode.HARNESS


class HarnessNotFoundError(HarnessError):
    code = ErrorCode.HARNESS_NOT_FOUND


class SeamBypassedError(HarnessError):
    code = ErrorCode.SEAM_BYPASSED
    exit_code = 1


class SurfaceLeakyError(HarnessError):
    code = ErrorCode.SURFACE_LEAKY
    exit_code = 1


def error_from_code(code: str, message: str, fix: str | None) -> ReachError:
    """The error that another process reported; a code that is not of the list gives a BrokerProtocolError."""
    found = _by_code(ReachError).get(code, BrokerProtocolError)
    error = found.__new__(found)
    ReachError.__init__(error, message, fix=fix)
    return error


def _by_code(parent: type[ReachError]) -> dict[str, type[ReachError]]:
    known: dict[str, type[ReachError]] = {}
    for child in parent.__subclasses__():
        known[child.code] = child
        known |= _by_code(child)
    return known
