"""reach's own questions to the target: a command, and what it answered."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import time
from dataclasses import dataclass

from reach.broker.client import connect_broker
from reach.errors import BrokerUnavailableError
from reach.paths import Paths
from reach.wire.frames import Answer, encode_question, read_frame


@dataclass(frozen=True)
class Captured:
    """A finished command on the target."""

    stdout: bytes
    stderr: bytes
    exit_status: int | None
    """None when a signal ended it."""


def run_captured(paths: Paths, session: str, command: str, timeout_s: float = 30.0) -> Captured:
    """Run COMMAND on the target in the session's folder, without input, as the session's own shim would.

    A broker that is not there is started. Raises: BrokerUnavailableError when reach could not run it or it took longer
    than TIMEOUT_S.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(os.devnull, "rb") as nothing:
        descriptors = [nothing.fileno(), out.fileno(), err.fileno()]
        answer = _ask(paths, session, command, descriptors, timeout_s)
        if answer is None:  # a broker that was ending: nothing was sent on, so asking the next one is safe
            answer = _ask(paths, session, command, descriptors, timeout_s)
        if answer is None:
            raise BrokerUnavailableError("the broker went away before it took the command; it did not run")
        out.seek(0)
        err.seek(0)
        return Captured(out.read(), err.read(), _exit_status(answer))


def _ask(paths: Paths, session: str, command: str, descriptors: list[int], timeout_s: float) -> bytes | None:
    """The broker's last word; None where it went away without having taken the command.

    Closing the connection, for whatever reason, has the broker end the command.
    """
    deadline = time.monotonic() + timeout_s
    with _connect(paths, session) as connection:
        connection.settimeout(timeout_s)
        try:
            _send(connection, encode_question(session, command), descriptors)
            answer = _read(connection)
            if answer != Answer.ACCEPTED:
                return answer
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            answer = _read(connection)
        except TimeoutError:
            raise BrokerUnavailableError(f"the target did not answer within {timeout_s:g} s") from None
    if answer is None:
        raise BrokerUnavailableError("the broker went away; the command may have run, and is not run again")
    return answer


def _send(connection: socket.socket, question: bytes, descriptors: list[int]) -> None:
    """A broker that has closed already may have answered before: what it said can still be read."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        sent = socket.send_fds(connection, [question], descriptors)
        if sent < len(question):
            connection.sendall(question[sent:])


def _read(connection: socket.socket) -> bytes | None:
    """The next answer; None where the broker went away. Raises: BrokerProtocolError, TimeoutError."""
    try:
        return read_frame(connection)
    except ConnectionError:
        return None


def _connect(paths: Paths, session: str) -> socket.socket:
    try:
        return connect_broker(paths, session)
    except BrokerUnavailableError:
        from reach.broker.lifecycle import start_broker

        start_broker(paths, session)
        return connect_broker(paths, session)


def _exit_status(answer: bytes) -> int | None:
    if answer[:1] == Answer.STATUS and len(answer) == 2:
        return answer[1]
    if answer[:1] == Answer.SIGNAL:
        return None
    if answer[:1] == Answer.FAILURE:
        raise BrokerUnavailableError(answer[1:].decode("utf-8", "replace"))
    raise BrokerUnavailableError("an answer of the broker that makes no sense")
