"""Talking to a session's broker from reach's own commands."""

from __future__ import annotations

import json
import socket
from typing import Any

from reach.errors import BrokerProtocolError, BrokerUnavailableError, error_from_code
from reach.paths import Paths
from reach.ssh.operator import Operator
from reach.wire.frames import Answer, Operation, encode_control, read_frame, write_frame

ANSWER_TIMEOUT_S = 10.0
"""How long a broker may take over what it answers at once."""


def connect_broker(paths: Paths, session: str) -> socket.socket:
    """Raises: BrokerUnavailableError when no broker serves SESSION."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(paths.socket(session)))
    except OSError as error:
        connection.close()
        raise BrokerUnavailableError(
            f"session {session!r} is not up ({error.strerror})", fix="type: reach up"
        ) from None
    return connection


def ask_broker(paths: Paths, session: str, operation: Operation, operator: Operator | None = None) -> dict[str, Any]:
    """Send a control request and return its answer; OPERATOR is asked what the broker wants to know meanwhile.

    Raises: BrokerUnavailableError, BrokerProtocolError, and whatever the broker reports.
    """
    with connect_broker(paths, session) as connection:
        if operation is not Operation.UP:  # which lasts as long as the operator takes to answer
            connection.settimeout(ANSWER_TIMEOUT_S)
        _send(connection, encode_control(operation))
        while True:
            message = _read_message(connection)
            if "ask" in message:
                answer = operator.ask(message["ask"], echo=bool(message.get("echo"))) if operator else None
                _send(connection, json.dumps({"answer": answer}).encode())
            elif "tell" in message:
                if operator:
                    operator.tell(message["tell"])
            elif "error" in message:
                error = message["error"]
                raise error_from_code(error["code"], error["message"], error.get("fix"))
            else:
                result: dict[str, Any] = message["ok"]
                return result


def _send(connection: socket.socket, payload: bytes) -> None:
    try:
        write_frame(connection, payload)
    except OSError as error:
        raise BrokerUnavailableError(f"the broker went away ({error.strerror or error})") from None


def _read_message(connection: socket.socket) -> dict[str, Any]:
    try:
        payload = read_frame(connection)
    except TimeoutError:
        raise BrokerUnavailableError(f"the broker did not answer within {ANSWER_TIMEOUT_S:g} s") from None
    except OSError as error:
        raise BrokerUnavailableError(f"the broker went away ({error.strerror})") from None
    if payload is None:
        raise BrokerUnavailableError("the broker went away")
    if payload[:1] == Answer.FAILURE:
        raise BrokerProtocolError(payload[1:].decode("utf-8", "replace"))
    try:
        message = json.loads(payload[1:])
    except ValueError:
        message = None
    if not isinstance(message, dict) or not message.keys() & {"ask", "tell", "error", "ok"}:
        raise BrokerProtocolError("an answer of the broker that makes no sense")
    return message
