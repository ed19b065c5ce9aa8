"""The operator's SSH agent, spoken to on a socket that is named, not looked up in the environment.

paramiko's Agent reads SSH_AUTH_SOCK itself, and reads keys by classes that security keys have none of.
The agent is trusted; it is never forwarded. Source: draft-miller-ssh-agent-14.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from reach.ssh.algorithms import plain_algorithm
from reach.ssh.wire_format import Reader, WireFormatError, string, uint32

MAX_ANSWER_BYTES = 1 << 20
LIST_TIMEOUT_S = 10.0
SIGN_TIMEOUT_S = 120.0
"""An agent may ask its owner to confirm, or to touch a security key."""

_REQUEST_IDENTITIES, _IDENTITIES_ANSWER = 11, 12
_SIGN_REQUEST, _SIGN_RESPONSE = 13, 14
_FLAGS = {"rsa-sha2-256": 2, "rsa-sha2-512": 4}


class AgentError(Exception):
    """The agent is not there, refuses, or speaks something else."""


@dataclass(frozen=True)
class AgentIdentity:
    """One key that an agent holds."""

    blob: bytes
    comment: str
    agent: Agent

    def sign(self, data: bytes, algorithm: str) -> bytes:
        """Have the agent sign. Raises: AgentError."""
        return self.agent.sign(self.blob, data, algorithm)


class Agent:
    """A connection to the agent that listens on SOCKET_PATH."""

    def __init__(self, socket_path: Path) -> None:
        """Connect. Raises: AgentError."""
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.settimeout(LIST_TIMEOUT_S)
        try:
            self._connection.connect(str(socket_path))
        except (OSError, ValueError) as error:
            self._connection.close()
            raise AgentError(f"no SSH agent answers on {socket_path}") from error

    def __enter__(self) -> Agent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def identities(self) -> list[AgentIdentity]:
        """The keys it holds, in its order. Raises: AgentError."""
        reader = self._request(bytes([_REQUEST_IDENTITIES]), _IDENTITIES_ANSWER, LIST_TIMEOUT_S)
        try:
            pairs = [(reader.string(), reader.string()) for _ in range(reader.uint32())]
        except WireFormatError as error:
            raise AgentError("the SSH agent's list of keys can't be read") from error
        return [
            AgentIdentity(blob, comment.decode("utf-8", "replace"), self) for blob, comment in pairs if _has_type(blob)
        ]

    def sign(self, blob: bytes, data: bytes, algorithm: str) -> bytes:
        """Let it sign DATA with the key BLOB. Raises: AgentError."""
        flags = _FLAGS.get(plain_algorithm(algorithm), 0)
        request = bytes([_SIGN_REQUEST]) + string(blob) + string(data) + uint32(flags)
        try:
            return self._request(request, _SIGN_RESPONSE, SIGN_TIMEOUT_S).string()
        except WireFormatError as error:
            raise AgentError("the SSH agent's signature can't be read") from error

    def _request(self, body: bytes, expected: int, timeout_s: float) -> Reader:
        self._connection.settimeout(timeout_s)
        try:
            self._connection.sendall(string(body))
            length = int.from_bytes(self._receive(4), "big")
            if not 0 < length <= MAX_ANSWER_BYTES:
                raise AgentError("what answers on the agent's socket is no SSH agent")
            answer = self._receive(length)
        except OSError as error:
            raise AgentError(f"the SSH agent does not answer ({error})") from error
        if answer[0] != expected:
            raise AgentError("the SSH agent refused")
        return Reader(answer[1:])

    def _receive(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            chunk = self._connection.recv(count - len(received))
            if not chunk:
                raise AgentError("the SSH agent closed the connection")
            received += chunk
        return bytes(received)


def _has_type(blob: bytes) -> bool:
    try:
        return bool(Reader(blob).text())
    except WireFormatError:
        return False
