"""Logging in: which method comes next, in ssh's order, until the server is satisfied or nothing is left."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import paramiko

from reach.ssh.agent import Agent, AgentError
from reach.ssh.key_login import KeyLogin
from reach.ssh.login_record import LoginRecord
from reach.ssh.operator import NobodyThere, Operator
from reach.ssh.remote_text import printable
from reach.ssh.secrets import Secrets as Secrets
from reach.ssh.settings import HostSettings
from reach.ssh.typed_login import TypedLogin
from reach.ssh.userauth import Accepted, LoginEndedError, LoginExchange, Refused, Reply

MAX_STEPS = 10
"""How many methods in a row a server may want to see succeed."""

Attempts = Iterator[Reply]


def authenticate(transport: paramiko.Transport, settings: HostSettings, operator: Operator, secrets: Secrets) -> None:
    """Log in on TRANSPORT, whose host key has been checked.

    Raises: AuthenticationError, naming what was tried and what the server still takes.
    """
    asked = NobodyThere() if settings.is_batch else operator
    record = LoginRecord(settings)
    exchange = LoginExchange(transport, settings.user, lambda text: _tell_banner(text, operator))
    with contextlib.ExitStack() as stack:
        agent = None
        if settings.agent_socket is not None:
            try:
                agent = stack.enter_context(Agent(settings.agent_socket))
            except AgentError as error:
                record.agent_absence = str(error)
        keys = KeyLogin(exchange, settings, record, agent, asked, secrets)
        typed = TypedLogin(exchange, settings, record, asked, secrets)
        ways = {
            "publickey": keys.attempts,
            "password": typed.passwords,
            "keyboard-interactive": typed.questions,
        }
        wanted = {method: ways[method] for method in settings.methods if method in ways}
        try:
            _log_in(exchange, wanted, record)
        except LoginEndedError as error:
            raise record.broken_off(str(error), exchange.disconnect_reason) from error


def _tell_banner(text: bytes, operator: Operator) -> None:
    if shown := printable(text, lines=True).strip("\n"):
        operator.tell(shown)


def _log_in(exchange: LoginExchange, ways: dict[str, Callable[[], Attempts]], record: LoginRecord) -> None:
    """Go through WAYS, in their order, until the server accepts.

    Raises: AuthenticationError when it does not; LoginEndedError when it leaves that open.
    """
    reply = exchange.start()
    under_way: dict[str, Attempts] = {}
    steps = 0
    while not isinstance(reply, Accepted):
        if not isinstance(reply, Refused):
            raise LoginEndedError("the server's answer has no place here")
        if reply.is_partial:
            steps += 1
            under_way.clear()
        if steps > MAX_STEPS:
            raise LoginEndedError(f"the server wants more after {MAX_STEPS} steps that it accepted")
        following = _next_attempt(reply.methods, ways, under_way)
        if following is None:
            raise record.denied(reply.methods)
        reply = following


def _next_attempt(
    allowed: tuple[str, ...], ways: dict[str, Callable[[], Attempts]], under_way: dict[str, Attempts]
) -> Reply | None:
    for method, way in ways.items():
        if method in allowed:
            if method not in under_way:
                under_way[method] = way()
            reply = next(under_way[method], None)
            if reply is not None:
                return reply
    return None
