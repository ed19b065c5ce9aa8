"""The operator's own requests to a broker: connect, tell how you are, end."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

from reach.broker.state import Broker
from reach.errors import BrokerProtocolError, ReachError
from reach.wire.frames import Answer, ControlRequest, Operation, read_frame, write_frame


def serve_control(broker: Broker, peer: socket.socket, request: ControlRequest) -> None:
    """Answer one control request; for `up`, after a dialogue with whoever asked. Ending is the caller's part."""
    if request.operation is Operation.UP:
        broker.note_use()
        _send(peer, _up(broker, peer))
    elif request.operation is Operation.STATUS:
        _send(peer, {"ok": status(broker)})
    else:
        _send(peer, {"ok": {"pid": os.getpid()}})


def _up(broker: Broker, peer: socket.socket) -> dict[str, Any]:
    try:
        broker.check_session()
        facts = broker.connect_facts(_Relayed(peer))
    except ReachError as error:
        return {"error": {"code": error.code, "message": error.message, "fix": error.fix}}
    return {
        "ok": {
            "hostname": facts.hostname,
            "folder": facts.folder,
            "login_shell": facts.login_shell,
            "shell": facts.shell,
            "login_shell_failed": facts.login_shell_failed,
            "audit_problem": broker.audit.problem(),
        }
    }


def status(broker: Broker) -> dict[str, Any]:
    """What `reach status` shows of a running broker."""
    warm, warm_pty = broker.pool.warm_counts()
    connections, choice = broker.pool.connections(), broker.transport
    return {
        "pid": os.getpid(),
        "started": broker.started,
        "connections": len(connections),
        "transport": choice.name if choice else None,
        "transport_why": choice.why if choice else None,
        "transport_lacks": list(choice.lacks) if choice else [],
        "warm_workers": warm + warm_pty,
        "commands_running": len(broker.running.running()),
        "idle_s": broker.idle_s(),
        "audit_failing": broker.audit.is_failing,
        "audit_lost": broker.audit.lost,
    }


class _Relayed:
    """The operator at the other end of PEER: questions go there as frames, and the answers come back so."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer

    def ask(self, prompt: str, *, echo: bool) -> str | None:
        try:
            _send(self._peer, {"ask": prompt, "echo": echo})
            answer = _receive(self._peer)
        except (OSError, BrokerProtocolError):
            return None
        value = answer.get("answer") if isinstance(answer, dict) else None
        return value if isinstance(value, str) else None

    def tell(self, text: str) -> None:
        try:
            _send(self._peer, {"tell": text})
        except OSError:
            pass


def _send(peer: socket.socket, message: dict[str, Any]) -> None:
    write_frame(peer, Answer.JSON + json.dumps(message).encode())


def _receive(peer: socket.socket) -> Any:
    payload = read_frame(peer)
    if payload is None:
        return None
    try:
        return json.loads(payload)
    except ValueError:
        raise BrokerProtocolError("an answer that is no JSON") from None
