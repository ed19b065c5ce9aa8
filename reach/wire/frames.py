"""Frames on the broker's socket, and the descriptors that come with the first one.

The peer is a process of the same user, and still may be broken: input is rejected, never asserted.
"""

from __future__ import annotations

import array
import os
import socket
from dataclasses import dataclass
from enum import StrEnum

from reach.errors import BrokerProtocolError, BrokerVersionError

PROTOCOL = b"1"
MAX_FRAME_BYTES = 16 << 20
"""A command may be longer than a kernel argument (128 KiB); this bounds memory, not commands people write."""
DESCRIPTORS = 3


class Operation(StrEnum):
    """What a request asks for."""

    RUN = "run"
    UP = "up"
    STATUS = "status"
    DOWN = "down"


class Answer:
    """The first byte of an answer's payload; shim/client.py holds the same list for itself."""

    ACCEPTED = b"A"
    """Comes before another answer: from now on the command may run. Without it the command did not."""
    STATUS = b"E"
    """One byte: the exit status."""
    SIGNAL = b"S"
    """One byte: the number, on this machine, of the signal that ended the command."""
    FAILURE = b"F"
    """Text: why reach did not run the command, or does not know what became of it."""
    LOCAL = b"L"
    """The shim is to run this on this machine: a hook, where hooks were allowed to."""
    JSON = b"J"


class Note:
    """The first byte of what a caller sends after its request."""

    SIGNAL = b"s"
    """One byte: the number of a signal that the shim got."""
    RESIZE = b"w"
    """The terminal on descriptor 0 has a new size."""


@dataclass(frozen=True)
class RunRequest:
    """A command to run, as the shim was called."""

    session: str
    launch: str
    """Empty outside any launch."""
    cwd: bytes
    pid: int
    """The shim's; 0 where there is none."""
    process_group: int
    command_index: int
    """Where in argv the command string is; -1: the commands come on standard input."""
    argv: list[bytes]
    """bash's arguments, without argv[0]."""
    environment: dict[bytes, bytes]

    @property
    def command(self) -> bytes | None:
        return self.argv[self.command_index] if self.command_index >= 0 else None


@dataclass(frozen=True)
class ControlRequest:
    """Anything that is no command: the operator's own questions to the broker."""

    operation: Operation
    body: bytes
    """JSON."""


def parse_request(payload: bytes) -> RunRequest | ControlRequest:
    """Shape: NUL-joined fields, see shim/client.py, encode_run; for the others version, operation, JSON.

    Raises: BrokerVersionError, BrokerProtocolError.
    """
    version, _, rest = payload.partition(b"\0")
    if version != PROTOCOL:
        raise BrokerVersionError(
            "the shim and the broker are of different versions of reach",
            fix="type: reach down --all, and start again",
        )
    name, _, rest = rest.partition(b"\0")
    try:
        operation = Operation(name.decode("ascii"))
    except ValueError:
        raise BrokerProtocolError("a request for something that the broker does not do") from None
    if operation is not Operation.RUN:
        return ControlRequest(operation, rest)
    return _parse_run(rest.split(b"\0"))


def _parse_run(fields: list[bytes]) -> RunRequest:
    try:
        session, launch, cwd, pid, group, command_index, count = fields[:7]
        argc = int(count)
        argv, environment = fields[7 : 7 + argc], fields[7 + argc :]
        request = RunRequest(
            session=session.decode(),
            launch=launch.decode(),
            cwd=cwd,
            pid=int(pid),
            process_group=int(group),
            command_index=int(command_index),
            argv=argv,
            environment=dict(entry.split(b"=", 1) for entry in environment if entry.find(b"=") > 0),
        )
    except ValueError:
        raise BrokerProtocolError("a request that is not whole") from None
    if argc < 0 or len(argv) != argc or not -1 <= request.command_index < argc or not cwd.startswith(b"/"):
        raise BrokerProtocolError("a request whose counts don't fit")
    return request


def encode_question(session: str, command: str) -> bytes:
    """A whole frame: run COMMAND for reach itself, outside any launch and with nothing of this environment."""
    fields = [PROTOCOL, b"run", session.encode(), b"", b"/", b"0", b"0", b"1", b"2", b"-c", os.fsencode(command)]
    payload = b"\0".join(fields)
    return len(payload).to_bytes(4, "big") + payload


def encode_control(operation: Operation, body: bytes = b"{}") -> bytes:
    return b"\0".join((PROTOCOL, operation.encode(), body))


def read_frame(connection: socket.socket) -> bytes | None:
    """The next frame's payload, or None when the peer closed between two frames.

    Raises: BrokerProtocolError for half a frame or one over the limit.
    """
    head = _read_exactly(connection, 4)
    if head is None:
        return None
    size = int.from_bytes(head, "big")
    if size > MAX_FRAME_BYTES:
        raise BrokerProtocolError(f"a frame of {size} bytes, over the limit of {MAX_FRAME_BYTES}")
    payload = _read_exactly(connection, size) if size else b""
    if payload is None:
        raise BrokerProtocolError("the peer closed inside a frame")
    return payload


def write_frame(connection: socket.socket, payload: bytes) -> None:
    connection.sendall(len(payload).to_bytes(4, "big") + payload)


def read_request(connection: socket.socket) -> tuple[bytes, list[int]] | None:
    """The first frame and the descriptors sent with its first byte, which are the caller's to close.

    Raises: BrokerProtocolError, after closing what came.
    """
    ancillary = socket.CMSG_SPACE(DESCRIPTORS * array.array("i").itemsize)
    flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
    data, messages, message_flags, _ = connection.recvmsg(65536, ancillary, flags)
    descriptors = _take_descriptors(messages)
    try:
        if not data:
            return None
        if message_flags & socket.MSG_CTRUNC:
            raise BrokerProtocolError("more descriptors than the three of a shim")
        while len(data) < 4:
            data += _more(connection, 4 - len(data))
        size = int.from_bytes(data[:4], "big")
        if size > MAX_FRAME_BYTES:
            raise BrokerProtocolError(f"a request of {size} bytes, over the limit of {MAX_FRAME_BYTES}; it did not run")
        if len(data) - 4 > size:
            raise BrokerProtocolError("a first frame that is not alone")
        parts = [data[4:]]
        missing = size - len(parts[0])
        while missing:
            parts.append(_more(connection, missing))
            missing -= len(parts[-1])
        return b"".join(parts), descriptors
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise


def _take_descriptors(messages: list[tuple[int, int, bytes]]) -> list[int]:
    numbers = array.array("i")
    for level, kind, data in messages:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    return list(numbers)


def _more(connection: socket.socket, size: int) -> bytes:
    chunk = connection.recv(min(size, 1 << 20))
    if not chunk:
        raise BrokerProtocolError("the peer closed inside its request")
    return chunk


def _read_exactly(connection: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            if data:
                raise BrokerProtocolError("the peer closed inside a frame")
            return None
        data += chunk
    return data
